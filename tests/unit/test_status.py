from __future__ import annotations

import json

import pytest

from headrace import cli
from headrace.catalog import Catalog, Column, Relation
from headrace.serving.status import read_status
from headrace.state.manifest import Manifest, Writer
from headrace.state.runs import Run, RunFile
from headrace.state.storage import LocalStorage
from headrace.state.store import ManifestStore
from headrace.types import SqlType

COLUMNS = (Column(name="id", type=SqlType("integer")),)


@pytest.fixture
def warehouse(tmp_path) -> str:
    """A table of two runs: ten rows, then one of them updated and one deleted."""
    catalog = Catalog()
    for id, name, kind in ((1, "orders", "table"), (2, "plain", "view")):
        catalog = catalog.add(Relation(id=id, name=name, kind=kind, columns=COLUMNS))
    files = (
        RunFile(path="data/1", rows=10, bytes=1000, low=b"a", high=b"b"),
        RunFile(path="data/2", rows=3, bytes=200, low=b"a", high=b"b", retractions=2),
    )
    runs = tuple(
        Run(id=str(number), first_epoch=number, last_epoch=number, files=(file,))
        for number, file in enumerate(files, 1)
    )
    writer = Writer(id="w", host="somewhere", pid=42)
    empty = Manifest(version=0, epoch=0, committed_at=0, writer=writer)
    full = Manifest(
        version=1, epoch=7, committed_at=1_767_225_600_000_000, writer=writer, catalog=catalog, runs={1: runs}
    )
    folder = tmp_path / "warehouse"
    folder.mkdir()
    ManifestStore(LocalStorage(folder)).commit(empty, full)
    return str(folder)


def test_status(warehouse):
    status = read_status(warehouse)
    assert (status["epoch"], status["version"], status["writer"]) == (7, 1, "process 42 on somewhere")
    assert status["relations"] == [
        {"name": "orders", "kind": "table", "rows": 9, "runs": 2, "bytes": 1200},
        {"name": "plain", "kind": "view", "rows": None, "runs": None, "bytes": None},
    ]


def test_for_people(warehouse, capsys):
    assert cli.main(["status", "-w", warehouse]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{warehouse}: epoch 7, version 1"
    assert lines[1].startswith("committed ") and lines[1].endswith(" s ago by process 42 on somewhere")
    assert lines[5:7] == [" orders | table |    9 |    2 |  1200", " plain  | view  |      |      |"]


def test_for_programs(warehouse, capsys):
    assert cli.main(["status", "-w", warehouse, "--format", "json"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first == {"name": "orders", "kind": "table", "rows": 9, "runs": 2, "bytes": 1200}


def test_nothing_there(tmp_path, capsys):
    assert cli.main(["status", "-w", str(tmp_path / "nowhere")]) == 1
    assert "there is no warehouse in" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()
