from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import CorruptWarehouse, Fenced, StorageError
from headrace.state.manifest import Manifest, Writer
from headrace.state.runs import Run
from headrace.state.store import FULL_EVERY, ManifestStore
from tests.support.memory_storage import MemoryStorage

US = Writer(id="us", host="here", pid=1)
THEM = Writer(id="them", host="there", pid=2)


def following(manifest: Manifest, writer: Writer = US, **changes) -> Manifest:
    epoch = manifest.epoch + 1
    runs = (*manifest.runs.get(1, ()), Run(id=f"r{epoch}", first_epoch=epoch, last_epoch=epoch))[-5:]
    return manifest.next(
        writer=writer,
        committed_at=manifest.committed_at + 1,
        **({"epoch": epoch, "runs": {1: runs}, "positions": {"p": epoch}} | changes),
    )


def committed(store: ManifestStore, count: int, start: Manifest | None = None) -> list[Manifest]:
    """``count`` commits on top of a manifest; answers all of them."""
    manifest, made = start or Manifest(), []
    for _ in range(count):
        new = following(manifest)
        store.commit(manifest, new)
        made.append(new)
        manifest = new
    return made


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
def store(storage) -> ManifestStore:
    return ManifestStore(storage)


def test_an_empty_directory_has_no_manifest(store):
    assert store.load() is None
    assert store.load(1) is None
    assert store.load(epoch=1) is None
    assert store.versions() == []


def test_every_version_can_be_loaded(store):
    made = committed(store, 70)
    assert store.versions() == list(range(1, 71))
    assert store.load() == made[-1]
    for manifest in made:
        assert store.load(manifest.version) == manifest
    assert store.load(71) is None
    assert list(store.replay(60)) == made[59:]


def test_loading_reads_one_full_copy_and_what_came_after(storage, store):
    committed(store, FULL_EVERY * 2 + 3)
    storage.reads.clear()
    store.load()
    assert len(storage.reads) == 4


def test_the_last_version_of_an_epoch(store):
    first = following(Manifest())
    store.commit(Manifest(), first)
    compacted = following(first, epoch=first.epoch)
    store.commit(first, compacted)
    later = following(compacted, epoch=10)
    store.commit(compacted, later)
    assert store.load(epoch=1) == compacted
    assert store.load(epoch=9) == compacted
    assert store.load(epoch=10) == later
    assert store.load(epoch=99) == later
    assert store.load(epoch=0) is None


def test_the_second_of_two_writers_is_fenced(storage, store):
    base = committed(store, 3)[-1]
    store.commit(base, following(base, THEM))
    before = dict(storage.files)
    with pytest.raises(Fenced, match="process 2 on there") as caught:
        store.commit(base, following(base, US))
    assert "stop it" in caught.value.hint
    assert storage.files == before
    assert store.load().writer == THEM


def test_a_writer_that_slept_through_pruning_is_fenced_too(storage, store):
    base = committed(store, 3)[-1]
    newest = committed(store, 200, base)[-1]
    store.prune(newest.version)
    assert not storage.exists(store.change_path(base.version + 1))
    with pytest.raises(Fenced, match="process 1 on here"):
        store.commit(base, following(base, THEM))
    with pytest.raises(Fenced):
        store.commit(Manifest(), following(Manifest(), THEM))
    assert store.load() == newest
    store.commit(newest, following(newest))


def test_the_current_writer_is_not_fenced_by_pruning(store):
    manifest = Manifest()
    for _ in range(3 * FULL_EVERY):
        (manifest,) = committed(store, 1, manifest)
        store.prune(manifest.version)
        assert store.load() == manifest


def test_a_retry_after_a_lost_answer_succeeds(storage, store):
    base = committed(store, 3)[-1]
    new = following(base)
    storage.fail_after = {store.change_path(new.version)}
    with pytest.raises(StorageError):
        store.commit(base, new)
    storage.fail_after = set()
    store.commit(base, new)
    assert store.load() == new


def test_going_on_as_if_a_lost_commit_had_failed_is_refused(storage, store):
    base = committed(store, 3)[-1]
    storage.fail_after = {store.change_path(base.version + 1)}
    with pytest.raises(StorageError):
        store.commit(base, following(base))
    with pytest.raises(Fenced, match="has reached the storage"):
        store.commit(base, following(base, positions={"p": "other"}))


def test_a_failed_commit_changes_nothing(storage, store):
    base = committed(store, 3)[-1]
    storage.fail_before = {store.change_path(base.version + 1)}
    with pytest.raises(StorageError):
        store.commit(base, following(base))
    assert store.load() == base


def test_a_full_copy_that_cannot_be_written_does_not_fail_the_commit(storage, store, caplog):
    storage.fail_before = {store.full_path(FULL_EVERY)}
    with caplog.at_level(logging.WARNING):
        made = committed(store, FULL_EVERY + 5)
    assert "could not write the full manifest" in caplog.text
    assert store.load() == made[-1]


def test_versions_follow_each_other(store):
    base = committed(store, 2)[-1]
    with pytest.raises(ValueError, match="cannot follow"):
        store.commit(base, following(following(base)))


def test_a_damaged_full_copy_is_passed_over(storage, store, caplog):
    made = committed(store, 2 * FULL_EVERY + 2)
    storage.files[store.full_path(2 * FULL_EVERY)] = b"garbage"
    with caplog.at_level(logging.WARNING):
        assert store.load() == made[-1]
    assert "trying an older one" in caplog.text
    storage.files[store.full_path(FULL_EVERY)] = b""
    assert store.load() == made[-1]


def test_a_damaged_full_copy_without_an_older_one_is_reported(storage, store):
    newest = committed(store, FULL_EVERY + 2)[-1]
    store.prune(newest.version)
    path = store.full_path(FULL_EVERY)
    storage.files[path] = storage.files[path][:-10]
    with pytest.raises(CorruptWarehouse, match=path):
        store.load()


@pytest.mark.parametrize("data", [b"", b"garbage", None])
def test_a_damaged_or_missing_change_is_reported(storage, store, data):
    committed(store, FULL_EVERY + 6)
    path = store.change_path(FULL_EVERY + 3)
    if data is None:
        del storage.files[path]
    else:
        storage.files[path] = data
    with pytest.raises(CorruptWarehouse, match=path) as caught:
        store.load()
    assert "backup" in caught.value.hint
    assert store.load(FULL_EVERY + 2).version == FULL_EVERY + 2
    with pytest.raises(CorruptWarehouse, match=path):
        list(store.replay(FULL_EVERY))


def test_a_change_in_the_place_of_another_is_reported(storage, store):
    committed(store, 6)
    storage.files[store.change_path(5)] = storage.files[store.change_path(3)]
    with pytest.raises(CorruptWarehouse, match=store.change_path(5)):
        store.load()


def test_replaying_what_is_gone_is_an_error_and_not_nothing(store):
    newest = committed(store, 100)[-1]
    store.prune(newest.version)
    with pytest.raises(CorruptWarehouse):
        list(store.replay(5))


def test_following_reads_only_what_is_new(storage, store):
    made = committed(store, 40)
    storage.reads.clear()
    assert store.follow(made[36]) == made[-1]
    assert len(storage.reads) == 4  # three changes, and one that is not there yet
    store.prune(40)
    assert store.follow(made[5]) == made[-1]
    assert store.follow(Manifest()) == made[-1]
    assert ManifestStore(MemoryStorage()).follow(Manifest()) == Manifest()


def test_strangers_in_the_directory_are_ignored(storage, store):
    made = committed(store, 3)
    for name in ("README", ".000000000004.json.abc.tmp", "4.json", "000000000009.json.bak"):
        storage.files[f"manifest/{name}"] = b"?"
    assert store.load() == made[-1]
    assert store.versions() == [1, 2, 3]


def test_loading_survives_pruning_at_the_same_time(storage, store, monkeypatch):
    made = committed(store, 80)
    reader = ManifestStore(storage)
    list_once = reader._listing

    def list_and_be_overtaken():
        found = list_once()
        if len(made) == 80:
            made.extend(committed(store, 40, made[-1]))
            store.prune(made[-1].version)
        return found

    monkeypatch.setattr(reader, "_listing", list_and_be_overtaken)
    assert reader.load() == made[-1]


@given(st.integers(1, 110), st.integers(0, 120), st.sets(st.sampled_from([32, 64, 96])))
def test_pruning_keeps_all_that_is_asked_for(count, keep_from, damaged):
    storage = MemoryStorage()
    store = ManifestStore(storage)
    made = committed(store, count)
    for version in damaged:
        if storage.exists(store.full_path(version)):
            storage.files[store.full_path(version)] = b"garbage"
    keep_from = min(keep_from, count)
    files = set(storage.files)
    removed = store.prune(keep_from)
    assert set(removed) == files - set(storage.files)
    for manifest in made[max(keep_from, 1) - 1 :]:
        assert store.load(manifest.version) == manifest
    if not damaged:
        assert len(store.versions()) < count - keep_from + FULL_EVERY + 1
    store.commit(made[-1], following(made[-1]))
