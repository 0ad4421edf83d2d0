"""The Spark session of the tests. Small on purpose: two cores are shared by all workers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

LOG_SETTINGS = Path(__file__).parents[2] / "headrace" / "engine" / "log4j2.properties"


def start_spark(scratch: Path):
    # Imported here, because the unit tests share this folder's conftest and have no use for Spark.
    from pyspark.sql import SparkSession

    from headrace.engine.spark import MEMORY_SETTINGS

    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master("local[2]")
        .appName("headrace-tests")
        .config("spark.driver.memory", "2g")
        .config(map=MEMORY_SETTINGS)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config(
            "spark.driver.extraJavaOptions",
            f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}",
        )
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.scheduler.mode", "FAIR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        # Nearly every query of a test is another one, over a few rows: compiling it takes longer than interpreting it
        # (a file of queries took 105 s instead of 180). Tests in processes of their own compile, as users do.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.warehouse.dir", str(scratch / "spark-warehouse"))
        .config("spark.local.dir", str(scratch / "local"))
        .getOrCreate()
    )
