"""Talking to a PostgreSQL server: what it is, what it has, and what is set up there for a source.

Every connection has the same settings, so that a value has the same text whoever prints it: the snapshot's COPY on an
executor, or the walsender that decodes the log.
"""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.cdc.changelog import Key
from headrace.cdc.postgres.pgoutput import LogColumn
from headrace.cdc.postgres.snapshots import Snapshot
from headrace.cdc.postgres.tables import Partition, SourceColumn, SourceTable, identifier, literal
from headrace.cdc.postgres.types import SourceType
from headrace.cdc.problems import SourceRefused, SourceUnreachable
from headrace.errors import EnvironmentProblem, InvalidDefinition, UndefinedRelation, Unsupported

if TYPE_CHECKING:
    import psycopg2.extensions

OLDEST = 130000
"""The first version with pg_current_snapshot() and publications of partitioned tables"""

CONNECT_SECONDS = 10

ANSWER_SECONDS = 300
"""A server that has not answered a short question for so long will not. Its machine may still say that it is there."""

LET_GO_SECONDS = 10
"""How long a reader of the log that is told to go may take"""

LOCK_SECONDS = 10
"""Who waits for a table that somebody else keeps gives up: it is asked for again later, and meanwhile others go on"""

_SETTINGS = {
    "DateStyle": "ISO",
    "TimeZone": "UTC",
    "IntervalStyle": "postgres",
    "extra_float_digits": "3",
    "lc_monetary": "C",
    "bytea_output": "hex",
    "search_path": "pg_catalog",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "lock_timeout": f"{LOCK_SECONDS}s",
    "row_security": "off",
    "idle_in_transaction_session_timeout": "0",
    "client_min_messages": "warning",
}


@dataclass(frozen=True, kw_only=True)
class Address:
    host: str
    port: int
    user: str
    database: str
    password: str | None = field(default=None, repr=False)
    sslmode: str = "prefer"
    sslrootcert: str | None = None
    sslcert: str | None = None
    sslkey: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.database}"

    def connect(self, **how: Any) -> psycopg2.extensions.connection:
        """With ``connection_factory`` it is one of replication."""
        psycopg2 = driver()
        options = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
        try:
            return psycopg2.connect(
                host=self.host, port=self.port, user=self.user, dbname=self.database, password=self.password,
                sslmode=self.sslmode, sslrootcert=self.sslrootcert, sslcert=self.sslcert, sslkey=self.sslkey,
                options=options, client_encoding="UTF8", application_name="headrace", connect_timeout=CONNECT_SECONDS,
                # A server that is gone without a word is noticed after a minute, not after hours.
                keepalives_idle=30, keepalives_interval=10, keepalives_count=3, tcp_user_timeout=60_000, **how,
            )  # fmt: skip
        except psycopg2.Error as problem:
            raise self.unreachable(problem) from None

    def unreachable(self, problem: Exception) -> SourceUnreachable:
        return SourceUnreachable(f"cannot connect to PostgreSQL at {self}: {self._said(problem)}")

    def _said(self, problem: Exception) -> str:
        said = " ".join(str(problem).split())
        # Its library does not print passwords. One that is a part of ordinary words would only be guessed by the gaps.
        return said.replace(self.password, "***") if len(self.password or "") > 3 else said

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        psycopg2 = driver()
        try:
            yield
        except psycopg2.errors.LockNotAvailable:
            raise SourceRefused(f"PostgreSQL at {self}: a table is locked by somebody else") from None
        except (psycopg2.OperationalError, psycopg2.InterfaceError) as problem:
            raise SourceUnreachable(f"PostgreSQL at {self}: {self._said(problem)}") from None
        except psycopg2.Error as problem:
            raise SourceRefused(f"PostgreSQL at {self}: {self._said(problem)}") from None


def driver() -> Any:
    try:
        import psycopg2
    except ImportError:
        raise EnvironmentProblem(
            "the driver for PostgreSQL is not installed", hint="pip install 'headrace[postgres]'"
        ) from None
    import psycopg2.errors
    import psycopg2.extras

    return psycopg2


class Control:
    """A connection for short questions. It is opened when needed, and again after it was lost. Nobody waits for ever
    for an answer: a server that hangs is like one that is gone."""

    def __init__(self, address: Address):
        self.address = address
        self._connection: Any = None
        self._interrupted = False

    def rows(self, sql: str) -> list[tuple]:
        with self.address.errors():
            try:
                if self._connection is None or self._connection.closed:
                    self._connect()
                with self._connection.cursor() as cursor:
                    cursor.execute(sql)
                    self._wait(ANSWER_SECONDS)
                    return cursor.fetchall() if cursor.description else []
            except BaseException:
                self.close()
                raise

    def _connect(self) -> None:
        self._connection = self.address.connect(async_=1)  # that is, whoever asks waits by himself, as below
        try:
            self._wait(CONNECT_SECONDS)
        except driver().Error as problem:
            raise self.address.unreachable(problem) from None

    def _wait(self, seconds: float) -> None:
        """Until what was asked is answered."""
        psycopg2, deadline = driver(), time.monotonic() + seconds
        wanted = {psycopg2.extensions.POLL_READ: select.POLLIN, psycopg2.extensions.POLL_WRITE: select.POLLOUT}
        while (state := self._connection.poll()) != psycopg2.extensions.POLL_OK:
            waiting = select.poll()
            waiting.register(self._connection.fileno(), wanted[state])
            if not waiting.poll(500) and (self._interrupted or time.monotonic() > deadline):
                raise psycopg2.OperationalError(f"it has not answered for {seconds} s")

    def interrupt(self) -> None:
        """Whoever waits for an answer gives up. Nothing is asked any more."""
        self._interrupted = True

    def value(self, sql: str) -> Any:
        return self.rows(sql)[0][0]

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(Exception):
                self._connection.close()
            self._connection = None

    def snapshot(self) -> Snapshot:
        return Snapshot.parse(self.value("SELECT pg_current_snapshot()::text"))

    def sender_timeout(self) -> float:
        """Seconds after which the server gives up a reader of its log that is silent; 0: it never does."""
        return int(self.value("SELECT setting FROM pg_settings WHERE name = 'wal_sender_timeout'")) / 1000

    def log_end(self) -> int:
        """The position that the log's reader reaches once it has all that is there now."""
        lsn, block = self.rows("SELECT pg_current_wal_insert_lsn()::text, current_setting('wal_block_size')::int")[0]
        return before_header(parse_lsn(lsn), block)

    def log_bytes(self, start: int, end: int) -> int:
        return end - start

    # --- a source ----------------------------------------------------------------------------------------------

    def check_server(self) -> None:
        """Whether a source can be made here; what is missing is said before anything is."""
        version = int(self.value("SHOW server_version_num"))
        if version < OLDEST:
            raise Unsupported(
                f"PostgreSQL at {self.address} is version {self.value('SHOW server_version')}",
                hint="version 13 or newer is needed",
            )
        if self.value("SELECT pg_is_in_recovery()"):
            raise Unsupported(f"PostgreSQL at {self.address} is a standby", hint="give the primary's address")
        if (level := self.value("SHOW wal_level")) != "logical":
            raise SourceRefused(
                f"wal_level of PostgreSQL at {self.address} is {level}",
                hint="ALTER SYSTEM SET wal_level = 'logical', then restart the server",
            )
        role = self.rows("SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user")
        if not role or not role[0][0]:
            raise SourceRefused(
                f'user "{self.address.user}" may not replicate',
                hint=f"ALTER ROLE {identifier(self.address.user)} REPLICATION",
            )
        used, most = self.rows(
            "SELECT count(*), current_setting('max_replication_slots')::int FROM pg_replication_slots"
        )[0]
        if used >= most:
            raise SourceRefused(
                f"all {most} replication slots of PostgreSQL at {self.address} are in use",
                hint="drop one that is not needed, or raise max_replication_slots",
            )

        used, most = self.rows("SELECT count(*), current_setting('max_wal_senders')::int FROM pg_stat_replication")[0]
        if used >= most:
            raise SourceRefused(
                f"all {most} walsenders of PostgreSQL at {self.address} are in use",
                hint="raise max_wal_senders, or end a replica that is not needed",
            )

    def check_may_publish(self) -> None:
        if not self.value("SELECT has_database_privilege(current_database(), 'CREATE')"):
            raise SourceRefused(
                f'user "{self.address.user}" may not create a publication',
                hint=f"GRANT CREATE ON DATABASE {identifier(self.address.database)} TO"
                f" {identifier(self.address.user)}, or create one, and name it by publication.name",
            )

    def slot(self, name: str) -> dict[str, Any] | None:
        found = self.rows(
            "SELECT active, wal_status, plugin, confirmed_flush_lsn::text, active_pid FROM pg_replication_slots"
            f" WHERE slot_name = {literal(name)}"
        )
        names = ("active", "wal_status", "plugin", "confirmed", "pid")
        return dict(zip(names, found[0], strict=True)) if found else None

    def create_slot(self, name: str) -> int:
        """Answers the position from which on the log can be read."""
        lsn = self.value(f"SELECT lsn::text FROM pg_create_logical_replication_slot({literal(name)}, 'pgoutput')")
        return parse_lsn(lsn)

    def drop_slot(self, name: str) -> None:
        if (slot := self.slot(name)) is not None:
            deadline = time.monotonic() + LET_GO_SECONDS
            while slot is not None and slot["pid"] is not None and time.monotonic() < deadline:
                self.rows(f"SELECT pg_terminate_backend({slot['pid']})")  # which takes a moment
                time.sleep(0.05)
                slot = self.slot(name)
            if slot is None:
                return
            self.rows(f"SELECT pg_drop_replication_slot({literal(name)})")

    def has_publication(self, name: str) -> bool:
        return bool(self.rows(f"SELECT 1 FROM pg_publication WHERE pubname = {literal(name)}"))

    def create_publication(self, name: str) -> None:
        self.rows(f"CREATE PUBLICATION {identifier(name)} WITH (publish_via_partition_root = true)")

    def drop_publication(self, name: str) -> None:
        self.rows(f"DROP PUBLICATION IF EXISTS {identifier(name)}")

    def publishes_in_part(self, name: str) -> dict[int, str]:
        """What is left out of tables of the publication, by the table's number; all of it is needed."""
        found = self.rows(
            "SELECT c.oid::bigint, p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate,"
            " to_jsonb(t) ->> 'rowfilter', jsonb_array_length(to_jsonb(t) -> 'attnames') < (SELECT count(*) FROM"
            " pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '')"
            " FROM pg_publication p JOIN pg_publication_tables t USING (pubname)"
            " JOIN pg_namespace n ON n.nspname = t.schemaname"
            " JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename"
            f" WHERE p.pubname = {literal(name)}"
        )
        told = {oid: "only some columns" for oid, _, _, some_columns in found if some_columns}
        told |= {oid: f"only its rows with {rows}" for oid, _, rows, _ in found if rows is not None}
        some = {oid for oid, all_changes, _, _ in found if not all_changes}
        return told | dict.fromkeys(some, "not all of INSERT, UPDATE, DELETE and TRUNCATE")

    def publishes(self, name: str, schema: str, table: str) -> bool:
        return bool(
            self.rows(
                f"SELECT 1 FROM pg_publication_tables WHERE pubname = {literal(name)}"
                f" AND schemaname = {literal(schema)} AND tablename = {literal(table)}"
            )
        )

    def published(self, name: str) -> set[int]:
        """The tables that it publishes, by number."""
        found = self.rows(
            "SELECT c.oid::bigint FROM pg_publication_tables p JOIN pg_namespace n ON n.nspname = p.schemaname"
            " JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename"
            f" WHERE p.pubname = {literal(name)}"
        )
        return {oid for (oid,) in found}

    def shapes(self, oids: Iterable[int]) -> dict[int, dict[int, LogColumn]]:
        """The columns that tables have now, by number, as the log would describe them; none of tables that are gone."""
        found: dict[int, dict[int, LogColumn]] = {}
        rows = self.rows(
            "SELECT attrelid::bigint, attnum, attname, atttypid::bigint, atttypmod FROM pg_attribute"
            f" WHERE attrelid IN ({_listed(oids)}) AND attnum > 0 AND NOT attisdropped AND attgenerated = ''"
            " ORDER BY attrelid, attnum"
        )
        for oid, number, name, type_oid, modifier in rows:
            found.setdefault(oid, {})[number] = LogColumn(name, type_oid, modifier, False)
        return found

    def names(self, oids: Iterable[int]) -> dict[int, tuple[str, str]]:
        """What tables are called now, with their schemas."""
        found = self.rows(
            "SELECT c.oid::bigint, n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            f" WHERE c.oid IN ({_listed(oids)})"
        )
        return {oid: (schema, name) for oid, schema, name in found}

    def keys(self, oids: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """The primary keys that tables have now."""
        found: dict[int, tuple[str, ...]] = {}
        for oid, name in self.rows(_KEYS.format(oids=_listed(oids))):
            found[oid] = (*found.get(oid, ()), name)
        return found

    def labels(self, oids: Iterable[int]) -> dict[int, dict[str, list[str]]]:
        """The values of columns that are enums, by table and column."""
        found: dict[int, dict[str, list[str]]] = {}
        for oid, name, label in self.rows(
            "SELECT a.attrelid::bigint, a.attname, e.enumlabel FROM pg_attribute a"
            f" JOIN pg_enum e ON e.enumtypid = a.atttypid WHERE a.attrelid IN ({_listed(oids)})"
        ):
            found.setdefault(oid, {}).setdefault(name, []).append(label)
        return found

    def rewritten_columns(self, oids: Iterable[int]) -> dict[int, tuple[int, set[str]]]:
        """The file of each table, and the columns that were changed by the transaction that changed the table last: if
        the file was new then, that was ALTER TABLE … USING, which may have put anything into rows."""
        found: dict[int, tuple[int, set[str]]] = {}
        for oid, file, name in self.rows(
            "SELECT c.oid::bigint, pg_relation_filenode(c.oid)::bigint, a.attname FROM pg_class c"
            " JOIN pg_attribute a ON a.attrelid = c.oid AND a.xmin = c.xmin AND a.attnum > 0 AND NOT a.attisdropped"
            f" WHERE c.relkind = 'r' AND c.oid IN ({_listed(oids)})"
        ):
            found.setdefault(oid, (file, set()))[1].add(name)
        return found

    def partitions(self, oids: Iterable[int]) -> dict[int, dict[int, Partition]]:
        """Of partitioned tables: all that is below them."""
        found: dict[int, dict[int, Partition]] = {}
        # One that was a table before, and was attached, is older than its being a partition: the rows of the catalog
        # that say so were written by different transactions. Those of hidden columns are never written again.
        for oid, part, file, attached, size in self.rows(
            "SELECT c.oid::bigint, p.oid::bigint, coalesce(pg_relation_filenode(p.oid), 0)::bigint, i.xmin <> a.xmin,"
            " pg_relation_size(p.oid) FROM pg_class c CROSS JOIN LATERAL pg_partition_tree(c.oid) AS tree"
            " JOIN pg_class p ON p.oid = tree.relid AND p.oid <> c.oid"
            " JOIN pg_inherits i ON i.inhrelid = p.oid"
            " JOIN pg_attribute a ON a.attrelid = p.oid AND a.attname = 'tableoid'"
            f" WHERE c.relkind = 'p' AND c.oid IN ({_listed(oids)})"
        ):
            found.setdefault(oid, {})[part] = Partition(file, attached and (file == 0 or bool(size)))
        return found

    def publish(self, name: str, table: SourceTable) -> None:
        if not self.publishes(name, table.schema, table.name):
            self.rows(f"ALTER PUBLICATION {identifier(name)} ADD TABLE {table.full_name}")

    def unpublish(self, name: str, schema: str, table: str) -> None:
        if self.publishes(name, schema, table):
            self.rows(f"ALTER PUBLICATION {identifier(name)} DROP TABLE {identifier(schema)}.{identifier(table)}")

    def touch_publication(self, name: str) -> None:
        """Makes walsenders look again at what it publishes; servers before 15.13 can miss a table that was added while
        a transaction was writing to it."""
        self.rows(f"ALTER PUBLICATION {identifier(name)} SET (publish_via_partition_root = true)")

    # --- a table -----------------------------------------------------------------------------------------------

    def table(self, schema: str, name: str) -> SourceTable:
        """All of its columns, and its primary key."""
        where = f"n.nspname = {literal(schema)} AND c.relname = {literal(name)}"
        found = self.rows(
            "SELECT c.oid::bigint, c.relkind, c.relreplident, c.relpersistence, has_table_privilege(c.oid, 'SELECT'),"
            " row_security_active(c.oid), EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid)"
            f" FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {where}"
        )
        shown = f'"{schema}.{name}"'
        if not found:
            raise UndefinedRelation(f"there is no table {shown} in PostgreSQL at {self.address}")
        oid, kind, identity, persistence, readable, filtered, has_children = found[0]
        if kind not in ("r", "p"):
            raise InvalidDefinition(f"{shown} is not a table", hint="views and foreign tables have no log")
        if persistence != "p":
            raise InvalidDefinition(
                f"table {shown} is unlogged or temporary", hint="only a logged table can be followed"
            )
        if not readable:
            raise SourceRefused(
                f'user "{self.address.user}" may not read {shown}',
                hint=f"GRANT SELECT ON {identifier(schema)}.{identifier(name)} TO {identifier(self.address.user)}",
            )
        if filtered:
            raise SourceRefused(
                f'user "{self.address.user}" sees only some rows of {shown}: it has row level security',
                hint="the log has all of them; use a role with BYPASSRLS, or the owner of the table",
            )
        if has_children and kind == "r":
            raise InvalidDefinition(
                f"other tables inherit from {shown}", hint="follow each of them; or make it a partitioned table"
            )
        columns = tuple(map(_column, self.rows(_COLUMNS.format(oid=oid))))
        key = self.keys([oid]).get(oid, ())
        if not key:
            raise InvalidDefinition(
                f"table {shown} has no primary key", hint="without one, its rows cannot be told apart; add one"
            )
        if identity not in ("d", "f"):
            raise InvalidDefinition(
                f"table {shown} has a REPLICA IDENTITY without the primary key",
                hint=f"ALTER TABLE {identifier(schema)}.{identifier(name)} REPLICA IDENTITY DEFAULT",
            )
        last, files = self.rows(_STORED.format(oid=oid))[0]
        table = SourceTable(
            schema=schema, name=name, columns=columns, key=key, oid=oid, last_attnum=last, files=tuple(files)
        )
        for column in table.key_columns:
            if not column.type.built_in and not column.type.enum:
                raise Unsupported(f'column "{column.name}" of type {column.type.text} cannot be part of a key')
        return table

    def key_after(self, table: SourceTable, start: Key | None, rows: int) -> Key | None:
        found = self.rows(table.key_after(start, rows))
        return found[0] if found else None

    def places(self, table: SourceTable, keys: Sequence[Key], bounds: Sequence[Key]) -> list[int]:
        return [row[0] for row in self.rows(table.places(keys, bounds))]

    def only_nulls_added(self, table: SourceTable) -> bool:
        """Whether all rows that were there have NULL in the columns that the table has got since we knew it: those had
        no default, none of them was dropped and made again, and no row has been written anew."""
        if not table.last_attnum:
            return False
        _, files = self.rows(_STORED.format(oid=table.oid))[0]
        return tuple(files) == table.files and not self.value(_ADDED.format(oid=table.oid, last=table.last_attnum))

    def row_bytes(self, table: SourceTable) -> int:
        """Of a row, on average, as of when the server looked last; 0: it has not."""
        name = f"{literal(table.full_name)}::regclass"
        found = self.value(
            "SELECT sum((c.relpages + coalesce(t.relpages, 0)) * current_setting('block_size')::bigint)"
            " / nullif(sum(greatest(c.reltuples, 0)), 0)"
            " FROM pg_class c LEFT JOIN pg_class t ON t.oid = c.reltoastrelid"
            f" WHERE c.relkind = 'r' AND c.oid IN (SELECT relid FROM pg_partition_tree({name}) UNION SELECT {name})"
        )
        return int(found or 0)

    def estimated_rows(self, table: SourceTable) -> int:
        """What the server's statistics say; it need not be close."""
        found = self.value(
            "SELECT coalesce(sum(greatest(reltuples, 0)), 0)::bigint FROM pg_class WHERE relkind = 'r' AND oid IN"
            f" (SELECT relid FROM pg_partition_tree({literal(table.full_name)}::regclass)"
            f" UNION SELECT {literal(table.full_name)}::regclass)"
        )
        return int(found)


_COLUMNS = """
SELECT a.attname, b.typname, bn.nspname, base.modifier,
       b.typtype = 'e', format_type(a.atttypid, a.atttypmod), a.attgenerated <> '', NOT a.attnotnull,
       CASE WHEN a.attcollation <> 0 THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) END,
       a.atttypid::bigint, a.atttypmod, a.attnum,
       array(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = b.oid ORDER BY enumsortorder)
FROM pg_attribute a
JOIN LATERAL (
    WITH RECURSIVE chain (oid, modifier) AS (  -- a domain may be based on another
        SELECT a.atttypid, a.atttypmod
        UNION ALL
        SELECT d.typbasetype, d.typtypmod FROM chain JOIN pg_type d ON d.oid = chain.oid AND d.typtype = 'd'
    )
    SELECT chain.* FROM chain JOIN pg_type t ON t.oid = chain.oid AND t.typtype <> 'd'
) AS base ON true
JOIN pg_type b ON b.oid = base.oid
JOIN pg_namespace bn ON bn.oid = b.typnamespace
LEFT JOIN pg_collation co ON co.oid = a.attcollation
LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""

_STORED = """
SELECT (SELECT max(attnum) FROM pg_attribute WHERE attrelid = {oid}),
       array(SELECT pg_relation_filenode(relid)::bigint FROM
             (SELECT {oid}::oid UNION SELECT relid FROM pg_partition_tree({oid})) AS parts (relid)
             WHERE pg_relation_filenode(relid) IS NOT NULL ORDER BY 1)
"""

_ADDED = """
SELECT count(*) FROM pg_attribute WHERE attrelid = {oid} AND attnum > {last}
AND (attisdropped OR atthasdef OR atthasmissing OR attgenerated <> '' OR attidentity <> '')
"""

_KEYS = """
SELECT i.indrelid::bigint, a.attname FROM pg_index i
CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k (attnum, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid IN ({oids}) AND i.indisprimary AND k.place <= i.indnkeyatts ORDER BY i.indrelid, k.place
"""


def _listed(oids: Iterable[int]) -> str:
    return ", ".join(map(str, oids)) or "0"


def _column(row: tuple) -> SourceColumn:
    name, kind, schema, modifier, enum, text, generated, nullable, collation, *more = row
    type_oid, type_modifier, number, labels = more
    return SourceColumn(
        name=name,
        type=SourceType(name=kind, schema=schema, modifier=modifier, enum=enum, text=text),
        collation=collation,
        generated=generated,
        nullable=nullable,
        type_oid=type_oid,
        type_modifier=type_modifier,
        number=number,
        labels=tuple(labels),
    )


def parse_lsn(text: str) -> int:
    """
    >>> parse_lsn("1/A0"), format_lsn(parse_lsn("1/A0"))
    (4294967456, '1/A0')
    """
    high, low = text.split("/")
    return (int(high, 16) << 32) | int(low, 16)


def before_header(lsn: int, block: int) -> int:
    """A position at the start of a page, as the log's reader counts: the inserter's lies behind the page's header.

    >>> before_header(2 * 8192 + 24, 8192) == 2 * 8192, before_header(8192 + 64, 8192) == 8192 + 64
    (True, True)
    """
    return lsn - lsn % block if lsn % block in (24, 40) else lsn


def format_lsn(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
