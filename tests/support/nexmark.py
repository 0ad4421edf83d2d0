"""Nexmark, very small: an auction house's persons, auctions and bids from a seed, and the benchmark's queries.

All of q0 to q22, and RisingWave's q101 to q106. The tables are written to like any others; auctions also change, and
bids go. Four queries are not word for word what Nexmark has:

* q6 takes the winning bid of an auction by row_number(), as RisingWave does: Nexmark's own text shows a column that it
  does not group by, which is no SQL.
* q10 is its query. That Nexmark writes the rows to files is a sink's doing, and there are none.
* q12 has windows of the time at which rows came. That is a column with DEFAULT now(), which is evaluated once and kept;
  the time at which a query is *computed* would be another one each time.
* q13 is a join with a table: the side input does not change, so that one looked up once would give the same.
"""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Iterator

TABLES = {
    "person": "id INT PRIMARY KEY, name VARCHAR, city VARCHAR, state VARCHAR, date_time TIMESTAMP",
    "auction": "id INT PRIMARY KEY, item_name VARCHAR, initial_bid INT, reserve INT, date_time TIMESTAMP,"
    " expires TIMESTAMP, seller INT, category INT",
    "bid": "auction INT, bidder INT, price INT, channel VARCHAR, url VARCHAR, date_time TIMESTAMP,"
    " arrived TIMESTAMPTZ DEFAULT now()",
    "side_input": "key INT PRIMARY KEY, value VARCHAR",
}


class Generator:
    def __init__(self, seed: int):
        self._random = random.Random(seed)
        self._now = datetime.datetime(2026, 1, 1)
        self._persons = self._auctions = 0

    def tables(self) -> Iterator[str]:
        for name, columns in TABLES.items():
            yield f"CREATE TABLE {name} ({columns})"
        yield "INSERT INTO side_input SELECT g, 'value ' || g FROM generate_series(0, 6, 2) AS g"

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
                channel, query = pick([("apple", ""), ("Google", ""), ("c1", "?q=1&channel_id=c1"), ("c2", "")])
                bids.append(
                    f"({number(1, self._auctions)}, {number(1, self._persons)}, {number(1, 500)}, '{channel}',"
                    f" 'https://www.site.com/{pick('abc')}/{pick('def')}/item.htm{query}', {self._moment()})"
                )
            for table, rows in (("person", persons), ("auction", auctions), ("bid", bids)):
                yield f"INSERT INTO {table} VALUES {', '.join(rows)}"
            yield f"UPDATE auction SET category = 10, seller = 1 WHERE id = {number(1, self._auctions)}"
            yield f"DELETE FROM bid WHERE auction = {number(1, self._auctions)} AND price < 250"

    def _moment(self) -> str:
        self._now += datetime.timedelta(milliseconds=self._random.randint(50, 900))
        return f"TIMESTAMP '{self._now}'"


_READ = re.compile(rf"(\b(?:FROM|JOIN)\s+|,\s+(?=\w+ AS )|\b(?:HOP|TUMBLE|SESSION)\()({'|'.join(TABLES)})\b")


def on_views(query: str) -> str:
    """The query over views in place of tables.

    >>> on_views("SELECT b.auction, bidder FROM auction AS a, bid AS b JOIN person ON true")
    'SELECT b.auction, bidder FROM v_auction AS a, v_bid AS b JOIN v_person ON true'
    """
    return _READ.sub(r"\1v_\2", query)


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
    "q6": """SELECT seller, avg(final) OVER (PARTITION BY seller ORDER BY date_time, id
        ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS average
        FROM (SELECT a.id, a.seller, b.price AS final, b.date_time,
        row_number() OVER (PARTITION BY a.id, a.seller ORDER BY b.price DESC, b.date_time, b.bidder) AS place
        FROM auction AS a, bid AS b WHERE a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires) AS q
        WHERE place <= 1""",
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
    "q10": """SELECT auction, bidder, price, date_time, to_char(date_time, 'YYYY-MM-DD') AS day,
        to_char(date_time, 'HH24:MI') AS minute FROM bid""",
    "q11": """SELECT bidder, count(*) AS bids, window_start, window_end
        FROM SESSION(bid, date_time, INTERVAL '2 seconds', bidder) GROUP BY bidder, window_start, window_end""",
    # Nexmark counts letters of a column "extra", which these tables do not have.
    "q14": """SELECT auction, bidder, 0.908 * price AS price, CASE WHEN extract(hour FROM date_time) BETWEEN 8 AND 18
        THEN 'dayTime' WHEN extract(hour FROM date_time) <= 6 OR extract(hour FROM date_time) >= 20 THEN 'nightTime'
        ELSE 'otherTime' END AS kind, date_time, length(url) - length(replace(url, 'c', '')) AS letters FROM bid
        WHERE 0.908 * price > 100 AND 0.908 * price < 400""",
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
    "q21": """SELECT auction, bidder, price, channel, CASE WHEN lower(channel) = 'apple' THEN '0'
        WHEN lower(channel) = 'google' THEN '1' WHEN lower(channel) = 'facebook' THEN '2'
        WHEN lower(channel) = 'baidu' THEN '3' ELSE (regexp_match(url, '(&|^)channel_id=([^&]*)'))[2] END AS channel_id
        FROM bid WHERE (regexp_match(url, '(&|^)channel_id=([^&]*)'))[2] IS NOT NULL
        OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
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

WITH_MORE_COLUMNS = {
    "q12": """SELECT bidder, count(*) AS bids, window_start, window_end FROM TUMBLE(bid, arrived, INTERVAL '10 seconds')
        GROUP BY bidder, window_start, window_end""",
    "q13": """SELECT b.auction, b.bidder, b.price, b.date_time, s.value FROM bid AS b JOIN side_input AS s
        ON b.auction % 10 = s.key""",
}
"""Queries of what the benchmark's tables do not have."""

LOWER = {
    "won": """SELECT max(b.price) AS final, a.id, a.category FROM auction AS a, bid AS b WHERE a.id = b.auction
        AND b.date_time BETWEEN a.date_time AND a.expires GROUP BY a.id, a.category""",
    "winning": """SELECT id, item_name, seller, category, bidder, price, date_time
        FROM (SELECT a.id, a.item_name, a.seller, a.category, b.bidder, b.price, b.date_time,
        row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.bidder) AS place
        FROM auction AS a JOIN bid AS b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires) AS q
        WHERE place <= 1""",
    "counted": f"""SELECT auction, count(*) AS num, window_start AS starts FROM {_PER_WINDOW}
        GROUP BY window_start, auction""",
    "most_counted": "SELECT max(num) AS most, starts FROM counted GROUP BY starts",
    "highest": """SELECT max(price) AS most, window_end AS ends FROM TUMBLE(bid, date_time, INTERVAL '10 seconds')
        GROUP BY window_end""",
    "newcomers": """SELECT id, name, window_start AS starts, window_end AS ends
        FROM TUMBLE(person, date_time, INTERVAL '10 seconds') GROUP BY id, name, window_start, window_end""",
    "sellers": """SELECT seller, window_start AS starts, window_end AS ends
        FROM TUMBLE(auction, date_time, INTERVAL '10 seconds') GROUP BY seller, window_start, window_end""",
    "of_bidders": """SELECT channel, to_char(date_time, 'YYYY-MM-DD') AS day, bidder, max(date_time) AS newest,
        count(*) AS bids FROM bid GROUP BY channel, to_char(date_time, 'YYYY-MM-DD'), bidder""",
    "of_auctions": "SELECT auction, count(*) AS bids FROM bid GROUP BY auction",
}
"""Views for others to stand on: winning bids, windows, counts. Each comes after those that it reads itself."""

ABOVE = {
    "q4_above": "SELECT category, avg(final) AS average FROM won GROUP BY category",
    "q5_above": """SELECT c.auction, c.num FROM counted AS c JOIN most_counted AS m ON c.starts = m.starts
        AND c.num >= m.most""",
    "q6_above": """SELECT seller, avg(price) OVER (PARTITION BY seller ORDER BY date_time, id
        ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS average FROM winning""",
    "q7_above": """SELECT b.auction, b.price, b.bidder, b.date_time FROM bid AS b JOIN highest AS w ON b.price = w.most
        WHERE b.date_time BETWEEN w.ends - INTERVAL '10 seconds' AND w.ends""",
    "q8_above": """SELECT p.id, p.name, p.starts FROM newcomers AS p JOIN sellers AS s
        ON p.id = s.seller AND p.starts = s.starts AND p.ends = s.ends""",
    "q9_above": "SELECT id, item_name, seller, category, bidder, price FROM winning",
    "q16_above": """SELECT channel, day, max(newest) AS newest, sum(bids)::bigint AS bids, count(*) AS bidders
        FROM of_bidders GROUP BY channel, day""",
    "q102_above": """SELECT a.id, a.item_name, c.bids FROM auction AS a JOIN of_auctions AS c ON a.id = c.auction
        WHERE c.bids >= (SELECT sum(bids)::bigint / count(*) FROM of_auctions)""",
    "q103_above": "SELECT id, item_name FROM auction WHERE id IN (SELECT auction FROM of_auctions WHERE bids >= 3)",
    "q105_above": """SELECT a.id, a.item_name, c.bids FROM auction AS a JOIN of_auctions AS c ON a.id = c.auction
        ORDER BY c.bids DESC, a.id LIMIT 5""",
    "q106_above": "SELECT min(final) AS lowest FROM won",
}
"""The same queries in layers, on views of :data:`LOWER` and on tables: each says what it says without "above"."""


def below(query: str) -> list[str]:
    """The views that a query in layers stands on, those first that others read.

    >>> below(ABOVE["q5_above"]), below(ABOVE["q106_above"]), below(QUERIES["q5"])
    (['counted', 'most_counted'], ['won'], [])
    """
    found: dict[str, None] = {}
    for name, lower in LOWER.items():
        if re.search(rf"\b{name}\b", query):
            found |= dict.fromkeys([*below(lower), name])
    return [*found]
