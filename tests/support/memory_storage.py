"""A Storage in memory, with faults on demand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.errors import StorageError
from headrace.state.storage import Entry


class MemoryStorage:
    root = "memory:"

    def __init__(self):
        self.files: dict[str, bytes] = {}
        self.reads: list[str] = []
        self.fail_before: set[str] = set()
        """Writing these paths fails, and nothing is written."""
        self.fail_after: set[str] = set()
        """Writing these paths fails, but the file is there: the answer got lost."""

    def read(self, path: str) -> bytes:
        self.reads.append(path)
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def write(self, path: str, data: bytes) -> None:
        if path in self.fail_before:
            raise StorageError(f"cannot access {path}: the disk is full")
        self.files[path] = data
        if path in self.fail_after:
            raise StorageError(f"cannot access {path}: the answer got lost")

    def write_new(self, path: str, data: bytes) -> bool:
        if path in self.files:
            return False
        self.write(path, data)
        return True

    def list(self, directory: str) -> list[Entry]:
        found = ((path.rpartition("/"), data) for path, data in self.files.items())
        return sorted(Entry(name, len(data), 0.0) for (parent, _, name), data in found if parent == directory)

    def walk(self, directory: str) -> Iterator[Entry]:
        yield from (
            Entry(path, len(data), 0.0) for path, data in self.files.items() if path.startswith(directory + "/")
        )

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.files.pop(path, None)

    def exists(self, path: str) -> bool:
        return path in self.files

    def make_dirs(self, directory: str) -> None:
        pass

    def uri(self, path: str) -> str:
        return f"{self.root}/{path}"
