"""What keyed relations do at their edges: many keys at once, rows that they cannot have, sharing, going away."""

from __future__ import annotations

import threading

import pytest

import headrace
from headrace.engine import builds, evaluate, keyed, stored_rows
from headrace.engine.filling import jobs_of
from headrace.engine.stored_rows import FEW_KEYS, SMALL_ROWS
from headrace.errors import DataError, DependentObjects, HeadraceError, Unsupported
from tests.support.waiting import eventually

VIEWS = {
    "sums": "SELECT k, count(*) AS c, sum(x) AS sx FROM t GROUP BY k",
    "maxima": "SELECT k, max(x) AS m FROM t GROUP BY k",
    "total": "SELECT count(*) AS c, sum(x) AS sx, max(x) AS m FROM t",
    "different": "SELECT DISTINCT x FROM t",
    "joined": "SELECT t.id, u.name FROM t LEFT JOIN u ON t.k = u.id",
    "newest": "SELECT DISTINCT ON (k) k, id, x FROM t ORDER BY k, x DESC, id",
    "averages": "SELECT k, avg(x) AS a, count(DISTINCT x) AS d FROM t GROUP BY k",
    "ranked": "SELECT id, rank() OVER (PARTITION BY k ORDER BY x DESC) AS r FROM t",
}


@pytest.fixture
def tables(db):
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, k INT, x INT)")
    db.sql("CREATE TABLE u (id INT PRIMARY KEY, name VARCHAR)")
    db.sql("INSERT INTO u SELECT g, 'name ' || g FROM generate_series(0, 20, 2) AS g")
    return db


def check(db, *names: str) -> None:
    for name in names:
        ((said, *_),) = db.sql(f"CHECK MATERIALIZED VIEW {name}").rows()
        assert said.startswith("equal"), name


def internal_tables(db) -> list[str]:
    return [name for (name, *_) in db.sql("SHOW INTERNAL TABLES").rows()]


@pytest.mark.parametrize(
    ("small", "names"),
    [
        (stored_rows.SMALL_ROWS, ["sums", "different", "joined"]),
        (2, ["sums", "maxima", "newest", "averages", "joined"]),
    ],
)
def test_many_keys_are_a_query_over_the_whole(tables, monkeypatch, small, names):
    monkeypatch.setattr(stored_rows, "FEW_KEYS", 5)
    monkeypatch.setattr(stored_rows, "SMALL_ROWS", small)
    for name in names:
        tables.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
    tables.sql("INSERT INTO t SELECT g, g % 23, g % 7 FROM generate_series(1, 400) AS g")
    tables.sql("UPDATE t SET k = k + 1 WHERE id % 2 = 0")
    tables.sql("DELETE FROM t WHERE k < 9")
    check(tables, *names)


def test_a_skewed_key_is_read_by_a_query(tables, monkeypatch):
    monkeypatch.setattr(stored_rows, "LOOKUP_ROWS", 50)
    tables.sql("INSERT INTO t SELECT g, 1, g % 7 FROM generate_series(1, 200) AS g")
    for name in ("maxima", "joined", "ranked"):
        tables.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
    tables.sql("INSERT INTO t VALUES (1000, 1, 100)")
    check(tables, "maxima", "joined", "ranked")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, 10 / (count(*) - 2) AS q FROM t GROUP BY k",
        "SELECT k, 10 / (max(x) - 2) AS q FROM t GROUP BY k",
        "SELECT t.id, 10 / (t.x - 2) AS q FROM t JOIN u ON t.k = u.id",
        "SELECT k, max(x) * 2147483647 AS q FROM t GROUP BY k",
        "SELECT k, count(*)::int * 2147483647 AS q FROM t GROUP BY k",
        "SELECT t.id, t.x * 2147483647 AS q FROM t JOIN u ON t.k = u.id",
    ],
)
def test_a_row_that_a_view_cannot_have_is_refused(tables, query):
    tables.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    tables.sql("INSERT INTO t VALUES (1, 2, 1)")
    with pytest.raises(DataError, match='in materialized view "v"'):
        tables.sql("INSERT INTO t VALUES (2, 2, 2)")
    assert tables.sql("SELECT count(*) FROM t").rows() == [(1,)]
    tables.sql("INSERT INTO t VALUES (3, 4, 0)")
    check(tables, "v")


def test_pairs_that_never_were_fail_nobody(db):
    """Both rows of a pair change at once; the old one beside the new one would divide by zero."""
    db.sql("CREATE TABLE p (id INT PRIMARY KEY, k INT, x INT, y INT)")
    views = {
        "shares": "SELECT sum(a.x / b.y) AS s FROM p AS a JOIN p AS b ON a.k = b.id",
        "counted": "SELECT sum(a.x) AS s FROM p AS a JOIN p AS b ON a.k = b.id AND 100 / b.y > a.x",
    }
    for name, query in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    db.sql("INSERT INTO p VALUES (1, 2, 10, 1), (2, NULL, 0, 1)")
    assert db.sql("SELECT shares.s, counted.s FROM shares, counted").rows() == [(10, 10)]
    db.sql("UPDATE p SET k = NULL, y = 0")
    assert db.sql("SELECT shares.s, counted.s FROM shares, counted").rows() == [(None, None)]
    with pytest.raises(DataError, match="division by zero"):
        db.sql("UPDATE p SET k = 2")


def test_a_value_that_cannot_be_had_fails_only_who_compares_with_it(tables):
    """Of no rows a quotient of counts is none; but there is no group to compare with it either."""
    query = "SELECT k, count(*) AS c FROM t GROUP BY k HAVING count(*) >= (SELECT count(*) / count(k) FROM t)"
    tables.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    tables.sql("INSERT INTO t VALUES (1, 1, 0), (2, 1, 0), (3, 2, 0), (4, NULL, 0)")
    assert sorted(tables.sql("SELECT * FROM v").rows(), key=repr) == sorted(tables.sql(query).rows(), key=repr)
    with pytest.raises(DataError, match='division by zero, in materialized view "v"'):
        tables.sql("DELETE FROM t WHERE k IS NOT NULL")
    tables.sql("DELETE FROM t")
    assert tables.sql("SELECT * FROM v").rows() == []


def test_the_row_of_a_piece_is_what_is_asked_for(tables):
    """And not what the piece is stored with; where an outer join has found none there is none."""
    tables.sql("INSERT INTO t VALUES (1, 2, 0), (2, 5, 0)")
    pairs = "SELECT t.id, u.name FROM t JOIN u ON t.k = u.id"
    counts = "SELECT t.id, count(u) AS n FROM t LEFT JOIN u ON t.k = u.id GROUP BY t.id"
    tables.sql(f"CREATE MATERIALIZED VIEW v AS SELECT to_jsonb(q)::text AS j FROM ({pairs}) AS q")
    tables.sql(f"CREATE MATERIALIZED VIEW c AS {counts}")
    assert tables.sql("SELECT * FROM v").rows() == [('{"id": 1, "name": "name 2"}',)]
    tables.sql("UPDATE t SET k = 4 WHERE id = 2")
    assert sorted(tables.sql("SELECT * FROM c").rows()) == [(1, 1), (2, 1)]
    tables.sql("UPDATE u SET name = NULL; DELETE FROM u WHERE id = 4")
    assert sorted(tables.sql("SELECT * FROM c").rows()) == [(1, 1), (2, 0)]
    check(tables, "v", "c")


@pytest.mark.parametrize(("few", "small"), [(FEW_KEYS, SMALL_ROWS), (3, SMALL_ROWS), (3, 2)])
def test_both_sides_of_a_stored_join_change(tables, monkeypatch, few, small):
    """Its rows are mapped from both changes; only where these are many, of touched keys all is computed."""
    best = "SELECT k, max(x) AS most FROM t GROUP BY k"
    tables.sql(f"CREATE MATERIALIZED VIEW best AS {best}")
    tables.sql(
        "CREATE MATERIALIZED VIEW holders AS SELECT t.id, t.x, w.k FROM t JOIN best AS w ON t.x = w.most"
        " WHERE t.k BETWEEN w.k - 1 AND w.k"
    )
    tables.sql("INSERT INTO t SELECT g, g % 9, g % 31 FROM generate_series(1, 100) AS g")
    monkeypatch.setattr(stored_rows, "FEW_KEYS", few)
    monkeypatch.setattr(stored_rows, "SMALL_ROWS", small)
    joins, by_key = [], keyed.KeyedRelations._delta

    def counted(self, state, relation, *more):
        joins.extend([relation] if "join" in relation.operator.describe else [])
        return by_key(self, state, relation, *more)

    monkeypatch.setattr(keyed.KeyedRelations, "_delta", counted)
    tables.sql("INSERT INTO t SELECT g, g % 9, g % 37 FROM generate_series(101, 120) AS g")
    tables.sql("UPDATE t SET x = x + 1, k = k - 1 WHERE id % 2 = 0")
    check(tables, "best", "holders")
    tables.sql("DELETE FROM t WHERE x > 25")
    check(tables, "best", "holders")
    assert bool(joins) == (small == 2)


def test_a_view_that_cannot_be_made_is_not(tables):
    tables.sql("INSERT INTO t VALUES (1, 2, 2)")
    with pytest.raises(HeadraceError, match="was not created"):
        tables.sql("CREATE MATERIALIZED VIEW v AS SELECT k, 10 / (max(x) - 2) AS q FROM t GROUP BY k")
    assert internal_tables(tables) == []
    tables.sql("CREATE MATERIALIZED VIEW v AS SELECT k, max(x) AS q FROM t GROUP BY k")
    check(tables, "v")


def test_views_share_internal_tables_which_go_with_the_last(tables):
    tables.sql("INSERT INTO t VALUES (1, 2, 2)")
    tables.sql("CREATE MATERIALIZED VIEW a AS SELECT k, max(x) AS m FROM t GROUP BY k")
    tables.sql("CREATE MATERIALIZED VIEW b AS SELECT q.k, min(q.x) AS m FROM t AS q GROUP BY q.k")
    tables.sql('CREATE MATERIALIZED VIEW "On b" AS SELECT k FROM b')
    ((shared, rows, size, used_by),) = tables.sql("SHOW INTERNAL TABLES").rows()
    assert (rows, size > 0, used_by) == (1, True, "a, b")
    assert tables.sql(f'SELECT k, x FROM "{shared}"').rows() == [(2, 2)]
    with pytest.raises(DependentObjects, match='it: materialized view "a", materialized view "b"'):
        tables.sql("DROP TABLE t")
    tables.sql("DROP MATERIALIZED VIEW a")
    assert internal_tables(tables) == [shared]
    tables.sql("INSERT INTO t VALUES (2, 2, 1)")
    assert tables.sql("SELECT * FROM b").rows() == [(2, 1)]
    tables.sql("DROP TABLE t CASCADE")
    assert internal_tables(tables) == []


OF_FEW_ROWS = {
    "top": "SELECT id, x FROM t ORDER BY x DESC, id LIMIT 3 OFFSET 1",
    "top_of_each": "SELECT k, id, n FROM (SELECT k, id, row_number() OVER (PARTITION BY k ORDER BY x DESC, id) AS n"
    " FROM t) AS q WHERE n <= 2",
    "extremes": "SELECT min(x) AS mi, max(x) + 1 AS ma, avg(x) AS a, count(DISTINCT k) AS d, count(*) AS c FROM t",
    "averages": "SELECT k, avg(x) AS a, avg(DISTINCT x) AS d, avg(id / 3.0) AS b FROM t GROUP BY k",
    "rolled": "SELECT k % 3 AS g, x, count(*) AS c, avg(id) AS a, grouping(k % 3, x) AS s FROM t"
    " GROUP BY ROLLUP (k % 3, x)",
}


def test_only_the_first_rows_and_the_changes_are_read(tables, monkeypatch):
    tables.sql("INSERT INTO t SELECT g, g % 5, g % 7 FROM generate_series(1, 300) AS g")
    for name, query in OF_FEW_ROWS.items():
        tables.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'incremental') AS {query}")
    cubed = "SELECT k, x, max(id) AS m FROM t GROUP BY CUBE (k, x)"
    tables.sql(f"CREATE MATERIALIZED VIEW cubed WITH (refresh = 'incremental') AS {cubed}")
    check(tables, *OF_FEW_ROWS, "cubed")
    # Whoever reads a relation whole does it there.
    monkeypatch.setattr(stored_rows.StoredRows, "recomputed", None)
    tables.sql("INSERT INTO t VALUES (1000, 1, 100), (1001, 1, NULL), (1002, NULL, 7), (1003, 9, -1)")
    check(tables, *OF_FEW_ROWS, "cubed")
    tables.sql("DELETE FROM t WHERE x IS NULL OR x > 5 OR x < 0")
    tables.sql("UPDATE t SET x = 50 WHERE id < 3")
    check(tables, *OF_FEW_ROWS, "cubed")
    tables.sql("DELETE FROM t")
    check(tables, *OF_FEW_ROWS, "cubed")
    assert tables.sql("SELECT mi, ma, a, d, c FROM extremes").rows() == [(None, None, None, 0, 0)]
    assert tables.sql("SELECT count(*) FROM top").rows() == [(0,)]
    told = tables.sql(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {OF_FEW_ROWS['extremes']}").rows()
    assert any("from the first row }" in line for (line,) in told)


def test_functions_that_return_rows(tables):
    tables.sql("CREATE TABLE lists (id INT PRIMARY KEY, n INT, tags VARCHAR[])")
    views = {
        "tagged": "SELECT l.id, u.tag FROM lists AS l, unnest(l.tags) AS u (tag) WHERE u.tag <> 'c'",
        "counted": "SELECT tag, count(*) AS c FROM lists, unnest(tags) AS u (tag) GROUP BY tag",
        "maybe": "SELECT l.id, u.tag FROM lists AS l LEFT JOIN LATERAL unnest(l.tags) AS u (tag) ON true",
        "series": "SELECT id, generate_series(1, n) AS g FROM lists",
    }
    tables.sql("INSERT INTO lists VALUES (1, 2, ARRAY['a', 'b', 'a']), (2, 0, NULL), (3, 3, ARRAY['c', NULL])")
    for name, query in views.items():
        tables.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'incremental') AS {query}")
    tables.sql("INSERT INTO lists VALUES (4, 5, ARRAY['a']), (2, 1, ARRAY['b', 'b'])")
    tables.sql("DELETE FROM lists WHERE id = 1")
    check(tables, *views)
    of_groups = "SELECT n, unnest(array_agg(id)) AS u FROM lists GROUP BY n"
    tables.sql(f"CREATE MATERIALIZED VIEW of_groups AS {of_groups}")
    tables.sql("INSERT INTO lists VALUES (5, 5, NULL)")
    check(tables, "of_groups")


def test_asof_and_lateral_joins(tables):
    tables.sql("CREATE TABLE prices (id INT PRIMARY KEY, k INT, at INT, price INT)")
    views = {
        "as_of": "SELECT t.id, p.price FROM t ASOF JOIN prices AS p ON t.k = p.k AND t.x >= p.at",
        "soon": "SELECT t.id, p.id AS p FROM t ASOF LEFT JOIN prices AS p ON t.k = p.k AND p.at > t.x WHERE t.id > 5",
        "dearest": "SELECT t.id, q.price FROM t, LATERAL (SELECT p.price FROM prices AS p WHERE p.k = t.k"
        " ORDER BY p.price DESC, p.id LIMIT 2) AS q",
        "counts": "SELECT q.c, count(*) AS n FROM t CROSS JOIN LATERAL (SELECT count(*) AS c FROM prices AS p"
        " WHERE p.k = t.k AND p.at <= t.x) AS q GROUP BY q.c",
    }
    tables.sql("INSERT INTO t SELECT g, g % 5, g % 7 FROM generate_series(1, 40) AS g")
    for name, query in views.items():
        tables.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'incremental') AS {query}")
    tables.sql("INSERT INTO prices SELECT g, g % 6, g, g * 37 % 11 FROM generate_series(0, 9) AS g")
    check(tables, *views)
    tables.sql("UPDATE prices SET at = at - 3 WHERE id % 2 = 0")
    tables.sql("DELETE FROM t WHERE x = 3")
    tables.sql("INSERT INTO t VALUES (100, NULL, 3), (101, 2, NULL), (102, 2, 50)")
    check(tables, *views)
    tables.sql("DELETE FROM prices WHERE k = 2")
    check(tables, *views)
    assert tables.sql("SELECT p FROM soon WHERE id = 102").rows() == [(None,)]
    with pytest.raises(HeadraceError, match="ASOF JOIN needs one"):
        tables.sql("SELECT 1 FROM t ASOF JOIN u ON t.k = u.id")


def test_a_scalar_subquery_over_a_table_that_was_deleted_from(tables):
    """Rows of such a table come from a union: within another one, Spark's optimizer fails unless a rule is left out."""
    query = "SELECT t.id, (SELECT max(w.x) FROM w WHERE w.k = t.k) AS m FROM t"
    tables.sql("CREATE TABLE w (id INT PRIMARY KEY, k INT, x INT)")
    tables.sql("INSERT INTO t VALUES (1, 1, 10), (2, 2, 20), (3, 2, 30)")
    tables.sql("INSERT INTO w VALUES (1, 1, 10), (2, 2, 20), (3, 2, 30)")
    tables.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    for name in ("t", "w"):
        tables.sql(f"DELETE FROM {name} WHERE id = 3")
        tables.sql(f"INSERT INTO {name} VALUES (4, 1, 40)")
    check(tables, "v")
    assert sorted(tables.sql(f"{query} EXCEPT ALL SELECT 2, 20").rows()) == [(1, 40), (4, 40)]
    assert sorted(tables.sql(f"{query} UNION ALL SELECT id, k FROM t WHERE id = 2").rows()) == [
        (1, 40), (2, 2), (2, 20), (4, 40)
    ]  # fmt: skip


@pytest.mark.parametrize("few", [100_000, 0])
def test_a_total_without_groups_keeps_its_row_if_much_changes(tables, monkeypatch, few):
    """Whether there are rows at all, and whether one of them is NULL, are totals that NOT IN is compared with."""
    monkeypatch.setattr(stored_rows, "FEW_KEYS", few)
    tables.sql("CREATE TABLE w (id INT PRIMARY KEY, k INT, x INT)")
    tables.sql("INSERT INTO t VALUES (1, 1, 10), (2, 2, 20), (3, 3, 30)")
    tables.sql("INSERT INTO w VALUES (1, 1, 10), (2, NULL, 20)")
    tables.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM t WHERE k NOT IN (SELECT k FROM w)")
    tables.sql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS c, sum(x) AS s, avg(x) AS a FROM w")
    tables.sql("INSERT INTO w SELECT g, g % 2, g FROM generate_series(10, 3000) AS g")
    for statement, left in (
        ("DELETE FROM w WHERE id = 2", [(2,), (3,)]),
        ("DELETE FROM w WHERE id > 9", [(2,), (3,)]),
        ("DELETE FROM w", [(1,), (2,), (3,)]),
        ("INSERT INTO w VALUES (5, 3, 1)", [(1,), (2,)]),
    ):
        tables.sql(statement)
        assert sorted(tables.sql("SELECT * FROM v").rows()) == left
        assert len(tables.sql("SELECT * FROM total").rows()) == 1
        check(tables, "v")
        check(tables, "total")


def test_what_is_joined_with_all_rows(tables):
    views = {
        "above_average": "SELECT id FROM t WHERE x > (SELECT avg(x) FROM t)",
        "largest": "SELECT id, x FROM t WHERE x = (SELECT max(x) FROM t)",
        "large_groups": "SELECT k, sum(x) AS s FROM t GROUP BY k HAVING sum(x) > (SELECT sum(x) FROM t) / 10",
    }
    for name, query in views.items():
        tables.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'incremental') AS {query}")
    tables.sql("CREATE MATERIALIZED VIEW smaller AS SELECT t.id, u.id AS other FROM t JOIN u ON t.k < u.id")
    with pytest.raises(Unsupported, match="computed anew as a whole"):
        tables.sql(
            "CREATE MATERIALIZED VIEW w WITH (refresh = 'incremental') AS SELECT t.id FROM t JOIN u ON t.k < u.id"
        )
    tables.sql("INSERT INTO t SELECT g, g % 23, g % 7 FROM generate_series(1, 100) AS g")
    check(tables, *views, "smaller")
    tables.sql("UPDATE t SET x = 100 WHERE id < 3")
    tables.sql("INSERT INTO u VALUES (7, 'seven')")
    check(tables, *views, "smaller")
    tables.sql("DELETE FROM t WHERE x = 100")
    check(tables, *views, "smaller")


def test_rows_that_tie_come_in_the_order_of_their_key(tables):
    tables.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM t ORDER BY x LIMIT 2")
    tables.sql("INSERT INTO t SELECT g, 1, 1 FROM generate_series(1, 9) AS g")
    assert sorted(tables.sql("SELECT id FROM v").rows()) == [(1,), (2,)]
    tables.sql("DELETE FROM t WHERE id = 1")
    assert sorted(tables.sql("SELECT id FROM v").rows()) == [(2,), (3,)]


def test_the_first_and_the_last_of_a_group(tables):
    query = (
        "SELECT k, first_value(x ORDER BY id) AS f, last_value(x ORDER BY x % 2, id DESC) FILTER (WHERE id > 1) AS l,"
        " array_agg(x ORDER BY k) AS a FROM t GROUP BY k"
    )
    tables.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    tables.sql("INSERT INTO t VALUES (2, 1, 9), (1, 1, NULL), (3, 1, 7), (4, 2, 4)")
    assert tables.sql("SELECT * FROM v ORDER BY k").rows() == [(1, None, 9, [7, 9, None]), (2, 4, 4, [4])]
    tables.sql("DELETE FROM t WHERE id < 3")
    assert tables.sql("SELECT k, f, l FROM v ORDER BY k").rows() == [(1, 7, 7), (2, 4, 4)]
    check(tables, "v")


def test_an_aggregate_of_nothing_has_a_row(tables):
    tables.sql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS c, sum(x) AS s FROM t")
    tables.sql("CREATE MATERIALIZED VIEW most AS SELECT max(x) AS m FROM t")
    tables.sql("CREATE MATERIALIZED VIEW above AS SELECT c + 1 AS d FROM total")
    assert tables.sql("SELECT * FROM total").rows() == [(0, None)]
    assert tables.sql("SELECT * FROM most").rows() == [(None,)]
    tables.sql("INSERT INTO t VALUES (1, 1, 5)")
    tables.sql("DELETE FROM t")
    assert tables.sql("SELECT c, s, d FROM total, above").rows() == [(0, None, 1)]


def test_sums_that_do_not_fit(tables):
    tables.sql("CREATE TABLE large (id INT PRIMARY KEY, x BIGINT, n NUMERIC(28, 0))")
    tables.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS sx, sum(n) AS sn FROM large")
    for id in range(4):
        tables.sql(f"INSERT INTO large VALUES ({id}, 9223372036854775807, 9999999999999999999999999999)")
    assert tables.sql("SELECT sx, sn FROM v").rows() == tables.sql("SELECT sum(x), sum(n) FROM large").rows()
    tables.sql("DELETE FROM large WHERE id > 0")
    assert tables.sql("SELECT sx, sn FROM v").rows() == tables.sql("SELECT sum(x), sum(n) FROM large").rows()


def test_keys_that_are_floats(tables):
    tables.sql("CREATE TABLE f (id INT PRIMARY KEY, d DOUBLE PRECISION)")
    tables.sql("CREATE MATERIALIZED VIEW counts AS SELECT d, count(*) AS c FROM f GROUP BY d")
    tables.sql("CREATE MATERIALIZED VIEW pairs AS SELECT a.id, b.id AS other FROM f AS a JOIN f AS b ON a.d = b.d")
    tables.sql("INSERT INTO f VALUES (1, 'NaN'), (2, 'NaN'), (3, 0.0), (4, '-0'), (5, NULL), (6, NULL)")
    tables.sql("DELETE FROM f WHERE id IN (2, 3)")
    assert sorted(count for _, count in tables.sql("SELECT * FROM counts").rows()) == [1, 1, 2]
    assert sorted(tables.sql("SELECT * FROM pairs").rows()) == [(1, 1), (4, 4)]


def test_incremental_or_an_error(tables):
    tables.sql("CREATE MATERIALIZED VIEW v WITH (refresh = 'incremental') AS SELECT sum(x) AS s FROM t")
    with pytest.raises(Unsupported, match="computed anew as a whole"):
        tables.sql("CREATE MATERIALIZED VIEW w WITH (refresh = 'incremental') AS SELECT bit_or(x) AS s FROM t")
    with pytest.raises(HeadraceError, match="invalid value for refresh"):
        tables.sql("CREATE MATERIALIZED VIEW w WITH (refresh = 'sometimes') AS SELECT max(x) AS s FROM t")


def test_a_view_that_is_paused_waits_for_what_it_stands_on(tables):
    tables.sql("INSERT INTO t SELECT g, g % 23, g % 7 FROM generate_series(1, 400) AS g")
    tables.sql("SET background_ddl = true")
    tables.sql("SET backfill_rate_limit = 0")
    tables.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['maxima']}")
    tables.sql("UPDATE t SET k = 1 WHERE id < 100")
    ((_, _, _, progress, state, *_),) = tables.sql("SHOW JOBS").rows()[-1:]
    assert (state, progress) == ("paused", "0.0%")
    tables.sql("ALTER MATERIALIZED VIEW v SET BACKFILL_RATE_LIMIT = DEFAULT")
    tables.sql("WAIT v")
    check(tables, "v")


def test_a_build_goes_on_where_it_was(spark, warehouse, monkeypatch):
    monkeypatch.setattr(builds, "PART_ROWS", 100)
    monkeypatch.setattr(evaluate, "ONE_TASK_ROWS", 10)
    views = {name: VIEWS[name] for name in ("ranked", "joined")}
    computed: list[tuple[str, range]] = []
    allowed = threading.Semaphore(0)

    def opened():
        db = headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "100ms"})
        compute = db.engine.backfills.builds.compute

        def held(state, relation, vnodes):
            while not allowed.acquire(timeout=0.05):
                if db.engine.backfills._stopping:
                    raise RuntimeError("a test ends here")
            computed.append((relation.name, vnodes))
            return compute(state, relation, vnodes)

        db.engine.backfills.builds.compute = held
        return db

    def built(db) -> dict[str, int]:
        return {job.name: job.built for job in jobs_of(db.engine.committed).values() if job.builds}

    db = opened()
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, k INT, x INT)")
    db.sql("CREATE TABLE u (id INT PRIMARY KEY, name VARCHAR)")
    db.sql("INSERT INTO u SELECT g, 'name ' || g FROM generate_series(0, 20, 2) AS g")
    db.sql("INSERT INTO t SELECT g, g % 23, g % 7 FROM generate_series(1, 400) AS g")
    db.sql("SET background_ddl = true")
    for name, query in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    allowed.release(4)
    eventually(lambda: len(computed) == 4 and sum(each > 0 for each in built(db).values()) == 2)
    db.sql("UPDATE t SET k = k + 1 WHERE id % 3 = 0")
    db.sql("DELETE FROM t WHERE id % 11 = 0")
    before = built(db)
    assert all(0 < each < 256 for each in before.values())
    db.engine.abandon()
    computed.clear()
    db = opened()
    db.sql("INSERT INTO t VALUES (1000, 3, 100), (1001, 4, NULL)")
    allowed.release(100)
    db.sql("WAIT")
    for name in views:
        assert min(vnodes.start for relation, vnodes in computed if relation == name) >= before[name]
    check(db, *views)
    db.sql("DELETE FROM t WHERE id > 300")
    check(db, *views)
    db.close()


@pytest.mark.parametrize("few", [FEW_KEYS, 3])
def test_a_join_of_which_only_changes_are_read_is_not_stored(spark, warehouse, monkeypatch, few):
    """Both sides change in one epoch, changes come while the groups are built, and the engine is opened again."""
    monkeypatch.setattr(stored_rows, "FEW_KEYS", few)
    monkeypatch.setattr(stored_rows, "SMALL_ROWS", SMALL_ROWS if few > 3 else 2)
    views = {
        "by_name": "SELECT u.name, count(*) AS c, sum(t.x) AS sx FROM t JOIN u ON t.k = u.id GROUP BY u.name",
        "pairs": "SELECT p.x, count(*) AS c, sum(q.id) AS si FROM t AS p JOIN t AS q ON p.k = q.x GROUP BY p.x",
    }
    db = headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "100ms"})
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, k INT, x INT)")
    db.sql("CREATE TABLE u (id INT PRIMARY KEY, name VARCHAR)")
    db.sql("INSERT INTO u SELECT g, 'name ' || g % 3 FROM generate_series(0, 6) AS g")
    db.sql("INSERT INTO t SELECT g, g % 7, g % 5 FROM generate_series(1, 60) AS g")
    begun, allowed = threading.Event(), threading.Event()
    compute = db.engine.backfills.builds.compute

    def held(state, relation, vnodes):
        if relation.operator.adds:
            begun.set()
            assert allowed.wait(60)
        return compute(state, relation, vnodes)

    db.engine.backfills.builds.compute = held
    db.sql("SET background_ddl = true")
    for name, query in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    assert begun.wait(60)
    db.sql("UPDATE t SET x = x + 1 WHERE id % 3 = 0")
    db.sql("DELETE FROM u WHERE id = 2")
    allowed.set()
    db.sql("WAIT")
    check(db, *views)
    db.engine.abandon()
    db = headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "100ms"})
    db.sql("UPDATE t SET k = x, x = k WHERE id % 2 = 0")
    db.sql("INSERT INTO u VALUES (2, 'again'), (3, 'other')")
    db.sql("DELETE FROM t WHERE id > 50")
    check(db, *views)
    state = db.engine.committed
    passing = [each for each in state.catalog if each.operator is not None and each.operator.passing]
    assert len(passing) == 2
    assert not any(state.runs.get(each.id) for each in passing)
    with pytest.raises(Unsupported, match="is not stored"):
        db.sql(f"SELECT * FROM {passing[0].name}")
    db.close()


def test_a_row_that_came_and_went_during_a_build_fails_nobody(tables, monkeypatch):
    tables.sql("INSERT INTO t VALUES (1, 1, 2), (2, 1, 5)")
    begun, allowed = threading.Event(), threading.Event()
    compute = tables.engine.backfills.builds.compute

    def held(state, relation, vnodes):
        begun.set()
        assert allowed.wait(60)
        return compute(state, relation, vnodes)

    monkeypatch.setattr(tables.engine.backfills.builds, "compute", held)
    tables.sql("SET background_ddl = true")
    tables.sql("CREATE MATERIALIZED VIEW v AS SELECT k, sum(10 / x) AS s FROM t GROUP BY k")
    assert begun.wait(60)
    tables.sql("INSERT INTO t VALUES (3, 1, 0), (4, 2, 1)")
    tables.sql("DELETE FROM t WHERE id = 3")
    allowed.set()
    tables.sql("WAIT v")
    assert sorted(tables.sql("SELECT * FROM v").rows()) == [(1, 7), (2, 10)]


def test_what_is_filled_first(tables):
    tables.sql("CREATE TABLE w (id INT PRIMARY KEY, k INT)")
    tables.sql("INSERT INTO t SELECT g, g % 23, g % 7 FROM generate_series(1, 100) AS g")
    tables.sql("INSERT INTO w SELECT g, g % 23 FROM generate_series(1, 100) AS g")
    tables.sql("SET background_ddl = true")
    tables.sql("SET backfill_rate_limit = 0")
    query = "SELECT t.id, w.id AS other FROM t JOIN w ON t.k = w.k"
    tables.sql(f"CREATE MATERIALIZED VIEW v WITH (backfill_order = FIXED(w -> t)) AS {query}")
    jobs = {job.id: job for job in jobs_of(tables.engine.committed).values()}
    (waiting,) = (job for job in jobs.values() if job.after)
    (first,) = (jobs[id] for id in waiting.after)
    assert [[each.name for each in job.inputs.values()] for job in (first, waiting)] == [["w"], ["t"]]
    tables.sql("ALTER MATERIALIZED VIEW v SET BACKFILL_RATE_LIMIT = DEFAULT")
    tables.sql("WAIT v")
    check(tables, "v")
    with pytest.raises(HeadraceError, match="which the view does not read"):
        tables.sql(f"CREATE MATERIALIZED VIEW o WITH (backfill_order = FIXED(u -> t)) AS {query}")


def test_a_view_starts_what_it_shares_with_one_that_failed(tables):
    tables.sql("INSERT INTO t VALUES (1, 2, 0)")
    tables.sql("SET background_ddl = true")
    tables.sql("CREATE MATERIALIZED VIEW bad AS SELECT 10 / x AS g, max(k) AS m FROM t GROUP BY 10 / x")
    with pytest.raises(HeadraceError, match="division by zero"):
        tables.sql("WAIT bad")
    tables.sql("UPDATE t SET x = 5")
    tables.sql("SET background_ddl = false")
    tables.sql("CREATE MATERIALIZED VIEW good AS SELECT 10 / x AS g, min(k) AS m FROM t GROUP BY 10 / x")
    check(tables, "good")
    ((failed, _, _, _, state, *_),) = tables.sql("SHOW JOBS").rows()
    assert state == "failed"
    tables.sql(f"RESUME JOB {failed}")
    tables.sql("WAIT bad")
    check(tables, "bad")
