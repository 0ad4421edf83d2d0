"""The functions Headrace knows: by name and argument types, with the Spark SQL that has PostgreSQL's result.

A function that is not known is refused; that is the point of the tables. One is in :mod:`headrace.sql.signatures`: the
functions that are a pattern. The other is here: the functions that look at their arguments before they become SQL.

>>> call_function("concat_ws", [Typed("NULL", None, literal=","), Typed("`a`", INTEGER)]).sql
"concat_ws(',', CAST(`a` AS STRING))"
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headrace.errors import Unsupported
from headrace.sql import (
    arrays,
    datetimes,
    degrees,
    intervals,
    jsonb,
    jsonb_paths,
    jsonb_texts,
    jsonpath,
    templates,
    texts,
)
from headrace.sql.casts import cast, printed
from headrace.sql.decimals import shown_decimals
from headrace.sql.format import format_text
from headrace.sql.literals import spark_string
from headrace.sql.operators import arithmetic, compare, power, same_type
from headrace.sql.signatures import SIGNATURES, call_by_signature, check_arity, no_function
from headrace.sql.typed import (
    DOUBLE,
    INTEGER,
    INTERVAL,
    JSONB,
    MAX_DIGITS,
    NUMERIC,
    TEXT,
    Typed,
    common_type,
    digits,
    is_float,
    is_integer,
    is_number,
    numeric,
    undeclared,
)
from headrace.types import SqlType

Handler = Callable[[str, list[Typed]], Typed]

VOLATILE = {
    "now", "current_timestamp", "current_date", "current_time", "localtime", "localtimestamp", "clock_timestamp",
    "statement_timestamp", "transaction_timestamp", "timeofday", "random", "proctime", "gen_random_uuid", "setseed",
    "_hr_watermark",
}  # fmt: skip
"""Functions whose result depends on more than their arguments."""


def is_volatile(call: exp.Anonymous) -> bool:
    return call.this in VOLATILE or (call.this == "age" and len(call.expressions) == 1)  # until today


PARAMETERS = {"make_interval": datetimes.INTERVAL_PARTS}
"""The functions whose arguments can be given by name, with those names."""


def call_function(name: str, args: list[Typed]) -> Typed:
    if name in SIGNATURES:
        return call_by_signature(name, args)
    if name in _HANDLERS:
        return _HANDLERS[name](name, args)
    raise Unsupported(f"function {name}() is not supported")


def is_scalar(name: str) -> bool:
    return name in SIGNATURES or name in _HANDLERS


# --- numbers ----------------------------------------------------------------------------------------------------

_CEILING = "CASE WHEN abs({0}) >= 4503599627370496D THEN {0} ELSE CAST(%s({0}) AS DOUBLE) END"  # Spark gives a bigint


def _number(name: str, value: Typed) -> Typed:
    if value.type is None:
        return cast(value, DOUBLE)
    if not is_number(value.type):
        raise no_function(name, [value])
    return value


def _abs(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 1)
    value = _number(name, args[0])
    return Typed(f"abs({value.sql})", undeclared(value.type), decimals=value.decimals)


def _ceil_floor(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 1)
    value = _number(name, args[0])
    spark = "floor" if name == "floor" else "ceil"
    if value.type.name == "numeric":
        whole = digits(value.type)[1] == 0  # then Spark leaves it alone
        return Typed(f"{spark}({value.sql})", undeclared(value.type) if whole else _rounded(value.type, 0))
    value = cast(value, DOUBLE)
    return Typed((_CEILING % spark).format(value.sql), DOUBLE)


def _sign(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 1)
    value = _number(name, args[0])
    if value.type.name == "numeric":
        return Typed(f"CAST(sign({value.sql}) AS DECIMAL(1,0))", numeric(1, 0))
    return Typed(f"sign({cast(value, DOUBLE).sql})", DOUBLE)


def _rounded(kind: SqlType, places: int) -> SqlType:
    """The type that Spark's round, ceil and floor give: rounding may need another digit before the point."""
    precision, scale = digits(kind)
    whole = precision - scale + 1
    return numeric(max(whole, 1 - places), 0) if places < 0 else numeric(whole + min(scale, places), min(scale, places))


def _scaled(value: Typed, places: int) -> Typed:
    """With as many decimals as were asked for, if the value had fewer and Spark has room for them."""
    precision, scale = digits(value.type)
    if places <= scale or precision - scale + places > MAX_DIGITS:
        return value
    kind = numeric(precision - scale + places, places)
    return Typed(f"CAST({value.sql} AS {kind.spark})", kind)


def _places(name: str, value: Typed) -> int:
    text = value.sql.removeprefix("(- ").removesuffix(")")
    if not is_integer(value.type) or not text.isdigit():
        raise Unsupported(f"{name}() to a number of digits that is not a constant is not supported")
    return -int(text) if value.sql.startswith("(- ") else int(text)


def _round(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 1, 2)
    value = _number(name, args[0])
    if len(args) == 2:
        if is_float(value.type):
            raise no_function(name, args)
        value, places = cast(value, NUMERIC), _places(name, args[1])
        return _scaled(Typed(f"round({value.sql}, {places})", _rounded(value.type, places)), places)
    if value.type.name == "numeric":
        return Typed(f"round({value.sql}, 0)", _rounded(value.type, 0))
    return Typed(f"rint({cast(value, DOUBLE).sql})", DOUBLE)


def _trunc(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 1, 2)
    value = _number(name, args[0])
    if len(args) == 2 and is_float(value.type):
        raise no_function(name, args)
    if len(args) == 2 or value.type.name == "numeric":
        value, places = cast(value, NUMERIC), _places(name, args[1]) if len(args) == 2 else 0
        sql = value.sql
        both = f"CASE WHEN {sql} < 0 THEN ceil({sql}, {places}) ELSE floor({sql}, {places}) END"
        return _scaled(Typed(both, _rounded(value.type, places)), places)
    sql = cast(value, DOUBLE).sql
    down, up = (_CEILING % "floor").format(sql), (_CEILING % "ceil").format(sql)
    return Typed(f"CASE WHEN {sql} < 0 THEN {up} ELSE {down} END", DOUBLE)


def _mod(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2)
    return arithmetic("%", *args)


def _div(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2)
    if not all(is_integer(arg.type) or arg.type is None or arg.type.name == "numeric" for arg in args):
        raise no_function(name, args)
    return _trunc("trunc", [arithmetic("/", *(cast(arg, NUMERIC) for arg in args))])


def _power(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2)
    return power(*args)


def _scale(name: str, args: list[Typed]) -> Typed:
    """scale: the digits behind the point that are printed; min_scale: without zeros at their end."""
    check_arity(name, args, 1)
    value = cast(_number(name, args[0]), NUMERIC)
    text = cast(value, TEXT).sql
    if name == "min_scale":
        text = rf"regexp_replace({text}, '(\\.[0-9]*?)0+$', '$1')"
    return Typed(rf"length(regexp_extract({text}, '\\.([0-9]*)$', 1))", INTEGER)


def _trim_scale(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 1)
    value = cast(_number(name, args[0]), NUMERIC)
    kind = numeric(MAX_DIGITS, digits(value.type)[1], free=True)
    return Typed(f"CAST({value.sql} AS {kind.spark})", kind)


# --- any type ---------------------------------------------------------------------------------------------------


def _coalesce(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 1, 1000)
    kind = common_type(name.upper(), [arg.type for arg in args]) or TEXT
    converted = [cast(arg, kind).sql for arg in args]
    if name in ("greatest", "least") and len(converted) == 1:
        return Typed(converted[0], kind)
    decimals = None
    if name == "coalesce" and kind.quotient is not None:
        whens = [f"WHEN {arg.sql} IS NOT NULL THEN {shown_decimals(arg)}" for arg in args if arg.type is not None]
        decimals = f"CASE {' '.join(whens)} END"
    return Typed(f"{name}({', '.join(converted)})", kind, decimals=decimals)


def _nullif(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2)
    left, right = same_type("=", *args)
    kept = args[0] if args[0].type is not None else left
    sql = f"CASE WHEN {compare('=', left, right).sql} THEN NULL ELSE {kept.sql} END"
    return Typed(sql, kept.type, decimals=kept.decimals)


# --- text and bytes ---------------------------------------------------------------------------------------------


def _concat(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 1, 1000)
    return Typed(f"concat({', '.join(f'coalesce({printed(arg)}, {chr(39) * 2})' for arg in args)})", TEXT)


def _concat_ws(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2, 1000)
    separator, *rest = args
    return Typed(f"concat_ws({', '.join([cast(separator, TEXT).sql, *map(printed, rest)])})", TEXT)


# --- the rest -------------------------------------------------------------------------------------------------


def _count_nulls(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 1, 1000)
    word = "IS NULL" if name == "num_nulls" else "IS NOT NULL"
    return Typed(f"({' + '.join(f'CAST({arg.sql} {word} AS INT)' for arg in args)})", INTEGER)


def _divisor(name: str, args: list[Typed]) -> Typed:
    """gcd and lcm by Euclid's algorithm, which for two numbers of 64 bits takes at most 91 steps."""
    check_arity(name, args, 2)
    args = [cast(arg, INTEGER) if arg.type is None else arg for arg in args]
    if not all(is_integer(arg.type) for arg in args):
        raise no_function(name, args)
    kind = common_type(name, [arg.type for arg in args])
    a, b = (f"CAST({arg.sql} AS DECIMAL(20,0))" for arg in args)
    pair = f"named_struct('a', abs({a}), 'b', abs({b}))"
    step = "_s -> IF(_s.b = 0, _s, named_struct('a', _s.b, 'b', CAST(_s.a % _s.b AS DECIMAL(20,0))))"
    gcd = f"aggregate(sequence(1, 91), {pair}, (_s, _n) -> {step.removeprefix('_s -> ')}, _s -> _s.a)"
    lcm = f"IF({a} = 0 OR {b} = 0, 0, abs({a} * {b}) / {gcd})"
    known = f"{a} IS NOT NULL AND {b} IS NOT NULL"
    return Typed(f"CASE WHEN {known} THEN CAST({gcd if name == 'gcd' else lcm} AS {kind.spark}) END", kind)


_POSTGRES_NAMES = {
    "varchar": "character varying",
    "text": "text",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "time": "time without time zone",
    "struct": "record",
}


def _type_name(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 1)
    kind, brackets = args[0].type, ""
    while kind is not None and kind.name == "array":
        kind, brackets = kind.element, "[]"
    if kind is None:
        return Typed("'unknown'", TEXT)
    name = "text" if kind.name == "varchar" and kind.modifier is None else kind.name
    shown = _POSTGRES_NAMES.get(name, kind.name if kind.name != "map" else str(kind))
    return Typed(spark_string(shown + brackets), TEXT)


def _length(name: str, args: list[Typed]) -> Typed:
    """What an interval is compared by: see headrace.sql.lengths."""
    check_arity(name, args, 1)
    return intervals.comparable(cast(args[0], INTERVAL))


def _timezone(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2)
    return datetimes.at_time_zone(args[1], args[0])


def _row(name: str, args: list[Typed]) -> Typed:
    args = [cast(arg, TEXT) if arg.type is None else arg for arg in args]
    fields = tuple((f"f{number}", arg.type) for number, arg in enumerate(args, 1))
    inner = ", ".join(f"'f{number}', {arg.sql}" for number, arg in enumerate(args, 1))
    return Typed(f"named_struct({inner})", SqlType("struct", fields=fields))


# --- jsonb ------------------------------------------------------------------------------------------------------


def _jsonb_path(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2, 1000)
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
    **dict.fromkeys(("scale", "min_scale"), _scale),
    "trim_scale": _trim_scale,
    **degrees.HANDLERS,
    **dict.fromkeys(("power", "pow"), _power),
    **dict.fromkeys(("coalesce", "greatest", "least"), _coalesce),
    "nullif": _nullif,
    "concat": _concat,
    "concat_ws": _concat_ws,
    **arrays.HANDLERS,
    **texts.HANDLERS,
    "row": _row,
    "format": format_text,
    "timezone": _timezone,
    **dict.fromkeys(("to_jsonb", "to_json", "row_to_json"), jsonb.to_jsonb),
    **dict.fromkeys(("jsonb_build_object", "json_build_object"), jsonb.build_object),
    **dict.fromkeys(("jsonb_build_array", "json_build_array"), jsonb.build_array),
    **dict.fromkeys(
        ("jsonb_extract_path", "jsonb_extract_path_text", "json_extract_path", "json_extract_path_text"), _jsonb_path
    ),
    **dict.fromkeys(("jsonb_set", "jsonb_insert"), jsonb_paths.change),
    **dict.fromkeys(
        ("jsonb_path_exists", "jsonb_path_match", "jsonb_path_query_array", "jsonb_path_query_first"), jsonpath.call
    ),
    **dict.fromkeys(("jsonb_strip_nulls", "json_strip_nulls"), jsonb_texts.strip_nulls),
    "jsonb_pretty": jsonb_texts.pretty,
    **dict.fromkeys(("jsonb_object", "json_object"), jsonb_paths.from_pairs),
    "extract": datetimes.extract,
    "date_part": datetimes.date_part,
    "date_trunc": datetimes.date_trunc,
    "to_char": templates.to_char,
    "to_number": templates.to_number,
    "to_date": templates.to_date,
    "date_bin": datetimes.date_bin,
    "make_interval": datetimes.make_interval,
    "to_timestamp": templates.to_timestamp,
    "age": datetimes.age,
    "current_date": datetimes.current_date,
    "localtimestamp": datetimes.localtimestamp,
    "localtime": datetimes.localtime,
    "make_time": datetimes.make_time,
    "make_timestamptz": datetimes.make_timestamptz,
    **dict.fromkeys(("justify_days", "justify_hours", "justify_interval"), datetimes.justify),
    **dict.fromkeys(("num_nulls", "num_nonnulls"), _count_nulls),
    **dict.fromkeys(("gcd", "lcm"), _divisor),
    "pg_typeof": _type_name,
    "_hr_length": _length,
}
