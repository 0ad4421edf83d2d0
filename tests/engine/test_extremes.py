"""Minima and maxima of groups: from their old values, and from the rows of a group only if one of them may be gone."""

from __future__ import annotations

import random

import pytest

from headrace.engine import builds, stored_rows
from headrace.engine.keyed import KeyedRelations
from tests.support.four_ways import drawn_seed

COLUMNS = "id INT PRIMARY KEY, k INT, x INT, s VARCHAR, d DOUBLE PRECISION, at TIMESTAMP"
VIEWS = {
    "plain": "SELECT k, min(x) AS lo, max(x) AS hi FROM {} GROUP BY k",
    "every": "SELECT k, max(s) AS s, min(d) AS d, max(at) AS at, min(x) FILTER (WHERE x > 3) AS f FROM {} GROUP BY k",
    "beside": "SELECT k, max(x) AS m, count(*) AS c, sum(x) AS s, avg(x) AS a, count(DISTINCT s) FROM {} GROUP BY k",
    "above": "SELECT k % 2 AS g, max(x) - min(x) AS span FROM {} GROUP BY k % 2 HAVING max(x) > 0",
    "none": "SELECT max(x) AS hi, min(at) AS first FROM {}",
}


def create(db, table: str) -> list[str]:
    names = []
    for name, query in VIEWS.items():
        names.append(f"{name}_of_{table}")
        db.sql(f"CREATE MATERIALIZED VIEW {names[-1]} AS {query.format(table)}")
    return names


def check(db, names: list[str]) -> None:
    for name in names:
        ((found,),) = db.sql(f"CHECK MATERIALIZED VIEW {name}").rows()
        assert found.startswith("equal"), f"{name}: {found}"


def test_changes_while_groups_are_built_count_once(db, monkeypatch):
    """Also where their inputs have them in vnode order, so that they could be built in parts."""
    monkeypatch.setattr(builds, "PART_ROWS", 10)
    db.sql(f"CREATE TABLE t ({COLUMNS})")
    db.sql("INSERT INTO t (id, k, x, s) SELECT i, i % 50, i, 's' || i % 7 FROM generate_series(1, 1000) AS g(i)")
    db.sql("SET background_ddl = true; SET backfill_rate_limit = 300")
    names = create(db, "t")
    for number in range(30):
        db.sql(f"INSERT INTO t (id, k, x) VALUES ({5000 + number}, {number % 50}, {number})")
        db.sql(f"DELETE FROM t WHERE id = {31 * number + 7}; UPDATE t SET x = x - 1 WHERE id = {33 * number + 5}")
    db.sql("SET backfill_rate_limit = default; WAIT")
    check(db, names)
    db.sql("DELETE FROM t WHERE id % 3 > 0")
    check(db, names)


def test_a_group_is_read_only_if_what_goes_may_be_its_extreme(db, monkeypatch):
    read: list[list] = []
    inner = KeyedRelations._all_of_groups

    def seen(self, state, relation, keys):
        read.append(keys.column(0).to_pylist())
        return inner(self, state, relation, keys)

    monkeypatch.setattr(KeyedRelations, "_all_of_groups", seen)
    db.sql(f"CREATE TABLE t ({COLUMNS})")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['plain'].format('t')}")

    def after(statement: str) -> list[list]:
        read.clear()
        db.sql(statement)
        check(db, ["v"])
        return read

    assert after("INSERT INTO t (id, k, x) VALUES (1, 1, 1), (2, 1, 5), (3, 1, 9), (4, 2, 7), (5, NULL, 1)") == []
    assert after("INSERT INTO t (id, k, x) VALUES (6, 1, 0), (7, 1, 10), (8, 2, NULL)") == []
    assert after("UPDATE t SET x = 6 WHERE id = 2") == []  # in the middle
    assert after("DELETE FROM t WHERE id = 3") == []
    assert after("DELETE FROM t WHERE id = 4") == [[2]]  # the last one that is not NULL
    assert after("DELETE FROM t WHERE k IS NULL") == []  # the group goes
    assert after("UPDATE t SET x = 20 WHERE id = 7") == []  # a greater one comes
    assert after("UPDATE t SET x = 2 WHERE id = 7") == [[1]]
    assert after("DELETE FROM t WHERE id = 6") == [[1]]
    assert db.sql("SELECT * FROM v ORDER BY k").rows() == [(1, 1, 6), (2, None, None)]


def test_of_rows_that_only_come_nothing_is_kept(db):
    db.sql(f"CREATE TABLE log ({COLUMNS}) APPEND ONLY")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['plain'].format('log')}")
    db.sql("CREATE MATERIALIZED VIEW total AS SELECT max(x) AS hi, min(s) AS s, count(*) AS c FROM log")
    assert db.sql("SHOW INTERNAL TABLES").rows() == []
    db.sql("INSERT INTO log (id, k, x, s) VALUES (1, 1, 1, 'b'), (2, 1, 5, 'a'), (3, 2, 7, NULL)")
    db.sql("INSERT INTO log (id, k, x) VALUES (4, 1, -3), (5, NULL, 1)")
    assert db.sql("SELECT * FROM v ORDER BY k").rows() == [(1, -3, 5), (2, 7, 7), (None, 1, 1)]
    assert db.sql("SELECT * FROM total").rows() == [(7, "a", 5)]
    check(db, ["v", "total"])
    told = "\n".join(
        text
        for (text,) in db.sql("EXPLAIN CREATE MATERIALIZED VIEW w AS SELECT k, max(x) AS m FROM log GROUP BY k").rows()
    )
    assert "from its old rows," not in told and "from its old rows" in told


@pytest.mark.parametrize("few", [100_000, 3], ids=["driver", "executors"])
def test_any_history(open_database, monkeypatch, few):
    """With updates that move rows between groups and deletes of all, through a crash; also where changes are many."""
    monkeypatch.setattr(stored_rows, "FEW_KEYS", few)
    seed = drawn_seed()
    print(f"HEADRACE_SEED={seed}")
    chance = random.Random(seed)
    db = open_database()
    db.sql(f"CREATE TABLE t ({COLUMNS})")
    db.sql(f"CREATE TABLE log ({COLUMNS}) APPEND ONLY")
    numbers = iter(range(1, 10_000))

    def row() -> str:
        def maybe(text: object) -> str:
            return "NULL" if chance.random() < 0.15 else str(text)

        at = f"TIMESTAMP '2026-01-01' + {chance.randint(0, 50)} * INTERVAL '1 hour'"
        d = chance.choice(["'NaN'", "0.0", "'-Infinity'", "1.5", "-2.25"])
        values = [
            chance.randint(0, 4),
            chance.randint(-9, 9),
            f"'{chance.choice('aAbé')}'",
            f"{d}::double precision",
            at,
        ]
        return f"({next(numbers)}, {', '.join(map(maybe, values))})"

    def insert(count: int) -> None:
        for table in ("t", "log"):
            db.sql(f"INSERT INTO {table} VALUES {', '.join(row() for _ in range(count))}")

    insert(20)
    names = create(db, "t") + create(db, "log")
    for step in range(5):
        if step == 2:
            db.engine.abandon()
            db = open_database()
        insert(chance.randint(1, 12))
        db.sql(f"UPDATE t SET k = {chance.randint(0, 4)}, x = x + {chance.randint(-3, 3)} WHERE id % 5 = {step % 5}")
        worst = "SELECT max(x) FROM t" if step % 2 else "SELECT min(x) FROM t"
        db.sql(f"DELETE FROM t WHERE x = ({worst})")
        if step in (1, 4):
            check(db, names)
    db.sql("DELETE FROM t")
    insert(3)
    check(db, names)
