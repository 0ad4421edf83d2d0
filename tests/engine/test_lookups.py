"""Old rows by key: what is read of them, and what is kept."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.state.files import FooterCache


@pytest.fixture
def orders(db):
    db.sql("ALTER SYSTEM SET compaction = false")
    db.sql("CREATE TABLE orders (id INT PRIMARY KEY, price INT NOT NULL, note VARCHAR, city VARCHAR)")
    db.sql("INSERT INTO orders VALUES (1, 10, 'a', 'Ulm'), (2, 20, 'b', 'Rom')")


def last_retraction(db, warehouse) -> dict:
    """What the newest run of the table has of the row that was replaced."""
    state = db.engine.committed
    newest = state.runs[state.catalog.get("orders").id][-1]
    stored = [row for file in newest.files for row in pq.read_table(Path(warehouse) / file.path).to_pylist()]
    (found,) = (row for row in stored if row["_hr_weight"] < 0)
    return {name: value for name, value in found.items() if not name.startswith("_hr")}


def test_of_replaced_rows_only_what_views_need_is_read(db, orders, warehouse):
    db.sql("INSERT INTO orders VALUES (1, 11, 'A', 'Bonn')")
    assert last_retraction(db, warehouse) == {"id": 1, "price": None, "note": None, "city": None}

    db.sql("CREATE MATERIALIZED VIEW cheap AS SELECT id, upper(note) AS loud FROM orders WHERE price < 15")
    db.sql("INSERT INTO orders VALUES (1, 30, 'c', 'Linz')")
    assert last_retraction(db, warehouse) == {"id": 1, "price": 11, "note": "A", "city": None}
    assert db.sql("SELECT * FROM cheap").rows() == []

    db.sql("CREATE INDEX by_city ON orders (city)")
    db.sql("INSERT INTO orders VALUES (1, 3, 'd', 'Graz')")
    assert last_retraction(db, warehouse) == {"id": 1, "price": 30, "note": "c", "city": "Linz"}
    assert db.sql("SELECT * FROM cheap").rows() == [(1, "D")]
    assert db.sql("SELECT id FROM orders WHERE city = 'Linz'").rows() == []
    assert db.sql("SELECT id FROM orders WHERE city = 'Graz'").rows() == [(1,)]
    for check in ("CHECK MATERIALIZED VIEW cheap", "CHECK INDEX by_city"):
        assert "equal" in str(db.sql(check).rows())


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_a_value_that_becomes_null(db, orders, vectorized):
    """What was not read of the old row is NULL, too; that does not make the two the same."""
    db.sql(f"ALTER SYSTEM SET vectorized = {vectorized}")
    db.sql("CREATE MATERIALIZED VIEW prices AS SELECT id, price FROM orders")
    db.sql("INSERT INTO orders VALUES (1, 10, NULL, NULL)")
    assert db.sql("SELECT note, city FROM orders WHERE id = 1").rows() == [(None, None)]
    assert sorted(db.sql("SELECT * FROM prices").rows()) == [(1, 10), (2, 20)]


def test_rows_replaced_before_a_view_was_made(db, orders):
    """Their retractions lack what the view needs; it must never ask them."""
    before = db.engine.committed.epoch
    db.sql("INSERT INTO orders VALUES (1, 11, 'A', 'Bonn'), (3, 12, 'x', 'Rom')")
    db.sql("CREATE MATERIALIZED VIEW copy AS SELECT * FROM orders")
    db.sql("COMPACT orders")
    expected = [(1, 11, "A", "Bonn"), (2, 20, "b", "Rom"), (3, 12, "x", "Rom")]
    assert sorted(db.sql("SELECT * FROM copy").rows()) == expected
    assert sorted(db.sql("SELECT * FROM orders WHERE price > 0").rows()) == expected
    db.sql(f"SET query_epoch = {before}")
    assert sorted(db.sql("SELECT * FROM orders WHERE price > 0").rows()) == [
        (1, 10, "a", "Ulm"),
        (2, 20, "b", "Rom"),
    ]


def test_what_is_merged_into_old_rows_needs_all_of_them(db):
    db.sql("CREATE TABLE m (id INT PRIMARY KEY, a INT, b INT) ON CONFLICT DO UPDATE IF NOT NULL")
    db.sql("INSERT INTO m VALUES (1, 1, 1)")
    db.sql("INSERT INTO m VALUES (1, NULL, 2)")
    assert db.sql("SELECT * FROM m").rows() == [(1, 1, 2)]


def test_footers_are_kept_up_to_a_limit(tmp_path):
    pq.write_table(pa.table({"a": list(range(100))}), tmp_path / "f.parquet", row_group_size=1)
    footer = pq.read_metadata(tmp_path / "f.parquet")
    cache = FooterCache(limit=3 * 28 * footer.serialized_size)
    for number in range(4):
        cache.put(("w", str(number)), footer)
        assert cache.get(("w", "0")) is footer  # used most recently, so it stays
    assert [cache.get(("w", str(number))) is not None for number in range(4)] == [True, False, True, True]
    assert cache.bytes <= 3 * 28 * footer.serialized_size
    FooterCache(limit=1).put(("w", "large"), footer)
