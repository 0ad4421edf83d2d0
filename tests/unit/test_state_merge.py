from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.catalog import KeyColumn
from headrace.state.keys import KeyCodec
from headrace.state.merge import MergeStream, consolidate, equal, identical, merge_versions, same_as_previous
from headrace.state.runs import EPOCH, VNODE, WEIGHT
from tests.support.values import KEY_TYPES, maybe

INTERNAL = [(VNODE, pa.int16()), (EPOCH, pa.int64()), (WEIGHT, pa.int8())]
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string()), *INTERNAL])

Entry = tuple[int, str, int, int]
"""(k, v, epoch, weight)"""


def table(entries: list[Entry]) -> pa.Table:
    rows = [{"k": k, "v": v, VNODE: k % 3, EPOCH: epoch, WEIGHT: weight} for k, v, epoch, weight in entries]
    rows.sort(key=lambda row: (row[VNODE], row["k"], row[EPOCH], row[WEIGHT]))
    return pa.Table.from_pylist(rows, SCHEMA)


def entries(rows: pa.Table) -> list[Entry]:
    return [(row["k"], row["v"], row[EPOCH], row[WEIGHT]) for row in rows.to_pylist()]


# --- the example of the module's docstring and its neighbours --------------------------------------------------


def merged(*rows: tuple[str, int, int], bottom: bool = False) -> list[tuple[str, int, int]]:
    result = merge_versions(table([(1, value, epoch, weight) for value, epoch, weight in rows]), ["k"], bottom)
    return [(v, epoch, weight) for _, v, epoch, weight in entries(result)]


def test_the_oldest_retraction_and_the_newest_row_stay():
    assert merged(("a", 4, -1), ("b", 4, 1), ("b", 6, -1), ("c", 6, 1)) == [("a", 6, -1), ("c", 6, 1)]


def test_a_key_that_was_born_here_needs_no_retraction():
    assert merged(("a", 4, 1), ("a", 6, -1), ("b", 6, 1)) == [("b", 6, 1)]
    assert merged(("a", 4, 1), ("a", 6, -1)) == []


def test_a_deletion_keeps_killing_what_lies_below():
    assert merged(("a", 4, -1), ("b", 4, 1), ("b", 6, -1)) == [("a", 6, -1)]
    assert merged(("a", 4, -1)) == [("a", 4, -1)]


def test_deleted_and_inserted_again_in_a_later_epoch():
    assert merged(("a", 4, -1), ("b", 7, 1)) == [("a", 7, -1), ("b", 7, 1)]


def test_at_the_bottom_no_retraction_stays():
    assert merged(("a", 4, -1), ("b", 4, 1), bottom=True) == [("b", 4, 1)]
    assert merged(("a", 4, -1), bottom=True) == []


def test_the_schema_survives_even_without_rows():
    for rows in (SCHEMA.empty_table(), table([(1, "a", 4, 1), (1, "a", 5, -1)])):
        for bottom in (False, True):
            assert merge_versions(rows, ["k"], bottom).schema == SCHEMA
        assert consolidate(rows, ["k"]).schema == SCHEMA


# --- the model -------------------------------------------------------------------------------------------------

Step = dict[int, str | None]
"""One epoch: the new value of each key that is written; None deletes."""

steps = st.dictionaries(st.integers(0, 5), st.sampled_from(["a", "b", None]), max_size=4)


def delta(state: dict[int, str], step: Step, epoch: int) -> list[Entry]:
    changes = []
    for k, v in step.items():
        if k in state:
            changes.append((k, state[k], epoch, -1))
        if v is not None:
            changes.append((k, v, epoch, 1))
    return changes


def applied(state: dict[int, str], step: Step) -> dict[int, str]:
    return {k: v for k, v in (state | step).items() if v is not None}


def read(runs: list[pa.Table]) -> dict[int, str]:
    """By the merge rule alone, row by row."""
    rows = [entry for run in runs for entry in entries(run)]
    killed_at: dict[int, int] = {}
    for k, _, epoch, weight in rows:
        if weight < 0:
            killed_at[k] = max(epoch, killed_at.get(k, epoch))
    alive = [(k, v) for k, v, epoch, weight in rows if weight > 0 and not killed_at.get(k, epoch) > epoch]
    assert len(alive) == len(dict(alive)), "a key has two rows"
    return dict(alive)


@given(st.lists(steps, max_size=12), st.data())
def test_merging_any_neighbours_never_changes_what_is_read(history, data):
    runs: list[pa.Table] = []
    state: dict[int, str] = {}
    for epoch, step in enumerate(history, 1):
        runs.append(consolidate(table(delta(state, step, epoch)), ["k"]))
        state = applied(state, step)
        assert read(runs) == state
        if data.draw(st.booleans(), "merge now"):
            start = data.draw(st.integers(0, len(runs) - 1), "from")
            stop = data.draw(st.integers(start + 1, len(runs)), "to")
            both = table([entry for run in runs[start:stop] for entry in entries(run)])
            result = merge_versions(both, ["k"], start == 0)
            assert result.num_rows <= both.num_rows
            assert start > 0 or all(weight > 0 for *_, weight in entries(result))
            assert table(entries(result)) == result, "the result is not sorted"
            runs[start:stop] = [result]
            assert read(runs) == state
            # Counting rows needs no reading: every retraction takes one row away.
            assert sum(weight for run in runs for *_, weight in entries(run)) == len(state)


@given(
    st.lists(steps, max_size=8),
    st.sampled_from(["consolidate", "merge", "bottom"]),
    st.lists(st.integers(0, 40), max_size=8),
    st.booleans(),
)
def test_a_stream_gives_what_the_whole_gives(history, mode, cuts, as_batches):
    state: dict[int, str] = {}
    changes: list[Entry] = []
    for epoch, step in enumerate(history, 1):
        changes += delta(state, step, epoch)
        state = applied(state, step)
    whole = table(changes)
    expected = consolidate(whole, ["k"]) if mode == "consolidate" else merge_versions(whole, ["k"], mode == "bottom")

    stream = MergeStream(["k"], mode)
    edges = [0, *sorted(min(cut, whole.num_rows) for cut in cuts), whole.num_rows]
    pieces = []
    for start, stop in zip(edges, edges[1:], strict=False):
        part = whole.slice(start, stop - start)
        for each in part.to_batches() if as_batches else [part]:
            pieces += stream.push(each)
    pieces += stream.finish()
    assert all(piece.num_rows for piece in pieces)
    assert pa.concat_tables([SCHEMA.empty_table(), *pieces]).combine_chunks() == expected.combine_chunks()
    assert stream.finish() == []


def test_a_stream_holds_no_more_than_two_rows_of_a_key():
    stream = MergeStream(["k"], "merge")
    for epoch in range(1, 200, 2):
        batch = table([(1, f"v{epoch - 1}", epoch, -1), (1, f"v{epoch}", epoch, 1)])
        assert stream.push(batch) == []
        assert stream._carried.num_rows <= 2
    assert [entries(piece) for piece in stream.finish()] == [[(1, "v0", 199, -1), (1, "v199", 199, 1)]]


def test_a_stream_has_one_of_three_modes():
    with pytest.raises(ValueError, match="vacuum"):
        MergeStream(["k"], "vacuum")


# --- consolidation ---------------------------------------------------------------------------------------------


def test_all_pairs_of_a_key_cancel_wherever_they_stand():
    """Both rows of a pair have changed, and the join says so in two steps: a1 b2 came and went."""
    rows = table([(1, "a1 b2", 5, -1), (1, "a1 b1", 5, -1), (1, "a2 b2", 5, 1), (1, "a1 b2", 5, 1), (2, "x", 5, 1)])
    assert entries(consolidate(rows, ["k"])) == [(1, "a1 b1", 5, -1), (1, "a2 b2", 5, 1), (2, "x", 5, 1)]
    twice = table([(1, "x", 5, -1), (1, "x", 5, -1), (1, "x", 5, 1), (1, "x", 6, 1), (2, "y", 5, -1), (2, "y", 5, 1)])
    assert entries(consolidate(twice, ["k"])) == [(1, "x", 5, -1), (1, "x", 6, 1)]


def test_an_update_to_the_same_is_no_change():
    rows = table([(1, "a", 5, -1), (1, "a", 5, 1), (2, "a", 5, -1), (2, "b", 5, 1), (3, "a", 5, 1), (4, "a", 5, -1)])
    assert {entry[0] for entry in entries(consolidate(rows, ["k"]))} == {2, 3, 4}


def test_only_within_one_epoch_and_one_key():
    rows = table([(1, "a", 5, -1), (1, "a", 6, 1), (4, "a", 5, -1), (7, "a", 5, 1)])
    assert consolidate(rows, ["k"]) == rows


NAN = float("nan")
FLOAT = pa.float64()
NESTED = [
    (FLOAT, st.sampled_from([None, 0.0, -0.0, NAN, 1.0])),
    (pa.list_(FLOAT), st.none() | st.lists(st.sampled_from([None, -0.0, NAN, 1.0]), max_size=3)),
    (pa.list_(pa.list_(pa.string())), st.none() | st.lists(st.none() | st.lists(st.sampled_from("ab")), max_size=3)),
    (
        pa.struct([("x", FLOAT), ("y", pa.list_(pa.int32()))]),
        st.none()
        | st.fixed_dictionaries(
            {"x": st.sampled_from([None, NAN, 1.0]), "y": st.none() | st.lists(st.integers(0, 1), max_size=2)}
        ),
    ),
    (
        pa.map_(pa.string(), pa.int32()),
        st.none() | st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1)), max_size=2),
    ),
    (pa.dictionary(pa.int32(), pa.string()), st.sampled_from([None, "a", "b"])),
    (pa.null(), st.none()),
]


def alike(left: Any, right: Any, zeros_differ: bool) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return left == right and (not zeros_differ or math.copysign(1, left) == math.copysign(1, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return all(alike(left[name], right[name], zeros_differ) for name in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(alike(a, b, zeros_differ) for a, b in zip(left, right, strict=True))
    return left == right


@given(st.data())
def test_equality_looks_into_values(data):
    kind, strategy = data.draw(st.sampled_from(NESTED))
    pairs = data.draw(st.lists(st.tuples(strategy, strategy), max_size=8))
    skip = data.draw(st.integers(0, len(pairs)))
    left = pa.array([pair[0] for pair in pairs], kind).slice(skip)
    right = pa.array([pair[1] for pair in pairs], kind).slice(skip)
    assert equal(left, right).tolist() == [alike(a, b, False) for a, b in pairs[skip:]]
    assert identical(left, right).tolist() == [alike(a, b, True) for a, b in pairs[skip:]]


@st.composite
def keyed_rows(draw):
    """Few distinct keys, so that neighbours are often the same."""
    kinds = draw(st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=2))
    distinct = draw(st.lists(st.tuples(*map(maybe, kinds)), min_size=1, max_size=4))
    return kinds, draw(st.lists(st.sampled_from(distinct), max_size=8))


@given(keyed_rows())
def test_neighbours_are_the_same_when_their_keys_are(case):
    kinds, rows = case
    names = [f"c{number}" for number in range(len(kinds))]
    schema = pa.schema([(name, kind.arrow) for name, kind in zip(names, kinds, strict=True)])
    codec = KeyCodec([(kind, KeyColumn(name=name)) for name, kind in zip(names, kinds, strict=True)])
    whole = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)
    keys = codec.encode_table(whole)
    expected = [number > 0 and keys[number - 1] == key for number, key in enumerate(keys)]
    assert same_as_previous(whole, names).tolist() == expected


def test_a_change_of_zeros_sign_is_a_change():
    schema = pa.schema([("k", pa.int64()), ("v", pa.float64()), (EPOCH, pa.int64()), (WEIGHT, pa.int8())])
    rows = [{"k": 1, "v": -0.0, EPOCH: 1, WEIGHT: -1}, {"k": 1, "v": 0.0, EPOCH: 1, WEIGHT: 1}]
    both = pa.Table.from_pylist(rows, schema)
    assert consolidate(both, ["k"]).num_rows == 2
