"""Views on a folder of files, while files come."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace
from headrace.engine import source_log
from headrace.errors import HeadraceError
from tests.engine.conftest import eventually
from tests.engine.sources.conftest import ROOT, rows


def source(folder: Path, encode: str = "parquet", name: str = "s", **options: str) -> str:
    more = "".join(f", {key.replace('__', '.')} = '{value}'" for key, value in options.items())
    return (
        f"CREATE SOURCE IF NOT EXISTS {name} (id BIGINT, word VARCHAR) INCLUDE file AS f WITH (connector = 'file',"
        f" path = '{folder}/*.{encode}'{more}) FORMAT PLAIN ENCODE {encode.upper()}"
    )


def parquet(folder: Path, number: int, count: int = 10) -> None:
    """All at once, as who writes files for others should."""
    ids = range(number * count, (number + 1) * count)
    table = pa.table({"id": pa.array(ids, pa.int64()), "word": [f"w{id}" for id in ids]})
    pq.write_table(table, folder / f".{number}")
    os.rename(folder / f".{number}", folder / f"{number}.parquet")


def ids(db, view: str) -> list[int]:
    return [id for (id,) in rows(db, f"SELECT id FROM {view}")]


def is_equal(db, view: str) -> None:
    ((found, *_),) = db.sql(f"CHECK MATERIALIZED VIEW {view}").rows()
    assert found.startswith("equal"), found


def test_views_before_during_and_after(db, tmp_path, monkeypatch):
    monkeypatch.setattr(source_log, "SMALL_SEGMENTS", 3)
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(5):
        parquet(folder, number)
    db.sql(source(folder))
    db.sql("CREATE MATERIALIZED VIEW before AS SELECT id, upper(word) AS word, f FROM s")
    assert ids(db, "before") == list(range(50))  # what was there is there when it is created
    for number in range(5, 8):
        parquet(folder, number)
        eventually(lambda number=number: len(ids(db, "before")) == 10 * (number + 1))
    db.sql("SET background_ddl = true; SET backfill_rate_limit = 0")
    db.sql("CREATE MATERIALIZED VIEW during AS SELECT id FROM s WHERE id % 2 = 0")
    parquet(folder, 8)
    eventually(lambda: len(ids(db, "before")) == 90)
    is_equal(db, "during")
    db.sql("ALTER MATERIALIZED VIEW during SET BACKFILL_RATE_LIMIT = DEFAULT; WAIT during")
    assert ids(db, "during") == list(range(0, 90, 2))
    assert ids(db, "s") == list(range(90))
    segments = db.engine.committed.offsets[f"source_log:{db.engine.committed.catalog.get('s').id}"]
    assert len(segments) <= 4
    for view in ("before", "during"):
        is_equal(db, view)


def test_lines_that_are_appended(db, tmp_path):
    (tmp_path / "a.json").write_text('{"id": 0}\n{"id": 1')
    db.sql(source(tmp_path, "json", settle__seconds="3600"))
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT id FROM s")
    assert ids(db, "m") == [0]
    with (tmp_path / "a.json").open("a") as more:
        more.write('}\n{"id": 2}\n')
    eventually(lambda: ids(db, "m") == [0, 1, 2])
    is_equal(db, "m")


def test_bad_lines(db, tmp_path):
    (tmp_path / "a.json").write_text('{"id": 0}\nnonsense\n{"id": 2}\n')
    db.sql(source(tmp_path, "json", "lenient", bad__records="skip"))
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT id FROM lenient")
    assert ids(db, "m") == [0, 2]
    db.sql(source(tmp_path, "json", "strict"))
    with pytest.raises(HeadraceError, match=r"a\.json: it is not JSON"):
        db.sql("CREATE MATERIALIZED VIEW n AS SELECT id FROM strict")


def test_jsonb_of_events_is_what_sql_makes_of_the_same_text(db, tmp_path):
    texts = [
        "9007199254740993.25", "12345678901234567890123456789012345678", "1e2", "-0.0", "1.50", "1e-7", "1e40",
        "-2.5e-30", '{"b": [1, 2.50, {"z": null}], "a": "ä\\n\\"/", "": true}', "[]", '"\\u00e9"', "0.1",
        "100000000000000000000",
    ]  # fmt: skip
    lines = (json.dumps({"id": at, "word": text}) for at, text in enumerate(texts))
    (tmp_path / "a.json").write_text(
        "".join(f'{line[:-1]}, "j": {text}}}\n' for line, text in zip(lines, texts, strict=True))
    )
    db.sql(source(tmp_path, "json").replace("word VARCHAR", "word VARCHAR, j JSONB"))
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT id, word, j FROM s")
    assert ids(db, "m") == list(range(len(texts)))
    assert db.sql("SELECT id, j, word::jsonb FROM m WHERE j <> word::jsonb").rows() == []
    assert db.sql("SELECT j::numeric(38, 2) FROM m WHERE id = 0").rows() == [(Decimal(texts[0]),)]


def test_a_folder_that_is_not_there_yet(db, tmp_path):
    folder = tmp_path / "later"
    db.sql(source(folder))
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT id FROM s")
    assert ids(db, "m") == []
    folder.mkdir()
    parquet(folder, 0)
    eventually(lambda: ids(db, "m") == list(range(10)))


PLACES = ["after_ingest:2", "before_stream:1", "after_history:1"]


@pytest.mark.slow
def test_killed_at_any_place(spark, warehouse, tmp_path):
    gateway = spark.sparkContext._gateway.gateway_parameters
    borrowed = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.auth_token}
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(20):
        parquet(folder, number)
    for number, place in enumerate(PLACES):
        statements = (
            f"{source(folder)}; CREATE MATERIALIZED VIEW IF NOT EXISTS m{number} AS SELECT id FROM s;"
            f" CREATE MATERIALIZED VIEW IF NOT EXISTS n{number} AS SELECT id, upper(word) AS word FROM s"
        )
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.cdc_child", warehouse, statements], cwd=ROOT, text=True,
            stderr=subprocess.PIPE, env=os.environ | borrowed | {"HEADRACE_FAILPOINT": place},
        )  # fmt: skip
        for more in range(20 + 4 * number, 24 + 4 * number):
            parquet(folder, more)
        _, said = process.communicate(timeout=200)
        assert process.returncode == -signal.SIGKILL, f"{place} was not reached: {said[-2000:]}"
    expected = list(range(10 * (20 + 4 * len(PLACES))))
    with headrace.connect(warehouse, spark=spark) as db:
        db.sql(source(folder))
        for number in range(len(PLACES)):
            for name, columns in ((f"m{number}", "id"), (f"n{number}", "id, upper(word) AS word")):
                db.sql(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} AS SELECT {columns} FROM s")
        db.sql("WAIT")
        for number in range(len(PLACES)):
            for name in (f"m{number}", f"n{number}"):
                eventually(lambda name=name: len(ids(db, name)) >= len(expected))
                assert ids(db, name) == expected
                is_equal(db, name)
