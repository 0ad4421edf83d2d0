"""Time zones: names, clocks, and queries that say in which zone they are meant."""

from __future__ import annotations

import pytest

from headrace.catalog import TABLE, VIEW, Catalog, Column, Relation
from headrace.errors import DataError, HeadraceError, InvalidParameterValue
from headrace.sql.bind import bind_query
from headrace.sql.dialect import parse_query
from headrace.sql.explicit import explicit_as
from headrace.sql.literals import from_text
from headrace.sql.parse import parse
from headrace.sql.translate import to_spark
from headrace.sql.zoned import meant_in
from headrace.types import SqlType
from headrace.zones import named_zone, session_zone

BERLIN = "Europe/Berlin"
TIMESTAMPTZ = SqlType("timestamptz")


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    kinds = {"a": "timestamptz", "b": "timestamp", "c": "date", "n": "integer"}
    columns = tuple(Column(name=name, type=SqlType(kind)) for name, kind in kinds.items())
    return (
        Catalog()
        .add(Relation(id=1, name="t", kind=TABLE, columns=columns))
        .add(
            Relation(
                id=2,
                name="v",
                kind=VIEW,
                columns=(Column(name="d", type=SqlType("date")), columns[0]),
                query='SELECT CAST("t"."a" AS DATE) AS "d", "t"."a" AS "a" FROM "public"."t" AS "t"',
                depends_on=(1,),
            )
        )
    )


def bound(catalog: Catalog, item: str, *, source: str = "t", **more) -> str:
    """The text of a query's only column, which binds to itself."""
    query = bind_query(parse_query(f"SELECT {item} AS x FROM {source}"), catalog, zone=BERLIN, **more)
    assert bind_query(parse_query(query.text()), catalog).text() == query.text()
    return query.text().removeprefix("SELECT ").partition(' AS "x"')[0].replace('"t".', "").replace('"', "")


def in_berlin(expression: str) -> str:
    return f"_hr_in_zone('{BERLIN}', {expression})"


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ("a", "a"),
        ("b::date", "CAST(b AS DATE)"),
        ("a::date", in_berlin("CAST(a AS DATE)")),
        ("a::date::text", f"CAST({in_berlin('CAST(a AS DATE)')} AS TEXT)"),
        # constants become instants, which keys and clocks can be compared with
        ("a > '2024-07-01'", "a > '2024-06-30 22:00:00+00'"),
        ("a > timestamptz '2024-07-01 12:00+00'", "a > CAST('2024-07-01 12:00+00' AS TIMESTAMPTZ)"),
        ("a IN ('2024-01-01', '2024-07-01')", "a IN ('2023-12-31 23:00:00+00', '2024-06-30 22:00:00+00')"),
        ("timestamptz '2024-07-01'", "CAST('2024-06-30 22:00:00+00' AS TIMESTAMPTZ)"),
        ("a = b", f"a = {in_berlin('CAST(b AS TIMESTAMPTZ)')}"),
        ("a BETWEEN c AND NULL", f"a BETWEEN {in_berlin('CAST(c AS TIMESTAMPTZ)')} AND NULL"),
        ("a + interval '90 minutes'", "a + CAST('90 minutes' AS INTERVAL)"),
        ("a + interval '1 day'", in_berlin("a + CAST('1 day' AS INTERVAL)")),
        ("b + interval '1 day'", "b + CAST('1 day' AS INTERVAL)"),
        ("extract(epoch FROM a)", "extract('epoch', a)"),
        ("a AT TIME ZONE 'UTC'", "a AT TIME ZONE 'UTC'"),
        ("jsonb_agg(a)", f"jsonb_agg({in_berlin('to_jsonb(a)')})"),
        ("count(*) FILTER (WHERE a > c)", f"count(*) FILTER(WHERE a > {in_berlin('CAST(c AS TIMESTAMPTZ)')})"),
        ("lag(a, 1, '2024-01-01') OVER (ORDER BY a)", "lag(a, 1, '2023-12-31 23:00:00+00') OVER (ORDER BY a)"),
    ],
)
def test_the_zone_is_written_where_it_matters(catalog, item, text):
    assert bound(catalog, item) == text


def test_what_a_view_says_stays_as_it_is(catalog):
    assert "_hr_in_zone" not in bound(catalog, "d", source="v")
    assert bound(catalog, "a::date", source="v").startswith("_hr_in_zone")


def test_days_before_now_have_24_hours_in_a_definition(catalog):
    assert bound(catalog, "now() - interval '1 day'").startswith("_hr_in_zone")
    assert bound(catalog, "now() - interval '1 day'", definition=True) == "now() - CAST('1 day' AS INTERVAL)"


def test_what_stands_many_times_is_written_each_time(catalog):
    items = ", ".join(["timestamptz '2024-07-01'"] * 20)
    text = bind_query(parse_query(f"SELECT ARRAY[{items}] AS x FROM t"), catalog, zone=BERLIN).text()
    assert text.count("'2024-06-30 22:00:00+00'") == 20


def test_columns_of_set_operations_and_values(catalog):
    for text in (
        "SELECT a FROM t UNION ALL SELECT b FROM t",
        "SELECT x FROM (VALUES (timestamptz '2024-01-01'), (timestamp '2024-07-01')) AS q(x)",
        "SELECT 1 WHERE timestamptz '2024-01-01' IN (SELECT b FROM t)",
        "SELECT 1 FROM t WHERE b IN (SELECT a FROM t)",
    ):
        query = bind_query(parse_query(text), catalog, zone=BERLIN)
        assert in_berlin("CAST(")[:-1] in query.text(), query.text()
        assert BERLIN in to_spark(query.expression)


def test_what_is_written_often_is_found_everywhere(catalog):
    item = "a > timestamptz '2024-07-01'"
    query = bind_query(parse_query(f"SELECT {', '.join([item] * 20)} FROM t"), catalog, zone=BERLIN)
    assert query.text().count("'2024-06-30 22:00:00+00'") == 20


def test_windows_are_the_same_everywhere(catalog):
    query = parse_query("SELECT window_start FROM TUMBLE(t, a, INTERVAL '1 day')")
    assert bind_query(query, catalog, zone=BERLIN).text() == bind_query(query, catalog).text()


def test_a_series_counts_days_of_the_calendar(catalog):
    query = bind_query(
        parse_query("SELECT * FROM generate_series('2024-01-01'::timestamptz, '2024-02-01', '1 day') g"),
        catalog,
        zone=BERLIN,
    )
    assert f"'1 day', '{BERLIN}')" in query.text()


def test_nobody_else_names_zones_so(catalog):
    with pytest.raises(InvalidParameterValue, match="_hr_in_zone"):
        bind_query(parse_query("SELECT _hr_in_zone('x'') OR true --', a::date) FROM t"), catalog)


@pytest.mark.parametrize("name", ["PST", "Z", "Mars/Olympus", "", " UTC", "168", "19", "Europe", "FOO5BAR"])
def test_unknown_zones(name):
    with pytest.raises(ValueError):
        session_zone(name)


@pytest.mark.parametrize(
    ("name", "spark"),
    [("+02", "-02:00"), ("-05:30", "+05:30"), ("PST", "-08:00"), ("utc", "UTC"), ("UTC+3", "-03:00"), ("Zulu", "UTC")],
)
def test_zones_of_expressions(name, spark):
    assert named_zone(name) == spark


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2024-07-01", "2024-06-30 22:00:00"),
        ("2024-10-27 02:30", "2024-10-27 01:30:00"),  # of two, the second
        ("2024-03-31 02:30", "2024-03-31 01:30:00"),  # which no clock showed
        ("2024-07-01 12:00 America/New_York", "2024-07-01 16:00:00"),
        ("2024-07-01 12:00 PST", "2024-07-01 20:00:00"),
        ("2024-07-01 12:00-0330", "2024-07-01 15:30:00"),
    ],
)
def test_constants(text, utc):
    with meant_in(BERLIN):
        assert str(from_text(text, TIMESTAMPTZ)) == f"{utc}+00:00"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("2024-07-01 12:00 Mars/Olympus", "22023"),
        ("2024-07-01 12:00 nonsense", "22007"),
        ("2024-07-01 12:00+99", "22009"),
    ],
)
def test_wrong_constants(text, code):
    with pytest.raises(HeadraceError) as caught:
        from_text(text, TIMESTAMPTZ)
    assert caught.value.sqlstate == code


def test_the_first_moment_has_no_time_before_it():
    with meant_in("Asia/Tokyo"), pytest.raises(DataError, match="out of range"):
        from_text("0001-01-01", TIMESTAMPTZ)


def test_a_default_is_of_the_column():
    (literal,) = parse_query("SELECT '2024-01-01'").expressions
    assert explicit_as(literal.copy(), TIMESTAMPTZ, BERLIN).name == "2023-12-31 23:00:00+00"
    assert explicit_as(literal.copy(), SqlType("timestamp"), BERLIN) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("SET TIME ZONE -3", "-3"), ("SET TIME ZONE +3", "3"), ("SET LOCAL TIME ZONE LOCAL", None),
     ("SET TIME ZONE INTERVAL '-05:30' HOUR TO MINUTE", "-5.5")],
)  # fmt: skip
def test_statements(text, value):
    (statement,) = parse(text)
    assert (statement.name, statement.value, statement.local) == ("timezone", value, "LOCAL TIME" in text)
