"""Functions of arrays, with PostgreSQL's results.

>>> from headrace.types import SqlType
>>> dimensions(array_of(array_of(SqlType("integer"))))
2
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.errors import Unsupported
from headrace.sql.casts import cast, error_if, printed
from headrace.sql.intervals import comparable
from headrace.sql.operators import compare, concatenate
from headrace.sql.signatures import check_arity, no_function
from headrace.sql.typed import BIGINT, DOUBLE, INTEGER, TEXT, Typed, common_type, is_integer
from headrace.types import SqlType, array_of

Handler = Callable[[str, list[Typed]], Typed]


def _array(name: str, value: Typed) -> Typed:
    if value.type is None or value.type.name != "array":
        raise no_function(name, [value])
    return value


def _cardinality(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 1)
    if args[0].type is not None and args[0].type.name == "map":
        return Typed(f"size({args[0].sql})", INTEGER)
    array, depth = _array(name, args[0]), dimensions(args[0].type)
    flat = "flatten(" * (depth - 1) + array.sql + ")" * (depth - 1)
    return Typed(f"size({flat})", INTEGER)


def dimensions(kind: SqlType) -> int:
    return 1 + dimensions(kind.element) if kind.name == "array" else 0


def _bound(name: str, args: list[Typed]) -> Typed:
    """array_length, array_upper, array_lower: of an array that is NULL, empty, or flatter than that, NULL."""
    check_arity(name, args, 1 if name == "array_length" else 2, 2)
    array, dimension = _array(name, args[0]), args[1].sql if len(args) == 2 else "1"
    if not dimension.isdigit():
        raise Unsupported(f"{name}() of a dimension that is not a constant is not supported")
    if not 1 <= int(dimension) <= dimensions(array.type):
        return Typed("CAST(NULL AS INT)", INTEGER)
    inner = array.sql
    for _ in range(int(dimension) - 1):
        inner = f"get({inner}, 0)"
    length = f"CASE WHEN size({inner}) > 0 THEN size({inner}) END"
    return Typed(f"CASE WHEN {length} > 0 THEN 1 END" if name == "array_lower" else length, INTEGER)


def _array_ndims(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 1)
    array = _array(name, args[0])
    return Typed(f"CASE WHEN size({array.sql}) > 0 THEN {dimensions(array.type)} END", INTEGER)


def _array_dims(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 1)
    array = _array(name, args[0])
    lengths = [
        _bound("array_length", [array, Typed(str(n), INTEGER)]).sql for n in range(1, dimensions(array.type) + 1)
    ]
    shown = [f"'[1:', {length}, ']'" for length in lengths]
    return Typed(f"concat({', '.join(shown)})", TEXT)


def _array_fill(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2)
    value = cast(args[0], TEXT) if args[0].type is None else args[0]
    sizes = cast(_array(name, args[1]), array_of(INTEGER)).sql
    one = error_if(f"size({sizes}) > 1", "array_fill() of several dimensions is not supported", f"get({sizes}, 0)")
    return Typed(f"array_repeat({value.sql}, {one})", array_of(value.type))


def _trim_array(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2)
    array, count = _array(name, args[0]), cast(args[1], INTEGER).sql
    wrong = f"{count} < 0 OR {count} > size({array.sql})"
    kept = f"slice({array.sql}, 1, size({array.sql}) - {count})"
    return Typed(error_if(wrong, "number of elements to trim must be between 0 and the length", kept), array.type)


def _array_positions(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2)
    array, element, kind = _with_element(name, *args)
    numbered = f"transform({array}, (_e, _n) -> CASE WHEN {_same(element, kind)} THEN _n + 1 END)"
    return Typed(f"array_compact({numbered})", array_of(INTEGER))


def _width_bucket(name: str, args: list[Typed]) -> Typed:
    """Of a value among sorted bounds, or among equal parts of a range."""
    if len(args) == 2:
        array, value, kind = _with_element(name, args[1], args[0])
        reached = compare("<=", Typed("_e", kind.element), Typed(value, kind.element)).sql
        return Typed(f"CASE WHEN {value} IS NOT NULL THEN size(filter({array}, _e -> {reached})) END", INTEGER)
    check_arity(name, args, 4)
    value, low, high = (cast(arg, DOUBLE).sql for arg in args[:3])
    return Typed(f"CAST(width_bucket({value}, {low}, {high}, {cast(args[3], BIGINT).sql}) AS INT)", INTEGER)


def _with_element(name: str, array: Typed, element: Typed) -> tuple[str, str, SqlType]:
    """An array and an element, converted to fit each other."""
    array = _array(name, array)
    kind = common_type("array", [array.type.element, element.type])
    return cast(array, array_of(kind)).sql, cast(element, kind).sql, array_of(kind)


def _same(element: str, kind: SqlType) -> str:
    """Whether _e, an element of an array of that type, is the other one, or NULL as it is."""
    return compare("<=>", Typed("_e", kind.element), Typed(element, kind.element)).sql


def _array_append(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2)
    array, element, kind = _with_element(name, *(args if name == "array_append" else reversed(args)))
    parts = [f"coalesce({array}, array())", f"array({element})"]
    return Typed(f"concat({', '.join(parts if name == 'array_append' else reversed(parts))})", kind)


def _array_cat(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2)
    return concatenate(*args)


def _array_position(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2, 3)
    array, element, kind = _with_element(name, *args[:2])
    if len(args) == 3:
        start = cast(args[2], INTEGER).sql
        matches = _array_positions("array_positions", args[:2]).sql
        return Typed(f"array_min(filter({matches}, _e -> _e >= {start}))", INTEGER)
    array, element = (comparable(Typed(sql, each)).sql for sql, each in ((array, kind), (element, kind.element)))
    return Typed(f"CAST(nullif(array_position({array}, {element}), 0) AS INT)", INTEGER)


def _array_remove(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2)
    array, element, kind = _with_element(name, *args)
    return Typed(f"filter({array}, _e -> NOT {_same(element, kind)})", kind)


def _array_replace(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 3)
    array, old, kind = _with_element(name, *args[:2])
    new = cast(args[2], kind.element).sql
    return Typed(f"transform({array}, _e -> CASE WHEN {_same(old, kind)} THEN {new} ELSE _e END)", kind)


def _array_same(spark: str) -> Handler:
    def handler(name: str, args: list[Typed]) -> Typed:
        check_arity(name, args, 1)
        return Typed(f"{spark}({_array(name, args[0]).sql})", args[0].type)

    return handler


def _array_element(spark: str) -> Handler:
    def handler(name: str, args: list[Typed]) -> Typed:
        check_arity(name, args, 1)
        return Typed(f"{spark}({_array(name, args[0]).sql})", args[0].type.element)

    return handler


def _array_to_string(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2, 3)
    array = _array(name, args[0])
    element = array.type.element
    if element == TEXT or is_integer(element):  # Spark takes no subquery inside transform
        texts = f"CAST({array.sql} AS ARRAY<STRING>)"
    else:
        texts = f"transform({array.sql}, _e -> {printed(Typed('_e', element))})"
    rest = ", ".join(cast(arg, TEXT).sql for arg in args[1:])
    return Typed(f"array_join({texts}, {rest})", TEXT)


def _array_or_empty(name: str, args: list[Typed]) -> Typed:
    """What ARRAY(subquery) becomes: an array_agg() that is not NULL over no rows."""
    check_arity(name, args, 1)
    array = _array(name, args[0])
    return Typed(f"coalesce({array.sql}, CAST(array() AS {array.type.spark}))", array.type)


HANDLERS: dict[str, Handler] = {
    "cardinality": _cardinality,
    **dict.fromkeys(("array_length", "array_upper", "array_lower"), _bound),
    "array_ndims": _array_ndims,
    "array_dims": _array_dims,
    "array_fill": _array_fill,
    "trim_array": _trim_array,
    **dict.fromkeys(("array_append", "array_prepend"), _array_append),
    "array_cat": _array_cat,
    "array_position": _array_position,
    "array_positions": _array_positions,
    "array_remove": _array_remove,
    "array_replace": _array_replace,
    "array_distinct": _array_same("array_distinct"),
    "array_max": _array_element("array_max"),
    "array_min": _array_element("array_min"),
    "array_to_string": _array_to_string,
    "width_bucket": _width_bucket,
    "_array_or_empty": _array_or_empty,
}
