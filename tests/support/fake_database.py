"""A database that answers from a table of statements: for testing what stands around the engine without a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import HeadraceError
from headrace.types import SqlType


@dataclass
class FakeResult:
    tag: str = "OK"
    columns: list[str] = field(default_factory=list)
    types: list[SqlType] = field(default_factory=list)
    values: list[tuple] = field(default_factory=list)
    zone: str = "UTC"

    def rows(self) -> list[tuple]:
        return self.values

    def stream(self) -> list[tuple]:
        return self.values


def rows(**columns: tuple[str, list[Any]]) -> FakeResult:
    """rows(id=("integer", [1, 2]))"""
    values = list(zip(*(values for _, values in columns.values()), strict=True))
    types = [SqlType(kind) for kind, _ in columns.values()]
    return FakeResult(tag=f"SELECT {len(values)}", columns=list(columns), types=types, values=values)


class FakeDatabase:
    def __init__(self, answers: dict[str, FakeResult | HeadraceError] | None = None, relations: tuple[dict, ...] = ()):
        self.answers = answers or {}
        self.relations = list(relations)
        self.log: list[str] = []
        self.version = 1
        """Of the manifest: statements that begin with INSERT make another"""

    def session(self) -> FakeDatabase:
        self.log.append("<session>")
        return self

    def sql(self, text: str) -> FakeResult:
        self.log.append(text)
        self.version += text.startswith("INSERT")
        answer = self.answers.get(text.strip(), FakeResult())
        if isinstance(answer, HeadraceError):
            raise answer
        return answer

    def execute(self, text: str) -> Iterator[FakeResult]:
        yield self.sql(text)

    def status(self) -> dict[str, Any]:
        return {"relations": self.relations, "version": self.version}

    def abandon(self) -> None:
        self.log.append("<abandon>")

    def __enter__(self) -> FakeDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.log.append("<close>")
