"""Times of day: as text, as Arrow and Python have them, in keys, in events, and in Spark SQL."""

from __future__ import annotations

import random
from datetime import datetime, time

import pyarrow as pa
import pytest

from headrace import times
from headrace.arrow_values import as_stored
from headrace.catalog import Catalog, Column, KeyColumn, Relation
from headrace.cdc.postgres.types import SourceType, checked, natural
from headrace.cdc.values import column as cdc_column
from headrace.engine.text_values import plain_values
from headrace.errors import DataError, HeadraceError, TypeMismatch, UndefinedFunction, Unsupported
from headrace.operators.vectorize import vectorized_expression
from headrace.remote.values import arrow_array, column_type, python_values
from headrace.serving.output import to_json
from headrace.serving.render import plain, presented_columns, render
from headrace.serving.wire.binary import decode, encoder
from headrace.serving.wire.oids import modifier_text, oid_of, size_of, typed, typmod_of
from headrace.sources import avro, debezium
from headrace.sources.values import NotThis, json_value
from headrace.sql.aggregates import AggregateCall, aggregate
from headrace.sql.bind import bind_expression, bind_query
from headrace.sql.casts import assign, cast
from headrace.sql.dialect import parse_expression, parse_query
from headrace.sql.expressions import Expressions
from headrace.sql.literals import constant
from headrace.sql.oracle import Argument
from headrace.sql.translate import to_spark
from headrace.sql.typed import DATE, INTEGER, INTERVAL, TEXT, TIME, TIMESTAMP, TIMESTAMPTZ, Typed
from headrace.state.keys import KeyCodec
from headrace.state.vnode import vnode_of, vnodes_of
from headrace.types import SqlType, array_of

DAY = times.DAY
SHORT = SqlType("time", precision=3)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("04:05:06.789", "04:05:06.789"), ("04:05", "04:05:00"), ("040506", "04:05:06"), ("0405", "04:05:00"),
        ("04:05 AM", "04:05:00"), ("04:05PM", "16:05:00"), ("12:30 am", "00:30:00"), ("12:30 PM", "12:30:00"),
        ("T04:05:06", "04:05:06"), ("t040506.5", "04:05:06.5"), ("24:00:00", "24:00:00"), ("23:59:60", "24:00:00"),
        ("23:59:59.9999999", "24:00:00"), ("00:00:00.0000005", "00:00:00"), ("00:00:00.0000015", "00:00:00.000002"),
        ("04:05.5", "00:04:05.5"), ("4:5:6", "04:05:06"), ("04:05:06-08", "04:05:06"), (" 04:05z ", "04:05:00"),
        ("2024-07-01 04:05:06", "04:05:06"), ("2024-07-01 04:05 Europe/Berlin", "04:05:00"), ("allballs", "00:00:00"),
        ("004:05:06.", "04:05:06"),
    ],
)  # fmt: skip
def test_texts(text, shown):
    assert times.time_text(times.parse_time(text)) == shown
    assert times.time_text(times.parse_time(shown)) == shown


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "22007"), ("x", "22007"), ("4", "22007"), ("4 am", "22007"), ("12345", "22007"), ("-01:00", "22007"),
        ("04:05:06,5", "22007"), ("2024-07-01", "22007"), ("2024-07-01T04:05", "22007"), ("now", "22007"),
        ("04:05 Europe/Berlin", "22007"), ("04:05 NOWHERE", "22007"), ("24:00:00.000001", "22008"),
        ("24:00:01", "22008"), ("25:00", "22008"), ("23:60", "22008"), ("23:59:61", "22008"), ("13:00 PM", "22008"),
        ("23:59:60.5", "22008"), ("2024-13-01 04:05", "22008"), ("04:05+25", "22009"),
    ],
)  # fmt: skip
def test_what_is_no_time(text, code):
    with pytest.raises(DataError) as caught:
        times.parse_time(text)
    assert caught.value.sqlstate == code and f'"{text}"' in caught.value.message


def test_digits():
    for text, digits, shown in (
        ("04:05:06.7895", 3, "04:05:06.79"), ("23:59:59.5", 0, "24:00:00"), ("04:05:06.5", 0, "04:05:07"),
        ("04:05:06.499", 0, "04:05:06"), ("04:05:06.123456", 6, "04:05:06.123456"),
    ):  # fmt: skip
        assert times.time_text(times.parse_time(text, digits)) == shown
    assert str(SHORT) == "time(3)" and SqlType.from_json(SHORT.to_json()) == SHORT != TIME
    assert SqlType.from_json(TIME.to_json()) == TIME and str(array_of(SHORT)) == "time(3)[]"
    kinds = [Expressions(qualified=False).value(bind_expression(parse_expression(text), ())).type for text in (
        "CAST('04:05' AS time(3))", "CAST('04:05' AS time(9))", "CAST('04:05' AS time without time zone)",
        "coalesce(CAST('04:05' AS time(3)), '05:06')", "CAST('04:05' AS time(3)) + INTERVAL '1 hour'",
    )]  # fmt: skip
    assert list(map(str, kinds)) == ["time(3)", "time(6)", "time", "time", "time"]


def test_numbers_of_types():
    assert (oid_of(TIME), oid_of(array_of(TIME)), size_of(TIME), typmod_of(TIME)) == (1083, 1183, 8, -1)
    assert (typmod_of(SHORT), typmod_of(array_of(SHORT)), modifier_text(SHORT)) == (3, 3, "")
    assert (
        typed(1083, 3) == SHORT
        and typed(1083, -1) == TIME
        and column_type(1183, 2) == array_of(SqlType("time", precision=2))
    )


def test_values():
    late = times.parse_time("23:59:59.999999")
    assert render(late, TIME) == render(time(23, 59, 59, 999999), TIME) == "23:59:59.999999"
    assert render(DAY, TIME) == render("24:00:00", TIME) == "24:00:00" and render(0, TIME) == "00:00:00"
    assert to_json(time(4, 5), TIME) == '"04:05:00"'
    assert [times.to_python(each) for each in (0, late, DAY)] == [time(0), time(23, 59, 59, 999999), "24:00:00"]
    encoded = encoder(TIME)(late)
    assert encoded == late.to_bytes(8, "big") and decode(encoded, TIME) == "23:59:59.999999"
    for wrong in (DAY + 1, -1):
        with pytest.raises(DataError) as caught:
            decode(encoder(TIME)(wrong), TIME)
        assert caught.value.sqlstate == "22008"
    assert python_values([b"04:05:06.5", None, b"24:00:00"], TIME) == [time(4, 5, 6, 500_000), None, "24:00:00"]
    assert python_values([b"{04:05:00,NULL}"], array_of(TIME)) == [[time(4, 5), None]]
    table = pa.table({"t": pa.array([late, None]), "a": pa.array([[0, None], None], pa.list_(pa.int64()))})
    types = (TIME, array_of(TIME))
    assert presented_columns(table, types) == [[time(23, 59, 59, 999999), None], [[time(0), None], None]]
    shown = plain(table, types)
    assert shown.schema.types == [pa.time64("us"), pa.list_(pa.time64("us"))]
    for name, kind, texts in (("t", TIME, [b"23:59:59.999999", None]), ("a", types[1], [b"{00:00:00,NULL}", None])):
        assert arrow_array(texts, kind) == shown[name].combine_chunks()
    assert arrow_array([b"24:00:00"], TIME).cast(pa.int64()).to_pylist() == [DAY]


def test_rows_of_programs():
    given = [time(4, 5, 6, 789), None, time(0)]
    wanted = [times.of_time(each) if each else 0 for each in (given[0],)] + [None, 0]
    for array in (
        pa.array(given, pa.time64("us")), pa.array(given, pa.time64("us")).cast(pa.time64("ns")),
        pa.array(["04:05:06.000789", None, "00:00"]), pa.array(wanted, pa.int64()),
    ):  # fmt: skip
        assert (
            as_stored(array, TIME).to_pylist() == wanted and as_stored(pa.chunked_array([array]), TIME).type == "int64"
        )
    assert as_stored(pa.array([time(4, 5)], pa.time32("s")), TIME).to_pylist() == [times.parse_time("04:05")]
    assert as_stored(pa.array(given, pa.time64("us")), SqlType("time", precision=3)).to_pylist() == [
        times.parse_time("04:05:06.001"), None, 0,
    ]  # fmt: skip
    assert as_stored(pa.array([[time(4, 5), None]]), array_of(TIME)).to_pylist() == [[times.parse_time("04:05"), None]]
    assert as_stored(pa.nulls(1), TIME).to_pylist() == [None]
    for wrong in (pa.array([DAY + 1]), pa.array([-1]), pa.array(["x"])):
        with pytest.raises(DataError):
            as_stored(wrong, TIME)
    with pytest.raises(pa.ArrowInvalid):
        as_stored(pa.array([1.5]), TIME)


def test_texts_of_copy_are_read_at_once():
    texts = ["04:05:06", None, "23:59:59.123456"]
    assert plain_values(texts, TIME).to_pylist() == [
        texts and times.parse_time(each) if each else None for each in texts
    ]
    assert plain_values(["24:00:00"], TIME) is None and plain_values(texts, SHORT) is None


def test_events_and_logs():
    wanted = times.parse_time("04:05:06.5")
    assert json_value("04:05:06.5", TIME) == avro.avro_value(time(4, 5, 6, 500_000), TIME) == wanted
    schema = {"type": "int64", "name": "io.debezium.time.MicroTime"}
    assert avro.avro_value(debezium.meant(wanted, schema, TIME), TIME) == wanted
    assert avro.avro_value(debezium.meant(DAY, schema, TIME), TIME) == DAY
    assert avro.avro_value(debezium.meant(wanted, schema, TEXT), TEXT) == "04:05:06.500000"
    for wrong in ("x", 7, 1.5):
        with pytest.raises(NotThis):
            json_value(wrong, TIME)
    column = SourceType(name="time", schema="pg_catalog", text="time without time zone")
    assert natural(column, "t") == TEXT and checked(column, TIME, "t") == TIME
    assert cdc_column(pa.array(["24:00:00", None]), TIME, "t").to_pylist() == [DAY, None]


def test_keys():
    chance = random.Random(7)
    drawn = [chance.randrange(DAY + 1) for _ in range(100)] + [0, DAY]
    codec = KeyCodec([(TIME, KeyColumn(name="t"))])
    encoded = [codec.encode((each,)) for each in drawn]
    assert [each for _, each in sorted(zip(encoded, drawn, strict=True))] == sorted(drawn)
    assert codec.decode(encoded[0]) == (drawn[0],)
    table = pa.table({"t": pa.array(drawn)})
    assert vnodes_of(table, ["t"], [TIME]).tolist() == [vnode_of([each], [TIME]) for each in drawn]


COLUMNS = [Column(name=name, type=kind) for name, kind in (
    ("t", TIME), ("s", SHORT), ("d", DATE), ("ts", TIMESTAMP), ("tz", TIMESTAMPTZ), ("i", INTERVAL), ("n", INTEGER),
    ("v", TEXT),
)]  # fmt: skip


def typed_as(text: str) -> str:
    return str(Expressions(qualified=False).value(bind_expression(parse_expression(text), COLUMNS, "r")).type)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("t + i", "time"), ("i + t", "time"), ("t - i", "time"), ("t - t", "interval"), ("t - s", "interval"),
        ("i - t", "interval"), ("d + t", "timestamp"), ("t + d", "timestamp"), ("d - t", "timestamp"),
        ("ts + t", "timestamp"), ("t + tz", "timestamptz"), ("tz - t", "timestamptz"), ("t * 2", "interval"),
        ("t / 2", "interval"), ("- t", "interval"), ("t + '1 hour'", "time"), ("t - '01:00'", "interval"),
        ("t = '04:05'", "boolean"), ("t < i", "boolean"), ("s = t", "boolean"), ("coalesce(s, t)", "time"),
        ("greatest(s, '04:05')", "time"), ("ts::time", "time"), ("tz::time(2)", "time(2)"), ("i::time", "time"),
        ("v::time", "time"), ("t::interval", "interval"), ("t::varchar", "varchar"), ("make_time(n, 1, 2)", "time"),
        ("localtime", "time"), ("extract(epoch FROM t)", "numeric(26,6)"), ("date_trunc('hour', t)", "interval"),
        ("to_char(t, 'HH24:MI')", "varchar"), ("(t, i) OVERLAPS (t, t)", "boolean"), ("ARRAY[t, s]", "time[]"),
    ],
)  # fmt: skip
def test_types_of_expressions(text, kind):
    assert typed_as(text) == kind


@pytest.mark.parametrize(
    "text",
    [
        "t + t", "t + n", "n - t", "ts - t - t * t", "i - t < n", "t = ts", "t = n", "t = v", "t - ts", "t % 2",
        "t::date", "t::timestamp", "t::int", "d::time", "n::time", "t::jsonb", "length(t)", "abs(t)",
        "t AT TIME ZONE 'UTC'",
        "extract(day FROM t)", "extract(foo FROM t)", "coalesce(t, i)", "age(t)", "make_time(1, 2)", "current_time",
        "localtime(3)", "date_bin('1 hour', t, t)",
    ],
)  # fmt: skip
def test_what_is_refused(text):
    with pytest.raises(HeadraceError):
        typed_as(text)


def test_what_is_refused_with_a_word():
    with pytest.raises(UndefinedFunction, match="operator does not exist: time = timestamp"):
        typed_as("t = ts")
    with pytest.raises(TypeMismatch, match="cannot cast type date to time"):
        typed_as("d::time")
    with pytest.raises(Unsupported) as caught:
        typed_as("current_time")
    assert caught.value.hint == "use localtime"
    with pytest.raises(UndefinedFunction, match=r"function sum\(time\) does not exist"):
        aggregate("sum", AggregateCall(args=[Typed("`t`", TIME)]))
    with pytest.raises(Unsupported, match="a time as an argument of a function that only Spark has"):
        _ = Argument(type=array_of(TIME), sql=None).spark


def test_a_frame_of_times_is_one_of_numbers():
    asked = "SELECT count(*) OVER (ORDER BY t RANGE {} PRECEDING) FROM x"
    for offset in ("'1 hour'", "INTERVAL '1 hour'"):
        assert "RANGE 3600000000L PRECEDING" in to_spark(bound(asked.format(offset)), table_names={"x": "x"})
    with pytest.raises(Unsupported, match="RANGE over a time with an offset of type integer"):
        bound(asked.format("5"))


def bound(query: str):
    table = Relation(id=1, name="x", kind="table", columns=tuple(COLUMNS), pk=(), distribution=())
    return bind_query(parse_query(query), Catalog({1: table})).expression


def test_assignments():
    for source in (TIME, SHORT, TIMESTAMP, TIMESTAMPTZ, INTERVAL):
        assert assign(Typed("`x`", source), TIME, "c").type == TIME
    assert assign(Typed("`x`", TIME), INTERVAL, "c").type == INTERVAL
    assert assign(Typed("`x`", TIME), SHORT, "c").sql == "((`x` + 500L) DIV 1000L * 1000L)"
    assert assign(Typed("`x`", SHORT), TIME, "c").sql == "`x`"
    for source, target in ((DATE, TIME), (TEXT, TIME), (TIME, TIMESTAMP), (INTEGER, TIME), (TIME, INTEGER)):
        with pytest.raises(TypeMismatch):
            assign(Typed("`x`", source), target, "c")


def test_constants():
    assert constant(parse_expression("'4:05 pm'"), TIME) == times.parse_time("16:05")
    assert constant(parse_expression("TIME '24:00'"), TIME) == DAY
    assert cast(Typed("NULL", None, literal="04:05:06.7895"), SHORT).sql == "14706790000L"


def test_arrow_evaluates_what_is_certain():
    """Comparisons, and choices; what is computed of times is Spark's."""
    early, late = times.parse_time("04:05"), times.parse_time("23:00")
    rows = pa.table({"t": [early, None, late], "s": [late, early, late]})

    def evaluated(text: str):
        return vectorized_expression(bind_expression(parse_expression(text), COLUMNS, "r"))

    for text, wanted in (
        ("t < '12:00'", [True, None, False]),
        ("t = s", [False, None, True]),
        ("t IN ('4:05', '05:06')", [True, None, False]),
        ("coalesce(t, '24:00')", [early, DAY, late]),
        ("CASE WHEN t IS NULL THEN s ELSE t END", [early, early, late]),
    ):
        assert evaluated(text).evaluate(rows).to_pylist() == wanted, text
    for text in (
        "t + i",
        "t - t",
        "d + t",
        "t::varchar",
        "v::time",
        "extract(hour FROM t)",
        "t = i",
        "t::time(2)",
        "- t",
    ):
        assert evaluated(text) is None, text


def test_python_reads_them_like_datetime():
    chance = random.Random(3)
    for _ in range(200):
        drawn = datetime(
            2000, 1, 1, chance.randrange(24), chance.randrange(60), chance.randrange(60), chance.randrange(10**6)
        )
        assert times.parse_time(drawn.time().isoformat()) == times.of_time(drawn.time())
        assert time.fromisoformat(times.time_text(times.of_time(drawn.time()))) == drawn.time()
