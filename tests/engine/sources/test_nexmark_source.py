"""Nexmark's queries as views on the generator that is a source: three of them, read by executors, while events come.

The clock of the sources is the test's, so that what is created before, during and after the events is. Every view is
compared with its query over the events that the sources say were read. CHECK MATERIALIZED VIEW compares with these,
too, but reads them as the view does; here they are worked out from their numbers, without the engine, and at the end
they are all that there are.
"""

from __future__ import annotations

import functools
import time

import pyarrow as pa
import pytest

import headrace
from headrace.engine.feeds import StreamState, stream_state
from headrace.sources import generated
from headrace.sources.handover import Range
from headrace.sources.nexmark import Nexmark
from tests.support.four_ways import THOROUGH, TURNS, differing, drawn_seed, ways
from tests.support.nexmark import QUERIES, on_views
from tests.support.waiting import eventually

EVENTS = 2000
ROWS = {"person": EVENTS // 50, "auction": EVENTS // 50 * 3, "bid": EVENTS // 50 * 46}
COLUMNS = {
    "person": "id BIGINT, name VARCHAR, city VARCHAR, state VARCHAR, date_time TIMESTAMP",
    "auction": "id BIGINT, item_name VARCHAR, initial_bid BIGINT, reserve BIGINT, date_time TIMESTAMP,"
    " expires TIMESTAMP, seller BIGINT, category BIGINT",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR, date_time TIMESTAMP",
}
CHOSEN = ("q4", "q5", "q8", "q9", "q15", "q19", "q21", "q101")
"""Joins of two and three kinds, windows of both, aggregates of all kinds, first rows; all queries are for those who
have the time."""


def source(table: str, seed: int) -> str:
    """An event comes each second, and is 20 milliseconds later than the one before."""
    return (
        f"CREATE SOURCE {table} ({COLUMNS[table]}) WITH (connector = 'nexmark', nexmark.table.type = '{table}',"
        f" nexmark.event.num = '{EVENTS}', nexmark.events.per.second = '1', nexmark.seed = '{seed}',"
        " nexmark.min.event.gap.in.ns = '20000000', nexmark.split.num = '2')"
    )


def state_of(db, name: str) -> StreamState:
    return stream_state(db.engine.committed, db.engine.committed.catalog.get(name).id)


def events_read(db) -> dict[str, pa.Table]:
    """Those that the committed manifest says were read, by their sources."""
    found = {}
    for name in ROWS:
        known = state_of(db, name)
        reader = Nexmark.of(known.definition, **known.resolved.known)
        parts = [known.definition.schema.empty_table()]
        for split, end in known.stream.next.items():
            parts += [each.rows for each in reader.read(Range(split, 0, end))]
        found[name] = pa.concat_tables(parts)
    return found


def have_read(db, share: float) -> None:
    """Waits until about such a share of all events was read: sources are created one after the other."""

    def read(name: str) -> int:
        return sum(state_of(db, name).stream.next.values())

    eventually(lambda: all(read(name) >= int(rows * share) for name, rows in ROWS.items()))


@pytest.mark.parametrize("turn", TURNS)
def test_queries_are_live_views_on_generated_events(spark, warehouse, monkeypatch, turn):
    now = [0.0]
    monkeypatch.setattr(generated, "GeneratedFeed", functools.partial(generated.GeneratedFeed, clock=lambda: now[0]))
    seed = drawn_seed()
    chosen = ways(list(QUERIES) if THOROUGH else CHOSEN, seed, turn)
    print(f"HEADRACE_SEED={seed}: {chosen}")
    made = {}

    def create(db, *when: str) -> None:
        for name, way in chosen.items():
            if way in when:
                made[name] = QUERIES[name]
                query = on_views(QUERIES[name]) if way == "above" else QUERIES[name]
                db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")

    db = headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "100ms"})
    for name in ROWS:
        db.sql(source(name, seed))
    begun = time.time()
    db.sql("SET background_ddl = true")
    for name in ROWS:
        db.sql(f"CREATE MATERIALIZED VIEW v_{name} AS SELECT * FROM {name}")
    create(db, "before")
    db.sql("WAIT")
    now[0] = begun + 0.3 * EVENTS
    have_read(db, 0.3)
    db.sql("SET backfill_rate_limit = 100")
    create(db, "between", "above")
    now[0] = begun + 0.5 * EVENTS
    eventually(lambda: any(job.progress().rows_read for job in db.jobs()))
    db.abandon()  # as a crash would, while events are read and views are filled

    with headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "100ms"}) as db:
        have_read(db, 0.5)
        before = {name: query for name, query in made.items() if chosen[name] == "before"}
        wrong, _ = differing(db, before, events_read(db))
        assert not wrong, f"{wrong} halfway, HEADRACE_SEED={seed}, turn {turn}: {chosen}"
        now[0] = begun + 0.8 * EVENTS
        for name in made:
            db.sql(f"ALTER MATERIALIZED VIEW {name} SET BACKFILL_RATE_LIMIT = DEFAULT")
        db.sql("WAIT")
        now[0] = begun + 2 * EVENTS
        have_read(db, 1)
        create(db, "after")
        db.sql("WAIT")
        read = events_read(db)
        assert {name: rows.num_rows for name, rows in read.items()} == ROWS
        wrong, empty = differing(db, made, read)
        assert not wrong, f"{wrong}, HEADRACE_SEED={seed}, turn {turn}: {chosen}"
        assert not empty, f"{empty}, HEADRACE_SEED={seed}"
