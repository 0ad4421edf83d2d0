"""Views whose rows come and go with the clock, which a test sets."""

from __future__ import annotations

import datetime
import random

import pytest

import headrace
from headrace.engine import held, moments, stored_rows
from headrace.errors import DataError, Unsupported
from tests.support.four_ways import drawn_seed
from tests.support.waiting import eventually

VIEWS = {
    "recent": "SELECT id, k FROM e WHERE at > now() - INTERVAL '1 hour'",
    "later": "SELECT id FROM e WHERE at <= now() AND k > 0",
    "of_today": "SELECT k, count(*) AS c, max(at) AS m FROM e"
    " WHERE at BETWEEN now() - INTERVAL '1 day' AND now() + INTERVAL '2 hours' GROUP BY k",
    "closed": "SELECT window_start, c FROM (SELECT window_start, window_end, count(*) AS c FROM TUMBLE(e, at,"
    " INTERVAL '1 hour') GROUP BY window_start, window_end) AS w WHERE window_end <= now()",
    "joined": "SELECT e.id, f.name FROM e JOIN f ON e.k = f.id WHERE e.at + INTERVAL '30 minutes' >= now()",
}


class Clock:
    def __init__(self):
        self.micros = int(datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC).timestamp() * 1_000_000)

    def __call__(self) -> int:
        return self.micros

    def forward(self, minutes: float) -> None:
        self.micros += int(minutes * 60_000_000)


@pytest.fixture
def clock(monkeypatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(moments, "read_clock", found)
    return found


def check(db, *names: str) -> None:
    for name in names:
        ((said, *_),) = db.sql(f"CHECK MATERIALIZED VIEW {name}").rows()
        assert said.startswith("equal"), (name, said)


def caught_up(db, clock: Clock) -> None:
    """Nobody writes: the epochs come by themselves."""

    def has() -> bool:
        db.sql("FLUSH")  # wakes the loop, which has slept by another clock
        state = db.engine.committed
        return db.engine.evaluator.keyed.due_in(state) > 0

    eventually(has)


def test_rows_come_and_go_without_any_input(db, clock, spark, warehouse):
    db.sql("CREATE TABLE e (id INT PRIMARY KEY, k INT, at TIMESTAMP)")
    db.sql("CREATE TABLE f (id INT PRIMARY KEY, name VARCHAR)")
    db.sql("INSERT INTO f VALUES (0, 'a'), (1, 'b')")
    seed = drawn_seed()
    print(f"HEADRACE_SEED={seed}")
    chance = random.Random(seed)
    ids = iter(range(1_000_000))

    def write(count: int) -> None:
        rows = [
            f"({next(ids)}, {chance.choice(['NULL', 0, 1])}, TIMESTAMP '2026-01-01 12:00:00'"
            f" + INTERVAL '{chance.randint(-3000, 600)} minutes')"
            for _ in range(count)
        ]
        db.sql(f"INSERT INTO e VALUES {', '.join(rows)}, ({next(ids)}, 1, NULL)")

    db.sql(f"CREATE MATERIALIZED VIEW recent AS {VIEWS['recent']}")
    write(40)
    db.sql("INSERT INTO e VALUES (-1, 1, TIMESTAMP '2026-01-01 12:30:00')")
    for name in ("later", "of_today", "closed", "joined"):
        db.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'incremental') AS {VIEWS[name]}")
    check(db, *VIEWS)
    before = db.sql("SELECT count(*) FROM later").rows()
    for minutes in (1, 45, 300):
        clock.forward(minutes)
        caught_up(db, clock)
        check(db, *VIEWS)
    assert db.sql("SELECT count(*) FROM later").rows() > before
    clock.forward(20)
    write(10)
    db.sql("DELETE FROM e WHERE id % 7 = 3")
    db.sql("UPDATE e SET at = at + INTERVAL '2 hours' WHERE id % 7 = 4")
    check(db, *VIEWS)


def test_the_clock_goes_on_after_a_crash_and_many_rows_are_a_query(clock, spark, warehouse, monkeypatch):
    def opened():
        return headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "100ms"})

    db = opened()
    db.sql("CREATE TABLE e (id INT PRIMARY KEY, k INT, at TIMESTAMPTZ)")
    db.sql("INSERT INTO e SELECT g, g % 3, TIMESTAMPTZ '2026-01-01 11:00:00Z' + g * INTERVAL '1 minute'"
           " FROM generate_series(1, 200) AS g")  # fmt: skip
    db.sql(f"CREATE MATERIALIZED VIEW recent AS {VIEWS['recent']}")
    db.engine.abandon()
    clock.forward(90)
    monkeypatch.setattr(stored_rows, "FEW_KEYS", 20)
    db = opened()
    caught_up(db, clock)
    check(db, "recent")
    clock.forward(1)
    db.sql("DELETE FROM e WHERE id = 150")
    check(db, "recent")
    assert db.sql("SELECT min(id) FROM recent").rows() == [(92,)]
    db.close()


def test_a_row_that_becomes_due_stands_in_nobodys_way(db, clock, monkeypatch):
    db.sql("CREATE TABLE e (id INT PRIMARY KEY, k INT, at TIMESTAMPTZ)")
    db.sql("CREATE TABLE f (id INT PRIMARY KEY)")
    db.sql("CREATE MATERIALIZED VIEW due AS SELECT id, k FROM e WHERE at <= now()")
    db.sql("CREATE MATERIALIZED VIEW share AS SELECT id, 100 / k AS s FROM due")
    db.sql("CREATE MATERIALIZED VIEW past AS SELECT id FROM e WHERE at < now() AND id > 0")
    later = "TIMESTAMPTZ '2026-01-01 12:05:00Z'"
    db.sql(f"INSERT INTO e VALUES (1, 0, {later}), (2, 5, {later}), (3, 4, now() - INTERVAL '1 year')")
    with pytest.raises(DataError, match='division by zero, in materialized view "share"'):
        db.sql("INSERT INTO e VALUES (4, 0, TIMESTAMPTZ '2026-01-01 11:00:00Z')")
    clock.forward(4)
    with pytest.raises(DataError):  # it is due since the last epoch, but it is the statement that brings it
        db.sql("INSERT INTO e VALUES (4, 0, TIMESTAMPTZ '2026-01-01 12:03:00Z')")
    clock.forward(4)
    db.sql("INSERT INTO f VALUES (1)")
    assert db.sql("SELECT * FROM past ORDER BY id").rows() == [(1,), (2,), (3,)]
    assert db.sql("SELECT * FROM share").rows() == [(3, 25)]
    check(db, "due", "share", "past")
    ((job, state, error),) = [(row[0], row[4], row[9]) for row in db.sql("SHOW JOBS").rows()]
    assert state == "behind the clock" and error.startswith('division by zero, in materialized view "share"; it stays')
    assert db.sql(f"SHOW JOB {job}").rows()[0][4] == state
    assert db.sql("SELECT count(*) FROM rw_catalog.rw_ddl_progress").rows() == [(1,)]
    assert 0 < db.engine.evaluator.keyed.due_in(db.engine.committed) <= held.RETRY_SECONDS
    # It stays where it is, also for what is written now; and goes on when it can.
    db.sql(f"INSERT INTO e VALUES (5, 10, {later}), (6, 50, now() - INTERVAL '1 year')")
    assert db.sql("SELECT * FROM share ORDER BY id").rows() == [(3, 25), (6, 2)]
    db.sql("DELETE FROM e WHERE id = 1")
    assert db.sql("SELECT * FROM share ORDER BY id").rows() == [(2, 20), (3, 25), (5, 10), (6, 2)]
    assert db.sql("SHOW JOBS").rows() == []
    check(db, "due", "share", "past")
    # The same if what cannot follow is dropped.
    db.sql("INSERT INTO e VALUES (7, 0, TIMESTAMPTZ '2026-01-01 12:10:00Z')")
    clock.forward(4)
    caught_up(db, clock)
    assert len(db.sql("SHOW JOBS").rows()) == 1
    db.sql("DROP MATERIALIZED VIEW share")
    caught_up(db, clock)
    assert db.sql("SELECT count(*) FROM due").rows() == [(5,)]


def test_nothing_is_computed_of_rows_that_are_not_there(db, clock):
    db.sql("CREATE TABLE e (id INT PRIMARY KEY, k INT, at TIMESTAMPTZ)")
    db.sql(
        "INSERT INTO e VALUES (1, 0, TIMESTAMPTZ '2026-01-01 12:05:00Z'), (2, 0, TIMESTAMPTZ '2027-01-01 00:00:00Z')"
    )
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, 100 / k AS s FROM e WHERE at <= now()")
    db.sql("INSERT INTO e VALUES (3, 0, TIMESTAMPTZ '2028-01-01 00:00:00Z')")
    db.sql("UPDATE e SET k = 4 WHERE id = 1")
    clock.forward(6)
    caught_up(db, clock)
    assert db.sql("SELECT * FROM v").rows() == [(1, 25)]
    check(db, "v")


def test_when_a_row_is_due_is_looked_for_once_and_not_for_ever(db, clock, monkeypatch):
    read = []

    def first_after(files, layout, runs, *rest, **named):
        read.append(len(runs))
        return found(files, layout, runs, *rest, **named)

    found = moments.first_after
    monkeypatch.setattr(moments, "first_after", first_after)
    db.sql("CREATE TABLE e (id INT PRIMARY KEY, k INT, at TIMESTAMPTZ)")
    db.sql("CREATE TABLE f (id INT PRIMARY KEY)")
    db.sql("CREATE MATERIALIZED VIEW due AS SELECT id FROM e WHERE at <= now()")
    db.sql("INSERT INTO e VALUES (1, 0, TIMESTAMPTZ '2026-01-01 12:05:00Z')")
    db.sql("INSERT INTO e VALUES (2, 0, TIMESTAMPTZ '2026-01-01 12:06:00Z')")
    keyed_relations = db.engine.evaluator.keyed
    assert keyed_relations.due_in(db.engine.committed) == 300
    read.clear()
    clock.forward(1)
    db.sql("INSERT INTO f VALUES (1)")
    assert keyed_relations.due_in(db.engine.committed) == 240 and not read
    db.sql("INSERT INTO e VALUES (3, 0, TIMESTAMPTZ '2026-01-01 12:03:00Z')")
    assert keyed_relations.due_in(db.engine.committed) == 120 and set(read) == {1}
    monkeypatch.setattr(moments, "NEXT_ROWS", 0)  # then it is not known, and there is an epoch to see
    clock.forward(3)
    db.sql("FLUSH")
    assert keyed_relations.due_in(db.engine.committed) <= 0


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, now() AS n FROM e",
        "SELECT id FROM e WHERE at > now() - INTERVAL '1 month'",
        "SELECT id FROM e WHERE at > now() OR k = 1",
        "SELECT count(*) FROM e WHERE k = extract(hour FROM now())",
    ],
)
def test_other_uses_of_the_clock_are_refused(db, query):
    db.sql("CREATE TABLE e (id INT PRIMARY KEY, k INT, at TIMESTAMPTZ)")
    with pytest.raises(Unsupported, match="whose result changes by itself"):
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
