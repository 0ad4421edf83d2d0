"""The decoder, against messages that are put together here byte by byte, and against every way to cut them short."""

from __future__ import annotations

import random
import struct

import pytest

from headrace.cdc.changelog import UNCHANGED
from headrace.cdc.postgres.pgoutput import (
    POSTGRES_EPOCH,
    Begin,
    Commit,
    Decoder,
    LogColumn,
    LogRelation,
    MalformedLog,
    RowChange,
    Truncated,
)


def relation_message(oid, schema, name, identity, columns):
    data = b"R" + struct.pack(">I", oid) + schema.encode() + b"\0" + name.encode() + b"\0" + identity.encode()
    data += struct.pack(">H", len(columns))
    for column, type_oid, modifier, key in columns:
        data += bytes([key]) + column.encode() + b"\0" + struct.pack(">Ii", type_oid, modifier)
    return data


def row(values):
    data = struct.pack(">H", len(values))
    for value in values:
        if value is None:
            data += b"n"
        elif value is UNCHANGED:
            data += b"u"
        else:
            encoded = value.encode()
            data += b"t" + struct.pack(">I", len(encoded)) + encoded
    return data


ITEMS = LogRelation(
    oid=7, schema="public", name='odd "näme"', identity="d",
    columns=(LogColumn("id", 20, -1, True), LogColumn("a.b", 25, 12, False)),
)  # fmt: skip
DESCRIBED = relation_message(7, "public", ITEMS.name, "d", [("id", 20, -1, 1), ("a.b", 25, 12, 0)])


def decoder():
    found = Decoder()
    assert found.decode(DESCRIBED) == ITEMS
    return found


def test_begin_and_commit():
    begin = b"B" + struct.pack(">QqI", 99, 5, 4_000_000_000)
    assert Decoder().decode(begin) == Begin(99, POSTGRES_EPOCH + 5, 4_000_000_000)
    assert Decoder().decode(b"C" + struct.pack(">BQQq", 0, 99, 120, 5)) == Commit(99, 120)


def test_rows():
    oid = struct.pack(">I", 7)
    new = ("5", None)
    assert decoder().decode(b"I" + oid + b"N" + row(new)) == RowChange(ITEMS, "I", None, new)
    old, new = ("5", None), ("6", UNCHANGED)
    assert decoder().decode(b"U" + oid + b"K" + row(old) + b"N" + row(new)) == RowChange(ITEMS, "U", old, new)
    assert decoder().decode(b"U" + oid + b"N" + row(new)) == RowChange(ITEMS, "U", None, new)
    assert decoder().decode(b"D" + oid + b"O" + row(("5", "x\0"))) == RowChange(ITEMS, "D", ("5", "x\0"), None)
    assert decoder().decode(b"T" + struct.pack(">IB", 1, 0) + oid) == Truncated((ITEMS,))


def test_a_relation_is_what_it_was_described_as_last():
    found = decoder()
    found.decode(relation_message(7, "", "renamed", "f", [("id", 20, -1, 1)]))
    change = found.decode(b"I" + struct.pack(">I", 7) + b"N" + row(("1",)))
    assert (change.relation.schema, change.relation.name, change.relation.identity) == ("pg_catalog", "renamed", "f")


def test_what_says_nothing_about_rows():
    assert [decoder().decode(kind + b"whatever") for kind in (b"O", b"Y", b"M")] == [None] * 3


def test_what_is_not_known_is_an_error():
    oid = struct.pack(">I", 7)
    for bad in (
        b"", b"S", b"I" + struct.pack(">I", 8) + b"N" + row(("1", None)), b"I" + oid + b"K" + row(("1", None)),
        b"D" + oid + b"N" + row(("1", None)), b"I" + oid + b"N" + row(("1",)),
        b"I" + oid + b"N" + row(("1", None)) + b"x", b"I" + oid + b"N" + struct.pack(">H", 2) + b"nb",
    ):  # fmt: skip
        with pytest.raises(MalformedLog):
            decoder().decode(bad)


@pytest.mark.parametrize("seed", range(20))
def test_any_row_comes_back_and_none_that_is_cut_short(seed):
    random.seed(seed)
    letters = "aé漢'\"\\\0\n𝄞 "
    values = [
        random.choice([None, UNCHANGED, "".join(random.choices(letters, k=random.randrange(30)))]) for _ in range(2)
    ]
    message = b"U" + struct.pack(">I", 7) + b"N" + row(values)
    assert decoder().decode(message).new == tuple(values)
    for end in range(1, len(message)):
        with pytest.raises(MalformedLog):
            decoder().decode(message[:end])
