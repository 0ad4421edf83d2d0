"""Expressions over Arrow arrays, for what means the same in Arrow as in Spark.

A linear view of plain columns, comparisons and arithmetic needs no query engine. Inside a task that reads rows with
Arrow and writes them with Arrow it is a few calls over whole arrays, while handing the rows to the JVM and back would
cost more than all the rest (docs/design/backfill.md). :mod:`headrace.operators.vectorize` makes these expressions from
a plan, or says that it cannot.

What depends on the values is found out on the way: a text that is not ASCII, a NaN in a comparison, a number that
overflows. Then :class:`NotVectorized` (or an error of Arrow's) says so, nothing has happened, and Spark evaluates
instead, with its own result or its own error.

Everything here is data that pickles: tasks take it along.

>>> rows = pa.table({"a": [1, None, 3]})
>>> Call("add", (Column("a"), Constant(1, pa.int64())), pa.int64()).evaluate(rows).to_pylist()
[2, None, 4]
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.state.physical import array_of_ints, int_array
from headrace.state.runs import EPOCH, VNODE, WEIGHT

_QUOTIENT = decimal.Decimal(1).scaleb(-39)
_EXACT_DIGITS = 160
"""With so many no quotient of two decimals can seem to lie half way between others when it does not."""

_FAR = 1 << 61
"""Microseconds from 1970 that may be taken from each other"""

_VALUE_BY_VALUE = {"divide_decimals_18", "divide_decimals_19", "divide_decimals_20"}
"""By how many decimals the quotient has."""

Datum = pa.Array | pa.ChunkedArray | pa.Scalar


class NotVectorized(Exception):
    """Arrow cannot say what Spark would."""


FAULTS = (
    NotVectorized, pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowCapacityError,
    OverflowError,
)  # fmt: skip
"""What evaluating may raise where Spark has to decide."""


@dataclass(frozen=True)
class Column:
    name: str

    def evaluate(self, rows: pa.Table) -> Datum:
        return rows[self.name]


@dataclass(frozen=True)
class Constant:
    value: Any
    type: pa.DataType

    def evaluate(self, rows: pa.Table) -> Datum:
        return pa.scalar(self.value, self.type)


@dataclass(frozen=True)
class Call:
    function: str
    """A key of FUNCTIONS."""
    arguments: tuple[Vector, ...]
    type: pa.DataType

    def evaluate(self, rows: pa.Table) -> Datum:
        found = FUNCTIONS[self.function](*(argument.evaluate(rows) for argument in self.arguments))
        return found if found.type == self.type else found.cast(self.type)


Vector = Column | Constant | Call


@dataclass(frozen=True)
class VectorFilter:
    condition: Vector

    def apply(self, rows: pa.Table) -> pa.Table:
        keep = self.condition.evaluate(rows)
        if isinstance(keep, pa.Scalar):
            return rows if keep.as_py() else rows.slice(0, 0)
        return rows.filter(keep)


@dataclass(frozen=True)
class VectorProject:
    columns: tuple[tuple[str, Vector, pa.DataType], ...]

    def apply(self, rows: pa.Table) -> pa.Table:
        """The columns, and the internal ones as they are."""
        arrays, names = [], []
        for name, vector, kind in self.columns:
            values = vector.evaluate(rows)
            if isinstance(values, pa.Scalar):
                values = pa.repeat(values, rows.num_rows)
            arrays.append(values if values.type == kind else values.cast(kind))
            names.append(name)
        for name in (VNODE, EPOCH, WEIGHT):
            if name in rows.column_names:
                arrays.append(rows[name])
                names.append(name)
        return pa.Table.from_arrays(arrays, names=names)


@dataclass(frozen=True)
class VectorBranch:
    """What becomes of the rows of one relation on the way to one output; a UNION ALL has several."""

    relation_id: int
    steps: tuple[VectorFilter | VectorProject, ...] = ()

    def apply(self, rows: pa.Table) -> pa.Table:
        for step in self.steps:
            rows = step.apply(rows)
        return rows


# --- functions --------------------------------------------------------------------------------------------------


def _divide(left: Datum, right: Datum) -> Datum:
    """Toward zero; a division by zero is an error, in Arrow too."""
    return pc.divide_checked(left, right)


def _modulo(left: Datum, right: Datum) -> Datum:
    return pc.subtract_checked(left, pc.multiply_checked(pc.divide_checked(left, right), right))


def _multiply_wide(left: Datum, right: Datum) -> Datum:
    wide = [side.cast(pa.decimal256(side.type.precision, side.type.scale)) for side in (left, right)]
    return pc.multiply(*wide)


def _divide_decimals(scale: int, left: Datum, right: Datum) -> Datum:
    """As Spark divides: to 39 digits after the point, and then to those of the type, half up both times. Whether the
    quotient fits is decided by who stores it, and a division by zero is Spark's to tell."""
    count = next((len(side) for side in (left, right) if not isinstance(side, pa.Scalar)), 1)
    sides = [[side.as_py()] * count if isinstance(side, pa.Scalar) else side.to_pylist() for side in (left, right)]
    found, stored = [], decimal.Decimal(1).scaleb(-scale)
    with decimal.localcontext(decimal.Context(prec=_EXACT_DIGITS, rounding=decimal.ROUND_HALF_UP)):
        for over, under in zip(*sides, strict=True):
            if over is None or under is None:
                found.append(None)
            elif not under:
                raise NotVectorized("a division by zero")
            else:
                found.append((over / under).quantize(_QUOTIENT).quantize(stored))
    return pa.array(found, pa.decimal128(38, scale))


def _moved(add: Callable[[Datum, Datum], Datum]) -> Callable[[Datum, Datum], Datum]:
    """A time without a zone, and so much later or earlier. All its days have 24 hours; its months are not alike."""

    def moved(time: Datum, span: Datum) -> Datum:
        length, months = (pc.struct_field(span, [at]) for at in range(2))
        if pc.any(pc.not_equal(_array(months), 0)).as_py():
            raise NotVectorized("months")
        return add(time, pc.cast(length, pa.duration("us")))

    return moved


def _date_bin(stride: Datum, value: Datum, origin: Datum) -> Datum:
    """When the window began that a time is in; all windows are as long, and one of them begins at the origin."""
    if not all(isinstance(each, pa.Scalar) and each.is_valid for each in (stride, origin)) or stride.as_py() <= 0:
        raise NotVectorized("windows that are not all as long")
    times = _array(value)
    times = times.combine_chunks() if isinstance(times, pa.ChunkedArray) else times
    numbers = int_array(times)
    if max(abs(origin.value), int(np.abs(numbers).max(initial=0))) > _FAR:
        raise NotVectorized("times long ago, or far away")
    valid = None if times.null_count == 0 else times.is_valid().to_numpy(zero_copy_only=False)
    found = array_of_ints(times.type, numbers - (numbers - origin.value) % stride.as_py(), valid)
    return found[0] if isinstance(value, pa.Scalar) else found


def _to_char(moment: Datum, *parts: Datum) -> Datum:
    """Pieces of a time's own text, each by where it begins and ends, or a text and nothing."""
    times = _array(moment).cast(pa.timestamp("us"))
    if not _within(times, 1000):
        raise NotVectorized("years that have not four digits")
    text, found = times.cast(pa.string()), []
    for first, last in zip(parts[::2], parts[1::2], strict=True):
        here = [each.as_py() for each in (first, last)]
        found.append(here[0] if here[1] is None else pc.utf8_slice_codeunits(text, *here))
    # A text among pieces goes to every row; all pieces may be texts.
    whole = pc.binary_join_element_wise(pc.utf8_slice_codeunits(text, 0, 0), *found, "")
    return whole[0] if isinstance(moment, pa.Scalar) else whole


def _date_trunc(unit: Datum, time: Datum) -> Datum:
    if not _within(time, 1):
        raise NotVectorized("times long ago, or far away")
    return pc.floor_temporal(time, unit=unit.as_py())


def _within(time: Datum, first: int) -> bool:
    """Whether all times are of that year or a later one, and of 9999 or an earlier one."""
    # By the times themselves: Arrow's years have 16 bits, and begin anew after 32767.
    after, last = (pa.scalar(dt.datetime(year, 1, 1), pa.timestamp("us")) for year in (first, 9999))
    before = pa.scalar(last.value + 365 * 86_400_000_000, pa.int64()).cast(last.type)
    times = _array(time)
    if pa.types.is_date(times.type):
        after, before = after.cast(times.type), before.cast(times.type)
    return bool(pc.all(pc.and_(pc.greater_equal(times, after), pc.less(times, before)), min_count=0).as_py())


def _year(time: Datum) -> Datum:
    if not _within(time, 1):
        raise NotVectorized("times long ago, or far away")
    return pc.year(time).cast(pa.decimal128(19, 0))


def _split_part(text: Datum, delimiter: Datum, number: Datum) -> Datum:
    """Empty if there are fewer parts."""
    texts, at = _array(text), number.as_py()
    texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    parts = pc.split_pattern(texts, delimiter.as_py(), max_splits=at)
    part = pc.list_element(pc.list_slice(parts, at - 1, at, return_fixed_size_list=True), 0)
    found = pc.if_else(texts.is_valid(), pc.fill_null(part, ""), pa.scalar(None, texts.type))
    return found[0] if isinstance(text, pa.Scalar) else found


def _without_nan(compare: Callable[[Datum, Datum], Datum]) -> Callable[[Datum, Datum], Datum]:
    """To Spark, as to PostgreSQL, NaN is equal to itself and larger than all else; to Arrow it is neither."""

    def checked(left: Datum, right: Datum) -> Datum:
        for side in (left, right):
            if pa.types.is_floating(side.type) and pc.any(pc.is_nan(_array(side))).as_py():
                raise NotVectorized("NaN in a comparison")
        return compare(left, right)

    return checked


def _ascii(convert: Callable[[Datum], Datum]) -> Callable[[Datum], Datum]:
    """Beyond ASCII the two know different rules: to Spark an upper case ß has two letters."""

    def checked(text: Datum) -> Datum:
        if pc.all(pc.string_is_ascii(_array(text))).as_py() is False:
            raise NotVectorized("a text that is not ASCII")
        return convert(text)

    return checked


def _array(values: Datum) -> pa.Array | pa.ChunkedArray:
    return pa.repeat(values, 1) if isinstance(values, pa.Scalar) else values


def _concatenate(*texts: Datum) -> Datum:
    return pc.binary_join_element_wise(*texts, "")


def _case(*parts: Datum) -> Datum:
    """Conditions and results in turn, then what else."""
    *whens, otherwise = parts
    conditions = pc.make_struct(*(pc.fill_null(each, False) for each in whens[::2]))
    return pc.case_when(conditions, *whens[1::2], otherwise)


def _in(value: Datum, *items: Datum) -> Datum:
    array = _array(value)
    found = pc.is_in(array, value_set=pa.array([item.as_py() for item in items], value.type))
    found = pc.if_else(pc.is_valid(array), found, pa.scalar(None, pa.bool_()))
    return found[0] if isinstance(value, pa.Scalar) else found


FUNCTIONS: dict[str, Callable[..., Datum]] = {
    "add": pc.add_checked,
    "subtract": pc.subtract_checked,
    "multiply": pc.multiply_checked,
    "multiply_wide": _multiply_wide,
    "add_floats": pc.add,
    "subtract_floats": pc.subtract,
    "multiply_floats": pc.multiply,
    "divide": _divide,
    **{name: partial(_divide_decimals, int(name[-2:])) for name in _VALUE_BY_VALUE},
    "modulo": _modulo,
    "negate": pc.negate_checked,
    "abs": pc.abs_checked,
    "=": _without_nan(pc.equal),
    "<>": _without_nan(pc.not_equal),
    "<": _without_nan(pc.less),
    "<=": _without_nan(pc.less_equal),
    ">": _without_nan(pc.greater),
    ">=": _without_nan(pc.greater_equal),
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "not": pc.invert,
    "is_null": pc.is_null,
    "is_true": lambda value: pc.fill_null(value, False),
    "is_false": lambda value: pc.fill_null(pc.invert(value), False),
    "in": _in,
    "case": _case,
    "coalesce": pc.coalesce,
    "cast": lambda value: value,  # the call's type says to what
    "concatenate": _concatenate,
    "upper": _ascii(pc.ascii_upper),
    "lower": _ascii(pc.ascii_lower),
    "length": pc.utf8_length,
    "interval_length": lambda value: pc.struct_field(value, [0]),
    "later": _moved(pc.add_checked),
    "earlier": _moved(pc.subtract_checked),
    "date_bin": _date_bin,
    "date_trunc": _date_trunc,
    "to_char": _to_char,
    "split_part": _split_part,
    "replace": lambda text, old, new: pc.replace_substring(text, old.as_py(), new.as_py()),
    "substring": lambda text, *ends: pc.utf8_slice_codeunits(text, *(end.as_py() for end in ends)),
    # As decimals at once: Arrow makes one of a bigint only if it has room for all bigints.
    "year": _year,
    "month": lambda day: pc.month(day).cast(pa.decimal128(19, 0)),
    "day": lambda day: pc.day(day).cast(pa.decimal128(19, 0)),
    "hour": lambda time: pc.hour(time).cast(pa.decimal128(19, 0)),
    "minute": lambda time: pc.minute(time).cast(pa.decimal128(19, 0)),
    "starts_with": lambda text, pattern: pc.starts_with(text, pattern.as_py()),
    "ends_with": lambda text, pattern: pc.ends_with(text, pattern.as_py()),
    "like": lambda text, pattern: pc.match_like(text, pattern.as_py()),
    "contains": lambda text, pattern: pc.match_substring(text, pattern.as_py()),
}


def is_slow(branches: Sequence[VectorBranch]) -> bool:
    """Whether something is computed value by value, which is for a few rows only."""
    vectors: list[Vector] = []
    for branch in branches:
        for step in branch.steps:
            vectors += [step.condition] if isinstance(step, VectorFilter) else [each for _, each, _ in step.columns]
    while vectors:
        vector = vectors.pop()
        if isinstance(vector, Call):
            if vector.function in _VALUE_BY_VALUE:
                return True
            vectors += vector.arguments
    return False


def columns_of(vector: Vector) -> set[str]:
    if isinstance(vector, Column):
        return {vector.name}
    if isinstance(vector, Call):
        return set().union(*map(columns_of, vector.arguments))
    return set()


def columns_read(branches: Sequence[VectorBranch]) -> set[str] | None:
    """What is needed of the rows that come in; None, which is all of it, where a branch does not project."""
    needed: set[str] = set()
    for branch in branches:
        for step in branch.steps:
            if isinstance(step, VectorProject):
                needed |= set().union(*(columns_of(vector) for _, vector, _ in step.columns))
                break
            needed |= columns_of(step.condition)
        else:
            return None
    return needed
