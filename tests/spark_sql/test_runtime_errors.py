"""What PostgreSQL refuses while it runs, Spark must refuse after translation."""

from __future__ import annotations

import pytest

from headrace.catalog import Catalog
from headrace.sql.bind import bind_query
from headrace.sql.parse import parse
from headrace.sql.translate import to_spark

ERRORS = [
    "1 / 0",
    "1.0 / 0",
    "1::float8 / 0",
    "1 % 0",
    "2147483647 + 1",
    "9223372036854775807 + 1",
    "32767::smallint + 1::smallint",
    "3000000000::int",
    "123456::numeric(5,2)",
    "sqrt(-1)",
    "ln(0)",
    "substring('abc' from 2 for -1)",
    "split_part('a', ',', 0)",
    "chr(0)",
    "decode('zz', 'hex')",
    "('x' || '1')::int",
    "('x' || '1')::boolean",
    "('{bad' || '')::jsonb",
    "(select x from (values (1), (2)) v(x))",
    "generate_series(1, 2, 0)",
]
"""Where PostgreSQL raises an error while it runs; what is wrong before is tests/unit's."""


@pytest.mark.parametrize("sql", ERRORS)
def test_error(session, sql):
    query = to_spark(bind_query(parse(f"SELECT {sql}")[0].query, Catalog()).expression)
    with pytest.raises(Exception, match="."):
        session.sql(query).collect()
