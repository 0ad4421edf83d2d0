"""Following one source: what its log says, and what its tables hold, become epochs.

One thread for each source. It takes what has arrived of the log, in whole transactions, and hands it to the epoch loop
as one mutation: rows, progress and the log's position commit together, or not at all. Chunks of snapshots are read by
a pool beside it, and land the same way. The server is told what it may forget only after the commit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.catalog import Relation
from headrace.cdc.changelog import UNCHANGED, Change, Piece, Truncate, columns_of, fold
from headrace.cdc.database import Database, Hold, database
from headrace.cdc.intake import BEYOND, Flight, Gate, Intake, Numbered
from headrace.cdc.problems import TableStopped
from headrace.cdc.values import column
from headrace.engine.changes import OLD_ROW, ChangelogRows, Fill, StagedRows, UpdateFrame
from headrace.engine.coordinator import Write
from headrace.engine.following import (
    SourceState,
    TableState,
    progress_of,
    source_state,
    tables_of,
    with_progress,
    with_source,
)
from headrace.engine.small import MissingRow
from headrace.engine.splits import read_chunk, split_bounds
from headrace.errors import DataError, EngineClosed, Fenced, HeadraceError
from headrace.state.layout import Layout
from headrace.state.manifest import Manifest
from headrace.state.ranges import Staged
from headrace.types import quote_spark

if TYPE_CHECKING:
    from headrace.engine.engine import Engine

log = logging.getLogger("headrace")

CUT_EVENTS = 50_000
"""Changes of one epoch; a transaction is taken whole, or in pieces of so many"""

LATE_CHANGES = 200_000
"""A chunk that has missed more is read again, in smaller splits."""

IDLE_SECONDS = 10.0
"""How often an idle source's position is committed, so that its server can forget"""

CHUNKS = 4
"""Chunks that are read at the same time, of all tables of a source"""


@dataclass(kw_only=True, eq=False)
class _Table:
    relation: Relation
    state: TableState
    intake: Intake
    database: Database
    reader: tuple[Any, Any] | None = None
    """For the table as the log has described it last"""
    began_at: Any = None
    """What ran when the table was published; None: it is ready to be read, or has not been published"""
    ready: bool = False
    reading: Future[list[Staged]] | None = None
    """The chunk in flight"""
    held: Hold | None = None
    """What it is read as of"""
    split_rows: int = 0
    recent: list[tuple[float, int]] = field(default_factory=list)
    """When how many rows had been read, for rows/s"""

    @property
    def layout(self) -> Layout:
        return Layout.of(self.relation)

    def changes(self, event: Any, relation: Any) -> list[Change | Truncate]:
        if relation is None:
            return self.database.other_changes(event, self.state.table)
        if self.reader is None or self.reader[0] is not relation:
            self.reader = (relation, self.database.reader(self.state.table, relation))
        return self.reader[1].changes(event)


Step = dict[int, Any]
"""By table: what one epoch does to it"""


class Follower:
    def __init__(self, engine: Engine, source: Relation, state: SourceState, password: str | None):
        self._engine, self._id, self.name = engine, source.id, source.name
        self._state = state
        self._database = database(state.connector)
        self._address = self._database.address(state, password)
        self._control = self._database.control(self._address)
        self._tables: dict[int, _Table] = {}
        self._news = threading.Event()
        self._stopping = False
        self._pool = ThreadPoolExecutor(max_workers=CHUNKS, thread_name_prefix="headrace-splits")
        self._stream = self._database.feed(state, self._address, self._news.set)
        self._committed_at = self._checked_at = time.monotonic()
        self._error: HeadraceError | None = None
        self._thread = threading.Thread(target=self._run, name="headrace-follower", daemon=True)

    def start(self) -> None:
        self._stream.start()
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._news.set()
        if self._thread.is_alive():
            self._thread.join()
        self._stream.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._control.close()

    def wake(self) -> None:
        """Its tables have changed."""
        self._news.set()

    # --- for whoever looks -------------------------------------------------------------------------------------

    @property
    def error(self) -> HeadraceError | None:
        return self._error or self._stream.error

    def waits_for_others(self, table_id: int) -> bool:
        table = self._tables.get(table_id)
        return table is not None and not table.ready and table.began_at is not None

    def rate(self, table_id: int) -> float | None:
        table = self._tables.get(table_id)
        if table is None or len(table.recent) < 2:
            return None
        (first, before), (last, after) = table.recent[0], table.recent[-1]
        return (after - before) / (last - first) if last > first else None

    # --- the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        patience = 0.1
        while not self._stopping:
            self._news.clear()
            try:
                busy = self._turn()
                self._error, patience = None, 0.1
                if not busy:
                    self._news.wait(0.5)
            except (EngineClosed, Fenced):
                return
            except HeadraceError as error:
                if self._stopping:
                    return
                if self._error is None or self._error.message != error.message:
                    log.warning('source "%s": %s', self.name, error.message)
                self._error = error
                self._news.clear()
                self._news.wait(patience)
                patience = min(30.0, patience * 2)
            except Exception as error:  # a fault of ours: it is shown, and tried again
                log.exception('source "%s": unexpected error', self.name)
                self._error = HeadraceError(f"unexpected error: {type(error).__name__}: {error}")
                self._news.wait(5.0)

    def _turn(self) -> bool:
        """Whatever can be done now; whether there may be more."""
        self._follow_catalog()
        took = self._take()
        landed = self._land()
        self._prepare()
        self._launch()
        self._commit_idle()
        self._check_published()
        return took or landed

    def _follow_catalog(self) -> None:
        committed = self._engine.committed
        wanted = tables_of(committed, self._id)
        for id in [id for id in self._tables if id not in wanted]:
            self._forget_chunk(self._tables.pop(id))
        for id, state in wanted.items():
            relation = committed.catalog.relations[id]
            if id not in self._tables:
                progress = progress_of(committed, id)
                # What was read before the process ended was also published and waited for.
                ready = progress.at is not None or progress.done
                self._tables[id] = _Table(
                    relation=relation, state=state, intake=Intake(progress=progress), ready=ready,
                    split_rows=state.split_rows, database=self._database,
                )  # fmt: skip
            self._tables[id].relation = relation

    # --- the log -----------------------------------------------------------------------------------------------

    def _take(self) -> bool:
        pieces = self._stream.peek(CUT_EVENTS)
        if not pieces:
            return False
        shown = self._control.snapshot()  # after they arrived
        pieces = pieces[: Gate(sees=shown.sees).open([piece.xid for piece in pieces])]
        if not pieces:
            self._news.wait(0.05)  # in the log, and not visible yet: there is nothing to wait for but time
            return True
        intakes, steps = self._decided(pieces)
        last = pieces[-1]
        ends = [piece.position for piece in pieces if piece.final]
        lsn, skip = ends[-1] if ends else self._stream.taken, 0 if last.final else last.first + len(last.events)
        if intakes or skip:
            self._commit(intakes, steps, lsn=lsn, skip=skip)
        # Else nothing in it is ours, and it need not be durable: it may come again.
        self._stream.take(pieces)
        return True

    def _decided(self, pieces: Sequence[Piece]) -> tuple[dict[int, Intake], list[Step]]:
        arrived: dict[int, list[Numbered]] = {}
        intakes: dict[int, Intake] = {}
        for piece in pieces:
            for event in piece.events:
                for table, relation in self._concerned(event):
                    id = table.relation.id
                    if id in intakes or table.intake.progress.error is not None:
                        continue
                    try:
                        found = table.changes(event, relation)
                    except TableStopped as error:
                        intakes[id] = table.intake.stopped(_told(error))
                    else:
                        arrived.setdefault(id, []).extend((piece.xid, change) for change in found)
        steps: list[Step] = []
        for id, changes in arrived.items():
            if id in intakes:
                continue
            table = self._tables[id]
            applied, intake = table.intake.take(changes, self._places(table, changes))
            if len(intake.late) > LATE_CHANGES:
                table.split_rows = max(1, table.split_rows // 2)
                intake = intake.without_flight()
            try:
                _add_steps(steps, table, applied, self._engine)
            except DataError as error:
                intake = table.intake.stopped(_told(error))
                for step in steps:
                    step.pop(id, None)
            intakes[id] = intake
        return intakes, steps

    def _concerned(self, event: Any) -> Iterator[tuple[_Table, Any]]:
        """The tables that an event of the log may concern, and how it describes them."""
        for table in self._tables.values():
            if event.relations is None:
                yield table, None
                continue
            for relation in event.relations:
                if table.state.table.is_called(relation.schema, relation.name):
                    yield table, relation

    def _places(self, table: _Table, changes: Sequence[Numbered]) -> list[int]:
        intake = table.intake
        if not intake.asks:
            return [intake.everywhere] * len(changes)
        keys = list(dict.fromkeys(change.key for _, change in changes if isinstance(change, Change)))
        if not keys:
            return [BEYOND] * len(changes)
        flight = intake.flight
        end = None if flight is None else flight.end
        places = self._control.places(table.state.table, keys, intake.progress.at, end, flight=flight is not None)
        found = dict(zip(keys, places, strict=True))
        return [found[change.key] if isinstance(change, Change) else BEYOND for _, change in changes]

    def _commit(self, intakes: dict[int, Intake], steps: list[Step], *, lsn: int | None = None, skip: int = 0) -> None:
        """One commit for all of it; then the server may forget."""
        source = self._state
        if lsn is not None:
            source = dataclasses.replace(source, lsn=lsn, skip=skip, **self._stream.known_at(lsn))
        while True:
            try:
                self._engine.coordinator.mutate(self._mutation(intakes, steps, source), f"following {self.name}")
                break
            except MissingRow as error:
                id = error.table_id
                intakes = intakes | {id: self._tables[id].intake.stopped(_told(error))}
                steps = [{key: change for key, change in step.items() if key != id} for step in steps]
        self._state = source
        self._committed_at = time.monotonic()
        for id, intake in intakes.items():
            self._adopt(self._tables[id], intake)
        self._stream.confirm(source.lsn)

    def _mutation(self, intakes: dict[int, Intake], steps: list[Step], source: SourceState):
        def apply(state: Manifest, epoch: int) -> tuple[Manifest, Any]:
            if source_state(state, self._id) is None:
                raise EngineClosed(f'source "{self.name}" was dropped')
            alive = tables_of(state, self._id)
            for number, step in enumerate(steps):
                writes = [Write(table_id=id, change=change) for id, change in step.items() if id in alive]
                if writes:
                    epoch = max(epoch, state.epoch) if number == 0 else epoch + 1
                    state, _ = self._engine.evaluator(state, writes, epoch)
                    state = dataclasses.replace(state, epoch=epoch)
            state = with_source(state, self._id, source)
            return with_progress(state, {id: each.progress for id, each in intakes.items() if id in alive}), None

        return apply

    def _adopt(self, table: _Table, intake: Intake) -> None:
        if table.intake.flight is not None and intake.flight is None:
            self._forget_chunk(table)
        table.intake = intake
        if intake.progress.error is not None:
            log.error('table "%s" has stopped: %s', table.relation.name, intake.progress.error)

    def _commit_idle(self) -> None:
        """What is not ours passes, too: its log need not be kept."""
        position = self._stream.position
        if position > self._state.lsn and time.monotonic() - self._committed_at > IDLE_SECONDS:
            self._commit({}, [], lsn=position)

    def _check_published(self) -> None:
        """Of a table that was dropped, or is published no more, the log says nothing: not even that."""
        if time.monotonic() - self._checked_at < IDLE_SECONDS:
            return
        watched = {
            id: table.state.table
            for id, table in self._tables.items()
            if table.ready and table.intake.progress.error is None
        }
        gone = dict(self._database.gone(self._control, self._state, list(watched.values())))
        self._checked_at = time.monotonic()
        for id, watched_table in watched.items():
            if watched_table in gone:
                self._commit({id: self._tables[id].intake.stopped(gone[watched_table])}, [])

    # --- snapshots ---------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """A table is read only when no transaction is left that may have written to it before it was published."""
        for table in self._tables.values():
            if table.ready or table.intake.progress.error is not None:
                continue
            if not self._database.waits_for_others:
                table.ready = True
                continue
            if table.began_at is None:
                if self._state.owned:
                    self._control.publish(self._state.publication, table.state.table)
                table.began_at = self._control.snapshot()
            if table.began_at.all_ended_by(self._control.snapshot()):
                if self._state.owned:
                    self._control.touch_publication(self._state.publication)
                table.ready = True

    def _launch(self) -> None:
        if self._engine.parameter("paused"):
            return
        for table in self._tables.values():
            progress = table.intake.progress
            if progress.done or progress.error is not None or not table.ready or table.reading is not None:
                continue
            bounds = split_bounds(
                self._control, table.state.table, progress.at, splits=table.state.parallelism, rows=table.split_rows
            )
            held = self._database.hold(self._address)
            try:
                table.intake = table.intake.launched(Flight(end=bounds[-1], sees=held.sees))
                future = self._pool.submit(
                    read_chunk, self._engine.spark, self._engine.storage, table.layout, table.state.table, held,
                    [progress.at, *bounds],
                )  # fmt: skip
            except BaseException:
                held.close()
                table.intake = table.intake.without_flight()
                raise
            table.reading, table.held = future, held
            future.add_done_callback(lambda _: self._news.set())

    def _land(self) -> bool:
        landed = False
        position = self._stream.position
        for table in list(self._tables.values()):
            reading = table.reading
            if reading is None or not reading.done():
                continue
            try:
                staged = reading.result()
            except DataError as error:
                self._commit({table.relation.id: table.intake.stopped(_told(error))}, [])
                table.reading = None
                continue
            except BaseException:
                table.reading, table.intake = None, table.intake.without_flight()
                raise
            if table.held is not None:
                table.intake, table.held = table.intake.was_read(table.held.high), None
            if not table.intake.may_land(position):
                self._stream.nudge()
                continue
            try:
                self._land_chunk(table, staged)
            except BaseException:
                # Whatever it was, reading the chunk again is safe, and landing it again may not be possible.
                self._forget_chunk(table)
                table.intake = table.intake.without_flight()
                raise
            landed = True
        return landed

    def _land_chunk(self, table: _Table, staged: list[Staged]) -> None:
        rows = sum(file.rows for file in staged)
        applied, intake = table.intake.landed(rows)
        steps: list[Step] = [{table.relation.id: StagedRows(staged=tuple(staged))}] if staged else []
        late: list[Step] = []
        try:
            _add_steps(late, table, applied, self._engine)
        except DataError as error:
            steps, late, intake = [], [], table.intake.stopped(_told(error))
        self._commit({table.relation.id: intake}, [*steps, *late])
        now = time.monotonic()
        table.recent = [*table.recent, (now, table.intake.progress.rows)][-10:]
        table.split_rows = min(table.state.split_rows, table.split_rows * 2)

    def _forget_chunk(self, table: _Table) -> None:
        """What it has staged, or will have."""
        reading, table.reading = table.reading, None
        if reading is None:
            return

        def delete(future: Future) -> None:
            with contextlib.suppress(BaseException):
                folders = {file.path.rpartition("/")[0] for file in future.result()}
                self._engine.storage.delete(folders)

        reading.add_done_callback(delete)


def _told(error: HeadraceError) -> str:
    return error.message if error.hint is None else f"{error.message} ({error.hint})"


def _add_steps(steps: list[Step], table: _Table, changes: Sequence[Change | Truncate], engine: Engine) -> None:
    """The changes as what successive epochs do: all up to a TRUNCATE, it, and all behind it."""
    number, segment = 0, []

    def add(change: Any) -> None:
        nonlocal number
        if number == len(steps):
            steps.append({})
        steps[number][table.relation.id] = change
        number += 1

    for change in changes:
        if isinstance(change, Truncate):
            segment = []  # none of it is left
            add(_everything(table.relation, engine))
        else:
            segment.append(change)
    if segment:
        add(_changelog_rows(table, segment))


def _everything(relation: Relation, engine: Engine) -> UpdateFrame:
    struct = f"struct({', '.join(map(quote_spark, Layout.of(relation).names))}) AS {OLD_ROW}"
    return UpdateFrame(build=lambda state: engine.frame(state, relation.id).selectExpr(struct), deletes=True)


def _changelog_rows(table: _Table, changes: Sequence[Change]) -> ChangelogRows:
    layout, folded = table.layout, fold(changes)
    names = layout.names
    texts = columns_of(folded.puts, len(names))
    rows = pa.table(
        [
            column(pa.array(each, pa.string()), layout.types[name], name)
            for name, each in zip(names, texts, strict=True)
        ],
        schema=layout.row_schema,
    )
    origins = list(dict.fromkeys(folded.fills.values()))
    fills = tuple(
        Fill(
            row=row,
            columns=tuple(name for name, value in zip(names, folded.puts[row], strict=True) if value is UNCHANGED),
            origin=origins.index(key),
        )
        for row, key in folded.fills.items()
    )
    return ChangelogRows(rows=rows, deletes=_keys(table, folded.deletes), origins=_keys(table, origins), fills=fills)


def _keys(table: _Table, keys: Sequence[tuple[str, ...]]) -> pa.Table:
    layout = table.layout
    texts = columns_of(keys, len(table.state.table.key))
    return pa.table(
        {
            name: column(pa.array(each, pa.string()), layout.types[name], name)
            for name, each in zip(table.state.table.key, texts, strict=True)
        }
    )
