"""TPC-H, very small: its tables, rows from a seed, a stream of changes, and its 22 queries.

Constants in the queries are such that so few rows still give every query something to say.
"""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Iterator

TABLES = {
    "region": "r_regionkey INT PRIMARY KEY, r_name VARCHAR",
    "nation": "n_nationkey INT PRIMARY KEY, n_name VARCHAR, n_regionkey INT",
    "supplier": "s_suppkey INT PRIMARY KEY, s_name VARCHAR, s_address VARCHAR, s_nationkey INT, s_phone VARCHAR,"
    " s_acctbal NUMERIC(12, 2), s_comment VARCHAR",
    "customer": "c_custkey INT PRIMARY KEY, c_name VARCHAR, c_address VARCHAR, c_nationkey INT, c_phone VARCHAR,"
    " c_acctbal NUMERIC(12, 2), c_mktsegment VARCHAR, c_comment VARCHAR",
    "part": "p_partkey INT PRIMARY KEY, p_name VARCHAR, p_mfgr VARCHAR, p_brand VARCHAR, p_type VARCHAR, p_size INT,"
    " p_container VARCHAR, p_retailprice NUMERIC(12, 2)",
    "partsupp": "ps_partkey INT, ps_suppkey INT, ps_availqty INT, ps_supplycost NUMERIC(12, 2),"
    " PRIMARY KEY (ps_partkey, ps_suppkey)",
    "orders": "o_orderkey INT PRIMARY KEY, o_custkey INT, o_orderstatus VARCHAR, o_totalprice NUMERIC(12, 2),"
    " o_orderdate DATE, o_orderpriority VARCHAR, o_shippriority INT, o_comment VARCHAR",
    "lineitem": "l_orderkey INT, l_linenumber INT, l_partkey INT, l_suppkey INT, l_quantity NUMERIC(12, 2),"
    " l_extendedprice NUMERIC(12, 2), l_discount NUMERIC(12, 2), l_tax NUMERIC(12, 2), l_returnflag VARCHAR,"
    " l_linestatus VARCHAR, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct VARCHAR,"
    " l_shipmode VARCHAR, PRIMARY KEY (l_orderkey, l_linenumber)",
}

REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
NATIONS = ["FRANCE", "GERMANY", "BRAZIL", "CANADA", "JAPAN", "INDIA", "SAUDI ARABIA", "KENYA"]
SEGMENTS = ["BUILDING", "AUTOMOBILE", "MACHINERY"]
TYPES = ["ECONOMY ANODIZED STEEL", "PROMO BRUSHED TIN", "LARGE POLISHED BRASS", "MEDIUM POLISHED COPPER"]
MODES = ["MAIL", "SHIP", "AIR", "AIR REG", "TRUCK"]
PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "5-LOW"]


class Generator:
    def __init__(self, seed: int, orders: int):
        self._random = random.Random(seed)
        self._orders = orders
        self._next_order = 1

    def load(self) -> Iterator[str]:
        """Statements that create the tables and fill them."""
        pick, number = self._random.choice, self._random.randint
        for name, columns in TABLES.items():
            yield f"CREATE TABLE {name} ({columns})"
        yield _insert("region", [(key, name) for key, name in enumerate(REGIONS)])
        yield _insert("nation", [(key, name, key % len(REGIONS)) for key, name in enumerate(NATIONS)])
        suppliers = max(len(NATIONS), self._orders // 12)
        yield _insert(
            "supplier",
            [
                (key, f"Supplier {key}", f"street {key}", key % len(NATIONS), f"{10 + key % len(NATIONS)}-555",
                 self._money(-900, 9000), pick(["ok", "Customer stuff Complaints", "fine"]))
                for key in range(suppliers)
            ],
        )  # fmt: skip
        self._customers = max(12, self._orders // 3)
        nations = [number(0, len(NATIONS) - 1) for _ in range(self._customers)]
        yield _insert(
            "customer",
            [
                (key, f"Customer {key}", f"lane {key}", nation, f"{10 + nation}-777", self._money(-900, 9000),
                 pick(SEGMENTS), "nothing")
                for key, nation in enumerate(nations)
            ],
        )  # fmt: skip
        self._parts = max(10, self._orders // 6)
        yield _insert(
            "part",
            [
                (key, f"{pick(['green', 'forest', 'blue'])} {pick(['almond', 'lace'])}", f"Manufacturer#{number(1, 3)}",
                 f"Brand#{pick([12, 23, 34])}", pick(TYPES), number(1, 15), pick(["MED BOX", "SM CASE", "LG CASE"]),
                 self._money(900, 2000))
                for key in range(self._parts)
            ],
        )  # fmt: skip
        self._suppliers_of = [self._random.sample(range(suppliers), 3) for _ in range(self._parts)]
        yield _insert(
            "partsupp",
            [
                (part, supplier, number(1, 200), self._money(1, 100))
                for part, of_it in enumerate(self._suppliers_of)
                for supplier in of_it
            ],
        )
        yield from self._new_orders(self._orders)

    def changes(self, rounds: int) -> Iterator[str]:
        """Orders that come and go, and rows that change, those of other tables among them."""
        for _ in range(rounds):
            yield from self._new_orders(max(2, self._orders // 20))
            gone = self._random.randrange(1, self._next_order)
            yield f"DELETE FROM lineitem WHERE l_orderkey = {gone}"
            yield f"DELETE FROM orders WHERE o_orderkey = {gone}"
            at = self._random.randrange(1, self._next_order)
            yield f"UPDATE lineitem SET l_quantity = l_quantity + 7, l_discount = 0.06 WHERE l_orderkey = {at}"
            yield f"UPDATE orders SET o_custkey = {self._who_orders()} WHERE o_orderkey = {at}"
            yield f"UPDATE supplier SET s_nationkey = {self._random.randrange(len(NATIONS))} WHERE s_suppkey = 1"
            part = self._random.randrange(self._parts)
            yield f"UPDATE partsupp SET ps_supplycost = ps_supplycost / 2 WHERE ps_partkey = {part}"

    def _new_orders(self, count: int) -> Iterator[str]:
        pick, number = self._random.choice, self._random.randint
        orders, items = [], []
        for _ in range(count):
            key, self._next_order = self._next_order, self._next_order + 1
            at = datetime.date(1993, 1, 1) + datetime.timedelta(days=number(0, 1400))
            orders.append(
                (key, self._who_orders(), pick("FOP"), self._money(1000, 90000), at, pick(PRIORITIES), 0,
                 pick(["plain", "special packed requests"]))
            )  # fmt: skip
            for line in range(1, number(1, 5) + 1):
                part = number(0, self._parts - 1)
                shipped = at + datetime.timedelta(days=number(1, 90))
                items.append(
                    (key, line, part, pick(self._suppliers_of[part]), number(1, 50), self._money(900, 50000),
                     pick(["0.04", "0.05", "0.06", "0.07"]), "0.02", pick("ANR"), pick("OF"),
                     shipped, at + datetime.timedelta(days=number(20, 80)),
                     shipped + datetime.timedelta(days=number(1, 40)), pick(["DELIVER IN PERSON", "NONE"]), pick(MODES))
                )  # fmt: skip
        yield _insert("orders", orders)
        yield _insert("lineitem", items)

    def _who_orders(self) -> int:
        """A customer; as in TPC-H, every third one never orders anything."""
        return self._random.choice([key for key in range(self._customers) if key % 3])

    def _money(self, low: int, high: int) -> str:
        return f"{self._random.randint(low, high)}.{self._random.randint(0, 99):02}"


def _insert(table: str, rows: list[tuple]) -> str:
    def value(each: object) -> str:
        if isinstance(each, datetime.date):
            return f"DATE '{each}'"
        text = str(each)
        number = text.lstrip("-").replace(".", "", 1).isdigit()
        return text if number else f"'{text}'"

    return f"INSERT INTO {table} VALUES {', '.join('(' + ', '.join(map(value, row)) + ')' for row in rows)}"


def on_views(query: str) -> str:
    """The query over views in place of tables.

    >>> on_views("SELECT count(*) FROM lineitem AS l")
    'SELECT count(*) FROM v_lineitem AS l'
    """
    return re.sub(rf"\b({'|'.join(TABLES)})\b", r"v_\1", query)


_REVENUE = "l_extendedprice * (1 - l_discount)"

QUERIES = {
    1: f"""SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,
        sum({_REVENUE}) AS sum_disc_price, sum({_REVENUE} * (1 + l_tax)) AS sum_charge, avg(l_quantity) AS avg_qty,
        avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc, count(*) AS count_order FROM lineitem
        WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus""",
    2: """SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr FROM part, supplier, partsupp, nation, region
        WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size < 9 AND s_nationkey = n_nationkey
        AND n_regionkey = r_regionkey AND r_name = 'EUROPE' AND ps_supplycost = (SELECT min(ps_supplycost)
        FROM partsupp, supplier, nation, region WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey
        AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE')""",
    3: f"""SELECT l_orderkey, sum({_REVENUE}) AS revenue, o_orderdate, o_shippriority FROM customer, orders, lineitem
        WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
        AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1993-03-15'
        GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate, l_orderkey LIMIT 10""",
    4: """SELECT o_orderpriority, count(*) AS order_count FROM orders WHERE o_orderdate >= DATE '1993-07-01'
        AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
        GROUP BY o_orderpriority""",
    5: f"""SELECT n_name, sum({_REVENUE}) AS revenue FROM customer, orders, lineitem, supplier, nation, region
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
        AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
        AND r_name IN ('ASIA', 'EUROPE', 'AMERICA') GROUP BY n_name""",
    6: """SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem WHERE l_shipdate >= DATE '1994-01-01'
        AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    7: f"""SELECT supp_nation, cust_nation, l_year, sum(volume) AS revenue FROM (SELECT n1.n_name AS supp_nation,
        n2.n_name AS cust_nation, extract(year FROM l_shipdate) AS l_year, {_REVENUE} AS volume
        FROM supplier, lineitem, orders, customer, nation n1, nation n2 WHERE s_suppkey = l_suppkey
        AND o_orderkey = l_orderkey AND c_custkey = o_custkey AND s_nationkey = n1.n_nationkey
        AND c_nationkey = n2.n_nationkey AND n1.n_name <> n2.n_name) AS shipping
        GROUP BY supp_nation, cust_nation, l_year""",
    8: f"""SELECT o_year, sum(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / sum(volume) AS mkt_share
        FROM (SELECT extract(year FROM o_orderdate) AS o_year, {_REVENUE} AS volume, n2.n_name AS nation
        FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region WHERE p_partkey = l_partkey
        AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey AND o_custkey = c_custkey
        AND c_nationkey = n1.n_nationkey AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA'
        AND s_nationkey = n2.n_nationkey) AS all_nations GROUP BY o_year""",
    9: f"""SELECT nation, o_year, sum(amount) AS sum_profit FROM (SELECT n_name AS nation,
        extract(year FROM o_orderdate) AS o_year, {_REVENUE} - ps_supplycost * l_quantity AS amount
        FROM part, supplier, lineitem, partsupp, orders, nation WHERE s_suppkey = l_suppkey
        AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey AND p_partkey = l_partkey
        AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND p_name LIKE '%green%') AS profit
        GROUP BY nation, o_year""",
    10: f"""SELECT c_custkey, c_name, sum({_REVENUE}) AS revenue, c_acctbal, n_name
        FROM customer, orders, lineitem, nation WHERE c_custkey = o_custkey
        AND l_orderkey = o_orderkey AND l_returnflag = 'R' AND c_nationkey = n_nationkey
        GROUP BY c_custkey, c_name, c_acctbal, n_name ORDER BY revenue DESC, c_custkey LIMIT 20""",
    11: """SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value FROM partsupp, supplier, nation
        WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name IN ('GERMANY', 'FRANCE')
        GROUP BY ps_partkey HAVING sum(ps_supplycost * ps_availqty) > (SELECT sum(ps_supplycost * ps_availqty) * 0.01
        FROM partsupp, supplier, nation WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey
        AND n_name IN ('GERMANY', 'FRANCE'))""",
    12: """SELECT l_shipmode, sum(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS high,
        sum(CASE WHEN o_orderpriority NOT IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS low FROM orders, lineitem
        WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate
        GROUP BY l_shipmode""",
    13: """SELECT c_count, count(*) AS custdist FROM (SELECT c_custkey, count(o_orderkey) AS c_count FROM customer
        LEFT JOIN orders ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%'
        GROUP BY c_custkey) AS c_orders GROUP BY c_count""",
    14: f"""SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN {_REVENUE} ELSE 0 END) / sum({_REVENUE})
        AS promo_revenue FROM lineitem, part WHERE l_partkey = p_partkey AND l_shipdate >= DATE '1994-09-01'""",
    15: f"""WITH revenue AS (SELECT l_suppkey AS supplier_no, sum({_REVENUE}) AS total_revenue FROM lineitem
        WHERE l_shipdate >= DATE '1994-01-01' GROUP BY l_suppkey)
        SELECT s_suppkey, s_name, total_revenue FROM supplier, revenue WHERE s_suppkey = supplier_no
        AND total_revenue = (SELECT max(total_revenue) FROM revenue)""",
    16: """SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS supplier_cnt FROM partsupp, part
        WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#34' AND p_type NOT LIKE 'MEDIUM POLISHED%'
        AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%')
        GROUP BY p_brand, p_type, p_size""",
    17: """SELECT sum(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem, part WHERE p_partkey = l_partkey
        AND p_brand = 'Brand#23' AND l_quantity < (SELECT 0.8 * avg(l_quantity) FROM lineitem
        WHERE l_partkey = p_partkey)""",
    18: """SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS quantity
        FROM customer, orders, lineitem WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey
        HAVING sum(l_quantity) > 100) AND c_custkey = o_custkey AND o_orderkey = l_orderkey
        GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
        ORDER BY o_totalprice DESC, o_orderdate, o_orderkey LIMIT 100""",
    19: f"""SELECT sum({_REVENUE}) AS revenue FROM lineitem, part WHERE (p_partkey = l_partkey AND p_brand = 'Brand#12'
        AND l_quantity BETWEEN 1 AND 25 AND l_shipmode IN ('AIR', 'AIR REG')) OR (p_partkey = l_partkey
        AND p_brand = 'Brand#23' AND l_quantity BETWEEN 10 AND 40 AND l_shipinstruct = 'DELIVER IN PERSON')""",
    20: """SELECT s_name, s_address FROM supplier, nation WHERE s_suppkey IN (SELECT ps_suppkey FROM partsupp
        WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%') AND ps_availqty >
        (SELECT 0.5 * sum(l_quantity) FROM lineitem WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey))
        AND s_nationkey = n_nationkey AND n_name IN ('CANADA', 'FRANCE', 'JAPAN')""",
    21: """SELECT s_name, count(*) AS numwait FROM supplier, lineitem l1, orders, nation WHERE s_suppkey = l1.l_suppkey
        AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F' AND l1.l_receiptdate > l1.l_commitdate
        AND EXISTS (SELECT * FROM lineitem l2 WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
        AND NOT EXISTS (SELECT * FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey
        AND l3.l_suppkey <> l1.l_suppkey AND l3.l_receiptdate > l3.l_commitdate)
        AND s_nationkey = n_nationkey GROUP BY s_name ORDER BY numwait DESC, s_name LIMIT 100""",
    22: """SELECT cntrycode, count(*) AS numcust, sum(c_acctbal) AS totacctbal
        FROM (SELECT substring(c_phone FROM 1 FOR 2) AS cntrycode, c_acctbal FROM customer
        WHERE substring(c_phone FROM 1 FOR 2) IN ('10', '11', '12', '13', '15', '17') AND c_acctbal >
        (SELECT avg(c_acctbal) FROM customer WHERE c_acctbal > 0.00) AND NOT EXISTS
        (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale GROUP BY cntrycode""",
}
