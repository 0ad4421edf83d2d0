"""JOIN … FOR SYSTEM_TIME AS OF PROCTIME(): each row meets what is there when it comes, and never again."""

from __future__ import annotations

import random

import pytest

import headrace
from headrace.engine import choice, stored_rows
from headrace.errors import Unsupported
from tests.support.four_ways import drawn_seed
from tests.support.stored import stored
from tests.support.waiting import eventually

PROMPT = {"barrier_interval": "50ms"}
ORDERS = "CREATE TABLE orders (id INT PRIMARY KEY, currency VARCHAR) APPEND ONLY"
RATES = "CREATE TABLE rates (currency VARCHAR PRIMARY KEY, rate INT, bank INT)"
VIEWS = {
    "inner": "SELECT o.id, r.rate FROM orders AS o JOIN rates FOR SYSTEM_TIME AS OF PROCTIME() AS r"
    " ON o.currency = r.currency",
    "outer": "SELECT o.id, r.rate FROM orders AS o LEFT JOIN rates FOR SYSTEM_TIME AS OF PROCTIME() AS r"
    " ON o.currency = r.currency AND r.rate < 90",
    # By a column that is not the other's key: several rows are found.
    "banks": "SELECT o.id, r.currency FROM orders AS o JOIN rates FOR SYSTEM_TIME AS OF PROCTIME() AS r"
    " ON length(o.currency) = r.bank",
    "grouped": "SELECT r.rate, count(*) AS c FROM orders AS o LEFT JOIN rates FOR SYSTEM_TIME AS OF PROCTIME() AS r"
    " ON o.currency = r.currency GROUP BY r.rate",
}


class Model:
    def __init__(self) -> None:
        self.rates: dict[str, tuple[int, int]] = {}
        self.rows: dict[str, list[tuple]] = {"inner": [], "outer": [], "banks": []}

    def order(self, id: int, currency: str) -> None:
        rate = self.rates.get(currency, (None, 0))[0]
        if rate is not None:
            self.rows["inner"].append((id, rate))
        self.rows["outer"].append((id, rate if rate is not None and rate < 90 else None))
        self.rows["banks"] += [(id, name) for name, (_, bank) in self.rates.items() if bank == len(currency)]


def of(db, view: str) -> list[tuple]:
    return sorted(stored(db.engine, view).elements(), key=repr)


@pytest.mark.parametrize("way", ["lookups", "queries", "anew"])
def test_rows_meet_what_is_there_when_they_come(spark, warehouse, monkeypatch, way):
    if way == "queries":
        monkeypatch.setattr(stored_rows, "FEW_KEYS", 1)
    if way == "anew":  # which the join itself never is
        monkeypatch.setattr(choice, "is_cheaper_anew", lambda followed, anew: True)
    seed = drawn_seed()
    print(f"HEADRACE_SEED={seed}")
    chance, model, ids = random.Random(seed), Model(), iter(range(1_000_000))
    db = headrace.connect(warehouse, spark=spark, parameters=PROMPT)
    db.sql(ORDERS)
    db.sql(RATES)
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW \"{name}\" WITH (refresh = 'incremental') AS {query}")
    for _ in range(12):
        currency, what = chance.choice(["EUR", "JPY", "USD", "GOLD"]), chance.random()
        if what < 0.35:
            model.rates[currency] = (chance.randint(1, 120), chance.choice([3, 4]))
            db.sql(f"INSERT INTO rates VALUES ('{currency}', {model.rates[currency][0]}, {model.rates[currency][1]})")
        elif what < 0.45:
            model.rates.pop(currency, None)
            db.sql(f"DELETE FROM rates WHERE currency = '{currency}'")
        elif what < 0.55:
            db.engine.abandon()
            db = headrace.connect(warehouse, spark=spark, parameters=PROMPT)
        else:
            new = [(next(ids), chance.choice(["EUR", "JPY", "GOLD"])) for _ in range(chance.randint(1, 4))]
            db.sql("INSERT INTO orders VALUES " + ", ".join(f"({id}, '{each}')" for id, each in new))
            for id, each in new:
                model.order(id, each)
        for name, rows in model.rows.items():
            assert of(db, name) == sorted(rows, key=repr), f"{name}, HEADRACE_SEED={seed}"
    joined = dict(model.rows["inner"])
    counts: dict[int | None, int] = {}
    for id, _ in model.rows["outer"]:
        counts[joined.get(id)] = counts.get(joined.get(id), 0) + 1
    assert of(db, "grouped") == sorted(counts.items(), key=repr)
    with pytest.raises(Unsupported, match="temporal join"):
        db.sql('CHECK MATERIALIZED VIEW "inner"')
    (plan,) = [line for (line,) in db.sql(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {VIEWS['outer']}").rows()
               if "StreamLeftTemporalJoin" in line]  # fmt: skip
    assert "looked up once, when a row comes" in plan
    db.close()


def test_a_view_that_is_being_filled_has_each_row_once(spark, warehouse):
    """History meets what is there while it is filled; what comes meanwhile, and after a crash, too."""
    db = headrace.connect(warehouse, spark=spark, parameters=PROMPT)
    db.sql(ORDERS)
    db.sql(RATES)
    db.sql("INSERT INTO rates VALUES ('EUR', 1, 0)")
    db.sql("INSERT INTO orders SELECT g, 'EUR' FROM generate_series(1, 2000) AS g")
    db.sql("SET background_ddl = true")
    db.sql(f"CREATE MATERIALIZED VIEW v WITH (backfill_rate_limit = 1000) AS {VIEWS['inner']}")
    db.sql("INSERT INTO rates VALUES ('EUR', 2, 0)")
    db.sql("INSERT INTO orders VALUES (-1, 'EUR')")
    db.engine.abandon()
    db = headrace.connect(warehouse, spark=spark, parameters=PROMPT)
    db.sql("INSERT INTO orders VALUES (-2, 'EUR')")
    eventually(lambda: not db.sql("SHOW JOBS").rows())
    db.sql("INSERT INTO rates VALUES ('EUR', 3, 0)")
    db.sql("INSERT INTO orders VALUES (-3, 'EUR')")
    assert db.sql("SELECT count(*), count(DISTINCT id), min(rate), max(rate) FROM v").rows() == [(2003, 2003, 2, 3)]
    assert db.sql("SELECT id FROM v WHERE rate = 3").rows() == [(-3,)]
    db.close()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT r.rate FROM rates AS r JOIN orders FOR SYSTEM_TIME AS OF PROCTIME() AS o ON o.currency = r.currency",
         'those of table "rates" may'),
        ("SELECT g.c FROM (SELECT currency, count(*) AS c FROM orders GROUP BY currency) AS g JOIN rates"
         " FOR SYSTEM_TIME AS OF PROCTIME() AS r ON g.currency = r.currency", "those of a part of the query may"),
        (VIEWS["inner"].replace("JOIN", "FULL JOIN"), "in a FULL JOIN"),
        (VIEWS["inner"].replace("=", ">"), "without an equality"),
        ("SELECT rate FROM rates FOR SYSTEM_TIME AS OF PROCTIME()", "AS OF PROCTIME.. here"),
    ],
)  # fmt: skip
def test_what_would_have_to_change_is_refused(db, query, said):
    db.sql(ORDERS)
    db.sql(RATES)
    with pytest.raises(Unsupported, match=said):
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    db.sql(query.replace("FULL ", "").replace(">", "="))  # a query reads what is there now
