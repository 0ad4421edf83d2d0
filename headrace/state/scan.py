"""Reading a state table with Spark's own Parquet reader, as of one list of runs.

The merge rule: a row of weight +1 is dead iff a retraction of the same key has a larger epoch. So a scan is the union
of all files, minus the rows that a *killer* (the newest retraction of a key) covers. Append-mostly relations have no
killers and pay nothing; runs that are newer than every killer are not joined at all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from headrace.errors import CorruptWarehouse
from headrace.state.files import RESTORE
from headrace.state.layout import LEFT_OUT, Layout
from headrace.state.predicates import Bounds, beyond_columns, order_start, range_predicate
from headrace.state.runs import EPOCH, VNODE, WEIGHT, Run, RunFile
from headrace.types import quote_spark

BROADCAST_KILLERS = 1_000_000
"""Up to this many retractions are sent to every executor; beyond, the join is shuffled."""

LARGE_FILE_ROWS = 1 << 16

FEW_VNODES = 4
"""A range that reaches over fewer vnodes than this beyond its first is worth a query of its own."""


def scan(
    spark: SparkSession,
    root: str,
    layout: Layout,
    runs: Iterable[Run],
    *,
    internal: bool = False,
    bounds: Sequence[Bounds] = (),
    predicate: str | None = None,
) -> DataFrame:
    """The live rows, of all or of some key ranges. ``internal`` keeps the vnode, epoch and weight columns;
    ``predicate`` must hold of key columns only, because it prunes retractions too."""
    columns = _columns(layout, internal)
    within = " OR ".join(f"({range_predicate(layout, each)})" for each in bounds)
    conditions = [f"({each})" for each in (predicate, within) if each]
    narrow = _where(" AND ".join(conditions))
    reader = _Reader(spark, root, layout, runs, bounds, narrow, narrow)
    frame = reader.live(lambda file: True)
    return (_empty(spark, layout) if frame is None else frame).selectExpr(*columns)


def sorted_scan(
    spark: SparkSession, root: str, layout: Layout, runs: Iterable[Run], bounds: Bounds, *, rows: int
) -> DataFrame | None:
    """The live rows of a range of about ``rows`` stored rows, in partitions that are each sorted; None if no file has
    any. The range has both ends.

    A large file is a partition or several of its own, in a session that reads one split per task. The small ones,
    which live writes leave, would become as many small files again: they are sorted together.
    """
    narrow, roughly = _range_as_data(spark, layout, bounds)
    reader = _Reader(spark, root, layout, runs, [bounds], narrow, roughly, killers=rows)
    large = reader.live(lambda file: file.rows >= LARGE_FILE_ROWS)
    small = reader.live(lambda file: file.rows < LARGE_FILE_ROWS)
    if large is not None and not reader.broadcasts:
        large = sorted_by_key(large, layout)
    if small is not None:
        small = sorted_by_key(small.coalesce(1), layout)
    parts = [part.selectExpr(*_columns(layout, True)) for part in (large, small) if part is not None]
    return None if not parts else parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])


def scan_vnodes(spark: SparkSession, root: str, layout: Layout, runs: Iterable[Run], vnodes: range) -> DataFrame:
    """The live rows of some vnodes as one partition. Nothing of the query's text says which but a list of values, which
    is no part of generated code in a session for sorted reads (:mod:`headrace.state.native`)."""
    narrow = _where(f"{quote_spark(VNODE)} IN ({', '.join(map(str, vnodes))})")
    bounds = Bounds(after=(vnodes.start, None), upto=(vnodes.stop - 1, None))
    found = _Reader(spark, root, layout, runs, [bounds], narrow, narrow).live(lambda file: True)
    return (_empty(spark, layout) if found is None else found).selectExpr(*_columns(layout, False)).coalesce(1)


Narrow = Callable[[DataFrame], DataFrame]


def _where(condition: str) -> Narrow:
    return lambda frame: frame.where(condition) if condition else frame


def _range_as_data(spark: SparkSession, layout: Layout, bounds: Bounds) -> tuple[Narrow, Narrow]:
    """How to take the rows of a range, exactly and roughly, by queries whose text does not name it.

    Values in a query's text become constants in the code that Spark generates, so another range would be other code,
    to be compiled once more. A list of vnodes is no part of the code and still skips row groups; the two ends come as a
    row to join with. Where a vnode is so large that it has to be read in several chunks, its row groups are skipped by
    the key as well, and the range has to be in the text.
    """
    (first, after), (last, upto) = bounds.after, bounds.upto
    if last - first < FEW_VNODES:
        narrow = _where(range_predicate(layout, bounds))
        return narrow, narrow
    vnode = quote_spark(VNODE)
    roughly = _where(f"{vnode} IN ({', '.join(map(str, range(first, last + 1)))})")
    if after is None and upto is None:
        return roughly, roughly
    fields, columns, tests = [], {}, []
    for name, edge, key in (("after", first, after), ("upto", last, upto)):
        ends = [f"_hr_{name}{index}" for index, _ in enumerate(layout.pk)]
        fields += [f"_hr_{name} SMALLINT"]
        columns[f"_hr_{name}"] = pa.array([None if key is None else edge], pa.int16())
        for end, pk, value in zip(ends, layout.pk, [None] * len(ends) if key is None else key, strict=True):
            fields += [f"{end} {layout.types[pk.name].spark}"]
            columns[end] = pa.array([value], layout.types[pk.name].arrow)
        beyond = beyond_columns(layout, ends)
        # The vnode of an end that is the vnode's own is not given, and compares as NULL.
        inside = beyond if name == "after" else f"NOT {beyond}"
        tests.append(f"(_hr_{name} IS NULL OR {vnode} {'>' if name == 'after' else '<'} _hr_{name} OR {inside})")
    # As Arrow: from a list of Python's values, Spark would make the row in Python workers.
    ends = spark.createDataFrame(pa.table(columns), schema=", ".join(fields)).hint("broadcast")
    stored = _columns(layout, True)
    return lambda frame: roughly(frame).join(ends, F.expr(" AND ".join(tests))).selectExpr(*stored), roughly


def key_order(layout: Layout, within: str = "") -> list[Column]:
    """What to sort by for (vnode, pk) order; ``within`` is the struct that holds the columns, if one does."""
    prefix = f"{within}." if within else ""
    columns = [F.col(prefix + quote_spark(VNODE))]
    for key in layout.pk:
        column = F.col(prefix + quote_spark(key.name))
        if key.descending:
            columns.append(column.desc_nulls_first() if key.nulls_first else column.desc_nulls_last())
        else:
            columns.append(column.asc_nulls_first() if key.nulls_first else column.asc_nulls_last())
    return columns


def sorted_by_key(rows: DataFrame, layout: Layout) -> DataFrame:
    """Each partition in (vnode, pk) order."""
    start = order_start(layout)
    return rows.sortWithinPartitions(*([] if start is None else [F.expr(start)]), *key_order(layout))


def _columns(layout: Layout, internal: bool) -> list[str]:
    return [quote_spark(name) for name in (*layout.names, *((VNODE, EPOCH, WEIGHT) if internal else ()))]


class _Reader:
    """``narrow`` takes the wanted rows of a frame; ``roughly`` may take more, and is for retractions."""

    def __init__(
        self,
        spark: SparkSession,
        root: str,
        layout: Layout,
        runs: Iterable[Run],
        bounds: Sequence[Bounds],
        narrow: Narrow,
        roughly: Narrow,
        killers: int | None = None,
    ):
        self._spark, self._root, self._layout, self._bounds = spark, root, layout, bounds
        self._runs = [run for run in runs if run.rows]
        self._narrow, self._roughly = narrow, roughly
        self._killing = [run for run in self._runs if run.retractions]
        self._newest_killer = max((run.last_epoch for run in self._killing), default=0)
        count = sum(file.retractions for run in self._killing for file in run.files if self._covered(file))
        self.broadcasts = min(count, count if killers is None else killers) <= BROADCAST_KILLERS

    def live(self, wanted: Callable[[RunFile], bool]) -> DataFrame | None:
        """The live rows of the wanted files, or None if there are no such files."""
        put = f"{quote_spark(WEIGHT)} > 0"
        if not self._killing:
            return self._read(self._runs, wanted, self._narrow)
        beneath = [run for run in self._runs if run.first_epoch < self._newest_killer]
        above = [run for run in self._runs if run.first_epoch >= self._newest_killer]
        parts = []
        if (rows := self._read(beneath, wanted, self._narrow, put)) is not None:
            retraction = f"{quote_spark(WEIGHT)} < 0"
            killers = self._read(self._killing, lambda file: file.retractions > 0, self._roughly, retraction)
            parts.append(rows if killers is None else self._without_killed(rows, killers))
        needs_put = any(run.retractions for run in above)
        if (rows := self._read(above, wanted, self._narrow, put if needs_put else "")) is not None:
            parts.append(rows)
        return None if not parts else parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])

    def _covered(self, file: RunFile) -> bool:
        return not self._bounds or any(each.covers(self._layout, file) for each in self._bounds)

    def _read(
        self, runs: Sequence[Run], wanted: Callable[[RunFile], bool], narrow: Narrow, where: str = ""
    ) -> DataFrame | None:
        files = [file for run in runs for file in run.files if self._covered(file) and wanted(file)]
        if not files:
            return None
        return narrow(_where(where)(read_files(self._spark, self._root, files, self._layout.spark_schema)))

    def _without_killed(self, rows: DataFrame, killers: DataFrame) -> DataFrame:
        keys = [quote_spark(VNODE), *(quote_spark(name) for name in self._layout.key_names)]
        # Only the vnode and pk decide; renaming keeps the two sides of the join apart.
        renamed = [f"{key} AS _hr_k{index}" for index, key in enumerate(keys)]
        newest = killers.selectExpr(*renamed, f"{quote_spark(EPOCH)} AS _hr_killed_at")
        if self.broadcasts:
            newest = newest.coalesce(1).hint("broadcast")  # few rows in many small files: a task for each costs more
        else:
            # Files of keys are small for what they hold, so Spark would broadcast millions of rows.
            newest = newest.hint("merge")
        same_key = " AND ".join(f"r.{key} <=> k._hr_k{index}" for index, key in enumerate(keys))
        condition = F.expr(f"{same_key} AND r.{quote_spark(EPOCH)} < k._hr_killed_at")
        return rows.alias("r").join(newest.alias("k"), condition, "left_anti")


def read_files(spark: SparkSession, root: str, files: Sequence[RunFile], schema: str) -> DataFrame:
    """Parquet files by their exact names: to Spark alone, brackets and stars in a path would be a pattern."""
    reader = spark.read.schema(_completed(schema)).option("__globPaths__", "false")
    # A row group is a page of each column: an index of pages says no more than the footer, and costs a read of its own.
    reader = reader.option("parquet.filter.columnindex.enabled", "false")
    frame = reader.parquet(*(f"{root}/{file.path}" for file in files))
    _check_sizes(frame, root, files)
    return frame


def _check_sizes(frame: DataFrame, root: str, files: Sequence[RunFile]) -> None:
    """Spark passes over an empty file as if it had no rows; what it has listed says how long the files are."""
    plan = frame._jdf.queryExecution().analyzed()
    location = plan.relation().location()
    if location.sizeInBytes() == sum(file.bytes for file in files):
        return
    listed = {status.getPath().getName(): status.getLen() for status in _items(location.allFiles())}
    for file in files:
        found = listed.get(file.path.rpartition("/")[2])
        if found is not None and found != file.bytes:
            raise CorruptWarehouse(
                f"the data file {root}/{file.path} has {found} bytes instead of {file.bytes}", hint=RESTORE
            )


def _items(found: Any) -> Iterator[Any]:
    iterator = found.iterator()
    while iterator.hasNext():
        yield iterator.next()


@functools.lru_cache(maxsize=1000)
def _completed(schema: str) -> StructType:
    """A schema that also says what the columns are that a file may leave out."""
    fields = []
    for field in StructType.fromDDL(schema):
        metadata = {}
        if field.name in LEFT_OUT:
            value = f"CAST({LEFT_OUT[field.name]} AS {field.dataType.simpleString()})"
            metadata = {"EXISTS_DEFAULT": value, "CURRENT_DEFAULT": value}
        fields.append(StructField(field.name, field.dataType, metadata=metadata))
    return StructType(fields)


def _empty(spark: SparkSession, layout: Layout) -> DataFrame:
    return spark.createDataFrame(layout.stored_schema.empty_table(), schema=layout.spark_schema)
