"""Lookups in what is kept decoded, against all rows that are stored."""

from __future__ import annotations

import dataclasses
import datetime
import random
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.catalog import KeyColumn
from headrace.state import blocks, lookup, small_blocks
from headrace.state.keys import KeyCodec
from headrace.state.layout import LEFT_OUT, Layout
from headrace.state.lookup import IndexCache
from headrace.state.recent import RecentRows, beside
from headrace.state.runs import EPOCH, SIDECAR, VNODE, WEIGHT, GroupIndex, Run, RunFile
from headrace.state.small_blocks import KEY_BYTES, LongKeys
from headrace.state.storage import LocalStorage
from headrace.state.vnode import vnodes_of
from headrace.state.whole import newest_live
from headrace.types import SqlType

GROUP = 4
KEYS = [
    [("a", SqlType("bigint"), KeyColumn(name="a")), ("b", SqlType("integer"), KeyColumn(name="b", descending=True))],
    [("a", SqlType("numeric", precision=30, scale=2), KeyColumn(name="a", nulls_first=True))],
    [
        ("a", SqlType("double precision"), KeyColumn(name="a")),
        ("b", SqlType("date"), KeyColumn(name="b", nulls_first=True)),
    ],
    [
        ("a", SqlType("varchar"), KeyColumn(name="a", nulls_first=True)),
        ("b", SqlType("integer"), KeyColumn(name="b")),
        ("c", SqlType("varchar"), KeyColumn(name="c", descending=True)),
    ],
    [("a", SqlType("integer"), KeyColumn(name="a")), ("b", SqlType("bytea"), KeyColumn(name="b"))],
]


def _layout(key) -> Layout:
    columns = [(name, kind) for name, kind, _ in key]
    columns += [("note", SqlType("varchar")), ("price", SqlType("numeric", precision=10, scale=2))]
    return Layout(relation_id=7, columns=tuple(columns), pk=tuple(each for *_, each in key), distribution=("a",))


def _value(kind: SqlType, chance: random.Random):
    number = chance.choice([None, *range(-6, 7), 300])
    if number is None:
        return None
    if kind.name == "double precision":
        return chance.choice([number / 2, -0.0, 0.0, float("nan")])
    if kind.name in ("varchar", "bytea"):
        text = chance.choice(["", "a", "a\x00", "a\x00b", "b" * chance.choice([1, 9, 30]), str(number)])
        return text.encode() if kind.name == "bytea" else text
    if kind.name == "date":
        return datetime.date(2000, 1, 1) + datetime.timedelta(days=number)
    if kind.name == "numeric":
        return Decimal(number) * 10**20 if chance.random() < 0.2 else Decimal(number)
    return number


class Stored:
    """Files of small row groups, and all that was ever in them."""

    def __init__(self, folder, layout: Layout):
        self.storage, self.layout = LocalStorage(folder), layout
        self.files: list[RunFile] = []
        self.rows = [layout.stored_schema.empty_table()]
        self.indexes = IndexCache(self.storage)

    def write(self, rows: pa.Table, weights: list[int], epoch: int, leave_out: bool = False) -> None:
        layout = self.layout
        kinds = [layout.types[name] for name in layout.distribution]
        rows = rows.append_column(VNODE, pa.array(vnodes_of(rows, layout.distribution, kinds), pa.int16()))
        rows = rows.append_column(EPOCH, pa.array([epoch] * len(weights), pa.int64()))
        rows = rows.append_column(WEIGHT, pa.array(weights, pa.int8()))
        keys = layout.encode(rows)
        order = sorted(range(len(keys)), key=lambda at: (keys[at], weights[at]))
        rows, keys = rows.take(pa.array(order)), [keys[at] for at in order]
        self.rows.append(rows)
        path, sink = f"data/7/{epoch}.parquet", pa.BufferOutputStream()
        pq.write_table(rows.drop_columns(list(LEFT_OUT)) if leave_out else rows, sink, row_group_size=GROUP)
        self.storage.write(path, sink.getvalue().to_pybytes())
        parts = [keys[at : at + GROUP] for at in range(0, len(keys), GROUP)]
        self.storage.write(
            f"{path}{SIDECAR}", GroupIndex(tuple((part[0], part[-1], len(part)) for part in parts)).to_bytes()
        )
        self.files.append(
            RunFile(
                path=path,
                rows=len(keys),
                bytes=1,
                low=keys[0],
                high=keys[-1],
                groups=len(parts),
                retractions=sum(weight < 0 for weight in weights),
            )
        )

    def find(self, keys: list[bytes], names: list[str], **more) -> pa.Table | None:
        wanted = keys
        if self.layout.codec.width is not None:
            wanted = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), -1)
        return blocks.find(self.storage.files, self.layout, self.files, wanted, names, self.indexes, **more)


def _fill(stored: Stored, key, chance: random.Random) -> None:
    layout, alive = stored.layout, {}
    for epoch in range(6):
        rows, weights, seen = [], [], set()
        for _ in range(60 if epoch == 0 else 12):
            row = [_value(kind, chance) for _, kind, _ in key]
            row += [chance.choice([None, "x", "yy"]), Decimal(chance.randrange(99))]
            code = layout.codec.encode(row)
            if code in seen:
                continue
            seen.add(code)
            if code in alive:
                rows.append(alive.pop(code))
                weights.append(-1)
            if epoch == 0 or chance.random() < 0.7:
                alive[code] = row
                rows.append(row)
                weights.append(1)
        columns = [
            pa.array(values, field.type)
            for values, field in zip(zip(*rows, strict=True), layout.row_schema, strict=True)
        ]
        # As chunks of a backfill leave out what is the same in all of their rows.
        stored.write(pa.table(columns, names=layout.names), weights, epoch, leave_out=epoch == 0)


def _texts(rows: pa.Table) -> list[str]:
    return sorted(str(row) for row in rows.to_pylist())


@pytest.fixture(autouse=True)
def no_file_is_small(monkeypatch):
    monkeypatch.setattr(blocks, "SMALL_FILE_ROWS", 0)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("seed", range(9))
def test_the_same_rows_as_in_all_that_is_stored(tmp_path, monkeypatch, key, seed):
    monkeypatch.setattr(blocks, "BLOCKS", blocks.BlockCache())
    chance = random.Random(seed)
    # Never all of a file, or soon.
    monkeypatch.setattr(blocks, "MANY_GROUPS", (1, 8)[seed % 2])
    monkeypatch.setattr(blocks, "WHOLE_ROWS", (1 << 20, 20)[seed % 3 == 1])
    monkeypatch.setattr(blocks, "SMALL_FILE_ROWS", (0, 1000, 20)[seed % 3])
    monkeypatch.setattr(blocks, "GROUPS_AT_ONCE", (64, 2)[seed % 2])
    stored = Stored(tmp_path, _layout(key))
    _fill(stored, key, chance)
    layout = stored.layout
    everything = newest_live(layout, pa.concat_tables(stored.rows))
    for _ in range(8):  # first into nothing, then into what others have left
        # Whole keys, or their first column; some that are there, some that are not.
        firsts = KeyCodec([(kind, each) for _, kind, each in key[: len(key) if chance.random() < 0.5 else 1]])
        starts = firsts.encode_table(everything, firsts.names, vnodes=everything[VNODE].to_numpy())
        candidates = sorted({*starts, *(bytes([byte]) * len(starts[0]) for byte in (0, 255))})
        wanted = chance.sample(candidates, min(len(candidates), chance.randrange(1, 9)))
        names = chance.choice([["note"], ["price", "note"], []])
        found = stored.find([*wanted, wanted[0]], [*names, EPOCH, WEIGHT])
        expected = everything.filter(pa.array([start in wanted for start in starts]))
        shown = [*layout.key_names, *names, VNODE, EPOCH, WEIGHT]
        assert _texts(found.select(shown)) == _texts(expected.select(shown))
        assert found.schema == layout.stored_schema


@pytest.mark.parametrize("small", [0, 1000])
@pytest.mark.parametrize("recent", [True, False])
def test_columns_that_come_later_are_null_in_what_is_there(tmp_path, monkeypatch, small, recent):
    monkeypatch.setattr(blocks, "BLOCKS", blocks.BlockCache())
    monkeypatch.setattr(blocks, "SMALL_FILE_ROWS", small)
    monkeypatch.setattr(small_blocks, "RECENT", RecentRows())
    stored = Stored(tmp_path, _layout(KEYS[0]))
    _fill(stored, KEYS[0], random.Random(1))
    keys = stored.layout.encode(newest_live(stored.layout, pa.concat_tables(stored.rows)))
    for file, rows in zip(stored.files, stored.rows[1:], strict=True):
        if recent:
            small_blocks.RECENT.put((stored.storage.files.root, file.path), rows)
    for name in ("later", "much_later"):
        before = stored.find(keys, [EPOCH, WEIGHT, "note"])
        stored.layout = dataclasses.replace(stored.layout, columns=(*stored.layout.columns, (name, SqlType("varchar"))))
        after = stored.find(keys, [EPOCH, WEIGHT, "note", name])
        assert after.schema == stored.layout.stored_schema and after[name].null_count == after.num_rows
        assert _texts(after.select(before.schema.names)) == _texts(before)


def test_what_is_much_is_left_to_others(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCKS", blocks.BlockCache())
    stored = Stored(tmp_path, _layout(KEYS[0]))
    _fill(stored, KEYS[0], random.Random(1))
    keys = stored.layout.encode(newest_live(stored.layout, pa.concat_tables(stored.rows)))
    assert stored.find(keys, [EPOCH, WEIGHT], most=10) is None
    assert blocks.BLOCKS.bytes == blocks.BLOCKS.files * beside(0)
    assert stored.find(keys, [EPOCH, WEIGHT]).num_rows == len(keys)
    nothing = np.empty((0, stored.layout.codec.width), np.uint8)
    files = stored.storage.files
    assert blocks.find(files, stored.layout, stored.files, nothing, [EPOCH], stored.indexes).num_rows == 0


def test_what_is_kept_is_bounded(tmp_path, monkeypatch):
    stored = Stored(tmp_path, _layout(KEYS[0]))
    _fill(stored, KEYS[0], random.Random(2))
    live = newest_live(stored.layout, pa.concat_tables(stored.rows))
    keys = stored.layout.encode(live)
    for limit in (0, 40_000, 1_000_000):
        monkeypatch.setattr(blocks, "BLOCKS", blocks.BlockCache(limit))
        for _ in range(2):
            assert stored.find(keys, [EPOCH, WEIGHT, "note"]).num_rows == len(keys)
            assert blocks.BLOCKS.bytes <= limit
        assert (limit == 0) == (blocks.BLOCKS.bytes == 0)


@pytest.mark.parametrize("small", [0, 1000])
def test_what_was_merged_away_is_forgotten(tmp_path, monkeypatch, small):
    """Each epoch writes a file and merges all others, as it is with small writes that never end."""
    monkeypatch.setattr(blocks, "SMALL_FILE_ROWS", small)
    monkeypatch.setattr(blocks, "BLOCKS", blocks.BlockCache())
    layout = _layout([("a", SqlType("bigint"), KeyColumn(name="a"))])
    stored = Stored(tmp_path, layout)
    most, few = 0, 4
    for epoch in range(3 * blocks.LOOKED_UP_WITHOUT):
        row = {"a": [epoch], "note": ["x"], "price": [Decimal(1)]}
        stored.write(pa.table(row, schema=layout.row_schema), [1], epoch)
        stored.rows, stored.files = stored.rows[-few:], stored.files[-few:]
        keys = layout.encode(pa.concat_tables(stored.rows))
        assert stored.find(keys, [EPOCH, WEIGHT, "note"]).num_rows == len(keys)
        most = max(most, blocks.BLOCKS.files)
    assert most <= blocks.LOOKED_UP_WITHOUT + few + 1
    assert blocks.BLOCKS.bytes == sum(stored_bytes(blocks.BLOCKS))


def stored_bytes(cache: blocks.BlockCache) -> list[int]:
    return [held.blocks.bytes for relation in cache._held.values() for held in relation.files.values()]


def test_a_lookup_of_some_files_forgets_none(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCKS", blocks.BlockCache())
    stored = Stored(tmp_path, _layout(KEYS[0]))
    _fill(stored, KEYS[0], random.Random(4))
    keys = stored.layout.encode(newest_live(stored.layout, pa.concat_tables(stored.rows)))
    stored.find(keys, [EPOCH])
    there = blocks.BLOCKS.files
    assert there == len(stored.files)
    for _ in range(2 * blocks.LOOKED_UP_WITHOUT):
        assert stored.find(keys, [EPOCH], most=1) is None
    assert blocks.BLOCKS.files == there


def test_who_may_be_kept(tmp_path):
    layout, cache = _layout(KEYS[0]), blocks.BlockCache(5_000)
    storage = LocalStorage(tmp_path)
    indexes = IndexCache(storage)
    file = RunFile(path="f", rows=50, bytes=1, low=b"", high=b"", groups=1)
    assert cache.fits(storage.files, layout, [file], ["price"], indexes)
    assert not cache.fits(storage.files, layout, [file] * 5, ["price", "note"], indexes)
    text = KeyColumn(name="note")
    of_texts = Layout(relation_id=7, columns=layout.columns, pk=(text,), distribution=("note",))
    few = dataclasses.replace(file, rows=10)
    assert cache.fits(storage.files, of_texts, [few], [], indexes)
    cache.refuse(storage.files, of_texts)
    assert not cache.fits(storage.files, of_texts, [few], [], indexes)


def test_what_takes_more_than_was_thought_is_not_kept(tmp_path, monkeypatch):
    cache = blocks.BlockCache(400 * 100)
    monkeypatch.setattr(blocks, "BLOCKS", cache)
    layout = _layout([("a", SqlType("bigint"), KeyColumn(name="a"))])
    stored = Stored(tmp_path, layout)
    columns = [
        pa.array(range(400), pa.int64()),
        pa.array([f"{at:500}" for at in range(400)]),
        pa.array([Decimal(1)] * 400, pa.decimal128(10, 2)),
    ]
    rows = pa.table(columns, names=layout.names)
    stored.write(rows, [1] * 400, 1)
    files, asked = stored.storage.files, ["note", "price"]
    assert cache.fits(files, layout, stored.files, asked, stored.indexes)
    keys = layout.encode(stored.rows[-1])
    assert stored.find(keys, [*asked, EPOCH]).num_rows == 400
    assert cache.bytes <= 400 * 100
    assert not cache.fits(files, layout, stored.files, asked, stored.indexes)
    assert cache.fits(files, layout, stored.files, ["price"], stored.indexes)


@pytest.mark.parametrize("small", [0, 1000])
@pytest.mark.parametrize("at_the_end", [False, True])
def test_long_keys_are_not_kept(tmp_path, monkeypatch, at_the_end, small):
    monkeypatch.setattr(blocks, "SMALL_FILE_ROWS", small)
    monkeypatch.setattr(blocks, "BLOCKS", blocks.BlockCache())
    key = [("a", SqlType("varchar"), KeyColumn(name="a"))]
    layout = Layout(relation_id=7, columns=(("a", SqlType("varchar")),), pk=(key[0][2],), distribution=())
    stored = Stored(tmp_path, layout)
    texts = [f"b{at}" for at in range(10)]
    texts[-1 if at_the_end else 5] = "z" * KEY_BYTES if at_the_end else "b5" + "x" * KEY_BYTES
    stored.write(pa.table({"a": texts}), [1] * 10, 1)
    files = stored.storage.files
    assert blocks.BLOCKS.fits(files, layout, stored.files, [], stored.indexes)
    with pytest.raises(LongKeys):
        stored.find([layout.codec.encode_with_vnode(0, [text]) for text in texts], [EPOCH, WEIGHT])
    assert not blocks.BLOCKS.fits(files, layout, stored.files, [], stored.indexes)


@pytest.mark.parametrize(("texts", "kept"), [(2, True), (400, False)])
def test_what_might_fit_is_measured(tmp_path, texts, kept):
    key = [("a", SqlType("bigint"), KeyColumn(name="a"))]
    layout = _layout(key)
    stored = Stored(tmp_path, layout)
    columns = [
        pa.array(range(400), pa.int64()),
        pa.array([f"something that has {at % texts:16}" for at in range(400)]),
        pa.array([Decimal(1)] * 400, pa.decimal128(10, 2)),
    ]
    stored.write(pa.table(columns, names=layout.names), [1] * 400, 1)
    cache = blocks.BlockCache(400 * 22)
    for _ in range(2):
        assert cache.fits(stored.storage.files, layout, stored.files, ["note", "price"], stored.indexes) == kept
    assert cache.bytes == 0


def test_what_is_not_kept_is_found_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCKS", blocks.BlockCache())
    monkeypatch.setattr(lookup, "BLOCKS", blocks.BLOCKS)
    columns = (("a", SqlType("varchar")), ("b", SqlType("bigint")))
    layout = Layout(relation_id=7, columns=columns, pk=(KeyColumn(name="a"),), distribution=())
    stored = Stored(tmp_path, layout)
    texts = [f"b{at}" + "x" * (at == 5) * KEY_BYTES for at in range(10)]
    stored.write(pa.table({"a": texts, "b": range(10)}), [1] * 10, 1)
    spark = SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]", defaultParallelism=2))
    files, runs = stored.storage.files, [Run(id="r", first_epoch=1, last_epoch=1, files=tuple(stored.files))]
    keys = pa.table({"a": [texts[5], texts[7], "b"]})
    for _ in range(2):
        found = lookup.starting_with(spark, files, layout, runs, keys, stored.indexes, most=100)
        assert sorted(found["b"].to_pylist()) == [5, 7]
        with_vnodes = keys.append_column(VNODE, pa.array([0, 0, 0], pa.int16()))
        found = lookup.lookup(spark, files, layout, runs, with_vnodes, stored.indexes)
        assert sorted(found["b"].to_pylist()) == [5, 7]
