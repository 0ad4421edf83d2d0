"""The expected texts are what PostgreSQL 15 answers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from headrace.intervals import Interval
from headrace.serving.render import render
from headrace.types import SqlType, array_of

HOUR = 3_600_000_000

BOOLEAN, INTEGER, TEXT, BYTEA = SqlType("boolean"), SqlType("integer"), SqlType("varchar"), SqlType("bytea")
REAL, DOUBLE = SqlType("real"), SqlType("double precision")


def numeric(precision: int | None = None, scale: int | None = None) -> SqlType:
    return SqlType("numeric", precision=precision, scale=scale)


def struct(*kinds: SqlType) -> SqlType:
    return SqlType("struct", fields=tuple((f"f{i}", kind) for i, kind in enumerate(kinds)))


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, TEXT, None),
        (True, BOOLEAN, "t"),
        (False, BOOLEAN, "f"),
        (-7, SqlType("smallint"), "-7"),
        (2**63 - 1, SqlType("bigint"), "9223372036854775807"),
        ("a b", TEXT, "a b"),
        ("", TEXT, ""),
        (b"\xde\xad\x00", BYTEA, "\\xdead00"),
        (bytearray(b""), BYTEA, "\\x"),
    ],
)
def test_simple(value, kind, text):
    assert render(value, kind) == text


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ("12.50", numeric(10, 2), "12.50"),
        ("0.00", numeric(10, 2), "0.00"),
        ("-1", numeric(5, 0), "-1"),
        ("0E-10", numeric(20, 10), "0.0000000000"),
        ("12.5000000000", numeric(), "12.5"),
        ("100", numeric(), "100"),
        ("100.0000000000", numeric(38, 10), "100.0000000000"),
        ("100.0000000000", replace(numeric(38, 10), free=True), "100"),
        ("0E-10", numeric(), "0"),
        ("-0.0000000000", numeric(), "0"),
        ("1E+3", numeric(), "1000"),
        ("0.000001", numeric(38, 6), "0.000001"),
    ],
)
def test_numeric(value, kind, text):
    assert render(Decimal(value), kind) == text


@pytest.mark.parametrize(
    ("value", "shown", "text"),
    [
        ("2.5", (0, 0), "2.5000000000000000"),
        ("-0.33333333333333333333", (0, 0), "-0.33333333333333333333"),
        ("2.66666666666666666667", (0, 0), "2.6666666666666667"),
        ("1", (0, 0), "1.00000000000000000000"),
        ("10000", (0, 0), "10000.0000000000000000"),
        ("20001.5", (0, 0), "20001.500000000000"),
        ("123456789012345678", (2, 0), "123456789012345678.00"),
        ("3.75", (0, 2), "3.750000000000000000"),
        ("0", (0, 0), "0.00000000000000000000"),
    ],
)
def test_quotients_that_were_stored(value, shown, text):
    kind = SqlType.from_json(replace(numeric(38, 20), quotient=shown).to_json())
    assert kind.quotient == shown
    assert render(Decimal(value), kind) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (0.1, "0.1"),
        (-2.5, "-2.5"),
        (100000.0, "100000"),
        (1e14, "100000000000000"),
        (999999999999999.0, "999999999999999"),
        (1e15, "1e+15"),
        (123456789012345680.0, "1.2345678901234568e+17"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1e300, "1e+300"),
        (1.5e-300, "1.5e-300"),
        (123.456, "123.456"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_double(value, text):
    assert render(value, DOUBLE) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.10000000149011612, "0.1"),  # 0.1 as 32 bits
        (100000.0, "100000"),
        (123456.0, "123456"),
        (1234567.0, "1.234567e+06"),
        (1e6, "1e+06"),
        (16777216.0, "1.6777216e+07"),
        (3.4028234663852886e38, "3.4028235e+38"),
        (1.401298464324817e-45, "1e-45"),
        (0.0, "0"),
        (-0.0, "-0"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_real(value, text):
    assert render(value, REAL) == text


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (date(2026, 1, 2), "date", "2026-01-02"),
        (date(99, 1, 2), "date", "0099-01-02"),
        (datetime(2026, 1, 2, 3, 4, 5), "timestamp", "2026-01-02 03:04:05"),
        (datetime(2026, 1, 2, 3, 4, 5, 120000), "timestamp", "2026-01-02 03:04:05.12"),
        (datetime(2026, 1, 2, 3, 4, 5, 1), "timestamp", "2026-01-02 03:04:05.000001"),
        (datetime(2026, 1, 1, tzinfo=UTC), "timestamptz", "2026-01-01 00:00:00+00"),
        (datetime(2026, 1, 1, 0, 0, 0, 500000, tzinfo=UTC), "timestamptz", "2026-01-01 00:00:00.5+00"),
        (datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=2))), "timestamptz", "2025-12-31 23:00:00+00"),
        (Interval(0, 0, 0), "interval", "00:00:00"),
        (Interval(0, 1, 0), "interval", "1 day"),
        (Interval(0, 0, 30 * HOUR), "interval", "30:00:00"),
        (Interval(0, 1, 2 * HOUR).stored, "interval", "1 day 02:00:00"),
        (Interval(0, 0, -2 * HOUR), "interval", "-02:00:00"),
        (Interval(0, -1, 2 * HOUR), "interval", "-1 days +02:00:00"),
        (Interval(-14, 3, -1), "interval", "-1 years -2 mons +3 days -00:00:00.000001"),
    ],
)
def test_time(value, kind, text):
    assert render(value, SqlType(kind)) == text


@pytest.mark.parametrize(
    ("value", "element", "text"),
    [
        ([], INTEGER, "{}"),
        ([1, None, 3], INTEGER, "{1,NULL,3}"),
        (["a b", "null", "", "x,y", 'q"r', "b\\s", None], TEXT, r'{"a b","null","","x,y","q\"r","b\\s",NULL}'),
        (["{", "plain", "a\tb"], TEXT, '{"{",plain,"a\tb"}'),
        ([True, False], BOOLEAN, "{t,f}"),
        ([b"\x01"], BYTEA, r'{"\\x01"}'),
        ([[1, 2], [3, 4]], array_of(INTEGER), "{{1,2},{3,4}}"),
        ([{"f0": 1, "f1": "a"}], struct(INTEGER, TEXT), '{"(1,a)"}'),
        ([datetime(2026, 1, 1)], SqlType("timestamp"), '{"2026-01-01 00:00:00"}'),
    ],
)
def test_array(value, element, text):
    assert render(value, array_of(element)) == text


@pytest.mark.parametrize(
    ("value", "kinds", "text"),
    [
        ((1, "a"), (INTEGER, TEXT), "(1,a)"),
        ({"f0": 1, "f1": "a"}, (INTEGER, TEXT), "(1,a)"),
        ((None,), (INTEGER,), "()"),
        (("a b", None, "", 'q"r', "b\\s", "x,y"), (TEXT,) * 6, r'("a b",,"","q""r","b\\s","x,y")'),
        (([1, 2], True), (array_of(INTEGER), BOOLEAN), '("{1,2}",t)'),
        (((1, "a"), 2), (struct(INTEGER, TEXT), INTEGER), '("(1,a)",2)'),
    ],
)
def test_struct(value, kinds, text):
    assert render(value, struct(*kinds)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('{"a":[1.0,1e3,null,"é\\n"],"bb":1,"c":{}}', '{"a": [1.0, 1000, null, "é\\n"], "c": {}, "bb": 1}'),
        ("1.50", "1.50"),
        ('"x"', '"x"'),
        ("[]", "[]"),
        ("true", "true"),
    ],
)
def test_jsonb(value, text):
    assert render(value, SqlType("jsonb")) == text
