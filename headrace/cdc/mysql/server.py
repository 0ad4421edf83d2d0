"""Talking to a MariaDB or MySQL server: what it is, what it has, and whether it can be followed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from headrace.cdc.changelog import Key
from headrace.cdc.mysql.flavors import NEW_UUID, Flavor
from headrace.cdc.mysql.positions import Place, Snapshot
from headrace.cdc.mysql.session import Address, Session
from headrace.cdc.mysql.tables import SourceColumn, SourceTable, identifier
from headrace.cdc.mysql.types import CHOICES, SourceType, printed
from headrace.cdc.problems import ALL_AGAIN, SourceRefused
from headrace.errors import InvalidDefinition, InvalidParameterValue, UndefinedRelation, Unsupported

ANSWER_SECONDS = 300
"""A server that has not answered a short question for so long will not"""

KEYS_AT_ONCE = 200
"""Of which places are asked for in one statement"""


class Control:
    """A connection for short questions. It is opened when needed, and again after it was lost."""

    def __init__(self, address: Address):
        self.address = address
        self._session: Session | None = None

    def raw(self, sql: str) -> list[tuple[bytes | None, ...]]:
        try:
            return self._connected().rows(sql)
        except BaseException:
            self.close()
            raise

    def _connected(self) -> Session:
        if self._session is None:
            self._session = self.address.session(read_timeout=ANSWER_SECONDS)
        return self._session

    @property
    def flavor(self) -> Flavor:
        return self._connected().flavor

    @property
    def _shown(self) -> str:
        return f"{self.flavor.name} at {self.address}"

    def rows(self, sql: str) -> list[tuple[str | None, ...]]:
        return [tuple(None if value is None else value.decode() for value in row) for row in self.raw(sql)]

    def value(self, sql: str) -> str | None:
        return self.rows(sql)[0][0]

    def interrupt(self) -> None:
        """Whoever waits for an answer gives up. Nothing is asked any more."""
        if (session := self._session) is not None:
            session.interrupt()

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    # --- the log -----------------------------------------------------------------------------------------------

    def visible(self) -> Place:
        """All before it can be seen."""
        return self.flavor.visible(self.rows)

    def log_end(self) -> int:
        """All that can be seen is before it."""
        return self.flavor.end(self.rows).number

    def log_bytes(self, start: int, end: int) -> int:
        """Of all files from one position to the other."""
        first, last = Place.of("", start), Place.of("", end)
        sizes = {Place.parse(name, 0).file: size for name, size in self.files().items()}
        between = sum(size for file, size in sizes.items() if first.file <= file < last.file)
        return between - first.offset + last.offset

    def snapshot(self) -> Snapshot:
        return Snapshot(self.visible().number)

    def start(self) -> tuple[Place, str]:
        """Where following may begin, and transactions that the log has before."""
        return self.flavor.start(self.rows)

    def known(self, place: Place) -> str:
        """Transactions that the log has before a place, as the server numbers them."""
        return self.flavor.known(self.rows, place)

    def uuid(self) -> str:
        return self.flavor.uuid(self.rows)

    def check_log(self, place: Place, known: str, uuid: str) -> None:
        """A server that has lost its log, or another in its place, may have a file of the same name."""
        files = self.files()
        if place.name not in files:
            kept = sorted(Place.parse(name, 0).number for name in files)
            if kept and place.number < kept[0]:
                raise SourceRefused(
                    f"the server has removed {place.name} of its binary log, which is needed from {place.offset} on",
                    hint=f"{ALL_AGAIN}; see binlog_expire_logs_seconds",
                )
            raise SourceRefused(f"the server has no {place.name}: its binary log was reset", hint=ALL_AGAIN)
        short = files[place.name] < place.offset
        if found := "no such place" if short else self.flavor.difference(self.rows, place, known, uuid):
            raise SourceRefused(
                f"the server's binary log is another than the one that was read up to {place}: it has {found} there,"
                f" not {known or 'nothing'}",
                hint=f"it was reset, lost in a crash, or this is another server; {ALL_AGAIN}",
            )
        self.check_log_settings()

    def files(self) -> dict[str, int]:
        """Of the log: their sizes."""
        return {str(row[0]): int(str(row[1])) for row in self.rows("SHOW BINARY LOGS")}

    # --- a source ----------------------------------------------------------------------------------------------

    def check_server(self, server_id: int) -> None:
        """Whether a source can be made here; what is missing is said before anything is."""
        flavor = self.flavor
        if flavor.version < flavor.oldest:
            oldest = ".".join(map(str, flavor.oldest))
            raise Unsupported(f"the server at {self.address} is {flavor.shown}", hint=f"{oldest} or newer is needed")
        variables = self._variables("log_bin", "server_id")
        if variables["log_bin"] != "ON":
            raise SourceRefused(f"{self._shown} writes no binary log", hint="start it with log_bin and a server_id")
        self._check_replica()
        if variables["server_id"] == str(server_id):
            raise InvalidParameterValue(
                f"server.id {server_id} is that of the server itself", hint="choose another, or leave it out"
            )
        self.check_log_settings()
        self._check_rights()

    def _check_replica(self) -> None:
        """What a replica gets from its primary is in its own log only if it is told so."""
        if self.flavor.is_deaf_replica(self.rows):
            raise SourceRefused(
                f"{self._shown} is a replica that does not log what it gets from its primary",
                hint="follow the primary, or start the replica with log_slave_updates; if it is none any more,"
                f" GRANT SLAVE MONITOR ON *.* TO '{self.address.user}', so that this can be seen",
            )

    def check_log_settings(self) -> None:
        wanted_ones = self.flavor.log_settings
        variables = self._variables(*wanted_ones)
        for name, wanted in wanted_ones.items():
            if (found := variables.get(name, wanted)) != wanted:
                raise SourceRefused(
                    f"{name} of {self._shown} is {found}",
                    hint=f"SET GLOBAL {name} = '{wanted}', and in the server's configuration; sessions that are open"
                    " keep theirs, so end them",
                )

    def _variables(self, *names: str) -> dict[str, str]:
        listed = ", ".join(f"'{name}'" for name in names)
        found = self.rows(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({listed})")
        return {str(name): str(value) for name, value in found}

    def _check_rights(self) -> None:
        try:
            self.files()
        except SourceRefused:
            raise SourceRefused(
                f'user "{self.address.user}" may not see the binary log',
                hint=f"GRANT {self.flavor.right} ON *.* TO '{self.address.user}'",
            ) from None

    def check_logged(self, schema: str) -> None:
        """Whether the server writes changes of a schema to its log."""
        for row in self.rows(self.flavor.status):
            only, never = str(row[2] or ""), str(row[3] or "")
            if (only and schema not in only.split(",")) or schema in never.split(","):
                raise SourceRefused(
                    f'changes of "{schema}" are not in the binary log',
                    hint="the server's binlog_do_db or binlog_ignore_db leaves it out",
                )

    # --- a table -----------------------------------------------------------------------------------------------

    def table(self, schema: str, name: str) -> SourceTable:
        """All of its columns, and its primary key."""
        folds = self._variables("lower_case_table_names")["lower_case_table_names"] != "0"
        columns = "table_type, engine, table_schema, table_name"
        named = f"table_schema = {text(schema)} AND table_name = {text(name)}"
        listed = self.rows(f"SELECT {columns} FROM information_schema.tables WHERE {named}")
        # There, names are compared without regard to case, whatever the server does elsewhere.
        found = [row for row in listed if folds or row[2:] == (schema, name)]
        shown = f'"{schema}.{name}"'
        if not found:
            raise UndefinedRelation(f"there is no table {shown} in {self._shown}", hint="or its user may not see it")
        kind, engine, schema, name = (str(part) for part in found[0])
        if kind == "SYSTEM VERSIONED":
            raise Unsupported(f"table {shown} is system-versioned", hint="its log has rows that are history")
        if kind != "BASE TABLE":
            raise InvalidDefinition(f"{shown} is not a table", hint="views and sequences have no log")
        if engine != "InnoDB":
            raise InvalidDefinition(
                f"table {shown} is of the engine {engine}",
                hint="only InnoDB shows a table as of one moment; ALTER TABLE … ENGINE = InnoDB",
            )
        self.check_logged(schema)
        where = f"table_schema = {text(schema)} AND BINARY table_name = BINARY {text(name)}"
        uuid_is_new = self.flavor.version >= NEW_UUID
        try:
            definition = str(self.rows(f"SHOW CREATE TABLE {identifier(schema)}.{identifier(name)}")[0][1])
            self.rows(f"SELECT 1 FROM {identifier(schema)}.{identifier(name)} LIMIT 0")
        except SourceRefused:
            raise SourceRefused(
                f'user "{self.address.user}" may not read {shown}',
                hint=f"GRANT SELECT ON {identifier(schema)}.{identifier(name)} TO '{self.address.user}'",
            ) from None
        columns = tuple(_column(row, uuid_is_new) for row in self.rows(_COLUMNS.format(where=where)))
        key = self.rows(_KEY.format(where=where))
        if not key:
            raise InvalidDefinition(
                f"table {shown} has no primary key", hint="without one, its rows cannot be told apart; add one"
            )
        if any(part is not None for _, part in key):
            raise Unsupported(f"the primary key of {shown} has only the beginning of a column")
        logs_cascades = self.flavor.logs_cascades(self.rows)
        if not logs_cascades:
            _refuse_cascades(shown, definition, self.flavor.name)
        return SourceTable(
            schema=schema, name=name, columns=columns, key=tuple(str(column) for column, _ in key), folds=folds,
            logs_cascades=logs_cascades,
        )  # fmt: skip

    def row_bytes(self, table: SourceTable) -> int:
        """Of a row, on average, as the server's statistics say."""
        found = self.rows(
            "SELECT avg_row_length FROM information_schema.tables"
            f" WHERE table_schema = {text(table.schema)} AND table_name = {text(table.name)}"
        )
        return int(found[0][0] or 0) if found else 0

    def estimated_rows(self, table: SourceTable) -> int:
        """What the server's statistics say; it need not be close."""
        found = self.rows(
            "SELECT table_rows FROM information_schema.tables"
            f" WHERE table_schema = {text(table.schema)} AND table_name = {text(table.name)}"
        )
        return int(found[0][0] or 0) if found else 0

    def gone(self, tables: Sequence[SourceTable]) -> list[SourceTable]:
        """Those that are not there any more."""
        there = self.rows(f"SELECT table_schema, table_name FROM information_schema.tables WHERE {_any_of(tables)}")
        return [table for table in tables if not any(table.is_called(str(a), str(b)) for a, b in there)]

    def stored_columns(self, tables: Sequence[SourceTable]) -> dict[SourceTable, set[str]]:
        """Those that the log has values of."""
        found = self.rows(
            "SELECT table_schema, table_name, column_name FROM information_schema.columns"
            f" WHERE ({_any_of(tables)}) AND extra NOT LIKE '%VIRTUAL%'"
        )
        return {
            table: {str(name) for schema, other, name in found if table.is_called(str(schema), str(other))}
            for table in tables
        }

    def key_after(self, table: SourceTable, start: Key | None, rows: int) -> Key | None:
        found = self.raw(table.key_after(start, rows))
        if not found:
            return None
        return tuple(
            printed(column.type)(value or b"") for value, column in zip(found[0], table.key_columns, strict=True)
        )

    def places(self, table: SourceTable, keys: Sequence[Key], bounds: Sequence[Key]) -> list[int]:
        found: list[int] = []
        for first in range(0, len(keys), KEYS_AT_ONCE):
            sql = table.places(keys[first : first + KEYS_AT_ONCE], bounds)
            found.extend(int(value or b"") for value in self.raw(sql)[0])
        return found


def _any_of(tables: Sequence[SourceTable]) -> str:
    named = (f"(table_schema = {text(each.schema)} AND table_name = {text(each.name)})" for each in tables)
    return " OR ".join(named) or "FALSE"


_COLUMNS = """
SELECT c.column_name, c.data_type, c.column_type, c.is_nullable, c.numeric_precision, c.numeric_scale,
       c.datetime_precision, c.character_octet_length, c.character_set_name, c.collation_name, c.extra,
       (SELECT o.id FROM information_schema.collations o WHERE o.collation_name = c.collation_name)
FROM information_schema.columns c WHERE {where} ORDER BY c.ordinal_position
"""

_KEY = """
SELECT column_name, sub_part FROM information_schema.statistics
WHERE {where} AND index_name = 'PRIMARY' ORDER BY seq_in_index
"""


def _column(row: tuple[Any, ...], uuid_is_new: bool) -> SourceColumn:
    name, kind, shown, nullable, precision, scale, digits, size, charset, collation, extra, collation_id = row
    if kind.lower() == "uuid" and not uuid_is_new:
        shown = "uuid of MariaDB before 10.11.5"  # which is refused
    return SourceColumn(
        name=name,
        type=SourceType(
            name=kind.lower(),
            text=shown,
            unsigned="unsigned" in shown and kind.lower() not in CHOICES,
            precision=int(precision or 0),
            scale=int(digits or scale or 0),
            length=int(size or 0),
            charset=charset,
            collation=collation,
            collation_id=int(collation_id or 0),
            values=_values(shown) if kind.lower() in CHOICES else (),
        ),
        generated="VIRTUAL" in (extra or "").upper(),
        nullable=nullable == "YES",
    )


_ESCAPES = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "b": "\b"}


def _values(shown: str) -> tuple[str, ...]:
    """
    >>> _values("enum('a','it''s','b,c')")
    ('a', "it's", 'b,c')
    """
    inner = shown[shown.index("(") + 1 : shown.rindex(")")]
    found = re.findall(r"'((?:[^'\\]|''|\\.)*)'", inner, flags=re.DOTALL)
    return tuple(
        re.sub(r"''|\\(.)", lambda each: _ESCAPES.get(each[1], each[1]) if each[1] else "'", value, flags=re.DOTALL)
        for value in found
    )


def _refuse_cascades(shown: str, definition: str, server: str) -> None:
    """What a foreign key does to rows by itself is done below the log, and is not in it."""
    for line in definition.splitlines():
        if "FOREIGN KEY" in line and re.search(r"\sON (DELETE|UPDATE) (CASCADE|SET NULL|SET DEFAULT)", line):
            raise Unsupported(
                f"table {shown} has a foreign key that changes its rows: {line.strip().rstrip(',')}",
                hint=f"such changes are not in {server}'s log; make it RESTRICT, or change the rows in a trigger",
            )


def text(value: str) -> str:
    """A text in SQL, whatever is in it."""
    return f"CONVERT(X'{value.encode().hex()}' USING utf8mb4)"
