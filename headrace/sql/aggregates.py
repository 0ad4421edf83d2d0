"""Aggregate and window functions.

An aggregate may need work after Spark's own aggregate function has run (array_agg must keep NULLs, which Spark
drops), while FILTER and OVER belong to that function. So each is a call and a wrapping around it.

>>> aggregate("sum", AggregateCall(args=[Typed("`x`", INTEGER)])).call
'sum(`x`)'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headrace.errors import Unsupported
from headrace.sql import intervals
from headrace.sql.casts import cast
from headrace.sql.decimals import is_dynamic, quotient_decimals, shown_decimals
from headrace.sql.jsonb import json_text, normal_json
from headrace.sql.operators import QUOTIENT_SCALE
from headrace.sql.signatures import no_function
from headrace.sql.typed import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    INTERVAL,
    JSONB,
    NUMERIC,
    REAL,
    TEXT,
    Typed,
    common_type,
    digits,
    is_float,
    is_free,
    is_integer,
    is_moment,
    is_number,
    least_shown,
    loosened,
    numeric,
    undeclared,
)
from headrace.types import SqlType, array_of


@dataclass(frozen=True, kw_only=True)
class OrderKey:
    value: Typed
    descending: bool
    nulls_first: bool

    @property
    def sql(self) -> str:
        return (
            f"{self.value.sql} {'DESC' if self.descending else 'ASC'} NULLS {'FIRST' if self.nulls_first else 'LAST'}"
        )


@dataclass(frozen=True, kw_only=True)
class AggregateCall:
    args: list[Typed]
    star: bool = False
    distinct: bool = False
    order: list[OrderKey] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    call: str
    """Spark's function call, after which FILTER and OVER can stand."""
    type: SqlType
    wrap: str = "{}"
    """What to do with its result."""
    others: tuple[str, ...] = ()
    """More calls, whose results are {1}, {2}, … there."""
    decimals: str | None = None
    """How many are shown, by the same calls."""

    def finish(self, clauses: str = "") -> Typed:
        # All at once: what is put in may have braces of its own.
        calls = {"": self.call, **{str(number): call for number, call in enumerate(self.others, 1)}}

        def finished(text: str) -> str:
            return re.sub(r"\{(\d*)\}", lambda at: calls[at[1]] + clauses if at[1] in calls else at[0], text)

        decimals = None if self.decimals is None else finished(self.decimals)
        return Typed(finished(self.wrap), loosened(self.type), decimals=decimals)


_ORDERED = frozenset(
    "array_agg string_agg first_value last_value jsonb_agg json_agg jsonb_object_agg json_object_agg".split()
)


def aggregate(name: str, call: AggregateCall) -> Aggregate:
    if call.order and name not in _ORDERED:
        call = AggregateCall(args=call.args, star=call.star, distinct=call.distinct)  # the order makes no difference
    if call.star and name != "count":
        raise no_function(name, [])
    return _AGGREGATES[name](name, call)


def _distinct(call: AggregateCall) -> str:
    return "DISTINCT " if call.distinct else ""


def _one(name: str, call: AggregateCall) -> Typed:
    if len(call.args) != 1:
        raise no_function(name, call.args)
    return call.args[0]


def _count(name: str, call: AggregateCall) -> Aggregate:
    if call.star:
        return Aggregate(call="count(*)", type=BIGINT)
    return Aggregate(call=f"count({_distinct(call)}{intervals.comparable(_one(name, call)).sql})", type=BIGINT)


def _sum(name: str, call: AggregateCall) -> Aggregate:
    value = _one(name, call)
    if value.type == BIGINT:  # PostgreSQL's sum of bigints cannot overflow
        value = cast(value, NUMERIC)
    if value.type == INTERVAL:
        return _intervals(name, call, value)
    call_text = f"sum({_distinct(call)}{value.sql})"
    if value.type == DOUBLE:
        return Aggregate(call=call_text, type=value.type)
    if value.type == REAL:
        return Aggregate(call=call_text, type=REAL, wrap="CAST({} AS FLOAT)")
    if is_integer(value.type):
        return Aggregate(call=call_text, type=BIGINT)
    if value.type is not None and value.type.name == "numeric":
        precision, scale = digits(value.type)
        kind = numeric(precision + 10, scale, value.type)
        if not is_dynamic(value):
            return Aggregate(call=call_text, type=kind)
        return Aggregate(call=call_text, type=kind, others=(f"max({shown_decimals(value)})",), decimals="{1}")
    raise no_function(name, call.args)


def _avg(name: str, call: AggregateCall) -> Aggregate:
    value = _one(name, call)
    if value.type == INTERVAL:
        return _intervals(name, call, value)
    if is_float(value.type):
        return Aggregate(call=f"avg({_distinct(call)}{value.sql})", type=DOUBLE)
    if not is_number(value.type):
        raise no_function(name, call.args)
    # Spark averages integers as doubles; with this scale an average has 20 decimals.
    argument = f"{_distinct(call)}CAST({value.sql} AS DECIMAL(35,16))"
    # What it is the quotient of. Spark adds up narrow types faster; but each values once only if they are the same.
    over = Typed(f"sum({argument})", numeric(38, 16))
    if not call.distinct:
        over = _sum("sum", call).finish()
    others = [over.sql, f"count({argument})"]
    shown = shown_decimals(value)
    if is_dynamic(value) or is_free(value.type):
        others.append(f"max({shown})")
        shown = "{3}"
    return Aggregate(
        call=f"avg({argument})",
        type=numeric(38, QUOTIENT_SCALE, quotient=(least_shown(value.type), 0)),
        others=tuple(others),
        decimals=quotient_decimals(Typed("{1}", over.type, decimals=shown), Typed("{2}", BIGINT)),
    )


def _intervals(name: str, call: AggregateCall, value: Typed) -> Aggregate:
    """A sum or an average, part by part."""
    if call.distinct:
        wrap = intervals.of_different("{}", averaged=name == "avg")
        return Aggregate(call=f"collect_set({value.sql})", type=INTERVAL, wrap=wrap)
    length, *rest = (f"sum({intervals.number(part)})" for part in intervals.parts_of(value))
    if name == "sum":
        wrap = intervals.total("{}", "{1}", "{2}")
        return Aggregate(call=length, type=INTERVAL, wrap=wrap, others=tuple(rest))
    count = f"count({intervals.number(intervals.parts_of(value).length)})"
    wrap = f"CASE WHEN {{3}} > 0 THEN {intervals.average('{}', '{1}', '{2}', '{3}')} END"
    return Aggregate(call=length, type=INTERVAL, wrap=wrap, others=(*rest, count))


def _extreme(name: str, call: AggregateCall) -> Aggregate:
    value = _one(name, call)
    if value.type is None:
        value = cast(value, TEXT)
    if value.type.name in ("jsonb", "boolean", "uuid"):
        raise no_function(name, call.args)
    return Aggregate(call=f"{name}({value.sql})", type=undeclared(value.type))


def _boolean(name: str, call: AggregateCall) -> Aggregate:
    value = _one(name, call)
    if value.type not in (None, BOOLEAN):
        raise no_function(name, call.args)
    spark = {"every": "bool_and"}.get(name, name)
    return Aggregate(call=f"{spark}({cast(value, BOOLEAN).sql})", type=BOOLEAN)


def _bits(name: str, call: AggregateCall) -> Aggregate:
    value = _one(name, call)
    if not is_integer(value.type):
        raise no_function(name, call.args)
    return Aggregate(call=f"{name}({_distinct(call)}{value.sql})", type=value.type)


def _statistics(name: str, call: AggregateCall) -> Aggregate:
    values = call.args
    if len(values) != (2 if name in ("corr", "covar_pop", "covar_samp") else 1) or not all(
        is_number(v.type) for v in values
    ):
        raise no_function(name, values)
    spark = {"variance": "var_samp", "stddev": "stddev_samp"}.get(name, name)
    args = ", ".join(cast(value, DOUBLE).sql for value in values)
    return Aggregate(call=f"{spark}({_distinct(call)}{args})", type=DOUBLE)


def _string_agg(name: str, call: AggregateCall) -> Aggregate:
    if len(call.args) != 2:
        raise no_function(name, call.args)
    value, separator = (cast(arg, TEXT) for arg in call.args)
    if any(arg.type not in (None, TEXT) for arg in call.args):
        raise no_function(name, call.args)
    if call.distinct:
        if any(key.value.sql not in (value.sql, separator.sql) for key in call.order):
            raise Unsupported("in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list")
        # Each value comes once, so no second key decides anything. Without one PostgreSQL sorts them, too.
        ordered = [key for key in call.order if key.value.sql == value.sql][:1]
        ordered = ordered or [OrderKey(value=value, descending=False, nulls_first=False)]
    else:
        ordered = _without_ties(call.order, value)
    keys = [key.sql for key in ordered]
    order = f" WITHIN GROUP (ORDER BY {', '.join(keys)})" if keys else ""
    return Aggregate(call=f"listagg({_distinct(call)}{value.sql}, {separator.sql}){order}", type=TEXT)


def _without_ties(order: list[OrderKey], value: Typed) -> list[OrderKey]:
    """Values that an order leaves equal come in their own: the same in every query, and in every view."""
    plain = value.type is not None and value.type.name not in ("map", "struct", "array")
    if not order or not plain or any(key.value.sql == value.sql for key in order):
        return order
    return [*order, OrderKey(value=value, descending=False, nulls_first=False)]


def _array_agg(name: str, call: AggregateCall) -> Aggregate:
    """Spark's collect_list drops NULLs and knows no order; structs around the values keep both."""
    value = _one(name, call)
    if value.type is None:
        value = cast(value, TEXT)
    if not call.distinct:
        call = replace(call, order=_without_ties(call.order, value))
    keys = [("v", value.sql), *((f"k{number}", key.value.sql) for number, key in enumerate(call.order))]
    row = ", ".join(f"'{name}', {sql}" for name, sql in keys)
    collect = "collect_set" if call.distinct else "collect_list"
    if call.distinct and any(key.value.sql != value.sql for key in call.order):
        raise Unsupported("in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list")
    order = call.order or ([OrderKey(value=value, descending=False, nulls_first=False)] if call.distinct else [])
    rows = "{}"
    if order:
        comparisons = " ".join(
            _comparison(f"k{number}" if call.order else "v", key) for number, key in enumerate(order)
        )
        rows = f"array_sort({{}}, (_l, _r) -> CASE {comparisons} ELSE 0 END)"
    values = f"transform({rows}, _e -> _e.v)"
    # not nullif(): there are types that Spark does not compare
    wrap = f"CASE WHEN size({{}}) > 0 THEN {values} END"
    return Aggregate(call=f"{collect}(named_struct({row}))", type=array_of(value.type), wrap=wrap)


def _comparison(name: str, key: OrderKey) -> str:
    left, right = f"_l.{name}", f"_r.{name}"
    nulls, less = (-1 if key.nulls_first else 1), (1 if key.descending else -1)
    return (
        f"WHEN {left} IS NULL AND {right} IS NOT NULL THEN {nulls} "
        f"WHEN {left} IS NOT NULL AND {right} IS NULL THEN {-nulls} "
        f"WHEN {left} < {right} THEN {less} WHEN {left} > {right} THEN {-less}"
    )


def _jsonb_agg(name: str, call: AggregateCall) -> Aggregate:
    """The elements as JSON text, collected as array_agg does, and joined."""
    value = _one(name, call)
    text = Typed(f"coalesce({json_text(value)}, 'null')", TEXT)
    order = [replace(key, value=text) if key.value.sql == value.sql else key for key in call.order]
    if call.distinct:
        order = call.order and order
    collected = _array_agg(name, replace(call, args=[text], order=order))
    joined = f"concat('[', array_join({collected.wrap}, ','), ']')"
    return Aggregate(call=collected.call, type=JSONB, wrap=normal_json(joined))


def _jsonb_object_agg(name: str, call: AggregateCall) -> Aggregate:
    if len(call.args) != 2 or call.distinct:
        raise no_function(name, call.args)
    key, value = call.args
    missing = "CAST(raise_error('field name must not be null') AS STRING)"
    named = json_text(key if is_moment(key.type) else cast(key, TEXT))
    pair = f"concat(coalesce({named}, {missing}), ':', coalesce({json_text(value)}, 'null'))"
    collected = _array_agg(name, replace(call, args=[Typed(pair, TEXT)]))
    joined = f"concat('{{', array_join({collected.wrap}, ','), '}}')".replace("{{", "{").replace("}}", "}")
    return Aggregate(call=collected.call, type=JSONB, wrap=normal_json(joined))


def _regression(name: str, call: AggregateCall) -> Aggregate:
    if len(call.args) != 2 or not all(is_number(arg.type) for arg in call.args):
        raise no_function(name, call.args)
    args = ", ".join(cast(arg, DOUBLE).sql for arg in call.args)
    return Aggregate(call=f"{name}({_distinct(call)}{args})", type=BIGINT if name == "regr_count" else DOUBLE)


def _end(name: str, call: AggregateCall) -> Aggregate:
    """The first or last value of a group, which may be NULL. It needs an order to be one."""
    value = _one(name, call)
    if not call.order:
        raise Unsupported(f"{name}() without OVER or ORDER BY", hint=f"write {name}(value ORDER BY …)")
    collected = _array_agg(name, call)
    wrap = f"get({collected.wrap}, 0)" if name == "first_value" else f"element_at({collected.wrap}, -1)"
    return Aggregate(call=collected.call, type=value.type or TEXT, wrap=wrap)


def _any_value(name: str, call: AggregateCall) -> Aggregate:
    value = _one(name, call)
    value = cast(value, TEXT) if value.type is None else value
    return Aggregate(call=f"any_value({value.sql}, true)", type=value.type)


def _approximate(name: str, call: AggregateCall) -> Aggregate:
    return Aggregate(call=f"approx_count_distinct({_one(name, call).sql})", type=BIGINT)


_AGGREGATES: dict[str, Callable[[str, AggregateCall], Aggregate]] = {
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys(("bool_and", "bool_or", "every"), _boolean),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), _bits),
    **dict.fromkeys(
        (
            "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp", "corr", "covar_pop", "covar_samp",
        ),
        _statistics,
    ),
    "string_agg": _string_agg,
    "array_agg": _array_agg,
    **dict.fromkeys(("first_value", "last_value"), _end),
    "approx_count_distinct": _approximate,
    **dict.fromkeys(("jsonb_agg", "json_agg"), _jsonb_agg),
    **dict.fromkeys(("jsonb_object_agg", "json_object_agg"), _jsonb_object_agg),
    **dict.fromkeys(
        (
            "regr_slope", "regr_intercept", "regr_r2", "regr_count", "regr_avgx", "regr_avgy", "regr_sxx", "regr_syy",
            "regr_sxy",
        ),
        _regression,
    ),
    "any_value": _any_value,
}  # fmt: skip


def is_aggregate(name: str) -> bool:
    return name in _AGGREGATES


def is_call(node: exp.Expression) -> bool:
    """Whether it is a call of an aggregate function, with its FILTER and WITHIN GROUP."""
    while isinstance(node, (exp.Filter, exp.WithinGroup)):
        node = node.this
    return isinstance(node, exp.Anonymous) and (is_aggregate(node.this) or is_ordered_set(node.this))


def guarded(node: exp.Filter) -> exp.Filter:
    """The call with arguments that are evaluated only where its FILTER holds.

    Spark computes what two calls have in common before it looks at their filters, and a part of a view may store what a
    call takes: 10 / x would fail where x <> 0 was asked for.

    >>> from headrace.sql.dialect import parse_expression, print_sql
    >>> print_sql(guarded(parse_expression("sum(10 / x) FILTER (WHERE x <> 0)")))
    'sum(CASE WHEN "x" <> 0 THEN 10 / "x" END) FILTER(WHERE "x" <> 0)'
    >>> print_sql(guarded(parse_expression("array_agg(s ORDER BY 1 / x) FILTER (WHERE b)")))
    'array_agg("s" ORDER BY CASE WHEN "b" THEN 1 / "x" END) FILTER(WHERE "b")'
    """
    condition = node.expression.this
    if condition.find(exp.Query) is not None:
        return node
    found = node.copy()
    for call in found.this.find_all(exp.Anonymous, exp.WithinGroup):
        if is_call(call):
            part = call.expression if isinstance(call, exp.WithinGroup) else call
            part.set("expressions", [_guarded(each, condition) for each in part.expressions])
    return found


def _guarded(node: exp.Expression, condition: exp.Expression) -> exp.Expression:
    if isinstance(node, (exp.Distinct, exp.Order, exp.Ordered)):
        for key in ("this", "expressions"):
            inner = node.args.get(key)
            if isinstance(inner, list):
                node.set(key, [_guarded(each, condition) for each in inner])
            elif isinstance(inner, exp.Expression):
                node.set(key, _guarded(inner, condition))
        return node
    already = isinstance(node, exp.Case) and node.args["ifs"][0].this == condition
    if already or isinstance(node, (exp.Column, exp.Star, exp.Tuple)) or node.find(exp.Column) is None:
        return node
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=node.copy())])


# --- functions that only exist with WITHIN GROUP ------------------------------------------------------------------


def ordered_set(name: str, args: list[Typed], keys: list[OrderKey]) -> Aggregate:
    """percentile_cont, percentile_disc and mode. Rows whose key is NULL do not count."""
    if len(keys) != 1 or len(args) != (0 if name == "mode" else 1):
        raise no_function(name, [*args, *(key.value for key in keys)])
    key = keys[0]
    value = cast(key.value, TEXT) if key.value.type is None else key.value
    way = "DESC" if key.descending else "ASC"
    if name == "mode":
        return Aggregate(call=f"mode() WITHIN GROUP (ORDER BY {value.sql} {way})", type=value.type)
    several = args[0].type is not None and args[0].type.name == "array"
    # as one cast of the whole array, so that it stays a constant to Spark
    fraction = Typed(f"CAST({args[0].sql} AS ARRAY<DOUBLE>)", array_of(DOUBLE)) if several else cast(args[0], DOUBLE)
    if name == "percentile_cont":
        if not is_number(value.type):
            raise no_function(name, [*args, value])
        call = f"percentile_cont({fraction.sql}) WITHIN GROUP (ORDER BY {cast(value, DOUBLE).sql} {way})"
        return Aggregate(call=call, type=array_of(DOUBLE) if several else DOUBLE)
    # Spark's percentile_disc computes with doubles only
    ordered = "reverse(array_sort({}))" if key.descending else "array_sort({})"
    pick = "get(_a, greatest(CAST(ceil({} * size(_a)) AS INT), 1) - 1)"
    chosen = f"transform({fraction.sql}, _f -> {pick.format('_f')})" if several else pick.format(fraction.sql)
    return Aggregate(
        call=f"collect_list({value.sql})",
        type=array_of(value.type) if several else value.type,
        wrap=f"get(transform(array({ordered}), _a -> {chosen}), 0)",
    )


ORDERED_SETS = frozenset(("percentile_cont", "percentile_disc", "mode"))


def is_ordered_set(name: str) -> bool:
    return name in ORDERED_SETS


# --- functions that only exist with OVER ------------------------------------------------------------------------


def window_function(name: str, args: list[Typed]) -> Aggregate:
    """OVER always has an ORDER BY here: without one, the translation orders by NULL."""
    if name in ("row_number", "rank", "dense_rank"):
        if args:
            raise no_function(name, args)
        return Aggregate(call=f"{name}()", type=BIGINT, wrap="CAST({} AS BIGINT)")
    if name in ("percent_rank", "cume_dist"):
        return Aggregate(call=f"{name}()", type=DOUBLE)
    if name == "ntile" and len(args) == 1:
        return Aggregate(call=f"ntile({cast(args[0], INTEGER).sql})", type=INTEGER)
    if name in ("lag", "lead") and 1 <= len(args) <= 3:
        return _offset(name, args)
    if name in ("first_value", "last_value") and len(args) == 1:
        value = cast(args[0], TEXT) if args[0].type is None else args[0]
        return Aggregate(call=f"{name}({value.sql})", type=value.type)
    if name == "nth_value" and len(args) == 2:
        value = cast(args[0], TEXT) if args[0].type is None else args[0]
        return Aggregate(call=f"nth_value({value.sql}, {cast(args[1], INTEGER).sql})", type=value.type)
    raise no_function(name, args)


def _offset(name: str, args: list[Typed]) -> Aggregate:
    kind = common_type(name, [args[0].type, *(arg.type for arg in args[2:])]) or TEXT
    parts = [cast(args[0], kind).sql]
    if len(args) > 1:
        parts.append(cast(args[1], INTEGER).sql)
    if len(args) > 2:
        parts.append(cast(args[2], kind).sql)
    return Aggregate(call=f"{name}({', '.join(parts)})", type=kind)


_WINDOW_FUNCTIONS = {
    "row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "first_value",
    "last_value", "nth_value",
}  # fmt: skip


def is_window_function(name: str) -> bool:
    return name in _WINDOW_FUNCTIONS
