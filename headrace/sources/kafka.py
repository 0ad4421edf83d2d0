"""connector = 'kafka': a topic. Splits are its partitions, offsets those of the broker.

Who reads is librdkafka, inside of tasks: there is nothing to be fetched for Spark, and a task decodes what it reads
where it is. What a range's end is, is asked of the broker beforehand: the last *stable* offset, so that a task never
waits for a transaction that somebody has left open. A task has read its range when it sees an offset behind it, or is
told that there is nothing more: offsets that no event has (marks of transactions, what compaction has removed) are not
waited for.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from headrace.cdc.problems import SourceRefused, SourceUnreachable
from headrace.errors import EnvironmentProblem, InvalidDefinition, InvalidParameterValue
from headrace.sources import avro, decoding, registry
from headrace.sources.changes import DELETED, Changes
from headrace.sources.connector import BadRecord, Connector, Decoded, Feed, Outside, Resolved
from headrace.sources.definition import OFFSET, PARTITION, Definition, whole_number
from headrace.sources.handover import Extent, Range
from headrace.sources.values import reason_of

TOPIC, SERVERS, MODE, MILLIS = (
    "topic",
    "properties.bootstrap.server",
    "scan.startup.mode",
    "scan.startup.timestamp.millis",
)
GROUP = "group.id.prefix"
EARLIEST, LATEST, TIMESTAMP = "earliest", "latest", "timestamp"

BLOCK = 16_384
"""Events that are decoded together"""

BLOCK_BYTES = 16 << 20
"""… or fewer, if they are large"""

FIRST = 1_000
"""Events that are asked for before it is known how large they are"""

AHEAD = "4096"
"""Kilobytes that are fetched before they are asked for. It is not known there where a range ends, so what lies behind
its end is fetched in vain."""

PATIENCE = 30.0
"""Seconds after which a broker that says nothing is taken to be gone"""

ASK_SECONDS = 10.0
"""How long an answer of a broker to the driver may take"""

QUIET = {"log_level": "2"}
"""What goes wrong is said by errors; librdkafka would also write to standard error, many times a second."""

METADATA_SECONDS = 2.0
"""How often the topic is looked at for new partitions"""


def _client() -> Any:
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError:
        raise EnvironmentProblem(
            "connector = 'kafka' needs the package confluent-kafka",
            hint="pip install 'headrace[kafka]', on the driver and where executors run",
        ) from None
    return confluent_kafka


def check(definition: Definition) -> None:
    options = definition.option
    definition.check_options({TOPIC, SERVERS, MODE, MILLIS, GROUP}, ("properties.",))
    definition.check_include(("partition", "offset", "timestamp", "key", "header", "headers", "payload"))
    if definition.format == "plain":
        decoding.check(definition, ("json", "csv", "bytes", "avro"))
    elif definition.encode in ("json", "avro"):
        decoding.check_options(definition)
    else:
        raise InvalidDefinition(f"FORMAT {definition.format.upper()} needs ENCODE JSON or AVRO")
    if definition.encode == "avro":
        registry.check(definition)
    for name in (TOPIC, SERVERS):
        if not options.get(name):
            raise InvalidParameterValue(f'option "{name}" is missing')
    mode = options.get(MODE, EARLIEST)
    if mode not in (EARLIEST, LATEST, TIMESTAMP):
        raise InvalidParameterValue(f"{MODE} cannot be '{mode}'", hint="it is one of earliest, latest, timestamp")
    if (mode == TIMESTAMP) != (MILLIS in options):
        raise InvalidParameterValue(f"{MODE} = 'timestamp' and {MILLIS} belong together", hint="give both, or none")
    whole_number(options, MILLIS, 0)


def client_options(definition: Definition, secrets: Mapping[str, str]) -> dict[str, str]:
    """What librdkafka is told: everything that begins with ``properties.``, as it is.

    >>> found = client_options(Definition(connector="kafka", columns=(), options=(
    ...     ("properties.bootstrap.server", "a:1"), ("properties.security.protocol", "SSL"))), {})
    >>> found["bootstrap.servers"], found["security.protocol"]
    ('a:1', 'SSL')
    """
    given = {**definition.option, **secrets}
    found = {key.removeprefix("properties."): value for key, value in given.items() if key.startswith("properties.")}
    found["bootstrap.servers"] = found.pop("bootstrap.server")
    return found


# --- reading, by executors ---------------------------------------------------------------------------------------

_consumers: dict[str, Any] = {}
"""Of this process. Connecting takes longer than reading a small range."""


@dataclass(frozen=True, kw_only=True)
class TopicReader:
    definition: Definition
    config: tuple[tuple[str, str], ...] = field(repr=False)
    """With passwords in it"""
    records: avro.Records | None = None
    """Who reads the events, if they are Avro's"""

    @property
    def topic(self) -> str:
        return self.definition.option[TOPIC]

    def read(self, task: Range) -> Iterator[Decoded]:
        kafka = _client()
        consumer = self._consumer(kafka)
        consumer.assign([kafka.TopicPartition(self.topic, task.split, task.start)])
        try:
            for block in in_blocks(self._messages(kafka, consumer, task), _beside):
                yield self._decoded(task.split, block)
        except BaseException:
            _consumers.pop(repr(self.config), None)
            raise
        finally:
            consumer.unassign()

    def _consumer(self, kafka: Any) -> Any:
        key = repr(self.config)
        if key not in _consumers:
            _consumers[key] = kafka.Consumer(
                {
                    **QUIET,
                    "isolation.level": "read_committed",
                    "fetch.wait.max.ms": "50",
                    "queued.max.messages.kbytes": AHEAD,
                    **dict(self.config),
                    "group.id": "headrace-reader",  # is not used: nothing is subscribed to, nothing committed
                    "enable.auto.commit": "false",
                    "enable.auto.offset.store": "false",
                    "auto.offset.reset": "error",
                    "enable.partition.eof": "true",
                }
            )
        return _consumers[key]

    def _messages(self, kafka: Any, consumer: Any, task: Range) -> Iterator[list[Any]]:
        deadline = time.monotonic() + PATIENCE
        after, ended, fit = task.start, False, FIRST
        while not ended:
            # So many, and one that says that there are no more: who asks for more waits for them.
            wanted = min(fit, task.end - after + 1)
            messages = consumer.consume(num_messages=wanted, timeout=0.1)
            if not messages and time.monotonic() > deadline:
                raise SourceUnreachable(f'no broker of topic "{self.topic}" has answered for {PATIENCE:.0f} seconds')
            if not messages:
                continue
            deadline = time.monotonic() + PATIENCE
            events = [message for message in messages if message.error() is None]
            if len(events) < len(messages):
                ended = self._ends(kafka, (message for message in messages if message.error() is not None), task)
            if events and events[-1].offset() >= task.end:
                events, ended = [message for message in events if message.offset() < task.end], True
            if events:
                after = events[-1].offset() + 1
                fit = to_ask_for(len(events), sum(map(len, events)))
                yield events

    def _ends(self, kafka: Any, told: Iterable[Any], task: Range) -> bool:
        """Whether there is nothing more in the range."""
        ended = False
        for message in told:
            error = message.error()
            if error.code() != kafka.KafkaError._PARTITION_EOF:
                raise _told(error, self.topic)
            # A broker that was started just now may know less than before, for a moment.
            ended |= message.offset() >= task.end
        return ended

    def _decoded(self, split: int, messages: Sequence[Any]) -> Decoded:
        values = [message.value() for message in messages]
        offsets = [message.offset() for message in messages]
        columns, faults = decoding.decode(self.definition, values, self.records)
        bad = ()
        if faults:
            wrong = {fault.at for fault in faults}
            bad = tuple(
                BadRecord(split=split, offset=offsets[fault.at], reason=fault.reason, raw=values[fault.at])
                for fault in faults
            )
            messages = [message for at, message in enumerate(messages) if at not in wrong]
            offsets = [offset for at, offset in enumerate(offsets) if at not in wrong]
        schema = self.definition.schema
        for each in self.definition.include:
            column = _INCLUDED[each.what](messages, each.header)
            columns[each.name] = pa.array(column, schema.field(each.name).type)
        columns[PARTITION] = pa.repeat(pa.scalar(split, pa.int64()), len(messages))
        columns[OFFSET] = pa.array(offsets, pa.int64())
        return Decoded(rows=pa.table({name: columns[name] for name in schema.names}, schema=schema), bad=bad)


def to_ask_for(count: int, size: int) -> int:
    """How many events make a block, if they are as large as those that came last.

    >>> to_ask_for(1000, 100_000), to_ask_for(2, 10 << 20), to_ask_for(1, 1 << 30)
    (16384, 3, 1)
    """
    return max(1, min(BLOCK, BLOCK_BYTES * count // max(size, 1)))


def _beside(message: Any) -> int:
    """Bytes of an event's key and headers."""
    headers = sum(len(name) + len(value or b"") for name, value in message.headers() or ())
    return len(message.key() or b"") + headers


def in_blocks(batches: Iterable[list[Any]], beside: Callable[[Any], int] = lambda _: 0) -> Iterator[list[Any]]:
    """Messages as they are decoded together; the length of one is that of its content. What they have ``beside`` it is
    asked of one for all that came together: looking at each would take longer than reading it."""
    block: list[Any] = []
    size = 0
    for messages in batches:
        block += messages
        size += sum(map(len, messages)) + (len(messages) * beside(messages[-1]) if messages else 0)
        if len(block) >= BLOCK or size >= BLOCK_BYTES:
            # They may have become larger than those by which they were asked for.
            step = max(1, len(block) // max(1, size // BLOCK_BYTES))
            yield from (block[at : at + step] for at in range(0, len(block), step))
            block, size = [], 0
    if block:
        yield block


def _timestamp(message: Any) -> int | None:
    kind, millis = message.timestamp()
    return None if kind == 0 else millis * 1000


def _header(message: Any, name: str | None) -> bytes | None:
    return next((value for key, value in reversed(message.headers() or []) if key == name), None)


_INCLUDED: dict[str, Callable[[Sequence[Any], str | None], list[Any]]] = {
    "partition": lambda messages, _: [message.partition() for message in messages],
    "offset": lambda messages, _: [message.offset() for message in messages],
    "timestamp": lambda messages, _: [_timestamp(message) for message in messages],
    "key": lambda messages, _: [message.key() for message in messages],
    "header": lambda messages, name: [_header(message, name) for message in messages],
    "headers": lambda messages, _: [
        [{"key": key, "value": value} for key, value in message.headers() or []] for message in messages
    ],
    "payload": lambda messages, _: [message.value() for message in messages],
}


# --- asking, by the driver ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ChangesReader(TopicReader):
    """For tables: rows have the table's columns and DELETED."""

    key: tuple[str, ...]

    def _decoded(self, split: int, messages: Sequence[Any]) -> Decoded:
        changes = Changes(definition=self.definition, key=self.key, records=self.records)
        block = changes.block([message.key() for message in messages], [message.value() for message in messages])
        if block is not None:
            return self._finished(block.columns, pa.array(block.gone), [messages[at] for at in block.said], ())
        rows, gone, good, bad = [], [], [], []
        for message in messages:
            try:
                found = changes.of(message.key(), message.value())
            except Exception as problem:
                bad.append(_bad(split, message, reason_of(problem)))
                continue
            if found is not None:
                rows.append(found[0])
                gone.append(found[1])
                good.append(message)
        columns, unfit = decoding.arrays_of(self.definition, rows)
        if unfit:
            bad = sorted([*bad, *(_bad(split, good[each.at], each.reason) for each in unfit)], key=lambda it: it.offset)
            wrong = {each.at for each in unfit}
            gone = [each for at, each in enumerate(gone) if at not in wrong]
            good = [each for at, each in enumerate(good) if at not in wrong]
        return self._finished(columns, pa.array(gone, pa.bool_()), good, bad)

    def _finished(
        self, columns: dict[str, pa.Array], gone: pa.Array, messages: Sequence[Any], bad: Sequence[BadRecord]
    ) -> Decoded:
        schema = self.definition.schema
        for each in self.definition.include:
            columns[each.name] = pa.array(_INCLUDED[each.what](messages, each.header), schema.field(each.name).type)
        shown = {name: columns[name] for name, _ in self.definition.shown}
        return Decoded(rows=pa.table({**shown, DELETED: gone}), bad=tuple(bad))


def _bad(split: int, message: Any, reason: str) -> BadRecord:
    return BadRecord(split=split, offset=message.offset(), reason=reason, raw=message.value())


class Topic:
    """What the driver asks the brokers about a topic."""

    def __init__(self, definition: Definition, config: Mapping[str, str]):
        self._kafka = _client()
        self.name = definition.option[TOPIC]
        self._refused: str | None = None
        given = {**QUIET, "socket.timeout.ms": "10000", **config, "error_cb": self._hear}
        self._admin = self._kafka.admin.AdminClient(given)
        self._looked_at = 0.0
        self._partitions: tuple[int, ...] = ()

    def _hear(self, error: Any) -> None:
        """Who is not let in is told so here, and nowhere else: the question itself just gets no answer."""
        if error.code() in (self._kafka.KafkaError._AUTHENTICATION, self._kafka.KafkaError._SSL):
            self._refused = error.str()

    def _told(self, error: Any) -> SourceUnreachable | SourceRefused:
        self._admin.poll(0)  # hears what there is to be heard
        refused, self._refused = self._refused, None
        if refused is not None:
            return SourceRefused(
                f'the brokers of topic "{self.name}" refuse the connection: {refused}',
                hint="see the options that begin with properties.",
            )
        return _told(error, self.name)

    def partitions(self) -> tuple[int, ...]:
        """Which there are; asked for again every now and then."""
        if not self._partitions or time.monotonic() - self._looked_at > METADATA_SECONDS:
            try:
                found = self._admin.list_topics(self.name, timeout=ASK_SECONDS).topics[self.name]
            except self._kafka.KafkaException as problem:
                raise self._told(problem.args[0]) from None
            if found.error is not None:
                raise _told(found.error, self.name)
            if len(found.partitions) < len(self._partitions):
                raise _made_anew(self.name)
            self._partitions, self._looked_at = tuple(sorted(found.partitions)), time.monotonic()
        return self._partitions

    def id(self) -> str:
        """It changes if the topic is deleted and made anew."""
        asked = self._admin.describe_topics(self._kafka.TopicCollection([self.name]))
        return str(self._result(asked[self.name]).topic_id)

    def offsets(self, *specs: Any) -> list[dict[int, int]]:
        """Asked again while a broker says that it does not know yet: a topic that was made just now has no leader."""
        deadline = time.monotonic() + ASK_SECONDS
        while True:
            try:
                return self._offsets(specs)
            except NotYet:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def _offsets(self, specs: Sequence[Any]) -> list[dict[int, int]]:
        """All questions are asked before the first answer is waited for."""
        asked = [
            self._admin.list_offsets(
                {self._kafka.TopicPartition(self.name, partition): spec for partition in self.partitions()},
                isolation_level=self._kafka.IsolationLevel.READ_COMMITTED,
                request_timeout=ASK_SECONDS,
            )
            for spec in specs
        ]
        return [
            {partition.partition: self._result(future).offset for partition, future in each.items()} for each in asked
        ]

    def extents(self) -> dict[int, Extent]:
        spec = self._kafka.admin.OffsetSpec
        begins, ends = self.offsets(spec.earliest(), spec.latest())
        return {split: Extent(begins[split], max(ends[split], begins[split])) for split in ends if split in begins}

    def at(self, millis: int) -> dict[int, int]:
        """The first offsets of a moment or later."""
        spec = self._kafka.admin.OffsetSpec
        # The ends first: an event that comes between the two answers is not to be before where one begins.
        (ends,) = self.offsets(spec.latest())
        (found,) = self.offsets(spec.for_timestamp(millis))
        return {split: ends[split] if offset < 0 else offset for split, offset in found.items()}

    def _result(self, future: Any) -> Any:
        try:
            return future.result()
        except self._kafka.KafkaException as problem:
            raise self._told(problem.args[0]) from None


class NotYet(SourceUnreachable):
    """A broker answers that it cannot say now, and will be able to."""


def _told(error: Any, topic: str) -> SourceUnreachable | SourceRefused:
    kafka = _client()
    if error.code() in (kafka.KafkaError.UNKNOWN_TOPIC_OR_PART, kafka.KafkaError._UNKNOWN_TOPIC):
        return SourceRefused(f'topic "{topic}" does not exist', hint="is it the right broker, and the right name?")
    if error.code() in (kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED, kafka.KafkaError._AUTHENTICATION):
        return SourceRefused(f'topic "{topic}" may not be read: {error.str()}')
    not_yet = (kafka.KafkaError.NOT_LEADER_FOR_PARTITION, kafka.KafkaError.LEADER_NOT_AVAILABLE)
    kind = NotYet if error.code() in not_yet else SourceUnreachable
    return kind(f'the brokers of topic "{topic}" do not answer as they should: {error.str()}')


def _made_anew(topic: str) -> SourceRefused:
    return SourceRefused(
        f'topic "{topic}" is not the one that the source was created on: it was deleted and made anew',
        hint="drop the source and its views, and create them again",
    )


@dataclass(kw_only=True)
class KafkaFeed(Feed):
    topic: Topic
    topic_id: str
    group: str
    config: dict[str, str] = field(repr=False)
    _checked_at: float = 0.0
    _committer: Any = None

    def extents(self, *, fresh: bool = False) -> dict[int, Extent]:
        if time.monotonic() - self._checked_at > METADATA_SECONDS:
            self.confirm()
        return self.topic.extents()

    def idle_tasks(self, next: Mapping[int, int]) -> list[Range]:
        return [Range(split, offset, offset) for split, offset in next.items()]

    def since(self, moment: datetime) -> dict[int, int] | None:
        return self.topic.at(math.floor(moment.timestamp() * 1000))

    def confirm(self) -> None:
        """No two topics have the same id. If it is the same after reading as it was before, nobody came between."""
        if self.topic.id() != self.topic_id:
            raise _made_anew(self.topic.name)
        self._checked_at = time.monotonic()

    def committed(self, next: Mapping[int, int]) -> None:
        """For those who watch from outside: nothing is ever read from there."""
        kafka = _client()
        if self._committer is None:
            self._committer = kafka.Consumer(
                {**QUIET, **self.config, "group.id": self.group, "enable.auto.commit": "false"}
            )
        offsets = [kafka.TopicPartition(self.topic.name, split, offset) for split, offset in next.items()]
        try:
            self._committer.commit(offsets=offsets, asynchronous=True)
            self._committer.poll(0)
        except kafka.KafkaException:
            pass  # the next commit says more

    def close(self) -> None:
        if self._committer is not None:
            self._committer.close()


def resolve(definition: Definition, outside: Outside) -> Resolved:
    """Where it begins is found out once: what comes later does not change it."""
    topic = Topic(definition, client_options(definition, outside.secrets))
    registry.resolve(definition, outside.secrets)
    options = definition.option
    mode = options.get(MODE, EARLIEST)
    if mode == TIMESTAMP:
        starts = topic.at(int(options[MILLIS]))
    else:
        starts = {split: each.begin if mode == EARLIEST else each.end for split, each in topic.extents().items()}
    group = f"{options.get(GROUP, 'headrace')}-{uuid.uuid4().hex[:12]}"
    return Resolved(starts=starts, known={"topic_id": topic.id(), "group": group})


def feed(definition: Definition, resolved: Resolved, outside: Outside) -> Feed:
    config = client_options(definition, outside.secrets)
    return KafkaFeed(
        definition=definition,
        reader=_reader(definition, config, registry.records_of(definition, outside.secrets)),
        topic=Topic(definition, config),
        topic_id=resolved.known["topic_id"],
        group=resolved.known["group"],
        config=config,
    )


def _reader(definition: Definition, config: Mapping[str, str], records: avro.Records | None) -> TopicReader:
    given = tuple(sorted(config.items()))
    if definition.format == "plain":
        return TopicReader(definition=definition, config=given, records=records)
    return ChangesReader(definition=definition, config=given, records=records, key=definition.key)


CONNECTOR = Connector(secrets=("properties.", avro.PASSWORD), check=check, resolve=resolve, feed=feed)
