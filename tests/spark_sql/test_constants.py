"""Constants that the driver evaluates by itself."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.sql.bind import bind_expression
from headrace.sql.casts import assign
from headrace.sql.dialect import parse_expression
from headrace.sql.expressions import Expressions
from headrace.sql.literals import NOT_CONSTANT, constant
from headrace.sql.parse import parse

CONSTANTS = {
    "boolean": ["true", "'off'", "NULL"],
    "smallint": ["-5", "'42'"],
    "integer": ["0", "-2147483648", "' 7 '"],
    "bigint": ["9223372036854775807", "-9223372036854775808", "5"],
    "numeric": ["1.5", "-3", "'0.0000000001'", "1e5"],
    "numeric(10,2)": ["1.5", "5", "-0.01", "'12345678.91'"],
    "real": ["0.1", "1.5", "-3", "'1e-5'"],
    "double precision": ["0.1", "1e300", "-3", "'1.7976931348623157e308'", "123456789.123456789"],
    "varchar": ["'x'", r"'a\b'", "'it''s'", "5", "-5", "''", "'é €'"],
    "bytea": [r"'\xDEad'", "'abc'", r"'a\\\001'"],
    "date": ["'2024-02-29'", "'0001-01-01'", "'9999-12-31'", "date '1582-10-10'"],
    "timestamp": ["'2024-01-02 03:04:05.678901'", "'1969-12-31 23:59:59.9'", "'2024-01-02T03:04+05'"],
    "timestamptz": ["'2024-01-02 03:04:05+02'", "'2024-01-02'", "'1900-01-01 00:00:00.000001-0330'"],
    "uuid": ["'{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}'", "uuid '0000000000000000000000000000000b'"],
    "time": ["'04:05:06.789'", "'4:05 pm'", "time '24:00'", "'00:00:00.0000015'"],
    "time(2)": ["'04:05:06.785'", "'23:59:59.996'"],
    "interval": ["'1 day 02:03:04.5'", "'-5 minutes'"],
    "jsonb": [
        """'{"b": [1, null, true], "a": {"z": "x y", "": -5}}'""",
        "'5'",
        "'\"x\"'",
        "'[]'",
        "'9223372036854775807'",
    ],
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_agree_with_spark(session, name):
    """A value that INSERT … VALUES stores by itself is the one that Spark would have stored."""
    (column,) = parse(f"CREATE TABLE t (c {name})")[0].columns
    for text in CONSTANTS[name]:
        tree = parse_expression(text)
        ours = constant(tree, column.type)
        assert ours is not NOT_CONSTANT, text
        sql = assign(Expressions().value(bind_expression(tree, ())), column.type, "c").sql
        (value,) = session.sql(f"SELECT {sql} AS c").toArrow()["c"].cast(column.type.arrow).to_pylist()
        assert value == pa.array([ours], column.type.arrow).to_pylist()[0], text
