from __future__ import annotations

import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.errors import StorageError
from headrace.state.storage import LocalStorage, local_path
from headrace.state.store import ManifestStore
from tests.unit.test_state_store import committed


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "warehouse")


def names(storage: LocalStorage, directory: str) -> list[str]:
    return [entry.name for entry in storage.list(directory)]


def test_what_is_written_can_be_read(storage):
    storage.write("a/b/c", b"1")
    storage.write("a/b/c", b"22")
    assert storage.read("a/b/c") == b"22"
    assert (
        storage.exists("a/b/c")
        and storage.exists("a/b")
        and not storage.exists("a/b/d")
        and not storage.exists("a/b/c/d")
    )
    assert names(storage, "a/b") == ["c"], "a temporary file was left"


def test_only_the_first_write_new_counts(storage):
    assert storage.write_new("m/1", b"first") is True
    assert storage.write_new("m/1", b"second") is False
    assert storage.read("m/1") == b"first"
    assert names(storage, "m") == ["1"]


def test_of_many_rivals_one_wins(storage):
    def attempt(number: int) -> list[bool]:
        mine = LocalStorage(storage.root)
        return [mine.write_new(f"m/{version}", b"%d" % number * 1000) for version in range(20)]

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(attempt, range(8)))
    for version in range(20):
        (winner,) = (number for number, won in enumerate(outcomes) if won[version])
        assert storage.read(f"m/{version}") == b"%d" % winner * 1000


def test_listing(storage):
    storage.write("d/x.parquet", b"123")
    storage.write("d/e/y.parquet", b"1")
    (entry,) = storage.list("d")
    assert (entry.name, entry.size) == ("x.parquet", 3)
    assert abs(entry.mtime - os.stat(os.path.join(storage.root, "d/x.parquet")).st_mtime) < 1
    assert storage.list("nowhere") == []
    assert sorted(found.name for found in storage.walk("d")) == ["d/e/y.parquet", "d/x.parquet"]
    assert sorted(found.name for found in storage.walk("")) == ["d/e/y.parquet", "d/x.parquet"]
    assert list(storage.walk("nowhere")) == []


def test_deleting(storage):
    storage.write("d/x", b"")
    storage.write("d/e/y", b"")
    storage.delete(["d/x", "d/missing", "nowhere/at/all"])
    assert [found.name for found in storage.walk("")] == ["d/e/y"]
    storage.delete(["d"])
    assert not storage.exists("d")


def test_a_missing_file_is_for_the_caller_to_judge(storage):
    with pytest.raises(FileNotFoundError):
        storage.read("nothing")


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_a_file_uri_is_a_path(tmp_path, prefix):
    storage = LocalStorage(f"{prefix}{tmp_path}/with space")
    storage.write("a", b"1")
    assert (tmp_path / "with space" / "a").read_bytes() == b"1"
    assert storage.uri("d/x") == f"file://{tmp_path}/with space/d/x"
    assert storage.uri("") == f"file://{tmp_path}/with space"
    assert local_path("file:///a%20b") == "/a b"


def test_relative_roots_stay_where_they_were(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    storage = LocalStorage("here")
    monkeypatch.chdir("/")
    storage.write("a", b"1")
    assert (tmp_path / "here" / "a").exists()


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd"])
def test_nothing_outside_the_warehouse_is_touched(storage, path):
    for touch in (
        storage.read,
        storage.exists,
        lambda path: storage.delete([path]),
        lambda path: storage.write(path, b""),
    ):
        with pytest.raises(StorageError, match="outside the warehouse"):
            touch(path)


@pytest.mark.parametrize(
    ("number", "says", "hint"),
    [
        (errno.ENOSPC, "the disk is full", "free some space"),
        (errno.EACCES, "permission is denied", "let the user"),
        (errno.EROFS, "read-only", "mount it"),
        (errno.EIO, "Input/output error", None),
    ],
)
@pytest.mark.parametrize("call", ["write", "write_new"])
def test_errors_of_the_system_name_the_path_and_the_remedy(storage, monkeypatch, number, says, hint, call):
    storage.write("m/0", b"")

    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match=says) as caught:
        getattr(storage, call)("m/1", b"x")
    monkeypatch.undo()
    assert "m/1" in caught.value.message
    assert caught.value.retryable == (number != errno.ENOSPC)  # that takes longer than a retry
    assert (hint is None and caught.value.hint is None) or hint in caught.value.hint
    assert names(storage, "m") == ["0"], "a temporary or unsynced file was left"


def test_a_file_system_without_hard_links_is_named(storage, monkeypatch):
    def fail(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(StorageError) as caught:
        storage.write_new("m/1", b"x")
    assert "hard links" in caught.value.hint


def test_a_link_whose_answer_got_lost_is_ours(storage, monkeypatch):
    link = os.link

    def linked_twice(source, target):
        link(source, target)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", linked_twice)
    assert storage.write_new("m/1", b"x") is True
    assert storage.read("m/1") == b"x"


def test_everything_is_synced_before_it_can_be_seen(storage, monkeypatch):
    """The data before the name, the name before the call returns, and every new directory."""
    storage.make_dirs("")
    events: list[str] = []
    fsync, link, replace = os.fsync, os.link, os.replace

    def syncing(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        kind = "dir" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        events.append(f"{kind} {os.path.relpath(path, storage.root) if kind == 'dir' else ''}".strip())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(os, "link", lambda *paths: (events.append("name"), link(*paths)))
    monkeypatch.setattr(os, "replace", lambda *paths: (events.append("name"), replace(*paths)))
    storage.write_new("m/n/1", b"x")
    assert events == ["dir m", "dir .", "file", "name", "dir m/n"]
    events.clear()
    storage.write("m/n/1", b"y")
    assert events == ["file", "name", "dir m/n"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_not_be_written(storage):
    storage.write("m/1", b"")
    os.chmod(os.path.join(storage.root, "m"), 0o500)
    with pytest.raises(StorageError, match="permission is denied"):
        storage.write("m/2", b"")


def test_a_file_where_a_directory_should_be(storage):
    storage.write("m", b"")
    with pytest.raises(StorageError):
        storage.write("m/1", b"")


def test_manifests_on_a_disk(storage):
    store = ManifestStore(storage)
    made = committed(store, 35)
    assert store.load() == made[-1]
    store.prune(34)
    assert store.versions() == [32, 33, 34, 35]
    assert names(storage, "manifest")[:2] == ["000000000032.full.json", "000000000032.json"]
