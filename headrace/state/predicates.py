"""Key ranges in Spark SQL, in the pk's own order.

>>> from headrace.catalog import KeyColumn
>>> from headrace.types import SqlType
>>> layout = Layout(relation_id=1, columns=(("id", SqlType("integer")),), pk=(KeyColumn(name="id"),), distribution=())
>>> range_predicate(layout, Bounds(after=(3, None), upto=(4, None)))
'`_hr_vnode` >= 3 AND `_hr_vnode` <= 4'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.catalog import KeyColumn
from headrace.intervals import FIELDS
from headrace.state.layout import Layout
from headrace.state.physical import precision_of, scale_of
from headrace.state.runs import VNODE, RunFile
from headrace.types import SqlType, quote_spark

Edge = tuple[int, Sequence[Any] | None]
"""A vnode and a pk in it; None for the pk is the vnode's very start (of a range's begin) or end (of its end)."""


class Bounds:
    """A half-open key range ``(after, upto]`` in (vnode, pk) order; None means unbounded."""

    def __init__(self, after: Edge | None = None, upto: Edge | None = None):
        self.after, self.upto = after, upto

    def covers(self, layout: Layout, file: RunFile) -> bool:
        codec = layout.codec
        if self.after is not None:
            vnode, key = self.after
            if key is None and file.high < vnode.to_bytes(2, "big"):
                return False
            if key is not None and file.high <= codec.encode_with_vnode(vnode, key):
                return False
        if self.upto is None:
            return True
        vnode, key = self.upto
        if key is None:
            return file.low[:2] <= vnode.to_bytes(2, "big")
        return file.low <= codec.encode_with_vnode(vnode, key)


def range_predicate(layout: Layout, bounds: Bounds) -> str:
    """``bounds`` in Spark SQL, over the stored columns."""
    column = quote_spark(VNODE)
    parts = []
    if bounds.after is not None:
        vnode, key = bounds.after
        parts.append(f"{column} >= {vnode}")
        if key is not None:
            parts.append(f"({column} > {vnode} OR {beyond_key(layout, key)})")
    if bounds.upto is not None:
        vnode, key = bounds.upto
        parts.append(f"{column} <= {vnode}")
        if key is not None:
            parts.append(f"({column} < {vnode} OR NOT {beyond_key(layout, key)})")
    # Written as a conjunction, so that Parquet's statistics can prune on the vnode.
    return " AND ".join(parts) or "TRUE"


def order_start(layout: Layout) -> str | None:
    """One number in Spark SQL that never goes down in (vnode, pk) order, or None for a key of a type that has none.

    Spark compares eight bytes of what it sorts by first without looking at the rows. Those of a vnode, which has many
    rows, tell little; those of a vnode and the start of a key nearly all.
    """
    if not layout.pk:
        return None
    key = layout.pk[0]
    number = _number(layout.types[key.name], quote_spark(key.name))
    if number is None:
        return None
    upper = f"shiftright({number}, 8) + {1 << 55}L"
    if key.descending:
        upper = f"{(1 << 56) - 1}L - ({upper})"
    null = 0 if key.nulls_first else (1 << 56) - 1
    return f"shiftleft(CAST({quote_spark(VNODE)} AS BIGINT) - 128L, 56) + coalesce({upper}, {null}L)"


def _number(kind: SqlType, column: str) -> str | None:
    """A bigint that never goes down where the value goes up."""
    if kind.name in ("smallint", "integer", "bigint", "time"):
        # Shifted up where there is room, so that nothing of it is lost when it is shifted down.
        return column if kind.name == "bigint" else f"shiftleft(CAST({column} AS BIGINT), 8)"
    if kind.name == "date":
        return f"shiftleft(CAST(unix_date({column}) AS BIGINT), 8)"
    if kind.name in ("timestamp", "timestamptz"):
        return f"unix_micros(CAST({column} AS TIMESTAMP))"
    if kind.name == "numeric" and precision_of(kind) - scale_of(kind) <= 16:
        return f"shiftleft(CAST(floor({column}) AS BIGINT), 8)"
    return None


def beyond_key(layout: Layout, key: Sequence[Any], within: str = "") -> str:
    """Whether a row's pk comes after a key, in the pk's own order."""
    inner = "FALSE"
    for key_column, value in reversed(list(zip(layout.pk, key, strict=True))):
        column = f"{within}.{quote_spark(key_column.name)}" if within else quote_spark(key_column.name)
        if value is None:
            # Nothing sorts after NULL when NULLs come last; everything that is not NULL does when they come first.
            beyond = f"{column} IS NOT NULL" if key_column.nulls_first else "FALSE"
            inner = f"({beyond} OR ({column} IS NULL AND ({inner})))"
        else:
            literal = spark_literal(value, layout.types[key_column.name].spark)
            inner = _beyond_value(key_column, column, literal, inner)
    return f"({inner})"


def beyond_columns(layout: Layout, key: Sequence[str], within: str = "") -> str:
    """As :func:`beyond_key`, where the key is in columns of the row itself: the text is the same for all keys."""
    inner = "FALSE"
    for key_column, other in reversed(list(zip(layout.pk, key, strict=True))):
        column = f"{within}.{quote_spark(key_column.name)}" if within else quote_spark(key_column.name)
        beyond = f"{column} IS NOT NULL" if key_column.nulls_first else "FALSE"
        null = f"({beyond} OR ({column} IS NULL AND ({inner})))"
        inner = f"IF({other} IS NULL, {null}, {_beyond_value(key_column, column, other, inner)})"
    return f"({inner})"


def _beyond_value(key: KeyColumn, column: str, value: str, inner: str) -> str:
    comparison = f"({column} IS NOT NULL AND {column} {'<' if key.descending else '>'} {value})"
    if not key.nulls_first:
        comparison = f"({column} IS NULL OR {comparison})"
    return f"({comparison} OR ({column} IS NOT NULL AND {column} = {value} AND ({inner})))"


def spark_literal(value: Any, spark_type: str) -> str:
    """A Python value as a Spark SQL literal of a given type."""
    if value is None:
        return f"CAST(NULL AS {spark_type})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, dict):  # an interval
        length, months, days = (value[name] for name in FIELDS)
        return f"named_struct('length', CAST('{length}' AS BIGINT), 'months', {months}, 'days', {days})"
    text = value if isinstance(value, str) else str(value)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'" if spark_type == "STRING" else f"CAST('{escaped}' AS {spark_type})"
