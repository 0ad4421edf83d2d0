"""Folders by their names, wherever they are: on a local disk, or anywhere that Hadoop knows."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from headrace.state.hadoop import HadoopStorage
from headrace.state.storage import LocalStorage, Storage, is_local


def storage_at(spark: SparkSession, root: str) -> Storage:
    return LocalStorage(root) if is_local(root) else hadoop_storage(spark, root)


def hadoop_storage(spark: SparkSession, root: str) -> HadoopStorage:
    context = spark.sparkContext
    given = context.getConf().get("spark.executor.extraClassPath", "")
    jars = tuple(part for part in given.split(os.pathsep) if part)
    return HadoopStorage(root, context._jvm, context._jsc.hadoopConfiguration(), class_path=jars)
