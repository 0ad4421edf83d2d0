"""INSERTs that are prepared once and run often: values go into the statement that was parsed, not into its text.

Parsing an INSERT takes longer than writing its row with others of an epoch. Where each parameter is a cell of its own,
the rows are made of the values alone:

>>> from headrace.sql.parse import parse
>>> (statement,) = parse('INSERT INTO t VALUES ("$1", 5, "$2")')
>>> template = InsertTemplate.of(statement)
>>> [cell.sql() for cell in template.filled([exp.Literal.number(1), exp.null()]).rows[0]]
['1', '5', 'NULL']
>>> InsertTemplate.of(parse('INSERT INTO t VALUES ("$1" + 1)')[0]) is None
True
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.serving.server.parameters import parameter_number
from headrace.sql import statements as ast


@dataclass(frozen=True)
class InsertTemplate:
    statement: ast.Insert
    places: tuple[tuple[int | None, ...], ...]
    """Of each cell, the parameter that it is; None: it has none in it"""

    @staticmethod
    def of(statement: ast.Statement | None) -> InsertTemplate | None:
        if not isinstance(statement, ast.Insert) or statement.rows is None or statement.returning:
            return None
        places = tuple(tuple(parameter_number(cell) for cell in row) for row in statement.rows)
        fixed = (
            cell
            for row, numbers in zip(statement.rows, places, strict=True)
            for cell, number in zip(row, numbers, strict=True)
            if number is None
        )
        if any(parameter_number(column) is not None for cell in fixed for column in cell.find_all(exp.Column)):
            return None
        return InsertTemplate(statement, places)

    def filled(self, values: Sequence[exp.Expression]) -> ast.Insert:
        rows = tuple(
            tuple(cell if number is None else values[number - 1] for cell, number in zip(row, numbers, strict=True))
            for row, numbers in zip(self.statement.rows, self.places, strict=True)
        )
        return dataclasses.replace(self.statement, rows=rows)
