"""Changes of one epoch folded to one for each key, checked against applying them one by one."""

from __future__ import annotations

import pickle
import random

import pytest

from headrace.cdc.changelog import UNCHANGED, Change, fold
from headrace.errors import DataError


def apply_folded(rows: dict, folded) -> dict:
    """As the engine does it: what is stored fills what the log left out; deletes come before puts."""
    after = dict(rows)
    puts = [
        tuple(rows[folded.fills[n]][at] if value is UNCHANGED else value for at, value in enumerate(values))
        for n, values in enumerate(folded.puts)
    ]
    for key in folded.deletes:
        after.pop(key, None)
    for values in puts:
        after[values[:1]] = values
    return after


@pytest.mark.parametrize("seed", range(200))
def test_folding_is_applying_one_by_one(seed):
    random.seed(seed)
    names = "abcde"
    before = {(name,): (name, "small", "large of " + name) for name in names if random.random() < 0.5}
    now, changes, number = dict(before), [], 0
    for _ in range(random.randrange(1, 25)):
        number += 1
        kind = random.choice("insert update delete move".split())
        present, absent = sorted(now), [(name,) for name in names if (name,) not in now]
        if kind == "insert" and absent:
            key = random.choice(absent)
            now[key] = (key[0], f"v{number}", f"large{number}")
            changes.append(Change(key=key, values=now[key]))
        elif kind == "update" and present:
            key = random.choice(present)
            kept = random.random() < 0.7
            now[key] = (key[0], f"v{number}", now[key][2] if kept else f"large{number}")
            changes.append(Change(key=key, values=(*now[key][:2], UNCHANGED if kept else now[key][2])))
        elif kind == "delete" and present:
            key = random.choice(present)
            del now[key]
            changes.append(Change(key=key))
        elif kind == "move" and present and absent:
            old, new = random.choice(present), random.choice(absent)
            now[new] = (new[0], f"v{number}", now.pop(old)[2])
            changes += [Change(key=new, values=(*now[new][:2], UNCHANGED), origin=old), Change(key=old)]
    folded = fold(changes)
    touched = [values[:1] for values in folded.puts] + folded.deletes
    assert len(touched) == len(set(touched))
    assert apply_folded(before, folded) == now


def test_a_change_of_what_is_deleted_is_an_error():
    with pytest.raises(DataError, match="deleted before"):
        fold([Change(key=("1",)), Change(key=("1",), values=("1", UNCHANGED))])


def test_unchanged_is_one_thing_everywhere():
    assert pickle.loads(pickle.dumps(UNCHANGED)) is UNCHANGED
