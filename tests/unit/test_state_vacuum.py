from __future__ import annotations

from headrace.state.manifest import Manifest
from headrace.state.runs import Run, RunFile
from headrace.state.vacuum import unreferenced

NOW = 10_000.0
OLD = NOW - 1000


def manifest(*paths: str, groups: int = 2) -> Manifest:
    files = tuple(RunFile(path=path, rows=1, bytes=1, low=b"", high=b"", groups=groups) for path in paths)
    return Manifest(runs={1: (Run(id="r", first_epoch=1, last_epoch=1, files=files),)})


def doomed(*paths: str, manifests=(), pinned=(), mtime: float = OLD) -> list[str]:
    return unreferenced([(path, mtime) for path in paths], manifests, pinned, grace_seconds=600, now=NOW)


def test_what_no_manifest_names_goes():
    kept = [manifest("data/1/a.parquet"), manifest("data/1/b.parquet")]
    assert doomed("data/1/a.parquet", "data/1/b.parquet", "data/1/c.parquet", manifests=kept) == ["data/1/c.parquet"]


def test_sidecars_go_and_stay_with_their_files():
    paths = ["data/1/a.parquet", "data/1/a.parquet.index", "data/1/b.parquet", "data/1/b.parquet.index"]
    assert doomed(*paths, manifests=[manifest("data/1/a.parquet")]) == paths[2:]
    assert doomed(*paths, manifests=[manifest("data/1/a.parquet", groups=1)]) == paths[2:]
    assert doomed(*paths, pinned=["data/1/b.parquet"]) == paths[:2]


def test_checksums_that_hadoop_leaves_beside_files():
    paths = ["data/1/.a.parquet.crc", "data/1/.b.parquet.crc", "data/1/.a.parquet.index.crc"]
    assert doomed(*paths, manifests=[manifest("data/1/a.parquet")]) == ["data/1/.b.parquet.crc"]


def test_young_files_stay():
    assert doomed("data/1/c.parquet", mtime=NOW - 599) == []
    assert doomed("data/1/c.parquet", mtime=NOW + 50) == []
    assert doomed("data/1/c.parquet", mtime=NOW - 600) == ["data/1/c.parquet"]


def test_pinned_files_and_directories_stay():
    assert doomed("data/1/c.parquet", "data/2/d.parquet", pinned=["data/1/c.parquet", "data/2/"]) == []


def test_manifests_are_not_its_business_but_leftovers_are():
    paths = ["manifest/000000000001.json", "data/1/.x.parquet.0a.tmp", "staging/1/part-0.parquet"]
    assert doomed(*paths) == paths[1:]
