"""The first rows of each key (:mod:`headrace.plan.top`), from those that were, and rows that came and went.

    the first 2 of k=1     9 8          of all its rows, 9 8 5 3
    came                   7            new: 9 8
    went                     8          new: 9 7? No: 5 is not known here, and 7 is after 8, where others may be

What was first is first among all that was there, so what was not is after it. If none of it went, the new first rows
are among it and what came. If some did, as far as it reached still all is known; a key of which that is not enough is
*in doubt*, and has to be looked at. One that had fewer rows than are asked for had no others.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from headrace.catalog import Operator
from headrace.state.keys import KeyCodec
from headrace.state.layout import Layout


class ChangedFirstRows:
    def __init__(self, source: Layout, operator: Operator, old: pa.Table, came: pa.Table, gone: pa.Table):
        """``old``: rows of the relation that holds the first ones, of all touched keys; the others are of its input,
        ``source``."""
        self._layout, self._count = source, operator.first[0]
        ((_, columns),) = operator.inputs
        self._key = list(columns)
        self._codec = KeyCodec([(source.types[key.name], key) for key in source.pk[: len(columns)]])
        self._whole = KeyCodec([(source.types[key.name], key) for key in source.pk])
        names = dict(operator.kept)
        rows = {
            field.name: old[names[field.name]] if field.name in names else pa.nulls(old.num_rows, field.type)
            for field in source.row_schema
        }
        self._old = pa.table(rows, schema=source.row_schema)
        self._known = pa.concat_tables([self._old, came.select(source.names)]).combine_chunks()
        self._doubted: set[bytes] = set()
        if gone.num_rows:
            self._without(gone.select(source.names))

    def _without(self, gone: pa.Table) -> None:
        """Takes away what went, and says of which keys too little is left."""
        went = set(self._encoded(gone))
        old, prefixes = self._encoded(self._old), self._prefixes(self._old)
        reach: dict[bytes, bytes] = {}
        for key, prefix in zip(old, prefixes, strict=True):
            reach[prefix] = max(key, reach.get(prefix, key))
        full = {prefix for prefix, count in Counter(prefixes).items() if count == self._count}
        lost = {prefix for key, prefix in zip(old, prefixes, strict=True) if prefix in full and key in went}
        # A row that changes both went and came; the one that came is the one that counts.
        here = [key not in went for key in old] + [True] * (self._known.num_rows - len(old))
        self._known = self._known.filter(pa.array(here, pa.bool_()))
        if lost:
            known = zip(self._encoded(self._known), self._prefixes(self._known), strict=True)
            left = Counter(prefix for key, prefix in known if prefix in lost and key <= reach[prefix])
            self._doubted = {prefix for prefix in lost if left[prefix] < self._count}

    def in_doubt(self) -> pa.Table:
        """The keys whose first rows may be among others."""
        keys = self._old.select(self._key)
        if not self._doubted:
            return keys.slice(0, 0)
        at = {prefix: number for number, prefix in enumerate(self._prefixes(self._old)) if prefix in self._doubted}
        return keys.take(pa.array(sorted(at.values()), pa.int64()))

    def rows(self, again: pa.Table | None = None) -> pa.Table:
        """Those among which the first ones are. ``again``: the first rows of the keys in doubt, as they are stored."""
        if again is None:
            return self._known
        sure = [prefix not in self._doubted for prefix in self._prefixes(self._known)]
        return pa.concat_tables([self._known.filter(pa.array(sure, pa.bool_())), again])

    def _encoded(self, rows: pa.Table) -> list[bytes]:
        return self._whole.encode_table(rows)

    def _prefixes(self, rows: pa.Table) -> list[bytes]:
        return self._codec.encode_table(rows, self._key)
