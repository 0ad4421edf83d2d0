"""connector = 'nexmark': people, auctions and bids of the Nexmark benchmark, worked out from their numbers.

    CREATE SOURCE bid (auction BIGINT, bidder BIGINT, price BIGINT, date_time TIMESTAMP)
    WITH (connector = 'nexmark', nexmark.table.type = 'Bid', nexmark.event.num = '1000000')

Of every 50 events one is a person, three are auctions and 46 bids. Each of the three is a source of its own, and they
fit together: bids are on auctions that there are, by people that there are. As in Nexmark's own generator some of them
are *hot*: most bids, for a while, are on one auction and by one person.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from headrace.errors import InvalidDefinition, InvalidParameterValue
from headrace.sources.definition import Definition, whole_number
from headrace.sources.generated import Generator, connector, mixed

TYPE, EVENTS, RATE, SPLITS, SEED, GAP = (
    "nexmark.table.type", "nexmark.event.num", "nexmark.events.per.second", "nexmark.split.num", "nexmark.seed",
    "nexmark.min.event.gap.in.ns",
)  # fmt: skip
SELLER, AUCTION, BIDDER, CHANNEL = (f"nexmark.hot.{each}.ratio" for each in ("seller", "auction", "bidder", "channel"))
RATIOS = {SELLER: 4, AUCTION: 2, BIDDER: 4, CHANNEL: 2}
"""Of so many rows all but one refer to what is hot"""
OPTIONS = {TYPE, EVENTS, RATE, SPLITS, SEED, GAP, *RATIOS}
EPOCH = 50
"""Events of which one is a person, three are auctions, and the rest bids"""
SHARES = {"person": (0, 1), "auction": (1, 3), "bid": (4, 46)}
"""Where in those they begin, and how many there are"""
BEGAN = 1_436_918_400_000_000
"""The time of the first event, in microseconds: 2015-07-15"""

HOT = 100
"""Of so many people, or auctions, the first is the hot one until there are as many again"""
ACTIVE_PEOPLE, OPEN_AUCTIONS = 1000, 100
"""The last ones, of which others than the hot ones are taken"""
NUMBERED_CHANNELS = 10_000
"""Besides the hot ones, which have names"""

_CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent")
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")


def check(definition: Definition) -> None:
    definition.refuse_format()
    definition.check_options(OPTIONS)
    definition.check_include(("partition", "offset"))
    generator = Nexmark.of(definition, 0.0, skewed=True)
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
    gap: int
    """Nanoseconds from one event to the next"""
    ratios: Mapping[str, int]
    """Of what is hot. Empty: of a source that was created when nothing was, whose rows stay what they were"""

    @staticmethod
    def of(definition: Definition, created_at: float, skewed: bool = False) -> Nexmark:
        """``skewed`` is known of every source since there is something hot."""
        options = definition.option
        table = options.get(TYPE, "").lower()
        if table not in SHARES:
            raise InvalidParameterValue(f"{TYPE} cannot be '{options.get(TYPE)}'", hint="it is Person, Auction or Bid")
        ratios = {name: whole_number(options, name, usual, least=1) for name, usual in RATIOS.items()}
        return Nexmark(
            definition=definition,
            table=table,
            splits=whole_number(options, SPLITS, 1, least=1, most=1024),
            rate=whole_number(options, RATE, 1000, least=1) if RATE in options or EVENTS not in options else None,
            limit=whole_number(options, EVENTS, 0) if EVENTS in options else None,
            seed=whole_number(options, SEED, 0),
            gap=whole_number(options, GAP, 100_000, least=1, most=10**9),
            ratios=ratios if skewed else {},
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
                "expires": self._expiries,
                "seller": lambda n: self._referred(n, n // 3, SELLER, 6, ACTIVE_PEOPLE),
                "category": lambda n: pa.array(10 + self._up_to(n, 7, 5)),
                "extra": lambda n: _texts(self._drawn(n, 8), "{0:016x}"),
            }  # fmt: skip
        return {
            "auction": lambda n: self._referred(n, n // 46 * 3, AUCTION, 1, OPEN_AUCTIONS),
            "bidder": lambda n: self._referred(n, n // 46, BIDDER, 2, ACTIVE_PEOPLE),
            "price": lambda n: self._prices(n, 3),
            "channel": self._channels,
            "url": self._urls,
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

    def _referred(self, numbers: np.ndarray, last: np.ndarray, ratio: str, column: int, active: int) -> pa.Array:
        """Auctions, or people, of which there are some, up to the last one."""
        if not self.ratios:
            return pa.array(1000 + np.maximum(0, last - self._up_to(last * 31 + column, column, 100)))
        back = (self._drawn(numbers, column) % np.minimum(last + 1, active).astype(np.uint64)).astype(np.int64)
        return pa.array(1000 + np.where(self._hot(numbers, ratio), last // HOT * HOT, last - back))

    def _hot(self, numbers: np.ndarray, ratio: str) -> np.ndarray:
        return self._up_to(numbers, 9 + list(RATIOS).index(ratio), self.ratios[ratio]) > 0

    def _expiries(self, numbers: np.ndarray) -> pa.Array:
        """When about as many auctions have begun as may be open, or as late as twice that."""
        horizon = 2 * OPEN_AUCTIONS * EPOCH // SHARES["auction"][1] * self.gap // 1000 if self.ratios else 10**8
        return _times(self._micros(numbers) + self._up_to(numbers, 5, max(1, horizon)))

    def _channels(self, numbers: np.ndarray) -> pa.Array:
        if not self.ratios:
            return _chosen(_CHANNELS, self._drawn(numbers, 4))
        return channels(self.seed)[0].take(self._channel_numbers(numbers))

    def _urls(self, numbers: np.ndarray) -> pa.Array:
        if not self.ratios:
            return _texts(self._drawn(numbers, 5), "https://www.nexmark.com/{0:08x}/item.htm")
        return channels(self.seed)[1].take(self._channel_numbers(numbers))

    def _channel_numbers(self, numbers: np.ndarray) -> pa.Array:
        named, numbered = (self._up_to(numbers, 4, bound) for bound in (len(_CHANNELS), NUMBERED_CHANNELS))
        return pa.array(np.where(self._hot(numbers, CHANNEL), named, len(_CHANNELS) + numbered))

    def _micros(self, numbers: np.ndarray) -> np.ndarray:
        first, share = SHARES[self.table]
        events = numbers // share * EPOCH + first + numbers % share
        return BEGAN + events * self.gap // 1000

    def _moments(self, numbers: np.ndarray) -> pa.Array:
        return _times(self._micros(numbers))


def _times(micros: np.ndarray) -> pa.Array:
    return pa.array(micros).cast(pa.timestamp("us"))


def _chosen(words: tuple[str, ...], drawn: np.ndarray) -> pa.Array:
    return pa.array(words).take(pa.array((drawn % np.uint64(len(words))).astype(np.int64)))


def _texts(drawn: np.ndarray, pattern: str) -> pa.Array:
    return pa.array([pattern.format(each) for each in drawn.tolist()], pa.string())


@cache
def channels(seed: int) -> tuple[pa.Array, pa.Array]:
    """Names and URLs: a channel has one URL. Nine of ten that are not hot say in it which they are."""
    names = [*_CHANNELS, *(f"channel-{number}" for number in range(NUMBERED_CHANNELS))]
    urls = []
    for at, drawn in enumerate(mixed(np.arange(len(names)), seed * 64 + 63).tolist()):
        path = f"{drawn:016x}"
        said = "" if at < len(_CHANNELS) or drawn % 10 == 0 else f"&channel_id={drawn >> 33}"
        urls.append(f"https://www.nexmark.com/{path[:5]}/{path[5:10]}/{path[10:15]}/item.htm?query=1{said}")
    return pa.array(names), pa.array(urls)


CONNECTOR = connector(check, Nexmark.of, skewed=True)
