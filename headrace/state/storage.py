"""Files as the driver sees them: a few small ones, written so that a crash or a rival leaves no half of one.

Tasks write data files themselves; the driver needs only manifests, sidecars, listings and deletions.
All paths are relative to the warehouse's root and use ``/``.

``write_new`` is what commits stand on: of two writers of one path, exactly one gets True, and a reader sees all of the
file or none of it. On a POSIX file system that is a hard link to a complete and synced temporary file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from headrace.errors import DiskFull, StorageError
from headrace.failpoints import failpoint
from headrace.state.files import Files, LocalFiles, sync_folder

TEMPORARY = ".tmp"
"""What the names of unfinished files end in. They also start with a dot, which Spark's readers skip."""


class Entry(NamedTuple):
    name: str
    size: int
    mtime: float
    """Seconds since 1970."""


class Storage(Protocol):
    root: str
    files: Files
    """The same place for tasks."""

    def read(self, path: str) -> bytes:
        """All of a file. FileNotFoundError if it is not there."""

    def write(self, path: str, data: bytes) -> None:
        """Durably and all at once, in place of what is there."""

    def write_new(self, path: str, data: bytes) -> bool:
        """Durably and all at once; False, and nothing changed, if the path exists already."""

    def list(self, directory: str) -> list[Entry]:
        """The files directly in a directory, by name; none if there is no such directory."""

    def walk(self, directory: str) -> Iterator[Entry]:
        """The files at any depth, their names relative to the root."""

    def delete(self, paths: Iterable[str]) -> None:
        """Files, and directories with all in them. What is not there is no error."""

    def exists(self, path: str) -> bool: ...

    def make_dirs(self, directory: str) -> None: ...

    def open_input(self, path: str) -> contextlib.AbstractContextManager[Any]:
        """A file that Arrow can read at any place, on the driver."""

    def probe(self) -> None:
        """Raises if it cannot be asked what there is."""

    def close(self) -> None:
        """Lets go of connections that nobody else uses."""

    def uri(self, path: str) -> str:
        """The path as Spark wants it."""


class LocalStorage:
    """A directory of this machine, or one that all machines mount under the same path."""

    def __init__(self, root: str | os.PathLike[str]):
        self.root = os.path.abspath(local_path(os.fspath(root)))
        self.files = LocalFiles(self.uri(""))

    def read(self, path: str) -> bytes:
        with _translated(path):
            return Path(self._full(path)).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        full = self._full(path)
        with _translated(full), self._temporary(full, data) as temporary:
            os.replace(temporary, full)
            sync_folder(os.path.dirname(full))

    def write_new(self, path: str, data: bytes) -> bool:
        full = self._full(path)
        with _translated(full), self._temporary(full, data) as temporary:
            failpoint("before_link")
            try:
                os.link(temporary, full)
            except FileExistsError:
                # Over NFS the answer to a link that was made can get lost and the retry then finds it there.
                if os.stat(temporary).st_nlink < 2:
                    return False
            failpoint("after_link")
            sync_folder(os.path.dirname(full))
        return True

    def list(self, directory: str) -> list[Entry]:
        with _translated(directory):
            try:
                with os.scandir(self._full(directory)) as found:
                    return sorted(entry for item in found if (entry := _entry(item, item.name)) is not None)
            except FileNotFoundError:
                return []

    def walk(self, directory: str) -> Iterator[Entry]:
        with _translated(directory):
            pending = [self._full(directory)]
            while pending:
                try:
                    with os.scandir(pending.pop()) as found:
                        items = list(found)
                except FileNotFoundError:
                    continue
                for item in items:
                    if item.is_dir(follow_symlinks=False):
                        pending.append(item.path)
                    elif entry := _entry(item, os.path.relpath(item.path, self.root).replace(os.sep, "/")):
                        yield entry

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            full = self._full(path)
            with _translated(full):
                if os.path.isdir(full) and not os.path.islink(full):
                    shutil.rmtree(full)
                else:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(full)

    def exists(self, path: str) -> bool:
        with _translated(path):
            try:
                os.stat(self._full(path))
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def make_dirs(self, directory: str) -> None:
        full = self._full(directory)
        with _translated(full):
            missing = []
            parent = full
            while not os.path.isdir(parent):
                missing.append(parent)
                parent = os.path.dirname(parent)
            os.makedirs(full, exist_ok=True)
            for made in missing:  # a directory is durable once its parent says so
                sync_folder(os.path.dirname(made))

    def open_input(self, path: str) -> contextlib.AbstractContextManager[Any]:
        return self.files.open_input(path)

    def probe(self) -> None:
        with _translated(self.root), contextlib.suppress(FileNotFoundError), os.scandir(self.root) as found:
            next(found, None)

    def close(self) -> None: ...

    def uri(self, path: str) -> str:
        # Not percent-encoded: Hadoop's Path takes the text as it is.
        return "file://" + self._full(path)

    def _full(self, path: str) -> str:
        full = os.path.normpath(os.path.join(self.root, path))
        if full != self.root and not full.startswith(self.root.rstrip(os.sep) + os.sep):
            raise StorageError(f"{path} lies outside the warehouse {self.root}")
        return full

    @contextlib.contextmanager
    def _temporary(self, full: str, data: bytes) -> Iterator[str]:
        """A complete, synced file next to where it shall be; gone afterwards if it is still there."""
        directory, name = os.path.split(full)
        self.make_dirs(directory)
        temporary = os.path.join(directory, f".{name}.{uuid.uuid4().hex}{TEMPORARY}")
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield temporary
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def is_local(root: str) -> bool:
    return urlsplit(root).scheme in ("", "file")


def local_path(root: str) -> str:
    """``/a``, ``file:/a`` and ``file:///a`` are one place."""
    if not root.startswith("file:"):
        return os.path.expanduser(root)
    return unquote(urlsplit(root).path)


_REMEDIES = {
    errno.ENOSPC: ("the disk is full", "free some space; what is committed is safe, and the engine goes on by itself"),
    errno.EDQUOT: ("the disk quota is used up", "free some space or ask for a larger quota"),
    errno.EACCES: ("permission is denied", "let the user that runs Headrace read and write the warehouse"),
    errno.EPERM: ("the file system does not permit it", "use a file system with hard links"),
    errno.EOPNOTSUPP: ("the file system cannot do it", "use a file system with hard links"),
    errno.EROFS: ("the file system is read-only", "mount it read-write, or choose another warehouse directory"),
    errno.EMFILE: ("too many files are open", "raise the limit with ulimit -n"),
    errno.ENOTDIR: ("a part of the path is a file", "choose another warehouse directory"),
}


def storage_error(path: str, problem: OSError) -> StorageError:
    what, hint = _REMEDIES.get(problem.errno or 0, (problem.strerror or str(problem), None))
    kind = DiskFull if problem.errno in (errno.ENOSPC, errno.EDQUOT) else StorageError
    return kind(f"cannot access {path}: {what}", hint=hint)


@contextlib.contextmanager
def _translated(path: str) -> Iterator[None]:
    """The system's errors in our words; that a file is not there stays for the caller to judge."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise storage_error(problem.filename or path, problem) from problem


def _entry(item: os.DirEntry[str], name: str) -> Entry | None:
    """Of a file, or what a link leads to, if that is one; None of all else: opening a pipe would wait for ever."""
    try:
        status = item.stat()
        return Entry(name, status.st_size, status.st_mtime) if stat.S_ISREG(status.st_mode) else None
    except OSError as problem:
        if problem.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None  # deleted while we looked, or a link that leads nowhere
        raise
