"""Records of Avro's to columns."""

from __future__ import annotations

import datetime
import io
import json
import socketserver
import sys
import threading
import uuid
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from headrace.cdc.problems import SourceUnreachable
from headrace.errors import EnvironmentProblem, InvalidDefinition
from headrace.sources import avro, kafka, registry
from headrace.sources.decoding import decode
from headrace.sources.definition import Definition
from headrace.types import SqlType, array_of, map_of

MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=datetime.UTC)

FIELDS: dict[str, tuple[Any, SqlType, Any]] = {
    "i": ("int", SqlType("integer"), -5),
    "l": ("long", SqlType("bigint"), 1 << 40),
    "s": ("string", SqlType("varchar"), "ä"),
    "d": ("double", SqlType("double precision"), 1.5),
    "b": ("boolean", SqlType("boolean"), True),
    "raw": ("bytes", SqlType("bytea"), b"\0\xff"),
    "u": (["null", "long"], SqlType("bigint"), None),
    "day": ({"type": "int", "logicalType": "date"}, SqlType("date"), datetime.date(2026, 1, 2)),
    "t": ({"type": "long", "logicalType": "timestamp-micros"}, SqlType("timestamptz"), MOMENT),
    "p": (
        {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        SqlType("numeric", precision=10, scale=2),
        Decimal("12.34"),
    ),
    "e": ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, SqlType("varchar"), "B"),
    "a": ({"type": "array", "items": "long"}, array_of(SqlType("bigint")), [1, 2]),
    "r": (
        {"type": "record", "name": "inner", "fields": [{"name": "x", "type": "float"}]},
        SqlType("struct", fields=(("x", SqlType("real")),)),
        {"x": 0.5},
    ),
}
SCHEMA = {"type": "record", "name": "r0", "fields": [{"name": name, "type": each[0]} for name, each in FIELDS.items()]}
RECORDS = avro.OneSchema(json.dumps(SCHEMA))


def definition(**kinds: SqlType) -> Definition:
    columns = tuple((kinds or {name: each[1] for name, each in FIELDS.items()}).items())
    return Definition(
        connector="kafka", columns=columns, encode="avro", encode_options=(("schema", json.dumps(SCHEMA)),)
    )


def written() -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, SCHEMA, {name: each[2] for name, each in FIELDS.items()})
    return sink.getvalue()


def test_all_kinds_of_values():
    columns, faults = decode(definition(), [written(), written()], RECORDS)
    assert not faults
    assert {name: column.to_pylist() for name, column in columns.items()} == {
        name: [each[2]] * 2 for name, each in FIELDS.items()
    }


NESTED = {
    "at": ({"type": "int", "logicalType": "time-millis"}, datetime.time(1, 2, 3)),
    "o": (
        {"type": "record", "name": "o", "fields": [
            {"name": "u", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "at", "type": {"type": "long", "logicalType": "time-micros"}},
            {"name": "x", "type": "double"}, {"name": "raw", "type": "bytes"},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        ]},
        {"u": uuid.UUID(int=7), "at": datetime.time(4), "x": 1e-7, "raw": b"hi", "day": datetime.date(2026, 1, 2)},
    ),
    "m": ({"type": "map", "values": "double"}, {"a": 1.5}),
}  # fmt: skip
OF_NESTED = (
    '{"at":"04:00:00","day":"2026-01-02","raw":"\\\\x6869","u":"00000000-0000-0000-0000-000000000007","x":0.0000001}'
)


@pytest.mark.parametrize(
    ("field", "kind", "value"),
    [
        ("at", SqlType("varchar"), "01:02:03"), ("at", SqlType("bigint"), None), ("at", SqlType("jsonb"), '"01:02:03"'),
        ("o", SqlType("jsonb"), OF_NESTED), ("o", SqlType("varchar"), OF_NESTED),
        ("m", map_of(SqlType("varchar"), SqlType("double precision")), [("a", 1.5)]),
    ],
)  # fmt: skip
def test_values_that_json_does_not_have(field, kind, value):
    """None: it is a bad event, and no more than that."""
    schema = {"type": "record", "name": "r1", "fields": [{"name": field, "type": NESTED[field][0]}]}
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, schema, {field: NESTED[field][1]})
    columns, faults = decode(definition(**{field: kind}), [sink.getvalue()], avro.OneSchema(json.dumps(schema)))
    assert columns[field].to_pylist() == ([] if value is None else [value]) and len(faults) == (value is None)


@pytest.mark.parametrize(
    ("value", "kinds", "reason"),
    [
        (None, {}, "it has no content"),
        (b"\0\0\0\0\1" + written(), {}, "its record ends "),
        (written()[:20], {}, "it is not a record of the schema"),
        (written() + b"x", {}, "its record ends 1 bytes before it does"),
        (written(), {"l": SqlType("integer")}, 'column "l": 1099511627776 is not a value of type integer'),
        (written(), {"raw": SqlType("varchar")}, 'column "raw": '),
        (written(), {"t": SqlType("bigint")}, 'column "t": '),
        (written(), {"d": SqlType("integer")}, 'column "d": 1.5 is not a value of type integer'),
    ],
)
def test_what_does_not_fit_is_named(value, kinds, reason):
    _, (fault,) = decode(definition(**kinds), [value], RECORDS)
    assert fault.reason.startswith(reason)


def test_a_number_too_large_for_its_column_is_not_infinite():
    schema = {"type": "record", "name": "r2", "fields": [{"name": "d", "type": "double"}]}
    values = []
    for number in (1.5, 1e300, float("inf")):
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, schema, {"d": number})
        values.append(sink.getvalue())
    columns, faults = decode(definition(d=SqlType("real")), values, avro.OneSchema(json.dumps(schema)))
    assert columns["d"].to_pylist() == [1.5, float("inf")] and [fault.at for fault in faults] == [1]


@pytest.mark.parametrize(
    ("package", "ask"), [("fastavro", avro.library), ("confluent_kafka", kafka._client)], ids=["avro", "kafka"]
)
def test_a_package_that_is_missing_is_named(package, ask, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(EnvironmentProblem, match=package.replace("_", "-")) as problem:
        ask()
    assert "pip install" in problem.value.hint


def test_a_package_that_is_missing_where_a_task_runs_makes_no_event_bad(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(EnvironmentProblem, match="fastavro"):
        avro.read_value(written(), SCHEMA)


class Answers(socketserver.StreamRequestHandler):
    """To whatever is asked."""

    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        self.wfile.write(self.server.answer)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"sche', "cannot be reached"), (b"what?\r\n\r\n", "cannot be"),
        (b"", "cannot be reached"), (b"HTTP/1.1 200 OK\r\n\r\n<html>", "cannot be reached"),
        (b"HTTP/1.1 200 OK\r\n\r\n[]", "something else"), (b'HTTP/1.1 200 OK\r\n\r\n{"id": 1}', "something else"),
    ],
)  # fmt: skip
def test_a_registry_that_answers_with_half_of_it_or_something_else_makes_no_event_bad(answer, said):
    with socketserver.TCPServer(("127.0.0.1", 0), Answers) as server:
        server.answer = answer
        threading.Thread(target=server.handle_request, daemon=True).start()
        asked = registry.Registry(url=f"http://127.0.0.1:{server.server_address[1]}")
        with pytest.raises(SourceUnreachable, match=said):
            decode(definition(), [b"\0\0\0\0\1x"], asked)


def test_a_field_that_the_schema_lacks_is_null():
    columns, _ = decode(definition(absent=SqlType("integer"), i=SqlType("bigint")), [written()], RECORDS)
    assert (columns["absent"].to_pylist(), columns["i"].to_pylist()) == ([None], [-5])


@pytest.mark.parametrize("schema", [None, "{", '"long"', '{"type": "record"}'])
def test_schemas_that_are_none_are_refused(schema):
    options = () if schema is None else (("schema", schema),)
    with pytest.raises(InvalidDefinition):
        avro.check(Definition(connector="kafka", columns=(), encode="avro", encode_options=options))
