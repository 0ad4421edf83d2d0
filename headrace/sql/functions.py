"""The functions Headrace knows: by name and argument types, with the Spark SQL that has PostgreSQL's result.

A function that is not known is refused; that is the point of the tables. One is in :mod:`headrace.sql.signatures`: the
functions that are a pattern. The other is here: the functions that look at their arguments before they become SQL.

>>> call_function("concat_ws", [Typed("NULL", None, literal=","), Typed("`a`", INTEGER)]).sql
"concat_ws(',', CAST(`a` AS STRING))"
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.errors import Unsupported
from headrace.sql import datetimes, jsonb, regex
from headrace.sql.casts import cast
from headrace.sql.format import format_text
from headrace.sql.literals import spark_string
from headrace.sql.operators import arithmetic, power, same_type
from headrace.sql.signatures import SIGNATURES, call_by_signature, error_if, no_function
from headrace.sql.typed import (
    BOOLEAN,
    BYTEA,
    DOUBLE,
    INTEGER,
    JSONB,
    NUMERIC,
    TEXT,
    Typed,
    common_type,
    digits,
    is_float,
    is_integer,
    is_number,
    numeric,
)
from headrace.types import SqlType, array_of

Handler = Callable[[str, list[Typed]], Typed]

VOLATILE = {
    "now", "current_timestamp", "current_date", "current_time", "localtime", "localtimestamp", "clock_timestamp",
    "statement_timestamp", "transaction_timestamp", "timeofday", "random", "proctime", "gen_random_uuid", "setseed",
}  # fmt: skip
"""Functions whose result depends on more than their arguments."""


def call_function(name: str, args: list[Typed]) -> Typed:
    if name in SIGNATURES:
        return call_by_signature(name, args)
    if name in _HANDLERS:
        return _HANDLERS[name](name, args)
    raise Unsupported(f"function {name}() is not supported")


def is_scalar(name: str) -> bool:
    return name in SIGNATURES or name in _HANDLERS


def _arity(name: str, args: list[Typed], least: int, most: int | None = None) -> None:
    if not least <= len(args) <= (most or least):
        raise no_function(name, args)


# --- numbers ----------------------------------------------------------------------------------------------------

_CEILING = "CASE WHEN abs({0}) >= 4503599627370496D THEN {0} ELSE CAST(%s({0}) AS DOUBLE) END"  # Spark gives a bigint


def _number(name: str, value: Typed) -> Typed:
    if value.type is None:
        return cast(value, DOUBLE)
    if not is_number(value.type):
        raise no_function(name, [value])
    return value


def _abs(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 1)
    value = _number(name, args[0])
    return Typed(f"abs({value.sql})", value.type)


def _ceil_floor(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 1)
    value = _number(name, args[0])
    spark = "floor" if name == "floor" else "ceil"
    if value.type.name == "numeric":
        whole = digits(value.type)[1] == 0  # then Spark leaves it alone
        return Typed(f"{spark}({value.sql})", value.type if whole else _rounded(value.type, 0))
    value = cast(value, DOUBLE)
    return Typed((_CEILING % spark).format(value.sql), DOUBLE)


def _sign(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 1)
    value = _number(name, args[0])
    if value.type.name == "numeric":
        return Typed(f"CAST(sign({value.sql}) AS DECIMAL(1,0))", numeric(1, 0))
    return Typed(f"sign({cast(value, DOUBLE).sql})", DOUBLE)


def _rounded(kind: SqlType, places: int) -> SqlType:
    """The type that Spark's round, ceil and floor give: rounding may need another digit before the point."""
    precision, scale = digits(kind)
    whole = precision - scale + 1
    return numeric(max(whole, 1 - places), 0) if places < 0 else numeric(whole + min(scale, places), min(scale, places))


def _places(name: str, value: Typed) -> int:
    text = value.sql.removeprefix("(- ").removesuffix(")")
    if not is_integer(value.type) or not text.isdigit():
        raise Unsupported(f"{name}() to a number of digits that is not a constant is not supported")
    return -int(text) if value.sql.startswith("(- ") else int(text)


def _round(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 1, 2)
    value = _number(name, args[0])
    if len(args) == 2:
        if is_float(value.type):
            raise no_function(name, args)
        value, places = cast(value, NUMERIC), _places(name, args[1])
        return Typed(f"round({value.sql}, {places})", _rounded(value.type, places))
    if value.type.name == "numeric":
        return Typed(f"round({value.sql}, 0)", _rounded(value.type, 0))
    return Typed(f"rint({cast(value, DOUBLE).sql})", DOUBLE)


def _trunc(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 1, 2)
    value = _number(name, args[0])
    if len(args) == 2 and is_float(value.type):
        raise no_function(name, args)
    if len(args) == 2 or value.type.name == "numeric":
        value, places = cast(value, NUMERIC), _places(name, args[1]) if len(args) == 2 else 0
        sql = value.sql
        both = f"CASE WHEN {sql} < 0 THEN ceil({sql}, {places}) ELSE floor({sql}, {places}) END"
        return Typed(both, _rounded(value.type, places))
    sql = cast(value, DOUBLE).sql
    down, up = (_CEILING % "floor").format(sql), (_CEILING % "ceil").format(sql)
    return Typed(f"CASE WHEN {sql} < 0 THEN {up} ELSE {down} END", DOUBLE)


def _mod(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 2)
    return arithmetic("%", *args)


def _div(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 2)
    if not all(is_integer(arg.type) or arg.type is None or arg.type.name == "numeric" for arg in args):
        raise no_function(name, args)
    return _trunc("trunc", [arithmetic("/", *(cast(arg, NUMERIC) for arg in args))])


def _power(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 2)
    return power(*args)


# --- any type ---------------------------------------------------------------------------------------------------


def _coalesce(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 1, 1000)
    kind = common_type(name.upper(), [arg.type for arg in args]) or TEXT
    converted = [cast(arg, kind).sql for arg in args]
    if name in ("greatest", "least") and len(converted) == 1:
        return Typed(converted[0], kind)
    return Typed(f"{name}({', '.join(converted)})", kind)


def _nullif(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 2)
    left, right = same_type("=", *args)
    kept = args[0] if args[0].type is not None else left
    return Typed(f"CASE WHEN {left.sql} = {right.sql} THEN NULL ELSE {kept.sql} END", kept.type)


# --- text and bytes ---------------------------------------------------------------------------------------------


def _printed(value: Typed) -> str:
    """As concat() and its like print a value: with the type's output function, which for booleans is t and f."""
    if value.type == BOOLEAN:
        return f"CASE WHEN {value.sql} THEN 't' WHEN NOT {value.sql} THEN 'f' END"
    return cast(value, TEXT).sql


def _concat(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 1, 1000)
    return Typed(f"concat({', '.join(f'coalesce({_printed(arg)}, {chr(39) * 2})' for arg in args)})", TEXT)


def _concat_ws(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 2, 1000)
    separator, *rest = args
    return Typed(f"concat_ws({', '.join([cast(separator, TEXT).sql, *map(_printed, rest)])})", TEXT)


def _substring(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 2, 3)
    value, start = args[0], args[1]
    if value.type is None:
        value = cast(value, TEXT)
    if value.type not in (TEXT, BYTEA):
        raise no_function(name, args)
    if start.type == TEXT or start.literal is not None:
        if len(args) == 3:
            raise Unsupported("SUBSTRING with an escape character is not supported")
        return _regexp_substring(value, start)
    start = cast(start, INTEGER)
    if start.sql.isdigit() and int(start.sql) > 0 and (len(args) == 2 or args[2].sql.isdigit()):
        # nothing to correct
        return Typed(f"substring({', '.join([value.sql, start.sql] + [arg.sql for arg in args[2:]])})", value.type)
    first = f"greatest({start.sql}, 1)"
    if len(args) == 2:
        return Typed(f"CASE WHEN {start.sql} IS NOT NULL THEN substring({value.sql}, {first}) END", value.type)
    # Positions before the string count, too: substring('abc', 0, 2) is 'a'. Spark would count them from the end.
    length = cast(args[2], INTEGER).sql
    end = f"CAST({start.sql} AS BIGINT) + {length}"
    sql = f"substring({value.sql}, {first}, CAST(least(greatest({end} - {first}, 0), 2147483647) AS INT))"
    checked = error_if(f"{length} < 0", "negative substring length not allowed", sql)
    return Typed(f"CASE WHEN {start.sql} IS NULL OR {length} IS NULL THEN NULL ELSE {checked} END", value.type)


def _constant_pattern(value: Typed, *, ignore_case: bool = False) -> str:
    if value.literal is None:
        raise Unsupported("a regular expression that is not a string constant is not supported")
    return regex.java_regex(value.literal, ignore_case=ignore_case)


def _regexp_substring(value: Typed, pattern: Typed) -> Typed:
    java = spark_string(_constant_pattern(pattern))
    if regex.groups(pattern.literal):
        return Typed(f"CASE WHEN {value.sql} RLIKE {java} THEN regexp_extract({value.sql}, {java}, 1) END", TEXT)
    return Typed(f"regexp_substr({value.sql}, {java})", TEXT)


def _flags(name: str, value: Typed | None, known: str) -> str:
    if value is None:
        return ""
    if value.literal is None or set(value.literal) - set(known):
        raise Unsupported(
            f"flags {value.literal or value.sql} of {name}() are not supported", hint=f"known are: {known}"
        )
    return value.literal


def _regexp_like(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 2, 3)
    flags = _flags(name, args[2] if len(args) > 2 else None, "i")
    pattern = spark_string(_constant_pattern(args[1], ignore_case="i" in flags))
    return Typed(f"({cast(args[0], TEXT).sql} RLIKE {pattern})", BOOLEAN)


def _regexp_count(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 2)
    return Typed(f"regexp_count({cast(args[0], TEXT).sql}, {spark_string(_constant_pattern(args[1]))})", INTEGER)


def _regexp_match(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 2, 3)
    flags = _flags(name, args[2] if len(args) > 2 else None, "i")
    value, pattern = cast(args[0], TEXT).sql, _constant_pattern(args[1], ignore_case="i" in flags)
    java, count = spark_string(pattern), regex.groups(args[1].literal)
    found = [f"regexp_extract({value}, {java}, {group})" for group in (range(1, count + 1) if count else [0])]
    return Typed(f"CASE WHEN {value} RLIKE {java} THEN array({', '.join(found)}) END", array_of(TEXT))


def _regexp_replace(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 3, 4)
    flags = _flags(name, args[3] if len(args) > 3 else None, "gi")
    pattern = _constant_pattern(args[1], ignore_case="i" in flags)
    if args[2].literal is None:
        raise Unsupported("regexp_replace() with a replacement that is not a string constant is not supported")
    value, everywhere = cast(args[0], TEXT).sql, "g" in flags
    shift = 0 if everywhere else 1
    if not everywhere:
        # Spark replaces every match; the first is the one after as little as possible.
        prefix, body = pattern[: pattern.index(")") + 1], pattern[pattern.index(")") + 1 :]
        if any(f"\\{digit}" in body for digit in "123456789"):
            raise Unsupported("regexp_replace() with a back reference in the pattern needs the flag g")
        pattern = f"{prefix}\\A(.*?)(?:{body})"
    replacement = ("" if everywhere else "$1") + _java_replacement(args[2].literal, shift)
    return Typed(f"regexp_replace({value}, {spark_string(pattern)}, {spark_string(replacement)})", TEXT)


def _java_replacement(text: str, shift: int) -> str:
    out, position = [], 0
    while position < len(text):
        character, following = text[position], text[position + 1 : position + 2]
        if character == "\\" and (following.isdigit() or following == "&"):
            group = 0 if following == "&" else int(following)
            if group == 0 and shift:
                raise Unsupported("\\& in regexp_replace() needs the flag g")
            out.append(f"${group + shift}")
            position += 2
            if position < len(text) and text[position].isdigit():
                raise Unsupported(f"a digit after {text[position - 2 : position]} in regexp_replace() is not supported")
        elif character == "\\" and following:
            out.append("\\" + following)
            position += 2
        else:
            out.append("\\" + character if character in "$\\" else character)
            position += 1
    return "".join(out)


def _encode(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 2)
    value, encoding = args
    known = {
        ("encode", "hex"): "lower(hex({0}))",
        ("encode", "base64"): "base64({0})",
        # Spark's unhex gives NULL for what is no hexadecimal number
        ("decode", "hex"): error_if(
            "{0} IS NOT NULL AND (length({0}) % 2 = 1 OR unhex({0}) IS NULL)", "invalid hexadecimal data", "unhex({0})"
        ),
        ("decode", "base64"): "unbase64({0})",
    }
    template = known.get((name, (encoding.literal or "").lower()))
    if template is None:
        raise Unsupported(f"{name}() is only supported with the constants 'hex' and 'base64'")
    if name == "encode":
        return Typed(template.format(cast(value, BYTEA).sql), TEXT)
    return Typed(template.format(cast(value, TEXT).sql), BYTEA)


# --- arrays -----------------------------------------------------------------------------------------------------


def _array(name: str, value: Typed) -> Typed:
    if value.type is None or value.type.name != "array":
        raise no_function(name, [value])
    return value


def _cardinality(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 1)
    return Typed(f"size({_array(name, args[0]).sql})", INTEGER)


def _array_length(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 1, 2)
    if len(args) == 2 and args[1].sql != "1":
        raise Unsupported(f"{name}() of a dimension other than 1 is not supported")
    return Typed(f"nullif(size({_array(name, args[0]).sql}), 0)", INTEGER)


def _with_element(name: str, array: Typed, element: Typed) -> tuple[str, str, SqlType]:
    """An array and an element, converted to fit each other."""
    array = _array(name, array)
    kind = common_type("array", [array.type.element, element.type])
    return cast(array, array_of(kind)).sql, cast(element, kind).sql, array_of(kind)


def _array_append(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 2)
    array, element, kind = _with_element(name, *(args if name == "array_append" else reversed(args)))
    parts = [f"coalesce({array}, array())", f"array({element})"]
    return Typed(f"concat({', '.join(parts if name == 'array_append' else reversed(parts))})", kind)


def _array_cat(name: str, args: list[Typed]) -> Typed:
    from headrace.sql.operators import concatenate

    _arity(name, args, 2)
    return concatenate(*args)


def _array_position(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 2)
    array, element, _ = _with_element(name, *args)
    return Typed(f"CAST(nullif(array_position({array}, {element}), 0) AS INT)", INTEGER)


def _array_remove(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 2)
    array, element, kind = _with_element(name, *args)
    return Typed(f"filter({array}, _e -> NOT (_e <=> {element}))", kind)


def _array_replace(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 3)
    array, old, kind = _with_element(name, *args[:2])
    new = cast(args[2], kind.element).sql
    return Typed(f"transform({array}, _e -> CASE WHEN _e <=> {old} THEN {new} ELSE _e END)", kind)


def _array_same(spark: str) -> Handler:
    def handler(name: str, args: list[Typed]) -> Typed:
        _arity(name, args, 1)
        return Typed(f"{spark}({_array(name, args[0]).sql})", args[0].type)

    return handler


def _array_element(spark: str) -> Handler:
    def handler(name: str, args: list[Typed]) -> Typed:
        _arity(name, args, 1)
        return Typed(f"{spark}({_array(name, args[0]).sql})", args[0].type.element)

    return handler


def _array_to_string(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 2, 3)
    array = _array(name, args[0])
    element = array.type.element
    if element == TEXT or is_integer(element):  # Spark takes no subquery inside transform
        texts = f"CAST({array.sql} AS ARRAY<STRING>)"
    else:
        texts = f"transform({array.sql}, _e -> {_printed(Typed('_e', element))})"
    rest = ", ".join(cast(arg, TEXT).sql for arg in args[1:])
    return Typed(f"array_join({texts}, {rest})", TEXT)


def _string_to_array(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 2)
    value, separator = cast(args[0], TEXT).sql, args[1]
    if not separator.literal:
        raise Unsupported("string_to_array() is only supported with a constant separator that is not empty")
    quoted = spark_string("\\Q" + separator.literal.replace("\\E", "\\E\\\\E\\Q") + "\\E")
    return Typed(
        f"CASE WHEN {value} = '' THEN CAST(array() AS ARRAY<STRING>) ELSE split({value}, {quoted}) END", array_of(TEXT)
    )


def _array_or_empty(name: str, args: list[Typed]) -> Typed:
    """What ARRAY(subquery) becomes: an array_agg() that is not NULL over no rows."""
    _arity(name, args, 1)
    array = _array(name, args[0])
    return Typed(f"coalesce({array.sql}, CAST(array() AS {array.type.spark}))", array.type)


def _timezone(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 2)
    return datetimes.at_time_zone(args[1], args[0])


def _row(name: str, args: list[Typed]) -> Typed:
    args = [cast(arg, TEXT) if arg.type is None else arg for arg in args]
    fields = tuple((f"f{number}", arg.type) for number, arg in enumerate(args, 1))
    inner = ", ".join(f"'f{number}', {arg.sql}" for number, arg in enumerate(args, 1))
    return Typed(f"named_struct({inner})", SqlType("struct", fields=fields))


# --- jsonb ------------------------------------------------------------------------------------------------------


def _jsonb_path(name: str, args: list[Typed]) -> Typed:
    _arity(name, args, 2, 1000)
    value = cast(args[0], JSONB)
    for key in args[1:-1]:
        value = jsonb.get(value, key)
    return jsonb.get(value, args[-1], as_text=name.endswith("_text"))


_HANDLERS: dict[str, Handler] = {
    "abs": _abs,
    **dict.fromkeys(("ceil", "ceiling", "floor"), _ceil_floor),
    "sign": _sign,
    "round": _round,
    "trunc": _trunc,
    "mod": _mod,
    "div": _div,
    **dict.fromkeys(("power", "pow"), _power),
    **dict.fromkeys(("coalesce", "greatest", "least"), _coalesce),
    "nullif": _nullif,
    "concat": _concat,
    "concat_ws": _concat_ws,
    **dict.fromkeys(("substring", "substr"), _substring),
    "regexp_like": _regexp_like,
    "regexp_count": _regexp_count,
    "regexp_match": _regexp_match,
    "regexp_replace": _regexp_replace,
    **dict.fromkeys(("encode", "decode"), _encode),
    "cardinality": _cardinality,
    "array_length": _array_length,
    **dict.fromkeys(("array_append", "array_prepend"), _array_append),
    "array_cat": _array_cat,
    "array_position": _array_position,
    "array_remove": _array_remove,
    "array_replace": _array_replace,
    "array_distinct": _array_same("array_distinct"),
    "array_max": _array_element("array_max"),
    "array_min": _array_element("array_min"),
    "array_to_string": _array_to_string,
    "string_to_array": _string_to_array,
    "row": _row,
    "_array_or_empty": _array_or_empty,
    "format": format_text,
    "timezone": _timezone,
    **dict.fromkeys(("to_jsonb",), jsonb.to_jsonb),
    **dict.fromkeys(("jsonb_build_object", "json_build_object"), jsonb.build_object),
    **dict.fromkeys(("jsonb_build_array", "json_build_array"), jsonb.build_array),
    **dict.fromkeys(("jsonb_extract_path", "jsonb_extract_path_text"), _jsonb_path),
    "extract": datetimes.extract,
    "date_part": datetimes.date_part,
    "date_trunc": datetimes.date_trunc,
    "to_char": datetimes.to_char,
    "to_date": datetimes.to_date,
    "date_bin": datetimes.date_bin,
    "make_interval": datetimes.make_interval,
}
