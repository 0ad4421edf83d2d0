"""Writes of many rows, which only executors see. A low limit makes any number of rows "many"."""

from __future__ import annotations

import datetime
import gc
import hashlib
import math
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.classic.dataframe import DataFrame

import headrace
from headrace.catalog import KeyColumn
from headrace.engine import writes
from headrace.engine.bulk import BulkWriter
from headrace.errors import DataError, NotNullViolation, Unsupported
from headrace.intervals import Interval
from headrace.state import writer
from headrace.state.files import LocalFiles
from headrace.state.layout import Layout
from headrace.state.runs import VNODE, WEIGHT, GroupIndex
from headrace.state.writer import Output, WriteDelta, written_files
from headrace.types import SqlType


def rows(db, query: str) -> list[tuple]:
    return sorted(db.sql(query).rows(), key=repr)


@pytest.fixture
def bulk(monkeypatch) -> Callable[[], int]:
    """Every INSERT … SELECT, UPDATE and DELETE of two rows or more is a bulk write; says how many there were."""
    calls = []
    monkeypatch.setattr(writes, "SMALL_ROWS", 1)
    for name in ("insert", "update"):
        real = getattr(BulkWriter, name)

        def counting(self, *args, real=real, **kwargs):
            calls.append(real)
            return real(self, *args, **kwargs)

        monkeypatch.setattr(BulkWriter, name, counting)
    return lambda: len(calls)


# --- the same as few rows ---------------------------------------------------------------------------------------

TABLES = """
    CREATE TABLE src (k INT, a INT, b VARCHAR);
    INSERT INTO src VALUES (1, 10, NULL), (2, NULL, 'two'), (2, 22, NULL), (3, 30, 'three'), (5, NULL, NULL);
    CREATE TABLE over (k INT PRIMARY KEY, a INT, b VARCHAR);
    CREATE TABLE ign (k INT PRIMARY KEY, a INT, b VARCHAR) ON CONFLICT IGNORE;
    CREATE TABLE fill (k INT PRIMARY KEY, a INT, b VARCHAR) ON CONFLICT DO UPDATE IF NOT NULL;
    CREATE TABLE keyless (k INT, a INT);
    CREATE TABLE pair (b VARCHAR, k INT, a INT DEFAULT 7, PRIMARY KEY (b, k));
    INSERT INTO over VALUES (2, 1, 'old'), (4, 4, 'stays');
    INSERT INTO ign VALUES (2, 1, 'old'), (4, 4, 'stays');
    INSERT INTO fill VALUES (2, 1, 'old'), (3, 3, NULL), (4, 4, 'stays');
    INSERT INTO keyless VALUES (1, 1), (1, 1);
    CREATE MATERIALIZED VIEW v_over AS SELECT a, b FROM over WHERE k <> 3;
    CREATE MATERIALIZED VIEW v_fill AS
        SELECT k, a FROM fill UNION ALL SELECT k, a FROM keyless UNION ALL SELECT k, 0 FROM fill;
    CREATE MATERIALIZED VIEW v_top AS SELECT a * 2 AS d FROM v_fill WHERE a > 1"""

STATEMENTS = (
    "INSERT INTO over SELECT * FROM src",
    "INSERT INTO ign SELECT * FROM src",
    "INSERT INTO fill SELECT * FROM src",
    "INSERT INTO keyless SELECT k, a FROM src",
    "INSERT INTO keyless SELECT k, a FROM keyless",
    "INSERT INTO pair (k, b) SELECT k, coalesce(b, '') FROM src",
    "INSERT INTO over SELECT * FROM over RETURNING *",
    "UPDATE over SET a = a + 1, b = b || '!' RETURNING k, a",
    "UPDATE over SET a = a RETURNING k",
    "UPDATE fill SET a = 1 WHERE k > 1",
    "UPDATE keyless SET a = coalesce(a, 0) + k",
    "DELETE FROM keyless WHERE a > 10",
    "DELETE FROM ign RETURNING k",
    "INSERT INTO ign SELECT k + 10, a, b FROM over RETURNING k",
    "INSERT INTO ign SELECT k + 9, a, b FROM over RETURNING k",
    "DELETE FROM over WHERE a IS NULL OR a > 11",
)

RELATIONS = ("over", "ign", "fill", "keyless", "pair", "v_over", "v_fill", "v_top")


def run_script(db) -> list[Any]:
    db.sql(TABLES)
    log: list[Any] = []
    for statement in STATEMENTS:
        result = db.sql(statement)
        log.append((statement, result.tag, sorted(result.rows()) if "RETURNING" in statement else None))
    for name in RELATIONS:
        log.append((name, rows(db, f"SELECT * FROM {name}")))
    db.sql("COMPACT")
    log.append([rows(db, f"SELECT * FROM {name}") for name in RELATIONS])
    return log


@pytest.mark.slow
def test_many_rows_are_written_as_few_are(spark, tmp_path, bulk, monkeypatch):
    """Same tags, same RETURNING, same tables and views, whichever way the rows take."""
    with headrace.connect(tmp_path / "many", spark=spark) as db:
        many = run_script(db)
    assert bulk() == len(STATEMENTS)
    monkeypatch.setattr(writes, "SMALL_ROWS", 50_000)
    with headrace.connect(tmp_path / "few", spark=spark) as db:
        few = run_script(db)
    assert bulk() == len(STATEMENTS)
    assert many == few


def test_what_cannot_be_written_is_refused_whole(db, bulk):
    db.sql("CREATE TABLE t (k INT PRIMARY KEY, a INT NOT NULL)")
    db.sql("CREATE TABLE s (k INT, a INT)")
    db.sql("CREATE MATERIALIZED VIEW inverse AS SELECT 10 / a AS i FROM t")
    db.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    db.sql("INSERT INTO s VALUES (3, 3), (4, NULL), (5, 0)")
    with pytest.raises(NotNullViolation, match='column "a" of relation "t"'):
        db.sql("INSERT INTO t SELECT * FROM s")
    with pytest.raises(NotNullViolation, match='column "k"'):
        db.sql("INSERT INTO t (a) SELECT 1 FROM s")
    with pytest.raises(NotNullViolation):
        db.sql("UPDATE t SET a = NULL")
    with pytest.raises(DataError, match="division by zero"):
        db.sql("UPDATE t SET a = a / 0")
    with pytest.raises(DataError, match='division by zero.*"inverse"'):
        db.sql("INSERT INTO t SELECT k, a FROM s WHERE a IS NOT NULL")
    with pytest.raises(Unsupported, match="primary key"):
        db.sql("UPDATE t SET k = k + 1")
    assert rows(db, "SELECT * FROM t") == [(1, 1), (2, 2)]
    assert sorted(db.sql("SELECT * FROM inverse").rows()) == [(5,), (10,)]
    assert bulk() > 0
    assert not list(db.engine.storage.walk("staging")), "staged rows stay behind"


def test_row_ids_never_meet(db, bulk, monkeypatch):
    """Rows without a key that came in bulk, one by one, and in bulk again: each can be updated on its own."""
    db.sql("CREATE TABLE n (v INT)")
    db.sql("INSERT INTO n SELECT g FROM generate_series(1, 50) AS x(g)")
    db.sql("INSERT INTO n VALUES (51), (52)")
    db.sql("INSERT INTO n SELECT v + 52 FROM n")
    db.sql("INSERT INTO n VALUES (0)")
    assert rows(db, "SELECT count(*), count(DISTINCT v), sum(v) FROM n") == [(105, 105, 104 * 105 // 2)]
    db.sql("UPDATE n SET v = -v WHERE v % 2 = 1")
    db.sql("DELETE FROM n WHERE v > 50")
    assert Counter(db.sql("SELECT v FROM n").rows()) == Counter(
        (-v if v % 2 else v,) for v in range(105) if v % 2 or v <= 50
    )
    assert bulk() == 4


# --- keys of every type -----------------------------------------------------------------------------------------

UTC = datetime.UTC
KEYS: dict[str, list[Any]] = {
    "VARCHAR": ["", "a", "ab", "a\x01b", "ä", "😀", "it's"],
    "BYTEA": [b"", b"\0", b"\0\xff", b"\xff", b"a", b"ab", b"\0\0"],
    "BOOLEAN": [True, False],
    "SMALLINT": [-32768, -1, 0, 1, 2, 3, 32767],
    "INT": [-(2**31), -1, 0, 1, 2, 3, 2**31 - 1],
    "BIGINT": [-(2**63), -1, 0, 1, 2, 3, 2**63 - 1],
    "NUMERIC(10,2)": [
        Decimal(text) for text in ("-99999999.99", "-0.01", "0.00", "0.01", "1.50", "2.00", "99999999.99")
    ],
    "NUMERIC": [Decimal(f"{text}.0000000000") for text in (-(10**27), -256, -1, 0, 127, 128, 10**27)],
    "REAL": [-math.inf, -1.5, -0.0, 0.1, 1.0, math.inf, math.nan],
    "DOUBLE PRECISION": [-math.inf, -1.5, -0.0, 0.1, 1.0, math.inf, math.nan],
    "DATE": [datetime.date(*day) for day in [(1, 1, 1), (1969, 12, 31), (1970, 1, 1), (2024, 2, 29), (9999, 12, 31)]],
    "TIMESTAMP": [
        datetime.datetime(*moment)
        for moment in [(1, 1, 1), (1969, 12, 31, 23, 59, 59, 999999), (1970, 1, 1), (2024, 2, 29, 1, 2, 3, 4)]
    ],
    "TIMESTAMPTZ": [
        datetime.datetime(*moment, tzinfo=UTC)
        for moment in [(1900, 1, 1), (1969, 12, 31, 23, 59, 59, 999999), (1970, 1, 1), (2024, 2, 29, 1, 2, 3, 4)]
    ],
    # Two of one length are two keys.
    "INTERVAL": [Interval(*parts) for parts in [(0, -1, 0), (0, 0, -1), (0, 0, 0), (1, 0, 0), (0, 30, 0), (-1, 40, 7)]],
}


def name_of(kind: str) -> str:
    return "t_" + "".join(character for character in kind.lower() if character.isalnum())


def canonical(value: Any) -> Any:
    """As a key sees it: there is one zero and one NaN."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


@pytest.fixture(scope="module")
def typed(spark, tmp_path_factory):
    """A table that has a column for every type, from which all typed tables are filled."""
    parameters = {"barrier_interval": "100ms"}
    with headrace.connect(tmp_path_factory.mktemp("typed") / "w", spark=spark, parameters=parameters) as db:
        columns = ", ".join(f"{name_of(kind)} {kind}" for kind in KEYS)
        db.sql(f"CREATE TABLE src (v INT, {columns})")
        relation = db.engine.committed.catalog.get("src")
        arrays = {"v": pa.array(range(7), pa.int32())}
        for kind, keys in KEYS.items():
            padded = keys + [None] * (7 - len(keys))
            value = padded if kind != "REAL" else [None if each is None else np.float32(each) for each in padded]
            arrays[name_of(kind)] = pa.array(map(as_given, value), relation.column(name_of(kind)).type.arrow)
        db.insert("src", pa.table(arrays))
        yield db


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_a_type(typed, bulk, kind):
    """What one way of writing has put, the others find: the hash, the order and the equality of keys all agree."""
    db, name, keys = typed, name_of(kind), KEYS[kind]
    db.sql(f"CREATE TABLE {name} (k {kind} PRIMARY KEY, v INT)")
    fill = f"INSERT INTO {name} SELECT {name}, v FROM src WHERE {name} IS NOT NULL"
    db.sql(fill)
    arrow = db.engine.committed.catalog.get(name).column("k").type.arrow
    # One by one, over what came in bulk; 0.0 over -0.0 and one NaN over another.
    again = [0.0 if each == 0 and isinstance(each, float) else each for each in keys]
    again = [-math.nan if isinstance(each, float) and math.isnan(each) else each for each in again]
    values = [np.float32(each) for each in again] if kind == "REAL" else again
    db.insert(
        name, pa.table({"k": pa.array(map(as_given, values), arrow), "v": pa.array([100] * len(keys), pa.int32())})
    )
    check(db, name, kind, {canonical(stored(key, kind)): 100 for key in keys})
    db.sql(fill)
    db.sql(f"UPDATE {name} SET v = v + 1")
    db.sql(f"COMPACT {name}")
    check(db, name, kind, {canonical(stored(key, kind)): number + 1 for number, key in enumerate(keys)})
    db.sql(f"DELETE FROM {name} WHERE v > 1")
    check(db, name, kind, {canonical(stored(keys[0], kind)): 1})
    assert bulk() >= 3
    db.sql(f"DROP TABLE {name}")


def as_given(value: Any) -> Any:
    return value.stored if isinstance(value, Interval) else value


def stored(value: Any, kind: str) -> Any:
    return float(np.float32(value)) if kind == "REAL" else value


def check(db, name: str, kind: str, expected: dict) -> None:
    found = [(canonical(key), v) for key, v in db.sql(f"SELECT k, v FROM {name}").rows()]
    assert len(found) == len(expected)
    assert dict(found) == expected
    assert {each["name"]: each["rows"] for each in db.status()["relations"]}[name] == len(expected)


@pytest.mark.parametrize("kind", ["REAL", "DOUBLE PRECISION"])
def test_nan_is_found(db, kind):
    """Parquet's statistics leave NaN out, and Spark skips what they do not promise."""
    db.sql(f"CREATE TABLE f (id INT PRIMARY KEY, x {kind})")
    db.sql("INSERT INTO f VALUES (1, 1.5), (2, 'NaN'), (3, 0)")
    assert rows(db, "SELECT id FROM f WHERE x = 'NaN'") == [(2,)]
    assert rows(db, "SELECT id FROM f WHERE x > 100") == [(2,)]
    assert rows(db, "SELECT id FROM f WHERE x <= 1.5") == [(1,), (3,)]
    assert db.sql("DELETE FROM f WHERE x > 100").tag == "DELETE 1"


# --- files ------------------------------------------------------------------------------------------------------


def test_a_view_on_many_files_survives_its_merge(db):
    """Spark reads several files in one task, so a view's rows come sorted piece by piece only."""
    db.sql("ALTER SYSTEM SET compaction = false")
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    size, pieces = 6_000, 5
    for piece in range(pieces):
        ids = pa.array(range(piece * size, (piece + 1) * size), pa.int32())
        db.insert("t", pa.table({"id": ids, "v": ids}))
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT id, v FROM t")
    db.sql("UPDATE t SET v = -1 WHERE id IN (0, 7, 29999)")
    total = size * pieces
    expected = [(total, total, total * (total - 1) // 2 - 3 - 7 - 29999)]
    assert rows(db, "SELECT count(*), count(DISTINCT id), sum(v) FROM m") == expected
    db.sql("COMPACT m")
    assert rows(db, "SELECT count(*), count(DISTINCT id), sum(v) FROM m") == expected


LAYOUT = Layout(
    relation_id=1,
    columns=(("k", SqlType("integer")), ("v", SqlType("integer"))),
    pk=(KeyColumn(name="k"),),
    distribution=("k",),
)


@pytest.mark.parametrize("sort", [False, True])
@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 1)), min_size=0, max_size=12),
        max_size=5,
    )
)
@settings(max_examples=60, deadline=None)
def test_files_are_sorted_and_bounded_whatever_order_rows_come_in(tmp_path_factory, sort, batches):
    """(vnode, k, weight): every key is put at most once per batch and may be retracted before."""
    root = tmp_path_factory.mktemp("files")
    group_rows, writer.GROUP_ROWS = writer.GROUP_ROWS, 3
    try:
        arrow, expected = [], Counter()
        for number, batch in enumerate(batches):
            distinct = {(vnode, 100 * number + k): retracts for vnode, k, retracts in batch}
            for (vnode, k), retracts in distinct.items():
                expected[vnode, k, number, 1] += 1
                if retracts:
                    expected[vnode, k, -number - 1, -1] += 1
            lines = [
                (vnode, weight, {"k": k, "v": number if weight > 0 else -number - 1})
                for (vnode, k), retracts in distinct.items()
                for weight in ((-1, 1) if retracts else (1,))
            ]
            arrow.append(
                pa.RecordBatch.from_arrays(
                    [
                        pa.array([line[0] for line in lines], pa.int16()),
                        pa.array([line[1] for line in lines], pa.int8()),
                        pa.array([line[2] for line in lines], pa.struct([("k", pa.int32()), ("v", pa.int32())])),
                    ],
                    names=[VNODE, WEIGHT, "n0"],
                )
            )
        body = WriteDelta(
            files=LocalFiles(str(root)), epoch=5, outputs=(Output(layout=LAYOUT, branches=("n0",)),), sort=sort
        )
        reported = [line for batch in body(iter(arrow)) for line in batch.to_pylist()]
        found: Counter = Counter()
        for file in written_files(reported).get(1, []):
            table = pq.read_table(root / file.path)
            keys = LAYOUT.encode(table)
            assert keys == sorted(keys)
            assert (file.low, file.high, file.rows) == (keys[0], keys[-1], len(keys))
            assert file.retractions == table[WEIGHT].to_pylist().count(-1)
            if file.groups > 1:
                groups = GroupIndex.from_bytes((root / file.sidecar).read_bytes()).groups
                start = 0
                for low, high, count in groups:
                    assert (low, high) == (keys[start], keys[start + count - 1])
                    start += count
                assert start == len(keys)
            found.update(zip(*(table[name].to_pylist() for name in (VNODE, "k", "v", WEIGHT)), strict=True))
        assert found == expected
    finally:
        writer.GROUP_ROWS = group_rows


# --- for real ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_hundred_thousand_rows(db, monkeypatch):
    """The driver never holds the rows, and what is written is right."""
    seen = [0]
    real_arrow, real_collect = DataFrame.toArrow, DataFrame.collect

    def to_arrow(self):
        table = real_arrow(self)
        seen.append(table.num_rows)
        return table

    def collect(self):
        lines = real_collect(self)
        seen.append(len(lines))
        return lines

    db.sql("CREATE TABLE big (id BIGINT PRIMARY KEY, v INT, w VARCHAR)")
    db.sql("CREATE MATERIALIZED VIEW odd AS SELECT id, v + 1 AS x FROM big WHERE id % 2 = 1")
    series = "generate_series(1, 200000) AS x(g)"
    with monkeypatch.context() as patch:
        patch.setattr(DataFrame, "toArrow", to_arrow)
        patch.setattr(DataFrame, "collect", collect)
        # More than the small way takes; otherwise it would be tried first, and give up after that many rows.
        patch.setattr(writes, "SMALL_ROWS", 1_000)
        assert db.sql(f"INSERT INTO big SELECT g, g % 7, 'w' || g FROM {series}").tag == "INSERT 0 200000"
        assert (
            db.sql(f"INSERT INTO big SELECT g * 2, 100, NULL FROM {series} WHERE g <= 150000").tag == "INSERT 0 150000"
        )
        assert db.sql("UPDATE big SET v = v + 1 WHERE id % 3 = 0").tag == "UPDATE 83333"
        assert db.sql("DELETE FROM big WHERE id > 250000").tag == "DELETE 25000"
        db.sql("COMPACT")
    assert max(seen) <= 1_001
    ids = np.concatenate([np.arange(1, 200_001), np.arange(200_002, 250_001, 2)])
    v = np.where(ids % 2 == 0, 100, ids % 7) + (ids % 3 == 0)
    odd = ids % 2 == 1
    assert rows(db, "SELECT count(*), count(DISTINCT id), sum(id), sum(v), count(w) FROM big") == [
        (len(ids), len(ids), int(ids.sum()), int(v.sum()), int(odd.sum()))
    ]
    assert rows(db, "SELECT count(*), sum(id), sum(x) FROM odd") == [
        (int(odd.sum()), int(ids[odd].sum()), int((v[odd] + 1).sum()))
    ]
    # One row among them all, found by its key.
    assert db.sql("UPDATE big SET w = 'found' WHERE id = 123457 RETURNING v").rows() == [(int(123457 % 7),)]


# --- RETURNING of many rows -------------------------------------------------------------------------------------


def test_rows_of_returning_wait_in_files(db, bulk):
    db.engine.streams.cut_bytes = 1_000
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR)")
    result = db.sql("INSERT INTO t SELECT g, md5(g::varchar) FROM generate_series(1, 50000) AS x(g) RETURNING id, v")
    assert bulk() == 1 and result.tag == "INSERT 0 50000"
    waiting = db.engine.storage.list("results")
    assert sum(entry.size for entry in waiting) > 50_000 * 32
    expected = {(g, hashlib.md5(str(g).encode()).hexdigest()) for g in range(1, 50_001)}
    for _ in range(2):  # they can be read again
        parts = [tuple(batch.to_pydict().values()) for batch in result.batches()]
        assert len(parts) > 1
        assert {row for ids, texts in parts for row in zip(ids, texts, strict=True)} == expected
    assert set(result.rows()) == expected
    del result
    gc.collect()
    db.sql("SELECT count(*) FROM t").arrow()
    list(db.sql("SELECT id FROM t").batches())
    assert not db.engine.storage.list("results")


def test_what_fails_in_returning_fails_before_the_commit(db, bulk):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    with pytest.raises(DataError, match="division by zero"):
        db.sql("INSERT INTO t SELECT g FROM generate_series(1, 20000) AS x(g) RETURNING 1 / (id - 19999)")
    assert rows(db, "SELECT count(*) FROM t") == [(0,)]
    db.sql("SELECT 1").arrow()
    assert not db.engine.storage.list("results")


def test_a_few_of_many_returned_rows_are_shown(db, bulk, capsys):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t SELECT g FROM generate_series(1, 500) AS x(g) RETURNING id").show(3)
    assert "(3 rows)" in capsys.readouterr().out
