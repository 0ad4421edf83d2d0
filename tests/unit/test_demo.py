"""The demo's own claims, without an engine: its books must notice every kind of loss."""

from __future__ import annotations

import io
from decimal import Decimal

import pytest
from rich.console import Console

from headrace.demo.ledger import Ledger
from headrace.demo.screen import Screen, sparkline
from headrace.demo.shop import HISTORY, ITEMS, VIEWS, WRITERS, Change, Customer, history, history_sql
from headrace.demo.story import _judge
from headrace.demo.wire import hear
from headrace.sql.parse import parse


def played(steps: int = 30) -> Ledger:
    """Books after a while, with one statement of each writer still on its way."""
    ledger = Ledger()
    for writer in range(WRITERS):
        customer = Customer(writer, seed=1)
        for _ in range(steps):
            ledger.sent(writer, customer.next())
            ledger.acknowledge(writer)
        ledger.sent(writer, customer.next())
    return ledger


def rows_of(ledger: Ledger) -> list:
    return [row for orders in ledger.acknowledged for row in orders.values()]


def test_customers_keep_to_their_own_orders():
    for writer in range(WRITERS):
        customer = Customer(writer, seed=2)
        for _ in range(50):
            change = customer.next()
            assert {row[0] % WRITERS for row in change.rows} | {id % WRITERS for id in change.ids} == {writer}


def test_the_same_seed_plays_the_same_demo():
    assert [Customer(0, seed=3).next() for _ in range(1)] == [Customer(0, seed=3).next()]
    assert Customer(0, seed=3).next() != Customer(0, seed=4).next()


def test_exactly_what_was_acknowledged_is_right():
    ledger = played()
    assert ledger.compare(rows_of(ledger)) == []


def test_what_was_on_its_way_may_be_there_in_full():
    ledger = played()
    orders = {row[0]: row for row in rows_of(ledger)}
    ledger.pending[1].apply(orders)
    assert ledger.compare(orders.values()) == []


def test_but_not_in_part():
    ledger = played()
    ledger.pending = {0: Change(kind="DELETE", ids=tuple(list(ledger.acknowledged[0])[:5]))}
    orders = {row[0]: row for row in rows_of(ledger)}
    del orders[ledger.pending[0].ids[0]]
    assert len(ledger.compare(orders.values())) == 1


@pytest.mark.parametrize("harm", ["lost", "changed", "invented"])
def test_harm_is_noticed(harm):
    ledger = played()
    ledger.pending.clear()
    rows = rows_of(ledger)
    if harm == "lost":
        rows.pop()
    elif harm == "changed":
        rows[0] = (*rows[0][:2], rows[0][2] + 1, rows[0][3])
    else:
        rows.append((10**6, "ghost", Decimal(1), 1))
    (complaint,) = ledger.compare(rows)
    assert "writer" in complaint


def test_books_survive_the_journey():
    ledger = played()
    again = Ledger.from_json(ledger.to_json())
    assert (again.acknowledged, again.pending) == (ledger.acknowledged, ledger.pending)


def test_all_its_sql_is_sql():
    customer = Customer(0, seed=5)
    for sql in (history_sql(), *VIEWS.values(), *(customer.next().sql for _ in range(20))):
        assert len(parse(sql)) == 1


def test_history_is_what_its_sql_says():
    assert len(history()) == HISTORY
    assert history()[8] == (8, ITEMS[1], Decimal("2.96"), 8)


def test_half_a_line_is_not_heard():
    assert hear('{"is": "acknowledged", "wri') is None
    assert hear("warning: something\n") is None
    assert hear('{"is": "ready"}\n') == {"is": "ready"}


def test_marks():
    assert _judge({"is": "status"}) is None
    good, text = _judge({"is": "table", "name": "orders", "rows": 2, "expected": 3, "problems": ["writer 0: gone"]})
    assert not good and "writer 0: gone" in text
    view = {"is": "view", "name": "cheap", "rows": 2, "asked": 2, "spark": 2, "equal": True, "read": True}
    assert _judge(view)[0]
    assert not _judge(view | {"equal": False})[0]
    assert not _judge(view | {"read": False})[0]


STATUS = {
    "epoch": 7,
    "last_epoch_ms": 120.5,
    "relations": [{"name": "orders", "kind": "table", "rows": 1234, "delta_rows": 5}],
}


def test_plain_lines_without_a_terminal():
    out = io.StringIO()
    screen = Screen(Console(file=out, width=200), Ledger())
    screen.start_live()
    screen.status(STATUS)
    screen.change("INSERT …")
    screen.stop_live()
    assert "epoch 7 in 120 ms" in out.getvalue() and "orders 1,234" in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_a_live_screen_in_a_terminal():
    out = io.StringIO()
    screen = Screen(Console(file=out, width=120, force_terminal=True), Ledger())
    screen.start_live()
    screen.status(STATUS)
    screen.say("a line above")
    screen.stop_live()
    assert "a line above" in out.getvalue() and "orders" in out.getvalue()


def test_sparkline():
    assert sparkline([]) == ""
    assert sparkline([0, 4, 8]) == "▁▄█"
