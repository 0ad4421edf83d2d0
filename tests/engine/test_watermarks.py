"""EMIT ON WINDOW CLOSE: each window once, when the watermark has passed its end; late rows are left out."""

from __future__ import annotations

import datetime
import random
from collections import Counter

import pytest

import headrace
from headrace.engine import choice, stored_rows
from headrace.errors import HeadraceError, Unsupported
from tests.support.four_ways import drawn_seed
from tests.support.stored import stored
from tests.support.waiting import eventually

START = datetime.datetime(2026, 1, 1)
TABLE = "(id INT PRIMARY KEY, k INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '2 minutes') APPEND ONLY"
VIEWS = {
    "tumbling": "SELECT window_start, window_end, k, count(*) AS c, max(id) AS m"
    " FROM TUMBLE(e, at, INTERVAL '5 minutes') GROUP BY window_start, window_end, k",
    # The window is not shown, and its size is no multiple of its slide.
    "hopping": "SELECT count(*) AS c, sum(id) AS s FROM HOP(e, at, INTERVAL '5 minutes', INTERVAL '12 minutes')"
    " WHERE k IS NOT NULL GROUP BY window_start",
    "first_two": "SELECT window_start, id FROM (SELECT window_start, id, row_number() OVER (PARTITION BY window_start"
    " ORDER BY k, id DESC) AS r FROM TUMBLE(e, at, INTERVAL '10 minutes')) AS w WHERE r <= 2",
    "in_order": "SELECT id, at FROM e WHERE k > 0",
    "of_both": "SELECT date_trunc('minute', at) AS minute, count(*) AS c"
    " FROM (SELECT at FROM e UNION ALL SELECT at FROM f) AS u GROUP BY 1",
    "joined": "SELECT a.window_end, a.c, b.c AS d FROM (SELECT window_end, count(*) AS c FROM"
    " TUMBLE(e, at, INTERVAL '5 minutes') GROUP BY window_end) AS a JOIN (SELECT window_end, count(*) AS c FROM"
    " TUMBLE(f, at, INTERVAL '5 minutes') GROUP BY window_end) AS b ON a.window_end = b.window_end",
}


def at(minutes: float) -> str:
    return f"TIMESTAMP '{START + datetime.timedelta(minutes=minutes)}'"


def check(db, *names: str) -> None:
    for name in names:
        ((said, *_),) = db.sql(f"CHECK MATERIALIZED VIEW {name}").rows()
        assert said.startswith("equal"), (name, said)


def watermarks(db) -> dict[str, tuple]:
    return {
        name: (time and time.replace(tzinfo=None), late) for name, _, time, late in db.sql("SHOW WATERMARKS").rows()
    }


def create(db, name: str, more: str = "") -> None:
    db.sql(f"CREATE MATERIALIZED VIEW {name} {more} AS {VIEWS[name]} EMIT ON WINDOW CLOSE")


def test_a_window_comes_once_when_it_closes(db):
    """To be read: what each INSERT does to the watermark, to the view, and to what is late."""
    db.sql(f"CREATE TABLE e {TABLE}")
    create(db, "tumbling", "WITH (refresh = 'incremental')")
    shown = "SELECT extract(minute FROM window_start)::int, k, c, m FROM tumbling ORDER BY 1, 2"
    trace = []
    for rows in ([(1, 0, 1)], [(2, 0, 4), (3, 1, 4)], [(4, 0, 6)], [(5, 0, 2), (6, 0, 6.5)], [(7, 0, 7)],
                 [(8, 0, 4.9), (9, 0, 5)], [(10, 0, None)], [(11, 1, 18)]):  # fmt: skip
        values = ", ".join(f"({id}, {k}, {'NULL' if when is None else at(when)})" for id, k, when in rows)
        count = int(db.sql(f"INSERT INTO e VALUES {values}").tag.split()[-1])
        time, late = watermarks(db)["e"]
        trace.append((count, (time - START).total_seconds() / 60, late, db.sql(shown).rows()))
    first = [(0, 0, 2, 2), (0, 1, 1, 3)]
    assert trace == [
        (1, -1, 0, []),
        (2, 2, 0, []),
        (1, 4, 0, []),
        (1, 4.5, 1, []),  # the first of the two was late, though its window had not closed
        (1, 5, 1, first),  # the watermark is at the window's end
        (1, 5, 2, first),  # what is at the watermark is not late
        (1, 5, 2, first),  # nor is what has no time; it is in no window
        (1, 16, 2, [*first, (5, 0, 4, 9)]),
    ]
    plan = "\n".join(
        line
        for (line,) in db.sql(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {VIEWS['tumbling']} EMIT ON WINDOW CLOSE").rows()
    )
    assert "StreamEmitOnWindowClose" in plan and "once the watermark of e >=" in plan
    assert db.sql("SHOW CREATE MATERIALIZED VIEW tumbling").rows()[0][1].endswith("EMIT ON WINDOW CLOSE")
    db.sql("ALTER TABLE e RENAME TO events")
    ((_, definition),) = db.sql("SHOW CREATE MATERIALIZED VIEW tumbling").rows()
    assert "_hr_" not in definition and definition.endswith(" EMIT ON WINDOW CLOSE")
    db.sql(definition.replace("tumbling", "again"))
    assert stored(db.engine, "again") == stored(db.engine, "tumbling")
    db.sql("DROP TABLE events CASCADE")
    assert not any(key.startswith(("watermark", "late")) for key in db.engine.committed.offsets)


@pytest.mark.parametrize("way", ["lookups", "queries", "anew"])
def test_views_are_their_queries_over_closed_windows(spark, warehouse, monkeypatch, way):
    """Random rows in a random order, through crashes, into views that were there before, and that come in between."""
    few = way != "queries"
    if way == "anew":  # but not where what has closed is gone
        monkeypatch.setattr(choice, "is_cheaper_anew", lambda followed, anew: True)
    before, between = (
        (["tumbling", "of_both"], ["hopping", "first_two", "in_order", "joined"])
        if few
        else (["tumbling"], ["first_two"])
    )
    if not few:
        monkeypatch.setattr(stored_rows, "FEW_KEYS", 1)
    seed = drawn_seed()
    print(f"HEADRACE_SEED={seed}")
    chance = random.Random(seed)
    db = headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "50ms"})
    for name in ("e", "f"):
        db.sql(f"CREATE TABLE {name} {TABLE}")
    for view in before:
        create(db, view)
    kept: dict[str, list[tuple]] = {"e": [], "f": []}
    seen: dict[str, Counter] = {}
    late, latest, ids = {"e": 0, "f": 0}, {"e": None, "f": None}, iter(range(1_000_000))
    last = 8 if few else 4
    for number in range(last + 1):
        name, now = chance.choice("eef") if few else "e", 4 * number
        rows = [
            (next(ids), chance.choice([None, 0, 1, 2]), chance.choice([None, *[now - chance.randint(-5, 8)] * 6]))
            for _ in range(chance.randint(1, 8))
        ]
        if number == last:  # by which some window closes, whatever the others are
            name, rows = "e", [(next(ids), 0, now + 8)]
        values = ", ".join(
            f"({id}, {'NULL' if k is None else k}, {'NULL' if when is None else at(when)})" for id, k, when in rows
        )
        if chance.random() < 0.3:  # by executors
            values = f"SELECT a, b::int, c::timestamp FROM (VALUES {values}) AS r (a, b, c)"
            monkeypatch.setattr("headrace.engine.writes.SMALL_PLAN_BYTES", -1)
        else:
            values = f"VALUES {values}"
        db.sql(f"INSERT INTO {name} {values}")
        latest_before = latest[name]
        on_time = [row for row in rows if latest_before is None or row[2] is None or row[2] >= latest_before - 2]
        kept[name] += on_time
        late[name] += len(rows) - len(on_time)
        times = [when for *_, when in on_time if when is not None]
        latest[name] = max(times + ([] if latest_before is None else [latest_before]), default=None)
        if number == 3:
            for view in between:
                create(db, view)
        if chance.random() < 0.2:
            db.engine.abandon()
            db = headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "50ms"})
        for view in [*before, *(between if number >= 3 else ())]:
            rows_now = stored(db.engine, view)
            assert rows_now >= seen.get(view, Counter()), f"a row of {view} has changed, HEADRACE_SEED={seed}"
            seen[view] = rows_now
    for name in ("e", "f"):
        assert sorted(id for id, *_ in stored(db.engine, name)) == [id for id, *_ in kept[name]]
        assert watermarks(db)[name][1] == late[name]
        if latest[name] is not None:
            assert watermarks(db)[name][0] == START + datetime.timedelta(minutes=latest[name] - 2)
    check(db, *before, *between)
    assert any(seen.values())
    db.close()


def internal_rows(db) -> dict[str, int]:
    """How many rows each internal table has stored, live or not."""
    state = db.engine.committed
    return {
        each.name: sum(run.rows for run in state.runs.get(each.id, ()))
        for each in state.catalog.of_kind("internal table")
    }


def test_what_has_closed_leaves_the_internal_tables(db, monkeypatch):
    """They hold what is open, and what has closed since the last merge; views stay as they are."""
    views = ["tumbling", "in_order", "joined"]
    for name in ("e", "f"):
        db.sql(f"CREATE TABLE {name} {TABLE}")
    for view in views:
        create(db, view)

    def minutes(first: int, last: int, *tables: str) -> None:
        for name in tables:
            rows = f"generate_series({first} * 10, {last} * 10 - 1) AS g"
            db.sql(f"INSERT INTO {name} SELECT g, g % 3, {at(0)} + g * INTERVAL '6 seconds' FROM {rows}")

    minutes(0, 20, "e", "f")
    minutes(20, 60, "e")
    assert sum(internal_rows(db).values()) > 500
    db.sql("COMPACT")
    left = internal_rows(db)
    # f is at minute 20: what e has of later windows is waited for by the join, and by nothing else. Where e alone
    # counts, windows that end after minute 57.9 are open.
    assert {name: rows for name, rows in left.items() if "joined" in name and rows > 10} == {}
    assert sum(rows for name, rows in left.items() if "joined" not in name) < 150, left
    check(db, *views)
    minutes(20, 60, "f")  # of which e is closed already
    minutes(60, 70, "e", "f")
    check(db, *views)
    db.sql("COMPACT")
    assert sum(internal_rows(db).values()) < 150
    # From the table, in which everything is still there.
    db.sql(f"CREATE MATERIALIZED VIEW again AS {VIEWS['tumbling']} EMIT ON WINDOW CLOSE")
    assert stored(db.engine, "again") == stored(db.engine, "tumbling")
    # Many rows close at once: by a query, which must not take those for gone that were left out, nor forget them.
    monkeypatch.setattr(stored_rows, "LOOKUP_ROWS", 3)
    minutes(70, 90, "e", "f")
    check(db, *views, "again")
    with pytest.raises(Unsupported, match="loses the rows of windows that have closed"):
        db.sql(f'CREATE MATERIALIZED VIEW v AS SELECT * FROM "{next(iter(left))}"')


def test_history_that_comes_by_key_closes_nothing_early(spark, warehouse):
    """Of a view that is being filled, all that stands on it waits: the latest row is the first by its key."""
    db = headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "50ms"})
    db.sql(f"CREATE TABLE e {TABLE}")
    db.sql(
        f"INSERT INTO e SELECT g, g % 3, {at(0)} + (3000 - g) * INTERVAL '1 second' FROM generate_series(1, 3000) AS g"
    )
    db.sql("SET background_ddl = true")
    create(db, "tumbling", "WITH (backfill_rate_limit = 500)")
    db.sql(f"INSERT INTO e VALUES (-1, 1, {at(52)}), (-2, 1, {at(1)})")  # while it is being filled
    db.engine.abandon()
    db = headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "50ms"})
    db.sql(f"INSERT INTO e VALUES (-3, 1, {at(53)})")
    eventually(lambda: not db.sql("SHOW JOBS").rows())
    check(db, "tumbling")
    assert db.sql("SELECT sum(c) FROM tumbling").rows() == [(3000,)]  # 50 minutes of history, up to a watermark of 51
    assert watermarks(db)["e"] == (START + datetime.timedelta(minutes=51), 1)
    db.close()


REFUSED = [
    ("CREATE TABLE t (id INT, at TIMESTAMP, WATERMARK FOR at AS at)", "not append-only"),
    ("CREATE TABLE t (id INT, at TIMESTAMP, WATERMARK FOR at AS now()) APPEND ONLY", "its column, less"),
    ("CREATE TABLE t (at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '1 month') APPEND ONLY", "its column"),
    ("CREATE TABLE t (id INT, WATERMARK FOR id AS id) APPEND ONLY", "is of type"),
    ("DELETE FROM e", "append-only"),
    *(
        (f"CREATE MATERIALIZED VIEW v AS {query} EMIT ON WINDOW CLOSE", "a watermark makes final")
        for query in (
            "SELECT k, count(*) FROM e GROUP BY k",
            "SELECT at, sum(k) OVER (ORDER BY at) FROM e",
            "SELECT at FROM e WHERE at < now()",
            "SELECT e.at FROM e JOIN e AS x ON e.k = x.k",
            "SELECT at FROM e ORDER BY at LIMIT 5",
            "SELECT at::date AS day, count(*) FROM e GROUP BY 1",
            "SELECT window_end, count(*) FROM SESSION(e, at, INTERVAL '1 minute', k) GROUP BY window_end",
        )
    ),
]


def test_what_cannot_be_final_is_refused(db):
    db.sql(f"CREATE TABLE e {TABLE}")
    for statement, said in REFUSED:
        with pytest.raises((Unsupported, HeadraceError), match=said):
            db.sql(statement)


def test_events_of_a_source(spark, warehouse, tmp_path):
    """History is not late, whatever its order; of what comes then, late events are left out for such views alone."""
    folder = tmp_path / "in"
    folder.mkdir()

    def events(name: str, *minutes: float) -> None:
        lines = [f'{{"k": 1, "at": "{START + datetime.timedelta(minutes=each)}"}}\n' for each in minutes]
        (folder / f".{name}").write_text("".join(lines))
        (folder / f".{name}").rename(folder / f"{name}.json")

    def opened():
        return headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "50ms"})

    def of(view: str) -> list[tuple]:
        return db.sql(f"SELECT extract(minute FROM window_end)::int, c FROM {view} ORDER BY 1").rows()

    events("a", 17, 3, 11, 1, 12)
    db = opened()
    db.sql(
        "CREATE SOURCE e (k INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '2 minutes') WITH (connector = 'file',"
        f" path = '{folder}/*.json') FORMAT PLAIN ENCODE JSON"
    )
    query = "SELECT window_end, count(*) AS c FROM TUMBLE(e, at, INTERVAL '5 minutes') WHERE k = 1 GROUP BY window_end"
    db.sql(f"CREATE MATERIALIZED VIEW closed AS {query} EMIT ON WINDOW CLOSE")
    db.sql(f"CREATE MATERIALIZED VIEW open AS {query}")
    eventually(lambda: of("closed") == [(5, 2), (15, 2)])
    events("b", 14, 15, 16)  # the first of them is late
    eventually(lambda: sum(count for _, count in of("open")) == 8)
    eventually(lambda: watermarks(db) == {"closed": (START + datetime.timedelta(minutes=15), 1)})
    db.engine.abandon()
    db = opened()
    events("c", 22, 2)
    eventually(lambda: of("closed") == [(5, 2), (15, 2), (20, 3)])
    events("d", 2, 26)
    eventually(lambda: watermarks(db) == {"closed": (START + datetime.timedelta(minutes=24), 3)})
    # What is stored of the source has lost what has closed: another view reads history for itself, where none is late.
    db.sql(f"CREATE MATERIALIZED VIEW again AS {query} EMIT ON WINDOW CLOSE")
    assert of("again") == [(5, 4), (15, 3), (20, 3)]
    assert of("closed") == [(5, 2), (15, 2), (20, 3)]
    assert of("open") == [(5, 4), (15, 3), (20, 3), (25, 1), (30, 1)]
    check(db, "open")
    with pytest.raises(Unsupported, match="is not kept"):
        check(db, "closed")
    db.sql("COMPACT")
    events("e", 31)
    eventually(lambda: of("again") == [(5, 4), (15, 3), (20, 3), (25, 1)])
    assert of("closed") == [(5, 2), (15, 2), (20, 3), (25, 1)]
    ((_, left),) = ((name, rows) for name, rows in internal_rows(db).items() if "_closed_" in name and "events" in name)
    assert left <= 2  # of 13 events: those that had not closed when they were merged, and the last
    db.close()
