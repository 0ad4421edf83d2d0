"""Rows that are read once more: random histories of single rows, with values that the log leaves out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.cdc.changelog import UNCHANGED, Change, Truncate, fold
from headrace.cdc.intake import BELOW
from headrace.cdc.rereads import Reread, moved_from, substituted

KEYS = [("a",), ("b",), ("c",)]


@st.composite
def histories(draw):
    """Transactions on a table of (key, large value, small value), and the log that they leave."""
    table, log, states = {("a",): ("a", "A0", "0")}, [], []
    for number in range(1, draw(st.integers(3, 14))):
        key = draw(st.sampled_from(KEYS))
        kind = draw(st.sampled_from(["insert", "small", "large", "delete", "move", "truncate"]))
        if kind == "truncate" and draw(st.booleans()):
            table = {}
            log.append((number, Truncate()))
        elif kind == "insert" and key not in table:
            table = table | {key: (key[0], f"L{number}", f"s{number}")}
            log.append((number, Change(key=key, values=table[key])))
        elif kind in ("small", "large") and key in table:
            large = f"L{number}" if kind == "large" else table[key][1]
            table = table | {key: (key[0], large, f"s{number}")}
            shown = (key[0], large if kind == "large" else UNCHANGED, f"s{number}")
            log.append((number, Change(key=key, values=shown)))
        elif kind == "delete" and key in table:
            table = {each: row for each, row in table.items() if each != key}
            log.append((number, Change(key=key)))
        elif kind == "move" and key in table:
            to = draw(st.sampled_from(KEYS))
            if to not in table:
                moved = (to[0], table[key][1], f"s{number}")
                table = {each: row for each, row in table.items() if each != key} | {to: moved}
                log.append((number, Change(key=to, values=(to[0], UNCHANGED, f"s{number}"), origin=key)))
                log.append((number, Change(key=key)))
        states.append((number, table))
    return log, states


def applied(log, stored: dict) -> dict | set:
    """The table behind the log; or the keys of rows that cannot be completed."""
    table, segment = dict(stored), []
    for _, change in log:
        if isinstance(change, Truncate):
            table, segment = {}, []
        else:
            segment.append(change)
    folded = fold(segment)
    missing = {folded.puts[row][:1] for row, origin in folded.fills.items() if origin not in table}
    if missing:
        return missing
    rows = [
        tuple(table[folded.fills[at]][n] if value is UNCHANGED else value for n, value in enumerate(row))
        for at, row in enumerate(folded.puts)
    ]
    for key in folded.deletes:
        table.pop(key, None)
    return table | {row[:1]: row for row in rows}


@given(histories(), st.data())
def test_a_table_without_its_rows_becomes_what_the_source_is(history, data):
    """Nothing is stored, as of a table that begins without a snapshot. The first cut ends somewhere; what is missing
    for it is read at some moment behind it; and by then more of the log has arrived."""
    log, states = history
    cut = data.draw(st.integers(1, len(states)))
    found = applied([each for each in log if each[0] <= cut], {})
    seen, keys, changes = cut, set(), log
    while isinstance(found, set):
        seen = data.draw(st.integers(seen, len(states)))
        keys = moved_from(log, keys | found)
        then = states[seen - 1][1]
        reread = Reread(rows={key: then.get(key) for key in keys}, sees=lambda n, seen=seen: n <= seen, high=0)
        changes, places = substituted(log, [BELOW] * len(log), reread)
        assert len(changes) == len(places)
        again = applied(changes, {})
        assert isinstance(again, dict) or again - keys or seen < len(states), "nothing more will be known"
        found = again
    wanted = states[-1 if keys else cut - 1][1]
    touched = {change.key for _, change in log if isinstance(change, Change) and (keys or _ <= cut)}
    assert found == {key: row for key, row in wanted.items() if key in touched}
