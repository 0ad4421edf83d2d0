"""Headrace: a streaming-view engine on Spark.

>>> import headrace
>>> callable(headrace.connect)
True
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.database import Database

__version__ = "0.1.0"
__all__ = ["HeadraceError", "connect", "read"]


def connect(
    warehouse: str | os.PathLike,
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    takeover: bool = False,
    parameters: dict[str, str] | None = None,
    driver_memory: str | None = None,
) -> Database:
    """Opens a warehouse, making it if need be, and starts its engine.

    ``spark`` is a session to work on; without it one is started on ``master`` (by default on this machine).
    ``parameters`` are system parameters such as ``{"barrier_interval": "200ms"}``. ``takeover`` fences an engine that
    has the warehouse open.
    """
    from headrace.database import Database  # Spark is imported only when it is needed

    return Database(
        warehouse, spark=spark, master=master, takeover=takeover, parameters=parameters, driver_memory=driver_memory
    )


def read(
    warehouse: str | os.PathLike, name: str, *, epoch: int | None = None, spark: SparkSession | None = None
) -> DataFrame:
    """A relation as of the last committed epoch, or a retained one, as a DataFrame; no engine is needed."""
    from headrace.database import read as read_relation

    return read_relation(warehouse, name, epoch=epoch, spark=spark)
