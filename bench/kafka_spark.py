"""Spark alone: a topic read with its own connector, parsed and written as Parquet, once for each line of input.

For bench/kafka_backfill.py, in a process of its own: of the version of Spark that Headrace runs on there may be no
connector, so the one that the folder $HEADRACE_BENCH_SPARK has is taken
(pip install --no-deps --target FOLDER pyspark==4.2.0).
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SCHEMA = "user_id BIGINT, url STRING, price DOUBLE, at TIMESTAMP"
FOLDER = "HEADRACE_BENCH_SPARK"


def session(folder: str):
    import pyspark
    from pyspark.sql import SparkSession

    from headrace.demo.kafka.broker import jars_of

    jars = jars_of(f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}", Path(folder) / "connector")
    there = {path.name for path in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    found = ",".join(str(path) for path in jars.glob("*.jar") if path.name not in there)
    builder = SparkSession.builder.master("local[*]").config("spark.jars", found).config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "4g").config("spark.sql.session.timeZone", "UTC")
    return pyspark.__version__, builder.getOrCreate()


def copying(spark, servers: str, topic: str, folder: str) -> Callable[[], None]:
    def copy() -> None:
        raw = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic).load()
        parsed = raw.selectExpr(f"from_json(CAST(value AS STRING), '{SCHEMA}') AS e").selectExpr("e.*")
        parsed.write.mode("overwrite").parquet(f"{folder}/copy")

    return copy


def main(servers: str, topic: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        version, spark = session(folder)
        print(version, flush=True)
        copy = copying(spark, servers, topic, folder)
        for _ in sys.stdin:
            began = time.perf_counter()
            copy()
            print(time.perf_counter() - began, flush=True)
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
