"""UUIDs: which texts are some, and that all of their spellings become one."""

from __future__ import annotations

import random
import re
from uuid import UUID

import pyarrow as pa
import pytest

from headrace import uuids
from headrace.arrow_values import as_stored
from headrace.catalog import Column, KeyColumn
from headrace.cdc.postgres.types import SourceType, checked, natural
from headrace.errors import DataError, HeadraceError, InvalidDefinition, TypeMismatch, UndefinedFunction
from headrace.operators.vectorize import vectorized_expression
from headrace.sources import avro, decoding
from headrace.sources.definition import Definition
from headrace.sources.values import NotThis, json_value
from headrace.sql.aggregates import AggregateCall, aggregate
from headrace.sql.bind import bind_expression
from headrace.sql.casts import _UUID, cast
from headrace.sql.dialect import parse_expression
from headrace.sql.expressions import Expressions
from headrace.sql.literals import constant
from headrace.sql.operators import compare
from headrace.sql.typed import TEXT, Typed
from headrace.sql.typed import UUID as KIND
from headrace.state.keys import KeyCodec
from headrace.state.vnode import vnode_of
from headrace.types import SqlType, array_of

ONE = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
SPELLINGS = (
    ONE, ONE.upper(), f"{{{ONE}}}", ONE.replace("-", ""), "a0eebc999c0b4ef8bb6d6bb9bd380a11",
    "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}", "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
)  # fmt: skip
NONE = (
    "", "x", f" {ONE}", f"{ONE} ", f"{{{ONE}", f"{ONE}}}", f"{ONE}-", f"-{ONE}", "a0-eebc999c0b4ef8bb6d6bb9bd380a11",
    ONE[:-1], ONE + "0", ONE.replace("a", "g"), ONE.replace("-", "--"), f"{ONE}\n", "urn:uuid:" + ONE,
)  # fmt: skip


@pytest.mark.parametrize("text", SPELLINGS)
def test_all_spellings_are_one(text):
    assert uuids.parse_uuid(text) == ONE
    assert re.search(_java(_UUID), text)


@pytest.mark.parametrize("text", NONE)
def test_others_are_none(text):
    with pytest.raises(DataError, match="invalid input syntax for type uuid: ") as caught:
        uuids.parse_uuid(text)
    assert caught.value.sqlstate == "22P02"
    assert not re.search(_java(_UUID), text)


def _java(pattern: str) -> str:
    """What Spark's string constant says, as Python has it."""
    return pattern.strip("'").replace("\\\\", "\\").replace(r"\z", r"\Z")


def test_constants():
    assert constant(parse_expression(f"'{{{ONE.upper()}}}'"), KIND) == ONE
    assert constant(parse_expression(f"CAST('{ONE.upper()}' AS uuid)"), KIND) == ONE
    assert constant(parse_expression(f"CAST('{ONE.upper()}' AS uuid)"), TEXT) == ONE  # what a driver sends
    assert cast(Typed("NULL", None, literal=ONE.upper()), KIND).sql == f"'{ONE}'"
    with pytest.raises(DataError):
        cast(Typed("NULL", None, literal="x"), KIND)


def test_what_it_is_not_converted_to():
    value = Typed("`u`", KIND)
    assert cast(value, TEXT).sql == "`u`"
    for other in ("integer", "bytea", "jsonb", "date"):
        with pytest.raises(TypeMismatch, match="cannot cast type uuid"):
            cast(value, SqlType(other))
    with pytest.raises(HeadraceError, match="operator does not exist: uuid = varchar"):
        compare("=", value, Typed("`t`", TEXT))
    for name in ("min", "max", "sum"):
        with pytest.raises(UndefinedFunction, match=rf"function {name}\(uuid\) does not exist"):
            aggregate(name, AggregateCall(args=[value]))


def test_random_ones_are_uuids():
    assert Expressions(qualified=False).value(bind_expression(parse_expression("gen_random_uuid()"), ())).type == KIND


def test_keys_sort_as_uuids_do():
    chance = random.Random(4)
    drawn = [UUID(int=chance.getrandbits(128)) for _ in range(200)]
    codec = KeyCodec([(KIND, KeyColumn(name="u"))])
    encoded = [codec.encode((str(each),)) for each in drawn]
    assert [each for _, each in sorted(zip(encoded, drawn, strict=True))] == sorted(drawn)
    assert codec.decode(encoded[0]) == (str(drawn[0]),)
    assert len({vnode_of([str(each)], [KIND]) for each in drawn}) > 50


def test_arrow():
    exact = [UUID(ONE), None, UUID(int=0)]
    wanted = [None if each is None else str(each) for each in exact]
    stored = [None if each is None else each.bytes for each in exact]
    given = (
        pa.array(stored, pa.binary(16)), pa.array(stored, pa.uuid()), pa.array(wanted),
        pa.array(wanted, pa.large_string()),
        pa.array([None if each is None else each.upper() for each in wanted]), pa.array(wanted).dictionary_encode(),
    )  # fmt: skip
    for each in given:
        assert as_stored(each, KIND).to_pylist() == wanted
        assert as_stored(pa.chunked_array([each, each[:1]]), KIND).to_pylist() == [*wanted, ONE]
    assert as_stored(pa.nulls(2), KIND).to_pylist() == [None, None]
    kind = array_of(KIND)
    assert as_stored(pa.array([[ONE.upper(), None], None]), kind).to_pylist() == [[ONE, None], None]
    inner = SqlType("struct", fields=(("id", KIND), ("n", SqlType("integer"))))
    assert as_stored(pa.array([{"id": f"{{{ONE}}}", "n": 1}, None]), inner).to_pylist() == [{"id": ONE, "n": 1}, None]
    with pytest.raises(DataError, match="invalid input syntax for type uuid"):
        as_stored(pa.array([ONE, "x"]), KIND)
    with pytest.raises(pa.ArrowInvalid):
        as_stored(pa.array([b"x" * 5, b"\xff"]), KIND)


def test_events():
    assert json_value(ONE.upper(), KIND) == ONE
    for wrong in ("x", 7, True):
        with pytest.raises(NotThis):
            json_value(wrong, KIND)
    assert avro.avro_value(UUID(ONE), KIND) == avro.avro_value(ONE.upper(), KIND) == ONE
    assert avro.avro_value(UUID(ONE), TEXT) == ONE
    for encode, contents in (
        ("json", [f'{{"u": "{ONE}"}}', f'{{"u": "{ONE.upper()}"}}', '{"u": "x"}', '{"u": null}']),
        ("csv", [ONE, f"{{{ONE}}}", "x", ""]),
    ):
        definition = Definition(connector="kafka", encode=encode, columns=(("u", KIND),))
        for chosen in (contents, contents[:1]):  # a block with a fault in it, and one that Arrow reads at once
            values = [each.encode() for each in chosen if each]
            columns, faults = decoding.decode(definition, values)
            found = columns["u"].to_pylist()
            assert found[: len(chosen[:2])] == [ONE] * len(chosen[:2])
            assert len(found) + len(faults) == len(values)
            assert [fault.reason for fault in faults] == (
                ['column "u": invalid input syntax for type uuid: "x"'] if len(chosen) > 1 else []
            )


def test_a_column_of_postgresqls():
    """It has been text, and still is unless it is asked for."""
    column, several = (
        SourceType(name="uuid", schema="pg_catalog", text="uuid"),
        SourceType(name="_uuid", schema="pg_catalog", text="uuid[]"),
    )
    assert natural(column, "u") == TEXT and natural(several, "u") == array_of(TEXT)
    assert checked(column, KIND, "u") == KIND and checked(several, array_of(KIND), "u") == array_of(KIND)
    assert checked(column, TEXT, "u") == TEXT
    with pytest.raises(InvalidDefinition, match="cannot be had as integer") as caught:
        checked(column, SqlType("integer"), "u")
    assert caught.value.hint == "use uuid or varchar"
    with pytest.raises(InvalidDefinition):
        checked(SourceType(name="text", schema="pg_catalog", text="text"), KIND, "u")


def test_arrow_evaluates_what_is_certain():
    """Comparisons, and the text of it; whether a text is one is Spark's to say."""

    columns = [Column(name="u", type=KIND), Column(name="t", type=TEXT)]

    def evaluated(text: str):
        return vectorized_expression(bind_expression(parse_expression(text), columns, "r"))

    rows = pa.table({"u": [ONE, None, str(UUID(int=0))], "t": ["x", "y", ONE]})
    for text, wanted in (
        (f"u = '{ONE.upper()}'", [True, None, False]),
        (f"u < '{ONE}'", [False, None, True]),
        (f"u IN ('{ONE}', '{UUID(int=1)}')", [True, None, False]),
        ("CAST(u AS VARCHAR) = t", [False, None, False]),
        (f"coalesce(u, '{{{ONE}}}')", [ONE, ONE, str(UUID(int=0))]),
    ):
        assert evaluated(text).evaluate(rows).to_pylist() == wanted, text
    assert evaluated("CAST(t AS UUID)") is None
