"""The driver's files through Hadoop's file systems, as they would be on HDFS."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.errors import Fenced, StorageError
from headrace.state.hadoop import HadoopStorage
from headrace.state.manifest import Manifest
from headrace.state.store import ManifestStore
from tests.unit.test_state_store import THEM, committed, following


@pytest.fixture(params=["file", "raw", "viewfs"])
def storage(request, spark, tmp_path: Path) -> HadoopStorage:
    jvm = spark.sparkContext._jvm
    # A copy: a mount that points into a folder of this test must not stay in the session.
    conf = jvm.org.apache.hadoop.conf.Configuration(spark.sparkContext._jsc.hadoopConfiguration())
    if request.param == "raw":  # without the checksums that Hadoop keeps beside local files
        conf.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
        conf.set("fs.AbstractFileSystem.file.impl", "org.apache.hadoop.fs.local.RawLocalFs")
        conf.setBoolean("fs.file.impl.disable.cache", True)
    if request.param in ("file", "raw"):
        return HadoopStorage(f"file://{tmp_path}/ware house", jvm, conf)
    (tmp_path / "mounted").mkdir()
    conf.set("fs.viewfs.mounttable.default.link./mounted", f"file://{tmp_path}/mounted")
    conf.setBoolean("fs.viewfs.impl.disable.cache", True)
    return HadoopStorage("viewfs:///mounted/warehouse", jvm, conf)


def names(storage: HadoopStorage, directory: str) -> list[str]:
    return [entry.name for entry in storage.list(directory)]


def test_what_is_written_can_be_read(storage):
    data = bytes(range(256)) * 1000
    storage.write("a/b/c", b"1")
    storage.write("a/b/c", data)
    assert storage.read("a/b/c") == data
    storage.write("a/b/empty", b"")
    assert storage.read("a/b/empty") == b""
    assert [storage.exists(path) for path in ("a/b", "a/b/c", "a/b/d")] == [True, True, False]
    assert names(storage, "a/b") == ["c", "empty"], "a temporary file was left"


def test_only_the_first_write_new_counts(storage):
    assert storage.write_new("m/1", b"first") is True
    assert storage.write_new("m/1", b"second") is False
    assert storage.read("m/1") == b"first"
    assert names(storage, "m") == ["1"]


def test_what_appeared_in_the_meantime_is_not_replaced(storage, monkeypatch):
    """The look before the write is a courtesy; what counts is that the last step does not replace."""
    storage.write("m/1", b"first")
    monkeypatch.setattr(storage, "_exists", lambda path: False)
    assert storage.write_new("m/1", b"second") is False
    assert storage.read("m/1") == b"first"
    assert names(storage, "m") == ["1"]


def test_rivals_one_after_the_other(storage):
    for version in range(3):
        assert [storage.write_new(f"m/{version}", b"%d" % who) for who in range(2)] == [True, False]
        assert storage.read(f"m/{version}") == b"0"


def test_a_local_disk_is_never_asked_to_rename(storage, monkeypatch):
    """Of rivals that rename at the same moment both may win: about one time in a hundred, so it is asked for here."""
    monkeypatch.delattr(HadoopStorage, "_rename")
    assert [storage.write_new("m/1", data) for data in (b"first", b"second")] == [True, False]


def test_of_many_rivals_one_wins(storage, monkeypatch):
    """At the same moment, and without the look before, which would hide that a rename is not enough."""
    monkeypatch.setattr(storage, "_exists", lambda path: False)
    rivals, together, link = 6, threading.Barrier(6), storage._link

    def all_at_once(*args) -> bool:
        together.wait(60)
        return link(*args)

    monkeypatch.setattr(storage, "_link", all_at_once)

    def attempt(number: int) -> list[bool]:
        return [storage.write_new(f"m/{version}", b"%d" % number * 1000) for version in range(10)]

    with ThreadPoolExecutor(rivals) as pool:
        outcomes = list(pool.map(attempt, range(rivals)))
    for version in range(10):
        (winner,) = (number for number, won in enumerate(outcomes) if won[version])
        assert storage.read(f"m/{version}") == b"%d" % winner * 1000
    assert names(storage, "m") == [str(version) for version in range(10)], "a temporary file was left"


def test_where_there_are_no_links_a_rename_refuses_as_well(storage, monkeypatch):
    monkeypatch.setattr(storage, "_local", lambda path: None)
    storage.write("m/1", b"first")
    monkeypatch.setattr(storage, "_exists", lambda path: False)
    assert storage.write_new("m/1", b"second") is False
    assert storage.write_new("m/2", b"second") is True
    assert [storage.read(f"m/{version}") for version in (1, 2)] == [b"first", b"second"]


def test_listing_and_deleting(storage):
    storage.write("d/x.parquet", b"123")
    storage.write("d/e/y.parquet", b"1")
    (entry,) = storage.list("d")
    assert (entry.name, entry.size) == ("x.parquet", 3)
    assert entry.mtime > 1e9
    assert storage.list("nowhere") == []
    assert list(storage.walk("nowhere")) == []
    assert sorted(found.name for found in storage.walk("d")) == ["d/e/y.parquet", "d/x.parquet"]
    assert sorted(found.name for found in storage.walk("")) == ["d/e/y.parquet", "d/x.parquet"]
    storage.delete(["d/x.parquet", "d/missing"])
    assert names(storage, "d") == []
    storage.delete(["d"])
    assert not storage.exists("d")


def test_a_missing_file_is_for_the_caller_to_judge(storage):
    with pytest.raises(FileNotFoundError):
        storage.read("nothing")


def test_directories(storage):
    storage.make_dirs("some/where")
    assert storage.exists("some/where")
    assert storage.uri("a/b") == f"{storage.root}/a/b"
    assert storage.uri("") == storage.root


def test_manifests(storage):
    store = ManifestStore(storage)
    made = committed(store, 34)
    assert store.load() == made[-1]
    with pytest.raises(Fenced, match="process 1 on here"):
        store.commit(made[-2], following(made[-2], THEM))
    store.prune(34)
    assert store.versions() == [32, 33, 34]
    assert store.load(33) == made[32]
    with pytest.raises(Fenced):
        store.commit(Manifest(), following(Manifest(), THEM))


def test_spark_reads_what_the_storage_names(spark, tmp_path):
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    storage = HadoopStorage(f"file://{tmp_path}/warehouse", spark.sparkContext._jvm, conf)
    spark.range(3).write.parquet(storage.uri("data/1"))
    assert spark.read.parquet(storage.uri("data/1")).count() == 3
    assert any(name.endswith(".parquet") for name in names(storage, "data/1"))


def test_an_unknown_scheme_says_what_is_missing(spark):
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    with pytest.raises(StorageError, match="nosuch") as caught:
        HadoopStorage("nosuch://host/warehouse", spark.sparkContext._jvm, conf)
    assert "jars" in caught.value.hint


def test_a_file_where_a_directory_should_be(storage):
    storage.write("m", b"")
    with pytest.raises(StorageError, match="cannot access"):
        storage.write("m/1", b"")


def test_a_folder_of_many_files_is_listed_in_few_calls(storage, monkeypatch):
    sizes = {"a, b": 1, "[c]": 2, "ä ö": 0, "line\nbreak": 3, "true": 4} | {f"f{number:04}": 5 for number in range(300)}
    storage.make_dirs("many/inner/none")
    folder = Path(str(storage._local("many")))
    for name, size in sizes.items():
        (folder / name).write_bytes(b"x" * size)
    (folder / "inner" / "deep").write_bytes(b"")
    calls = []
    client = storage._jvm._gateway_client
    send = client.send_command

    def counted(command, *given, **more):
        if not command.startswith("m\nd\n"):  # what Python has collected just now, of whatever ran before
            calls.append(command)
        return send(command, *given, **more)

    monkeypatch.setattr(client, "send_command", counted)
    found = storage.list("many")
    assert len(calls) < 100, "each call is some 100 microseconds, and there may be 100,000 files"
    assert {entry.name: entry.size for entry in found} == sizes
    assert all(abs(entry.mtime - (folder / entry.name).stat().st_mtime) < 1 for entry in found)
    assert {entry.name for entry in storage.walk("many")} == {f"many/{name}" for name in (*sizes, "inner/deep")}
    assert storage.list("many/inner/none") == storage.list("absent") == []
