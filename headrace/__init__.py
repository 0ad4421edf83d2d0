"""Headrace: a streaming-view engine on Spark.

>>> import headrace
>>> callable(headrace.connect)
True
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError, InvalidParameterValue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.database import Database
    from headrace.remote.database import RemoteDatabase

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
) -> Database | RemoteDatabase:
    """Opens a warehouse, making it if need be, and starts its engine; or connects to a server, if a URL is given.

    ``spark`` is a session to work on; without it one is started on ``master`` (by default on this machine).
    ``parameters`` are system parameters such as ``{"barrier_interval": "200ms"}``. ``takeover`` fences an engine that
    has the warehouse open.
    """
    if str(warehouse).startswith(("postgresql://", "postgres://")):
        if spark or master or takeover or parameters or driver_memory:
            raise InvalidParameterValue("a server has its engine already", hint="leave everything but the URL out")
        from headrace.remote.database import connect as connect_to_server

        return connect_to_server(str(warehouse))
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
