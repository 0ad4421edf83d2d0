"""Calls: plain functions, set-returning ones, aggregates and window functions, with the clauses around them.

A part of :class:`headrace.sql.expressions.Expressions`, which translates what stands inside the parentheses.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from sqlglot import exp

from headrace.errors import HeadraceError, SqlSyntaxError, TypeMismatch, Unsupported, WrongObjectKind
from headrace.sql import aggregates, functions, intervals, zoned
from headrace.sql.aggregates import AggregateCall, OrderKey
from headrace.sql.casts import cast
from headrace.sql.lambdas import takes_lambda, translate_call
from headrace.sql.oracle import AGGREGATE, GENERATOR, UNKNOWN, for_spark, found_for
from headrace.sql.positions import name_of, position_of, unsupported
from headrace.sql.sets import ROWS_FROM, Rows, is_set_returning, rows_from, set_rows, spark_rows
from headrace.sql.signatures import no_function
from headrace.sql.typed import DATE, INTEGER, INTERVAL, TIMESTAMP, Typed, is_time
from headrace.types import SqlType


class Calls:
    def text(self, node: exp.Expression) -> str:
        raise NotImplementedError

    def value(self, node: exp.Expression) -> Typed:
        raise NotImplementedError

    def translated(self, node: exp.Expression) -> Typed:
        """As it is meant by itself, in the zone that is set."""
        raise NotImplementedError

    def boolean(self, construct: str, node: exp.Expression) -> str:
        raise NotImplementedError

    def _call(self, node: exp.Anonymous) -> Typed:
        name = node.this
        if (zone := zoned.zone_of(node)) is not None:
            with zoned.meant_in(zone):
                return self.translated(node.expressions[1])
        if takes_lambda(node):
            return translate_call(self, node)
        if aggregates.is_aggregate(name):
            return self._aggregate(node).finish()
        if aggregates.is_window_function(name):
            raise WrongObjectKind(f"window function {name} requires an OVER clause")
        found = found_for(node)
        if is_set_returning(name) or (found is not None and found.kind == GENERATOR):
            return self._generator(node)
        if found is not None and found.kind == AGGREGATE:
            return self._aggregate(node).finish()
        if aggregates.is_ordered_set(name):
            raise TypeMismatch(f"WITHIN GROUP is required for ordered-set aggregate {name}")
        if name == "grouping":
            return self._grouping(node)
        if any(isinstance(arg, (exp.Star, exp.Distinct, exp.Order)) for arg in node.expressions):
            raise unsupported(f"this call of {name}()", node)
        if found is not None:
            return Typed(found.wrap(f"{name}({self._for_spark(node)})"), found.type)
        if name == "current_time":
            raise unsupported("current_time, which has a time zone,", node, hint="use localtime")
        if not functions.is_scalar(name):
            raise self._no_function(node) or unsupported(f"function {name}()", node)
        if any(isinstance(arg, exp.Kwarg) for arg in node.expressions):
            return self._named_arguments(node)
        return functions.call_function(name, [self.value(arg) for arg in node.expressions])

    def _for_spark(self, node: exp.Anonymous) -> str:
        return ", ".join(for_spark(self.value(each)) for each in node.expressions)

    def _no_function(self, node: exp.Anonymous) -> HeadraceError | None:
        """What to say of a name that means nothing to anybody."""
        if not node.meta_get(UNKNOWN):
            return None
        odd = (exp.Star, exp.Distinct, exp.Order, exp.Kwarg, exp.Lambda)
        error = no_function(node.this, [self.value(each) for each in node.expressions if not isinstance(each, odd)])
        error.position = position_of(node)
        return error

    def _named_arguments(self, node: exp.Anonymous) -> Typed:
        """f(1, c => 3): with the default, which is 0, for what is not given."""
        known = functions.PARAMETERS.get(node.this)
        if known is None:
            raise unsupported(f"a named argument of {node.this}()", node)
        values: dict[str, Typed] = {}
        for number, arg in enumerate(node.expressions):
            name = arg.this.name if isinstance(arg, exp.Kwarg) else known[number : number + 1][0]
            if name not in known or name in values:
                raise TypeMismatch(f"function {node.this}() takes no argument {name} here", position=position_of(arg))
            values[name] = self.value(arg.expression if isinstance(arg, exp.Kwarg) else arg)
        return functions.call_function(node.this, [values.get(name, Typed("0", INTEGER)) for name in known])

    def _generator(self, node: exp.Anonymous) -> Typed:
        """A set-returning function as Spark's generator, which can only stand alone in a SELECT list."""
        found = found_for(node)
        if found is not None:
            return Typed(found.wrap(f"{node.this}({self._for_spark(node)})"), found.type)
        generated = self.rows_of(node)
        if generated.structs:
            raise unsupported(f"{node.this}(), which returns {len(generated.columns)} columns, outside of FROM", node)
        return Typed(f"explode({generated.sql})", generated.columns[0][1])

    def rows_of(self, node: exp.Anonymous) -> Rows:
        """The rows that a set-returning function stands for."""
        found = found_for(node)
        if found is not None and found.kind == GENERATOR:
            args = [self.value(each) for each in node.expressions]
            call = f"{node.this}({', '.join(map(for_spark, args))})"
            return spark_rows(node.this, args[0] if args else None, call, list(found.columns) or [(None, found.type)])
        if node.this == ROWS_FROM:
            parts = [self.rows_of(each) for each in node.expressions]
            opaque = next((each for each, part in zip(node.expressions, parts, strict=True) if part.generator), None)
            if opaque is not None:
                raise unsupported(f"{opaque.this}() in ROWS FROM", opaque)
            named = [
                dataclasses.replace(part, columns=[(name or each.this, kind) for name, kind in part.columns])
                for each, part in zip(node.expressions, parts, strict=True)
            ]
            return rows_from(named)
        if not is_set_returning(node.this):
            raise self._no_function(node) or unsupported(f"function {node.this}() in FROM", node)
        return set_rows(node.this, [self.value(arg) for arg in node.expressions])

    def _grouping(self, node: exp.Anonymous) -> Typed:
        """A bit for each argument, the last one's the lowest: 1 where the row is not grouped by it."""
        count = len(node.expressions)
        bits = [
            f"CAST(grouping({self.text(each)}) AS INT) * {1 << (count - number)}"
            for number, each in enumerate(node.expressions, 1)
        ]
        return Typed(f"({' + '.join(bits)})", INTEGER)

    def _aggregate(self, node: exp.Expression, *, over: bool = False) -> aggregates.Aggregate:
        if isinstance(node, exp.WithinGroup):
            return self._within_group(node)
        if not isinstance(node, exp.Anonymous):
            raise unsupported(name_of(node), node)
        args, distinct, order = list(node.expressions), False, []
        if args and isinstance(args[-1], exp.Order):
            order = self.order_keys(args[-1].expressions)
            args[-1] = args[-1].this
        if args and isinstance(args[0], exp.Distinct):
            distinct, args = True, [*args[0].expressions, *args[1:]]
        star = len(args) == 1 and isinstance(args[0], exp.Star)
        values = [] if star else [self.value(arg) for arg in args]
        try:
            if aggregates.is_window_function(node.this) and (over or not aggregates.is_aggregate(node.this)):
                return aggregates.window_function(node.this, values)
            found = found_for(node)
            if found is not None and found.kind == AGGREGATE and not order and not star:
                call = f"{node.this}({'DISTINCT ' if distinct else ''}{', '.join(map(for_spark, values))})"
                return aggregates.Aggregate(call=call, type=found.type, wrap=found.wrap("{}"))
            if not aggregates.is_aggregate(node.this):
                raise Unsupported(f"{node.this}() as an aggregate or window function is not supported")
            return aggregates.aggregate(
                node.this, AggregateCall(args=values, star=star, distinct=distinct, order=order)
            )
        except HeadraceError as error:
            error.position = error.position or position_of(node)
            raise

    def _within_group(self, node: exp.WithinGroup) -> aggregates.Aggregate:
        call = node.this
        if not isinstance(call, exp.Anonymous) or not aggregates.is_ordered_set(call.this):
            raise unsupported(f"{call.this}() WITHIN GROUP" if isinstance(call, exp.Anonymous) else "this", node)
        args = [self.value(each) for each in call.expressions]
        return aggregates.ordered_set(call.this, args, self.order_keys(node.expression.expressions))

    def _ordered_set(self, node: exp.WithinGroup) -> Typed:
        return self._within_group(node).finish()

    def order_keys(self, ordered: list[exp.Ordered]) -> list[OrderKey]:
        return [
            OrderKey(
                value=self.value(each.this),
                descending=bool(each.args.get("desc")),
                nulls_first=bool(each.args.get("nulls_first")),
            )
            for each in ordered
        ]

    def _filter(self, node: exp.Filter) -> Typed:
        return self._aggregate(aggregates.guarded(node).this).finish(self._filter_clause(node))

    def _filter_clause(self, node: exp.Filter) -> str:
        return f" FILTER (WHERE {self.boolean('FILTER', node.expression.this)})"

    def _window(self, node: exp.Window) -> Typed:
        function, clause = node.this, ""
        if isinstance(function, (exp.IgnoreNulls, exp.RespectNulls)):
            raise unsupported("IGNORE NULLS", node)
        if isinstance(function, exp.Filter):
            clause, function = self._filter_clause(function), aggregates.guarded(function).this
        if function.expressions and isinstance(function.expressions[0], exp.Distinct):
            raise unsupported("DISTINCT in a window function", node)
        result = self._aggregate(function, over=True)
        parts = []
        if node.args.get("partition_by"):
            parts.append("PARTITION BY " + ", ".join(self.text(each) for each in node.args["partition_by"]))
        order, spec = node.args.get("order"), node.args.get("spec")
        if order is not None:
            keys = self.order_keys(order.expressions)
            if spec is not None and spec.args["kind"].upper() == "RANGE" and keys[0].value.type == DATE:
                # Spark adds whole days only to a date
                keys = [dataclasses.replace(key, value=cast(key.value, TIMESTAMP)) for key in keys]
            parts.append("ORDER BY " + ", ".join(key.sql for key in keys))
        elif aggregates.is_window_function(function.this):
            parts.append("ORDER BY NULL")
        if spec is not None:
            by_range = spec.args["kind"].upper() == "RANGE" and order is not None
            parts.append(self._frame(spec, keys[0].value.type if by_range else None))
        return result.finish(f"{clause} OVER ({' '.join(parts)})")

    def _frame(self, spec: exp.WindowSpec, key: SqlType | None) -> str:
        """``key``: the type of what a RANGE is ordered by."""
        kind = spec.args["kind"].upper()
        exclude = spec.args.get("exclude")
        if kind not in ("ROWS", "RANGE"):
            raise unsupported(f"{kind} in a window frame", spec)
        if exclude is not None and exclude.name.upper() != "NO OTHERS":
            raise unsupported(f"EXCLUDE {exclude.name.upper()} in a window frame", spec)

        def bound(value: Any, side: str | None) -> str:
            if side is None and value != "CURRENT ROW":
                raise SqlSyntaxError("a window frame's bound needs PRECEDING or FOLLOWING", position=position_of(spec))
            text = value if isinstance(value, str) else self._distance(value, key)
            return f"{text} {side.upper()}" if side else text

        start = bound(spec.args["start"], spec.args.get("start_side"))
        if spec.args.get("end") is None:
            return f"{kind} {start}"
        return f"{kind} BETWEEN {start} AND {bound(spec.args['end'], spec.args.get('end_side'))}"

    def _distance(self, node: exp.Expression, key: SqlType | None) -> str:
        value = self.value(node)
        if is_time(key):
            if value.type not in (None, INTERVAL):
                raise unsupported(f"RANGE over a time with an offset of type {value.type}", node)
            return intervals.number(intervals.micros(intervals.parts_of(cast(value, INTERVAL))))
        if value.type != INTERVAL:
            return value.sql
        parts = intervals.parts_of(value)
        if parts.months == 0:
            return intervals.day_time(parts)
        constant = intervals.constant_of(value)
        if constant is None or constant.days or constant.micros:
            raise unsupported("a window frame with an interval of months and days, or that is no constant,", node)
        return intervals.spark_months(constant.months)
