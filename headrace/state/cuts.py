"""A partition of a result in cuts of bounded size.

What a task answers is held by the driver as a whole, so a task may answer little. A small partition it answers itself;
of a larger one it writes the rows into scratch files and answers their names. It waits for nobody meanwhile: a reader
that is slow holds up files on a disk, and no executor.

A partition comes in as Arrow batches, which Spark bounds by rows and by bytes. Serialised, each is a part. What goes
out is parts again or names of files:

>>> import tempfile
>>> from headrace.state.storage import LocalStorage
>>> storage = LocalStorage(tempfile.mkdtemp())
>>> storage.make_dirs(RESULTS)
>>> cut = CutPartition(files=storage.files, stream="7", cut_bytes=4)
>>> list(cut.answers([b"ab", b"c"]))
[b'=ab', b'=c']
>>> names = list(cut.answers([b"abc", b"de", b"fghij", b"k"]))
>>> [name[:11] for name in names]
[b'@results/7-', b'@results/7-', b'@results/7-']
>>> [list(parts_of(name, storage)) for name in names]
[[b'abc', b'de'], [b'fghij'], [b'k']]
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.errors import StorageError
from headrace.state.files import Files
from headrace.state.prepared import spare_what_stays

if TYPE_CHECKING:
    from headrace.state.storage import Storage

CUT_BYTES = 4 << 20
"""What one task answers, and what one scratch file holds; a part that is larger is a cut of its own."""

RESULTS = "results"
"""The folder of scratch files. All of it goes when a warehouse is opened."""

ANSWER = "answer"
PART, FILE = b"=", b"@"
_LENGTH = struct.Struct("!q")


@dataclass(frozen=True, kw_only=True)
class CutPartition:
    """A task body for ``mapInArrow``: rows in, answers out."""

    files: Files
    stream: str
    """Whose result it is: names of its files begin with it."""
    cut_bytes: int = CUT_BYTES

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_what_stays()
        for answer in self.answers(batch.serialize().to_pybytes() for batch in batches):
            yield pa.record_batch({ANSWER: pa.array([answer], pa.binary())})

    def answers(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        remaining = iter(parts)
        first, more = self._take(remaining)
        if not more:
            yield from (PART + part for part in first)
            return
        while first:
            yield FILE + self._write(first, remaining).encode()
            first = [part for part in [next(remaining, None)] if part is not None]

    def _take(self, parts: Iterator[bytes]) -> tuple[list[bytes], bool]:
        """As many parts as make a cut, and whether there may be more."""
        held, size = [], 0
        for part in parts:
            held.append(part)
            size += len(part)
            if size > self.cut_bytes:
                return held, True
        return held, False

    def _write(self, first: list[bytes], parts: Iterator[bytes]) -> str:
        """A file of these parts, and of others until it is large enough."""
        path = f"{RESULTS}/{self.stream}-{uuid.uuid4().hex}"
        with self.files.open_scratch(path) as output:
            size = 0
            for part in first:
                size += _put(output, part)
            while size < self.cut_bytes and (part := next(parts, None)) is not None:
                size += _put(output, part)
        return path


def _put(output, part: bytes) -> int:
    output.write(_LENGTH.pack(len(part)))
    output.write(part)
    return len(part)


def parts_of(answer: bytes, storage: Storage, *, keep: bool = False) -> Iterator[bytes]:
    """The parts that an answer is, or names. A file is deleted once it was read, unless it is to be kept."""
    kind, content = answer[:1], answer[1:]
    if kind == PART:
        yield content
        return
    path = content.decode()
    try:
        with storage.open_input(path) as source:
            while head := source.read(_LENGTH.size):
                yield source.read(*_LENGTH.unpack(head))
    except FileNotFoundError:
        raise StorageError(f"the rows of this result are gone: {path} was deleted", hint="ask for them again") from None
    if not keep:
        storage.delete([path])


def stream_of(path: str) -> str:
    """Whose scratch file it is."""
    return path.rpartition("/")[2].partition("-")[0]
