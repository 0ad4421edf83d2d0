"""jsonb: stored as normal text, looked into as Spark's VARIANT.

>>> get(Typed("`j`", JSONB), Typed("NULL", None, literal="a"), as_text=True).sql
'variant_get(parse_json(`j`), \\'$["a"]\\', \\'string\\')'
"""

from __future__ import annotations

import json
from typing import Any

from headrace.errors import DataError, Unsupported
from headrace.sql import zoned
from headrace.sql.casts import cast
from headrace.sql.composites import array_items
from headrace.sql.jsonb_paths import contains as contains_value
from headrace.sql.literals import from_text, spark_string
from headrace.sql.operators import no_operator
from headrace.sql.signatures import no_function
from headrace.sql.typed import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    JSONB,
    REAL,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Typed,
    is_integer,
    is_number,
    is_text,
)
from headrace.types import array_of, quote_spark

_ELEMENTS = "CAST(parse_json({}) AS ARRAY<VARIANT>)"


def get(value: Typed, key: Typed, *, as_text: bool = False) -> Typed:
    """``value -> key`` and ``value ->> key``: a field of an object or, by an integer, an element of an array."""
    value = _as_jsonb("->>" if as_text else "->", value, key)
    if is_integer(key.type) and not key.sql.isdigit():  # it may count from the end
        return _element(value, cast(key, INTEGER).sql, as_text=as_text)
    return _extract(value, _step(key), as_text=as_text)


def get_path(value: Typed, path: Typed, *, as_text: bool = False) -> Typed:
    """``value #> '{a,0,b}'``"""
    value = _as_jsonb("#>>" if as_text else "#>", value, path)
    if path.literal is None or not path.literal.strip().startswith("{"):
        raise Unsupported("a path for #> that is not a constant like '{a,b}' is not supported")
    if not (items := array_items(path.literal)):
        return _extract(value, "'$'", as_text=True) if as_text else value
    *steps, last = items
    for step in steps:
        value = _by_name_or_number(value, step, as_text=False)
    return _by_name_or_number(value, last, as_text=as_text)


def _as_jsonb(symbol: str, value: Typed, key: Typed) -> Typed:
    if value.type is None:
        value = cast(value, JSONB)
    if value.type != JSONB:
        raise no_operator(symbol, value.type, key.type)
    return value


def _by_name_or_number(value: Typed, step: str | None, *, as_text: bool) -> Typed:
    """In a path a number means a field of an object but an element of an array."""
    named = _extract(value, spark_string(f"$[{_quote(step or '')}]"), as_text=as_text)
    if step is not None and step.startswith("-") and step[1:].isdigit():
        return Typed(f"coalesce({_element(value, step, as_text=as_text).sql}, {named.sql})", named.type)
    if step is None or not step.isdigit():
        return named
    numbered = _extract(value, f"'$[{int(step)}]'", as_text=as_text)
    return Typed(f"coalesce({numbered.sql}, {named.sql})", named.type)


def _step(key: Typed) -> str:
    """A JSON path of one step, as Spark SQL."""
    if key.literal is not None:
        return spark_string(f"$[{_quote(key.literal)}]")
    if is_integer(key.type):
        return f"'$[{key.sql}]'"
    if is_text(key.type):
        return f"concat('$[\"', {key.sql}, '\"]')"
    raise no_operator("->", JSONB, key.type)


def _quote(name: str) -> str:
    if '"' not in name:
        return f'"{name}"'
    if "'" not in name:
        return f"'{name}'"
    raise Unsupported("a jsonb key with both kinds of quotes is not supported")


def _extract(value: Typed, path: str, *, as_text: bool) -> Typed:
    if as_text:
        return Typed(f"variant_get(parse_json({value.sql}), {path}, 'string')", TEXT)
    return Typed(f"to_json(variant_get(parse_json({value.sql}), {path}))", JSONB)


def _element(value: Typed, index: str, *, as_text: bool) -> Typed:
    """An element of an array, from 0, or from -1 backwards."""
    position = f"CASE WHEN {index} < 0 THEN {index} ELSE {index} + 1 END"
    found = f"try_element_at({_ELEMENTS.format(value.sql)}, {position})"
    found = f"CASE WHEN startswith({value.sql}, '[') THEN {found} END"
    return Typed(f"variant_get({found}, '$', 'string')", TEXT) if as_text else Typed(f"to_json({found})", JSONB)


# --- changing ---------------------------------------------------------------------------------------------------


def concatenate(left: Typed, right: Typed) -> Typed:
    """``||``: two objects become one; anything else is an array, or an element of one."""
    a, b = cast(left, JSONB).sql, cast(right, JSONB).sql
    objects = f"(startswith({a}, '{{') AND startswith({b}, '{{'))"

    def inner(value: str) -> str:
        bare = f"substring({value}, 2, length({value}) - 2)"
        return f"nullif(CASE WHEN {objects} OR startswith({value}, '[') THEN {bare} ELSE {value} END, '')"

    joined = f"concat_ws(',', {inner(a)}, {inner(b)})"
    text = f"CASE WHEN {objects} THEN concat('{{', {joined}, '}}') ELSE concat('[', {joined}, ']') END"
    return Typed(f"CASE WHEN {a} IS NOT NULL AND {b} IS NOT NULL THEN {normal_json(text)} END", JSONB)


def remove(value: Typed, what: Typed) -> Typed:
    """``value - key``, ``value - keys``, ``value - index``"""
    items = _ELEMENTS.format(value.sql)
    if is_integer(what.type):
        index = cast(what, INTEGER).sql
        at = f"CASE WHEN {index} < 0 THEN size({items}) + {index} ELSE {index} END"
        return Typed(f"to_json(filter({items}, (_r, _i) -> _i <> {at}))", JSONB)
    if what.type is not None and what.type.name != "array" and what.type != TEXT:
        raise no_operator("-", value.type, what.type)
    several = what.type is not None and what.type.name == "array"
    keys = cast(what, array_of(TEXT)).sql if several else f"array({cast(what, TEXT).sql})"
    fields = f"CAST(parse_json({value.sql}) AS MAP<STRING, VARIANT>)"
    kept = f"to_json(to_variant_object(map_filter({fields}, (_k, _r) -> NOT array_contains({keys}, _k))))"
    strings = f"transform({keys}, _k -> to_json(CAST(_k AS VARIANT)))"
    rest = f"to_json(filter({items}, _r -> NOT array_contains({strings}, to_json(_r))))"
    return Typed(f"CASE WHEN startswith({value.sql}, '{{') THEN {kept} ELSE {rest} END", JSONB)


# --- building ---------------------------------------------------------------------------------------------------


def normal_json(text: str) -> str:
    """JSON text as jsonb keeps it: sorted keys, the last of equal ones, no blanks."""
    return f"to_json(parse_json({text}))"


def json_text(value: Typed, depth: int = 0) -> str:
    """Spark SQL for a value as JSON text, which for NULL is NULL."""
    if value.type is None:
        return "CAST(NULL AS STRING)" if value.literal is None else f"to_json(CAST({value.sql} AS VARIANT))"
    kind = value.type
    if kind == JSONB:
        return value.sql
    text = cast(value, TEXT).sql if kind.name not in ("array", "struct", "map") else ""
    if kind == DOUBLE or kind == REAL:  # JSON has no NaN
        quoted = f"to_json(CAST({text} AS VARIANT))"
        finite = f"abs({value.sql}) < CAST('Infinity' AS DOUBLE)"
        return f"CASE WHEN {finite} THEN {text} ELSE {quoted} END"
    if kind == BOOLEAN or is_number(kind):
        return text
    if kind == TIMESTAMP:
        return f"concat('\"', replace({text}, ' ', 'T'), '\"')"
    if kind == TIMESTAMPTZ:
        text = zoned.printed(value.sql, zoned.current(), minutes=True)
        return f"concat('\"', replace({text}, ' ', 'T'), '\"')"
    if kind.name == "array":
        item = f"_j{depth}"
        inner = json_text(Typed(item, kind.element), depth + 1)
        return f"concat('[', array_join(transform({value.sql}, {item} -> coalesce({inner}, 'null')), ','), ']')"
    if kind.name == "map":
        item, (_, key), (_, content) = f"_j{depth}", *kind.fields
        name = f"to_json(CAST({cast(Typed(f'{item}.key', key), TEXT).sql} AS VARIANT))"
        inner = f"coalesce({json_text(Typed(f'{item}.value', content), depth + 1)}, 'null')"
        pairs = f"transform(map_entries({value.sql}), {item} -> concat({name}, ':', {inner}))"
        return f"concat('{{', array_join({pairs}, ','), '}}')"
    if kind.name == "struct":
        parts = [
            f"{spark_string(json.dumps(name, ensure_ascii=False) + ':')}, "
            f"coalesce({json_text(Typed(f'{value.sql}.{quote_spark(name)}', field), depth + 1)}, 'null')"
            for name, field in kind.fields
        ]
        joined = ", ',', ".join(parts)
        return f"CASE WHEN {value.sql} IS NOT NULL THEN concat('{{', {joined}, '}}') END"
    return f"to_json(CAST({text} AS VARIANT))"


def to_jsonb(name: str, args: list[Typed]) -> Typed:
    if len(args) != 1:
        raise no_function(name, args)
    value = cast(args[0], TEXT) if args[0].literal is not None else args[0]
    text = json_text(value)
    simple = value.type in (TEXT, BOOLEAN, JSONB) or is_integer(value.type)
    return Typed(text if simple else normal_json(text), JSONB)


def build_object(name: str, args: list[Typed]) -> Typed:
    if len(args) % 2:
        raise DataError("argument list must have even number of elements")
    missing = "CAST(raise_error('argument of jsonb_build_object must not be null') AS STRING)"
    pairs = [
        f"coalesce({json_text(cast(key, TEXT))}, {missing}), ':', coalesce({json_text(value)}, 'null')"
        for key, value in zip(args[::2], args[1::2], strict=True)
    ]
    return Typed(normal_json(_joined("{", pairs, "}")), JSONB)


def build_array(name: str, args: list[Typed]) -> Typed:
    return Typed(normal_json(_joined("[", [f"coalesce({json_text(each)}, 'null')" for each in args], "]")), JSONB)


def _joined(start: str, items: list[str], end: str) -> str:
    return "concat(" + ", ".join([spark_string(start), *_separated(items), spark_string(end)]) + ")"


def _separated(items: list[str]) -> list[str]:
    return [part for number, item in enumerate(items) for part in ([item] if number == 0 else ["','", item])]


# --- asking -----------------------------------------------------------------------------------------------------


def has_key(value: Typed, key: Typed) -> Typed:
    """``value ? key``: a field of an object, or a string in an array."""
    value = _as_jsonb("?", value, key)
    if key.type not in (None, TEXT):
        raise no_operator("?", value.type, key.type)
    return Typed(_has(value.sql, cast(key, TEXT).sql), BOOLEAN)


def _has(value: str, key: str) -> str:
    quoted = f"to_json(CAST({key} AS VARIANT))"
    return (
        f"CASE substring({value}, 1, 1) WHEN '{{' THEN array_contains(json_object_keys({value}), {key}) "
        f"WHEN '[' THEN exists({_ELEMENTS.format(value)}, _k -> to_json(_k) = {quoted}) ELSE {value} = {quoted} END"
    )


def has_keys(value: Typed, keys: Typed, *, every: bool) -> Typed:
    """``value ?| keys`` and ``value ?& keys``"""
    symbol = "?&" if every else "?|"
    value = _as_jsonb(symbol, value, keys)
    keys = cast(keys, array_of(TEXT))
    function = "forall" if every else "exists"
    return Typed(f"{function}({keys.sql}, _q -> {_has(value.sql, '_q')})", BOOLEAN)


def contains(value: Typed, part: Typed) -> Typed:
    """``value @> constant``: the constant's structure decides what is looked at."""
    value = _as_jsonb("@>", value, part)
    if part.literal is None:
        return contains_value(value, cast(part, JSONB))
    constant = json.loads(from_text(part.literal, JSONB))
    inside = _holds(value.sql, constant, 0)
    if not isinstance(constant, (dict, list)):  # an array may contain a primitive value
        inside = f"({inside} OR {_holds(value.sql, [constant], 0)})"
    return Typed(f"CASE WHEN {value.sql} IS NOT NULL THEN coalesce({inside}, false) END", BOOLEAN)


def _holds(value: str, part: Any, depth: int) -> str:
    if isinstance(part, dict):
        checks = [f"startswith({value}, '{{')"]
        for key, inner in part.items():
            field = f"to_json(variant_get(parse_json({value}), {spark_string(f'$[{_quote(key)}]')}))"
            checks.append(f"coalesce({_holds(field, inner, depth)}, false)")
        return f"({' AND '.join(checks)})"
    if isinstance(part, list):
        checks = [f"startswith({value}, '[')"]
        item = f"_h{depth}"
        for inner in part:
            found = _holds(f"to_json({item})", inner, depth + 1)
            checks.append(f"exists({_ELEMENTS.format(value)}, {item} -> coalesce({found}, false))")
        # AND does not promise an order, CASE does
        return f"(CASE WHEN {checks[0]} THEN {' AND '.join(checks[1:]) or 'true'} ELSE false END)"
    text = json.dumps(part, ensure_ascii=False)
    return f"({value} = {spark_string(from_text(text, JSONB))})"
