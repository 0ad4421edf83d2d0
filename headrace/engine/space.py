"""Room on a full disk: what failed writes left behind goes at once.

A statement, a merge or a chunk that finds the disk full has often filled it itself, and nobody could write anything
until vacuum takes its leftovers for old. They need not become old. Between two epochs, what no kept version names is
an orphan, unless it belongs to a merge or a chunk that is going on, and those are known.

An engine that was fenced must not take the files of its successor for orphans. So the files are listed first and the
versions afterwards: a successor commits its first version before it writes anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from headrace.state.manifest import Manifest
from headrace.state.storage import Storage
from headrace.state.store import ManifestStore
from headrace.state.vacuum import unreferenced


def remove_leftovers(
    storage: Storage,
    store: ManifestStore,
    committed: Manifest,
    *,
    working: Manifest,
    busy: Set[int] = frozenset(),
    needed: Iterable[str] = (),
) -> int:
    """Deletes what no version names; answers how many files that were. No epoch may be under way.

    ``busy`` are the relations that somebody is writing files of; ``needed`` are files that no version names.
    """
    found = [(entry.name, entry.mtime) for folder in ("data", "replica") for entry in storage.walk(folder)]
    versions = [*store.replay(committed.history[0][0])] if committed.history else []
    if versions and versions[-1].version != committed.version:
        return 0
    pinned = [*needed, *(f"data/{id}/" for id in busy)]
    doomed = unreferenced(found, [*versions, working], pinned, grace_seconds=float("-inf"), now=0.0)
    storage.delete(doomed)
    return len(doomed)
