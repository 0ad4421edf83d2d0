"""Tables whose keys are UUIDs or times: views follow random changes, however rows come and whoever evaluates them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import time
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


def _time(chance: random.Random) -> str:
    minutes = chance.randrange(25) * 60
    clock = f"{minutes // 60:02}:{minutes % 60:02}"
    return chance.choice((clock, f"{clock}:00.0", f"{minutes // 60}:0", f"{clock.replace(':', '')}00"))


OF_TIMES = {
    "computed": "SELECT id, id + INTERVAL '90 minutes' AS later, k - id AS gap, DATE '2026-01-31' + k AS at, x FROM t",
    "fields": "SELECT id, extract(epoch FROM k) AS e, k::interval AS i, (TIMESTAMP '2026-01-31' + k)::time AS r FROM t",
    "extremes": "SELECT x, min(k) AS low, max(k) AS high FROM t GROUP BY x",
    "global": "SELECT min(k) AS low, max(k) AS high, count(*) AS c FROM t",
    "by_hour": "SELECT date_trunc('hour', k) AS h, sum(k - '00:00') AS s FROM t GROUP BY 1",
}

KINDS = (
    Kind(name="uuid", draw=_uuid, middle="80000000000000000000000000000000", views=VIEWS),
    Kind(name="time", draw=_time, middle="12:00", views=VIEWS | OF_TIMES),
)


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
    sorted_here = sorted(db.sql("SELECT id FROM t").rows(), key=lambda row: str(row[0]))
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


def test_times_of_a_program(db):
    """They come and go as times of Arrow's and of Python's, all but 24:00, which these have not."""
    db.sql("CREATE TABLE t (t time PRIMARY KEY, short time(0), ts time[], n INT)")
    given = [time(4, 5, 6, 700_000), time(0), time(23, 59, 59, 999_999)]
    columns = {"t": given, "short": given, "ts": [[given[0], None], [], None], "n": [1, 2, 3]}
    assert db.insert("t", pa.table(columns)) == 3
    assert db.insert("t", pa.table({"t": ["24:00"], "n": [4]})) == 1
    rows = db.sql("SELECT * FROM t ORDER BY t").rows()
    assert rows == [
        (time(0), time(0), [], 2),
        (time(4, 5, 6, 700_000), time(4, 5, 7), [time(4, 5, 6, 700_000), None], 1),
        (time(23, 59, 59, 999_999), "24:00:00", None, 3),
        ("24:00:00", None, None, 4),
    ]
    assert list(db.sql("SELECT t FROM t WHERE n = 1").stream()) == [(given[0],)]
    table = db.sql("SELECT t, ts, n FROM t ORDER BY n").arrow()
    assert table.schema.types == [pa.time64("us"), pa.list_(pa.time64("us")), pa.int32()]
    assert table["t"].cast(pa.int64()).to_pylist()[-1] == 86_400_000_000
    db.insert("t", table.set_column(2, "n", pa.array([5, 6, 7, 8], pa.int32())))
    assert db.sql("SELECT sum(n), max(t) FROM t").rows() == [(26, "24:00:00")]
    assert db.sql("SELECT t FROM t WHERE n = 5").pandas()["t"].tolist() == [given[0]]
    assert db.sql("SELECT t FROM t").spark().schema["t"].dataType.simpleString() == "bigint"
    for wrong in ({"t": ["25:00"]}, {"t": [86_400_000_001]}):
        with pytest.raises(DataError):
            db.insert("t", pa.table(wrong))
    with pytest.raises(TypeMismatch, match='column "t" is of type time'):
        db.insert("t", pa.table({"t": [1.5]}))
    assert db.sql("SELECT count(*) FROM t").rows() == [(4,)]
