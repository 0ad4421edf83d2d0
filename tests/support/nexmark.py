"""Nexmark, very small: an auction house's persons, auctions and bids from a seed, and the benchmark's queries.

What is left out needs a clock. The tables are written to like any others; auctions and persons also change.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator

TABLES = {
    "person": "id INT PRIMARY KEY, name VARCHAR, city VARCHAR, state VARCHAR, date_time TIMESTAMP",
    "auction": "id INT PRIMARY KEY, item_name VARCHAR, initial_bid INT, reserve INT, date_time TIMESTAMP,"
    " expires TIMESTAMP, seller INT, category INT",
    "bid": "auction INT, bidder INT, price INT, channel VARCHAR, url VARCHAR, date_time TIMESTAMP",
}


class Generator:
    def __init__(self, seed: int):
        self._random = random.Random(seed)
        self._now = datetime.datetime(2026, 1, 1)
        self._persons = self._auctions = 0

    def tables(self) -> Iterator[str]:
        for name, columns in TABLES.items():
            yield f"CREATE TABLE {name} ({columns})"

    def events(self, rounds: int, size: int = 10) -> Iterator[str]:
        pick, number = self._random.choice, self._random.randint
        for _ in range(rounds):
            persons, auctions, bids = [], [], []
            for _ in range(max(1, size // 5)):
                self._persons += 1
                state = pick(["OR", "ID", "CA", "NY"])
                persons.append(f"({self._persons}, 'name {number(1, 9)}', 'city', '{state}', {self._moment()})")
            for _ in range(max(1, size // 4)):
                self._auctions += 1
                begun = self._moment()
                ends = f"{begun} + INTERVAL '{number(5, 40)} seconds'"
                values = f"{number(1, 50)}, {number(50, 99)}, {begun}, {ends}, {number(1, self._persons)}"
                auctions.append(f"({self._auctions}, 'item', {values}, {pick([10, 11, 12])})")
            for _ in range(size):
                channel = pick(["apple", "google", "facebook"])
                bids.append(
                    f"({number(1, self._auctions)}, {number(1, self._persons)}, {number(1, 500)}, '{channel}',"
                    f" 'https://www.site.com/{pick('abc')}/{pick('def')}/item.htm', {self._moment()})"
                )
            for table, rows in (("person", persons), ("auction", auctions), ("bid", bids)):
                yield f"INSERT INTO {table} VALUES {', '.join(rows)}"
            yield f"UPDATE auction SET category = 10, seller = 1 WHERE id = {number(1, self._auctions)}"
            yield f"DELETE FROM bid WHERE auction = {number(1, self._auctions)} AND price < 250"

    def _moment(self) -> str:
        self._now += datetime.timedelta(milliseconds=self._random.randint(50, 900))
        return f"TIMESTAMP '{self._now}'"


_PER_WINDOW = "HOP(bid, date_time, INTERVAL '2 seconds', INTERVAL '10 seconds')"

QUERIES = {
    "q0": "SELECT auction, bidder, price, date_time FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, date_time FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 3 = 0",
    "q3": """SELECT p.name, p.city, p.state, a.id FROM auction AS a JOIN person AS p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q4": """SELECT category, avg(final) AS average FROM (SELECT max(b.price) AS final, a.category
        FROM auction AS a, bid AS b WHERE a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
        GROUP BY a.id, a.category) AS q GROUP BY category""",
    "q5": f"""SELECT w.auction, w.num FROM (SELECT auction, count(*) AS num, window_start AS starts FROM {_PER_WINDOW}
        GROUP BY window_start, auction) AS w JOIN (SELECT max(num) AS most, starts FROM (SELECT count(*) AS num,
        window_start AS starts FROM {_PER_WINDOW} GROUP BY auction, window_start) AS c GROUP BY starts) AS m
        ON w.starts = m.starts AND w.num >= m.most""",
    "q7": """SELECT b.auction, b.price, b.bidder, b.date_time FROM bid AS b JOIN (SELECT max(price) AS most,
        window_end AS ends FROM TUMBLE(bid, date_time, INTERVAL '10 seconds') GROUP BY window_end) AS w
        ON b.price = w.most WHERE b.date_time BETWEEN w.ends - INTERVAL '10 seconds' AND w.ends""",
    "q8": """SELECT p.id, p.name, p.starts FROM (SELECT id, name, window_start AS starts, window_end AS ends
        FROM TUMBLE(person, date_time, INTERVAL '10 seconds') GROUP BY id, name, window_start, window_end) AS p
        JOIN (SELECT seller, window_start AS starts, window_end AS ends
        FROM TUMBLE(auction, date_time, INTERVAL '10 seconds') GROUP BY seller, window_start, window_end) AS a
        ON p.id = a.seller AND p.starts = a.starts AND p.ends = a.ends""",
    "q9": """SELECT id, item_name, seller, category, bidder, price FROM (SELECT a.id, a.item_name, a.seller, a.category,
        b.bidder, b.price, row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.bidder) AS place
        FROM auction AS a JOIN bid AS b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires) AS q
        WHERE place <= 1""",
    "q11": """SELECT bidder, count(*) AS bids, window_start, window_end
        FROM SESSION(bid, date_time, INTERVAL '2 seconds', bidder) GROUP BY bidder, window_start, window_end""",
    "q15": """SELECT to_char(date_time, 'YYYY-MM-DD') AS day, count(*) AS bids,
        count(*) FILTER (WHERE price < 100) AS low, count(DISTINCT bidder) AS bidders,
        count(DISTINCT auction) FILTER (WHERE price >= 100) AS auctions FROM bid
        GROUP BY to_char(date_time, 'YYYY-MM-DD')""",
    "q16": """SELECT channel, to_char(date_time, 'YYYY-MM-DD') AS day, max(date_time) AS newest, count(*) AS bids,
        count(DISTINCT bidder) AS bidders FROM bid GROUP BY channel, to_char(date_time, 'YYYY-MM-DD')""",
    "q17": """SELECT auction, to_char(date_time, 'YYYY-MM-DD') AS day, count(*) AS bids, min(price) AS low,
        max(price) AS high, avg(price) AS average, sum(price) AS total FROM bid
        GROUP BY auction, to_char(date_time, 'YYYY-MM-DD')""",
    "q18": """SELECT auction, bidder, price, date_time FROM (SELECT *, row_number() OVER (PARTITION BY bidder, auction
        ORDER BY date_time DESC) AS place FROM bid) AS q WHERE place <= 1""",
    "q19": """SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time) AS place
        FROM bid) AS q WHERE place <= 3""",
    "q20": """SELECT b.auction, b.bidder, b.price, a.item_name, a.category FROM bid AS b JOIN auction AS a
        ON b.auction = a.id WHERE a.category = 10""",
    "q22": "SELECT auction, split_part(url, '/', 4) AS one, split_part(url, '/', 5) AS two FROM bid",
    "q101": """SELECT a.id, a.item_name, b.most FROM auction AS a LEFT JOIN (SELECT auction, max(price) AS most FROM bid
        GROUP BY auction) AS b ON a.id = b.auction""",
    "q102": """SELECT a.id, a.item_name, count(b.auction) AS bids FROM auction AS a JOIN bid AS b ON a.id = b.auction
        GROUP BY a.id, a.item_name HAVING count(b.auction) >= (SELECT count(*) / count(DISTINCT auction) FROM bid)""",
    "q103": """SELECT id, item_name FROM auction WHERE id IN (SELECT auction FROM bid GROUP BY auction
        HAVING count(*) >= 3)""",
    "q104": """SELECT id, item_name FROM auction WHERE id NOT IN (SELECT auction FROM bid GROUP BY auction
        HAVING count(*) < 3)""",
    "q105": """SELECT a.id, a.item_name, count(b.auction) AS bids FROM auction AS a JOIN bid AS b ON a.id = b.auction
        GROUP BY a.id, a.item_name ORDER BY bids DESC, a.id LIMIT 5""",
    "q106": """SELECT min(final) AS lowest FROM (SELECT a.id, max(b.price) AS final FROM auction AS a, bid AS b
        WHERE a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires GROUP BY a.id) AS q""",
}

ABOVE = {
    "q4_above": (
        "won",
        "SELECT max(b.price) AS final, a.id, a.category FROM auction AS a, bid AS b WHERE a.id = b.auction"
        " AND b.date_time BETWEEN a.date_time AND a.expires GROUP BY a.id, a.category",
        "SELECT category, avg(final) AS average FROM won GROUP BY category",
    ),
}
"""A view on a view: the lower one's name and query, and the upper one's."""
