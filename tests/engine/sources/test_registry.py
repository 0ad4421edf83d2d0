"""Events that name their schema, and a registry that knows it."""

from __future__ import annotations

import datetime
import io
import json
import urllib.parse
from collections.abc import Iterator
from decimal import Decimal

import fastavro
import pytest

from headrace.cdc.problems import SourceRefused, SourceUnreachable
from headrace.errors import InvalidDefinition, InvalidParameterValue
from headrace.sources import avro
from tests.engine.conftest import eventually
from tests.engine.sources.conftest import NEEDS_KAFKA, rows
from tests.support.registry import PASSWORD, USER, SchemaRegistry

pytestmark = NEEDS_KAFKA

UTC = datetime.UTC


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    found = SchemaRegistry()
    yield found
    found.remove()


@pytest.fixture
def secret(db) -> None:
    db.sql(f"CREATE SECRET of_registry AS '{PASSWORD}'")


def written(number: int, schema, value) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(avro.meant(schema)), value)
    return b"\0" + number.to_bytes(4, "big") + sink.getvalue()


def record(name: str, /, **fields):
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}


def given(broker, registry: SchemaRegistry, topic: str, format: str = "PLAIN", more: str = "") -> str:
    return (
        f"WITH (connector = 'kafka', topic = '{topic}', properties.bootstrap.server = '{broker.servers}'{more})"
        f" FORMAT {format} ENCODE AVRO (schema.registry = '{registry.url}', schema.registry.username = '{USER}',"
        " schema.registry.password = SECRET of_registry)"
    )


FIRST = record(
    "click",
    id="long",
    at={"type": "long", "logicalType": "timestamp-micros"},
    price=["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}],
    who={"type": "string", "logicalType": "uuid"},
)
PLACE = record("place", lat="double", lon="double")
AT = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
WHO = "6f1f0f04-9f5c-4e42-8d3a-0c6a4fba7e11"


def test_each_event_is_read_by_the_schema_that_it_names(db, broker, registry, secret):
    topic = broker.topic(partitions=2)
    one = registry.register(f"{topic}-value", FIRST)
    registry.register(f"{topic}-place", PLACE)
    # A later version: a field more, which is a record of another subject, and one that is gone.
    later = record("click", id="long", place=["null", "place"], day={"type": "int", "logicalType": "date"})
    later["fields"][1]["default"] = None
    two = registry.register(f"{topic}-later", later, {"name": "place", "subject": f"{topic}-place", "version": 1})
    whole = json.loads(json.dumps(later))
    whole["fields"][1]["type"] = ["null", PLACE]
    old = {"id": 1, "at": AT, "price": Decimal("9.90"), "who": WHO}
    new = {"id": 3, "place": {"lat": 1.5, "lon": -2.0}, "day": datetime.date(2026, 5, 6)}
    broker.send(topic, [written(one, FIRST, old), written(one, FIRST, old | {"id": 2, "price": None})])
    broker.send(topic, [written(two, whole, new), b'{"id": 7}', written(9999, FIRST, old)], partition=1)
    db.sql(
        "CREATE SOURCE s (id BIGINT, at TIMESTAMPTZ, price NUMERIC(10, 2), who VARCHAR, day DATE, place STRUCT<lat"
        " DOUBLE PRECISION, lon DOUBLE PRECISION>) "
        + given(broker, registry, topic, more=", bad.records = 'dead_letter'")
    )
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT id, at, price, who, day, (place).lat AS lat FROM s")
    broker.send(topic, [written(one, FIRST, old | {"id": 4})] * 100)
    eventually(lambda: len(rows(db, "SELECT id FROM m")) == 103)
    assert sorted(db.sql("SELECT * FROM m WHERE id < 4").rows()) == [
        (1, AT, Decimal("9.90"), WHO, None, None), (2, AT, None, WHO, None, None),
        (3, None, None, None, datetime.date(2026, 5, 6), 1.5),
    ]  # fmt: skip
    assert rows(db, 'SELECT "offset", reason FROM s_dead_letters') == [
        (1, "it does not begin with the number of a schema"), (2, "the registry has no schema 9999"),
    ]  # fmt: skip
    # Who asks for a schema keeps it: there are a few processes, and many events.
    assert sum(path == f"/schemas/ids/{one}" for path in registry.asked) < 10
    shown = [*db.sql("SHOW CREATE SOURCE s").rows(), *db.sql("SHOW SOURCES").rows(), *db.sql("DESCRIBE s").rows()]
    assert PASSWORD not in f"{shown}{db.engine.committed.offsets}"


def test_changes_of_rows_and_their_keys(db, broker, registry, secret):
    upserts, envelopes = broker.topic(), broker.topic()
    key, row = record("k", id="long"), record("users", id="long", name=["null", "string"])
    of_key, of_row = registry.register(f"{upserts}-key", key), registry.register(f"{upserts}-value", row)
    producer = broker.producer()
    for id, name in ((1, "a"), (2, "b"), (1, "c"), (2, None), (3, "d")):
        value = None if name is None else written(of_row, row, {"id": id, "name": name})
        producer.produce(upserts, value, key=written(of_key, key, {"id": id}), partition=0)
    db.sql(f"CREATE TABLE u (id BIGINT PRIMARY KEY, name VARCHAR) {given(broker, registry, upserts, 'UPSERT')}")
    # As Debezium's converter writes them: what is a time is said in a way of its own.
    micros = {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTimestamp"}
    value = record("Value", id="long", at=micros)
    envelope = record("Envelope", before=["null", value], after=["null", "Value"], op="string", ts_ms=["null", "long"])
    number = registry.register(f"{envelopes}-value", envelope)
    moment = AT.replace(tzinfo=None)

    def change(op: str, before: int | None, after: int | None) -> bytes:
        sides = [None if id is None else {"id": id, "at": moment} for id in (before, after)]
        return written(number, envelope, {"before": sides[0], "after": sides[1], "op": op, "ts_ms": 5})

    broker.send(envelopes, [change("r", None, 1), change("c", None, 2), change("u", 1, 1), change("d", 2, None), None])
    db.sql(f"CREATE TABLE d (id BIGINT PRIMARY KEY, at TIMESTAMP) {given(broker, registry, envelopes, 'DEBEZIUM')}")
    producer.flush(60)
    eventually(lambda: rows(db, "SELECT * FROM u") == [(1, "c"), (3, "d")])
    eventually(lambda: rows(db, "SELECT * FROM d") == [(1, moment)])


def test_a_registry_that_does_not_answer_is_waited_for(db, broker, registry, secret):
    topic = broker.topic()
    schema, later = record("e", id="long"), record("f", id="long")
    one = registry.register(f"{topic}-value", schema)
    two = registry.register(f"{topic}-later", later)
    create = f"CREATE SOURCE s (id BIGINT) {given(broker, registry, topic)}"
    registry.down = True
    with pytest.raises(SourceUnreachable, match="registry of schemas at .* answers 503"):
        db.sql(create)
    registry.down = False
    db.sql(create)
    broker.send(topic, [written(one, schema, {"id": 1})])
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT id FROM s")
    registry.down = True
    broker.send(topic, [written(two, later, {"id": 2})])
    eventually(lambda: "answers 503" in str(db.engine.sources.status()[0]["error"]))
    assert rows(db, "SELECT * FROM m") == [(1,)]
    registry.down = False
    eventually(lambda: rows(db, "SELECT * FROM m") == [(1,), (2,)])
    assert db.engine.sources.status()[0]["error"] is None


def test_what_is_refused(db, broker, registry, secret):
    right = f"CREATE SOURCE s (id BIGINT) {given(broker, registry, broker.topic())}"
    db.sql("CREATE SECRET wrong AS 'n0t-it'")
    with pytest.raises(SourceRefused, match="does not let us in") as refused:
        db.sql(right.replace("of_registry", "wrong"))
    assert "n0t-it" not in str(refused.value)
    with pytest.raises(SourceRefused, match="there is no registry of schemas at"):
        db.sql(right.replace(registry.url, f"{registry.url}/nowhere"))
    host = urllib.parse.urlsplit(registry.url).netloc
    for old, new, error in (
        (registry.url, f"http://me:pw@{host}", InvalidParameterValue),
        (registry.url, f"ftp://{host}", InvalidParameterValue),
        ("SECRET of_registry", "'in the clear'", InvalidParameterValue),
        (f"schema.registry.username = '{USER}', ", "", InvalidParameterValue),
        (f"schema.registry = '{registry.url}', ", "", InvalidDefinition),
        ("schema.registry.username", "schema.registry.nickname", InvalidDefinition),
    ):
        assert old in right
        with pytest.raises(error):
            db.sql(right.replace(old, new))
    assert not db.sql("SHOW SOURCES").rows()
