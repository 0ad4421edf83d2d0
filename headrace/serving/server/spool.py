"""What a client sends and nobody may begin with before all of it is there: little is held, more waits on disk.

>>> with Spool() as spool:
...     spool.write(b"a few ")
...     spool.write(b"bytes")
...     spool.content()
b'a few bytes'
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryFile, gettempdir
from typing import IO

from headrace.state.storage import storage_error

KEPT_BYTES = 256 * 1024


class Spool:
    """A context. Its file has no name, so that it is gone with this process, however that ends."""

    def __init__(self, folder: str | None = None):
        self._folder = folder
        self._kept = bytearray()
        self._file: IO[bytes] | None = None
        self._opened = ExitStack()

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def write(self, data: bytes) -> None:
        self._kept += data
        if len(self._kept) > KEPT_BYTES:
            self._flush()

    def content(self) -> bytes | mmap.mmap:
        """All of it; not to be used after the context."""
        if self._file is None:
            return bytes(self._kept)
        self._flush()
        with self._errors():
            return self._opened.enter_context(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ))

    def _flush(self) -> None:
        with self._errors():
            if self._file is None:
                self._file = self._opened.enter_context(TemporaryFile(dir=self._folder))
            self._file.write(self._kept)
            self._file.flush()
        self._kept.clear()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise storage_error(self._folder or gettempdir(), problem) from problem
