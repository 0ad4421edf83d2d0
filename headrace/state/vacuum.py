"""Which files nobody needs any more.

A data file is needed if a retained manifest names it, if something running holds it (``pinned``), or if it is young:
an epoch in flight writes files long before a manifest names them. All else is left over from merges, expired history,
failed epochs and crashes.

    files 1.parquet (named), 1.parquet.index (its sidecar), 2.parquet (named by no one, old), 3.parquet (new)
    -> ["2.parquet"]
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.state.manifest import Manifest, referenced_files
from headrace.state.runs import SIDECAR
from headrace.state.store import DIRECTORY


def unreferenced(
    files_on_disk: Iterable[tuple[str, float]],
    manifests: Iterable[Manifest],
    pinned: Iterable[str] = (),
    *,
    grace_seconds: float,
    now: float,
) -> list[str]:
    """The paths that can be deleted, sorted. ``pinned`` are files, or directories with a trailing slash.

    ``files_on_disk`` are (path, mtime in seconds). Manifests themselves are never proposed: the store prunes them.
    """
    held = list(pinned)
    needed = referenced_files(manifests) | {path for path in held if not path.endswith("/")}
    directories = (DIRECTORY + "/", *(path for path in held if path.endswith("/")))
    return sorted(
        path
        for path, mtime in files_on_disk
        if now - mtime >= grace_seconds
        and path not in needed
        and _owner(path) not in needed
        and not path.startswith(directories)
    )


def _owner(path: str) -> str:
    """The data file that a sidecar, or the checksum that Hadoop puts beside a local file, belongs to."""
    directory, slash, name = path.rpartition("/")
    if name.startswith(".") and name.endswith(".crc"):
        name = name[1 : -len(".crc")]
    return directory + slash + name.removesuffix(SIDECAR)
