"""Where manifests live: a log of changes with a full copy every 32 versions.

    manifest/000000000031.json
    manifest/000000000032.json        the change from 31 to 32
    manifest/000000000032.full.json   all of 32
    manifest/000000000033.json

Loading takes the newest full copy and the changes after it. The change file is the commit: it is created only if no
one else has created it, so of two engines that both believe to own the warehouse one is :class:`Fenced` at its next
checkpoint, before anything of it becomes visible. The full copy is an aid; a damaged or missing one is passed over in
favour of an older one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.errors import CorruptWarehouse, Fenced, HeadraceError, StorageError
from headrace.failpoints import failpoint
from headrace.state.manifest import Change, Manifest, Writer, damaged, decode, encode
from headrace.state.storage import Storage

FULL_EVERY = 32
DIRECTORY = "manifest"

_NAME = re.compile(r"(\d{12,})(\.full)?\.json")
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class _Listing:
    changes: frozenset[int]
    fulls: frozenset[int]

    @property
    def newest(self) -> int:
        return max(self.changes | self.fulls, default=0)


class ManifestStore:
    def __init__(self, storage: Storage, *, directory: str = DIRECTORY):
        self.storage = storage
        self.directory = directory

    def load(self, version: int | None = None, *, epoch: int | None = None) -> Manifest | None:
        """The newest manifest, that of a version, or the last one of an epoch (or before, if it had none).

        None if there is no such manifest (any more).
        """
        # Files can vanish between the listing and the reading when another engine prunes.
        for _ in range(3):
            try:
                return self._load(version, epoch)
            except FileNotFoundError as problem:
                gone = problem
        raise damaged(str(gone.filename or self.directory), "it disappeared while being read") from gone

    def follow(self, manifest: Manifest) -> Manifest:
        """The newest manifest, given an older one: reads only what came after."""
        while True:
            try:
                data = self.storage.read(self.change_path(manifest.version + 1))
            except FileNotFoundError:
                break
            manifest = self._apply(manifest, decode(data, self.change_path(manifest.version + 1)))
        listing = self._listing()
        if manifest.version < listing.newest and manifest.version + 1 not in listing.changes:
            return self.load() or manifest  # what comes next was pruned meanwhile
        return manifest

    def replay(self, oldest: int) -> Iterator[Manifest]:
        """Every version from ``oldest`` to the newest, in order; each file is read once."""
        manifest = self.load(oldest)
        if manifest is None:
            # Whoever asks what is still needed must not take "unknown" for "nothing".
            raise damaged(self.change_path(oldest), "it is missing, though it should be kept")
        yield manifest
        for version in range(oldest + 1, self._listing().newest + 1):
            path = self.change_path(version)
            try:
                manifest = self._apply(manifest, decode(self.storage.read(path), path))
            except FileNotFoundError:
                raise damaged(path, "it is missing, though later ones exist") from None
            yield manifest

    def commit(self, previous: Manifest, new: Manifest) -> None:
        if new.version != previous.version + 1:
            raise ValueError(f"version {new.version} cannot follow {previous.version}")
        path = self.change_path(new.version)
        data = encode(Change.between(previous, new))
        if not self.storage.write_new(path, data) and not self._is_ours(path, data):
            raise self._fenced(path, new.writer)
        if not self._still_current(previous.version, new.version):
            self.storage.delete([path])
            raise self._fenced(None, new.writer)
        if new.version % FULL_EVERY == 0:
            failpoint("before_full")
            try:
                self.storage.write(self.full_path(new.version), encode(new))
            except StorageError as problem:  # the commit itself is done
                _LOG.warning("could not write the full manifest %s: %s", new.version, problem)

    def versions(self) -> list[int]:
        """What :meth:`load` can still load, oldest first."""
        return self._loadable(self._listing())

    def prune(self, keep_from_version: int) -> list[str]:
        """Removes what only versions below need, and says what that was.

        Oldest first, and the change file of the oldest full copy stays: :meth:`commit` takes a missing predecessor as
        the sign that the world has moved on.
        """
        listing = self._listing()
        candidates = sorted((full for full in listing.fulls if full <= keep_from_version), reverse=True)
        base = next(filter(self._is_sound, candidates), None)
        if base is None:
            return []
        doomed = [(version, self.change_path(version)) for version in listing.changes if version < base]
        doomed += [(version, self.full_path(version)) for version in listing.fulls if version < base]
        paths = [path for _, path in sorted(doomed)]
        self.storage.delete(paths)
        return paths

    def change_path(self, version: int) -> str:
        return f"{self.directory}/{version:012d}.json"

    def full_path(self, version: int) -> str:
        return f"{self.directory}/{version:012d}.full.json"

    def _listing(self) -> _Listing:
        changes, fulls = set(), set()
        for entry in self.storage.list(self.directory):
            if match := _NAME.fullmatch(entry.name):
                (fulls if match[2] else changes).add(int(match[1]))
        return _Listing(changes=frozenset(changes), fulls=frozenset(fulls))

    @staticmethod
    def _loadable(listing: _Listing) -> list[int]:
        reachable, found = 0, []
        for version in sorted(listing.changes | listing.fulls):
            if version in listing.fulls or version == reachable + 1:
                reachable = version
                found.append(version)
        return found

    def _load(self, version: int | None, epoch: int | None) -> Manifest | None:
        listing = self._listing()
        if epoch is not None:
            newest = self._load_version(listing, listing.newest) if listing.newest else None
            moments = newest.history if newest is not None else ()
            version = max((moment[0] for moment in moments if moment[1] <= epoch), default=0)
        elif version is None:
            version = listing.newest
        elif version not in self._loadable(listing):
            return None
        return self._load_version(listing, version) if version else None

    def _load_version(self, listing: _Listing, version: int) -> Manifest:
        manifest, problem = Manifest(), None
        for full in sorted((each for each in listing.fulls if each <= version), reverse=True):
            try:
                manifest, problem = self._read_full(full), None
                break
            except CorruptWarehouse as found:
                _LOG.warning("%s; trying an older one", found.message)
                problem = problem or found
        for number in range(manifest.version + 1, version + 1):
            if number not in listing.changes:
                raise problem or damaged(self.change_path(number), "it is missing, though later ones exist")
            path = self.change_path(number)
            manifest = self._apply(manifest, decode(self.storage.read(path), path))
        return manifest

    def _read_full(self, version: int) -> Manifest:
        path = self.full_path(version)
        manifest = decode(self.storage.read(path), path)
        if not isinstance(manifest, Manifest) or manifest.version != version:
            raise damaged(path, f"it is not the full manifest of version {version}")
        return manifest

    def _apply(self, manifest: Manifest, change: Manifest | Change) -> Manifest:
        path = self.change_path(manifest.version + 1)
        if not isinstance(change, Change):
            raise damaged(path, "it is not a change")
        try:
            return change.apply(manifest)
        except ValueError as problem:
            raise damaged(path, str(problem)) from problem

    def _is_sound(self, full: int) -> bool:
        try:
            self._read_full(full)
        except (CorruptWarehouse, FileNotFoundError):
            return False
        return True

    def _is_ours(self, path: str, data: bytes) -> bool:
        """A retry after an error finds the file that the first attempt did write."""
        try:
            return self.storage.read(path) == data
        except FileNotFoundError:
            return False

    def _still_current(self, previous: int, new: int) -> bool:
        """Whether our new file continues the log, rather than filling a place that was pruned long ago."""
        if previous == 0:
            return self._listing().newest == new
        return self.storage.exists(self.change_path(previous))

    def _fenced(self, path: str | None, ourselves: Writer) -> Fenced:
        try:
            found = self.load() if path is None else decode(self.storage.read(path), path)
            other = None if found is None else found.writer
        except (HeadraceError, FileNotFoundError):
            other = None
        if other == ourselves:
            return Fenced(
                f"an earlier commit to {self.storage.root} was reported as failed, but has reached the storage",
                hint="open the warehouse again: it continues from that commit",
            )
        return Fenced(
            f"{other or 'another engine'} has taken over the warehouse {self.storage.root}; "
            "this engine can commit nothing more",
            hint="send statements to that engine, or stop it and start this one again",
        )
