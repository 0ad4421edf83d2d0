"""A query's rows, a part at a time: what is not asked for is not computed, and what was read is let go.

``toArrow`` holds the whole result, in the JVM and here. A stream holds two partitions: the one that is read, and the
next. Between two reads no executor waits, however slow the reader is.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.util import _local_iterator_from_socket

from headrace.engine.spark import spark_errors

_LOCAL = "org.apache.spark.sql.execution.LocalTableScanExec"


def record_batches(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    with spark_errors("the query"):
        schema = to_arrow_schema(frame.schema, error_on_duplicated_field_names_in_struct=True, timezone="UTC")
        if frame._jdf.queryExecution().executedPlan().getClass().getName() == _LOCAL:
            # Rows that the planner has worked out already: SELECT 1. A job would only carry them around.
            columns = list(zip(*map(tuple, frame.collect()), strict=True)) or [()] * len(schema)
            arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            return
        served = frame.sparkSession._jvm.PythonRDD.toLocalIteratorAndServe(frame._jdf.toArrowBatchRdd(), True)
        for data in _local_iterator_from_socket(served, NoOpSerializer()):
            yield pa.ipc.read_record_batch(pa.py_buffer(data), schema)


def tag_thread(spark: SparkSession, tag: str) -> None:
    """Gives a name to all jobs that this thread starts from now on."""
    spark.sparkContext.addJobTag(tag)


def cancel_tagged(spark: SparkSession, tag: str) -> None:
    spark.sparkContext.cancelJobsWithTag(tag)
