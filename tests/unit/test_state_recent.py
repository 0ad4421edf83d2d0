"""What was written last is not read again."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.catalog import KeyColumn
from headrace.state import recent, writer
from headrace.state.files import open_parquet
from headrace.state.layout import Layout
from headrace.state.recent import RecentRows, beside
from headrace.state.runs import EPOCH, VNODE, WEIGHT
from headrace.state.storage import LocalStorage
from headrace.types import SqlType

LAYOUT = Layout(
    relation_id=7,
    columns=(("a", SqlType("bigint")), ("b", SqlType("varchar"))),
    pk=(KeyColumn(name="a"),),
    distribution=("a",),
)


def _delta(*rows: tuple[int, str, int, int]) -> pa.Table:
    """Key, value, epoch and weight."""
    a, b, epochs, weights = zip(*rows, strict=True)
    columns = {"a": a, "b": b, VNODE: [0] * len(rows), EPOCH: epochs, WEIGHT: weights}
    return pa.table(columns).select(LAYOUT.stored_schema.names).cast(LAYOUT.stored_schema)


def test_the_oldest_are_forgotten():
    rows = pa.table({"a": pa.array(range(100), pa.int64())})
    size = rows.nbytes + beside(1)  # many files of few rows take more than their values
    held = RecentRows(3 * size)
    for at in range(5):
        held.put(("root", str(at)), rows)
        held.put(("root", str(at)), rows)
    assert held.bytes == 3 * size
    assert [at for at in range(5) if held.get(("root", str(at))) is not None] == [2, 3, 4]
    held.put(("root", "large"), pa.concat_tables([rows] * 20))
    assert held.get(("root", "large")) is None
    assert held.get(("elsewhere", "4")) is None


@pytest.mark.parametrize(
    ("settling", "net", "expected"),
    [
        ("consolidate", None, [(1, "x", 5, -1), (1, "z", 5, 1), (3, "v", 5, 1)]),
        ("sort", None, [(1, "x", 5, -1), (1, "z", 5, 1), (2, "y", 5, -1), (2, "y", 5, 1), (3, "v", 5, 1)]),
        ("consolidate", 9, [(1, "x", 9, -1), (1, "z", 9, 1), (3, "v", 9, 1)]),
    ],
)
def test_rows_are_settled_and_remembered(tmp_path, monkeypatch, settling, net, expected):
    held = RecentRows()
    monkeypatch.setattr(writer, "RECENT", held)
    files = LocalStorage(tmp_path).files
    delta = _delta((2, "y", 5, 1), (3, "v", 5, 1), (1, "z", 5, 1), (2, "y", 5, -1), (1, "x", 5, -1))
    ((id, (file,)),) = writer.write_outputs(files, [(LAYOUT, delta, settling)], net_epoch=net).items()
    assert (id, file.rows, file.retractions) == (7, len(expected), sum(each[-1] < 0 for each in expected))
    with open_parquet(files, file.path) as parquet:
        stored = LAYOUT.stored(parquet.read())
    names = ["a", "b", EPOCH, WEIGHT]
    assert list(zip(*(stored[name].to_pylist() for name in names), strict=True)) == expected
    assert held.get((files.root, file.path)).equals(stored)


def test_what_comes_to_nothing_is_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "RECENT", RecentRows())
    files = LocalStorage(tmp_path).files
    delta = _delta((2, "y", 5, 1), (2, "y", 5, -1))
    assert writer.write_outputs(files, [(LAYOUT, delta, "consolidate")]) == {}
    ((_, (file,)),) = writer.write_outputs(files, [(LAYOUT, _delta((2, "y", 5, 1)), "none")]).items()
    assert (file.rows, file.groups) == (1, 1)
    assert recent.RECENT.get((files.root, file.path)) is None
