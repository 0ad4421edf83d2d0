"""Opening a warehouse's data files from Python, inside Spark tasks.

A local path goes straight to the operating system, and a file is fsynced before a manifest names it: at once, or, what
the driver writes in an epoch, together with all that it wrote (:class:`Unsynced`). Everything else goes through
Hadoop's FileSystem (:mod:`headrace.state.hadoop_files`), so whatever storage Spark reads works here too.

A :class:`Files` travels to the executors inside a task's body; paths are relative to the warehouse.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from headrace.errors import CorruptWarehouse

FOOTER_CACHE_BYTES = 160 << 20
"""Of memory that the driver and each Python worker keep for footers."""

RESTORE = "restore it from a backup; older epochs may be whole, see SET query_epoch"


class Files(Protocol):
    root: str
    """The warehouse as Spark names it, with its scheme."""

    def open_input(self, path: str) -> AbstractContextManager[Any]:
        """A file that Arrow can read at any place. FileNotFoundError if it is not there."""

    def open_output(self, path: str) -> AbstractContextManager[Any]:
        """A binary file to write. It is complete and durable when the block ends without an error, unless somebody
        collects what is to be made durable later."""

    def open_scratch(self, path: str) -> AbstractContextManager[Any]:
        """A binary file to write that need not survive a crash, in a folder that is there."""

    def make_durable(self, path: str) -> None:
        """For a file that Spark wrote and closed."""


@dataclass(frozen=True)
class LocalFiles:
    root: str

    def open_input(self, path: str) -> AbstractContextManager[Any]:
        return pafs.LocalFileSystem().open_input_file(self._full(path))

    @contextmanager
    def open_output(self, path: str) -> Iterator[Any]:
        full = self._full(path)
        folder = os.path.dirname(full)
        try:
            stream = open(full, "wb")
        except FileNotFoundError:
            os.makedirs(folder, exist_ok=True)
            for above in (os.path.dirname(folder), os.path.dirname(os.path.dirname(folder))):
                sync_folder(above)  # a new folder is durable once the one above it says so
            stream = open(full, "wb")
        later: Unsynced | None = getattr(_COLLECTING, "unsynced", None)
        with stream:
            yield stream
            stream.flush()
            if later is None:
                os.fsync(stream.fileno())
        if later is None:
            sync_folder(folder)  # the file's name is durable only then
        else:
            later.add(full)

    def open_scratch(self, path: str) -> AbstractContextManager[Any]:
        return open(self._full(path), "wb")

    def make_durable(self, path: str) -> None:
        full = self._full(path)
        with open(full, "rb") as written:
            os.fsync(written.fileno())
        sync_folder(os.path.dirname(full))
        sync_folder(os.path.dirname(os.path.dirname(full)))

    def _full(self, path: str) -> str:
        # As Hadoop writes it: nothing is percent-encoded.
        return f"{self.root.removeprefix('file://')}/{path}"


def sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Unsynced:
    """Files that a thread has written and that are not durable yet.

    One after the other, each file would wait for the disk, and then its folder. Together they wait as long as a few.

    After a failure they are forgotten: the operating system may have dropped what it could not write, so that a second
    attempt would succeed and be wrong. Whoever needs them must write them again.
    """

    def __init__(self):
        self._files: dict[str, None] = {}

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """What this thread writes meanwhile is made durable later."""
        _COLLECTING.unsynced = self
        try:
            yield
        finally:
            _COLLECTING.unsynced = None

    def add(self, full: str) -> None:
        self._files[full] = None

    def make_durable(self, pool: Executor) -> None:
        files, self._files = self._files, {}
        # A file and the folder with its name need not wait for each other, only the manifest for both.
        folders = {os.path.dirname(each) for each in files}
        _together(pool, [*((_sync_file, each) for each in files), *((sync_folder, each) for each in folders)])


def _together(pool: Executor, todo: Iterable[tuple[Callable[[str], None], str]]) -> None:
    begun: list[Future[None]] = []
    for work, item in todo:
        try:
            begun.append(pool.submit(work, item))
        except RuntimeError:  # the program's main thread has ended: no pool takes anything more, but others go on
            work(item)
    for each in begun:
        each.result()


_COLLECTING = threading.local()


def _sync_file(full: str) -> None:
    try:
        handle = os.open(full, os.O_RDONLY)
    except FileNotFoundError:
        return  # of an attempt that failed, and removed since
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class FooterCache:
    """Footers of files that are looked into again and again, those used longest ago forgotten first.

    A footer of hundreds of row groups takes as long to parse as ten of them to read. Files never change.
    """

    def __init__(self, limit: int = FOOTER_CACHE_BYTES):
        self._limit = limit
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[str, str], pq.FileMetaData] = OrderedDict()
        self.bytes = 0

    def get(self, name: tuple[str, str]) -> pq.FileMetaData | None:
        with self._lock:
            if name in self._held:
                self._held.move_to_end(name)
            return self._held.get(name)

    def put(self, name: tuple[str, str], footer: pq.FileMetaData) -> None:
        with self._lock:
            if name not in self._held and _footer_bytes(footer) <= self._limit:
                self._held[name] = footer
                self.bytes += _footer_bytes(footer)
            while self.bytes > self._limit:
                self.bytes -= _footer_bytes(self._held.popitem(last=False)[1])


def _footer_bytes(footer: pq.FileMetaData) -> int:
    return 28 * footer.serialized_size  # as measured: 151 KB of 1,989 column chunks take 4.1 MB


FOOTERS = FooterCache()
"""Of this process: the driver, or a Python worker, which Spark uses for one task after the other."""


@contextmanager
def open_parquet(files: Files, path: str, *, footers: FooterCache | None = None) -> Iterator[pq.ParquetFile]:
    """A file of a run. What is wrong with it is said with its name."""
    name = (files.root, path)
    try:
        with files.open_input(path) as source:
            known = None if footers is None else footers.get(name)
            # Far storage is asked for neighbouring pieces at once; on a local disk that only costs threads.
            parquet = pq.ParquetFile(source, metadata=known, pre_buffer=not isinstance(files, LocalFiles))
            if footers is not None and known is None:
                footers.put(name, parquet.metadata)
            yield parquet
    except (OSError, pa.ArrowInvalid) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.ENOENT):
            raise  # the disk's fault; those of Arrow's own (a page that cannot be unpacked, say) have no number
        raise CorruptWarehouse(f"the data file {files.root}/{path} cannot be read: {error}", hint=RESTORE) from error
