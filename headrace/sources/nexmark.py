"""connector = 'nexmark': people, auctions and bids of the Nexmark benchmark, worked out from their numbers.

    CREATE SOURCE bid (auction BIGINT, bidder BIGINT, price BIGINT, date_time TIMESTAMP)
    WITH (connector = 'nexmark', nexmark.table.type = 'Bid', nexmark.event.num = '1000000')

Of every 50 events one is a person, three are auctions and 46 bids. Each of the three is a source of its own, and they
fit together: bids are on auctions that there are, by people that there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.errors import InvalidDefinition, InvalidParameterValue
from headrace.sources.definition import Definition, whole_number
from headrace.sources.generated import Generator, connector, mixed

TYPE, EVENTS, RATE, SPLITS, SEED = (
    "nexmark.table.type", "nexmark.event.num", "nexmark.events.per.second", "nexmark.split.num", "nexmark.seed",
)  # fmt: skip
OPTIONS = {TYPE, EVENTS, RATE, SPLITS, SEED}
EPOCH = 50
"""Events of which one is a person, three are auctions, and the rest bids"""
SHARES = {"person": (0, 1), "auction": (1, 3), "bid": (4, 46)}
"""Where in those they begin, and how many there are"""
BEGAN = 1_436_918_400_000_000
"""The time of the first event, in microseconds: 2015-07-15"""

_CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent")
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")


def check(definition: Definition) -> None:
    definition.refuse_format()
    definition.check_options(OPTIONS)
    definition.check_include(("partition", "offset"))
    generator = Nexmark.of(definition, 0.0)
    for name, kind in definition.columns:
        if name not in generator.makers:
            raise InvalidDefinition(
                f'{generator.table} of Nexmark has no column "{name}"', hint=f"it has: {', '.join(generator.makers)}"
            )
        try:
            generator.makers[name](np.arange(1)).cast(kind.arrow)
        except pa.ArrowException:
            raise InvalidDefinition(f'column "{name}" of Nexmark cannot be of type {kind}') from None


@dataclass(frozen=True, kw_only=True)
class Nexmark(Generator):
    table: str
    rate: int | None
    limit: int | None
    seed: int

    @staticmethod
    def of(definition: Definition, created_at: float) -> Nexmark:
        options = definition.option
        table = options.get(TYPE, "").lower()
        if table not in SHARES:
            raise InvalidParameterValue(f"{TYPE} cannot be '{options.get(TYPE)}'", hint="it is Person, Auction or Bid")
        return Nexmark(
            definition=definition,
            table=table,
            splits=whole_number(options, SPLITS, 1, least=1, most=1024),
            rate=whole_number(options, RATE, 1000, least=1) if RATE in options or EVENTS not in options else None,
            limit=whole_number(options, EVENTS, 0) if EVENTS in options else None,
            seed=whole_number(options, SEED, 0),
            created_at=created_at,
        )

    def count(self, now: float) -> int:
        """Without a rate all of them are there at once."""
        events = max(0, int((now - self.created_at) * self.rate)) if self.rate is not None else self.limit or 0
        events = events if self.limit is None else min(events, self.limit)
        first, share = SHARES[self.table]
        return events // EPOCH * share + min(max(events % EPOCH - first, 0), share)

    def columns(self, numbers: np.ndarray) -> dict[str, pa.Array]:
        return {name: self.makers[name](numbers) for name, _ in self.definition.columns}

    @property
    def makers(self) -> dict[str, Callable[[np.ndarray], pa.Array]]:
        """Columns by name, each from the numbers of rows."""
        if self.table == "person":
            return {
                "id": lambda n: pa.array(1000 + n),
                "name": lambda n: _chosen(_NAMES, self._drawn(n, 1)),
                "email_address": lambda n: _texts(self._drawn(n, 2), "{0:08x}@example.com"),
                "credit_card": lambda n: _texts(self._drawn(n, 3) % np.uint64(10**16), "{0:016d}"),
                "city": lambda n: _chosen(_CITIES, self._drawn(n, 4)),
                "state": lambda n: _chosen(_STATES, self._drawn(n, 5)),
                "date_time": self._moments,
                "extra": lambda n: _texts(self._drawn(n, 6), "{0:016x}"),
            }
        if self.table == "auction":
            return {
                "id": lambda n: pa.array(1000 + n),
                "item_name": lambda n: _texts(self._drawn(n, 1), "item {0:06x}"),
                "description": lambda n: _texts(self._drawn(n, 2), "a thing {0:016x}"),
                "initial_bid": lambda n: self._prices(n, 3),
                "reserve": lambda n: pa.array(
                    self._prices(n, 3).to_numpy() + self._prices(n, 4).to_numpy()
                ),
                "date_time": self._moments,
                "expires": lambda n: _times(self._micros(n) + self._up_to(n, 5, 10**8)),
                "seller": lambda n: self._recent(n // 3, 6),
                "category": lambda n: pa.array(10 + self._up_to(n, 7, 5)),
                "extra": lambda n: _texts(self._drawn(n, 8), "{0:016x}"),
            }  # fmt: skip
        return {
            "auction": lambda n: self._recent(n // 46 * 3, 1),
            "bidder": lambda n: self._recent(n // 46, 2),
            "price": lambda n: self._prices(n, 3),
            "channel": lambda n: _chosen(_CHANNELS, self._drawn(n, 4)),
            "url": lambda n: _texts(self._drawn(n, 5), "https://www.nexmark.com/{0:08x}/item.htm"),
            "date_time": self._moments,
            "extra": lambda n: _texts(self._drawn(n, 6), "{0:016x}"),
        }

    def _drawn(self, numbers: np.ndarray, column: int) -> np.ndarray:
        return mixed(numbers, self.seed * 64 + list(SHARES).index(self.table) * 16 + column)

    def _up_to(self, numbers: np.ndarray, column: int, bound: int) -> np.ndarray:
        return (self._drawn(numbers, column) % np.uint64(bound)).astype(np.int64)

    def _prices(self, numbers: np.ndarray, column: int) -> pa.Array:
        fraction = (self._drawn(numbers, column) >> np.uint64(11)).astype(np.float64) / float(1 << 53)
        return pa.array(np.round(10 ** (fraction * 6) * 100).astype(np.int64))

    def _recent(self, existing: np.ndarray, column: int) -> pa.Array:
        """One of the last hundred of those that there are by then."""
        back = self._up_to(existing * 31 + column, column, 100)
        return pa.array(1000 + np.maximum(0, existing - back))

    def _micros(self, numbers: np.ndarray) -> np.ndarray:
        first, share = SHARES[self.table]
        events = numbers // share * EPOCH + first + numbers % share
        return BEGAN + events * (1_000_000 // 10_000)

    def _moments(self, numbers: np.ndarray) -> pa.Array:
        return _times(self._micros(numbers))


def _times(micros: np.ndarray) -> pa.Array:
    return pa.array(micros).cast(pa.timestamp("us"))


def _chosen(words: tuple[str, ...], drawn: np.ndarray) -> pa.Array:
    return pa.array(words).take(pa.array((drawn % np.uint64(len(words))).astype(np.int64)))


def _texts(drawn: np.ndarray, pattern: str) -> pa.Array:
    return pa.array([pattern.format(each) for each in drawn.tolist()], pa.string())


CONNECTOR = connector(check, Nexmark.of)
