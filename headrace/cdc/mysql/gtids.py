"""Sets of transactions, by the numbers (GTIDs) that servers give them.

MariaDB counts in each domain, so the last number of a domain stands for all before it:

>>> known = MariaDbGtids.parse("1-1-3,0-1-25")
>>> known.add(Gtid(source="0", server=2, number=26)); str(known)
'0-2-26,1-1-3'

MySQL counts per server (and tag), and there can be gaps:

>>> known = MysqlGtids.parse("6d5e-1:1-3:5,\\n6d5e-1:tag:7")
>>> known.add(Gtid(source="6d5e-1", server=1, number=4)); str(known)
'6d5e-1:1-5,6d5e-1:tag:7'
>>> MysqlGtids.parse("6d5e-1:2-4") <= known, known <= MysqlGtids.parse("6d5e-1:1-9")
(True, False)
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple, Self


class Gtid(NamedTuple):
    source: str
    """MariaDB: the domain; MySQL: the server's UUID, and its tag, if it has one"""
    server: int
    number: int
    standalone: bool | None = False
    """Whether the transaction is one statement, and has no end of its own; None: its first statement says so"""
    prepared: bool = False
    """Whether it is the first phase of a distributed one"""


class MariaDbGtids:
    def __init__(self, last: dict[str, tuple[int, int]]):
        self._last = last
        """By domain: who wrote the last one, and its number"""

    @classmethod
    def parse(cls, text: str) -> Self:
        each = (part.strip().split("-") for part in text.split(",") if part.strip())
        return cls({domain: (int(server), int(number)) for domain, server, number in each})

    def add(self, gtid: Gtid) -> None:
        self._last[gtid.source] = (gtid.server, gtid.number)

    def __contains__(self, gtid: Gtid) -> bool:
        return self._last.get(gtid.source, (0, 0))[1] >= gtid.number

    def __str__(self) -> str:
        shown = (f"{domain}-{server}-{number}" for domain, (server, number) in self._last.items())
        return ",".join(sorted(shown))


class MysqlGtids:
    def __init__(self, ranges: dict[str, list[tuple[int, int]]]):
        self._ranges = ranges
        """By source: from the first to the last, in order, none touching the next"""

    @classmethod
    def parse(cls, text: str) -> Self:
        found = cls({})
        for part in text.split(","):
            uuid, *rest = part.strip().split(":")
            source = uuid.lower()
            for item in rest:
                if not item[0].isdigit():
                    source = f"{uuid.lower()}:{item}"
                    continue
                first, _, last = item.partition("-")
                found._add(source, int(first), int(last or first))
        return found

    def add(self, gtid: Gtid) -> None:
        self._add(gtid.source, gtid.number, gtid.number)

    def update(self, other: MysqlGtids) -> None:
        for source, ranges in other._ranges.items():
            for first, last in ranges:
                self._add(source, first, last)

    def _add(self, source: str, first: int, last: int) -> None:
        ranges = self._ranges.setdefault(source, [])
        if ranges and ranges[-1][0] <= first <= ranges[-1][1] + 1:  # as nearly always: the next one
            ranges[-1] = (ranges[-1][0], max(last, ranges[-1][1]))
            return
        ranges.insert(bisect_left(ranges, (first, last)), (first, last))
        merged = ranges[:1]
        for begin, end in ranges[1:]:
            if begin <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((begin, end))
        self._ranges[source] = merged

    def __le__(self, other: MysqlGtids) -> bool:
        return all(
            any(begin <= first and last <= end for begin, end in other._ranges.get(source, ()))
            for source, ranges in self._ranges.items()
            for first, last in ranges
        )

    def without(self, other: MysqlGtids) -> MysqlGtids:
        """Those of a small set that another has not.

        >>> str(MysqlGtids.parse("a:1-3,b:5").without(MysqlGtids.parse("a:2")))
        'a:1:3,b:5'
        """
        found = MysqlGtids({})
        for source, ranges in self._ranges.items():
            for number in (number for first, last in ranges for number in range(first, last + 1)):
                if not any(first <= number <= last for first, last in other._ranges.get(source, ())):
                    found._add(source, number, number)
        return found

    def __bool__(self) -> bool:
        return any(self._ranges.values())

    def __str__(self) -> str:
        return ",".join(
            source + "".join(f":{first}" if first == last else f":{first}-{last}" for first, last in ranges)
            for source, ranges in sorted(self._ranges.items())
        )


Gtids = MariaDbGtids | MysqlGtids


def owned(text: str) -> MysqlGtids:
    """Those that MySQL says are on their way (``gtid_owned``), of whatever connections.

    >>> str(owned("6d5e-1:23#8#9:24#11,\\n7f00-2:t:5#7"))
    '6d5e-1:23-24,7f00-2:t:5'
    """
    plain = ",".join(
        ":".join(item.partition("#")[0] for item in part.strip().split(":")) for part in text.split(",") if part.strip()
    )
    return MysqlGtids.parse(plain) if plain else MysqlGtids({})
