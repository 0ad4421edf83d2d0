"""The plan of a materialized view: a tree of operators, checked as it is built.

Expressions are sqlglot's, bound, with their columns unqualified: an operator has one input, whose output columns
they name. :func:`headrace.sql.translate.to_spark` makes Spark SQL of them.

>>> from headrace.sql.bind import bind_expression
>>> from headrace.sql.dialect import parse_expression
>>> scan = Scan(relation="t", relation_id=1, columns=("a",))
>>> condition = bind_expression(parse_expression("a > 1"), [Column(name="a", type=SqlType("integer"))], "t")
>>> Filter(input=scan, condition=condition).output
('a',)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from headrace.catalog import Column
from headrace.sql.expressions import COLUMN_TYPE
from headrace.types import SqlType

Expression = exp.Expression


@dataclass(frozen=True, kw_only=True)
class Node:
    """An operator. Its output is a sequence of distinct column names."""

    if TYPE_CHECKING:
        output: tuple[str, ...]
        inputs: tuple[Node, ...]

    def walk(self) -> Iterator[Node]:
        yield self
        for each in self.inputs:
            yield from each.walk()


@dataclass(frozen=True, kw_only=True)
class Scan(Node):
    """The rows, or the changes, of a stored relation."""

    relation: str
    relation_id: int
    columns: tuple[str, ...]

    def __post_init__(self):
        _distinct("Scan", self.columns)

    @property
    def output(self) -> tuple[str, ...]:
        return self.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True, kw_only=True)
class Filter(Node):
    """The input's rows for which the condition is true (not false, not NULL)."""

    input: Node
    condition: Expression

    def __post_init__(self):
        _known("Filter", self.condition, self.input)

    @property
    def output(self) -> tuple[str, ...]:
        return self.input.output

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True, kw_only=True)
class Project(Node):
    """One row for each row of the input."""

    input: Node
    columns: tuple[tuple[str, Expression], ...]

    def __post_init__(self):
        _distinct("Project", self.output)
        for _, expression in self.columns:
            _known("Project", expression, self.input)

    @property
    def output(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def expression(self, name: str) -> Expression:
        return next(expression for column, expression in self.columns if column == name)


@dataclass(frozen=True, kw_only=True)
class UnionAll(Node):
    """The rows of all inputs, whose columns have the same names and types."""

    inputs: tuple[Node, ...]

    def __post_init__(self):
        if len(self.inputs) < 2:
            raise ValueError("UnionAll needs two inputs")
        if any(branch.output != self.output for branch in self.inputs):
            raise ValueError("the inputs of UnionAll have different columns")

    @property
    def output(self) -> tuple[str, ...]:
        return self.inputs[0].output


def column(name: str, kind: SqlType) -> exp.Column:
    """A reference to a column of the input."""
    node = exp.Column(this=exp.to_identifier(name, quoted=True))
    node.meta[COLUMN_TYPE] = kind
    return node


def columns_in(expression: Expression) -> set[str]:
    return {each.name for each in expression.find_all(exp.Column)}


def columns_read(node: Node, relation_id: int) -> set[str]:
    """The columns of a stored relation that decide about the node's output.

    >>> scan = Scan(relation="t", relation_id=1, columns=("a", "b", "c"))
    >>> of_a = Project(input=scan, columns=(("x", column("a", SqlType("integer"))),))
    >>> sorted(columns_read(of_a, 1)), sorted(columns_read(of_a, 2)), sorted(columns_read(scan, 1))
    (['a'], [], ['a', 'b', 'c'])
    """
    return _read(node, set(node.output), relation_id)


def _read(node: Node, wanted: set[str], relation_id: int) -> set[str]:
    match node:
        case Scan():
            return wanted if node.relation_id == relation_id else set()
        case Filter():
            wanted = wanted | columns_in(node.condition)
        case Project():
            wanted = {name for column, each in node.columns if column in wanted for name in columns_in(each)}
        case UnionAll():
            pass
        case _:
            return set().union(*(_read(each, set(each.output), relation_id) for each in node.inputs))
    return set().union(*(_read(each, wanted, relation_id) for each in node.inputs))


def _distinct(node: str, names: Iterable[str]) -> None:
    names = list(names)
    if len(set(names)) != len(names):
        raise ValueError(f"{node} has a column twice: {names}")


def _known(node: str, expression: Expression, input: Node) -> None:
    for each in expression.find_all(exp.Column):
        if each.table:
            raise ValueError(f"{node} has a qualified column {each.table}.{each.name}")
        if each.name not in input.output:
            raise ValueError(f"{node} uses {each.name}, but its input has {input.output}")


__all__ = [
    "Column",
    "Expression",
    "Filter",
    "Node",
    "Project",
    "Scan",
    "UnionAll",
    "column",
    "columns_in",
    "columns_read",
]
