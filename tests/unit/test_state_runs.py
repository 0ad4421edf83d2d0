from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import CorruptWarehouse
from headrace.state.runs import GroupIndex, Run, RunFile


def file(path: str = "f", *, low: bytes = b"a", high: bytes = b"b", **more) -> RunFile:
    return RunFile(**({"path": path, "rows": 10, "bytes": 100, "low": low, "high": high} | more))


def test_a_run_sums_up_its_files():
    run = Run(
        id="r",
        first_epoch=3,
        last_epoch=5,
        level=1,
        files=(file("x", low=b"c", high=b"d", retractions=2), file("y", low=b"a", high=b"\xff\0", groups=3)),
    )
    assert (run.rows, run.bytes, run.retractions, run.low, run.high) == (20, 200, 2, b"a", b"\xff\0")
    assert [each.sidecar for each in run.files] == [None, "y.index"]
    assert Run.from_json(json.loads(json.dumps(run.to_json()))) == run


def test_runs_overlap_where_they_may_share_a_key():
    def run(low: bytes, high: bytes) -> Run:
        return Run(id="r", first_epoch=1, last_epoch=1, files=(file(low=low, high=high),))

    assert run(b"a", b"c").overlaps(run(b"c", b"d"))
    assert not run(b"a", b"b").overlaps(run(b"c", b"d"))
    assert not Run(id="e", first_epoch=1, last_epoch=1).overlaps(run(b"", b"\xff"))


keys = st.binary(max_size=3)


@st.composite
def indexes(draw) -> GroupIndex:
    """Sorted bounds; a neighbour may start where the one before ended."""
    bounds = sorted(draw(st.lists(keys, max_size=12)))
    if len(bounds) % 2:
        bounds.pop()
    rows = st.integers(1, 1 << 31)
    return GroupIndex(tuple((low, high, draw(rows)) for low, high in zip(bounds[::2], bounds[1::2], strict=True)))


@given(indexes(), st.lists(keys, max_size=12))
def test_every_group_gets_exactly_the_keys_within_its_bounds(index, wanted):
    wanted.sort()
    expected = {}
    for number, (low, high, _) in enumerate(index.groups):
        if within := [key for key in wanted if low <= key <= high]:
            expected[number] = within
    found = index.overlapping(wanted)
    assert {number: wanted[start:stop] for number, (start, stop) in found.items()} == expected


@given(indexes())
def test_an_index_can_be_read_back(index):
    assert GroupIndex.from_bytes(index.to_bytes()) == index


@given(indexes(), st.data())
def test_a_damaged_index_is_noticed(index, data):
    good = index.to_bytes()
    at = data.draw(st.integers(0, len(good) - 1))
    flipped = good[:at] + bytes([good[at] ^ data.draw(st.integers(1, 255))]) + good[at + 1 :]
    for bad in (flipped, good[:at]):
        with pytest.raises(CorruptWarehouse, match="t/1.parquet.index"):
            GroupIndex.from_bytes(bad, "t/1.parquet.index")


def test_an_index_of_another_format_is_named():
    import zlib

    body = b"HRGI\x07" + bytes(4)
    with pytest.raises(CorruptWarehouse, match="format 1"):
        GroupIndex.from_bytes(body + zlib.crc32(body).to_bytes(4, "big"))
