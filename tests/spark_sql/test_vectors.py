"""Expressions over Arrow arrays give what Spark gives, value by value, or leave it to Spark."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal

import pyarrow as pa
import pytest

from headrace.catalog import Column
from headrace.intervals import Interval
from headrace.operators.vectorize import vectorized_expression
from headrace.operators.vectors import FAULTS, Constant, columns_of
from headrace.sql.bind import bind_expression
from headrace.sql.dialect import parse_expression
from headrace.sql.expressions import Expressions
from headrace.types import SqlType, quote_spark

COLUMNS = [
    Column(name=name, type=kind)
    for name, kind in {
        "s": SqlType("smallint"),
        "i": SqlType("integer"),
        "j": SqlType("integer"),
        "b": SqlType("bigint"),
        "n": SqlType("numeric", precision=10, scale=2),
        "m": SqlType("numeric", precision=6, scale=3),
        "u": SqlType("numeric"),
        "f": SqlType("real"),
        "d": SqlType("double precision"),
        "t": SqlType("varchar"),
        "v": SqlType("varchar"),
        "y": SqlType("bytea"),
        "o": SqlType("boolean"),
        "p": SqlType("boolean"),
        "day": SqlType("date"),
        "ts": SqlType("timestamp"),
        "tz": SqlType("timestamptz"),
        "span": SqlType("interval"),
        "wait": SqlType("interval"),
        "doc": SqlType("jsonb"),
    }.items()
]

SAME = """
    i; t; doc; span; 7; -3; 1.50; true; 3000000000; i + 1; i - j; i * 2; s + s; s + i; i + b; b * 2; -i; i / 3; b / 7; i % 7; -7 / 2; s % 3
    n + 1; n - m; n * i; n * m; n * 2; n + 1.005; s * n; m + b; n * m * n * m * i; n / 3; n / 7.5; 100.00 * n / 7; n / (m * m + 1); i / 3.7; b / (m * m + 1); 2 / (n * n + 0.7); 100.00 * u / (n * n + 0.7); d + d; d * d; d - 1.5::double precision; f + f; f * f
    i = j; i <> j; i < 3; i <= b; s > i; i >= 0; n = 1.5; n < m; n < i; m >= 1; t = 'abc'; t < v; t > ''; t <> v; t = NULL
    day < '2024-01-01'; day = DATE '2024-02-29'; ts >= '2024-01-01 10:00:00'; tz < '2024-01-01 00:00:00+02'; f > d; d > 1; d < 1.5; o = p; o <> p; y = '\\x00ff'
    ts + INTERVAL '10 seconds'; ts - INTERVAL '1 day 2 hours'; ts + wait; ts < '2024-01-01 10:00:00'::timestamp - INTERVAL '1 hour'; date_bin('10 seconds', ts, '1970-01-01'); date_bin('7 hours', ts, TIMESTAMP '2024-01-01' + INTERVAL '90 minutes') - INTERVAL '1 minute'
    span > '1 hour'; o AND p; o OR p; NOT o; o AND i > 0; i > 0 OR NULL; NOT (i > 0 AND n < 5); o; (o)
    i IS NULL; i IS NOT NULL; t IS NULL; (i + 1) IS NULL; o IS TRUE; o IS NOT TRUE; o IS FALSE; (i > 0) IS TRUE
    i BETWEEN 0 AND 5; i NOT BETWEEN 0 AND 5; t BETWEEN 'a' AND 'm'; n BETWEEN i AND 3; i IN (1, 2, 3); 1 IN (1, 2); o AND 3 IN (1, 2); i NOT IN (1, 2); t IN ('a', 'abc'); n IN (1, 2.5)
    t || v; t || '-' || v; 'x' || t; upper(t); lower(t); length(t); char_length(v); abs(i); coalesce(i, 0); coalesce(t, v, 'none'); coalesce(i, b); substring(t FROM 1 FOR 2); substring(t FROM 2); substr(v, 2, 1); substring(t, 3, 0); substring('äöü' || t FROM 2 FOR 3); extract(year FROM day); extract(month FROM day); extract(day FROM day)
    extract(year FROM ts); extract(hour FROM ts); extract(minute FROM ts); to_char(ts, 'YYYY-MM-DD'); to_char(ts, 'YYYY-MM-DD HH24:MI:SS.US'); to_char(day, 'DD.MM.YYYY'); to_char(ts, 'hh24mi/MS'); to_char(ts, '--'); date_trunc('hour', ts); date_trunc('day', ts); date_trunc('week', ts); date_trunc('month', ts); date_trunc('quarter', ts); date_trunc('year', ts); date_trunc('minute', ts)
    split_part(t || '/x//' || v, '/', 2); split_part(t, 'b', 1); split_part(t, 'b', 2); split_part(t, 'b', 3); split_part(t, 'bc', 2); replace(t, 'b', 'xyz'); replace(t || v, 'ab', ''); nullif(i, 0); nullif(t, v); nullif(n, 1)
    CASE WHEN i > 0 THEN 'plus' WHEN i < 0 THEN 'minus' ELSE 'none' END; CASE WHEN o THEN i END; CASE i WHEN 1 THEN 'one' WHEN 2 THEN v END
    CASE WHEN i > 0 THEN n ELSE i END; t LIKE 'a%'; t LIKE '%c'; t LIKE '%b%'; t LIKE 'abc'; t NOT LIKE 'a%'; t LIKE '%a%b%'; t NOT LIKE 'a%c'; t LIKE '%%b%%'; i::bigint; i::numeric(12,2); s::int + 1; f::double precision
"""  # noqa: E501
SAME = [each.strip() for line in SAME.strip().splitlines() for each in line.split(";") if each.strip()]

SPARKS = """
    d / 2.0; i + d; u * u; u + u; n % 2; t || i; now(); t ~ 'a'; t LIKE 'a_c'; t NOT LIKE v; doc = '1'; i::text; n::int; d::int
    t::varchar(2); substring(t FROM i); substring(t FROM 0 FOR 2); substring(t FROM 'a.'); substring(y FROM 1 FOR 2); md5(t); i IN (1, NULL); (i, j) = (1, 2); i IS DISTINCT FROM j; day + 1; ts - ts; tz + span; ts + INTERVAL '1 month'; date_bin('1 hour', tz, '1970-01-01'); day + INTERVAL '1 month'; ts + INTERVAL '1 day' * i; -n; day < ts; d < i; round(n, 1); o < p; d IN (1.5, 2)
    extract(second FROM ts); extract(hour FROM tz); to_char(ts, 'YYYY Mon'); to_char(ts, 'HH12'); to_char(ts, 'SSSS'); to_char(ts, 'DDD'); to_char(ts, 'FMDD'); to_char(ts, 'DDth'); replace(t, '', 'x'); replace(t, v, 'x'); to_char(ts, '"at" YYYY'); to_char(tz, 'YYYY'); date_trunc('decade', ts); date_trunc('day', tz); split_part(t, v, 1); split_part(t, 'b', -1)
    array[i, j]; t COLLATE "C" < v; i BETWEEN SYMMETRIC 5 AND 0; 'a'; NULL; d::real
"""  # noqa: E501
SPARKS = [each.strip() for line in SPARKS.strip().splitlines() for each in line.split(";") if each.strip()]


def rows(seed: int, count: int = 300) -> pa.Table:
    source = random.Random(seed)
    midnight = datetime.datetime(2024, 1, 1)

    def maybe(value):
        return None if source.random() < 0.15 else value

    def number(low, high):
        return source.choice([0, 1, -1, 2, 5, low, high, source.randint(low, high), source.randint(-9, 9)])

    def text():
        return source.choice(["", "a", "abc", "ABC", "b%", "a_c", "xbx", "abc ", "c", "1", "mm"])

    def moment():
        return midnight + datetime.timedelta(minutes=source.randint(-1000, 1000) * 30)

    def span(months):
        return Interval(months, source.randint(-40, 40), source.randint(-100, 100) * 60_000_000).stored

    values = {
        "s": lambda: number(-150, 150),
        "i": lambda: number(-40_000, 40_000),
        "j": lambda: number(-9, 9),
        "b": lambda: number(-(2**40), 2**40),
        "n": lambda: Decimal(number(-(10**9), 10**9)).scaleb(-2),
        "m": lambda: Decimal(number(-(10**5), 10**5)).scaleb(-3),
        "u": lambda: Decimal(number(-(10**9), 10**9)),
        "f": lambda: source.choice([0.0, -0.0, 1.5, 0.1, -2.25, 1e10]),
        "d": lambda: source.choice([0.0, -0.0, 1.5, 0.1, -2.25, 1e300, source.random()]),
        "t": text,
        "v": text,
        "y": lambda: source.choice([b"", b"\x00\xff", b"a"]),
        "o": lambda: source.random() < 0.5,
        "p": lambda: source.random() < 0.5,
        "day": lambda: source.choice([datetime.date(2024, 2, 29), moment().date()]),
        "ts": moment,
        "tz": lambda: moment().replace(tzinfo=datetime.UTC),
        "span": lambda: span(source.randint(-1, 1)),
        "wait": lambda: span(0),
        "doc": lambda: source.choice(["1", '{"a":1}', "null"]),
    }
    arrays = [pa.array([maybe(values[each.name]()) for _ in range(count)], each.type.arrow) for each in COLUMNS]
    return pa.Table.from_arrays(arrays, names=[each.name for each in COLUMNS])


def bound(text: str):
    return bind_expression(parse_expression(text), COLUMNS, "r")


def by_arrow(text: str, table: pa.Table) -> list:
    vector = vectorized_expression(bound(text))
    assert vector is not None, f"{text} is left to Spark"
    found = vector.evaluate(table)
    return [found.as_py()] * table.num_rows if isinstance(found, pa.Scalar) else found.to_pylist()


def exactly(values: list) -> list:
    """0.0 is not -0.0, and 1.50 not 1.5."""
    return [repr(each) if isinstance(each, (float, Decimal)) else each for each in values]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return rows(seed=7)


@pytest.fixture(scope="module")
def sparks(session, table) -> dict[str, list]:
    """What Spark makes of all of them, in one query."""
    schema = ", ".join(f"{quote_spark(each.name)} {each.type.spark}" for each in COLUMNS)
    frame = session.createDataFrame(table, schema=schema).coalesce(1)
    found = [Expressions(qualified=False).value(bound(text)) for text in SAME]
    answer = frame.selectExpr(*(f"{each.sql} AS c{number}" for number, each in enumerate(found))).toArrow()
    kinds = [each.type.arrow for each in found]
    return {text: answer[n].cast(kind).to_pylist() for n, (text, kind) in enumerate(zip(SAME, kinds, strict=True))}


@pytest.mark.parametrize("text", SAME)
def test_arrow_gives_what_spark_gives(sparks, table, text):
    assert exactly(by_arrow(text, table)) == exactly(sparks[text])


@pytest.mark.parametrize("text", SPARKS)
def test_left_to_spark(text):
    assert vectorized_expression(bound(text)) is None


@pytest.mark.parametrize(
    ("text", "column", "value"),
    [
        ("i + 2000000000", "i", 2_000_000_000),
        ("s * 1000::smallint", "s", 30_000),
        ("i / j", "j", 0),
        ("i % j", "j", 0),
        ("m / n", "n", Decimal(0)),
        ("n / 0.0000000000001", "n", Decimal("99999999.99")),
        ("-i", "i", -(2**31)),
        ("abs(b)", "b", -(2**63)),
        ("upper(t)", "t", "straße"),
        ("lower(t)", "t", "İ"),
        ("d < 5::double precision", "d", float("nan")),
        ("f = f", "f", float("nan")),
        ("ts + span", "span", Interval(1, 0, 0).stored),
    ],
)
def test_values_that_only_spark_can_judge(text, column, value):
    """Overflow, division by zero, letters beyond ASCII and NaN: the evaluation stops, and Spark is asked."""
    kind = next(each.type for each in COLUMNS if each.name == column)
    table = rows(seed=1, count=1)
    for each in COLUMNS:
        if each.name != column:
            table = table.set_column(
                table.schema.get_field_index(each.name),
                each.name,
                pa.array([1 if each.name in "ijsm" else None], each.type.arrow),
            )
    table = table.set_column(table.schema.get_field_index(column), column, pa.array([value], kind.arrow))
    with pytest.raises(FAULTS):
        by_arrow(text, table)


def test_columns_that_are_read():
    assert columns_of(vectorized_expression(bound("CASE WHEN i > 0 THEN n * j END"))) == {"i", "n", "j"}
    assert columns_of(Constant(1, pa.int32())) == set()
