"""Random statements against a warehouse and against plain Python; after each one every relation must be the same.

The oracle knows tables as dicts and lists, and a view as a function of them. A failure prints the steps and the blob
that replays them. ``HYPOTHESIS_PROFILE=thorough`` looks much further.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import headrace
from headrace.engine import maintenance, writes
from headrace.errors import UniqueViolation, Unsupported
from headrace.state import scan
from headrace.state.compaction import Choice

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"

# --- the oracle -------------------------------------------------------------------------------------------------

COLUMNS = {
    "s": ("id", "v", "w"),
    "c": ("a", "b", "v"),
    "n": ("v", "w"),
    "kept": ("id", "v1", "w"),
    "keyless": ("v", "w"),
    "twice": ("x", "v"),
    "all_three": ("v", "w"),
    "above": ("d", "w"),
    "mixed": ("v",),
    "few": ("w", "v"),
}

POLICIES = {"overwrite": "", "ignore": "ON CONFLICT IGNORE", "fill": "ON CONFLICT DO UPDATE IF NOT NULL"}


@dataclass
class Oracle:
    s: dict[int, tuple] = field(default_factory=dict)
    """id → (v, w)"""
    c: dict[tuple, Any] = field(default_factory=dict)
    """(a, b) → v"""
    n: list[tuple] = field(default_factory=list)
    """(v, w), which may be there twice"""
    policy: str = "overwrite"

    def insert_s(self, rows: Iterable[tuple]) -> None:
        for id, v, w in rows:
            if id in self.s and self.policy == "ignore":
                continue
            if id in self.s and self.policy == "fill":
                old_v, old_w = self.s[id]
                v, w = old_v if v is None else v, old_w if w is None else w
            self.s[id] = (v, w)

    def insert_c(self, rows: Iterable[tuple]) -> None:
        self.c.update({(a, b): v for a, b, v in rows})

    def relation(self, name: str) -> list[tuple]:
        return RELATIONS[name](self)


@dataclass(frozen=True)
class View:
    query: str
    rows: Callable[[Oracle], list[tuple]]
    needs: tuple[str, ...] = ()


def _kept(o: Oracle) -> list[tuple]:
    return [(id, v + 1, w) for id, (v, w) in o.s.items() if v is not None and v > 0]


VIEWS = {
    "kept": View("SELECT id, v + 1 AS v1, w FROM s WHERE v > 0", _kept),
    "keyless": View("SELECT v, w FROM s", lambda o: list(o.s.values())),
    "twice": View(
        "SELECT id AS x, v FROM s UNION ALL SELECT id + 100, v FROM s WHERE v % 2 = 0",
        lambda o: (
            [(id, v) for id, (v, _) in o.s.items()]
            + [(id + 100, v) for id, (v, _) in o.s.items() if v is not None and v % 2 == 0]
        ),
    ),
    "all_three": View(
        "SELECT v, w FROM s UNION ALL SELECT v, b FROM c WHERE a < 3 UNION ALL SELECT v, w FROM n",
        lambda o: [*o.s.values(), *((v, b) for (a, b), v in o.c.items() if a < 3), *o.n],
    ),
    "above": View(
        "SELECT v1 * 2 AS d, w FROM kept WHERE v1 <> 3",
        lambda o: [(v1 * 2, w) for _, v1, w in _kept(o) if v1 != 3],
        needs=("kept",),
    ),
    "mixed": View(
        "SELECT v1 AS v FROM kept UNION ALL SELECT v FROM s WHERE v IS NULL UNION ALL SELECT d FROM above",
        lambda o: (
            [(v1,) for _, v1, _ in _kept(o)]
            + [(v,) for v, _ in o.s.values() if v is None]
            + [(v1 * 2,) for _, v1, _ in _kept(o) if v1 != 3]
        ),
        needs=("kept", "above"),
    ),
    "few": View("SELECT w, v FROM n WHERE v < 4", lambda o: [(w, v) for v, w in o.n if v is not None and v < 4]),
}

RELATIONS: dict[str, Callable[[Oracle], list[tuple]]] = {
    "s": lambda o: [(id, *rest) for id, rest in o.s.items()],
    "c": lambda o: [(a, b, v) for (a, b), v in o.c.items()],
    "n": lambda o: list(o.n),
} | {name: view.rows for name, view in VIEWS.items()}


# --- values -----------------------------------------------------------------------------------------------------

ids = st.integers(0, 7)
numbers = st.one_of(st.none(), st.integers(-3, 6))
words = st.sampled_from([None, "a", "b", "it's", ""])
letters = st.sampled_from(["x", "y", ""])
rows_s = st.lists(st.tuples(ids, numbers, words), min_size=1, max_size=5)
rows_c = st.lists(st.tuples(st.integers(0, 4), letters, numbers), min_size=1, max_size=5)
rows_n = st.lists(st.tuples(numbers, words), min_size=1, max_size=3)


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def values(rows: Iterable[tuple]) -> str:
    return "VALUES " + ", ".join(f"({', '.join(map(literal, row))})" for row in rows)


def text(row: tuple) -> tuple:
    return tuple(None if value is None else str(value) for value in row)


# --- the machine ------------------------------------------------------------------------------------------------


class Model(RuleBasedStateMachine):
    spark: Any = None
    """Set by the test."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="headrace-model-"))
        self.oracle = Oracle()
        self.views: set[str] = set()
        self.db = self.open()
        self.small_rows = writes.SMALL_ROWS

    def open(self) -> headrace.database.Database:
        # Nothing is retained, so that VACUUM removes all it can.
        parameters = {"barrier_interval": "100ms", "retention": "0s"}
        return headrace.connect(self.root / "warehouse", spark=self.spark, parameters=parameters)

    def teardown(self) -> None:
        writes.SMALL_ROWS = self.small_rows
        self.db.close()
        shutil.rmtree(self.root, ignore_errors=True)

    @initialize(policy=st.sampled_from(sorted(POLICIES)), views=st.sets(st.sampled_from(["kept", "all_three"])))
    def create(self, policy: str, views: set[str]) -> None:
        self.oracle.policy = policy
        self.db.sql(
            f"""CREATE TABLE s (id INT PRIMARY KEY, v INT, w VARCHAR) {POLICIES[policy]};
                CREATE TABLE c (a INT, b VARCHAR, v INT, PRIMARY KEY (a, b));
                CREATE TABLE n (v INT, w VARCHAR)"""
        )
        for name in views:
            self.create_view(name)

    # --- writes

    @rule(rows=rows_s)
    def insert_s(self, rows: list[tuple]) -> None:
        self.db.sql(f"INSERT INTO s {values(rows)}")
        self.oracle.insert_s(rows)

    @rule(rows=rows_c)
    def insert_c(self, rows: list[tuple]) -> None:
        self.db.sql(f"INSERT INTO c {values(rows)}")
        self.oracle.insert_c(rows)

    @rule(rows=rows_n)
    def insert_n(self, rows: list[tuple]) -> None:
        self.db.sql(f"INSERT INTO n {values(rows)}")
        self.oracle.n += rows

    @rule(s=rows_s, c=rows_c, n=rows_n)
    def insert_at_once(self, s: list[tuple], c: list[tuple], n: list[tuple]) -> None:
        """Three clients, who may share an epoch."""
        statements = [f"INSERT INTO s {values(s)}", f"INSERT INTO c {values(c)}", f"INSERT INTO n {values(n)}"]
        threads = [threading.Thread(target=self.db.session().sql, args=(each,)) for each in statements]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.oracle.insert_s(s)
        self.oracle.insert_c(c)
        self.oracle.n += n

    @rule(kind=st.sampled_from(["s from c", "s from s", "c from s", "n from n", "n from kept"]), bulk=st.booleans())
    def insert_select(self, kind: str, bulk: bool) -> None:
        o = self.oracle
        if kind == "s from c":
            query = "INSERT INTO s SELECT a, max(v), max(b) FROM c GROUP BY a"
            rows: list[tuple] = []
            for key in dict.fromkeys(a for a, _ in o.c):
                present = [v for (a, _), v in o.c.items() if a == key and v is not None]
                rows.append((key, max(present, default=None), max(b for a, b in o.c if a == key)))
            after = replace(o, s=dict(o.s))
            after.insert_s(rows)
        elif kind == "s from s":
            query = "INSERT INTO s (id, v) SELECT (id + 1) % 8, v FROM s"
            after = replace(o, s=dict(o.s))
            after.insert_s([((id + 1) % 8, v, None) for id, (v, _) in o.s.items()])
        elif kind == "c from s":
            query = "INSERT INTO c SELECT id, coalesce(w, 'x'), v FROM s"
            after = replace(o, c=dict(o.c))
            after.insert_c([(id, "x" if w is None else w, v) for id, (v, w) in o.s.items()])
        elif kind == "n from n" and len(o.n) < 30:
            query = "INSERT INTO n SELECT v, 'b' FROM n WHERE v > 0"
            after = replace(o, n=o.n + [(v, "b") for v, _ in o.n if v is not None and v > 0])
        elif kind == "n from kept" and "kept" in self.views and len(o.n) < 30:
            query = "INSERT INTO n SELECT v1, w FROM kept"
            after = replace(o, n=o.n + [(v1, w) for _, v1, w in _kept(o)])
        else:
            return
        self.write(query, bulk)
        self.oracle = after

    def write(self, query: str, bulk: bool) -> None:
        writes.SMALL_ROWS = 1 if bulk else self.small_rows
        try:
            self.db.sql(query)
        finally:
            writes.SMALL_ROWS = self.small_rows

    @rule(id=ids, to=ids)
    def update_by_key(self, id: int, to: int) -> None:
        """With to = id nothing moves; else the row's key changes."""
        if id != to and id in self.oracle.s and to in self.oracle.s:
            with pytest.raises(UniqueViolation):
                self.db.sql(f"UPDATE s SET id = {to} WHERE id = {id}")
            return
        self.db.sql(f"UPDATE s SET id = {to}, v = v + 1 WHERE id = {id}")
        if id in self.oracle.s:
            v, w = self.oracle.s.pop(id)
            self.oracle.s[to] = (None if v is None else v + 1, w)

    @rule(above=st.integers(-3, 5), bulk=st.booleans())
    def update_by_predicate(self, above: int, bulk: bool) -> None:
        self.write(f"UPDATE s SET v = v - 2, w = 'b' WHERE v > {above}", bulk)
        for id, (v, _) in self.oracle.s.items():
            if v is not None and v > above:
                self.oracle.s[id] = (v - 2, "b")

    @rule(bulk=st.booleans())
    def rotate_keys(self, bulk: bool) -> None:
        """Every key moves to another row's, all at once."""
        try:
            self.write("UPDATE s SET id = (id + 1) % 8", bulk)
        except Unsupported:
            assert bulk and len(self.oracle.s) > 1
            return
        self.oracle.s = {(id + 1) % 8: rest for id, rest in self.oracle.s.items()}

    @rule(a=st.integers(0, 4), b=letters, v=numbers)
    def update_c(self, a: int, b: str, v: int | None) -> None:
        self.db.sql(f"UPDATE c SET v = {literal(v)} WHERE b = {literal(b)} AND a = {a}")
        if (a, b) in self.oracle.c:
            self.oracle.c[a, b] = v

    @rule(w=words, bulk=st.booleans())
    def update_n(self, w: str | None, bulk: bool) -> None:
        self.write(f"UPDATE n SET v = coalesce(v, 0) + 1 WHERE w = {literal(w)}", bulk)
        self.oracle.n = [((v or 0) + 1, x) if w is not None and x == w else (v, x) for v, x in self.oracle.n]

    @rule(keys=st.lists(ids, min_size=1, max_size=3))
    def delete_by_key(self, keys: list[int]) -> None:
        self.db.sql(f"DELETE FROM s WHERE id IN ({', '.join(map(str, keys))})")
        self.oracle.s = {id: rest for id, rest in self.oracle.s.items() if id not in keys}

    @rule(table=st.sampled_from("scn"), below=st.integers(-3, 6), bulk=st.booleans())
    def delete_by_predicate(self, table: str, below: int, bulk: bool) -> None:
        self.write(f"DELETE FROM {table} WHERE v < {below}", bulk)

        def stays(v: int | None) -> bool:
            return v is None or v >= below

        if table == "s":
            self.oracle.s = {id: rest for id, rest in self.oracle.s.items() if stays(rest[0])}
        elif table == "c":
            self.oracle.c = {key: v for key, v in self.oracle.c.items() if stays(v)}
        else:
            self.oracle.n = [row for row in self.oracle.n if stays(row[0])]

    # --- definitions

    @rule(name=st.sampled_from(sorted(VIEWS)))
    def create_or_drop_view(self, name: str) -> None:
        if name not in self.views:
            for needed in (*VIEWS[name].needs, name):
                if needed not in self.views:
                    self.create_view(needed)
            return
        self.db.sql(f"DROP MATERIALIZED VIEW {name} CASCADE")
        self.views -= {name} | {other for other in self.views if name in VIEWS[other].needs}

    def create_view(self, name: str) -> None:
        self.db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name].query}")
        self.views.add(name)

    # --- everything else

    @rule(frequency=st.sampled_from([1, 3, 5]))
    def set_frequency(self, frequency: int) -> None:
        self.db.sql(f"ALTER SYSTEM SET checkpoint_frequency = {frequency}")

    @rule(vectorized=st.booleans())
    def set_vectorized(self, vectorized: bool) -> None:
        self.db.sql(f"ALTER SYSTEM SET vectorized = {str(vectorized).lower()}")

    @rule()
    def flush(self) -> None:
        self.db.sql("FLUSH")

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(["", "s", "c", "n", *sorted(self.views)]))
        self.db.sql(f"COMPACT {name}")

    @rule()
    def vacuum(self) -> None:
        self.db.sql("VACUUM")

    @rule(crash=st.booleans())
    def reopen(self, crash: bool) -> None:
        (self.db.abandon if crash else self.db.close)()
        self.db = self.open()

    @invariant()
    @precondition(lambda self: self.db.engine.committed.catalog.find("n") is not None)
    def everything_is_as_it_should_be(self) -> None:
        names = ["s", "c", "n", *sorted(self.views)]
        found = self.all_rows(names)
        for name in names:
            expected = Counter(text(row) for row in self.oracle.relation(name))
            assert found[name] == expected, f"{name}: extra {found[name] - expected}, missing {expected - found[name]}"
        # Counted from the manifest alone: every retraction must take away a row that is there.
        counts = {each["name"]: each["rows"] for each in self.db.status()["relations"]}
        assert counts == {name: len(self.oracle.relation(name)) for name in names}

    def all_rows(self, names: list[str]) -> dict[str, Counter]:
        """All relations in one query: a query costs more than the rows."""
        width = max(len(COLUMNS[name]) for name in names)
        parts = []
        for name in names:
            columns = [f"{column}::varchar" for column in COLUMNS[name]] + ["NULL::varchar"] * width
            parts.append(f"SELECT '{name}', {', '.join(columns[:width])} FROM {name}")
        found: dict[str, Counter] = {name: Counter() for name in names}
        for name, *row in self.db.sql(" UNION ALL ".join(parts)).rows():
            found[name][tuple(row[: len(COLUMNS[name])])] += 1
        return found


@pytest.fixture
def model(spark, monkeypatch) -> type[Model]:
    monkeypatch.setattr(maintenance, "GRACE_SECONDS", 0)  # VACUUM removes at once what nobody needs
    Model.spark = spark
    return Model


@pytest.mark.slow
def test_tables_and_views_are_what_the_statements_make_them(model):
    run_state_machine_as_test(
        model,
        settings=settings(
            max_examples=60 if THOROUGH else 5,
            stateful_step_count=40 if THOROUGH else 25,
            deadline=None,
            print_blob=True,
            # Shrinking would take hours: an example is seconds.
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_an_empty_string_is_not_null(model, policy, bulk):
    """Steps that random ones may miss: empty text in a key, beside NULL, and where NULL means to keep what is there."""
    machine = model()
    try:
        machine.create(policy, {"all_three"})
        machine.insert_s([(1, 1, "a"), (2, 2, None), (3, None, "")])
        machine.insert_s([(1, None, ""), (2, None, ""), (3, 3, None)])
        machine.insert_c([(1, "", None), (1, "x", 5), (2, "", 3), (4, "", None)])
        machine.insert_n([(None, ""), (None, None), (1, "")])
        machine.everything_is_as_it_should_be()
        machine.update_n("", bulk)
        machine.update_n(None, bulk)
        machine.update_c(2, "", None)
        machine.insert_select("s from c", bulk)
        machine.insert_select("c from s", bulk)
        machine.everything_is_as_it_should_be()
        machine.db.sql("COMPACT")
        machine.everything_is_as_it_should_be()
    finally:
        machine.teardown()


# --- would it notice? -------------------------------------------------------------------------------------------


def killed_rows_live(monkeypatch) -> None:
    monkeypatch.setattr(scan._Reader, "_without_killed", lambda reader, rows, killers: rows)


def merges_forget_retractions(monkeypatch) -> None:
    def newest_two(runs):
        return Choice(inputs=tuple(run.id for run in runs[-2:]), level=1, bottom=True) if len(runs) > 2 else None

    monkeypatch.setattr(maintenance, "whole", newest_two)


@pytest.mark.parametrize("breakage", [killed_rows_live, merges_forget_retractions])
def test_a_broken_merge_rule_is_noticed(model, monkeypatch, breakage):
    def steps(machine: Model) -> None:
        try:
            machine.create("overwrite", set())
            machine.insert_s([(1, 1, "a")])
            machine.insert_s([(2, 2, "a")])
            machine.delete_by_key([1])
            # Before the merge, too: it may well put right what reading gets wrong.
            machine.everything_is_as_it_should_be()
            machine.db.sql("COMPACT s")
            machine.everything_is_as_it_should_be()
        finally:
            machine.teardown()

    steps(model())
    breakage(monkeypatch)
    with pytest.raises(AssertionError, match="^s: "):
        steps(model())
