"""Queries that compare every row with every other can be stopped.

Spark asks whether a task is to end when it takes the next batch of a file. Until then a nested loop may compare
thousands of rows with millions: the client is told at once that its query is cancelled, while its tasks keep the slots
that epochs need, for hours. So rows that go into such a loop pass a condition that always holds, and that fails in a
thread that has been interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

EVERY = 16
"""Rows between two looks: a look takes as long as reading some rows"""

_LOOKS = "NOT (java_method('java.lang.Thread', 'sleep', 0L) <=> '')"
_LOOP = re.compile(r"\b(?:BroadcastNestedLoopJoin|CartesianProduct)\b")


def interrupt_when_cancelled(spark: SparkSession) -> None:
    """Of all jobs that this thread starts from now on."""
    spark.sparkContext.setLocalProperty("spark.job.interruptOnCancel", "true")


def may_loop(query: exp.Expression) -> bool:
    """Whether it is worth asking the planner."""
    joins = [each.args.get("on") for each in query.find_all(exp.Join)]
    if any(on is None or not _has_equality(on) for on in joins):
        return True
    return any(isinstance(each.parent_select, exp.Select) for each in query.find_all(exp.Exists, exp.In, exp.Subquery))


def _has_equality(condition: exp.Expression) -> bool:
    parts = condition.flatten() if isinstance(condition, exp.And) else [condition]
    return any(isinstance(part.unnest(), exp.EQ) for part in parts)


def loops_of(frame: DataFrame) -> int:
    """How many loops its plan has."""
    return len(_LOOP.findall(frame._jdf.queryExecution().executedPlan().toString()))


def stoppable(frames: Mapping[str, DataFrame], loops: int) -> dict[str, DataFrame]:
    """With loops inside of loops, between two rows is time enough to look at each."""
    some = f"CASE WHEN monotonically_increasing_id() % {EVERY} = 0 THEN {_LOOKS} ELSE true END"
    return {name: frame.where(_LOOKS if loops > 1 else some) for name, frame in frames.items()}
