"""Following one source: what its log says, and what its tables hold, become epochs.

One thread for each source. It takes what has arrived of the log, in whole transactions, and hands it to the epoch loop
as one mutation: rows, progress and the log's position commit together, or not at all. Chunks of snapshots are read by
a pool beside it, and land the same way. The server is told what it may forget only after the commit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.catalog import Relation
from headrace.cdc.changelog import Change, Piece, Truncate
from headrace.cdc.database import database
from headrace.cdc.intake import Gate, Intake
from headrace.cdc.lag import Lag, Looks
from headrace.cdc.problems import SchemaChanged, SourceRefused, SourceUnreachable
from headrace.cdc.rereads import Reread, moved_from, substituted
from headrace.engine.changes import WrittenRows
from headrace.engine.chunk_reads import READERS, ChunkReads, being_written, paths_needed
from headrace.engine.coordinator import Write
from headrace.engine.filling import jobs_of, with_chunks_joined
from headrace.engine.followed import Followed
from headrace.engine.following import (
    SourceState,
    copy_of,
    progress_of,
    source_state,
    tables_of,
    with_copies_shown,
    with_progress,
    with_source,
)
from headrace.engine.logged import Grown, Step, add_steps, arrived, told
from headrace.engine.resnapshot import beginning, growing, may_replace, replacing
from headrace.engine.small import MissingRow
from headrace.engine.source_options import AUTO_SCHEMA
from headrace.engine.splits import forget_files
from headrace.engine.turns import Turns
from headrace.errors import DataError, EngineClosed, Fenced, HeadraceError, InvalidDefinition, Unsupported
from headrace.state.manifest import Manifest
from headrace.state.runs import RunFile

if TYPE_CHECKING:
    from headrace.engine.engine import Engine

log = logging.getLogger("headrace")

LARGEST_CUT = 1 << 40
"""Whatever has arrived: the log's bound is what bounds it"""

CUT_EVENTS = 50_000
"""Changes of one epoch; a transaction is taken whole, or in pieces of so many"""

LATE_BYTES = 64 << 20
"""Of changes that wait for chunks of a table that are in flight; beyond, those are read again, in smaller splits"""

IDLE_SECONDS = 10.0
"""How often an idle source's position is committed, so that its server can forget"""

LOOK_SECONDS = 1.0
"""How often the server is asked where its log ends"""

FILLING_SECONDS = 0.5
"""Between two cuts of the log while chunks are read: each is an epoch, which takes time from reading them"""

FILLING_SHARE = 5
"""A cut that takes longer is followed by a longer pause, so that reading has at least four fifths of the time"""

FILLING_AT_MOST = 2.0
"""Seconds; the log has not been cut for so long at the most, however busy the machine"""


class Follower:
    def __init__(self, engine: Engine, source: Relation, state: SourceState, password: str | None):
        self._engine, self._id, self.name = engine, source.id, source.name
        self._state = state
        self._evolves = dict(source.options).get(AUTO_SCHEMA, "false").lower() == "true"
        self._database = database(state.connector)
        self._address = self._database.address(state, password)
        self._control = self._database.control(self._address)
        self._tables: dict[int, Followed] = {}
        self._turns = Turns(
            self._turn,
            thread="headrace-follower",
            subject=lambda: f'source "{self.name}"',
            idle_seconds=self._patience,
        )
        self._reads = ChunkReads(engine, self._database, self._address, self._turns.news.set)
        self._here = state
        """How far its log has been taken; what of that changed nothing durable need not be committed"""
        self._took_at = self._took = self._quiet_until = 0.0
        self._stream = self._database.feed(state, self._address, self._on_arrival)
        self._committed_at = self._checked_at = time.monotonic()
        self._looked_at, self._looks = 0.0, Looks()

    def start(self) -> None:
        self._stream.start()
        self._turns.start()

    def stop(self) -> None:
        self._turns.stop(self._control.interrupt)
        self._stream.stop()
        self._reads.stop()
        self._control.close()

    def wake(self) -> None:
        """Its tables have changed."""
        self._turns.news.set()

    def _on_arrival(self) -> None:
        """Something of the log is here, which need not be taken at once."""
        if time.monotonic() >= self._quiet_until:
            self._turns.news.set()

    # --- for whoever looks -------------------------------------------------------------------------------------

    @property
    def error(self) -> HeadraceError | None:
        return self._turns.error or self._stream.error

    def lag(self) -> Lag:
        position = self._stream.position
        return self._looks.reached(position).lag(position, now=time.monotonic())

    def trouble(self, table_id: int) -> HeadraceError | None:
        """Why the table cannot be read now, or nothing of its source."""
        table = self._tables.get(table_id)
        return (None if table is None else table.trouble) or self.error

    def waits_for_others(self, table_id: int) -> bool:
        table = self._tables.get(table_id)
        return table is not None and not table.ready and table.began_at is not None

    def rate(self, table_id: int) -> float | None:
        table = self._tables.get(table_id)
        return None if table is None else table.rate

    def being_written(self) -> set[int]:
        """The tables of which a chunk is being written."""
        return {id for id, table in list(self._tables.items()) if being_written(table)}

    def paths_needed(self) -> Iterator[str]:
        """Files that no manifest names and that must stay."""
        for table in list(self._tables.values()):
            yield from paths_needed(table)

    # --- the thread --------------------------------------------------------------------------------------------

    def _patience(self) -> float:
        """Until something may be due that nobody reports."""
        times = [self._quiet_until, *(table.next_at for table in self._tables.values() if not table.chunks)]
        due = [each - time.monotonic() for each in times]
        return min([0.5, *(each for each in due if each > 0)])

    def _turn(self) -> bool:
        """Whatever can be done now; whether there may be more."""
        try:
            return self._steps()
        except (EngineClosed, Fenced):
            self._stream.let_go()  # whoever follows it from now on needs what the server has of us
            raise

    def _steps(self) -> bool:
        self._follow_catalog()
        self._look()
        took = self._take_timed()
        landed = self._land()
        self._prepare()
        self._launch()
        self._commit_idle()
        self._check_published()
        self._evolve()
        replaced = self._replace()
        return took or landed or replaced

    def _follow_catalog(self) -> None:
        committed = with_copies_shown(self._engine.committed)
        wanted = tables_of(committed, self._id, copies=True)
        for id in [id for id in self._tables if id not in wanted]:
            self._reads.forget(self._tables.pop(id))
        for id, state in wanted.items():
            relation = committed.catalog.relations[id]
            if id not in self._tables:
                progress = progress_of(committed, id)
                # What was read before the process ended was also published and waited for.
                ready = progress.at is not None or (progress.done and state.snapshot)
                self._tables[id] = Followed(
                    relation=relation, state=state, intake=Intake(progress=progress), ready=ready,
                    split_rows=state.split_rows, database=self._database,
                )  # fmt: skip
            table = self._tables[id]
            if table.state.split_rows != state.split_rows:
                table.split_rows = state.split_rows
            if table.state.table != state.table:
                table.reader = None
            table.relation, table.state = relation, state

    def _look(self) -> None:
        if time.monotonic() - self._looked_at < LOOK_SECONDS:
            return
        try:
            end, position = self._control.log_end(), self._stream.position
        except SourceUnreachable:
            self._stream.let_go()
            raise
        behind = self._control.log_bytes(position, end) if position < end else 0
        self._stream.go_on()
        self._looked_at = time.monotonic()
        self._looks = self._looks.reached(position).looked(end, now=self._looked_at, behind=behind)
        if behind:
            self._stream.nudge()  # of what is not ours, the server says only sometimes that it has passed

    # --- the log -----------------------------------------------------------------------------------------------

    def _take_timed(self) -> bool:
        if self._filling_quietly():
            return False
        begun = time.monotonic()
        took = self._take()
        if took:
            self._took_at, self._took = begun, time.monotonic() - begun
        return took

    def _take(self) -> bool:
        pieces = self._stream.peek(CUT_EVENTS)
        if not pieces:
            return False
        shown = self._control.snapshot()  # after they arrived
        pieces = pieces[: Gate(sees=shown.sees).open([piece.xid for piece in pieces])]
        if not pieces:
            self._turns.news.wait(0.05)  # in the log, and not visible yet: there is nothing to wait for but time
            return True
        rereads: dict[int, Reread] = {}
        stopped: dict[int, str] = {}
        while True:
            try:
                intakes, steps = self._decided(pieces, rereads, stopped)
            except Grown as grown:
                grown.table.reader = None
                if grown.inside:
                    grown.table.by_reading = True
                elif grown.piece:
                    pieces = pieces[: grown.piece]  # first what was before
                else:
                    self._grow(grown.table)
                continue
            here = self._after(pieces)
            try:
                if steps or here.skip or any(self._is_news(id, intake) for id, intake in intakes.items()):
                    self._commit(intakes, steps, here=here)
                else:  # it need not be durable: it may come again, and nothing will come of it again
                    self._here = here
                    self._adopt(intakes)
                break
            except MissingRow as error:
                more = self._read_again(error, pieces, rereads)
                if more is None:
                    stopped[error.table_id] = told(error)
                pieces = more or pieces
        self._stream.take(pieces)
        return True

    def _filling_quietly(self) -> bool:
        """Whether to let more of the log arrive first, because chunks are being read and none waits for it."""
        reading = any(table.chunks for table in self._tables.values())
        waiting = any(table.waits_to_land for table in self._tables.values())
        pause = max(FILLING_SECONDS, min(FILLING_AT_MOST, FILLING_SHARE * self._took))
        self._quiet_until = self._took_at + pause if reading and not waiting else 0.0
        return time.monotonic() < self._quiet_until

    def _after(self, pieces: Sequence[Piece]) -> SourceState:
        """How far the log is once they are taken."""
        last, ends = pieces[-1], [piece.position for piece in pieces if piece.final]
        lsn = ends[-1] if ends else self._stream.taken
        skip = 0 if last.final else last.first + len(last.events)
        known = self._database.looked_at() | self._stream.known_at(lsn)
        return dataclasses.replace(self._here, lsn=lsn, skip=skip, **known)

    def _is_news(self, id: int, intake: Intake) -> bool:
        return intake.progress != self._tables[id].intake.progress

    def _read_again(self, error: MissingRow, pieces: Sequence[Piece], rereads: dict[int, Reread]) -> list[Piece] | None:
        """Reads rows of which the log leaves something out that is not here, and answers the log up to where that was;
        None: more of it would have to wait here than may."""
        table = self._tables[error.table_id]
        before = rereads[error.table_id].rows if error.table_id in rereads else ()
        keys = moved_from(arrived(pieces, self._tables, {})[error.table_id], [*before, *error.keys])
        found = rereads[error.table_id] = self._database.rows_now(self._address, table.state.table, sorted(keys))
        while not self._turns.stopping:
            self._turns.news.clear()
            if self._stream.error is not None:
                raise self._stream.error
            if self._stream.received >= found.high:
                here = self._stream.peek(LARGEST_CUT)
                shown = self._control.snapshot()
                opened = here[: Gate(sees=shown.sees).open([piece.xid for piece in here])]
                if not any(found.sees(piece.xid) for piece in here[len(opened) :]):
                    return opened
            elif self._stream.full:
                return None
            self._stream.nudge()
            self._turns.news.wait(0.05)
        raise EngineClosed("the source is not followed any more")

    def _decided(
        self, pieces: Sequence[Piece], rereads: Mapping[int, Reread], stopped: Mapping[int, str]
    ) -> tuple[dict[int, Intake], list[Step]]:
        intakes = {id: self._tables[id].intake.stopped(reason) for id, reason in stopped.items()}
        steps: list[Step] = []
        for id, changes in arrived(pieces, self._tables, intakes, self._may_grow).items():
            if id in intakes:
                continue
            table = self._tables[id]
            places = table.intake.places(changes, functools.partial(self._control.places, table.state.table))
            if id in rereads:
                changes, places = substituted(changes, places, rereads[id])
            applied, intake = table.intake.take(changes, places)
            if intake.late_bytes > LATE_BYTES:
                table.split_rows = max(1, table.split_rows // 2)
                intake = intake.without_flights()
            try:
                self._add_steps(steps, table, applied)
            except DataError as error:
                intake = table.intake.stopped(told(error), changed=table.grown)
                for step in steps:
                    step.pop(id, None)
            intakes[id] = intake
        return intakes, steps

    def _commit(self, intakes: dict[int, Intake], steps: list[Step], *, here: SourceState | None = None) -> None:
        """One commit for all of it, and for how far the log has been taken; then the server may forget."""
        source = here or self._here
        self._engine.coordinator.mutate(self._mutation(intakes, steps, source), f"following {self.name}")
        self._state = self._here = source
        self._committed_at = time.monotonic()
        self._adopt(intakes)
        self._stream.confirm(source.lsn)

    def _mutation(self, intakes: dict[int, Intake], steps: list[Step], source: SourceState):
        def apply(state: Manifest, epoch: int) -> tuple[Manifest, Any]:
            if source_state(state, self._id) is None:
                raise EngineClosed(f'source "{self.name}" was dropped')
            alive, shown = tables_of(state, self._id, copies=True), state.catalog
            state = with_copies_shown(state)
            for number, step in enumerate(steps):
                writes = [Write(table_id=id, change=change) for id, change in step.items() if id in alive]
                if writes:
                    epoch = max(epoch, state.epoch) if number == 0 else epoch + 1
                    state, _ = self._engine.evaluator(state, writes, epoch)
                    state = dataclasses.replace(state, epoch=epoch)
            state = with_source(dataclasses.replace(state, catalog=shown), self._id, source)
            state = with_progress(state, {id: each.progress for id, each in intakes.items() if id in alive})
            for id in (id for id, each in intakes.items() if id in alive and each.progress.done):
                state = with_chunks_joined(state, id)
            return state, None

        return apply

    def _adopt(self, intakes: Mapping[int, Intake]) -> None:
        for id, intake in intakes.items():
            self._reads.set_intake(self._tables[id], intake)
            if intake.progress.error is not None:
                reason = getattr(intake.progress.error, "for_log", intake.progress.error)
                log.error('table "%s" has stopped: %s', self._tables[id].relation.name, reason)

    def _commit_idle(self) -> None:
        """What is not ours passes, too: its log need not be kept."""
        position = self._stream.position
        if position > self._state.lsn and time.monotonic() - self._committed_at > IDLE_SECONDS:
            here = dataclasses.replace(self._here, lsn=position, skip=0, **self._stream.known_at(position))
            self._commit({}, [], here=here if position > self._here.lsn else None)

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
        there = [each for each in watched.values() if each not in gone]
        changed = self._database.changed(self._control, there, self._stream.position)
        self._checked_at = time.monotonic()
        for id, known in watched.items():
            table = self._tables[id]
            if known in gone:
                self._commit({id: table.intake.stopped(gone[known])}, [])
            elif isinstance(found := changed.get(known), SchemaChanged):
                self._commit({id: table.intake.stopped(told(found), changed=True)}, [])
            else:
                table.grown = bool(found)
        known = self._database.looked_at()
        if any(getattr(self._state, name) != value for name, value in known.items()):
            self._commit({}, [], here=dataclasses.replace(self._here, **known))

    def _may_grow(self, table: Followed) -> bool:
        return self._evolves and table.state.all_columns and table.state.copy_of is None and not table.by_reading

    def _grow(self, table: Followed) -> None:
        """All before the new columns has been taken: the table gets them, if that is all there is to it."""
        id, committed = table.relation.id, self._engine.committed
        table.by_reading = True
        busy = copy_of(committed, id) is not None or any(id in job.inputs for job in jobs_of(committed).values())
        if id not in committed.catalog.relations or busy:
            return
        if not self._database.only_nulls_added(self._control, table.state.table):
            return
        with contextlib.suppress(InvalidDefinition, Unsupported):  # then it is said when it is to be read anew
            grow = growing(committed, self._database, self._control, committed.catalog.relations[id], table.state)
            if grow is not None and self._engine.coordinator.mutate(grow, f"following {self.name}"):
                self._reads.forget(self._tables.pop(id))
                self._follow_catalog()

    def _evolve(self) -> None:
        """Tables whose source has other columns now are read anew, with those. Until then they stay as they are."""
        for id, table in list(self._tables.items()) if self._evolves else ():
            if table.grown and self._may_grow(table) and table.intake.progress.error is None:
                # Nothing of it was in the log, which may have more of before: that is waited for.
                table.grown_by = table.grown_by or self._control.log_end()
                if self._stream.position >= table.grown_by:
                    self._grow(table)
                else:
                    self._stream.nudge()
                continue
            grown = table.grown and table.ready and table.state.copy_of is None
            wanted = table.intake.progress.changed or (grown and table.intake.progress.error is None)
            committed, of = self._engine.committed, table.state.copy_of or id
            if not wanted or not table.state.all_columns or of not in committed.catalog.relations:
                continue
            if table.state.copy_of is None and copy_of(committed, id) is not None:
                continue  # it is on its way
            try:
                begin = beginning(
                    committed, self._database, self._control, committed.catalog.relations[of], table.state
                )
            except SourceUnreachable:
                raise
            except HeadraceError as error:
                self._commit({id: table.intake.stopped(told(error))}, [])
                continue
            log.info('table "%s" is read anew, because its source has other columns now', table.relation.name)
            self._engine.coordinator.mutate(begin, f"following {self.name}")

    # --- snapshots ---------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """A table is read only when no transaction is left that may have written to it before it was published."""
        for table in self._tables.values():
            if table.ready or table.intake.progress.error is not None:
                continue
            if not self._database.waits_for_others:
                table.ready = True
                continue
            if time.monotonic() < table.next_at:
                continue
            if table.began_at is None:
                if self._state.owned:
                    try:
                        self._control.publish(self._state.publication, table.state.table)
                    except SourceRefused as error:
                        self._put_off(table, error)
                        continue
                table.began_at = self._control.snapshot()
            if table.began_at.all_ended_by(self._control.snapshot()):
                if self._state.owned:
                    self._control.touch_publication(self._state.publication)
                table.ready = True

    def _launch(self) -> None:
        paused = self._engine.parameter("paused")
        for table in self._tables.values():
            if paused or table.state.on_hold:
                table.asked = None  # what is true now need not be when it goes on
                continue
            try:
                while self._may_launch(table) and self._reads.launch(table):
                    pass
            except SourceRefused as error:
                self._put_off(table, error)

    def _may_launch(self, table: Followed) -> bool:
        intake = table.intake
        if not table.ready or intake.all_launched or intake.progress.error is not None:
            return False
        # Each holds a snapshot open on the server until it has been read.
        unread = sum(chunk.held is not None for each in self._tables.values() for chunk in each.chunks)
        if unread >= READERS:
            return False
        return len(table.chunks) < table.chunks_at_once and time.monotonic() >= table.next_at

    def _land(self) -> bool:
        landed = False
        for table in list(self._tables.values()):
            self._see_what_was_read(table)
            while table.waits_to_land:
                if not table.intake.may_land(self._stream.position):
                    self._stream.nudge()
                    break
                self._land_chunk(table)
                landed = True
        return landed

    def _see_what_was_read(self, table: Followed) -> None:
        """Chunks that have come to their end: what they are as of, or why there is nothing."""
        for chunk in list(table.chunks):
            if chunk.held is None or not chunk.files.done():
                continue
            try:
                chunk.files.result()
            except DataError as error:
                self._commit({table.relation.id: table.intake.stopped(told(error))}, [])
                return
            except (SourceRefused, SourceUnreachable) as error:
                self._reads.set_intake(table, table.intake.without_flights_from(chunk.id))
                self._put_off(table, error)
                return
            except BaseException:
                self._reads.set_intake(table, table.intake.without_flights_from(chunk.id))
                raise
            table.intake, chunk.held = table.intake.was_read(chunk.id, chunk.held.high), None

    def _land_chunk(self, table: Followed) -> None:
        """The first in flight, with what it has not seen."""
        chunk = table.chunks[0]
        files = chunk.files.result()
        applied, intake = table.intake.landed(sum(file.rows for file in files), chunk.splits)
        steps: list[Step] = [{table.relation.id: WrittenRows(files=tuple(files))}] if files else []
        late: list[Step] = []
        try:
            try:
                self._add_steps(late, table, applied)
            except DataError as error:
                self._commit({table.relation.id: table.intake.stopped(told(error))}, [])
                return
            del table.chunks[0]  # its files may be the table's from now on
            self._commit({table.relation.id: intake}, [*steps, *late])
        except MissingRow as error:
            # It shows a row only in part that was moved there after it was read. A later one shows it.
            self._read_anew(table, files)
            self._put_off(table, error)
            return
        except BaseException:
            # Whatever it was, reading the chunk again is safe, and landing it again may not be possible.
            self._read_anew(table)
            raise
        table.landed(chunk)

    def _read_anew(self, table: Followed, files: Sequence[RunFile] = ()) -> None:
        """All that is in flight; files that are certainly not the table's are removed."""
        self._reads.set_intake(table, table.intake.without_flights())
        with contextlib.suppress(HeadraceError):
            forget_files(self._engine.storage, files)

    def _put_off(self, table: Followed, error: HeadraceError) -> None:
        """The others go on."""
        table.put_off(error)
        self._checked_at = 0.0  # it may not be what it was

    def _replace(self) -> bool:
        """Copies that have been filled take the place of their tables."""
        done = [each for each in self._tables.values() if each.state.copy_of is not None and each.intake.progress.done]
        replaced = False
        for copy in done:
            id = copy.state.copy_of
            if copy.intake.progress.error is not None or not may_replace(self._engine.committed, id):
                continue
            try:
                replaced = self._engine.coordinator.mutate(replacing(self._engine, id), f"following {self.name}")
            except (EngineClosed, Fenced):
                raise
            except HeadraceError as error:  # a view on it, say
                self._commit({copy.relation.id: copy.intake.stopped(told(error))}, [])
                continue
            for each in (id, copy.relation.id):
                if each in self._tables:
                    self._reads.forget(self._tables.pop(each))  # what is known of it is in the manifest
        return replaced

    def _add_steps(self, steps: list[Step], table: Followed, changes: Sequence[Change | Truncate]) -> None:
        add_steps(steps, table.relation, table.state.table.key, changes, self._engine)
