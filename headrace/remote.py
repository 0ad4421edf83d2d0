"""A server in place of an engine: what the shell needs of a database, asked over the wire.

with headrace.connect("postgresql://root@localhost:4566/dev") as db:
    db.sql("SELECT * FROM t").rows()
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from decimal import Decimal
from types import TracebackType
from typing import TYPE_CHECKING, Any

from headrace.errors import EnvironmentProblem, HeadraceError
from headrace.intervals import parse_interval
from headrace.notices import Notice
from headrace.serving.wire.oids import typed
from headrace.sql.literals import NOT_CONSTANT, from_text
from headrace.types import SqlType
from headrace.zones import session_zone

if TYPE_CHECKING:
    import psycopg

TEXT = SqlType("varchar")
_STORED = """\
SELECT name, 'table' AS kind, row_count FROM rw_catalog.rw_tables
UNION ALL SELECT name, 'materialized view', row_count FROM rw_catalog.rw_materialized_views
UNION ALL SELECT name, 'index', NULL FROM rw_catalog.rw_indexes"""


class RemoteError(HeadraceError):
    """What the server said."""


class RemoteResult:
    def __init__(
        self,
        tag: str,
        columns: Sequence[str],
        types: Sequence[SqlType],
        rows: list[tuple],
        notice: str | None,
        zone: str = "UTC",
    ):
        self.tag, self.columns, self.types, self.notice = tag, list(columns), list(types), notice
        self.zone = zone
        self._rows = rows

    def rows(self) -> list[tuple]:
        return self._rows

    def __iter__(self) -> Iterator[tuple]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class RemoteDatabase:
    """One connection, which is one session."""

    def __init__(self, connection: psycopg.Connection):
        self._connection = connection
        self._notices: list[str] = []
        connection.add_notice_handler(lambda told: self._notices.append(_notice(told)))

    def session(self) -> RemoteDatabase:
        return self

    def sql(self, text: str) -> RemoteResult:
        """Runs all statements and answers the last one's result."""
        results = deque(self.execute(text), maxlen=1)
        return results[0] if results else RemoteResult("EMPTY", [], [], [], None)

    def execute(self, text: str) -> Iterator[RemoteResult]:
        import psycopg

        self._notices.clear()
        try:
            # Without parameters psycopg sends the text as it is, and the server takes it apart.
            with psycopg.ClientCursor(self._connection) as cursor:
                cursor.execute(text)
                more: bool | None = True
                while more:
                    if cursor.pgresult.command_status is not None:
                        yield self._result(cursor.pgresult)
                    more = cursor.nextset()
        except psycopg.Error as error:
            raise _told(error) from None

    def _result(self, result: Any) -> RemoteResult:
        columns = range(result.nfields)
        # An array is shown as the server writes it.
        kinds = [typed(result.ftype(at), result.fmod(at)) for at in columns]
        types = [TEXT if kind is None or kind.name == "array" else kind for kind in kinds]
        rows = [tuple(_value(result.get_value(row, at), types[at]) for at in columns) for row in range(result.ntuples)]
        notice = self._notices[0] if len(self._notices) == 1 else "; ".join(self._notices) or None
        self._notices = []
        tag = result.command_status.decode()
        zone = session_zone((self._connection.pgconn.parameter_status(b"TimeZone") or b"UTC").decode()).name
        return RemoteResult(tag, [result.fname(at).decode() for at in columns], types, rows, notice, zone)

    def status(self) -> dict[str, Any]:
        relations = [{"name": name, "kind": kind, "rows": rows} for name, kind, rows in self.sql(_STORED)]
        return {"relations": relations}

    def jobs(self) -> list[Any]:
        """Its one connection waits for the statement: nothing can be shown meanwhile."""
        return []

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> RemoteDatabase:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _value(data: bytes | None, kind: SqlType) -> Any:
    if data is None:
        return None
    text = data.decode()
    if kind.name == "numeric":
        return Decimal(text)
    if kind.name == "interval":
        return parse_interval(text)
    # What only Spark would put into its normal form, such as JSON with fractions, stays as the server wrote it.
    return text if (value := from_text(text, kind)) is NOT_CONSTANT else value


def _notice(told: psycopg.errors.Diagnostic) -> Notice:
    severity, sqlstate = told.severity_nonlocalized or "NOTICE", told.sqlstate or "00000"
    return Notice(told.message_primary or "", severity=severity, sqlstate=sqlstate)


def _told(error: psycopg.Error) -> HeadraceError:
    diagnosis = error.diag
    position = diagnosis.statement_position
    told = RemoteError(
        diagnosis.message_primary or str(error).strip(),
        hint=diagnosis.message_hint,
        position=None if position is None else int(position),
    )
    told.sqlstate = error.sqlstate or "08006"
    return told


def connect(url: str) -> RemoteDatabase:
    try:
        import psycopg
    except ImportError:
        raise EnvironmentProblem(
            "psycopg is needed to connect to a server", hint="pip install 'headrace[client]'"
        ) from None
    try:
        return RemoteDatabase(psycopg.connect(url, autocommit=True))
    except psycopg.Error as error:
        raise EnvironmentProblem(f"cannot connect to {url.rpartition('@')[2]}: {str(error).strip()}") from None
