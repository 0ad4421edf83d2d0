"""Folders by their names, wherever they are: on a local disk, or anywhere that Hadoop knows."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyspark.sql import SparkSession

from headrace.state.hadoop import HadoopStorage
from headrace.state.storage import LocalStorage, Storage, is_local


def storage_at(spark: SparkSession, root: str, settings: Mapping[str, str]) -> Storage:
    """``settings``: of Hadoop, for this place only, beside those of the session."""
    return LocalStorage(root) if is_local(root) else hadoop_storage(spark, root, settings)


def hadoop_storage(spark: SparkSession, root: str, settings: Mapping[str, str] | None = None) -> HadoopStorage:
    context = spark.sparkContext
    given = context.getConf().get("spark.executor.extraClassPath", "")
    jars = tuple(part for part in given.split(os.pathsep) if part)
    conf = context._jsc.hadoopConfiguration()
    if settings:
        conf = context._jvm.org.apache.hadoop.conf.Configuration(conf)
        for name, value in settings.items():
            conf.set(name, value)
    return HadoopStorage(root, context._jvm, conf, class_path=jars, own=bool(settings))
