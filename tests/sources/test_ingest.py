"""What a task does with the events that it reads. No JVM."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.engine import ingest
from headrace.engine.fills import View
from headrace.engine.ingest import IngestRange, Report
from headrace.operators.vectors import Call, Column, VectorBranch, VectorProject
from headrace.sources import kafka
from headrace.sources.connector import BadEvent, BadRecord, Decoded
from headrace.sources.definition import KEY_COLUMNS, OFFSET, PARTITION, PK
from headrace.state.files import LocalFiles
from headrace.state.layout import Layout
from headrace.state.runs import VNODE
from headrace.types import SqlType

BIGINT = SqlType("bigint")
SOURCE = Layout(
    relation_id=1,
    columns=(("id", BIGINT), *((column.name, column.type) for column in KEY_COLUMNS)),
    pk=PK,
    distribution=(PARTITION, OFFSET),
)
VIEW = Layout(relation_id=2, columns=(("twice", BIGINT), *SOURCE.columns[1:]), pk=PK, distribution=(PARTITION, OFFSET))


@dataclass(frozen=True)
class Numbers:
    """Events that are their own offsets, in blocks; one of them may be bad."""

    bad: int | None = None

    def read(self, task: range) -> Iterator[Decoded]:
        for start in range(task.start, task.stop, 10):
            offsets = [at for at in range(start, min(start + 10, task.stop)) if at != self.bad]
            rows = pa.table({"id": offsets, PARTITION: [3] * len(offsets), OFFSET: offsets}, schema=SOURCE.row_schema)
            bad = start <= (-1 if self.bad is None else self.bad) < start + 10
            yield Decoded(rows=rows, bad=(BadRecord(split=3, offset=self.bad, reason="so", raw=b"x"),) if bad else ())


def run(tmp_path, task: range, *, views=(), on_bad: str = "fail", reader=Numbers()) -> Report:  # noqa: B008
    (tmp_path / "staging").mkdir(exist_ok=True)
    body = IngestRange(
        reader=reader, files=LocalFiles(str(tmp_path)), source=SOURCE, views=tuple(views), stage=not views,
        on_bad=on_bad, patient=True,
    )  # fmt: skip
    batch = pa.record_batch({"task": pa.array([pickle.dumps(("staging/0", task))], pa.binary())})
    (found,) = body(iter([batch]))
    return pickle.loads(found.column(0)[0].as_py())


def stored(tmp_path, files) -> pa.Table:
    return pa.concat_tables([pq.read_table(tmp_path / file.path) for file in files])


def view(expression) -> View:
    columns = (("twice", expression, pa.int64()), *((name, Column(name), pa.int64()) for name in (PARTITION, OFFSET)))
    return View(layout=VIEW, branches=(VectorBranch(relation_id=1, steps=(VectorProject(columns=columns),)),))


def test_events_are_staged_in_the_order_of_a_state_table(tmp_path):
    report = run(tmp_path, range(0, 1000))
    (file,) = report.staged
    rows = stored(tmp_path, report.staged)
    assert rows["id"].to_numpy().sum() == 499500 and file.rows == report.rows == 1000
    keys = list(zip(rows[VNODE].to_pylist(), rows[PARTITION].to_pylist(), rows[OFFSET].to_pylist(), strict=True))
    assert keys == sorted(keys)
    assert file.bytes == (tmp_path / file.path).stat().st_size


def test_large_events_are_written_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(ingest, "PART_BYTES", 500)
    for views in ((), (view(Call("add", (Column("id"), Column("id")), pa.int64())),)):
        report = run(tmp_path, range(0, 100), views=views)
        files = report.files[2] if views else report.staged
        assert len(files) > 2 and stored(tmp_path, files).num_rows == 100


def test_views_are_written_by_who_reads(tmp_path):
    report = run(tmp_path, range(0, 500), views=[view(Call("add", (Column("id"), Column("id")), pa.int64()))])
    assert not report.staged
    rows = stored(tmp_path, report.files[2]).sort_by(OFFSET)
    assert rows["twice"].to_pylist() == [2 * at for at in range(500)]


def test_what_only_spark_can_judge_is_left_to_it(tmp_path):
    overflow = Call("multiply", (Column("id"), Column("id")), pa.int64())
    report = run(tmp_path, range(1 << 62, (1 << 62) + 5), views=[view(overflow)])
    assert report.spark_must_judge == 2 and 2 not in report.files


def test_bad_events(tmp_path):
    report = run(tmp_path, range(0, 30), reader=Numbers(bad=12))
    assert isinstance(report.error, BadEvent) and "offset 12 of partition 3" in report.error.message
    report = run(tmp_path, range(0, 30), reader=Numbers(bad=12), on_bad="skip")
    assert (report.bad_count, report.bad, report.rows) == (1, [], 29)
    report = run(tmp_path, range(0, 30), reader=Numbers(bad=12), on_bad="dead_letter")
    assert [(each.offset, each.raw) for each in report.bad] == [(12, b"x")]


def test_too_many_bad_events_are_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(ingest, "MOST_BAD", 0)
    report = run(tmp_path, range(0, 30), reader=Numbers(bad=12), on_bad="dead_letter")
    assert "more than 0 events" in report.error.message


def test_bad_events_of_all_tasks_together_are_bounded(monkeypatch):
    monkeypatch.setattr(ingest, "MOST_BAD", 5)
    monkeypatch.setattr(ingest, "BAD_BYTES", 25)

    def task(*sizes: int) -> Report:
        report = Report(bad_count=len(sizes))
        report.keep([BadRecord(split=0, offset=at, reason="so", raw=b"x" * size) for at, size in enumerate(sizes)])
        return report

    whole = Report()
    whole.add(task(10, 10))
    whole.add(task(10, 5))
    assert whole.error is None and whole.bad_count == 4
    assert [each.raw and len(each.raw) for each in whole.bad] == [10, 10, None, 5]
    assert whole.bad[2].reason == "so (10 bytes, not kept by this read: too many are bad at once)"
    whole.add(task(0, 0, 0, 0))
    assert "more than 5 events" in whole.error.message and len(whole.bad) == 6


@pytest.mark.parametrize("sizes", [[[1] * 100] * 400, [[1 << 20] * 5] * 20, [[60 << 20, 1]], [[]], [[100_000] * 1000]])
def test_blocks_of_events_are_bounded_by_number_and_by_bytes(sizes):
    """Whatever a topic has in it, a task decodes so much at a time."""
    batches = [[range(size) for size in batch] for batch in sizes]  # they have a length, and take no memory
    blocks = list(kafka.in_blocks(batches))
    assert [each for block in blocks for each in block] == [each for batch in batches for each in batch]
    for block in blocks:
        assert len(block) < 2 * kafka.BLOCK
        assert len(block) == 1 or sum(map(len, block)) <= 2 * kafka.BLOCK_BYTES or max(map(len, block)) > 1 << 24


def test_keys_and_headers_count_as_well():
    """Events without content may be as large as others."""
    blocks = [*kafka.in_blocks([[range(0)] * 100] * 10, lambda message: 1 << 20)]
    assert sum(map(len, blocks)) == 1000 and max(map(len, blocks)) <= 16


@pytest.mark.parametrize("order", [[3, 1, 2], [1, 2, 3]])
def test_events_of_several_splits_are_sorted(order):
    rows = pa.table({PARTITION: order, OFFSET: [5, 6, 4], VNODE: pa.array([0, 0, 0], pa.int16())})
    assert rows.take(pa.array(ingest.by_vnode(rows)))[PARTITION].to_pylist() == [1, 2, 3]
