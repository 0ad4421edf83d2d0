"""Events to columns: both ways of reading a block agree, and what does not fit is named."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal

import pytest

from headrace.cdc.problems import SourceUnreachable
from headrace.errors import InvalidDefinition
from headrace.sources import decoding
from headrace.sources.decoding import decode
from headrace.sources.definition import Definition
from headrace.types import SqlType, array_of

KINDS = {
    "i": SqlType("integer"), "s": SqlType("varchar"), "d": SqlType("double precision"), "b": SqlType("boolean"),
    "t": SqlType("timestamptz"),
}  # fmt: skip


def source(encode: str = "json", options=(), **kinds: SqlType) -> Definition:
    return Definition(
        connector="kafka", columns=tuple((kinds or KINDS).items()), encode=encode, encode_options=tuple(options)
    )


def rows(definition: Definition, *values: bytes | None):
    columns, faults = decode(definition, values)
    found = [columns[name].to_pylist() for name, _ in definition.columns]
    return list(zip(*found, strict=True)), [(fault.at, fault.reason) for fault in faults]


AT = datetime.datetime(2026, 1, 2, 3, 4, 5, 600000, tzinfo=datetime.UTC)


def test_json_with_all_fields_some_and_others():
    found, faults = rows(
        source(),
        b'{"i": 1, "s": "a\\u00e4", "d": 2, "b": true, "t": "2026-01-02T03:04:05.6Z", "more": [1, {"x": 2}]}',
        b'{"s": null}',
        b"{}",
    )
    assert found == [(1, "aä", 2.0, True, AT), (None,) * 5, (None,) * 5] and not faults


@pytest.mark.parametrize(
    "event",
    [
        {"i": -5, "s": "", "d": 1.5, "b": False, "t": "2026-01-02T03:04:05.600000+00:00"},
        {"i": 2**31 - 1, "s": "ä\n\t", "d": -3, "b": True, "t": "2026-01-02 03:04:05.6+00:00"},
        {"d": 1e300, "s": '"quoted"', "x": None},
    ],
)
def test_both_ways_of_reading_agree(event, monkeypatch):
    value = json.dumps(event).encode()
    quick = rows(source(), value)
    monkeypatch.setitem(decoding._ENCODINGS, "json", (lambda *_: None, decoding._slow_json))
    assert rows(source(), value) == quick


@pytest.mark.parametrize(
    "event",
    [
        b'{"i": 1, "more": NaN}', b'{"i": 1, "more": [-Infinity]}', b'{"i": 1, "more": ' + b"9" * 5000 + b"}",
        b'{"i": 1, "more": "\xff"}', b'{"i": 1, "\xff": 2}', b'{"i": 1, "more": "\xc3\xa4"}', b'{"i": 1, "more": 01}',
        b'{"i": 1, "more": "\t"}', b'{"i": 1, "more": 1e999}', b'{"i": 1, "more": "\\ud800"}', b'{"d": NaN}',
    ],
)  # fmt: skip
def test_what_an_event_is_does_not_depend_on_its_neighbours(event):
    """Also where nobody looks. One that Arrow does not understand has the whole block read in the other way."""
    alone, faults = rows(source(), event)
    beside, others = rows(source(), event, b"neither")
    assert (alone, faults) == (beside, others[: len(faults)])


TEXTS = {
    "integer": ["5", "-0", "+5", " 5", "0x1F", "1e3", "99999999999"],
    "real": ["1.5", "1e300", "1e-60", "inf", "NaN", "-0.0", "0e5", "1.0000000596046448", "1_0"],
    "double precision": ["1e300", "1e400", "1e-400", "-Infinity", "0x10", "1_0"],
    "timestamp": [
        "2026-01-02", "2026-01-02T10", "2026-01-02T10:00Z", "2026-01-02 10:00:00.1234567891", "0000-01-02",
        "2026-01-02T10:00:00+05:30", "2026-01-02T10:00:00 +05",
    ],
    "date": ["2026-01-02", "2026-01-02T10:00:00", "0000-01-02", "2026-02-30"],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in TEXTS.items() for text in texts])
def test_what_a_text_is_does_not_depend_on_its_neighbours(kind, text):
    """One that Arrow does not understand has the whole block read in the other way."""
    for encode, value, other in (("csv", text, "neither"), ("json", json.dumps({"v": text}), '{"v": []}')):
        definition = source(encode, v=SqlType(kind))
        alone, faults = rows(definition, value.encode())
        beside, others = rows(definition, value.encode(), other.encode())
        assert repr(alone) == repr(beside) and others[: len(faults)] == faults, encode


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (b"null", "not an object"), (b"[1]", "not an object"), (b"", "not JSON"), (None, "no content"),
        (b'{"i": 1', "not JSON"), (b'{"i": 1} {"i": 2}', "not JSON"), (b"{'i': 1}", "not JSON"),
        (b'{"i": 1.5}', 'column "i": 1.5 is not a value of type integer'), (b'{"i": "1"}', 'column "i": "1" is not'),
        (b'{"i": 3000000000}', 'column "i"'), (b'{"i": true}', 'column "i"'), (b'{"b": 1}', 'column "b"'),
        (b'{"d": "x"}', 'column "d"'),
        (b'{"d": NaN}', 'column "d": NaN is not a value of type double'), (b'{"s": [Infinity]}', "Infinity is nothing"),
        (b'{"t": "yesterday-ish"}', 'column "t"'),
        (b"\xff\xfe", "not JSON"), (b'{"s": "\xff"}', "not JSON"),
        (b'{"s": "\\ud800"}', 'column "s": "\\ud800" has half of a character'),
        (b'{"s": {"\\udfff": 1}}', "half of a character"),
        (b'{"i": "\\ud800"}', 'column "i": "\\ud800" is not a value'),
        (b'{"d": ' + b"9" * 400 + b"}", 'column "d": 9999'), (b'{"d": 1e400}', 'column "d": 1E+400 is not'),
        (b'{"more": 1e99999999999999999999}', "not JSON: a number has an exponent"),
        (b'{"more": ' + b"[" * 100_000 + b"}", "not JSON"),
    ],
)  # fmt: skip
def test_a_bad_event_is_named_and_its_neighbours_are_read(event, reason):
    found, faults = rows(source(), b'{"i": 1}', event, b'{"i": 3}')
    assert [row[0] for row in found] == [1, 3]
    ((at, said),) = faults
    assert at == 1 and reason in said


def test_what_nobody_has_thought_of_is_a_bad_event_and_not_the_end_of_the_source(monkeypatch):
    def value(found, name, kind):
        if found.get("i") == 2:
            raise ZeroDivisionError("who would have thought")
        return 1 << 40 if found.get("i") == 3 else found.get("i")  # the latter is more than Arrow's column can hold

    monkeypatch.setattr(decoding, "field_value", value)
    columns = {"i": SqlType("integer"), "n": SqlType("numeric", precision=8, scale=2)}
    found, faults = rows(source(**columns), *(b'{"i": %d}' % at for at in range(1, 5)))
    assert [row[0] for row in found] == [1, 4]
    assert [at for at, _ in faults] == [1, 2]
    assert faults[0][1] == "ZeroDivisionError: who would have thought" and faults[1][1].startswith('column "i": ')


def test_a_registry_that_is_away_makes_no_event_bad():
    class Away:
        def read(self, data: bytes):
            raise SourceUnreachable("nobody there")

    with pytest.raises(SourceUnreachable):
        decode(source("avro"), [b"x"], Away())


def test_a_number_too_large_for_its_column_is_not_infinite():
    found, faults = rows(source(r=SqlType("real")), b'{"r": 1e39}', b'{"r": 1e38}', b'{"r": -1e400}')
    assert [at for at, _ in faults] == [0, 2] and found[0][0] == pytest.approx(1e38)


def test_numeric_has_all_its_digits():
    """Python's decimals have 28, unless they are told otherwise."""
    definition = source(n=SqlType("numeric", precision=38, scale=10))
    numbers = ["1e20", "1234567890123456789012345678.1234567891", "-0.00000000005", '"1234567890123456789012345678"']
    found, faults = rows(definition, *(f'{{"n": {each}}}'.encode() for each in numbers), b'{"n": 1e28}')
    meant = ["1e20", "1234567890123456789012345678.1234567891", "-0.0000000001", "1234567890123456789012345678"]
    assert [number for (number,) in found] == [Decimal(each) for each in meant]
    assert [at for at, _ in faults] == [4]


def test_times_with_more_digits_than_a_timestamp_has_are_rounded():
    """As many languages write them, and as PostgreSQL reads them."""
    found, faults = rows(
        source(t=SqlType("timestamptz")),
        b'{"t": "2026-01-02T03:04:05.600000499Z"}',
        b'{"t": "2026-01-02T03:04:05.5999999Z"}',
    )
    assert found == [(AT,), (AT,)] and not faults


def test_json_values_of_other_types():
    definition = source(
        n=SqlType("numeric", precision=10, scale=2), j=SqlType("jsonb"), a=array_of(SqlType("integer")),
        o=SqlType("struct", fields=(("x", SqlType("integer")), ("y", SqlType("varchar")))), y=SqlType("bytea"),
        t=SqlType("timestamp"), d=SqlType("date"),
    )  # fmt: skip
    found, faults = rows(
        definition,
        b'{"n": 1.5, "j": {"b": 1, "a": [1.0, 2.5]}, "a": [1, null], "o": {"x": 5, "z": 0}, "y": "aGk=",'
        b' "t": 1000, "d": "2026-01-02"}',
        b'{"n": "12.30", "y": "\\\\x6869"}',
        b'{"n": 12345678901.0}',
        b'{"a": [1, "x"]}',
    )
    assert [at for at, _ in faults] == [2, 3]
    assert found[0] == (
        Decimal("1.50"), '{"a":[1,2.5],"b":1}', [1, None], {"x": 5, "y": None}, b"hi",
        datetime.datetime(1970, 1, 1, 0, 0, 1), datetime.date(2026, 1, 2),
    )  # fmt: skip
    assert found[1][:2] == (Decimal("12.30"), None) and found[1][4] == b"hi"


def test_numbers_and_objects_in_a_text_column_are_their_text():
    found, faults = rows(source(s=SqlType("varchar")), b'{"s": 5}', b'{"s": {"b": 1, "a": true}}', b'{"s": "5"}')
    assert found == [("5",), ('{"a":true,"b":1}',), ("5",)] and not faults
    numbers = ["12345678901234567890", "1234567890123456789.05", "1.50", "1E+9999"]
    found, faults = rows(source(s=SqlType("varchar")), *(f'{{"s": {each}}}'.encode() for each in numbers))
    assert [text for (text,) in found] == numbers and not faults


def test_numbers_in_jsonb_keep_their_digits():
    """As in PostgreSQL, where they are numeric: beyond 2^53 a double would make another number of them."""
    numbers = [
        "9007199254740993",
        "9007199254740993.25",
        "12345678901234567890123456789012345678",
        "0.1",
        "-1e-7",
        "1e2",
    ]
    numbers += ["1e40", "7" * 40 + ".5"]
    meant = [*numbers[:4], "-0.0000001", "100", "1.0E40", numbers[-1]]
    text = f'{{"j": {{"n": [{", ".join(numbers)}]}}, "s": [{numbers[1]}]}}'
    ((found, array),), faults = rows(source(j=SqlType("jsonb"), s=SqlType("varchar")), text.encode())
    assert found == f'{{"n":[{",".join(meant)}]}}' and array == f"[{numbers[1]}]" and not faults
    assert rows(source(j=SqlType("jsonb")), b'{"j": [1e400]}')[1] == [
        (0, 'column "j": ["1E+400"] is not JSON: 1E+400 is a number that is too large')
    ]


def test_of_a_field_that_comes_twice_the_last_counts():
    assert rows(source(i=SqlType("integer")), b'{"i": 1, "i": 2}') == ([(2,)], [])


def test_only_a_csv_field_that_is_not_in_quotes_is_null():
    definition = source("csv", i=SqlType("integer"), s=SqlType("varchar"), t=SqlType("varchar"))
    assert rows(definition, b'1,"",', b'2,,""', b'3,"a,""b",""\r\n') == (
        [(1, "", None), (2, None, ""), (3, 'a,"b', "")], [],
    )  # fmt: skip
    assert [at for at, _ in rows(definition, b'"",x,y', b",x,y")[1]] == [0]


def test_csv():
    definition = source("csv", i=SqlType("integer"), s=SqlType("varchar"))
    assert rows(definition, b"1,a", b",", b"3,") == ([(1, "a"), (None, None), (3, None)], [])
    found, faults = rows(definition, b"1,a", b'2,"x,""y"', b"x,a", b"1,2,3", b"4")
    assert found == [(1, "a"), (2, 'x,"y'), (4, None)]
    assert [at for at, _ in faults] == [2, 3]
    assert rows(source("csv", [("delimiter", ";")], i=SqlType("integer"), s=SqlType("varchar")), b"1;a,b") == (
        [(1, "a,b")],
        [],
    )


def test_a_long_field_of_csv_is_one_whatever_its_neighbours_are():
    definition, long = source("csv", i=SqlType("integer"), s=SqlType("varchar")), "x" * 200_000
    for line in (f"1,{long}", f'1,"{long}"'):
        assert rows(definition, line.encode()) == ([(1, long)], [])
        assert rows(definition, line.encode(), b'2,"b"') == ([(1, long), (2, "b")], [])


def test_bytes():
    assert rows(source("bytes", y=SqlType("bytea")), b"\xff", None) == ([(b"\xff",), (None,)], [])
    found, faults = rows(source("bytes", s=SqlType("varchar")), "ä".encode(), b"\xff")
    assert found == [("ä",)] and "not text" in faults[0][1]


@pytest.mark.parametrize(
    "definition",
    [
        source("parquet", i=SqlType("integer")), source("bytes", i=SqlType("integer")),
        source("csv", y=SqlType("bytea")), source("csv", [("delimiter", "||")], i=SqlType("integer")),
        source("json", [("unknown", "1")], i=SqlType("integer")),
    ],
)  # fmt: skip
def test_what_cannot_be_decoded_is_refused(definition):
    with pytest.raises(InvalidDefinition):
        decoding.check(definition, ("json", "csv", "bytes"))
