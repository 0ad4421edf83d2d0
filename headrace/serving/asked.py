"""A query that a session was asked, bound, with what it is to be answered from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.serving.interpreter.queries import evaluate
from headrace.serving.result import Result
from headrace.sql.bind import BoundQuery
from headrace.state.manifest import Manifest
from headrace.types import SqlType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class Asked:
    bound: BoundQuery
    state: Manifest
    tables: dict[int, pa.Table]
    """The rows of the system's relations that it reads, by their number in the state's catalog"""
    about_system: bool
    """Whether it speaks of the system at all. What does not is Spark's, in a SELECT as in a view."""

    @property
    def given(self) -> bool:
        """Whether it reads nothing that is stored."""
        return all(id in self.tables for id in self.bound.relations)

    def result(self, later: Callable[[], DataFrame]) -> Result | None:
        """The answer, if it can be known without Spark; ``later`` makes the frame for who wants that."""
        if not self.about_system or not self.given:
            return None
        catalog = self.state.catalog
        rows = evaluate(self.bound, {catalog.relations[id].name: table for id, table in self.tables.items()})
        if rows is None:
            return None
        types = [kind or SqlType("varchar") for kind in self.bound.types]
        return Result("SELECT", columns=self.bound.output, types=types, table=rows, later=later)
