"""A query that a session was asked, bound, with what it is to be answered from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine.small_queries import SmallQuery, small_query
from headrace.serving.interpreter.queries import evaluate
from headrace.serving.result import Result
from headrace.serving.variables import Variables
from headrace.sql.bind import BoundQuery
from headrace.state.manifest import Manifest
from headrace.types import SqlType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.engine.engine import Engine


@dataclass(frozen=True, kw_only=True)
class Asked:
    bound: BoundQuery
    state: Manifest
    tables: dict[int, pa.Table]
    """The rows of the system's relations that it reads, by their number in the state's catalog"""
    about_system: bool
    """Whether it speaks of the system at all. What does not is evaluated as views are, by Arrow or by Spark."""

    @property
    def given(self) -> bool:
        """Whether it reads nothing that is stored."""
        return all(id in self.tables for id in self.bound.relations)

    def small(self, engine: Engine, variables: Variables) -> SmallQuery | None:
        """How the engine's driver answers it, if it reads little of what is stored."""
        distributed = variables.value("query_mode") == "distributed" or not engine.parameter("vectorized")
        if distributed or self.about_system or self.tables:
            return None
        use_indexes = variables.value("enable_index_selection")
        return small_query(engine, self.state, self.bound, use_indexes=use_indexes)

    def result(self, small: SmallQuery | None, later: Callable[[], DataFrame]) -> Result | None:
        """The answer, if it can be known without Spark; ``later`` makes the frame for who wants that."""
        catalog, rows = self.state.catalog, None
        if small is not None:
            rows = small.rows()
        elif self.about_system and self.given:
            rows = evaluate(self.bound, {catalog.relations[id].name: table for id, table in self.tables.items()})
        if rows is None:
            return None
        types = [kind or SqlType("varchar") for kind in self.bound.types]
        return Result("SELECT", columns=self.bound.output, types=types, table=rows, later=later)
