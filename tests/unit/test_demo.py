"""The demo's own claims, without an engine: its books must notice every kind of loss."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import confluent_kafka
import pytest
from rich.console import Console

from headrace.demo.books import Books, Filling
from headrace.demo.kafka import story as kafka_story
from headrace.demo.ledger import Ledger
from headrace.demo.process import DemoFailed
from headrace.demo.screen import Screen, sparkline
from headrace.demo.shop import (
    CREATE,
    ITEMS,
    OFFLINE,
    WRITERS,
    Change,
    Customer,
    Row,
    changed_sql,
    check_sql,
    history_sql,
    seeded,
)
from headrace.demo.story import run, verdict
from headrace.demo.wire import hear
from headrace.serving.progress import Progress
from headrace.sql.parse import parse
from tests.support.waiting import eventually

HISTORY = 500


def played(steps: int = 30) -> Ledger:
    """Books after a while, with one statement of each writer still on its way."""
    ledger = Ledger(HISTORY)
    for writer in range(WRITERS):
        customer = Customer(writer, seed=1, rows=HISTORY)
        for _ in range(steps):
            ledger.sent(writer, customer.next())
            ledger.acknowledge(writer)
        ledger.sent(writer, customer.next())
    return ledger


def table_of(ledger: Ledger) -> dict[int, Row]:
    orders = {number: seeded(number) for number in range(HISTORY)}
    for touched in ledger.touched:
        for id, row in touched.items():
            orders.pop(id, None)
            if row is not None:
                orders[id] = row
    return orders


def compare(ledger: Ledger, orders: dict[int, Row]) -> list[str]:
    """As the second engine does it: it asks for what is not as in the history, and for what was touched."""
    ids = set(ledger.ids)
    asked = [row for id, row in orders.items() if id >= HISTORY or row != seeded(id) or id in ids]
    counts = [sum(id % WRITERS == writer for id in orders) for writer in range(WRITERS)]
    return ledger.compare(asked, counts)


def test_customers_keep_to_their_own_orders():
    for writer in range(WRITERS):
        customer = Customer(writer, seed=2, rows=HISTORY)
        for _ in range(50):
            change = customer.next()
            assert {row[0] % WRITERS for row in change.rows} | {id % WRITERS for id in change.ids} == {writer}


def test_customers_go_on_where_the_books_are():
    ledger = played()
    taken = set(ledger.touched[1])
    customer = Customer(1, seed=9, rows=HISTORY, touched=ledger.touched[1])
    for _ in range(50):
        change = customer.next()
        if change.kind == "INSERT":
            assert taken.isdisjoint(row[0] for row in change.rows)


def test_the_same_seed_plays_the_same_demo():
    assert Customer(0, seed=3, rows=HISTORY).next() == Customer(0, seed=3, rows=HISTORY).next()
    assert Customer(0, seed=3, rows=HISTORY).next() != Customer(0, seed=4, rows=HISTORY).next()


def test_exactly_what_was_acknowledged_is_right():
    ledger = played()
    orders = table_of(ledger)
    assert ledger.rows == len(orders)
    assert compare(ledger, orders) == []
    assert ledger.pending == {}


def test_what_was_on_its_way_may_be_there_in_full():
    ledger = played()
    change = ledger.pending[1]
    change.apply(ledger.touched[1])
    orders = table_of(ledger)
    ledger = played()
    assert compare(ledger, orders) == []
    assert table_of(ledger) == orders, "the books know now"


@pytest.mark.parametrize("kind", ["DELETE", "UPDATE"])
def test_but_not_in_part(kind):
    ids = (3, 6, 9)
    rows = tuple((id, seeded(id)[1], Decimal("1.00"), 99) for id in ids) if kind == "UPDATE" else ()
    change = Change(kind=kind, ids=ids, rows=rows, price=Decimal("1.00"), qty=99)
    for share, complaints in ((0, 0), (1, 1), (2, 1), (3, 0)):
        ledger = Ledger(HISTORY)
        ledger.sent(0, change)
        orders = table_of(ledger)
        for number, id in enumerate(ids[:share]):
            orders.pop(id)
            if rows:
                orders[id] = rows[number]
        assert len(compare(ledger, orders)) == complaints, (kind, share)


@pytest.mark.parametrize("harm", ["lost", "changed", "invented", "undeleted", "history lost", "history changed"])
def test_harm_is_noticed(harm):
    ledger = played()
    ledger.pending.clear()
    orders = table_of(ledger)
    new = next(id for id in orders if id >= HISTORY)
    old = next(id for id in orders if id < HISTORY and all(id not in touched for touched in ledger.touched))
    if harm in ("lost", "history lost"):
        orders.pop(new if harm == "lost" else old)
    elif harm in ("changed", "history changed"):
        id = new if harm == "changed" else old
        orders[id] = (*orders[id][:2], orders[id][2] + 1, orders[id][3])
    elif harm == "invented":
        orders[10**6] = (10**6, "ghost", Decimal(1), 1)
    else:
        gone = next(id for touched in ledger.touched for id, row in touched.items() if row is None and id < HISTORY)
        orders[gone] = seeded(gone)
    (complaint,) = compare(ledger, orders)
    assert "writer" in complaint


def test_books_survive_the_journey():
    ledger = played()
    again = Ledger.from_json(ledger.to_json())
    assert (again.touched, again.pending, again.history) == (ledger.touched, ledger.pending, HISTORY)


def test_all_its_sql_is_sql():
    customer = Customer(0, seed=5, rows=HISTORY)
    asked = (history_sql(HISTORY), changed_sql(HISTORY, [1, 2]), *CREATE.values(), *OFFLINE.values())
    for sql in (*asked, *map(check_sql, CREATE), *(customer.next().sql for _ in range(20))):
        assert len(parse(sql)) == 1


def test_an_order_of_the_history():
    assert seeded(8) == (8, ITEMS[1], Decimal("2.96"), 8)


def test_half_a_line_is_not_heard():
    assert hear('{"is": "acknowledged", "wri') is None
    assert hear("warning: something\n") is None
    assert hear('{"is": "ready"}\n') == {"is": "ready"}


# --- two lives ----------------------------------------------------------------------------------------------------


def job(name: str, rows_read: int, in_flight: int = 0) -> dict:
    return {
        "name": name, "state": "running", "error": None, "fraction": rows_read / 1000, "rows_read": rows_read,
        "rows_total": 1000, "rows_per_second": 50.0, "seconds_left": 3.0, "rows_in_flight": in_flight,
    }  # fmt: skip


def status(*jobs: dict) -> dict:
    return {"is": "status", "epoch": 7, "last_epoch_ms": 120.5, "jobs": list(jobs)}


def lived() -> Books:
    """All created at 0 s; killed at 10 s; resumed at 100 s; "cheap" done in the first life, "totals" at 130 s."""
    now = [0.0]
    books = Books(Ledger(HISTORY), clock=lambda: now[0])
    for name in CREATE:
        books.record({"is": "created", "name": name})
    others = [job(name, 100) for name in CREATE if name not in ("totals", "cheap")]
    books.record(status(job("totals", 400, in_flight=200), job("cheap", 900), *others))
    now[0] = 8.0
    books.record(status(job("totals", 400, in_flight=200), *others))
    now[0] = 10.0
    books.killed()
    now[0] = 99.0
    books.reopened({"totals": 500} | {each["name"]: 100 for each in others})
    now[0] = 100.0
    books.record({"is": "resumed"})
    now[0] = 130.0
    books.record(status(*others))
    return books


def test_what_was_saved_and_what_is_read_again():
    books = lived()
    totals, cheap = books.fillings["totals"], books.fillings["cheap"]
    assert (totals.saved, totals.again, cheap.saved, cheap.again) == (500, 100, 1000, 0)
    assert (totals.seconds, cheap.seconds) == (40.0, 8.0)
    assert totals.rows_per_second == 25.0
    assert books.looks["totals"].state == "done" and books.looks["by_item"].state == "running"
    books.filled()
    assert books.fraction == 1.0


def test_how_long_inserts_wait_is_noted_with_what_is_being_filled():
    books = Books(Ledger(HISTORY))
    customer = Customer(0, seed=1, rows=HISTORY)
    insert = next(change for change in iter(customer.next, None) if change.kind == "INSERT")
    for seconds in (1, 2):
        books.record({"is": "sent", "writer": 0, "change": insert.to_json()})
        books.record({"is": "acknowledged", "writer": 0, "ms": seconds * 1000})
        books.record({"is": "created", "name": "totals"})
    books.killed()
    books.record({"is": "sent", "writer": 0, "change": insert.to_json()})
    books.record({"is": "acknowledged", "writer": 0, "ms": 9000})  # before it is resumed: neither
    assert (books.before, books.fillings["totals"].waits, books.fillings["cheap"].waits) == ([1.0], [2.0], [])


def test_verdicts():
    filling = Filling(look=Progress(state="done", fraction=1.0, rows_read=1000, rows_total=1000), seconds=10.0)
    filling.waits = [0.5, 0.25]
    check = {"equal": True, "lines": ["equal, 1234 rows at epoch 7"]}
    assert verdict("cheap", filling, check, 4.0) == (
        True,
        "cheap    equals its batch query at epoch 7, 1,234 rows; 100 rows/s, 0.40 of offline; INSERT p95 0.50 s",
    )
    for bad in (
        None,
        {"equal": False, "lines": ["missing id=1"]},
        {"equal": True, "lines": ["equal, 3 rows at epoch 7, over the 12.0% that is filled"]},
    ):
        assert not verdict("cheap", filling, bad, 4.0)[0]


def test_plain_lines_without_a_terminal():
    out = io.StringIO()
    books = lived()
    screen = Screen(Console(file=out, width=200), books)
    screen.start_live()
    screen.status(status())
    screen.change("INSERT …")
    screen.stop_live()
    assert "epoch 7 in 120 ms" in out.getvalue() and "totals 100% 1,000/1,000 rows done" in out.getvalue()
    assert len(out.getvalue().splitlines()) == 1
    assert "\x1b" not in out.getvalue()


def test_a_live_screen_in_a_terminal():
    out = io.StringIO()
    screen = Screen(Console(file=out, width=120, force_terminal=True), lived())
    screen.start_live()
    screen.status(status())
    screen.say("a line above")
    screen.stop_live()
    assert "a line above" in out.getvalue() and "by_item" in out.getvalue()


def test_sparkline():
    assert sparkline([]) == ""
    assert sparkline([0, 4, 8]) == "▁▄█"


# --- the whole story, told by processes that only say their lines -------------------------------------------------


def first_life() -> list[dict]:
    insert = Change(kind="INSERT", rows=((HISTORY + 1, "tea", Decimal("1.00"), 1),))
    jobs = [job(name, 500, in_flight=100) for name in CREATE]
    return [
        {"is": "open"},
        {"is": "did", "sql": "CREATE TABLE …", "ms": 5.0},
        {"is": "writing"},
        *({"is": "created", "name": name, "sql": sql, "ms": 3.0} for name, sql in CREATE.items()),
        status(*jobs),
        {"is": "sent", "writer": 0, "change": insert.to_json()},
    ]


def second_life() -> list[dict]:
    return [
        {"is": "open", "epoch": 9, "seconds": 4.0, "jobs": dict.fromkeys(CREATE, 500)},
        {"is": "table", "rows": HISTORY, "expected": HISTORY, "problems": []},
        {"is": "resumed"},
        {"is": "filled"},
        *({"is": "check", "name": name, "equal": True, "lines": ["equal, 7 rows at epoch 12"]} for name in CREATE),
        {"is": "table", "rows": HISTORY, "expected": HISTORY, "problems": []},
        *({"is": "copied", "name": name, "ms": 1000.0} for name in CREATE),
    ]


def told(monkeypatch, second: list[dict], returncode: int = 0, *, first: list[dict] | None = None) -> tuple[int, str]:
    class FakeProcess:
        pid, status = 4711, returncode

        def __init__(self, module: str, *arguments: str, scratch):
            self._messages = iter((first or first_life()) if module == "engine" else second)

        def next(self, patience: float):
            return next(self._messages, None)

        expect = next

        def kill(self) -> None:
            pass

    monkeypatch.setattr("headrace.demo.story.Process", FakeProcess)
    monkeypatch.setattr("headrace.demo.story.require_java", lambda: None)
    out = io.StringIO()
    return run(rows=HISTORY, seed=1, console=Console(file=out, width=200)), out.getvalue()


def test_a_story_that_ends_well(monkeypatch):
    code, text = told(monkeypatch, second_life())
    assert code == 0, text
    assert "kill -9 4711, in the middle of an INSERT of 1 rows" in text
    assert "2,000 rows were read and their positions saved; at least 400 were on their way and are read again" in text
    for name in CREATE:
        assert f"✔ {name:<8} equals its batch query at epoch 12, 7 rows; " in text


@pytest.mark.parametrize("kind", ["check", "table"])
def test_whatever_is_not_equal_fails_it(monkeypatch, kind):
    lines = second_life()
    for number, message in enumerate(lines):
        if message["is"] != kind:
            continue
        wrong = message | {"equal": False, "lines": ["missing id=1"], "problems": ["writer 0: 1 row is missing"]}
        code, text = told(monkeypatch, [*lines[:number], wrong, *lines[number + 1 :]])
        assert code == 1 and "FAILED" in text


def test_what_was_not_checked_or_ended_badly_fails_it(monkeypatch):
    lines = second_life()
    for number, message in enumerate(lines):
        if message["is"] in ("open", "table", "check"):
            assert told(monkeypatch, [*lines[:number], *lines[number + 1 :]])[0] == 1, message
    assert told(monkeypatch, lines, returncode=1)[0] == 1


def test_a_failed_job_and_a_late_plug_fail_it(monkeypatch):
    lines = first_life()
    failed = status(job("totals", 0) | {"state": "failed", "error": "no space left"})
    code, text = told(monkeypatch, [], first=[*lines[:-2], failed])
    assert code == 1 and "a job failed: no space left" in text
    done = [status(*(job(name, 100) for name in CREATE)), status()]
    code, text = told(monkeypatch, [], first=[*lines[:-2], *done])
    assert code == 1 and "before the plug could be pulled" in text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_whoever_ends_it_ends_its_processes(number):
    code = (
        "import time\nfrom headrace import cli\nimport headrace.demo.kafka as demo\n"
        "def run(**_):\n    try:\n        print('playing', flush=True)\n        time.sleep(60)\n"
        "    finally:\n        print('tidied up')\n"
        "demo.run = run\ncli.main(['demo-kafka'])"
    )
    playing = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert playing.stdout.readline() == "playing\n"
    playing.send_signal(number)
    assert playing.communicate(timeout=60)[0] == "tidied up\n" and playing.returncode == 128 + number


# --- demo-kafka --------------------------------------------------------------------------------------------------


def test_a_producer_whose_broker_is_gone_ends_all_the_same():
    given = {"bootstrap.servers": "127.0.0.1:1", "queue.buffering.max.messages": 10, "log_level": 0}
    producer = kafka_story.Producer(cast(Any, SimpleNamespace(producer=lambda: confluent_kafka.Producer(given))))
    producer._thread.start()
    eventually(lambda: sum(producer.sent) == 10)  # its queue is full
    assert not producer.stop(0.1) and not producer._thread.is_alive()


def test_a_broker_that_ends_is_told(tmp_path):
    story = kafka_story.Story(Console(file=io.StringIO()), tmp_path, 1)
    story._broker = cast(Any, SimpleNamespace(alive=False))
    forever = SimpleNamespace(expect=lambda patience: {"is": "status", "epoch": 1, "look": {"fraction": 0.1}})
    with pytest.raises(DemoFailed, match="the broker has ended"):
        story._follow(cast(Any, forever), until=None)
