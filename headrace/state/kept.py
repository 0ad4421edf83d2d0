"""A column of a file as the block cache keeps it (:mod:`headrace.state.blocks`): in as few bytes as its values need.

How many relations fit depends on it. A number of at most 18 digits, a date or a time has as many bytes as the largest
of its file; of texts that repeat themselves each is kept once, and two bytes for each row say which; and a number that
is the same in all rows is kept once. All else stays as Arrow has it. What is taken out is as it was put in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.state.physical import array_of_ints, int_array

SEVERAL = 4
"""Texts are kept once each if a value is there so often, on average."""

MOST_TEXTS = np.iinfo(np.uint16).max + 1
"""… and not more of them."""

PARTS = 32
"""Arrays of one column beyond which they become one."""

Stretch = tuple[int, int]
"""Rows of a file, from the first to before the last."""


def is_number(kind: pa.DataType) -> bool:
    """Whether a value is one integer of at most 64 bits."""
    if pa.types.is_decimal128(kind):
        return kind.precision <= 18
    signed = pa.types.is_signed_integer(kind)
    return signed or pa.types.is_date32(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind)


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_binary(kind)


class KeptColumn:
    """Values of those row groups that were put. Not for several threads at once."""

    def __init__(self, starts: np.ndarray):
        """``starts``: the first row of each row group, and the number of rows."""
        self._starts = starts
        self.there = np.zeros(len(starts) - 1, dtype=np.bool_)
        self._forms: list[_Same | _Numbers | _Texts | _Arrays] = []
        self._form_of = np.zeros(len(starts) - 1, dtype=np.int8)

    @property
    def bytes(self) -> int:
        return sum(form.bytes for form in self._forms)

    def put(self, groups: np.ndarray, stretches: Sequence[Stretch], values: pa.Array) -> None:
        """``stretches``: where the rows of the groups are, one after the other."""
        if not self._forms or not self._forms[-1].put(groups, stretches, values):
            for kind in _KINDS[_NUMBER if is_number(values.type) else _TEXT if is_text(values.type) else _OTHER]:
                # What has been given up before is not tried again.
                if not any(isinstance(form, kind) for form in self._forms):
                    form = kind(self._starts, values)
                    if form.put(groups, stretches, values):
                        self._forms.append(form)
                        break
        self._form_of[groups] = len(self._forms) - 1
        self.there[groups] = True

    def take(self, groups: np.ndarray, rows: np.ndarray) -> pa.Array:
        """Values of rows, of which the row groups are known."""
        which = self._form_of[groups]
        numbers = np.unique(which)
        if len(numbers) == 1:
            return self._forms[numbers[0]].take(groups, rows)
        places = [np.flatnonzero(which == number) for number in numbers]
        parts = [
            self._forms[number].take(groups[place], rows[place]) for number, place in zip(numbers, places, strict=True)
        ]
        return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(places), kind="stable")))


class _Same:
    """One number in all rows, as most rows of a table are of one epoch."""

    bytes = 16

    def __init__(self, starts: np.ndarray, values: pa.Array):
        self._kind = values.type
        self._value = int_array(values[:1]) if len(values) else None

    def put(self, groups: np.ndarray, stretches: Sequence[Stretch], values: pa.Array) -> bool:
        return self._value is not None and not values.null_count and bool((int_array(values) == self._value).all())

    def take(self, groups: np.ndarray, rows: np.ndarray) -> pa.Array:
        return array_of_ints(self._kind, np.repeat(self._value, len(rows)))


class _Numbers:
    """The bytes that the largest number needs, for each row."""

    def __init__(self, starts: np.ndarray, values: pa.Array):
        self._kind, self._put = values.type, 0
        # Memory that was not written to is not there yet: it costs what is put.
        self._numbers = np.empty(starts[-1], dtype=_narrowest(int_array(values)))
        self._valid: np.ndarray | None = None

    @property
    def bytes(self) -> int:
        return self._put * (self._numbers.itemsize + (self._valid is not None))

    def put(self, groups: np.ndarray, stretches: Sequence[Stretch], values: pa.Array) -> bool:
        numbers = int_array(values)
        if (wanted := _narrowest(numbers)).itemsize > self._numbers.itemsize:
            self._numbers = self._numbers.astype(wanted)
            self._put = len(self._numbers)  # all of it has been written to
        if values.null_count and self._valid is None:
            self._valid = np.ones(len(self._numbers), dtype=np.bool_)
        spread(self._numbers, stretches, numbers)
        if self._valid is not None:
            spread(self._valid, stretches, values.is_valid().to_numpy(zero_copy_only=False))
        self._put = min(self._put + len(values), len(self._numbers))
        return True

    def take(self, groups: np.ndarray, rows: np.ndarray) -> pa.Array:
        valid = None if self._valid is None else self._valid[rows]
        return array_of_ints(self._kind, self._numbers[rows].astype(np.int64), valid)


class _Texts:
    """Each text once, NULL being one, and for each row which it is."""

    def __init__(self, starts: np.ndarray, values: pa.Array):
        self._texts, self._put = values.slice(0, 0), 0
        self._which = np.empty(starts[-1], dtype=np.uint16)

    @property
    def bytes(self) -> int:
        return self._put * self._which.itemsize + self._texts.nbytes

    def put(self, groups: np.ndarray, stretches: Sequence[Stretch], values: pa.Array) -> bool:
        encoded = values.dictionary_encode(null_encoding="encode")
        places = pc.index_in(encoded.dictionary, value_set=self._texts)
        new = encoded.dictionary.filter(places.is_null())
        count = len(self._texts) + len(new)
        if count > MOST_TEXTS or count * SEVERAL > self._put + len(values):
            return False
        numbers = places.fill_null(0).to_numpy().astype(np.uint16)
        numbers[places.is_null().to_numpy(zero_copy_only=False)] = np.arange(len(self._texts), count)
        self._texts = pa.concat_arrays([self._texts, new])
        spread(self._which, stretches, numbers[encoded.indices.to_numpy()])
        self._put += len(values)
        return True

    def take(self, groups: np.ndarray, rows: np.ndarray) -> pa.Array:
        return self._texts.take(pa.array(self._which[rows]))


class _Arrays:
    """As they were read: for each row group in which of the arrays it is, and from which row on."""

    def __init__(self, starts: np.ndarray, values: pa.Array):
        self._starts = starts
        self._arrays: list[pa.Array] = []
        self._array = np.zeros(len(starts) - 1, dtype=np.int32)
        self._first = np.zeros(len(starts) - 1, dtype=np.int64)

    @property
    def bytes(self) -> int:
        return sum(each.nbytes for each in self._arrays)

    def put(self, groups: np.ndarray, stretches: Sequence[Stretch], values: pa.Array) -> bool:
        if len(self._arrays) >= PARTS:
            lengths = np.array([0, *map(len, self._arrays)])
            self._first += np.cumsum(lengths)[self._array]
            self._array[:] = 0
            self._arrays = [pa.concat_arrays(self._arrays)]
        sizes = self._starts[groups + 1] - self._starts[groups]
        self._first[groups] = np.cumsum(sizes) - sizes
        self._array[groups] = len(self._arrays)
        self._arrays.append(values)
        return True

    def take(self, groups: np.ndarray, rows: np.ndarray) -> pa.Array:
        places, which = self._first[groups] + rows - self._starts[groups], self._array[groups]
        numbers = np.unique(which)
        if len(numbers) == 1:
            return self._arrays[numbers[0]].take(pa.array(places))
        parts = [self._arrays[number].take(pa.array(places[which == number])) for number in numbers]
        back = np.empty(len(which), dtype=np.int64)
        back[np.argsort(which, kind="stable")] = np.arange(len(which))
        return pa.concat_arrays(parts).take(pa.array(back))


_NUMBER, _TEXT, _OTHER = range(3)
_KINDS = {_NUMBER: (_Same, _Numbers), _TEXT: (_Texts, _Arrays), _OTHER: (_Arrays,)}
"""By what a column has: how it is kept, and how if that will not do"""


def _narrowest(numbers: np.ndarray) -> np.dtype:
    """
    >>> _narrowest(np.array([0, 127])), _narrowest(np.array([-5, 128])), _narrowest(np.array([0, 1 << 40]))
    (dtype('int8'), dtype('int16'), dtype('int64'))
    """
    low, high = (numbers.min(), numbers.max()) if len(numbers) else (0, 0)
    kinds = [np.dtype(kind) for kind in (np.int8, np.int16, np.int32, np.int64)]
    return next(kind for kind in kinds if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)


def stretches_of(groups: np.ndarray, starts: np.ndarray) -> list[Stretch]:
    """The rows of row groups, neighbours together.

    >>> stretches_of(np.array([0, 1, 3]), np.array([0, 10, 15, 20, 30]))
    [(0, 15), (20, 30)]
    """
    edges = np.flatnonzero(np.diff(groups) != 1) + 1
    return [(int(starts[part[0]]), int(starts[part[-1] + 1])) for part in np.split(groups, edges) if len(part)]


def spread(into: np.ndarray, stretches: Sequence[Stretch], values: np.ndarray) -> None:
    at = 0
    for start, stop in stretches:
        into[start:stop] = values[at : at + stop - start]
        at += stop - start
