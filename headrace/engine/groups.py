"""Groups whose values follow from their old ones (:mod:`headrace.plan.sums`): what comes of rows that come and go.

old     k=1  rows 2  sum 30  of 2  max 20
came    k=1  rows 1  sum  5  of 1  max  5
gone    k=1  rows 1  sum 10  of 1  max 10
new     k=1  rows 2  sum 25  of 2  max 20

An average is the new sum divided by the new count, with the digits that Spark's avg has.

A maximum is the greatest of the old one and what came, unless something went that was as great: then the group is *in
doubt*, and has to be looked at. It is enough to compare with the greatest of what went, also if that came only
meanwhile: of the greatest value of all, no row has gone.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.catalog import Operator
from headrace.errors import DataError
from headrace.state.keys import KeyCodec
from headrace.state.layout import Layout
from headrace.types import quote_spark

WIDE = 100
"""Digits of a sum on its way: whether it fits is decided when it is stored."""

ARROW_DIGITS = 38
"""Of a sum of Arrow's, which does not tell when it has more."""

QUOTIENT = decimal.Decimal(1).scaleb(-39)
"""To what Spark rounds a quotient before it rounds it to the digits of its type."""

NONE = -1
"""In place of the number of a row."""


class ChangedGroups:
    """The groups that are in any of three tables: as they were, of the rows that came, and of those that went."""

    def __init__(self, layout: Layout, operator: Operator, old: pa.Table, came: pa.Table, gone: pa.Table):
        self._layout, self._operator = layout, operator
        self._rows = pa.concat_tables(each.select(layout.names) for each in (old, came, gone)).combine_chunks()
        self._came = old.num_rows + came.num_rows
        """The number of the first row of what went."""
        self._codec = KeyCodec([(layout.types[key.name], key) for key in layout.pk])
        self._numbers: dict[bytes, int] = {}
        encoded = self._codec.encode_table(self._rows)
        self._group = np.fromiter(
            (self._numbers.setdefault(key, len(self._numbers)) for key in encoded), np.int64, len(encoded)
        )
        self._first = np.unique(self._group, return_index=True)[1]
        self._totals = {name: self._total(name) for name, _ in operator.adds}
        # A group without rows is gone, unless it is the only one.
        rows = self._totals[operator.adds[0][0]].to_numpy(zero_copy_only=False)
        self._alive = rows != 0 if operator.key else np.ones(len(rows), dtype=bool)
        self._best = {name: self._extreme(name, function) for name, function in operator.extremes}

    def in_doubt(self) -> pa.Table:
        """The keys of those that may have lost their minimum or maximum, and are still there."""
        doubted = np.zeros(len(self._numbers), dtype=bool)
        for _, lost in self._best.values():
            doubted |= lost
        found = np.flatnonzero(doubted & self._alive)
        return self._rows.select(list(self._operator.key)).take(pa.array(self._first[found]))

    def new_rows(self, again: pa.Table | None = None) -> pa.Table:
        """Those of the groups that are there now. ``again``: of those in doubt, computed from all of their rows."""
        alive = np.flatnonzero(self._alive)
        taken = pa.array(self._first[alive])
        columns = {name: self._rows[name].take(taken) for name in self._operator.key}
        for name, counted in self._operator.adds:
            total = self._totals[name].take(pa.array(alive))
            if counted is not None:  # a sum of nothing is NULL
                some = pc.not_equal(self._totals[counted].take(pa.array(alive)), 0)
                total = pc.if_else(some, total, pa.scalar(None, total.type))
            columns[name] = self._fitting(name, total)
        for name in self._best:
            columns[name] = self._extremes(name, again, alive)
        for name, total, count in self._operator.averages:
            field = self._layout.row_schema.field(name)
            scale = decimal.Decimal(1).scaleb(-field.type.scale)
            pairs = zip(columns[total].to_pylist(), columns[count].to_pylist(), strict=True)
            columns[name] = _column(self._layout, name, [_divided(*each, scale) for each in pairs])
        return pa.table([columns[name] for name in self._layout.names], schema=self._layout.row_schema)

    # --- sums -----------------------------------------------------------------------------------------------------

    def _total(self, name: str) -> pa.Array:
        """What a column of each group adds up to, in the order of their numbers; of nothing, 0."""
        values = self._rows[name].combine_chunks()
        scale = values.type.scale if pa.types.is_decimal(values.type) else 0
        values = pc.fill_null(values.cast(pa.decimal128(ARROW_DIGITS, scale)), decimal.Decimal(0))
        if not len(values):
            return pa.array([], values.type)
        largest = max(abs(each.as_py()) for each in pc.min_max(values).values())
        if largest * len(values) >= 10 ** (ARROW_DIGITS - scale):
            return self._long_total(values)
        signed = pa.chunked_array([values[: self._came], pc.negate(values[self._came :])])
        found = pa.table({"group": self._group, "value": signed}).group_by("group", use_threads=False)
        return found.aggregate([("value", "sum")]).sort_by("group")["value_sum"].combine_chunks()

    def _long_total(self, values: pa.Array) -> pa.Array:
        """The same where sums on the way may have more digits than Arrow's have."""
        totals = [decimal.Decimal(0)] * len(self._numbers)
        with decimal.localcontext(decimal.Context(prec=WIDE)):
            for at, (group, value) in enumerate(zip(self._group, values.to_pylist(), strict=True)):
                totals[group] += value if at < self._came else -value
        try:
            return pa.array(totals, values.type)
        except pa.ArrowInvalid:
            raise _out_of_range("numeric") from None

    def _fitting(self, name: str, values: pa.Array) -> pa.Array:
        try:
            return values.cast(self._layout.row_schema.field(name).type)
        except pa.ArrowInvalid:
            raise _out_of_range(self._layout.types[name]) from None

    # --- minima and maxima ----------------------------------------------------------------------------------------

    def _extreme(self, name: str, function: str) -> tuple[np.ndarray, np.ndarray]:
        """For each group the row that has it, of the old ones and those that came, and whether it may be gone."""
        values = self._rows[name].combine_chunks()
        ranks = pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
        ranks = ranks if function == "max" else -ranks
        known = pc.is_valid(values).to_numpy(zero_copy_only=False)
        before = np.arange(len(known)) < self._came
        best, gone = (self._greatest(ranks, np.flatnonzero(known & each)) for each in (before, ~before))
        # Where there is none, any row will do: what is compared with it does not count.
        lost = (gone != NONE) & ((best == NONE) | (ranks[gone] >= ranks[best])) if len(known) else gone != NONE
        return best, lost

    def _greatest(self, ranks: np.ndarray, among: np.ndarray) -> np.ndarray:
        found = np.full(len(self._numbers), NONE, dtype=np.int64)
        ordered = among[np.lexsort((ranks[among], self._group[among]))]
        last = np.append(self._group[ordered][1:] != self._group[ordered][:-1], [True])[: len(ordered)]
        found[self._group[ordered[last]]] = ordered[last]
        return found

    def _extremes(self, name: str, again: pa.Table | None, alive: np.ndarray) -> pa.Array:
        best, lost = self._best[name]
        best, values = best.copy(), self._rows[name]
        if again is not None:
            best[lost] = NONE
            for at, key in enumerate(self._codec.encode_table(again)):
                if lost[group := self._numbers[key]]:
                    best[group] = len(self._group) + at
            values = pa.chunked_array([*values.chunks, *again[name].chunks], values.type)
        rows = best[alive]
        return values.combine_chunks().take(pa.array(rows, pa.int64(), mask=rows == NONE))


def total_expressions(operator: Operator) -> list[str]:
    """In Spark SQL, over old rows, those that came and those that went, which have a sign: the totals of a group.

    If there are minima or maxima, nothing may have gone.
    """
    # Not multiplied by the sign, because a product has fewer decimals.
    names = [quote_spark(name) for name, _ in operator.adds]
    sums = [f"sum(CASE WHEN _hr_sign < 0 THEN -{name} ELSE {name} END) AS {name}" for name in names]
    return sums + [f"{function}({quote_spark(name)}) AS {quote_spark(name)}" for name, function in operator.extremes]


def new_expressions(layout: Layout, operator: Operator) -> list[tuple[str, str]]:
    """… and the new rows over the totals, for each column; averages are for :class:`Averages` to fill in."""
    counted, as_they_are = dict(operator.adds), {*operator.key, *dict(operator.extremes)}
    found = []
    for name in layout.names:
        text = quote_spark(name) if name in counted or name in as_they_are else "NULL"
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


def _column(layout: Layout, name: str, values: list[decimal.Decimal | None]) -> pa.Array:
    try:
        return pa.array(values, layout.row_schema.field(name).type)
    except (OverflowError, pa.ArrowInvalid):
        raise _out_of_range(layout.types[name]) from None


def _out_of_range(kind: object) -> DataError:
    return DataError(f"a sum is out of range for type {kind}", sqlstate="22003")
