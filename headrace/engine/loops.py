"""Queries that compare every row with every other can be stopped.

Spark asks whether a task is to end when it takes the next batch of a file. Until then a nested loop may compare
thousands of rows with millions: the client is told at once that its query is cancelled, while its tasks keep the slots
that epochs need, for hours. So rows that go into such a loop pass a condition that always holds, and that fails in a
thread that has been interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

EVERY = 16
"""Rows between two looks: a look takes as long as reading some rows"""

_LOOKS = "NOT (java_method('java.lang.Thread', 'sleep', 0L) <=> '')"
_LOOP = re.compile(r"\b(?:BroadcastNestedLoopJoin|CartesianProduct)\b")


_INTERRUPT = "spark.job.interruptOnCancel"


def interrupt_when_cancelled(spark: SparkSession) -> None:
    """Of all jobs that this thread starts from now on."""
    spark.sparkContext.setLocalProperty(_INTERRUPT, "true")


@contextmanager
def interrupting(spark: SparkSession) -> Iterator[None]:
    """Of all jobs that this thread starts meanwhile."""
    interrupt_when_cancelled(spark)
    try:
        yield
    finally:
        spark.sparkContext.setLocalProperty(_INTERRUPT, None)


def may_loop(query: exp.Expression) -> bool:
    """Whether it is worth asking the planner: whether there may be a join without an equality to find rows by.

    >>> import sqlglot
    >>> [may_loop(sqlglot.parse_one(f"SELECT 1 FROM {text}")) for text in (
    ...     "a JOIN b ON a.x = b.x", "a, b WHERE a.x = b.x", "a WHERE a.x IN (1, 2)", "a WHERE x IN (SELECT y FROM b)")]
    [False, False, False, False]
    >>> [may_loop(sqlglot.parse_one(f"SELECT 1 FROM {text}")) for text in (
    ...     "a JOIN b ON a.x < b.x", "a, b", "a, b WHERE a.x = 1", "a WHERE EXISTS (SELECT 1 FROM b WHERE a.x < b.x)",
    ...     "a WHERE x NOT IN (SELECT y FROM b)")]
    [True, True, True, True, True]
    """
    for node in query.walk():
        if isinstance(node, exp.Exists) or (isinstance(node, exp.Not) and isinstance(node.this.unnest(), exp.In)):
            if node.find(exp.Select) is not None:
                return True
        elif isinstance(node, exp.Select):
            joins = [each for each in node.args.get("joins") or () if not _equalities(each.args.get("on"))]
            where = node.args.get("where")
            if len(joins) > _equalities(where and where.this):
                return True
    return False


def _equalities(condition: exp.Expression | None) -> int:
    """Between columns of different tables."""
    if condition is None:
        return 0
    parts = condition.flatten() if isinstance(condition, exp.And) else [condition]
    return sum(len(_tables(part.this) | _tables(part.expression)) > 1 for part in parts if isinstance(part, exp.EQ))


def _tables(side: exp.Expression) -> set[str]:
    return {column.table for column in side.find_all(exp.Column)}


def loops_of(frame: DataFrame) -> int:
    """How many loops its plan has that can be stopped: of what stands beside LATERAL, Spark wants rows that depend on
    nothing but the data."""
    execution = frame._jdf.queryExecution()
    if "LateralJoin" in execution.analyzed().toString():
        return 0
    return len(_LOOP.findall(execution.executedPlan().toString()))


def stoppable(frames: Mapping[str, DataFrame], loops: int) -> dict[str, DataFrame]:
    """With loops inside of loops, between two rows is time enough to look at each."""
    some = f"CASE WHEN monotonically_increasing_id() % {EVERY} = 0 THEN {_LOOKS} ELSE true END"
    return {name: frame.where(_LOOKS if loops > 1 else some) for name, frame in frames.items()}
