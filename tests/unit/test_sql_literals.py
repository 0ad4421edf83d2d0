"""Constants: the values that INSERT … VALUES stores without asking Spark."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.text_values import plain_values
from headrace.errors import DataError
from headrace.sql.dialect import parse_expression
from headrace.sql.literals import NOT_CONSTANT, constant, from_text, number_literal, spark_constant, spark_string
from headrace.types import SqlType, array_of


def type_named(text: str) -> SqlType:
    if text.endswith("[]"):
        return array_of(type_named(text[:-2]))
    if text.startswith("numeric("):
        precision, scale = text[8:-1].split(",")
        return SqlType("numeric", precision=int(precision), scale=int(scale))
    return SqlType(text)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("5", "integer", 5), ("-5", "smallint", -5), ("(5)", "bigint", 5), ("-9223372036854775808", "bigint", -(2**63)),
        ("'42'", "integer", 42), ("' -42 '", "bigint", -42), ("NULL", "integer", None), ("NULL", "varchar", None),
        ("5::int", "integer", 5), ("'5'::int", "integer", 5), ("true", "boolean", True), ("'off'", "boolean", False),
        ("'x'", "varchar", "x"), ("'x'::varchar", "varchar", "x"), (r"'a\b'", "varchar", "a\\b"), ("5", "varchar", "5"),
        ("1.5", "numeric(10,2)", Decimal("1.50")), ("5", "numeric(10,2)", Decimal("5.00")),
        ("1.5", "numeric", Decimal("1.5")),
        ("-1e2", "numeric(5,0)", Decimal("-100")), ("'1.5'", "numeric(10,2)", Decimal("1.50")),
        ("1.5", "double precision", 1.5), ("-3", "double precision", -3.0), ("'1e5'", "double precision", 1e5),
        ("'inf'", "double precision", math.inf), ("'-Infinity'", "real", -math.inf),
        ("1.5", "real", 1.5), ("0.1", "real", 0.10000000149011612), ("0", "double precision", 0.0),
        ("'2024-02-29'", "date", date(2024, 2, 29)), ("date '2024-2-9'", "date", date(2024, 2, 9)),
        ("'2024-01-02 03:04'", "timestamp", datetime(2024, 1, 2, 3, 4)),
        ("'2024-01-02T03:04:05.5'", "timestamp", datetime(2024, 1, 2, 3, 4, 5, 500000)),
        ("'2024-01-02 03:04:05.123456789'", "timestamp", datetime(2024, 1, 2, 3, 4, 5, 123457)),
        ("'2024-12-31 23:59:59.9999999'", "timestamp", datetime(2025, 1, 1)),
        ("'2024-12-31 23:59:59.9999999'", "date", date(2024, 12, 31)),
        ("timestamp '2024-01-02'", "timestamp", datetime(2024, 1, 2)),
        ("'2024-01-02 03:04:05+02'", "timestamp", datetime(2024, 1, 2, 3, 4, 5)),
        ("'2024-01-02 03:04:05+02'", "timestamptz", datetime(2024, 1, 2, 1, 4, 5, tzinfo=UTC)),
        ("'2024-01-02 03:04:05 -0530'", "timestamptz", datetime(2024, 1, 2, 8, 34, 5, tzinfo=UTC)),
        ("'2024-01-02'", "timestamptz", datetime(2024, 1, 2, tzinfo=UTC)),
        ("interval '1 day 2 hours'", "interval", {"length": 93_600_000_000, "months": 0, "days": 1}),
        (r"'\xDEad'", "bytea", b"\xde\xad"), ("'abc'", "bytea", b"abc"), (r"'a\\\001'", "bytea", b"a\\\x01"),
        ("'{\"b\": 1, \"a\": [true, null]}'", "jsonb", '{"a":[true,null],"b":1}'), ("'5'", "jsonb", "5"),
        ("ARRAY[1, NULL, -3]", "integer[]", [1, None, -3]), ("ARRAY['a']", "varchar[]", ["a"]),
        ("'{1, NULL, 3}'", "integer[]", [1, None, 3]), ("'{}'", "integer[]", []),
        ("'{\"a, b\",\"NULL\",NULL}'", "varchar[]", ["a, b", "NULL", None]),
        ("'{{1,2},{3}}'", "integer[][]", [[1, 2], [3]]),
    ],
)  # fmt: skip
def test_constants(text, kind, value):
    result = constant(parse_expression(text), type_named(kind))
    assert result is not NOT_CONSTANT
    assert (result, type(result)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1 + 1", "integer"),  # an expression
        ("a", "integer"),
        ("now()", "timestamptz"),
        ("40000", "smallint"),  # out of range: Spark says so
        ("9223372036854775808", "bigint"),
        ("1.5", "integer"),  # rounds
        ("1.0", "integer"),
        ("1.005", "numeric(10,2)"),
        ("123456", "numeric(5,2)"),  # overflows
        ("'x'", "integer"),  # an error
        ("'maybe'", "boolean"),
        ("1", "boolean"),
        ("true", "integer"),
        ("'2024-02-30'", "date"),
        ("'yesterday'", "date"),
        ("'1e400'", "double precision"),
        ("1.5", "varchar"),
        ("'{\"a\": 1.50}'", "jsonb"),  # how Spark prints it is Spark's to say
        ("'{bad'", "jsonb"),
        ('\'{"a": "é"}\'', "jsonb"),
        ("'{1,1.5}'", "numeric(3,0)[]"),
        ("'{1,{2}}'", "integer[]"),  # an error
        ("ARRAY[1 + 1]", "integer[]"),
        ("'abc'::varchar(2)", "varchar"),  # truncates
        ("'5'::int", "bigint"),  # another type
        ("5::int::int", "integer"),
        ("1.5::numeric", "numeric(10,2)"),
        ("row(1)", "integer"),
    ],
)
def test_doubtful_constants_are_left_to_spark(text, kind):
    assert constant(parse_expression(text), type_named(kind)) is NOT_CONSTANT


def test_not_constant_is_not_mistaken_for_a_value():
    with pytest.raises(TypeError):
        bool(NOT_CONSTANT)
    assert repr(NOT_CONSTANT) == "NOT_CONSTANT"


@pytest.mark.parametrize(
    ("text", "kind", "message", "sqlstate"),
    [
        ("x", "integer", 'invalid input syntax for type integer: "x"', "22P02"),
        ("1.5", "integer", 'invalid input syntax for type integer: "1.5"', "22P02"),
        ("40000", "smallint", 'value "40000" is out of range for type smallint', "22003"),
        ("maybe", "boolean", 'invalid input syntax for type boolean: "maybe"', "22P02"),
        ("x", "timestamptz", 'invalid input syntax for type timestamp with time zone: "x"', "22007"),
        ("2024-13-01", "date", 'date/time field value out of range: "2024-13-01"', "22008"),
        (r"\xg0", "bytea", 'invalid hexadecimal digit: "g"', "22023"),
        ('{"a": ', "jsonb", 'invalid input syntax for type json: "{"a": "', "22P02"),
        ("NaN", "jsonb", 'invalid input syntax for type json: "NaN"', "22P02"),
        ("1 fortnight", "interval", 'invalid input syntax for type interval: "1 fortnight"', "22007"),
    ],
)
def test_invalid_text(text, kind, message, sqlstate):
    with pytest.raises(DataError) as caught:
        from_text(text, SqlType(kind))
    assert (caught.value.message, caught.value.sqlstate) == (message, sqlstate)


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_every_bigint_is_constant(value):
    assert constant(parse_expression(str(value)), SqlType("bigint")) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**7), max_value=10**7))
def test_every_fitting_decimal_is_constant(value):
    kind = SqlType("numeric", precision=10, scale=2)
    result = constant(parse_expression(format(value, "f")), kind)
    assert result == value and result.as_tuple().exponent == -2


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_exact_or_left_to_spark(value):
    result = constant(parse_expression(f"'{value!r}'"), SqlType("double precision"))
    assert result is NOT_CONSTANT or result == value


@pytest.mark.parametrize(
    ("text", "sql", "kind"),
    [
        ("0", "0", "integer"),
        ("2147483648", "2147483648L", "bigint"),
        ("9223372036854775808", "9223372036854775808BD", "numeric(19,0)"),
        ("1.50", "1.50BD", "numeric(3,2)"),
        ("0.001", "0.001BD", "numeric(3,3)"),
        ("1e3", "1000BD", "numeric(4,0)"),
        ("1.5e-3", "0.0015BD", "numeric(4,4)"),
        ("5.", "5BD", "numeric(1,0)"),
        ("1e300", "CAST('1e300' AS DOUBLE)", "double precision"),
    ],
)
def test_number_literals(text, sql, kind):
    number = number_literal(text)
    assert (number.sql, str(number.type)) == (sql, kind)


def test_spark_strings_are_escaped():
    assert spark_string("it's a \\ and \n") == "'it\\'s a \\\\ and \n'"


@pytest.mark.parametrize(
    ("value", "kind", "sql"),
    [
        (True, "boolean", "true"),
        (5, "integer", "CAST('5' AS INT)"),
        (b"\x01\xff", "bytea", "X'01FF'"),
        (date(2024, 1, 2), "date", "DATE '2024-01-02'"),
        (datetime(2024, 1, 2, 3, 4, 5, 6), "timestamp", "TIMESTAMP_NTZ '2024-01-02 03:04:05.000006'"),
        (datetime(2024, 1, 2, tzinfo=UTC), "timestamptz", "TIMESTAMP_LTZ '2024-01-02 00:00:00+00:00'"),
    ],
)
def test_constants_in_spark(value, kind, sql):
    assert spark_constant(value, SqlType(kind)) == sql


_DIGITS = st.text("0123456789", min_size=1, max_size=20)
_WRITTEN = st.one_of(
    _DIGITS,
    st.builds("{}{}.{}".format, st.sampled_from(["", "-", "+"]), _DIGITS, _DIGITS),
    st.builds("-{}".format, _DIGITS),
    st.builds(
        "{}-{:02}-{:02}{}".format,
        st.sampled_from(["2026", "0001", "1000", "9999", "12026"]),
        st.integers(0, 13),
        st.integers(0, 32),
        st.sampled_from(["", " 10:11:12", " 23:59:60", " 24:00:00", " 10:11:12.5", " 10:11:12.123456", " 10:11"]),
    ),
    st.sampled_from(["0x10", " 7", "1e3", "1_000", "NaN", "inf", ".5", "5.", "", "epoch", "１", "-0", "-0.0"]),
)


@given(
    st.lists(st.none() | _WRITTEN, min_size=1, max_size=4),
    st.sampled_from(
        [
            *map(SqlType, ("smallint", "integer", "bigint", "double precision", "date", "timestamp")),
            SqlType("numeric", precision=10, scale=2),
            SqlType("numeric", precision=38, scale=10),
            SqlType("numeric", precision=4, scale=4),
            SqlType("numeric", precision=5, scale=0),
        ]
    ),
)
def test_what_is_read_at_once_is_what_is_read_one_by_one(texts, kind):
    found = plain_values(texts, kind)
    if found is not None:
        values = [None if text is None else from_text(text, kind) for text in texts]
        assert found.type == kind.arrow
        assert list(map(repr, found.to_pylist())) == list(map(repr, pa.array(values, kind.arrow).to_pylist()))
