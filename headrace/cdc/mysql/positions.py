"""Places in the binary log, as numbers that grow: the file's number, then the byte in it.

>>> at = Place.parse("mysql-bin.000012", 328)
>>> at.number == (12 << 48) + 328, Place.of("mysql-bin", at.number) == at
(True, True)
>>> str(at), file_after("mysql-bin.999999")
('mysql-bin.000012:328', 'mysql-bin.1000000')
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.cdc.problems import MalformedLog

_SHIFT = 48


@dataclass(frozen=True)
class Place:
    base: str
    """What the names of all files begin with"""
    file: int
    offset: int

    @staticmethod
    def parse(name: str, offset: int) -> Place:
        base, dot, digits = name.rpartition(".")
        if not dot or not digits.isdigit():
            raise MalformedLog(f'"{name}" is not the name of a file of the binary log')
        return Place(base, int(digits), offset)

    @staticmethod
    def of(base: str, number: int) -> Place:
        return Place(base, number >> _SHIFT, number & (1 << _SHIFT) - 1)

    @property
    def number(self) -> int:
        return self.file << _SHIFT | self.offset

    @property
    def name(self) -> str:
        return f"{self.base}.{self.file:06d}"

    def __str__(self) -> str:
        return f"{self.name}:{self.offset}"


def file_after(name: str) -> str:
    place = Place.parse(name, 0)
    return Place(place.base, place.file + 1, 0).name


@dataclass(frozen=True)
class Snapshot:
    """A place of the log: all that ends at or before it can be seen.

    How servers say which place that is differs (:mod:`headrace.cdc.mysql.flavors`). The log's end may be another: a
    transaction is in the log, and sent to replicas, before a SELECT can see it.
    """

    position: int

    def sees(self, begin: int) -> bool:
        """Whether a transaction that begins there can be seen. Between its begin and its end no such place can lie."""
        return begin < self.position
