"""Indexes and keys in queries: what is read changes, what is answered does not."""

from __future__ import annotations

import random

import pytest

from headrace.errors import DependentObjects, InvalidParameterValue, WrongObjectKind
from headrace.serving.result import Result
from headrace.sql.parse import parse
from headrace.state import lookup


def answer(session, query: str, *, selection: bool = True) -> tuple[list[tuple], list[str]]:
    """The rows in no order, and what was used for them."""
    session.sql(f"SET enable_index_selection = {selection}")
    notes: list[str] = []
    (statement,) = parse(query)
    table = Result.of_frame(*session._frame(session._asked(statement), notes)).arrow()
    columns = (column.to_pylist() for column in table.columns)
    return sorted(zip(*columns, strict=True), key=repr), notes


def same(session, query: str) -> list[str]:
    """Asserts that selection changes nothing, and tells what it used."""
    with_it, notes = answer(session, query)
    without, none = answer(session, query, selection=False)
    assert with_it == without, (query, notes)
    assert none == []
    session.sql("SET enable_index_selection = true")
    (statement,) = parse(query)
    asked = session._asked(statement)
    small = asked.small(session._engine, session.variables)
    if small is not None and (table := small.rows()) is not None:
        columns = (column.to_pylist() for column in table.columns)
        assert sorted(zip(*columns, strict=True), key=repr) == without, (query, small.describe())
    return notes


def equal(db, name: str) -> None:
    (line,) = db.sql(f"CHECK INDEX {name}").arrow().to_pylist()
    assert line.get("Check", "").startswith("equal"), line


# --- random predicates ------------------------------------------------------------------------------------------

COLUMNS = {
    "id": lambda r: str(r.randrange(0, 420)),
    "a": lambda r: str(r.choice((-1, 0, 1, 2, 3, 4, 99))),
    "b": lambda r: r.choice(("'k''0'", "'k''1'", "'k''2'", "''", "'K'", "'é\\3'", "'none'")),
    "c": lambda r: r.choice(("0", "0.5", "1.00", "1.5", "-2.5", "7", "'0.50'")),
    "d": lambda r: r.choice(("DATE '2024-02-28'", "'2024-02-29'", "DATE '2024-03-01'", "'1969-12-31'")),
    "e": lambda r: r.choice(("TIMESTAMP '2024-01-01 00:00:01'", "'2024-01-01 00:00:02.5'", "'1960-01-01'")),
    "f": lambda r: r.choice(("true", "false")),
    "g": lambda r: r.choice(("'\\x00ff'", "'\\x01ff'", "'\\x'")),
    "h": lambda r: r.choice(("1.5", "0.0", "-1", "3")),
    "z": lambda r: r.choice(("'2024-01-01 00:00:01+00'", "TIMESTAMPTZ '2024-01-01 02:00:02+02'")),
}
INDEXES = {
    "a DESC, b": "a IN (99, 1) AND b > 'k'",
    "b DESC NULLS LAST, a NULLS FIRST) INCLUDE (a": "b = 'k''1' AND a >= 2",
    "c, d) DISTRIBUTED BY (c, d": "c IN (0.5, 1) AND d = '2024-02-29' AND id > 9",
    "d DESC, e": "d = '2024-02-28' AND e < '2024-01-01 00:00:02'",
    "f, g": "f AND f = true AND g = '\\x01ff'",
    "h": "h = 1.5",
    "z, c DESC": "z = '2024-01-01 02:00:02+02' AND c BETWEEN 0 AND 1",
}
"""Keys, and what they are for."""

BY_KEY = "id IN (13, 26, 17, 250)"


def condition(r: random.Random) -> str:
    column = r.choice(list(COLUMNS))
    value = COLUMNS[column]
    kind = r.random()
    if kind < 0.5:
        return f"{column} = {value(r)}" if r.random() < 0.8 else f"{value(r)} = {column}"
    if kind < 0.65:
        return f"{column} IN ({', '.join(value(r) for _ in range(r.randrange(1, 4)))})"
    if kind < 0.8 and column != "f":
        return f"{column} {r.choice(('<', '<=', '>', '>='))} {value(r)}"
    if kind < 0.85 and column != "f":
        return f"{column} BETWEEN {value(r)} AND {value(r)}"
    if kind < 0.9:
        return f"{column} IS {r.choice(('', 'NOT '))}NULL"
    return f"({column} = {value(r)} OR a = 1)" if kind < 0.95 else f"NOT {column} = {value(r)}"


def where(r: random.Random) -> str:
    return " AND ".join(condition(r) for _ in range(r.randrange(1, 4)))


def test_random_predicates_answer_the_same_with_and_without(db, monkeypatch):
    db.sql("ALTER SYSTEM SET compaction = false")
    db.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR, c NUMERIC(8,2), d DATE, e TIMESTAMP, f BOOLEAN, g BYTEA,"
        " h DOUBLE PRECISION, z TIMESTAMPTZ, n VARCHAR)"
    )
    fill = (
        "INSERT INTO t SELECT g, NULLIF(g % 6, 5), CASE g % 7 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'é\\3'"
        " WHEN 3 THEN 'K' ELSE 'k''' || g % 3 END, CASE WHEN g % 8 > 0 THEN (g % 5) / 2.0 END,"
        " DATE '2024-02-27' + g % 4, TIMESTAMP '2024-01-01 00:00:00' + g % 4 * INTERVAL '1.25 seconds',"
        " CASE g % 3 WHEN 0 THEN true WHEN 1 THEN false END, decode('0' || g % 2 || 'ff', 'hex'),"
        " (g % 5 - 1) * 1.5, TIMESTAMPTZ '2024-01-01 00:00:00+00' + g % 4 * INTERVAL '1 second', 'n' || g"
        " FROM generate_series({}, {}) AS s(g)"
    )
    db.sql(fill.format(1, 300))
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT a, b, c, d, e, f, g, h, z, id FROM t WHERE id % 11 <> 0")
    for number, keys in enumerate(INDEXES):
        db.sql(f"CREATE INDEX i{number} ON t ({keys})")
    db.sql("CREATE INDEX j ON m (e, id DESC) DISTRIBUTED BY (e, id)")
    # Several runs, with retractions of rows in older ones.
    db.sql(fill.format(250, 400))
    db.sql("UPDATE t SET a = 99, b = 'k''1' WHERE id % 13 = 0")
    db.sql("DELETE FROM t WHERE id % 17 = 0")
    db.sql("UPDATE t SET c = 0.5 WHERE a = 99 AND b = 'k''1'")
    # What each index is for: read by one task, and by a scan as if it were too much for one. Then anything.
    query = " UNION ALL ".join(
        f"SELECT {number} AS q, t.* FROM t WHERE {test}" for number, test in enumerate((*INDEXES.values(), BY_KEY))
    )
    for most in (lookup.PREFIX_ROWS, 0):
        monkeypatch.setattr(lookup, "PREFIX_ROWS", most)
        used = [note.partition(" (")[0] for note in same(db.session(), query)]
        numbers = [number for number, keys in enumerate(INDEXES) if not keys.startswith("h")]  # floats are scanned for
        assert used == [*(f"uses index i{number}" for number in numbers), "uses primary key"]
    seed = random.randrange(1 << 30)
    r = random.Random(seed)
    for most in (1 << 17, 0):
        monkeypatch.setattr(lookup, "PREFIX_ROWS", most)
        parts = []
        for number in range(8):
            source = r.choice(("t", "t", "m"))
            shown = "id, a, b, c, 'x' AS n" if source == "m" else r.choice(("id, a, b, c, n", "id, a, b, a * 1.0, 'n'"))
            parts.append(f"SELECT {number} AS q, {shown} FROM {source} WHERE {where(r)}")
        try:
            same(db.session(), " UNION ALL ".join(parts))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
    equal(db, "i1")
    equal(db, "j")


# --- where it is used -------------------------------------------------------------------------------------------


@pytest.fixture
def shop(db):
    db.sql("CREATE TABLE orders (id INT PRIMARY KEY, item VARCHAR, price INT, note VARCHAR)")
    db.sql("INSERT INTO orders SELECT g, 'item ' || g % 50, g % 7, 'note ' || g FROM generate_series(1, 1000) AS s(g)")
    return db


def test_queries_by_key_and_by_index(shop):
    session = shop.session()
    assert same(session, "SELECT * FROM orders WHERE id = 7") == ["uses primary key (id = 7)"]
    assert same(session, "SELECT * FROM orders WHERE id IN (7, 8, -1)") == ["uses primary key (id IN (7, 8, -1))"]
    assert same(session, "SELECT * FROM orders WHERE item = 'item 3'") == []
    shop.sql("CREATE INDEX by_item ON orders (item, price)")
    query = "SELECT * FROM orders WHERE item = 'item 3' AND price >= 2"
    assert same(session, query) == ["uses index by_item (item = 'item 3' AND price >= 2)"]
    assert len(answer(session, query)[0]) == 14
    session.sql("SET enable_index_selection = true")
    (first, *_) = session.sql(f"EXPLAIN {query}").arrow()["QUERY PLAN"].to_pylist()
    assert first == "answered without Spark: uses index by_item (item = 'item 3' AND price >= 2)"
    session.sql("SET enable_index_selection = false; SET query_mode = distributed")
    (first, *_) = session.sql(f"EXPLAIN {query}").arrow()["QUERY PLAN"].to_pylist()
    assert first == "== Physical Plan =="
    session.sql("SET query_mode = auto")
    # the same table twice, functions of Spark, a join
    assert len(same(session, "SELECT x.id, y.id FROM orders x, orders y WHERE x.id = 7 AND y.item = 'item 7'")) == 2
    assert same(session, "SELECT levenshtein(note, 'note 1') FROM orders WHERE id = 7")
    assert same(session, "SELECT o.id, p.id FROM orders o LEFT JOIN orders p ON p.id = o.id + 1 WHERE o.id = 1000")


def test_an_index_that_lacks_columns_leads_to_the_rows(shop):
    session = shop.session()
    shop.sql("CREATE INDEX by_price ON orders (price) INCLUDE (item)")
    few = "SELECT id, note FROM orders WHERE price = 3"
    assert same(session, few) == ["uses index by_price (price = 3), then the primary key"]
    assert same(session, "SELECT item FROM orders WHERE price = 3") == ["uses index by_price (price = 3)"]
    many = "SELECT id, note FROM orders WHERE price IN (1, 2, 3, 4, 5, 6)"
    assert same(session, many) == [], "too many rows to look them up one by one"
    shop.sql("UPDATE orders SET note = NULL WHERE price = 3 AND id < 100")
    assert same(session, few)
    equal(shop, "by_price")


def test_an_index_is_not_used_before_it_is_complete(shop):
    session = shop.session()
    session.sql("SET background_ddl = true; SET backfill_rate_limit = 0")
    session.sql("CREATE INDEX by_item ON orders (item)")
    query = "SELECT count(*) FROM orders WHERE item = 'item 3'"
    assert answer(session, query) == ([(20,)], [])
    session.sql("ALTER INDEX by_item SET BACKFILL_RATE_LIMIT = DEFAULT")
    session.sql("WAIT by_item")
    assert answer(session, query) == ([(20,)], ["uses index by_item (item = 'item 3')"])


def test_time_travel_uses_the_index_of_that_epoch(shop):
    session, query = shop.session(), "SELECT sum(price) FROM orders WHERE item = 'item 3'"
    before = shop.engine.committed.epoch
    shop.sql("CREATE INDEX by_item ON orders (item)")
    created = shop.engine.committed.epoch
    old = answer(session, query)[0]
    shop.sql("UPDATE orders SET price = 1000 WHERE item = 'item 3'")
    used = ["uses index by_item (item = 'item 3')"]
    assert answer(session, query) == ([(20_000,)], used)
    session.sql(f"SET query_epoch = {created}")
    assert answer(session, query) == (old, used)
    session.sql(f"SET query_epoch = {before}")
    assert answer(session, query) == (old, []), "it did not exist"
    session.sql("RESET query_epoch")
    as_of = query.replace("orders", f"orders FOR SYSTEM_TIME AS OF {created}")
    assert answer(session, as_of) == (old, used)
    shop.sql("DROP INDEX by_item")
    assert answer(session, query) == ([(20_000,)], [])
    assert answer(session, as_of) == (old, used), "it still existed"
    with pytest.raises(InvalidParameterValue):
        session.sql("SET enable_index_selection = maybe")


# --- writes -----------------------------------------------------------------------------------------------------


def test_writes_find_their_rows_by_an_index(db, monkeypatch):
    from headrace.engine import inserts

    seen = []
    real = inserts.read_part
    monkeypatch.setattr(inserts, "read_part", lambda *given: seen.append(given[2].describe()) or real(*given))
    db.sql("CREATE TABLE bag (a INT, b VARCHAR, c INT)")  # its hidden key is a hidden column of the index
    db.sql("INSERT INTO bag SELECT g % 20, 'b' || g % 3, g FROM generate_series(1, 400) AS s(g)")
    db.sql("CREATE TABLE copy (a INT, c INT)")
    db.sql("CREATE INDEX i ON bag (a)")
    db.sql("CREATE INDEX k ON bag (b, a) INCLUDE (a)")
    assert db.sql("UPDATE bag SET c = c + 1000 WHERE a = 3").tag == "UPDATE 20"
    assert db.sql("UPDATE bag SET a = 50 WHERE b = 'b1' AND a IN (4, 5)").tag == "UPDATE 14"
    assert db.sql("DELETE FROM bag WHERE a = 6 AND c < 200").tag == "DELETE 10"
    assert (
        db.sql("DELETE FROM bag AS x WHERE x.a = 7 AND x.c IN (SELECT max(c) FROM bag WHERE a = 7)").tag == "DELETE 1"
    )
    assert set(seen) == {
        "uses index i (a = 3)",
        "uses index k (b = 'b1' AND a IN (4, 5)), then the primary key",
        "uses index i (a = 6)",
        "uses index i (a = 7)",
    }
    assert db.sql("INSERT INTO copy SELECT a, c FROM bag WHERE a = 50").tag == "INSERT 0 14"
    session = db.session()
    assert same(session, "SELECT a, b, c, _row_id FROM bag WHERE a IN (3, 50, 6, 7)") == [
        "uses index i (a IN (3, 50, 6, 7))"
    ]
    for index in ("i", "k"):
        equal(db, index)
    session.sql("SET enable_index_selection = false")
    seen.clear()
    assert session.sql("DELETE FROM bag WHERE a = 3").tag == "DELETE 20"
    assert seen == []


# --- definitions ------------------------------------------------------------------------------------------------


def test_indexes_go_with_their_table_and_views_hold_it(shop):
    shop.sql("CREATE INDEX by_item ON orders (item)")
    shop.sql("CREATE MATERIALIZED VIEW cheap AS SELECT id, item FROM orders WHERE price < 2")
    shop.sql("CREATE INDEX cheap_item ON cheap (item)")
    with pytest.raises(DependentObjects, match='materialized view "cheap"') as refused:
        shop.sql("DROP TABLE orders")
    assert "by_item" not in refused.value.message and "cheap_item" not in refused.value.message
    shop.sql("DROP MATERIALIZED VIEW cheap")
    shop.sql("DROP TABLE orders")
    assert shop.sql("SHOW INDEXES").arrow().num_rows == 0
    assert shop.engine.committed.runs == {}


def test_an_index_that_is_being_filled_goes_with_its_table(shop):
    session = shop.session()
    session.sql("SET background_ddl = true; SET backfill_rate_limit = 0; CREATE INDEX by_item ON orders (item)")
    session.sql("DROP TABLE orders")
    assert session.sql("SHOW JOBS").arrow().num_rows == 0
    session.sql("WAIT")


def test_an_index_is_no_table(shop):
    shop.sql("CREATE INDEX by_item ON orders (item)")
    for statement in (
        "INSERT INTO by_item VALUES ('x', 1)",
        "DELETE FROM by_item",
        "SELECT * FROM by_item",
        "CREATE INDEX other ON by_item (item)",
        "DROP TABLE by_item",
    ):
        with pytest.raises(WrongObjectKind):
            shop.sql(statement)


def test_explain_names_the_scan(shop):
    session = shop.session()

    def scan(statement: str) -> str:
        return session.sql(f"EXPLAIN {statement}").arrow()["QUERY PLAN"].to_pylist()[-1].strip("└─ ")

    view = "CREATE MATERIALIZED VIEW v AS SELECT note FROM orders"
    head = "StreamTableScan { table: orders, columns: [id, note], pk: [id], dist: hash(id), stream_scan_type: "
    sends = "upstream_sends: [id, note], backfill_sends: [id, note], "
    assert (
        scan(view)
        == f"{head}ArrangementBackfill, {sends}pacing: adaptive, parallelism: adaptive, incremental: linear }}"
    )
    with_options = view.replace(" AS", " WITH (parallelism = 3, backfill_rate_limit = 100, backfill_pacing = 50) AS")
    assert "pacing: 50, rate_limit: 100/s, parallelism: 3," in scan(with_options)
    assert "ArrangementBackfill" in scan("CREATE INDEX i ON orders (price DESC) INCLUDE (note)")
    session.sql("SET streaming_use_arrangement_backfill = false")
    assert "stream_scan_type: NoShuffle" in scan(view)
    session.sql("CREATE TABLE empty (id INT PRIMARY KEY)")
    assert "stream_scan_type: NoShuffle" in scan("CREATE MATERIALIZED VIEW v AS SELECT id FROM empty")
