"""What following needs of a database. Everything that differs between them is behind this.

A *control* answers short questions: ``snapshot()`` (which transactions one sees now), ``log_end()`` and
``log_bytes(start, end)`` (how far behind is one?), ``table(schema, name)``,
``estimated_rows(table)``, ``row_bytes(table)``, ``key_after(table, start, rows)`` and ``places(table, keys, bounds)``
(the order of keys, which only the database knows); ``interrupt()`` ends waiting for an answer. A *feed* is the log
(:class:`headrace.cdc.stream.LogFeed`). A *hold* is what the chunks of one flight are read as of (:class:`Hold`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from headrace.cdc.changelog import Change, Key, Truncate
from headrace.cdc.problems import SchemaChanged
from headrace.cdc.rereads import Reread
from headrace.cdc.source import MYSQL, SourceState
from headrace.cdc.stream import LogFeed
from headrace.state.layout import Layout
from headrace.types import SqlType


class SplitReader(ABC):
    """Reads a range of keys in a task, wherever that runs; it is pickled."""

    @abstractmethod
    def tables(self, split: Any, layout: Layout) -> Iterator[pa.Table]:
        """The rows, piece by piece."""


class Hold(ABC):
    """What a chunk is read as of."""

    high: int
    """A position of the log: whatever the chunk shows was committed before. Known once :meth:`read` was called."""

    @abstractmethod
    def sees(self, transaction: Any) -> bool:
        """Whether the whole chunk certainly shows a transaction. Of another one it may show something only if the log's
        rows are complete: applying them once more then changes nothing."""

    @abstractmethod
    def reader(self) -> SplitReader:
        """The same for all chunks of a source: it is planned once. It has the password, which no plan shows."""

    @abstractmethod
    def split(self, table: Any, start: Any, end: Any) -> Any:
        """What the reader needs to know of a range; it is pickled, and not secret."""

    @abstractmethod
    def read(self) -> None:
        """All of the chunk has been read."""

    @abstractmethod
    def close(self) -> None: ...


class Database(ABC):
    waits_for_others = False
    """Whether a table can be read only when transactions have ended that ran when it was published"""

    # --- a source ----------------------------------------------------------------------------------------------

    @abstractmethod
    def address(self, state: SourceState, password: str | None) -> Any: ...

    @abstractmethod
    def control(self, address: Any) -> Any: ...

    @abstractmethod
    def feed(self, state: SourceState, address: Any, on_news: Callable[[], None]) -> LogFeed: ...

    @abstractmethod
    def check_source(self, control: Any, state: SourceState) -> SourceState:
        """Whether a source can be made: what is missing is said before anything is made."""

    @abstractmethod
    def set_up(self, control: Any, state: SourceState) -> SourceState:
        """Makes what there has to be on the server, and finds where the log begins."""

    @abstractmethod
    def clean_up(self, control: Any, state: SourceState) -> None:
        """Removes it, as far as it is there."""

    @abstractmethod
    def by_hand(self, state: SourceState) -> str:
        """What somebody has to run there, if we cannot."""

    # --- a table -----------------------------------------------------------------------------------------------

    @abstractmethod
    def default_schema(self, state: SourceState, options: dict[str, str]) -> str: ...

    @abstractmethod
    def natural(self, kind: Any, column: str) -> SqlType: ...

    @abstractmethod
    def checked(self, kind: Any, wanted: SqlType, column: str) -> SqlType: ...

    @abstractmethod
    def table_from_json(self, data: dict[str, Any]) -> Any: ...

    @abstractmethod
    def begin_table(self, control: Any, state: SourceState, table: Any) -> None:
        """From now on, the log has its changes."""

    @abstractmethod
    def end_table(self, control: Any, state: SourceState, table: Any) -> None: ...

    @abstractmethod
    def gone(self, control: Any, state: SourceState, tables: Sequence[Any]) -> list[tuple[Any, str]]:
        """Tables of which the log will say nothing any more, and why."""

    def changed(self, control: Any, tables: Sequence[Any], position: int) -> dict[Any, SchemaChanged | bool]:
        """Tables that have other columns on the server than we know: why they cannot go on, or whether there are only
        more of them, or longer ones. Not all databases can be asked; then the log has to say it. ``position``: all of
        the log before it has been taken."""
        return {}

    def looked_at(self) -> dict[str, Any]:
        """What has to be known of tables when they are looked at again, be it after a restart: parts of the source's
        state."""
        return {}

    def only_nulls_added(self, control: Any, table: Any) -> bool:
        """Whether all rows that were there have NULL in the columns that are new, so that nothing has to be read."""
        return False

    # --- reading -----------------------------------------------------------------------------------------------

    @abstractmethod
    def hold(self, address: Any) -> Hold: ...

    def rows_now(self, address: Any, table: Any, keys: Sequence[Key]) -> Reread:
        """Single rows, whole, for logs that leave something out of them."""
        raise NotImplementedError("this database's log has whole rows")

    @abstractmethod
    def reader(self, table: Any, relation: Any) -> Any:
        """Makes changes of the log's rows: has ``changes(event)``, and ``adds``: columns that are new, or longer."""

    def other_changes(self, event: Any, table: Any) -> list[Change | Truncate]:
        """Of an event that names no relation: it may concern any table."""
        return event.changes(table)


def database(connector: str) -> Database:
    """Loaded when it is needed: the other one's driver need not be there."""
    if connector == MYSQL:
        from headrace.cdc.mysql.database import Mysql

        return Mysql()
    from headrace.cdc.postgres.database import Postgres

    return Postgres()
