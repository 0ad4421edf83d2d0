"""Spark sessions with the settings on which the translation relies."""

from __future__ import annotations

import pytest

from headrace.sql.session import SPARK_SETTINGS


@pytest.fixture(scope="session")
def session(spark):
    own = spark.newSession()
    for name, value in SPARK_SETTINGS.items():
        own.conf.set(name, value)
    return own


@pytest.fixture(scope="session")
def unfolded(session):
    """Computes constants like columns: by generated code, not by the optimizer."""
    own = session.newSession()
    for name, value in SPARK_SETTINGS.items():
        own.conf.set(name, value)
    rules = ("ConstantFolding", "ConvertToLocalRelation", "NullPropagation")
    names = ",".join(f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in rules)
    own.conf.set("spark.sql.optimizer.excludedRules", names)
    return own
