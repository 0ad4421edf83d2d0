"""Reading ranges of a table by several connections.

No two connections can share a snapshot there. So a chunk is read within a *window* of the log: all before its begin
could be seen when the first SELECT began, and all that could be seen when the last had ended is before its end. What
was committed within the window is in some of the chunk's rows and not in others. The log has whole rows: applying all
that it has of the window, in order, gives the rows as of the window's end, whatever the SELECTs have seen of it.

A task is one SELECT, without a transaction around it. It holds the lock that any SELECT has: nobody can change the
table's columns while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.cdc.changelog import Key
from headrace.cdc.database import Hold, SplitReader
from headrace.cdc.mysql.positions import Begun, Snapshot
from headrace.cdc.mysql.server import Control
from headrace.cdc.mysql.session import Address
from headrace.cdc.mysql.tables import SourceTable
from headrace.cdc.mysql.types import CHOICES, TEXTS, SourceType, columns_read, read_by_arrow
from headrace.cdc.problems import AGAIN, SourceRefused
from headrace.state.layout import Layout


@dataclass(frozen=True, kw_only=True)
class SelectRange(SplitReader):
    address: Address

    def tables(self, split: tuple[str, tuple[SourceType, ...]], layout: Layout) -> Iterator[pa.Table]:
        query, kinds = split
        types = {
            at: layout.types[name].arrow
            for at, (kind, name) in enumerate(zip(kinds, layout.names, strict=True))
            if read_by_arrow(kind, layout.types[name])
        }
        session = self.address.session()
        try:
            for packets in session.packets(query):
                _check_collations(session.collations, kinds, layout.names)
                columns = packets.columns(len(kinds), types)
                arrays = [
                    columns_read(values, kind, layout.types[name], name)
                    for values, kind, name in zip(columns, kinds, layout.names, strict=True)
                ]
                yield pa.table(arrays, schema=layout.row_schema)
        finally:
            session.close()


def _check_collations(found: Sequence[int], kinds: Sequence[SourceType], names: Sequence[str]) -> None:
    """The table may have become another since it was looked at; bytes of another character set would be other texts."""
    for collation, kind, name in zip(found, kinds, names, strict=True):
        if kind.name in (*TEXTS, *CHOICES) and collation != kind.collation_id:
            raise SourceRefused(f'column "{name}" has another character set or collation now', hint=AGAIN)


class Window(Hold):
    def __init__(self, address: Address):
        self._address = address
        self._begin: Snapshot = self._asked(Control.snapshot)

    def _asked(self, question: Callable[[Control], Any]) -> Any:
        control = Control(self._address)
        try:
            return question(control)
        finally:
            control.close()

    def sees(self, transaction: Begun) -> bool:
        return self._begin.sees(transaction)

    def reader(self) -> SelectRange:
        return SelectRange(address=self._address)

    def split(self, table: SourceTable, start: Key | None, end: Key | None) -> Any:
        return table.rows_between(start, end), tuple(column.type for column in table.columns)

    def read(self) -> None:
        self.high = self._asked(Control.log_end)

    def close(self) -> None:
        pass
