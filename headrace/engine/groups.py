"""Groups whose values add up: what becomes of them when rows come and go (:mod:`headrace.plan.sums`).

old     k=1  rows 2  sum 30  of 2
came    k=1  rows 1  sum  5  of 1
gone    k=1  rows 2  sum 30  of 2
new     k=1  rows 1  sum  5  of 1

An average is the new sum divided by the new count, with the digits that Spark's avg has.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.catalog import Operator
from headrace.errors import DataError
from headrace.state.keys import KeyCodec
from headrace.state.layout import Layout
from headrace.types import quote_spark

WIDE = 100
"""Digits of a sum on its way: whether it fits is decided when it is stored."""

QUOTIENT = decimal.Decimal(1).scaleb(-39)
"""To what Spark rounds a quotient before it rounds it to the digits of its type."""


def added_up(layout: Layout, operator: Operator, old: pa.Table, came: pa.Table, gone: pa.Table) -> pa.Table:
    """The new rows of the groups in any of the tables. One without rows is gone, unless it is the only one."""
    names = [name for name, _ in operator.adds]
    codec = KeyCodec([(layout.types[key.name], key) for key in layout.pk])
    with decimal.localcontext(decimal.Context(prec=WIDE)):
        keys, totals = _totals(codec, operator, names, ((old, 1), (came, 1), (gone, -1)))
    alive = [key for key, total in totals.items() if total[0] or not operator.key]
    columns: dict[str, list[Any]] = {name: [keys[key][at] for key in alive] for at, name in enumerate(operator.key)}
    for at, (name, counted) in enumerate(operator.adds):
        # A sum of nothing is NULL.
        counts = [1] * len(alive) if counted is None else [totals[key][names.index(counted)] for key in alive]
        columns[name] = [totals[key][at] if count else None for key, count in zip(alive, counts, strict=True)]
    for name, total, count in operator.averages:
        scale = decimal.Decimal(1).scaleb(-layout.row_schema.field(name).type.scale)
        columns[name] = [_divided(*each, scale) for each in zip(columns[total], columns[count], strict=True)]
    return pa.table([_column(layout, name, columns[name]) for name in layout.names], schema=layout.row_schema)


def total_expressions(operator: Operator) -> list[str]:
    """In Spark SQL, over old rows, those that came and those that went, which have a sign: the totals of a group."""
    # Not multiplied by the sign, because a product has fewer decimals.
    names = [quote_spark(name) for name, _ in operator.adds]
    return [f"sum(CASE WHEN _hr_sign < 0 THEN -{name} ELSE {name} END) AS {name}" for name in names]


def new_expressions(layout: Layout, operator: Operator) -> list[tuple[str, str]]:
    """… and the new rows over the totals, for each column; averages are for :class:`Averages` to fill in."""
    counted = dict(operator.adds)
    found = []
    for name in layout.names:
        text = quote_spark(name) if name in counted or name in operator.key else "NULL"
        if counted.get(name) is not None:  # a sum of nothing is NULL
            text = f"CASE WHEN {quote_spark(counted[name])} <> 0 THEN {text} END"
        found.append((name, text))
    return found


@dataclass(frozen=True, kw_only=True)
class Averages:
    """A task body for ``mapInArrow``: rows of groups in, the same with their averages out."""

    layout: Layout
    averages: tuple[tuple[str, str, str], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = {name: batch.column(name) for name in self.layout.names}
            for name, total, count in self.averages:
                scale = decimal.Decimal(1).scaleb(-self.layout.row_schema.field(name).type.scale)
                pairs = zip(columns[total].to_pylist(), columns[count].to_pylist(), strict=True)
                columns[name] = _column(self.layout, name, [_divided(*each, scale) for each in pairs])
            yield pa.RecordBatch.from_pydict(columns, schema=self.layout.row_schema)


def _divided(total: decimal.Decimal | None, count: int, scale: decimal.Decimal) -> decimal.Decimal | None:
    """
    >>> _divided(decimal.Decimal(2), 3, decimal.Decimal("0.001")), _divided(None, 0, decimal.Decimal("0.001"))
    (Decimal('0.667'), None)
    """
    if total is None:
        return None
    with decimal.localcontext(decimal.Context(prec=WIDE, rounding=decimal.ROUND_HALF_UP)):
        return (total / count).quantize(QUOTIENT).quantize(scale)


def _totals(
    codec: KeyCodec, operator: Operator, names: Sequence[str], tables: Iterable[tuple[pa.Table, int]]
) -> tuple[dict[bytes, tuple], dict[bytes, list[Any]]]:
    """The values of each key, and the sums of its columns."""
    keys: dict[bytes, tuple] = {}
    totals: dict[bytes, list[Any]] = {}
    for table, sign in tables:
        values = list(zip(*(table[name].to_pylist() for name in operator.key), strict=True)) or [()] * table.num_rows
        numbers = zip(*(table[name].to_pylist() for name in names), strict=True)
        for encoded, key, row in zip(codec.encode_table(table), values, numbers, strict=True):
            keys.setdefault(encoded, key)
            total = totals.setdefault(encoded, [0] * len(names))
            for at, number in enumerate(row):
                if number is not None:
                    total[at] += sign * number
    return keys, totals


def _column(layout: Layout, name: str, values: list[Any]) -> pa.Array:
    try:
        return pa.array(values, layout.row_schema.field(name).type)
    except (OverflowError, pa.ArrowInvalid):
        kind = layout.types[name]
        raise DataError(f"a sum is out of range for type {kind}", sqlstate="22003") from None
