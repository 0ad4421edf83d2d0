"""Tables whose keys are UUIDs or times: views follow random changes, however rows come and whoever evaluates them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa
import pytest

import headrace
from headrace.engine import stored_rows
from headrace.errors import DataError, TypeMismatch
from tests.support.four_ways import drawn_seed

VIEWS = {
    "linear": "SELECT id, k, x, CASE WHEN k > '{middle}' THEN k ELSE id END AS c FROM t WHERE k IS NOT NULL",
    "texts": "SELECT id, k::varchar AS v, (k::varchar)::{kind} AS again, x FROM t",
    "sums": "SELECT k, count(*) AS c, sum(x) AS s, max(x) AS m FROM t GROUP BY k",
    "joined": "SELECT t.id, u.id AS other, u.name FROM t JOIN u ON t.k = u.id",
    "outer_joined": "SELECT u.id, t.id AS other FROM u LEFT JOIN t ON t.k = u.id AND t.x > 3",
    "newest": "SELECT DISTINCT ON (k) k, id, x FROM t ORDER BY k, x DESC, id",
    "first": "SELECT id, k FROM t ORDER BY k DESC NULLS LAST, id LIMIT 5",
    "ranked": "SELECT id, rank() OVER (PARTITION BY k ORDER BY x) AS r, lag(id) OVER (ORDER BY id) AS before FROM t",
    "within": "SELECT id FROM t WHERE k IN (SELECT id FROM u)",
    "collected": "SELECT x, array_agg(k ORDER BY k) AS ks, count(DISTINCT k) AS d FROM t GROUP BY x",
    "different": "SELECT k FROM t UNION SELECT id FROM u",
}


@dataclass(frozen=True, kw_only=True)
class Kind:
    name: str
    draw: Callable[[random.Random], str]
    """One of a few values, in any of its spellings"""
    middle: str
    views: dict[str, str]


def _uuid(chance: random.Random) -> str:
    drawn = str(UUID(int=chance.randrange(30) * (2**128 // 31)))
    return chance.choice((drawn, drawn.upper(), f"{{{drawn}}}", drawn.replace("-", "")))


KINDS = (Kind(name="uuid", draw=_uuid, middle="80000000000000000000000000000000", views=VIEWS),)


@pytest.mark.parametrize("small", [None, 2], ids=["few", "many"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_views_follow_random_changes(spark, warehouse, monkeypatch, kind, small):
    """With ``small``, what few rows would be is left to queries of Spark's: of some views, as it takes its time."""
    chosen = kind.views if small is None else {name: kind.views[name] for name in list(kind.views)[::3]}
    if small is not None:
        monkeypatch.setattr(stored_rows, "FEW_KEYS", small)
        monkeypatch.setattr(stored_rows, "SMALL_ROWS", small)
    seed = drawn_seed()
    chance = random.Random(seed)
    print(f"HEADRACE_SEED={seed}")

    def value() -> str:
        return f"'{kind.draw(chance)}'" if chance.random() > 0.1 else "NULL"

    def change() -> str:
        key, other = (f"'{kind.draw(chance)}'" for _ in range(2))
        return chance.choice(
            (
                f"INSERT INTO t VALUES ({key}, {value()}, {chance.randrange(8)}), ({other}, {value()}, 1)",
                f"INSERT INTO t SELECT id, {other}, {chance.randrange(8)} FROM u WHERE id < {key}",
                f"INSERT INTO u VALUES ({key}, 'n{chance.randrange(5)}')",
                f"UPDATE t SET k = {value()}, x = x + 1 WHERE id >= {key}",
                f"UPDATE t SET x = {chance.randrange(8)} WHERE id = {key}",
                f"DELETE FROM t WHERE k = {key}",
                f"DELETE FROM u WHERE id IN ({key}, {other})",
            )
        )

    def opened():
        return headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "50ms"})

    db = opened()
    db.sql(f"CREATE TABLE t (id {kind.name} PRIMARY KEY, k {kind.name}, x INT)")
    db.sql(f"CREATE TABLE u (id {kind.name} PRIMARY KEY, name VARCHAR)")
    db.sql("CREATE INDEX by_k ON t (k)")
    for _ in range(6):
        db.sql(change())
    for name, query in chosen.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query.format(kind=kind.name, middle=kind.middle)}")
    for _ in range(8):
        statement = change()
        print(statement)
        db.sql(statement)
    db.engine.abandon()
    db = opened()
    for _ in range(3):
        db.sql(change())
    for name in chosen:
        ((said, *_),) = db.sql(f"CHECK MATERIALIZED VIEW {name}").rows()
        assert said.startswith("equal"), name
    db.sql("COMPACT")
    sorted_here = sorted(db.sql("SELECT id FROM t").rows())
    assert db.sql("SELECT id FROM t ORDER BY id").rows() == sorted_here
    if sorted_here:
        at = sorted_here[len(sorted_here) // 2][0]
        for asked in (f"id = '{at}'", f"id >= '{at}'", f"k = '{at}'"):
            by_key = db.sql(f"SELECT id FROM t WHERE {asked} ORDER BY id").rows()
            by_scan = db.sql(f"SELECT id FROM t WHERE ({asked}) IS TRUE ORDER BY id").rows()
            assert by_key == by_scan, asked
    db.close()


def test_rows_of_a_program(db):
    """Arrow's own UUIDs, their bytes and their texts are what a constant is."""
    one, other = UUID(int=1 << 127), UUID(int=5)
    db.sql("CREATE TABLE t (id uuid PRIMARY KEY, us uuid[], made uuid DEFAULT gen_random_uuid(), n INT)")
    ids = (pa.array([one.bytes], pa.uuid()), pa.array([other.bytes], pa.binary(16)), pa.array([f"{{{UUID(int=6)}}}"]))
    for number, column in enumerate(ids):
        lists = pa.array([[str(one).upper(), None]])
        assert db.insert("t", pa.table({"id": column, "us": lists, "n": pa.array([number])})) == 1
    rows = db.sql("SELECT id, us, n FROM t ORDER BY id").rows()
    texts = [str(one), None]
    assert rows == [(str(other), texts, 1), (str(UUID(int=6)), texts, 2), (str(one), texts, 0)]
    assert db.sql("SELECT count(DISTINCT made), count(made) FROM t").rows() == [(3, 3)]
    db.insert("t", db.sql("SELECT id, us, 7 AS n FROM t").arrow())
    assert db.sql("SELECT sum(n) FROM t").rows() == [(21,)]
    with pytest.raises(DataError, match='invalid input syntax for type uuid: "x"'):
        db.insert("t", pa.table({"id": ["x"]}))
    with pytest.raises(TypeMismatch, match='column "id" is of type uuid'):
        db.insert("t", pa.table({"id": pa.array([[1]])}))
    assert db.sql("SELECT count(*) FROM t").rows() == [(3,)]
    frame = db.engine.frame(db.engine.committed, db.engine.committed.catalog.get("t").id)
    assert frame.schema["id"].metadata == {"headrace_type": "uuid"}
