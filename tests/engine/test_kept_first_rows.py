"""First rows of groups: from those that a view holds, and from what is stored only if one of them goes."""

from __future__ import annotations

import random

import pytest

from headrace.engine import stored_rows
from headrace.engine.stored_rows import StoredRows
from tests.support.four_ways import drawn_seed

NUMBERED = "SELECT id, k, x, s, row_number() OVER (PARTITION BY k ORDER BY x DESC NULLS LAST, id) AS n FROM {}"
VIEWS = {
    "two": f"SELECT id, k, x, n FROM ({NUMBERED}) AS q WHERE n <= 2",
    "computed": f"SELECT k + 1 AS k1, coalesce(x, 0) * 2 AS y, upper(s) AS u FROM ({NUMBERED}) AS q WHERE 4 > n",
    "one": "SELECT DISTINCT ON (k) k, s, x FROM {} ORDER BY k, x NULLS FIRST, s DESC",
    "second": f"SELECT id, k, x FROM ({NUMBERED}) AS q WHERE n = 2",
    "filtered": f"SELECT id, k FROM ({NUMBERED}) AS q WHERE n <= 3 AND s <> 'a'",
    "above": f"SELECT k, sum(x) AS s, count(*) AS c FROM ({NUMBERED}) AS q WHERE n <= 2 GROUP BY k",
    "joined": "SELECT k, name, x FROM (SELECT t.k, g.name, t.x, row_number() OVER (PARTITION BY t.k ORDER BY t.x, t.id)"
    " AS n FROM {} AS t JOIN g ON t.k = g.k) AS q WHERE n <= 2",
}


def create(db, table: str) -> list[str]:
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query.format(table)}")
    return list(VIEWS)


def check(db, names: list[str]) -> None:
    for name in names:
        ((found,),) = db.sql(f"CHECK MATERIALIZED VIEW {name}").rows()
        assert found.startswith("equal"), f"{name}: {found}"


@pytest.fixture
def read(monkeypatch) -> list[list]:
    """The keys whose first rows are looked up."""
    found: list[list] = []
    inner = StoredRows.first_rows

    def seen(self, state, layout, keys, count):
        found.append(sorted(keys.column(0).to_pylist(), key=repr))
        return inner(self, state, layout, keys, count)

    monkeypatch.setattr(StoredRows, "first_rows", seen)
    return found


def test_a_group_is_read_only_if_a_first_row_goes(db, read):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, k INT, x INT, s VARCHAR)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['two'].format('t')}")

    def after(statement: str) -> list[list]:
        read.clear()
        db.sql(statement)
        check(db, ["v"])
        return read

    assert after("INSERT INTO t VALUES (1, 1, 9, 'a'), (2, 1, 8, 'b'), (3, 1, 5, 'c'), (4, 2, 1, 'd')") == []
    assert after("INSERT INTO t VALUES (5, 1, 7, 'e'), (6, NULL, 1, 'f'), (7, 2, 2, 'g')") == []
    assert after("UPDATE t SET s = 'changed' WHERE id IN (1, 7)") == []  # where it was
    assert after("DELETE FROM t WHERE id = 3") == []  # none of the first
    assert after("UPDATE t SET x = 10 WHERE id = 2") == []  # a first row that stays one
    assert after("UPDATE t SET x = 6 WHERE id = 1") == [[1]]  # now 5 is before it
    assert after("DELETE FROM t WHERE k IS NULL") == []  # it had no others
    assert after("DELETE FROM t WHERE k = 2 AND id = 4") == [[2]]
    assert after("INSERT INTO t VALUES (1, 3, 4, 'h')") == []  # another row of one key: of group 1 a third one goes
    assert db.sql("SELECT k, id, n FROM v ORDER BY k, n").rows() == [(1, 2, 1), (1, 5, 2), (2, 7, 1), (3, 1, 1)]


def test_what_is_said_about_it(db):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, k INT, x INT, s VARCHAR)")
    for name, expected in (("two", True), ("one", True), ("computed", True), ("second", False), ("filtered", False)):
        told = db.sql(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {VIEWS[name].format('t')}").rows()
        assert any("if one of them goes" in line for (line,) in told) is expected, name


@pytest.mark.parametrize("few", [100_000, 3], ids=["driver", "executors"])
def test_any_history(open_database, monkeypatch, few):
    """With updates that move rows between groups and deletes of all, through a crash; also where changes are many."""
    monkeypatch.setattr(stored_rows, "FEW_KEYS", few)
    seed = drawn_seed()
    print(f"HEADRACE_SEED={seed}")
    chance = random.Random(seed)
    db = open_database()
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, k INT, x INT, s VARCHAR)")
    db.sql("CREATE TABLE g (k INT PRIMARY KEY, name VARCHAR)")
    db.sql("INSERT INTO g VALUES (0, 'none'), (1, 'one'), (2, 'two')")
    numbers = iter(range(1, 10_000))

    def row() -> str:
        values = [chance.randint(0, 4), chance.randint(-5, 5), f"'{chance.choice('abc')}'"]
        return f"({next(numbers)}, {', '.join('NULL' if chance.random() < 0.1 else str(each) for each in values)})"

    def insert(count: int) -> None:
        db.sql(f"INSERT INTO t VALUES {', '.join(row() for _ in range(count))}")

    insert(20)
    names = create(db, "t")
    for step in range(5):
        if step == 2:
            db.engine.abandon()
            db = open_database()
        insert(chance.randint(1, 12))
        db.sql(f"UPDATE t SET k = {chance.randint(0, 4)}, x = x + {chance.randint(-3, 3)} WHERE id % 5 = {step % 5}")
        db.sql(f"DELETE FROM t WHERE x = (SELECT max(x) FROM t WHERE k = {step}) OR id % 7 = {step}")
        db.sql(f"UPDATE g SET name = name || '+' WHERE k = {step % 3}")
        if step in (1, 4):
            check(db, names)
    db.sql("DELETE FROM t")
    insert(3)
    check(db, names)
