"""Expressions of a bound query as functions of a row.

Values are Python's: None, bool, int, str, and what else a column holds; arrays are lists, structs dicts. Only what
Python and Spark agree on to the last bit is done here. What is unknown raises :class:`Elsewhere`, but only when it is
evaluated: clients ask about much that there is none of, and no row ever gets there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from sqlglot import exp

from headrace.errors import HeadraceError
from headrace.serving.interpreter.calls import Calls, elsewhere, made_elsewhere
from headrace.serving.interpreter.primitives import (
    Rows,
    both,
    compared,
    divide,
    each_of,
    in_range,
    like_regex,
    mapped,
    matched,
    python_regex,
    read,
    remainder,
    same,
    unless_null,
)  # fmt: skip
from headrace.serving.interpreter.scope import Elsewhere, Evaluate, Row, Scope
from headrace.sql.collations import spark_collation
from headrace.sql.datatypes import sql_type
from headrace.sql.expressions import COLUMN_TYPE, row_of
from headrace.sql.literals import INTEGER_RANGES, NOT_CONSTANT, from_text
from headrace.sql.translate import type_of
from headrace.sql.typed import BOOLEAN, TEXT, common_type, is_integer, is_text
from headrace.types import SqlType

_COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq, exp.NEQ: operator.ne, exp.LT: operator.lt, exp.LTE: operator.le, exp.GT: operator.gt,
    exp.GTE: operator.ge,
}  # fmt: skip
_ARITHMETIC: dict[type, Callable[[int, int], int]] = {
    exp.Add: operator.add, exp.Sub: operator.sub, exp.Mul: operator.mul,
    exp.BitwiseAnd: operator.and_, exp.BitwiseOr: operator.or_, exp.BitwiseXor: operator.xor,
}  # fmt: skip
_ORDERED = {"smallint", "integer", "bigint", "varchar", "boolean"}
"""Types whose values Python compares as Spark does; others are compared by Spark."""


def constant(value: Any) -> Evaluate:
    return lambda row: value


class Query(Protocol):
    """A query that was compiled."""

    types: list[SqlType | None]

    def rows(self, row: Row | None) -> Rows:
        """Its rows, given that of the query around it."""


class Values(Calls):
    """Compiles the expressions of one scope."""

    def __init__(self, scope: Scope):
        self.scope = scope

    def value(self, node: exp.Expression) -> Evaluate:
        method = _METHODS.get(type(node))
        return elsewhere(type(node).__name__) if method is None else method(self, node)

    def condition(self, node: exp.Expression) -> Evaluate:
        return self.converted(node, BOOLEAN)

    def kind(self, node: exp.Expression) -> SqlType | None:
        """The type of an expression; None of a constant that may become anything."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Column):
            return node.meta_get(COLUMN_TYPE)
        if isinstance(node, (exp.And, exp.Or, exp.Not, exp.Boolean, *_COMPARISONS)):
            return BOOLEAN
        if isinstance(node, exp.Cast):
            return sql_type(node.to)
        return type_of(node)

    def converted(self, node: exp.Expression, kind: SqlType | None) -> Evaluate:
        """The value where the type is wanted, which it may be converted to without being asked."""
        inner = node.unnest() if isinstance(node, exp.Paren) else node
        if isinstance(inner, exp.Literal) and inner.is_string:
            return self._read(inner.this, kind or TEXT)
        value = self.value(node)
        own = self.kind(node)
        if kind is None or own is None or same(own, kind):
            return value
        return unless_null(value, f"{own} as {kind}")

    @staticmethod
    def _read(text: str, kind: SqlType) -> Evaluate:
        if is_text(kind):
            return constant(text)
        try:
            found = from_text(text, kind)
        except HeadraceError as error:
            return elsewhere(str(error))
        return elsewhere(f"{kind} {text}") if found is NOT_CONSTANT else constant(found)

    def alike(self, nodes: Sequence[exp.Expression]) -> tuple[SqlType, list[Evaluate]]:
        """Values that have to be of one type, and that type."""
        kind = common_type("=", [self.kind(each) for each in nodes]) or TEXT
        return kind, [self.converted(each, kind) for each in nodes]

    def comparable(self, nodes: Sequence[exp.Expression]) -> list[Evaluate]:
        kind, values = self.alike(nodes)
        element = kind.element if kind.name == "array" else kind
        if element.name not in _ORDERED:
            return [unless_null(each, f"comparing {kind}") for each in values]
        return values

    # --- leaves ------------------------------------------------------------------------------------------------------

    def _literal(self, node: exp.Literal) -> Evaluate:
        if node.is_string:
            return constant(node.this)
        return constant(int(node.this)) if node.this.isdigit() and is_integer(type_of(node)) else elsewhere(node.this)

    def _column(self, node: exp.Column) -> Evaluate:
        return self.scope.find(node.table, node.name)

    def _paren(self, node: exp.Paren) -> Evaluate:
        return self.value(node.this)

    def _collate(self, node: exp.Collate) -> Evaluate:
        if spark_collation(node.expression.name) is not None:
            return elsewhere("COLLATE")
        return self.converted(node.this, TEXT)

    # --- operators ---------------------------------------------------------------------------------------------------

    def _arithmetic(self, node: exp.Binary) -> Evaluate:
        kind = self.kind(node)
        if not is_integer(kind) or not all(is_integer(self.kind(each)) for each in (node.this, node.expression)):
            return elsewhere(f"arithmetic of {kind}")
        left, right, limit = self.value(node.this), self.value(node.expression), INTEGER_RANGES[kind.name]
        work = _ARITHMETIC.get(type(node)) or _DIVISIONS[type(node)]

        def evaluate(row: Row) -> int | None:
            a, b = left(row), right(row)
            if a is None or b is None:
                return None
            result = work(a, b)
            if not -limit <= result < limit:
                raise Elsewhere("overflow")
            return result

        return evaluate

    def _negate(self, node: exp.Neg) -> Evaluate:
        kind, value = self.kind(node), self.value(node.this)
        if not is_integer(kind):
            return elsewhere(f"- {kind}")
        limit = INTEGER_RANGES[kind.name]

        def evaluate(row: Row) -> int | None:
            found = value(row)
            if found is not None and found == -limit:
                raise Elsewhere("overflow")
            return None if found is None else -found

        return evaluate

    def _concatenate(self, node: exp.DPipe) -> Evaluate:
        kinds = [self.kind(each) for each in (node.this, node.expression)]
        if all(kind is not None and kind.name == "array" for kind in kinds):
            return self._concatenate_arrays(node)
        parts = []
        for each in (node.this, node.expression):
            kind = self.kind(each)
            if kind is None or is_text(kind):
                parts.append(self.converted(each, TEXT))
            elif is_integer(kind):
                parts.append(mapped(self.value(each), str))
            else:
                return elsewhere(f"{kind} || …")
        left, right = parts

        def evaluate(row: Row) -> str | None:
            a, b = left(row), right(row)
            return None if a is None or b is None else a + b

        return evaluate

    def _concatenate_arrays(self, node: exp.DPipe) -> Evaluate:
        """An array that is NULL is left out."""
        _, (left, right) = self.alike([node.this, node.expression])

        def evaluate(row: Row) -> list | None:
            a, b = left(row), right(row)
            return b if a is None else (a if b is None else a + b)

        return evaluate

    def _and(self, node: exp.And) -> Evaluate:
        left, right = self.condition(node.this), self.condition(node.expression)

        def evaluate(row: Row) -> bool | None:
            a = left(row)
            if a is False:
                return False
            b = right(row)
            return False if b is False else (None if a is None or b is None else True)

        return evaluate

    def _or(self, node: exp.Or) -> Evaluate:
        left, right = self.condition(node.this), self.condition(node.expression)

        def evaluate(row: Row) -> bool | None:
            a = left(row)
            if a:
                return True
            b = right(row)
            return True if b else (None if a is None or b is None else False)

        return evaluate

    def _not(self, node: exp.Not) -> Evaluate:
        return mapped(self.condition(node.this), operator.not_)

    def _compare(self, node: exp.Binary) -> Evaluate:
        compare, right = _COMPARISONS[type(node)], node.expression
        if isinstance(right, (exp.Any, exp.All)):
            return self._quantified(compare, node.this, right.this, every=isinstance(right, exp.All))
        if isinstance(right, exp.Anonymous) and right.this in ("all", "some"):
            return self._quantified(compare, node.this, right.expressions[0], every=right.this == "all")
        rows = row_of(node.this), row_of(right)
        if None not in rows and isinstance(node, (exp.EQ, exp.NEQ)):
            equal = self._equal_rows(*rows)
            return equal if isinstance(node, exp.EQ) else mapped(equal, operator.not_)
        if any(each is not None for each in rows):
            return elsewhere("rows compared")
        return compared(compare, *self.comparable([node.this, right]))

    def _equal_rows(self, left: list[exp.Expression], right: list[exp.Expression]) -> Evaluate:
        parts = [compared(operator.eq, *self.comparable(pair)) for pair in zip(left, right, strict=True)]

        def evaluate(row: Row) -> bool | None:
            found = [part(row) for part in parts]
            return False if False in found else (None if None in found else True)

        return evaluate

    def _quantified(self, compare: Callable, left: exp.Expression, right: exp.Expression, *, every: bool) -> Evaluate:
        """x = ANY (array or query)"""
        inner = right.unnest() if isinstance(right, exp.Paren) else right
        if isinstance(inner, exp.Subquery):
            inner = inner.this
        if isinstance(inner, exp.Query):
            if row_of(left) is not None:
                return elsewhere("a row compared with a query")
            return self._among(compare, left, inner, every=every)
        own, array = self.kind(left), self.kind(inner)
        if array is None:
            array = SqlType("array", element=own or TEXT)
        if array.name != "array" or common_type("=", [own, array.element]) not in (own or TEXT, array.element):
            return elsewhere("ANY")
        if array.element.name not in _ORDERED:
            return elsewhere(f"ANY of {array}")
        value, elements = self.converted(left, array.element if own is None else own), self.converted(inner, array)
        return each_of(compare, value, elements, every=every)

    def _among(self, compare: Callable, left: exp.Expression, query: exp.Expression, *, every: bool) -> Evaluate:
        """x = ANY (query), x <> ALL (query): the rows of a query that needs nothing of this one are known once."""
        compiled = self.subquery(query)
        if len(compiled.types) != 1 or (compiled.types[0] or TEXT).name not in _ORDERED:
            return elsewhere("IN a query")
        value = self.converted(left, compiled.types[0] or TEXT)
        if compare is not operator.eq or every:
            return each_of(compare, value, lambda row: [each for (each,) in compiled.rows(row)], every=every)

        def evaluate(row: Row) -> bool | None:
            found, rows = value(row), compiled.rows(row)
            if not rows:
                return False
            if found is None:
                return None
            return True if found in rows.known else (None if None in rows.known else False)

        return evaluate

    def _is(self, node: exp.Is) -> Evaluate:
        if row_of(node.this.unnest()) is not None:
            return elsewhere("a row IS")
        if isinstance(node.expression, exp.Null):
            value = self.value(node.this)
            return lambda row: value(row) is None
        if isinstance(node.expression, exp.Boolean):
            value, wanted = self.condition(node.this), bool(node.expression.this)
            return lambda row: value(row) is wanted
        return elsewhere("IS")

    def _distinct_from(self, node: exp.Binary) -> Evaluate:
        if row_of(node.this.unnest()) is not None:
            return elsewhere("rows compared")
        left, right = self.comparable([node.this, node.expression])
        if isinstance(node, exp.NullSafeEQ):
            return lambda row: left(row) == right(row)
        return lambda row: left(row) != right(row)

    def _between(self, node: exp.Between) -> Evaluate:
        if node.args.get("symmetric"):
            return elsewhere("BETWEEN SYMMETRIC")
        value, low, high = self.comparable([node.this, node.args["low"], node.args["high"]])
        return both(compared(operator.ge, value, low), compared(operator.le, value, high))

    def _in(self, node: exp.In) -> Evaluate:
        query = node.args.get("query")
        if query is not None and row_of(node.this) is None:
            return self._among(operator.eq, node.this, query.this if isinstance(query, exp.Subquery) else query,
                               every=False)  # fmt: skip
        left = row_of(node.this)
        if query is not None:
            return elsewhere("a row IN a query")
        if left is not None:
            parts = [self._equal_rows(left, row_of(each) or []) for each in node.expressions]

            def any_row(row: Row) -> bool | None:
                found = [part(row) for part in parts]
                return True if True in found else (None if None in found else False)

            return any_row
        value, *items = self.comparable([node.this, *node.expressions])
        return each_of(operator.eq, value, lambda row: [item(row) for item in items], every=False)

    # --- patterns ----------------------------------------------------------------------------------------------------

    def _like(self, node: exp.Binary, escape: str = "\\") -> Evaluate:
        if isinstance(node.expression, (exp.Any, exp.All)):
            return elsewhere("LIKE ANY")
        caseless = isinstance(node, exp.ILike)
        found = matched(
            self.converted(node.this, TEXT),
            self.converted(node.expression, TEXT),
            lambda pattern: like_regex(pattern, escape),
            caseless=caseless,
            whole=True,
        )
        return mapped(found, operator.not_) if node.args.get("negate") else found

    def _escape(self, node: exp.Escape) -> Evaluate:
        escape = node.expression
        if not isinstance(node.this, (exp.Like, exp.ILike)) or not isinstance(escape, exp.Literal):
            return elsewhere("ESCAPE")
        return self._like(node.this, escape.this)

    def _regexp(self, node: exp.Binary) -> Evaluate:
        caseless = isinstance(node, exp.RegexpILike)
        return matched(
            self.converted(node.this, TEXT), self.converted(node.expression, TEXT), python_regex, caseless=caseless
        )

    # --- casts and conditions ----------------------------------------------------------------------------------------

    def _cast(self, node: exp.Cast) -> Evaluate:
        target = sql_type(node.to)
        inner = node.this.unnest() if isinstance(node.this, exp.Paren) else node.this
        if target == TEXT and node.to.expressions:
            length = int(node.to.expressions[0].this.name)
            plain = self._to_text(inner)
            return mapped(plain, lambda text: text[:length])
        if isinstance(inner, exp.Literal) and inner.is_string:
            return self._read(inner.this, target)
        if isinstance(inner, exp.Array) and not inner.expressions:
            return constant([])
        if target == TEXT:
            return self._to_text(inner)
        value, own = self.value(node.this), self.kind(node.this)
        if own is None or own == target:
            return value
        if is_integer(own) and is_integer(target):
            return mapped(value, lambda number: in_range(number, target))
        if is_text(own) and (is_integer(target) or target == BOOLEAN):
            return mapped(value, lambda text: read(text, target))
        if own == BOOLEAN and is_integer(target):
            return mapped(value, int)
        if (
            own.name == "struct"
            and target.name == "struct"
            and isinstance(inner, exp.Anonymous)
            and inner.this == "row"
        ):
            parts = [
                (name, self.converted(each, kind))
                for (name, kind), each in zip(target.fields, inner.expressions, strict=True)
            ]
            return lambda row: {name: part(row) for name, part in parts}
        if own.name == "array" and target.name == "array" and same(own, target):
            return value
        return unless_null(value, f"{own} as {target}")

    def _to_text(self, node: exp.Expression) -> Evaluate:
        own = self.kind(node)
        if own is None or is_text(own):
            return self.converted(node, TEXT)
        if is_integer(own):
            return mapped(self.value(node), str)
        if own == BOOLEAN:
            return mapped(self.value(node), lambda truth: "true" if truth else "false")
        return unless_null(self.value(node), f"{own} as text")

    def _case(self, node: exp.Case) -> Evaluate:
        branches, default = node.args["ifs"], node.args.get("default")
        results = [branch.args["true"] for branch in branches] + ([default] if default is not None else [])
        kind, values = self.alike(results)
        otherwise = values.pop() if default is not None else constant(None)
        if node.this is not None:
            known = self._known_cases(node.this, [branch.this for branch in branches])
            if known is not None:
                subject = self.value(node.this)

                def look_up(row: Row) -> Any:
                    at = known.get(subject(row))
                    return otherwise(row) if at is None else values[at](row)

                return look_up
            conditions = [compared(operator.eq, *self.comparable([node.this, branch.this])) for branch in branches]
        else:
            conditions = [self.condition(branch.this) for branch in branches]
        pairs = list(zip(conditions, values, strict=True))

        def evaluate(row: Row) -> Any:
            for condition, value in pairs:
                if condition(row):
                    return value(row)
            return otherwise(row)

        return evaluate

    def _known_cases(self, subject: exp.Expression, whens: list[exp.Expression]) -> dict[Any, int] | None:
        """CASE number WHEN 1 … WHEN 2 …: where functions look something up, there are as many as relations."""
        if not is_integer(self.kind(subject)) or not all(isinstance(w, exp.Literal) and w.is_int for w in whens):
            return None
        return {int(when.this): at for at, when in reversed(list(enumerate(whens)))}

    # --- arrays and structs ------------------------------------------------------------------------------------------

    def _array(self, node: exp.Array) -> Evaluate:
        _, values = self.alike(node.expressions)
        return lambda row: [value(row) for value in values]

    def _bracket(self, node: exp.Bracket) -> Evaluate:
        kind = self.kind(node.this)
        if kind is None or kind.name != "array" or len(node.expressions) != 1:
            return elsewhere("a subscript")
        if not is_integer(self.kind(node.expressions[0])):
            return elsewhere("a subscript")
        array, index = self.value(node.this), self.value(node.expressions[0])

        def evaluate(row: Row) -> Any:
            elements, at = array(row), index(row)
            inside = elements is not None and at is not None and 1 <= at <= len(elements)
            return elements[at - 1] if inside else None

        return evaluate

    def _field(self, node: exp.Dot) -> Evaluate:
        if not isinstance(node.expression, exp.Identifier):
            return elsewhere("a dot")
        value, name = self.value(node.this), node.expression.name
        return mapped(value, lambda struct: struct[name])

    # --- queries -----------------------------------------------------------------------------------------------------

    def subquery(self, node: exp.Expression) -> Query:
        raise NotImplementedError

    def _scalar(self, node: exp.Expression) -> Evaluate:
        compiled = self.subquery(node.this if isinstance(node, exp.Subquery) and _bare(node) else node)

        def evaluate(row: Row) -> Any:
            rows = compiled.rows(row)
            if len(rows) > 1:
                raise Elsewhere("more than one row")
            return rows[0][0] if rows else None

        return evaluate

    def _exists(self, node: exp.Exists) -> Evaluate:
        compiled = self.subquery(node.this)
        return lambda row: bool(compiled.rows(row))

    def _window(self, node: exp.Window) -> Evaluate:
        return made_elsewhere(node)


def _bare(node: exp.Subquery) -> bool:
    return not any(node.args.get(key) for key in ("with_", "order", "limit", "offset"))


_DIVISIONS: dict[type, Callable[[int, int], int]] = {exp.Div: divide, exp.Mod: remainder}

_METHODS: dict[type, Callable[[Any, Any], Evaluate]] = {
    exp.Literal: Values._literal,
    exp.Null: lambda values, node: constant(None),
    exp.Boolean: lambda values, node: constant(bool(node.this)),
    exp.Column: Values._column,
    exp.Paren: Values._paren,
    exp.Collate: Values._collate,
    **dict.fromkeys((*_ARITHMETIC, *_DIVISIONS), Values._arithmetic),
    exp.Neg: Values._negate,
    exp.DPipe: Values._concatenate,
    exp.And: Values._and,
    exp.Or: Values._or,
    exp.Not: Values._not,
    **dict.fromkeys(_COMPARISONS, Values._compare),
    exp.Is: Values._is,
    exp.NullSafeEQ: Values._distinct_from,
    exp.NullSafeNEQ: Values._distinct_from,
    exp.Between: Values._between,
    exp.In: Values._in,
    exp.Like: Values._like,
    exp.ILike: Values._like,
    exp.Escape: Values._escape,
    exp.RegexpLike: Values._regexp,
    exp.RegexpILike: Values._regexp,
    exp.Cast: Values._cast,
    exp.Case: Values._case,
    exp.Array: Values._array,
    exp.Bracket: Values._bracket,
    exp.Dot: Values._field,
    exp.Anonymous: Values._call,
    exp.Filter: Values._call,
    exp.Window: Values._window,
    exp.Exists: Values._exists,
    **dict.fromkeys((exp.Subquery, exp.Select, exp.Union, exp.Except, exp.Intersect), Values._scalar),
}
