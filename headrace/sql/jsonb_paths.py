"""jsonb values changed at a path: jsonb_set, jsonb_insert, ``#-``; and one value looked for in another.

Spark SQL has no recursion. A path is unrolled step by step, which is why it must be a constant; what ``@>`` looks for
is followed to a depth of LEVELS. A value is given to a lambda where it is used more than once, so that the SQL grows
with the path, and not faster.
"""

from __future__ import annotations

from headrace.errors import DataError, Unsupported
from headrace.sql.casts import cast
from headrace.sql.composites import array_items
from headrace.sql.literals import spark_string
from headrace.sql.signatures import check_arity
from headrace.sql.typed import BOOLEAN, JSONB, TEXT, Typed
from headrace.types import array_of

LEVELS = 4

_ITEMS = "CAST(parse_json({}) AS ARRAY<VARIANT>)"
_FIELDS = "CAST(parse_json({}) AS MAP<STRING, VARIANT>)"


def _steps(name: str, path: Typed) -> list[str]:
    if path.literal is None or not path.literal.strip().startswith("{"):
        raise Unsupported(f"{name} with a path that is not a constant like '{{a,b}}' is not supported")
    steps = array_items(path.literal)
    if any(step is None for step in steps):
        raise DataError("path element must not be null", sqlstate="22004")
    return steps


def _is_index(step: str) -> bool:
    return step.removeprefix("-").isdigit()


def _let(value: str, name: str, body: str) -> str:
    return f"get(transform(array({value}), {name} -> {body}), 0)"


def jsonb_order(array: str, key: str = "") -> str:
    """Keys, or what has them, in the order that PostgreSQL keeps: shorter ones first."""
    a, b = f"_a{key}", f"_b{key}"
    shorter = f"octet_length({a}) < octet_length({b}) OR (octet_length({a}) = octet_length({b}) AND {a} < {b})"
    return f"array_sort({array}, (_a, _b) -> CASE WHEN {a} = {b} THEN 0 WHEN {shorter} THEN -1 ELSE 1 END)"


def change(name: str, args: list[Typed]) -> Typed:
    """jsonb_set(value, path, new [, create]) and jsonb_insert(value, path, new [, after])"""
    check_arity(name, args, 3, 4)
    value, new = cast(args[0], JSONB).sql, cast(args[2], JSONB).sql
    flag = (args[3].sql if args[3].type == BOOLEAN else cast(args[3], BOOLEAN).sql) if len(args) == 4 else None
    if flag not in (None, "true", "false"):
        raise Unsupported(f"{name}() with a fourth argument that is not a constant is not supported")
    steps = _steps(f"{name}()", args[1])
    insert = name == "jsonb_insert"
    options = {"insert": insert, "create": flag != "false", "after": insert and flag == "true"}
    # what is new is the same on every level, and is not a part of what the lambdas go through
    body = _in_container("set", _changed("_s", steps, "_n", 0, **options))
    changed = f"get(zip_with(array({value}), array({new}), (_s, _n) -> {body}), 0)"
    return Typed(f"CASE WHEN {value} IS NOT NULL AND {new} IS NOT NULL THEN {changed} END", JSONB)


def _in_container(verb: str, body: str) -> str:
    scalar = "NOT startswith(_s, '{') AND NOT startswith(_s, '[')"
    return f"CASE WHEN {scalar} THEN raise_error('cannot {verb} path in scalar') ELSE {body} END"


def _changed(value: str, steps: list[str], new: str, depth: int, *, insert: bool, create: bool, after: bool) -> str:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    key = spark_string(step)
    fields, items = _FIELDS.format(value), _ITEMS.format(value)
    inner, k, v, i = f"_c{depth}", f"_k{depth}", f"_v{depth}", f"_i{depth}"

    def below(child: str) -> str:
        text = _changed(inner, rest, new, depth + 1, insert=insert, create=create, after=after)
        return f"parse_json({_let(f'to_json({child})', inner, text)})"

    if rest:
        object_value = f"transform_values({fields}, ({k}, {v}) -> IF({k} = {key}, {below(v)}, {v}))"
    elif insert:
        known = f"map_contains_key({fields}, {key})"
        refused = "raise_error('cannot replace existing key')"
        object_value = f"IF({known}, {refused}, map_concat({fields}, map({key}, parse_json({new}))))"
    else:
        others = f"map_concat(map_filter({fields}, (_k, _v) -> _k <> {key}), map({key}, parse_json({new})))"
        object_value = others if create else f"IF(map_contains_key({fields}, {key}), {others}, {fields})"
    whens = f"WHEN startswith({value}, '{{') THEN to_json(to_variant_object({object_value}))"
    if not _is_index(step):
        wrong = spark_string(f"path element is not an integer: {step}")
        return f"CASE {whens} WHEN startswith({value}, '[') THEN raise_error({wrong}) ELSE {value} END"
    index, size = int(step), f"size({items})"
    at = str(index) if index >= 0 else f"({size} + ({index}))"
    if rest:
        array_value = f"transform({items}, ({v}, {i}) -> IF({i} = {at}, {below(v)}, {v}))"
    elif insert:
        place = f"greatest(0, least({size}, {at} + {int(after)}))"
        array_value = (
            f"concat(slice({items}, 1, {place}), array(parse_json({new})), slice({items}, {place} + 1, {size}))"
        )
    else:
        inside = f"transform({items}, (_v, _i) -> IF(_i = {at}, parse_json({new}), _v))"
        ends = f"IF({at} < 0, concat(array(parse_json({new})), {items}), concat({items}, array(parse_json({new}))))"
        outside = ends if create else items
        array_value = f"IF({at} >= 0 AND {at} < {size}, {inside}, {outside})"
    return f"CASE {whens} WHEN startswith({value}, '[') THEN to_json({array_value}) ELSE {value} END"


def remove_path(value: Typed, path: Typed) -> Typed:
    """``value #- path``"""
    value = cast(value, JSONB)
    body = _in_container("delete", _removed("_s", _steps("#-", path), 0))
    return Typed(_let(value.sql, "_s", body), JSONB)


def _removed(value: str, steps: list[str], depth: int) -> str:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    key, inner = spark_string(step), f"_c{depth}"
    fields, items = _FIELDS.format(value), _ITEMS.format(value)

    def below(child: str) -> str:
        return f"parse_json({_let(f'to_json({child})', inner, _removed(inner, rest, depth + 1))})"

    k, v, i = f"_k{depth}", f"_v{depth}", f"_i{depth}"
    if rest:
        kept = f"transform_values({fields}, ({k}, {v}) -> IF({k} = {key}, {below(v)}, {v}))"
    else:
        kept = f"map_filter({fields}, ({k}, {v}) -> {k} <> {key})"
    whens = f"WHEN startswith({value}, '{{') THEN to_json(to_variant_object({kept}))"
    if _is_index(step):
        at = step if int(step) >= 0 else f"(size({items}) + ({step}))"
        if rest:
            left = f"transform({items}, ({v}, {i}) -> IF({i} = {at}, {below(v)}, {v}))"
        else:
            left = f"filter({items}, ({v}, {i}) -> {i} <> {at})"
        whens += f" WHEN startswith({value}, '[') THEN to_json({left})"
    return f"CASE {whens} ELSE {value} END"


# --- @> with something else than a constant on its right --------------------------------------------------------


def contains(value: Typed, part: Typed) -> Typed:
    """``value @> part``: objects by their keys, arrays as sets; an array may also contain a primitive value."""
    body = _holds("_a", "_b", 0)
    primitive = "NOT startswith(_b, '{') AND NOT startswith(_b, '[') AND startswith(_a, '[')"
    top = f"IF({primitive}, exists({_ITEMS.format('_a')}, _x -> to_json(_x) = _b), {body})"
    sides = f"{value.sql} IS NOT NULL AND {part.sql} IS NOT NULL"
    held = f"get(zip_with(array({value.sql}), array({part.sql}), (_a, _b) -> {top}), 0)"
    return Typed(f"CASE WHEN {sides} THEN {held} END", BOOLEAN)


def _holds(value: str, part: str, depth: int) -> str:
    if depth == LEVELS:
        deep = f"raise_error('@> looks no deeper than {LEVELS} levels into a value that is not a constant')"
        nested = f"startswith({part}, '{{') OR startswith({part}, '[')"
        return f"IF({nested}, {deep}, {value} = {part})"
    entry, item, other = f"_p{depth}", f"_q{depth}", f"_o{depth}"

    def below(left: str, right: str) -> str:
        a, b = f"_a{depth}", f"_b{depth}"
        inner = _holds(a, b, depth + 1)
        return f"get(zip_with(array(to_json({left})), array(to_json({right})), ({a}, {b}) -> {inner}), 0)"

    fields = _FIELDS.format(value)
    named = f"coalesce({below(f'{fields}[{entry}.key]', f'{entry}.value')}, false)"
    objects = f"forall(map_entries({_FIELDS.format(part)}), {entry} -> {named})"
    arrays = f"forall({_ITEMS.format(part)}, {item} -> exists({_ITEMS.format(value)}, {other} -> {below(other, item)}))"
    return (
        f"CASE WHEN startswith({part}, '{{') THEN CASE WHEN startswith({value}, '{{') THEN {objects} ELSE false END "
        f"WHEN startswith({part}, '[') THEN CASE WHEN startswith({value}, '[') THEN {arrays} ELSE false END "
        f"ELSE {value} = {part} END"
    )


# --- building ---------------------------------------------------------------------------------------------------


def from_pairs(name: str, args: list[Typed]) -> Typed:
    """jsonb_object('{key, value, …}') and jsonb_object(keys, values)"""
    check_arity(name, args, 1, 2)
    texts = [cast(arg, array_of(TEXT)).sql for arg in args]
    if len(args) == 2:
        keys, values = texts
    else:
        keys = f"filter({texts[0]}, (_e, _i) -> _i % 2 = 0)"
        values = f"filter({texts[0]}, (_e, _i) -> _i % 2 = 1)"
    pairs = f"map_from_arrays({keys}, transform({values}, _e -> CAST(_e AS VARIANT)))"
    return Typed(f"to_json(to_variant_object({pairs}))", JSONB)
