"""jsonb: stored as normal text, looked into as Spark's VARIANT.

>>> get(Typed("`j`", JSONB), Typed("NULL", None, literal="a"), as_text=True).sql
'variant_get(parse_json(`j`), \\'$["a"]\\', \\'string\\')'
"""

from __future__ import annotations

from headrace.errors import Unsupported
from headrace.sql.casts import cast, split_array
from headrace.sql.literals import spark_string
from headrace.sql.operators import no_operator
from headrace.sql.typed import INTEGER, JSONB, TEXT, Typed, is_integer, is_text


def get(value: Typed, key: Typed, *, as_text: bool = False) -> Typed:
    """``value -> key`` and ``value ->> key``: a field of an object or, by an integer, an element of an array."""
    value = _as_jsonb("->>" if as_text else "->", value, key)
    return _extract(value, _step(key), as_text=as_text)


def get_path(value: Typed, path: Typed, *, as_text: bool = False) -> Typed:
    """``value #> '{a,0,b}'``"""
    value = _as_jsonb("#>>" if as_text else "#>", value, path)
    if path.literal is None or not path.literal.strip().startswith("{"):
        raise Unsupported("a path for #> that is not a constant like '{a,b}' is not supported")
    *steps, last = split_array(path.literal)
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
    if step is None or not step.isdigit():
        return named
    numbered = _extract(value, f"'$[{int(step)}]'", as_text=as_text)
    return Typed(f"coalesce({numbered.sql}, {named.sql})", named.type)


def _step(key: Typed) -> str:
    """A JSON path of one step, as Spark SQL."""
    if key.literal is not None:
        return spark_string(f"$[{_quote(key.literal)}]")
    if is_integer(key.type):
        if key.sql.isdigit():
            return f"'$[{key.sql}]'"
        if key.sql.startswith("(- "):
            raise Unsupported("a negative index into a jsonb array is not supported")
        return f"concat('$[', CAST({cast(key, INTEGER).sql} AS STRING), ']')"
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
