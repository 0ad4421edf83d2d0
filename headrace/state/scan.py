"""Reading a state table with Spark's own Parquet reader, as of one list of runs.

The merge rule: a row of weight +1 is dead iff a retraction of the same key has a larger epoch. So a scan is the union
of all files, minus the rows that a *killer* (the newest retraction of a key) covers. Append-mostly relations have no
killers and pay nothing; runs that are newer than every killer are not joined at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headrace.state.layout import Layout
from headrace.state.runs import EPOCH, VNODE, WEIGHT, Run, RunFile
from headrace.types import quote_spark

BROADCAST_KILLERS = 1_000_000
"""Up to this many retractions are sent to every executor; beyond, the join is shuffled."""


class Bounds:
    """A half-open key range ``(after, upto]`` in (vnode, pk) order; None means unbounded."""

    def __init__(self, after: tuple[int, Sequence[Any]] | None = None, upto: tuple[int, Sequence[Any]] | None = None):
        self.after, self.upto = after, upto

    def covers(self, layout: Layout, file: RunFile) -> bool:
        codec = layout.codec
        if self.after is not None and file.high <= codec.encode_with_vnode(self.after[0], self.after[1]):
            return False
        return self.upto is None or file.low <= codec.encode_with_vnode(self.upto[0], self.upto[1])


def scan(
    spark: SparkSession,
    root: str,
    layout: Layout,
    runs: Iterable[Run],
    *,
    internal: bool = False,
    bounds: Bounds | None = None,
    predicate: str | None = None,
) -> DataFrame:
    """The live rows. ``internal`` keeps the vnode, epoch and weight columns; ``predicate`` must hold of key columns
    only, because it prunes retractions too."""
    runs = [run for run in runs if run.rows]
    columns = [quote_spark(name) for name in layout.names]
    if internal:
        columns += [quote_spark(VNODE), quote_spark(EPOCH), quote_spark(WEIGHT)]
    if bounds is not None:
        within = range_predicate(layout, bounds)
        predicate = within if predicate is None else f"({predicate}) AND ({within})"

    def read(some_runs: Sequence[Run], where: str | None = None) -> DataFrame | None:
        paths = [
            f"{root}/{file.path}"
            for run in some_runs
            for file in run.files
            if bounds is None or bounds.covers(layout, file)
        ]
        if not paths:
            return None
        frame = read_files(spark, paths, layout.spark_schema)
        for condition in (predicate, where):
            if condition is not None:
                frame = frame.where(condition)
        return frame

    killing = [run for run in runs if run.retractions]
    if not killing:
        frame = read(runs)
        return (_empty(spark, layout) if frame is None else frame).selectExpr(*columns)
    newest_killer = max(run.last_epoch for run in killing)
    beneath = [run for run in runs if run.first_epoch < newest_killer]
    above = [run for run in runs if run.first_epoch >= newest_killer]
    put = f"{quote_spark(WEIGHT)} > 0"
    parts = []
    if (rows := read(beneath, put)) is not None:
        killers = read(killing, f"{quote_spark(WEIGHT)} < 0")
        if killers is None:
            parts.append(rows)
        else:
            parts.append(_without_killed(layout, rows, killers, sum(run.retractions for run in killing)))
    if (rows := read(above, put if any(run.retractions for run in above) else None)) is not None:
        parts.append(rows)
    if not parts:
        return _empty(spark, layout).selectExpr(*columns)
    frame = parts[0]
    for part in parts[1:]:
        frame = frame.unionAll(part)
    return frame.selectExpr(*columns)


def read_files(spark: SparkSession, paths: Sequence[str], schema: str) -> DataFrame:
    """Parquet files by their exact names: to Spark alone, brackets and stars in a path would be a pattern."""
    return spark.read.schema(schema).option("__globPaths__", "false").parquet(*paths)


def _without_killed(layout: Layout, rows: DataFrame, killers: DataFrame, count: int) -> DataFrame:
    keys = [quote_spark(VNODE), *(quote_spark(name) for name in layout.key_names)]
    # Only the vnode and pk decide; renaming keeps the two sides of the join apart.
    renamed = [f"{key} AS _hr_k{index}" for index, key in enumerate(keys)]
    newest = killers.selectExpr(*renamed, f"{quote_spark(EPOCH)} AS _hr_killed_at")
    if count <= BROADCAST_KILLERS:
        newest = newest.hint("broadcast")
    same_key = " AND ".join(f"r.{key} <=> k._hr_k{index}" for index, key in enumerate(keys))
    from pyspark.sql import functions as F

    condition = F.expr(f"{same_key} AND r.{quote_spark(EPOCH)} < k._hr_killed_at")
    return rows.alias("r").join(newest.alias("k"), condition, "left_anti")


def range_predicate(layout: Layout, bounds: Bounds) -> str:
    """``bounds`` in Spark SQL, over the stored columns."""
    parts = []
    if bounds.after is not None:
        parts.append(_beyond(layout, bounds.after, inclusive=False))
    if bounds.upto is not None:
        parts.append(f"NOT ({_beyond(layout, bounds.upto, inclusive=False)})")
    return " AND ".join(parts) or "TRUE"


def _beyond(layout: Layout, position: tuple[int, Sequence[Any]], *, inclusive: bool) -> str:
    """Rows after a position in (vnode, pk) order, written so that Parquet's statistics can prune on the vnode."""
    vnode, key = position
    column = quote_spark(VNODE)
    inner = "TRUE" if inclusive else "FALSE"
    for key_column, value in reversed(list(zip(layout.pk, key, strict=True))):
        inner = _beyond_column(layout, key_column, value, inner)
    return f"({column} >= {vnode} AND ({column} > {vnode} OR ({inner})))"


def _beyond_column(layout: Layout, key: Any, value: Any, inner: str) -> str:
    column = quote_spark(key.name)
    if value is None:
        # Nothing sorts after NULL when NULLs come last; everything that is not NULL does when they come first.
        beyond = f"{column} IS NOT NULL" if key.nulls_first else "FALSE"
        return f"({beyond} OR ({column} IS NULL AND ({inner})))"
    literal = spark_literal(value, layout.types[key.name].spark)
    comparison = f"{column} {'<' if key.descending else '>'} {literal}"
    if not key.nulls_first:
        comparison = f"({column} IS NULL OR {comparison})"
    return f"({comparison} OR ({column} = {literal} AND ({inner})))"


def spark_literal(value: Any, spark_type: str) -> str:
    """A Python value as a Spark SQL literal of a given type."""
    if value is None:
        return f"CAST(NULL AS {spark_type})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if hasattr(value, "total_seconds"):
        micros = round(value.total_seconds() * 1_000_000)
        return f"make_dt_interval(0, 0, 0, CAST({micros} AS DECIMAL(20,0)) / 1000000)"
    text = value if isinstance(value, str) else str(value)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'" if spark_type == "STRING" else f"CAST('{escaped}' AS {spark_type})"


def _empty(spark: SparkSession, layout: Layout) -> DataFrame:
    return spark.createDataFrame([], layout.spark_schema)
