"""The deltas that views being filled may still need: those since the oldest chunk in flight was read.

A chunk is read as of one epoch and lands in a later one. What happened to its rows in between was dropped by the
filter, so it is kept here until the chunk lands and can take it along as its *late delta*. Kept are names of files,
never rows: the log is as long as a chunk takes.

The files of an arrangement backfill are copies of its own, with only the columns that it needs (the rest NULL), of rows
beyond its position; only a delta of many rows, which would be written twice, is kept by reference. So it needs nothing
of the upstream but what is committed. Without shuffle the upstream's own files are used, committed or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from headrace.backfill.job import Strategy
from headrace.state.runs import RunFile


class DeltaLog:
    def __init__(self):
        self._held: dict[tuple[Strategy, int], list[tuple[int, tuple[RunFile, ...]]]] = {}

    def record(self, strategy: Strategy, upstream_id: int, epoch: int, files: Iterable[RunFile]) -> None:
        if files := tuple(files):
            self._held.setdefault((strategy, upstream_id), []).append((epoch, files))

    def since(self, strategy: Strategy, upstream_id: int, epoch: int) -> Iterator[RunFile]:
        """The files of later epochs."""
        for at, files in self._held.get((strategy, upstream_id), []):
            if at > epoch:
                yield from files

    def forget_upto(self, epoch: int) -> None:
        self._keep(lambda at: at > epoch)

    def forget_after(self, epoch: int) -> None:
        """Epochs that were given up."""
        self._keep(lambda at: at <= epoch)

    def clear(self) -> None:
        self._held = {}

    def paths(self) -> Iterator[str]:
        for entries in list(self._held.values()):
            for _, files in list(entries):
                yield from (file.path for file in files)

    def _keep(self, wanted: Callable[[int], bool]) -> None:
        kept = {key: [entry for entry in entries if wanted(entry[0])] for key, entries in self._held.items()}
        self._held = {key: entries for key, entries in kept.items() if entries}
