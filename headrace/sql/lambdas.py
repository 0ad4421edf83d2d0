"""Functions that take a lambda: ``transform(array, x -> x + 1)``.

Spark has them and PostgreSQL has not. The types of a lambda's variables follow from the other arguments, and the
function's from what the lambda gives, so nobody has to be asked: they can stand wherever an expression can.

In Spark SQL a variable gets a prefix, so that neither a column nor a lambda of Headrace's own making is taken for it.

>>> spark_variable("x")
'`_l_x`'
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Protocol

from sqlglot import exp

from headrace.errors import TypeMismatch, UndefinedFunction
from headrace.sql.aggregates import is_aggregate, is_window_function
from headrace.sql.casts import cast
from headrace.sql.operators import as_boolean
from headrace.sql.oracle import AGGREGATE, GENERATOR, found_for
from headrace.sql.positions import position_of, unsupported
from headrace.sql.sets import is_set_returning
from headrace.sql.tree import PARAMETER_TYPES
from headrace.sql.typed import INTEGER, TEXT, Typed, describe, widen
from headrace.types import SqlType, array_of, map_of, quote_spark


class _Translator(Protocol):
    def value(self, node: exp.Expression) -> Typed: ...


def takes_lambda(node: exp.Expression) -> bool:
    return isinstance(node, exp.Anonymous) and any(isinstance(each, exp.Lambda) for each in node.expressions)


def spark_variable(name: str) -> str:
    return quote_spark(f"_l_{name}")


# --- binding ----------------------------------------------------------------------------------------------------


def bind_call(
    node: exp.Anonymous,
    bind: Callable[[exp.Expression, Mapping[str, SqlType]], exp.Expression],
    type_of: Callable[[exp.Expression], SqlType | None],
) -> None:
    """Binds the arguments, the lambdas last; ``bind`` is given the variables that an expression may use."""
    args = [each if isinstance(each, exp.Lambda) else bind(each, {}) for each in node.expressions]
    kinds = [None if isinstance(each, exp.Lambda) else type_of(each) for each in args]
    shape = "".join("L" if isinstance(each, exp.Lambda) else "v" for each in args)
    if shape not in _SHAPES[node.this]:
        raise _no_function(node, args, kinds)

    def body(each: exp.Lambda, parameters: list[SqlType], least: int | None = None) -> SqlType | None:
        names = [name.name for name in each.expressions]
        if not (least or len(parameters)) <= len(names) <= len(parameters) or len(set(names)) != len(names):
            raise TypeMismatch(
                f"a lambda of {node.this}() takes {len(parameters)} variable{'s' if len(parameters) > 1 else ''}",
                position=position_of(each),
            )
        _check_body(each.this)
        each.meta[PARAMETER_TYPES] = parameters[: len(names)]
        each.set("this", bind(each.this, dict(zip(names, parameters, strict=False))))
        _check_calls(each.this)
        return type_of(each.this)

    def wanted(number: int, name: str) -> tuple[SqlType, ...]:
        kind = kinds[number]
        if kind is None or kind.name != name:
            raise _no_function(node, args, kinds)
        return (kind.element,) if name == "array" else tuple(inner for _, inner in kind.fields)

    if node.this in ("transform", "filter"):
        body(args[1], [*wanted(0, "array"), INTEGER], least=1)
    elif node.this in ("exists", "forall"):
        body(args[1], [*wanted(0, "array")])
    elif node.this == "array_sort":
        body(args[1], [*wanted(0, "array")] * 2)
    elif node.this == "zip_with":
        body(args[2], [*wanted(0, "array"), *wanted(1, "array")])
    elif node.this == "map_zip_with":
        (key, left), (_, right) = wanted(0, "map"), wanted(1, "map")
        body(args[2], [key, left, right])
    elif node.this in ("aggregate", "reduce"):
        (element,), start = wanted(0, "array"), kinds[1] or TEXT
        untouched = args[2].copy()
        given = body(args[2], [start, element]) or TEXT
        state = widen(start, given)
        if state is None:
            raise TypeMismatch(
                f"{node.this}() starts with {start} but its lambda gives {given}", position=position_of(args[2])
            )
        if state != start:  # the start is converted, and the lambda sees what it gives
            args[2] = untouched
            body(args[2], [state, element])
        if len(args) == 4:
            body(args[3], [state])
    else:
        body(args[1], [*wanted(0, "map")])
    node.set("expressions", args)


_SHAPES = {
    **dict.fromkeys(("aggregate", "reduce"), ("vvL", "vvLL")),
    **dict.fromkeys(("zip_with", "map_zip_with"), ("vvL",)),
    **dict.fromkeys(
        ("transform", "filter", "exists", "forall", "array_sort", "map_filter", "transform_keys", "transform_values"),
        ("vL",),
    ),
}


def _no_function(node: exp.Anonymous, args: list[exp.Expression], kinds: list[SqlType | None]) -> TypeMismatch:
    shown = ["lambda" if isinstance(arg, exp.Lambda) else describe(kind) for arg, kind in zip(args, kinds, strict=True)]
    return UndefinedFunction(f"function {node.this}({', '.join(shown)}) does not exist", position=position_of(node))


def _check_body(body: exp.Expression) -> None:
    """What Spark computes from the elements of one array has no other rows to look at."""
    query = body.find(exp.Query)
    if query is not None:
        raise unsupported("a subquery inside a lambda", query)
    window = body.find(exp.Window)
    if window is not None:
        raise unsupported("a window function inside a lambda", window)


def _check_calls(body: exp.Expression) -> None:
    for call in body.find_all(exp.Anonymous):
        found = found_for(call)
        if is_aggregate(call.this) or is_window_function(call.this) or (found and found.kind == AGGREGATE):
            raise unsupported(f"{call.this}(), an aggregate, inside a lambda", call)
        if is_set_returning(call.this) or (found and found.kind == GENERATOR):
            raise unsupported(f"{call.this}(), which returns rows, inside a lambda", call)


# --- translation ------------------------------------------------------------------------------------------------


def translate_call(translator: _Translator, node: exp.Anonymous) -> Typed:
    name, args = node.this, node.expressions

    def lambda_sql(each: exp.Lambda, value: Typed) -> str:
        names = [spark_variable(variable.name) for variable in each.expressions]
        return f"{names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'} -> {value.sql}"

    def settled(each: exp.Lambda) -> Typed:
        value = translator.value(each.this)
        return cast(value, TEXT) if value.type is None else value

    first = translator.value(args[0])
    if name in ("aggregate", "reduce"):
        return _aggregate(translator, node, first, lambda_sql, settled)
    last = args[-1]
    body = settled(last)
    if name in ("filter", "exists", "forall", "map_filter"):
        test = Typed(as_boolean(f"{name}()", body), body.type)
        kind = SqlType("boolean") if name in ("exists", "forall") else first.type
        return Typed(f"{name}({first.sql}, {lambda_sql(last, test)})", kind)
    if name == "array_sort":
        return Typed(f"array_sort({first.sql}, {lambda_sql(last, cast(body, INTEGER))})", first.type)
    if name == "transform":
        return Typed(f"transform({first.sql}, {lambda_sql(last, body)})", array_of(body.type))
    if name == "zip_with":
        second = translator.value(args[1])
        return Typed(f"zip_with({first.sql}, {second.sql}, {lambda_sql(last, body)})", array_of(body.type))
    (_, key), (_, value) = first.type.fields
    if name == "map_zip_with":
        second = translator.value(args[1])
        if second.type.fields[0][1] != key:
            raise TypeMismatch(f"map_zip_with() of maps with keys of type {key} and {second.type.fields[0][1]}")
        return Typed(f"map_zip_with({first.sql}, {second.sql}, {lambda_sql(last, body)})", map_of(key, body.type))
    kind = map_of(body.type, value) if name == "transform_keys" else map_of(key, body.type)
    return Typed(f"{name}({first.sql}, {lambda_sql(last, body)})", kind)


def _aggregate(translator, node, array: Typed, lambda_sql, settled) -> Typed:
    """aggregate(array, start, (state, element) -> state [, state -> result])"""
    _, start, merge, *finish = node.expressions
    state = merge.meta_get(PARAMETER_TYPES)[0]
    step = cast(settled(merge), state)
    # Spark insists that both are the very same type
    step = dataclasses.replace(step, sql=f"CAST({step.sql} AS {state.spark})")
    first = f"CAST({cast(translator.value(start), state).sql} AS {state.spark})"
    if not finish:
        return Typed(f"aggregate({array.sql}, {first}, {lambda_sql(merge, step)})", state)
    result = settled(finish[0])
    call = f"aggregate({array.sql}, {first}, {lambda_sql(merge, step)}, {lambda_sql(finish[0], result)})"
    return Typed(call, result.type)
