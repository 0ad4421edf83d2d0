"""Sources of events: CREATE and DROP, views that are put on them, and reading one as it is now.

Sources of another database are in :mod:`headrace.engine.sources`.
"""

from __future__ import annotations

import dataclasses
import logging
import re
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from headrace.catalog import SOURCE, TABLE, Relation
from headrace.engine import secrets
from headrace.engine.coordinator import Mutate
from headrace.engine.dead_letters import with_dead_letters
from headrace.engine.event_tables import TableReader, adding
from headrace.engine.feeds import (
    Extents,
    StreamState,
    ViewState,
    is_event_source,
    sources_of,
    stream_state,
    table_stream,
    view_state,
    views_on,
    with_stream,
    with_view,
)
from headrace.engine.ingest import scan_source
from headrace.engine.places import storage_at
from headrace.engine.source_log import StoredSegments
from headrace.engine.source_reader import SourceReader
from headrace.engine.splits import warm_up
from headrace.errors import (
    DuplicateRelation,
    HeadraceError,
    InvalidParameterValue,
    ObjectNotReady,
    Unsupported,
)
from headrace.notices import exists_already
from headrace.sources.connector import Connector, Feed, Outside
from headrace.sources.connectors import CONNECTORS
from headrace.sources.definition import PK, Definition
from headrace.sources.handover import Handover, Range, Stream
from headrace.sources.pushdown import Demand, narrowed
from headrace.sql import statements as ast
from headrace.sql.watermarks import lateness_of
from headrace.state.manifest import Manifest

if TYPE_CHECKING:
    from headrace.engine.engine import Engine

log = logging.getLogger("headrace")

CONFIDENTIAL = re.compile(
    r"password|passphrase|secret|session\.token|refresh\.token(?!\.endpoint)|\.sas\.(?!token\.provider)"
    r"|(account|encryption)\.key|key\.pem|private\.key$"
)
"""Names of options whose values nobody is to see: of librdkafka, and of Hadoop's file systems"""

EPOCH_THREADS = ("headrace-epochs", "headrace-tables")
"""Those that run epochs, and must not wait for anybody"""


class EventSources:
    def __init__(self, engine: Engine):
        self._engine = engine
        self._readers: dict[int, SourceReader] = {}
        self._tables: dict[int, TableReader] = {}
        self.broken: dict[int, str] = {}
        self._lock = threading.Lock()

    def start(self) -> None:
        state = self._engine.committed
        for relation in state.catalog.of_kind(SOURCE):
            if (known := stream_state(state, relation.id)) is not None:
                StoredSegments(self._engine, relation.id).tidy()
                self._read(relation, known)
        for relation in state.catalog.of_kind(TABLE):
            if (known := table_stream(state, relation.id)) is not None:
                self._read_table(relation, known)

    def stop(self) -> None:
        with self._lock:
            readers = [*self._readers.values(), *self._tables.values()]
            self._readers, self._tables = {}, {}
        for reader in readers:
            reader.stop()

    def being_written(self) -> set[int]:
        """The views that tasks may be writing files of, which nobody names yet."""
        state = self._engine.committed
        return {view.id for id in list(self._readers) for view in views_on(state, id)}

    def committed(self, state: Manifest) -> None:
        for reader in list(self._readers.values()):
            reader.committed(state)

    def reader(self, source_id: int) -> SourceReader | None:
        return self._readers.get(source_id)

    def wake(self, view: ViewState) -> None:
        for id in view.inputs:
            if (reader := self._readers.get(id)) is not None:
                reader.wake()

    def _read(self, relation: Relation, known: StreamState) -> None:
        try:
            feed = self._feed(relation.id, known)
        except HeadraceError as error:
            self.broken[relation.id] = error.message
            log.error('source "%s" cannot be read: %s', relation.name, error.message)
            return
        reader = SourceReader(self._engine, relation, feed)
        with self._lock:
            self._readers[relation.id] = reader
        reader.start()

    def _read_table(self, relation: Relation, known: StreamState) -> None:
        try:
            feed = self._feed(relation.id, known)
        except HeadraceError as error:
            self.broken[relation.id] = error.message
            log.error('table "%s" cannot be read: %s', relation.name, error.message)
            return
        reader = TableReader(self._engine, relation, feed)
        with self._lock:
            self._tables[relation.id] = reader
        reader.start()

    def _feed(self, id: int, known: StreamState) -> Feed:
        connector = CONNECTORS[known.definition.connector]
        return connector.feed(known.definition, known.resolved, self._outside(known.secrets, id))

    def _outside(self, names: Mapping[str, str], id: int = 0) -> Outside:
        engine = self._engine
        return Outside(
            secrets=self._secrets(names),
            segments=StoredSegments(engine, id),
            storage_at=partial(storage_at, engine.spark),
        )

    def _secrets(self, names: Mapping[str, str]) -> dict[str, str]:
        storage, state = self._engine.storage, self._engine.committed
        return {option: secrets.value(storage, state, name) for option, name in names.items()}

    # --- CREATE SOURCE -----------------------------------------------------------------------------------------

    def create(self, statement: ast.CreateSource) -> str | None:
        found = self._described(statement)
        if isinstance(found, str):
            return found
        relation = self._engine.coordinator.mutate(_adding(statement, found), statement.name)
        self._read(relation, found)
        return None

    def create_table(self, statement: ast.CreateTableOfEvents) -> str | None:
        found = self._described(statement)
        if isinstance(found, str):
            return found
        feed = self._feed(0, found)
        try:
            extents = feed.extents(fresh=True)
        finally:
            feed.close()
        relation = self._engine.coordinator.mutate(adding(statement, found, extents), statement.name)
        self._read_table(relation, found)
        return None

    def _described(self, statement: ast.CreateSource) -> StreamState | str:
        """What the statement asks for, or why there is nothing to be done."""
        existing = self._engine.committed.catalog.find(statement.name)
        if existing is not None:
            if statement.if_not_exists:
                return exists_already(f'relation "{statement.name}"')
            raise DuplicateRelation(f'{existing.kind} "{statement.name}" already exists')
        definition = Definition.of(statement)
        if definition.watermark is not None:  # it is to mean something
            lateness_of(definition.watermark, definition.relation_columns, statement.name)
        connector = CONNECTORS[definition.connector]
        connector.check(definition)
        _check_secrets(definition, connector, dict(statement.secrets))
        warm_up(self._engine.spark)
        resolved = connector.resolve(definition, self._outside(dict(statement.secrets)))
        return StreamState(
            definition=definition, resolved=resolved, secrets=dict(statement.secrets), starts=resolved.starts
        )

    def dropped(self, before: Manifest) -> None:
        """Nobody reads what is gone, and its log need not be kept."""
        now = self._engine.committed
        gone = [
            relation.id
            for relation in before.catalog
            if relation.id not in now.catalog.relations
            and (is_event_source(before, relation.id) or table_stream(before, relation.id) is not None)
        ]
        with self._lock:
            readers = [of.pop(id) for of in (self._readers, self._tables) for id in gone if id in of]
        for reader in readers:
            reader.stop()
        for id in gone:
            self.broken.pop(id, None)
            self._engine.storage.delete([f"sources/{id}"])

    # --- views -------------------------------------------------------------------------------------------------

    def extents(self, state: Manifest, ids: Sequence[int]) -> Extents:
        """What there is now, of those relations that are sources of events. It asks them: not for the epoch loop."""
        found = {}
        for id in ids:
            if is_event_source(state, id):
                found[id] = self._required(state.catalog.relations[id]).extents()
        return found

    def _required(self, relation: Relation) -> SourceReader:
        reader = self._readers.get(relation.id)
        if reader is None:
            raise ObjectNotReady(f'source "{relation.name}" is not read', hint=self.broken.get(relation.id))
        return reader

    def attach(
        self, state: Manifest, relation: Relation, extents: Extents, options: Mapping[str, Any], epoch: int
    ) -> Manifest:
        """The state with a view on sources, at the barrier where its history ends and its stream begins."""
        inputs = {}
        for source in sources_of(state.catalog, relation):
            known = stream_state(state, source.id)
            assert known is not None
            if source.id not in extents:
                raise ObjectNotReady(f'source "{source.name}" was created just now', hint="try it again")
            there = extents[source.id]
            begins = {split: extent.begin for split, extent in there.items()}
            starts = {**begins, **known.starts}
            stream = known.stream
            if stream is None:  # nobody has read it: the stream begins with what comes next
                ends = {split: max(extent.end, starts[split]) for split, extent in there.items()}
                stream = Stream(next=ends)
            known = dataclasses.replace(known, starts={**starts, **known.starts}, stream=stream)
            state = with_stream(state, source.id, known)
            # A view begins with what there is; only what goes from now on is lost to it.
            first = {split: max(start, begins.get(split, 0)) for split, start in starts.items()}
            inputs[source.id] = Handover.begin(first, stream)
        relation = relation.replace(parallelism=options["streaming_parallelism"] or 0)
        view = ViewState(
            inputs=inputs,
            parallelism=options["streaming_parallelism"] or self._engine.default_parallelism,
            started_at=time.time(),
            created_epoch=epoch,
            rate_limit=options["backfill_rate_limit"],
            background=options["background_ddl"],
        )
        relation = relation.replace(creating=not view.done)
        state = dataclasses.replace(state, catalog=state.catalog.add(relation))
        return state if view.done else with_view(state, relation.id, view)

    # --- batch -------------------------------------------------------------------------------------------------

    def frame(
        self, relation: Relation, demands: Mapping[str, Demand] | None = None, notes: list[str] | None = None
    ) -> DataFrame:
        """What there is now, from where the source was created to begin; of that, what a query may want."""
        if threading.current_thread().name.startswith(EPOCH_THREADS):
            # It would wait for an answer from outside, and, of files, for a commit: its own.
            raise Unsupported(
                f'source "{relation.name}" cannot be read by UPDATE and DELETE',
                hint="make a materialized view of it, and read that; or INSERT … SELECT, which can",
            )
        reader, state = self._required(relation), self._engine.committed
        known = stream_state(state, relation.id)
        assert known is not None
        ranges = [
            Range(split, max(extent.begin, known.starts.get(split, 0)), extent.end)
            for split, extent in sorted(reader.extents().items())
        ]
        if demands:
            wanted = narrowed(reader.feed, ranges, demands)
            if notes is not None and wanted != ranges:
                kept, all = (sum(each.size for each in some) for some in (wanted, ranges))
                notes.append(f'reads {kept} of {all} offsets of source "{relation.name}"')
            ranges = wanted
        return self._scan(reader, relation, ranges)

    def covered(self, state: Manifest, source: Relation, view: Relation) -> DataFrame:
        """The events that a view should have, as of a committed state."""
        known, filling = stream_state(state, source.id), view_state(state, view.id)
        reader = self._required(source)
        assert known is not None
        next = known.stream.next if known.stream is not None else {}
        if filling is None:
            ranges = [Range(split, known.starts.get(split, 0), end) for split, end in sorted(next.items())]
        else:
            stages = filling.inputs[source.id].stages
            ranges = [Range(split, stage.start, stage.at) for split, stage in sorted(stages.items())]
            for split, end in sorted(next.items()):
                begin = stages[split].until if split in stages else known.starts.get(split, 0)
                ranges.append(Range(split, begin, end))
        extents = reader.extents()
        there = [
            Range(each.split, max(each.start, extents[each.split].begin), each.end)
            for each in ranges
            if each.split in extents
        ]
        return self._scan(reader, source, there)

    def _scan(self, reader: SourceReader, relation: Relation, ranges: Sequence[Range]) -> DataFrame:
        wanted = [each for each in ranges if each.size > 0]
        return scan_source(self._engine.spark, self._engine.storage, reader.feed, relation, wanted)

    def table_status(self) -> list[dict[str, Any]]:
        """Of tables that events change."""
        state, found = self._engine.committed, []
        for relation in state.catalog.of_kind(TABLE):
            if (known := table_stream(state, relation.id)) is not None:
                reader = self._tables.get(relation.id)
                found.append(self._described_status(relation, known, reader))
        return found

    # --- looking -----------------------------------------------------------------------------------------------

    def status(self, relation: Relation) -> dict[str, Any]:
        known = stream_state(self._engine.committed, relation.id)
        assert known is not None
        reader = self._readers.get(relation.id)
        found = self._described_status(relation, known, reader)
        if reader is None:
            return found
        if found["error"] is None and (trouble := reader.trouble()) is not None:
            found["error"] = trouble.message  # of a view's history: the stream goes on
        return found | {"rows_per_second": reader.rows_per_second}

    def _described_status(
        self, relation: Relation, known: StreamState, reader: SourceReader | TableReader | None
    ) -> dict[str, Any]:
        error = self.broken.get(relation.id) if reader is None else reader.error and reader.error.message
        running = "idle" if known.stream is None else "running"
        return {
            "name": relation.name, "connector": known.definition.connector,
            "state": "failed" if reader is None else "retrying" if error else running,
            "lag_bytes": None, "lag_seconds": None, "error": error,
            "lag_rows": reader.lag_rows if reader is not None and known.stream is not None else None,
            "rows_per_second": None, "skipped": known.skipped, "lost": known.lost,
        }  # fmt: skip


def _check_secrets(definition: Definition, connector: Connector, secrets: Mapping[str, str]) -> None:
    for option in [*definition.option, *dict(definition.encode_options)]:
        if CONFIDENTIAL.search(option.lower()):
            raise InvalidParameterValue(
                f'option "{option}" must be a secret',
                hint=f"CREATE SECRET name AS '…', then {option} = SECRET name",
            )
    for option in secrets:
        if not option.startswith(connector.secrets or ("\0",)):
            begin = " or ".join(connector.secrets)
            hint = f"those that begin with {begin} can" if begin else "none of this connector can"
            raise InvalidParameterValue(f'option "{option}" cannot be a secret', hint=hint)


def _adding(statement: ast.CreateSource, known: StreamState) -> Mutate:
    def apply(state: Manifest, epoch: int) -> tuple[Manifest, Relation]:
        columns, watermark = known.definition.relation_columns, known.definition.watermark
        relation = Relation(
            id=state.catalog.next_id, name=statement.name, kind=SOURCE, columns=columns,
            lateness=None if watermark is None else lateness_of(watermark, columns, statement.name),
            pk=PK, distribution=tuple(key.name for key in PK), append_only=True, definition=statement.sql,
            options=statement.options, created_epoch=epoch,
        )  # fmt: skip
        catalog, letters = with_dead_letters(state.catalog.add(relation), relation, known.definition, epoch)
        of = dataclasses.replace(known, dead_letters=letters)
        return with_stream(dataclasses.replace(state, catalog=catalog), relation.id, of), relation

    return apply
