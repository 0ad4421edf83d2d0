"""Sources and the tables that follow them: CREATE, DROP, and what there is to say about them."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import re
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headrace.catalog import SOURCE, TABLE, Column, KeyColumn, Relation
from headrace.cdc.chunks import usual_split
from headrace.cdc.database import Database, database
from headrace.cdc.intake import Progress
from headrace.cdc.lag import Lag
from headrace.cdc.source import SourceState
from headrace.engine import resnapshot, secrets
from headrace.engine.coordinator import Mutate
from headrace.engine.feeds import is_event_source
from headrace.engine.follower import Follower
from headrace.engine.following import (
    TableState,
    progress_of,
    source_state,
    tables_of,
    with_source,
    with_table,
    without,
)
from headrace.engine.source_options import boolean, known, number, source_options, startup_mode
from headrace.engine.splits import warm_up
from headrace.errors import (
    DuplicateRelation,
    HeadraceError,
    InvalidDefinition,
    InvalidParameterValue,
    ObjectNotReady,
    UndefinedColumn,
    WrongObjectKind,
)
from headrace.failpoints import failpoint
from headrace.notices import exists_already
from headrace.sql import statements as ast
from headrace.sql.names import check_column_names
from headrace.state.keys import KeyCodec
from headrace.state.manifest import Manifest
from headrace.types import quote_sql

if TYPE_CHECKING:
    from headrace.engine.engine import Engine

log = logging.getLogger("headrace")

NOT_COMPLETE = "it was not created completely: drop it, and create it again"

_TABLE_LIMITS = {
    "backfill.parallelism": 256, "backfill.num_rows_per_split": 10_000_000, "snapshot.batch_size": 1_000_000_000,
}  # fmt: skip
_TABLE_OPTIONS = {*_TABLE_LIMITS, "snapshot", "scan.startup.mode"}


class Sources:
    def __init__(self, engine: Engine):
        self._engine = engine
        self._followers: dict[int, Follower] = {}
        self.broken: dict[int, str] = {}
        """Sources that cannot be followed, and why"""
        self._lock = threading.Lock()

    def start(self) -> None:
        state = self._engine.committed
        for relation in state.catalog.of_kind(SOURCE):
            if is_event_source(state, relation.id):
                continue
            found = source_state(state, relation.id)
            if found is not None and found.lsn:
                self._follow(relation, found)
            else:
                self.broken[relation.id] = NOT_COMPLETE
                log.warning('source "%s" was not created completely: drop it', relation.name)

    def stop(self) -> None:
        with self._lock:
            followers, self._followers = list(self._followers.values()), {}
        for follower in followers:
            follower.stop()

    def follower(self, source_id: int) -> Follower | None:
        """None: it cannot be followed; :attr:`broken` says why."""
        return self._followers.get(source_id)

    def being_written(self) -> set[int]:
        """The tables of which a chunk is being written."""
        return {id for follower in self._all() for id in follower.being_written()}

    def paths_needed(self) -> Iterator[str]:
        """Files that no manifest names and that must stay."""
        for follower in self._all():
            yield from follower.paths_needed()

    def _all(self) -> list[Follower]:
        with self._lock:
            return list(self._followers.values())

    def _follow(self, relation: Relation, state: SourceState) -> None:
        try:
            password = self._password(state)
        except HeadraceError as error:
            self.broken[relation.id] = error.message
            log.error('source "%s" cannot be followed: %s', relation.name, error.message)
            return
        follower = Follower(self._engine, relation, state, password)
        with self._lock:
            self._followers[relation.id] = follower
        follower.start()

    def _password(self, state: SourceState) -> str | None:
        if state.secret is None:
            return None
        return secrets.value(self._engine.storage, self._engine.committed, state.secret)

    def _server(self, state: SourceState) -> tuple[Database, Any]:
        """How to speak to it, and a connection that does, once it is asked something."""
        server = database(state.connector)
        return server, server.control(server.address(state, self._password(state)))

    # --- CREATE SOURCE -----------------------------------------------------------------------------------------

    def create_source(self, statement: ast.CreateSource) -> str | None:
        """What can be wrong is found before anything is made. What is made and not finished is removed."""
        if statement.columns is not None:
            return self._engine.event_sources.create(statement)
        existing = self._engine.committed.catalog.find(statement.name)
        if existing is not None:
            if statement.if_not_exists:
                return exists_already(f'relation "{statement.name}"')
            raise DuplicateRelation(f'{existing.kind} "{statement.name}" already exists')
        state = source_options(statement)
        server, control = self._server(state)
        try:
            state = server.check_source(control, state)
            # From here on the warehouse knows what there may be to clean up.
            id = self._engine.coordinator.mutate(_add_source(statement, state), statement.name)
            try:
                state = server.set_up(control, state)
                failpoint("after_set_up")
                self._engine.coordinator.mutate(_set_source(id, state), statement.name)
            except BaseException:
                self._take_back(server, control, state, id, statement.name)
                raise
        finally:
            control.close()
        self._follow(self._engine.committed.catalog.relations[id], state)
        warm_up(self._engine.spark)
        return None

    def _take_back(self, server: Database, control: Any, state: SourceState, id: int, name: str) -> None:
        """A source that could not be made. If its server cannot be reached any more it stays, for somebody to drop."""
        try:
            server.clean_up(control, state)
        except HeadraceError as error:
            self.broken[id] = NOT_COMPLETE
            log.warning('source "%s" was not created completely, and not removed: %s', name, error.message)
            return
        self._engine.coordinator.mutate(_remove_source(id), name)

    # --- CREATE TABLE … FROM -----------------------------------------------------------------------------------

    def create_table(self, statement: ast.CreateTableFrom) -> str | None:
        committed = self._engine.committed
        if statement.if_not_exists and committed.catalog.find(statement.name) is not None:
            return exists_already(f'relation "{statement.name}"')
        source = committed.catalog.get(statement.source, SOURCE)
        state = source_state(committed, source.id)
        follower = self._followers.get(source.id)
        if state is None or not state.lsn or follower is None:
            raise ObjectNotReady(f'source "{source.name}" is not followed', hint="drop it and create it again")
        options, snapshot = _table_options(statement, dict(source.options))
        server, control = self._server(state)
        schema, name = _table_name(statement.table, server.default_schema(state, dict(source.options)))
        try:
            found = control.table(schema, name)
            columns, table, notice = _columns(statement, found, server)
            total, usual = control.estimated_rows(table), usual_split(control.row_bytes(table))
            server.begin_table(control, state, table)
        finally:
            control.close()
        following = TableState(
            source_id=source.id,
            table=table,
            parallelism=options["backfill.parallelism"] or self._engine.default_parallelism,
            split_rows=options["backfill.num_rows_per_split"] or usual,
            started_at=time.time(),
            batch_rows=options["snapshot.batch_size"],
            all_columns=statement.columns is None,
            snapshot=snapshot,
        )
        progress = Progress(total=total) if snapshot else Progress(done=True)
        apply = _add_table(statement, source.id, columns, following, progress)
        relation = self._engine.coordinator.mutate(apply, statement.name)
        follower.wake()
        told = f"it is filled in the background, as job {relation.id}: see SHOW JOBS"
        if not snapshot:
            told = "it has what is changed from now on; rows that are there already are not read"
        return f"{notice}; {told}" if notice else told

    # --- RESNAPSHOT --------------------------------------------------------------------------------------------

    def resnapshot(self, name: str) -> str:
        """Begins to read a table anew; what it has stays until all of it has been read."""
        committed = self._engine.committed
        relation = committed.catalog.get(name, TABLE)
        table = tables_of(committed).get(relation.id)
        if table is None:
            raise WrongObjectKind(f'table "{name}" does not follow a source', hint="its rows are read from nowhere")
        progress = progress_of(committed, relation.id)
        if not progress.done and progress.error is None:
            raise ObjectNotReady(f'table "{name}" is being filled', hint=f"WAIT {quote_sql(name)} waits for it")
        state, follower = source_state(committed, table.source_id), self._followers.get(table.source_id)
        if state is None or follower is None:
            raise ObjectNotReady("its source is not followed", hint=self.broken.get(table.source_id))
        server, control = self._server(state)
        try:
            following = dataclasses.replace(table, paused=False)
            apply = resnapshot.beginning(committed, server, control, relation, following)
            server.begin_table(control, state, table.table)
        finally:
            control.close()
        self._engine.coordinator.mutate(apply, f"RESNAPSHOT {name}")
        follower.wake()
        return f"it is read anew in the background, as job {relation.id}: see SHOW JOBS"

    # --- DROP --------------------------------------------------------------------------------------------------

    def before_drop(self, statement: ast.Drop) -> list[str]:
        """Removes what sources have on their servers; first, so that a crash leaves something to drop again."""
        state, notices = self._engine.committed, []
        if statement.kind != SOURCE:
            return notices
        catalog = state.catalog
        for name in statement.names:
            if catalog.find(name) is None:
                continue
            source = catalog.get(name, SOURCE)
            catalog, _ = catalog.drop(source, cascade=statement.cascade)  # refuses what the mutation would
            if is_event_source(state, source.id):
                continue  # it has nothing of ours
            found = source_state(state, source.id)
            with self._lock:
                follower = self._followers.pop(source.id, None)
            if follower is not None:
                follower.stop()
            if found is not None:
                try:
                    server, control = self._server(found)
                    try:
                        server.clean_up(control, found)
                    finally:
                        control.close()
                except HeadraceError as error:
                    by_hand = database(found.connector).by_hand(found)
                    notices.append(f"{error.message}; run there yourself, or its log is kept for ever: {by_hand}")
        return notices

    def dropped(self, before: Manifest) -> None:
        """Tables that are gone need not be published."""
        self._engine.event_sources.dropped(before)
        now = self._engine.committed
        for id, table in tables_of(before).items():
            if id in now.catalog.relations or (state := source_state(now, table.source_id)) is None:
                continue
            if (follower := self._followers.get(table.source_id)) is not None:
                follower.wake()
            others = [each.table for each in tables_of(now, table.source_id).values()]
            same = [each for each in others if (each.schema, each.name) == (table.table.schema, table.table.name)]
            if not same:
                with contextlib.suppress(HeadraceError):
                    server, control = self._server(state)
                    try:
                        server.end_table(control, state, table.table)
                    finally:
                        control.close()

    def status(self) -> list[dict[str, Any]]:
        """What there is to say about each source; cheap."""
        found = []
        for relation in sorted(self._engine.committed.catalog.of_kind(SOURCE), key=lambda each: each.name):
            if is_event_source(self._engine.committed, relation.id):
                found.append(self._engine.event_sources.status(relation))
                continue
            follower, broken = self._followers.get(relation.id), self.broken.get(relation.id)
            lag = Lag() if follower is None else follower.lag()
            error = broken if follower is None else follower.error and follower.error.message
            state = "failed" if follower is None else "retrying" if error else "running"
            found.append(
                {
                    "name": relation.name, "connector": dict(relation.options).get("connector"), "state": state,
                    "lag_bytes": lag.bytes, "lag_seconds": lag.seconds, "error": error, "lag_rows": None,
                    "rows_per_second": None, "skipped": None, "lost": None,
                }
            )  # fmt: skip
        return [*found, *self._engine.event_sources.table_status()]


# --- options ----------------------------------------------------------------------------------------------------


def _table_options(statement: ast.CreateTableFrom, of_source: dict[str, str]) -> tuple[dict[str, int | None], bool]:
    """Its numbers, and whether the rows that are there are read."""
    options = dict(statement.options)
    known(options, _TABLE_OPTIONS)
    numbers = {
        name: number(name, options[name], most) if name in options else None for name, most in _TABLE_LIMITS.items()
    }
    wanted = [boolean("snapshot", options["snapshot"])] if "snapshot" in options else []
    if "scan.startup.mode" in options:
        wanted.append(startup_mode(options["scan.startup.mode"]))
    if len(set(wanted)) > 1:
        raise InvalidParameterValue(
            f"snapshot = '{options['snapshot']}' and scan.startup.mode = '{options['scan.startup.mode']}' exclude each"
            " other",
            hint="earliest reads the rows that are there, latest does not; one of the two options is enough",
        )
    return numbers, wanted[0] if wanted else startup_mode(of_source.get("scan.startup.mode", "earliest"))


def _table_name(text: str, default_schema: str) -> tuple[str, str]:
    """schema.table, either of them in double quotes if it has a dot in it.

    >>> _table_name('sales."Odd.Name"', "public"), _table_name("orders", "public")
    (('sales', 'Odd.Name'), ('public', 'orders'))
    """
    part = r'"((?:[^"]|"")+)"|([^".]+)'
    if (match := re.fullmatch(rf"(?:(?:{part})\.)?(?:{part})", text)) is None:
        raise InvalidParameterValue(f"'{text}' is not the name of a table", hint="write 'schema.table'")
    quoted_schema, schema, quoted, plain = match.groups()
    return (
        quoted_schema.replace('""', '"') if quoted_schema else schema or default_schema,
        quoted.replace('""', '"') if quoted else plain,
    )


# --- definitions ------------------------------------------------------------------------------------------------


def _columns(statement: ast.CreateTableFrom, found: Any, server: Database) -> tuple[list[Column], Any, str | None]:
    """Our columns, the other table reduced to them, and what the user should know."""
    theirs = {column.name: column for column in found.columns}
    notice = None
    if statement.columns is None:
        left_out = [column.name for column in found.columns if column.generated]
        if left_out:
            notice = f"generated columns are not in the log, and are left out: {', '.join(left_out)}"
        taken = [(column, server.natural(column.type, column.name)) for column in found.columns if not column.generated]
        check_column_names([column.name for column, _ in taken])
    else:
        if statement.pk and set(statement.pk) != set(found.key):
            raise InvalidDefinition(f"the primary key of {found.full_name} is ({', '.join(found.key)})")
        taken = []
        for spec in statement.columns:
            if spec.name not in theirs:
                raise UndefinedColumn(
                    f'{found.full_name} has no column "{spec.name}"', hint=f"it has: {', '.join(theirs)}"
                )
            taken.append((theirs[spec.name], server.checked(theirs[spec.name].type, spec.type, spec.name)))
    for name in found.key:
        if name not in [column.name for column, _ in taken]:
            raise InvalidDefinition(f'column "{name}" is part of the primary key and is needed')
    _refuse_generated([column for column, _ in taken])
    columns = [
        Column(name=column.name, type=kind, nullable=column.nullable and column.name not in found.key)
        for column, kind in taken
    ]
    return columns, dataclasses.replace(found, columns=tuple(column for column, _ in taken)), notice


def _refuse_generated(columns: list[Any]) -> None:
    for column in columns:
        if column.generated:
            raise InvalidDefinition(
                f'column "{column.name}" is generated, and not in the log', hint="leave it out; compute it in a view"
            )


def _add_source(statement: ast.CreateSource, source: SourceState) -> Mutate:
    def apply(state: Manifest, epoch: int) -> tuple[Manifest, int]:
        relation = Relation(
            id=state.catalog.next_id, name=statement.name, kind=SOURCE, columns=(), definition=statement.sql,
            options=statement.options, created_epoch=epoch,
        )  # fmt: skip
        state = dataclasses.replace(state, catalog=state.catalog.add(relation))
        return with_source(state, relation.id, source), relation.id

    return apply


def _set_source(id: int, source: SourceState) -> Mutate:
    return lambda state, epoch: (with_source(state, id, source), None)


def _remove_source(id: int) -> Mutate:
    def apply(state: Manifest, epoch: int) -> tuple[Manifest, None]:
        catalog, _ = state.catalog.drop(state.catalog.relations[id])
        return dataclasses.replace(without(state, id), catalog=catalog), None

    return apply


def _add_table(
    statement: ast.CreateTableFrom, source_id: int, columns: list[Column], following: TableState, progress: Progress
) -> Mutate:
    def apply(state: Manifest, epoch: int) -> tuple[Manifest, Relation]:
        if source_state(state, source_id) is None:
            raise InvalidDefinition(f'source "{statement.source}" was dropped')
        key = tuple(KeyColumn(name=name) for name in following.table.key)
        relation = Relation(
            id=state.catalog.next_id, name=statement.name, kind=TABLE, columns=tuple(columns), pk=key,
            distribution=following.table.key, definition=statement.sql, depends_on=(source_id,),
            options=statement.options, created_epoch=epoch,
        )  # fmt: skip
        KeyCodec.of(relation)  # refuses key types that have no order
        state = dataclasses.replace(state, catalog=state.catalog.add(relation))
        return with_table(state, relation.id, following, progress), relation

    return apply
