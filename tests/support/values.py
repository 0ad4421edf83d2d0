"""Hypothesis strategies for values of SQL types, as Arrow's ``to_pylist`` gives them, with a taste for the edges."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from headrace.types import SqlType

NUMERIC_SMALL = SqlType("numeric", precision=12, scale=3)
NUMERIC_18 = SqlType("numeric", precision=18, scale=0)
NUMERIC_19 = SqlType("numeric", precision=19, scale=4)
NUMERIC_DEFAULT = SqlType("numeric")

KEY_TYPES = (
    SqlType("boolean"),
    SqlType("smallint"),
    SqlType("integer"),
    SqlType("bigint"),
    NUMERIC_SMALL,
    NUMERIC_18,
    NUMERIC_19,
    NUMERIC_DEFAULT,
    SqlType("real"),
    SqlType("double precision"),
    SqlType("varchar"),
    SqlType("jsonb"),
    SqlType("bytea"),
    SqlType("date"),
    SqlType("timestamp"),
    SqlType("timestamptz"),
    SqlType("interval"),
)


def signed(bits: int) -> st.SearchStrategy[int]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return st.one_of(st.integers(low, high), st.integers(-3, 3), st.sampled_from([low, low + 1, high - 1, high]))


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    unscaled = st.one_of(
        st.integers(-limit, limit),
        st.sampled_from([-limit, limit, 0, 127, 128, -128, -129, 255, 256, min(limit, 1 << 63)]),
    )
    return unscaled.map(lambda number: Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale)))


def floats(width: int) -> st.SearchStrategy[float]:
    edges = [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1.0, -1.0]
    return st.one_of(st.floats(width=width), st.sampled_from(edges))


def values(kind: SqlType) -> st.SearchStrategy[Any]:
    if kind.name == "numeric":
        return decimals(kind.precision or 38, 10 if kind.scale is None else kind.scale)
    # A day in from both ends: time zones must not push a value out of Python's range.
    first, last = datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30)
    texts = st.one_of(
        st.text(st.characters(codec="utf-8"), max_size=40),
        st.sampled_from(["", "a", "a\0", "a\0b", "\0", "\xff", "😀"]),
    )
    return {
        "boolean": st.booleans(),
        "smallint": signed(16),
        "integer": signed(32),
        "bigint": signed(64),
        "real": floats(32),
        "double precision": floats(64),
        "varchar": texts,
        "jsonb": texts,
        "bytea": st.one_of(
            st.binary(max_size=40), st.sampled_from([b"", b"\0", b"\0\0", b"\0\xff", b"\xff", b"\xff\0"])
        ),
        "date": st.dates(),
        "timestamp": st.datetimes(first, last),
        "timestamptz": st.datetimes(first, last, timezones=st.just(datetime.UTC)),
        "interval": st.fixed_dictionaries({"length": signed(64), "months": signed(32), "days": signed(32)}),
    }[kind.name]


def maybe(kind: SqlType) -> st.SearchStrategy[Any]:
    """A value or NULL."""
    return st.one_of(st.none(), values(kind))
