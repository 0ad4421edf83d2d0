"""Expressions: from sqlglot's tree, with names bound, to Spark SQL with a type.

Whatever has no method here is refused, so that nothing reaches Spark with a meaning of its own.

>>> Expressions().text(parse_expression("7 / 2 + 0.5"))
'(CAST(CAST((7 DIV 2) AS INT) AS DECIMAL(10,0)) + 0.5BD)'
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from headrace.errors import HeadraceError, TypeMismatch, UndefinedFunction, WrongObjectKind
from headrace.sql import datetimes, functions, intervals, jsonb, jsonb_paths, operators, regex, rows, texts, zoned
from headrace.sql.calls import Calls
from headrace.sql.casts import array_text, cast
from headrace.sql.collations import spark_collation
from headrace.sql.datatypes import sql_type
from headrace.sql.decimals import shown_decimals
from headrace.sql.dialect import parse_expression  # noqa: F401 (the doctest's)
from headrace.sql.lambdas import spark_variable
from headrace.sql.literals import number_literal, spark_string
from headrace.sql.positions import blamed, name_of, position_of, unsupported
from headrace.sql.tree import LambdaVariable, WholeRow
from headrace.sql.typed import BOOLEAN, INTEGER, JSONB, TEXT, Typed, common_type, describe, is_integer
from headrace.types import SqlType, array_of, quote_spark

COLUMN_TYPE = "headrace_type"
"""The key under which bind leaves a column's type in the meta of an exp.Column."""


class Expressions(Calls):
    """Translates expressions. For a single input, columns go without qualifiers, or with the struct they are in."""

    def __init__(self, *, qualified: bool = True, within: str | None = None):
        self.qualified = qualified
        self.within = within

    def text(self, node: exp.Expression) -> str:
        return self.value(node).sql

    def value(self, node: exp.Expression) -> Typed:
        if not zoned.elsewhere():
            return self.translated(node)
        with zoned.meant_in(None):  # it was said of what stands around this
            return self.translated(node)

    def translated(self, node: exp.Expression) -> Typed:
        method = self._methods().get(type(node))
        if method is None:
            raise unsupported(name_of(node), node)
        try:
            return method(self, node)
        except HeadraceError as error:
            if error.position is None:
                error.position = blamed(error, node)
            raise

    def boolean(self, construct: str, node: exp.Expression) -> str:
        try:
            return operators.as_boolean(construct, self.value(node))
        except TypeMismatch as error:
            error.position = error.position or position_of(node)
            raise

    @classmethod
    def _methods(cls) -> dict[type, Callable[[Any, Any], Typed]]:
        return _METHODS

    # --- leaves ---------------------------------------------------------------------------------------------------

    def _literal(self, node: exp.Literal) -> Typed:
        if node.is_string:
            return Typed(spark_string(node.this), None, literal=node.this)
        return number_literal(node.this)

    def _null(self, node: exp.Null) -> Typed:
        return Typed("NULL", None)

    def _boolean(self, node: exp.Boolean) -> Typed:
        return Typed("true" if node.this else "false", BOOLEAN)

    def _column(self, node: exp.Column) -> Typed:
        kind = node.meta_get(COLUMN_TYPE)
        if kind is None:
            raise AssertionError(f"column {node.sql()} is not bound")
        name = quote_spark(node.name)
        if self.within is not None:
            return Typed(f"{self.within}.{name}", kind)
        return Typed(f"{quote_spark(node.table)}.{name}" if node.table and self.qualified else name, kind)

    def _variable(self, node: LambdaVariable) -> Typed:
        return Typed(spark_variable(node.name), node.meta_get(COLUMN_TYPE))

    def _whole_row(self, node: WholeRow) -> Typed:
        return rows.whole_row(
            [(each.name, self.value(each)) for each in node.expressions],
            [self.text(each) for each in node.args.get("missing") or []],
        )

    def _collate(self, node: exp.Collate) -> Typed:
        value = cast(self.value(node.this), TEXT) if self.value(node.this).type is None else self.value(node.this)
        if value.type != TEXT:
            raise TypeMismatch(f"collations are not supported by type {value.type}")
        name = spark_collation(node.expression.name)
        return value if name is None else Typed(f"({value.sql} COLLATE {name})", TEXT)

    # --- operators ------------------------------------------------------------------------------------------------

    def _paren(self, node: exp.Paren) -> Typed:
        return self.value(node.this)

    def _arithmetic(self, node: exp.Binary) -> Typed:
        left, right = self.value(node.this), self.value(node.expression)
        if left.type == JSONB and isinstance(node, exp.Sub):
            return jsonb.remove(left, right)
        return operators.arithmetic(_ARITHMETIC[type(node)], left, right)

    def _negate(self, node: exp.Neg) -> Typed:
        return operators.negate(self.value(node.this))

    def _power(self, node: exp.Pow) -> Typed:
        return operators.power(self.value(node.this), self.value(node.expression))

    def _bitwise(self, node: exp.Binary) -> Typed:
        return operators.bitwise(_BITWISE[type(node)], self.value(node.this), self.value(node.expression))

    def _bitwise_not(self, node: exp.BitwiseNot) -> Typed:
        value = self.value(node.this)
        if not is_integer(value.type):
            raise UndefinedFunction(f"operator does not exist: ~ {describe(value.type)}")
        return Typed(f"(~ {value.sql})", value.type)

    def _concatenate(self, node: exp.DPipe) -> Typed:
        left, right = self.value(node.this), self.value(node.expression)
        if JSONB in (left.type, right.type) and {left.type, right.type} <= {JSONB, None}:
            return jsonb.concatenate(left, right)
        return operators.concatenate(left, right)

    def _and_or(self, node: exp.Connector) -> Typed:
        word = "AND" if isinstance(node, exp.And) else "OR"
        return Typed(f"({self.boolean(word, node.this)} {word} {self.boolean(word, node.expression)})", BOOLEAN)

    def _not(self, node: exp.Not) -> Typed:
        inner = node.this
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null) and _parts_of(inner.this.unnest()):
            return self._is(inner, negated=True)
        return Typed(f"(NOT {self.boolean('NOT', node.this)})", BOOLEAN)

    def _compare(self, node: exp.Binary) -> Typed:
        symbol = _COMPARISONS[type(node)]
        if isinstance(node.expression, (exp.Any, exp.All)):
            return self._quantified(symbol, node.this, node.expression)
        if isinstance(node.expression, exp.Anonymous) and node.expression.this in ("all", "some"):
            quantifier = exp.All if node.expression.this == "all" else exp.Any
            return self._quantified(symbol, node.this, quantifier(this=node.expression.expressions[0]))
        left, right = row_of(node.this), row_of(node.expression)
        if left is not None and right is not None:
            return self._compare_rows(symbol, left, right)
        if left is not None and isinstance(node.expression, exp.Subquery):
            return self._compare_with_query(symbol, node.this, node.expression.this)
        return operators.compare(symbol, self.value(node.this), self.value(node.expression))

    def _compare_rows(self, symbol: str, left: list[exp.Expression], right: list[exp.Expression]) -> Typed:
        return rows.compare_rows(symbol, [self.value(each) for each in left], [self.value(each) for each in right])

    def _quantified(self, symbol: str, left: exp.Expression, quantifier: exp.Expression) -> Typed:
        """x = ANY (array or query), x > ALL (array)"""
        every = isinstance(quantifier, exp.All)
        inner = quantifier.this.unnest() if isinstance(quantifier.this, exp.Paren) else quantifier.this
        if isinstance(inner, exp.Query):
            return self._quantified_query(symbol, left, inner, every=every)
        value, array = self.value(left), self.value(inner)
        if array.type is None:
            array = cast(array, array_of(value.type or TEXT))
        if array.type.name != "array":
            raise WrongObjectKind("op ANY/ALL (array) requires array on right side")
        kind = common_type(symbol, [value.type, array.type.element]) or TEXT
        value, array = map(intervals.comparable, (cast(value, kind), cast(array, array_of(kind))))
        if symbol == "=" and not every:
            return Typed(f"array_contains({array.sql}, {value.sql})", BOOLEAN)
        function = "forall" if every else "exists"
        return Typed(f"{function}({array.sql}, _e -> {value.sql} {symbol} _e)", BOOLEAN)

    def _is(self, node: exp.Is, *, negated: bool = False) -> Typed:
        row = _parts_of(node.this.unnest())
        if isinstance(node.expression, exp.Null) and row is not None:
            return rows.row_is_null([self.value(each) for each in row], negated=negated)
        if isinstance(node.expression, exp.Null):
            return Typed(f"({self.value(node.this).sql} IS NULL)", BOOLEAN)
        if isinstance(node.expression, exp.Boolean):
            word = "TRUE" if node.expression.this else "FALSE"
            return Typed(f"({self.boolean('IS ' + word, node.this)} IS {word})", BOOLEAN)
        raise unsupported(f"IS {node.expression.sql().upper()}", node)

    def _distinct_from(self, node: exp.Binary) -> Typed:
        left, right = row_of(node.this.unnest()), row_of(node.expression.unnest())
        if left is not None and right is not None:
            equal = self._compare_rows("<=>", left, right)
        else:
            equal = operators.compare("<=>", self.value(node.this), self.value(node.expression))
        return equal if isinstance(node, exp.NullSafeEQ) else Typed(f"(NOT {equal.sql})", BOOLEAN)

    def _starts_with(self, node: exp.Binary) -> Typed:
        """``text ^@ prefix``"""
        return functions.call_function("starts_with", [self.value(node.this), self.value(node.expression)])

    def _between(self, node: exp.Between) -> Typed:
        values = map(self.value, (node.this, node.args["low"], node.args["high"]))
        value, low, high = map(intervals.comparable, operators.same_type("BETWEEN", *values))
        plain = f"({value.sql} BETWEEN {low.sql} AND {high.sql})"
        if node.args.get("symmetric"):
            return Typed(f"({plain} OR ({value.sql} BETWEEN {high.sql} AND {low.sql}))", BOOLEAN)
        return Typed(plain, BOOLEAN)

    def _in(self, node: exp.In) -> Typed:
        query = node.args.get("query")
        if query is not None:
            return self._in_query(node.this, query)
        if not node.expressions:
            raise unsupported("IN with an empty list", node)
        left = row_of(node.this)
        if left is not None:
            others = [row_of(each) for each in node.expressions]
            if None in others:
                raise TypeMismatch("unequal number of entries in row expressions")
            return Typed(f"({' OR '.join(self._compare_rows('=', left, row).sql for row in others)})", BOOLEAN)
        values = operators.same_type("=", self.value(node.this), *map(self.value, node.expressions))
        value, *items = map(intervals.comparable, values)
        return Typed(f"({value.sql} IN ({', '.join(item.sql for item in items)}))", BOOLEAN)

    def _like(self, node: exp.Binary) -> Typed:
        return self._match_like(node, None)

    def _escape(self, node: exp.Escape) -> Typed:
        if not isinstance(node.this, (exp.Like, exp.ILike)) or isinstance(node.this.expression, (exp.Any, exp.All)):
            raise unsupported(f"{name_of(node.this)} with ESCAPE", node)
        return self._match_like(node.this, self.value(node.expression))

    def _match_like(self, node: exp.Binary, escape: Typed | None) -> Typed:
        word = "LIKE" if isinstance(node, exp.Like) else "ILIKE"
        if isinstance(node.expression, (exp.Any, exp.All)):
            return self._like_any(node, word)
        value, pattern = self._text_operand(word, node.this), self.value(node.expression)
        if pattern.literal is not None and (escape is None or escape.literal is not None):
            sql = spark_string(regex.like_pattern(pattern.literal, "\\" if escape is None else escape.literal))
        else:
            sql = regex.runtime_like(cast(pattern, TEXT).sql, None if escape is None else cast(escape, TEXT).sql)
        negation = "NOT " if node.args.get("negate") else ""
        return Typed(f"({value} {negation}{word} {sql})", BOOLEAN)

    def _like_any(self, node: exp.Binary, word: str) -> Typed:
        """LIKE ANY (ARRAY['a%', …]): a LIKE for each pattern."""
        every, array = isinstance(node.expression, exp.All), node.expression.this.unnest()
        if not isinstance(array, exp.Array) or not array.expressions:
            return self._like_elements(node, word, self.value(array), every=every)
        parts = []
        for pattern in array.expressions:
            single = type(node)(this=node.this, expression=pattern, negate=node.args.get("negate"))
            parts.append(self._match_like(single, None).sql)
        return Typed(f"({(' AND ' if every else ' OR ').join(parts)})", BOOLEAN)

    def _like_elements(self, node: exp.Binary, word: str, array: Typed, *, every: bool) -> Typed:
        if array.type not in (None, array_of(TEXT)):
            raise operators.no_operator(word, TEXT, array.type)
        array = cast(array, array_of(TEXT))
        value, negation = self._text_operand(word, node.this), "NOT " if node.args.get("negate") else ""
        function = "forall" if every else "exists"
        return Typed(f"{function}({array.sql}, _e -> ({value} {negation}{word} {regex.runtime_like('_e')}))", BOOLEAN)

    def _text_operand(self, symbol: str, node: exp.Expression) -> str:
        value = self.value(node)
        if value.type not in (None, TEXT):
            raise operators.no_operator(symbol, value.type, TEXT)
        return cast(value, TEXT).sql

    def _regexp(self, node: exp.Binary) -> Typed:
        caseless = isinstance(node, exp.RegexpILike)
        pattern = self.value(node.expression)
        java = texts.pattern_sql(pattern, ignore_case=caseless)
        return Typed(f"({self._text_operand('~', node.this)} RLIKE {java})", BOOLEAN)

    def _similar(self, node: exp.SimilarTo) -> Typed:
        pattern = self.value(node.expression)
        if pattern.literal is not None:
            java = spark_string(regex.similar_regex(pattern.literal))
        else:
            java = regex.runtime_similar(cast(pattern, TEXT).sql)
        return Typed(f"({self._text_operand('SIMILAR TO', node.this)} RLIKE {java})", BOOLEAN)

    def _at_time_zone(self, node: exp.AtTimeZone) -> Typed:
        return datetimes.at_time_zone(self.value(node.this), self.value(node.args["zone"]))

    # --- casts and conditions -------------------------------------------------------------------------------------

    def _cast(self, node: exp.Cast) -> Typed:
        target = sql_type(node.to)
        inner = node.this.unnest()
        if isinstance(inner, exp.Array) and not inner.expressions and target.name == "array":
            return Typed(f"CAST(array() AS {target.spark})", target)
        value = cast(self.value(node.this), target)
        if target == TEXT and node.to.expressions:  # an explicit cast to varchar(n) truncates
            return Typed(f"left({value.sql}, {node.to.expressions[0].this.name})", target)
        return value

    def _case(self, node: exp.Case) -> Typed:
        branches = node.args["ifs"]
        conditions = []
        for branch in branches:
            if node.this is None:
                conditions.append(self.boolean("CASE/WHEN", branch.this))
            else:
                conditions.append(operators.compare("=", self.value(node.this), self.value(branch.this)).sql)
        results = [self.value(branch.args["true"]) for branch in branches]
        default = node.args.get("default")
        if default is not None:
            results.append(self.value(default))
        kind = common_type("CASE", [result.type for result in results] + [None] * (default is None)) or TEXT
        texts = [cast(result, kind).sql for result in results]
        whens = " ".join(f"WHEN {condition} THEN {text}" for condition, text in zip(conditions, texts, strict=False))
        otherwise = f" ELSE {texts[-1]}" if default is not None else ""
        decimals = None
        if kind.quotient is not None:
            shown = ["NULL" if result.type is None else shown_decimals(result) for result in results]
            listed = " ".join(
                f"WHEN {condition} THEN {each}" for condition, each in zip(conditions, shown, strict=False)
            )
            decimals = f"CASE {listed}{f' ELSE {shown[-1]}' if default is not None else ''} END"
        return Typed(f"CASE {whens}{otherwise} END", kind, decimals=decimals)

    # --- arrays, structs, jsonb -----------------------------------------------------------------------------------

    def _array(self, node: exp.Array) -> Typed:
        if not node.expressions:
            raise TypeMismatch("cannot determine type of empty array", hint="cast it, for example ARRAY[]::integer[]")
        values = [self.value(each) for each in node.expressions]
        kind = common_type("ARRAY", [value.type for value in values]) or TEXT
        return Typed(f"array({', '.join(cast(value, kind).sql for value in values)})", array_of(kind))

    def _bracket(self, node: exp.Bracket) -> Typed:
        array = self.value(node.this)
        if array.type in (None, JSONB):
            return self._json_subscripts(node, array)
        if array.type.name == "map" and len(node.expressions) == 1:
            (_, key), (_, kind) = array.type.fields
            return Typed(f"try_element_at({array.sql}, {cast(self.value(node.expressions[0]), key).sql})", kind)
        if array.type.name != "array":
            raise TypeMismatch(f"cannot subscript type {describe(array.type)} because it is not an array")
        if len(node.expressions) != 1:
            raise unsupported("more than one subscript in a pair of brackets", node)
        index = node.expressions[0]
        if isinstance(index, exp.Slice):
            return self._slice(array, index)
        position = cast(self.value(index), INTEGER)
        # Arrays start at 1, and there is nothing before that; Spark's element_at would count from the end.
        return Typed(f"get({array.sql}, {position.sql} - 1)", array.type.element)

    def _json_subscripts(self, node: exp.Bracket, value: Typed) -> Typed:
        """j['a'][0]: what j #> '{a,0}' is."""
        if value.type is None:
            raise TypeMismatch("cannot subscript type unknown because it is not an array")
        for index in node.expressions:
            if isinstance(index, exp.Slice):
                raise TypeMismatch("jsonb subscript does not support slices")
            value = jsonb.get(value, self.value(index))
        return value

    def _slice(self, array: Typed, node: exp.Slice) -> Typed:
        low = cast(self.value(node.this), INTEGER).sql if node.this is not None else "1"
        high = cast(self.value(node.expression), INTEGER).sql if node.expression is not None else f"size({array.sql})"
        first = f"greatest({low}, 1)"
        part = f"slice({array.sql}, {first}, greatest({high} - {first} + 1, 0))"
        return Typed(f"CASE WHEN {low} IS NOT NULL AND {high} IS NOT NULL THEN {part} END", array.type)

    def _field(self, node: exp.Dot) -> Typed:
        value = self.value(node.this)
        if not isinstance(node.expression, exp.Identifier):
            star = isinstance(node.expression, exp.Star)
            raise unsupported("(…).*" if star else "this use of a dot", node)
        name = node.expression.name
        for field, kind in value.type.fields if value.type is not None else ():
            if field == name:
                return Typed(f"{value.sql}.{quote_spark(name)}", kind)
        raise TypeMismatch(
            f'could not identify column "{name}" in {describe(value.type)}', position=position_of(node.expression)
        )

    def _tuple(self, node: exp.Tuple) -> Typed:
        return functions.call_function("row", [self.value(each) for each in node.expressions])

    def _json(self, node: exp.Binary) -> Typed:
        as_text = isinstance(node, (exp.JSONExtractScalar, exp.JSONBExtractScalar))
        function = jsonb.get if isinstance(node, (exp.JSONExtract, exp.JSONExtractScalar)) else jsonb.get_path
        return function(self.value(node.this), self._constant_path(node.expression), as_text=as_text)

    def _constant_path(self, node: exp.Expression) -> Typed:
        """ARRAY['a', 'b'] as the constant '{a,b}' that it could have been."""
        inner = node.unnest()
        if isinstance(inner, exp.Array) and all(
            isinstance(each, exp.Literal) and each.is_string for each in inner.expressions
        ):
            return Typed("NULL", None, literal=array_text([each.name for each in inner.expressions]))
        return self.value(node)

    def _remove_path(self, node: exp.Binary) -> Typed:
        """``value #- path``"""
        return jsonb_paths.remove_path(self.value(node.this), self._constant_path(node.expression))

    def _contains(self, node: exp.Binary) -> Typed:
        symbol = _CONTAINS[type(node)]
        left, right = self._constant_or_value(node.this), self._constant_or_value(node.expression)
        if symbol == "<@":
            left, right, symbol = right, left, "@>"
        if JSONB in (left.type, right.type) and symbol == "@>":
            return jsonb.contains(left, right)
        return rows.array_contains_all(left, right, symbol)

    def _constant_or_value(self, node: exp.Expression) -> Typed:
        """A jsonb constant stays legible: what @> looks for is read from it."""
        inner = node.unnest()
        value = self.value(node)
        if value.type == JSONB and isinstance(inner, exp.Cast) and isinstance(inner.this, exp.Literal):
            return dataclasses.replace(value, literal=inner.this.name)
        return value

    def _json_path(self, node: exp.Expression) -> Typed:
        """``value @? path`` and ``value @@ path``"""
        if isinstance(node, exp.JSONBPathExists):
            return functions.call_function("jsonb_path_exists", [self.value(node.this), self.value(node.expression)])
        return functions.call_function("jsonb_path_match", [self.value(node.expressions[0]), self.value(node.this)])

    def _has_keys(self, node: exp.Binary) -> Typed:
        left, right = self.value(node.this), self.value(node.expression)
        if isinstance(node, exp.JSONBContainsTopKey):
            return jsonb.has_key(left, right)
        return jsonb.has_keys(left, right, every=isinstance(node, exp.JSONBContainsAllTopKeys))

    def _overlaps(self, node: exp.Overlaps) -> Typed:
        sides = [row_of(side.unnest()) for side in (node.this, node.expression)]
        if None in sides:
            raise TypeMismatch("OVERLAPS needs a row of two values on each side")
        return rows.overlaps(*([self.value(each) for each in side] for side in sides))

    # --- queries inside expressions: see headrace.sql.translate ---------------------------------------------------

    def _in_query(self, left: exp.Expression, query: exp.Expression) -> Typed:
        raise unsupported("a subquery", query)

    def _quantified_query(self, symbol: str, left: exp.Expression, query: exp.Expression, *, every: bool) -> Typed:
        raise unsupported("a subquery", query)

    def _compare_with_query(self, symbol: str, left: exp.Expression, query: exp.Expression) -> Typed:
        raise unsupported("a subquery", query)

    def _query(self, node: exp.Expression) -> Typed:
        raise unsupported("a subquery", node)


def _parts_of(node: exp.Expression) -> list[exp.Expression] | None:
    """What IS NULL asks about: a relation's row counts as its columns, too. Compared, it is a value like any other."""
    return node.expressions if isinstance(node, WholeRow) else row_of(node)


def row_of(node: exp.Expression) -> list[exp.Expression] | None:
    if isinstance(node, exp.Tuple):
        return node.expressions
    if isinstance(node, exp.Anonymous) and node.this == "row":
        return node.expressions
    return None


_ARITHMETIC = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_BITWISE = {
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "#",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
}
_COMPARISONS = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}

_CONTAINS = {exp.ArrayContainsAll: "@>", exp.ArrayContainedBy: "<@", exp.ArrayOverlaps: "&&"}

_E = Expressions
_METHODS: dict[type, Callable[[Any, Any], Typed]] = {
    exp.Literal: _E._literal,
    exp.Null: _E._null,
    exp.Boolean: _E._boolean,
    exp.Column: _E._column,
    LambdaVariable: _E._variable,
    WholeRow: _E._whole_row,
    exp.Collate: _E._collate,
    exp.Paren: _E._paren,
    **dict.fromkeys(_ARITHMETIC, _E._arithmetic),
    **dict.fromkeys(_BITWISE, _E._bitwise),
    **dict.fromkeys(_COMPARISONS, _E._compare),
    exp.BitwiseNot: _E._bitwise_not,
    exp.Neg: _E._negate,
    exp.Pow: _E._power,
    exp.DPipe: _E._concatenate,
    exp.And: _E._and_or,
    exp.Or: _E._and_or,
    exp.Not: _E._not,
    exp.Is: _E._is,
    exp.NullSafeEQ: _E._distinct_from,
    exp.NullSafeNEQ: _E._distinct_from,
    exp.Between: _E._between,
    exp.In: _E._in,
    exp.Like: _E._like,
    exp.ILike: _E._like,
    exp.Escape: _E._escape,
    exp.RegexpLike: _E._regexp,
    exp.RegexpILike: _E._regexp,
    exp.SimilarTo: _E._similar,
    exp.AtTimeZone: _E._at_time_zone,
    exp.Cast: _E._cast,
    exp.Case: _E._case,
    exp.Array: _E._array,
    exp.Bracket: _E._bracket,
    exp.Dot: _E._field,
    exp.Tuple: _E._tuple,
    exp.JSONExtract: _E._json,
    exp.JSONExtractScalar: _E._json,
    exp.JSONBExtract: _E._json,
    exp.JSONBExtractScalar: _E._json,
    **dict.fromkeys(_CONTAINS, _E._contains),
    exp.JSONBContainsTopKey: _E._has_keys,
    exp.JSONBContainsAnyTopKeys: _E._has_keys,
    exp.JSONBContainsAllTopKeys: _E._has_keys,
    exp.JSONBDeleteAtPath: _E._remove_path,
    exp.JSONBPathExists: _E._json_path,
    exp.MatchAgainst: _E._json_path,
    exp.Overlaps: _E._overlaps,
    exp.StartsWith: _E._starts_with,
    exp.WithinGroup: _E._ordered_set,
    exp.Anonymous: _E._call,
    exp.Filter: _E._filter,
    exp.Window: _E._window,
}

__all__ = ["COLUMN_TYPE", "Expressions", "SqlType", "position_of", "unsupported"]
