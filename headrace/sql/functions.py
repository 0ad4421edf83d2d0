"""The functions Headrace knows: by name and argument types, with the Spark SQL that has PostgreSQL's result.

A function that is not here is refused; that is the point of the table. ``{0}`` and so on are the arguments, already
converted to the parameter types of the signature that matched.

>>> call_function("concat_ws", [Typed("NULL", None, literal=","), Typed("`a`", INTEGER)]).sql
"concat_ws(',', CAST(`a` AS STRING))"
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.errors import TypeMismatch, Unsupported
from headrace.sql import datetimes, regex
from headrace.sql.casts import cast
from headrace.sql.literals import spark_string
from headrace.sql.operators import arithmetic, power, same_type
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
    converts_implicitly,
    describe,
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
    if name in _SIGNATURES:
        return _by_signature(name, args)
    if name in _HANDLERS:
        return _HANDLERS[name](name, args)
    raise Unsupported(f"function {name}() is not supported")


def is_scalar(name: str) -> bool:
    return name in _SIGNATURES or name in _HANDLERS


def no_function(name: str, args: Sequence[Typed]) -> TypeMismatch:
    return TypeMismatch(
        f"function {name}({', '.join(describe(arg.type) for arg in args)}) does not exist",
        hint="No function matches the given name and argument types. You might need to add explicit type casts.",
    )


# --- functions that are a pattern -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Signature:
    parameters: tuple[SqlType, ...]
    returns: SqlType
    template: str


_ABBREVIATIONS = {"int": "integer", "double": "double precision", "text": "varchar"}


def _kind(word: str) -> SqlType:
    return SqlType(_ABBREVIATIONS.get(word, word))


def _signature(parameters: str, returns: str, template: str) -> Signature:
    return Signature(parameters=tuple(map(_kind, parameters.split())), returns=_kind(returns), template=template)


def _by_signature(name: str, args: list[Typed]) -> Typed:
    candidates = [each for each in _SIGNATURES[name] if len(each.parameters) == len(args)]
    exact = [
        each for each in candidates if all(a.type in (None, p) for a, p in zip(args, each.parameters, strict=True))
    ]
    loose = [
        each
        for each in candidates
        if all(converts_implicitly(a.type, p) for a, p in zip(args, each.parameters, strict=True))
    ]
    for signature in exact + loose:
        converted = [cast(arg, kind).sql for arg, kind in zip(args, signature.parameters, strict=True)]
        return Typed(signature.template.format(*converted), signature.returns)
    raise no_function(name, args)


def _checked(condition: str, message: str, result: str) -> str:
    """An error where PostgreSQL has one and Spark would go on."""
    return f"CASE WHEN {condition} THEN raise_error('{message}') ELSE {result} END"


_SQRT = _checked("{0} < 0", "cannot take square root of a negative number", "sqrt({0})")
_LOGARITHM = "CASE WHEN {0} <= 0 THEN raise_error('cannot take logarithm of zero or a negative number') ELSE %s END"
_CEILING = "CASE WHEN abs({0}) >= 4503599627370496D THEN {0} ELSE CAST(%s({0}) AS DOUBLE) END"  # Spark gives a bigint
_WORDS = r"regexp_extract_all({0}, '([\\p{{L}}\\p{{Nd}}]+|[^\\p{{L}}\\p{{Nd}}]+)', 0)"

_JSONB_TYPE = (
    "CASE substring({0}, 1, 1) WHEN '{{' THEN 'object' WHEN '[' THEN 'array' WHEN '\"' THEN 'string' "
    "WHEN 't' THEN 'boolean' WHEN 'f' THEN 'boolean' WHEN 'n' THEN 'null' "
    "ELSE CASE WHEN {0} IS NOT NULL THEN 'number' END END"
)

_SIGNATURES: dict[str, list[Signature]] = {
    name: [_signature(*each) for each in signatures]
    for name, signatures in {
        # numbers
        "sqrt": [("double", "double", _SQRT)],
        "cbrt": [("double", "double", "cbrt({0})")],
        "exp": [("double", "double", "exp({0})")],
        "ln": [("double", "double", _LOGARITHM % "ln({0})")],
        "log": [
            ("double", "double", _LOGARITHM % "log10({0})"),
            ("double double", "double", _LOGARITHM % "log({0}, {1})"),
        ],
        "log10": [("double", "double", _LOGARITHM % "log10({0})")],
        **{
            each: [("double", "double", f"{each}({{0}})")]
            for each in (
                "sin",
                "cos",
                "tan",
                "cot",
                "asin",
                "acos",
                "atan",
                "sinh",
                "cosh",
                "tanh",
                "asinh",
                "acosh",
                "atanh",
                "degrees",
                "radians",
            )
        },  # fmt: skip
        "atan2": [("double double", "double", "atan2({0}, {1})")],
        "pi": [("", "double", "pi()")],
        "random": [("", "double", "rand()")],
        "to_hex": [
            ("int", "text", "lower(hex(CAST({0} AS BIGINT) & 4294967295L))"),
            ("bigint", "text", "lower(hex({0}))"),
        ],
        # text
        "lower": [("text", "text", "lower({0})")],
        "upper": [("text", "text", "upper({0})")],
        # Spark's initcap sees words only between blanks
        "initcap": [
            (
                "text",
                "text",
                f"array_join(transform({_WORDS}, _w -> concat(upper(left(_w, 1)), lower(substring(_w, 2)))), '')",
            )
        ],
        "length": [("text", "int", "length({0})"), ("bytea", "int", "length({0})")],
        "char_length": [("text", "int", "length({0})")],
        "character_length": [("text", "int", "length({0})")],
        "octet_length": [("text", "int", "octet_length({0})"), ("bytea", "int", "length({0})")],
        "bit_length": [("text", "int", "bit_length({0})"), ("bytea", "int", "(length({0}) * 8)")],
        "reverse": [("text", "text", "reverse({0})")],
        "repeat": [("text int", "text", "repeat({0}, {1})")],
        "replace": [("text text text", "text", "replace({0}, {1}, {2})")],
        "translate": [("text text text", "text", "translate({0}, {1}, {2})")],
        "lpad": [("text int", "text", "lpad({0}, {1})"), ("text int text", "text", "lpad({0}, {1}, {2})")],
        "rpad": [("text int", "text", "rpad({0}, {1})"), ("text int text", "text", "rpad({0}, {1}, {2})")],
        "ltrim": [("text", "text", "ltrim({0})"), ("text text", "text", "TRIM(LEADING {1} FROM {0})")],
        "rtrim": [("text", "text", "rtrim({0})"), ("text text", "text", "TRIM(TRAILING {1} FROM {0})")],
        "btrim": [("text", "text", "trim({0})"), ("text text", "text", "TRIM(BOTH {1} FROM {0})")],
        # a negative length counts from the other end
        "left": [
            (
                "text int",
                "text",
                "CASE WHEN {1} < 0 THEN substring({0}, 1, greatest(length({0}) + {1}, 0)) ELSE left({0}, {1}) END",
            )
        ],
        "right": [("text int", "text", "CASE WHEN {1} < 0 THEN substring({0}, 1 - {1}) ELSE right({0}, {1}) END")],
        "position": [("text text", "int", "locate({0}, {1})")],
        "strpos": [("text text", "int", "locate({1}, {0})")],
        "starts_with": [("text text", "boolean", "startswith({0}, {1})")],
        "ends_with": [("text text", "boolean", "endswith({0}, {1})")],
        "split_part": [("text text int", "text", "split_part({0}, {1}, {2})")],
        "ascii": [("text", "int", "ascii({0})")],
        # Spark's chr knows only 256 characters
        "chr": [
            (
                "int",
                "text",
                _checked(
                    "{0} <= 0", "character number must be positive", "decode(unhex(lpad(hex({0}), 8, '0')), 'UTF-32')"
                ),
            )
        ],
        "overlay": [
            ("text text int", "text", "overlay({0} PLACING {1} FROM {2})"),
            ("text text int int", "text", "overlay({0} PLACING {1} FROM {2} FOR {3})"),
        ],
        "md5": [("text", "text", "md5({0})"), ("bytea", "text", "md5({0})")],
        "sha224": [("bytea", "bytea", "unhex(sha2({0}, 224))")],
        "sha256": [("bytea", "bytea", "unhex(sha2({0}, 256))")],
        "sha384": [("bytea", "bytea", "unhex(sha2({0}, 384))")],
        "sha512": [("bytea", "bytea", "unhex(sha2({0}, 512))")],
        # times
        "now": [("", "timestamptz", "current_timestamp()")],
        "current_timestamp": [("", "timestamptz", "current_timestamp()")],
        "statement_timestamp": [("", "timestamptz", "current_timestamp()")],
        "transaction_timestamp": [("", "timestamptz", "current_timestamp()")],
        "localtimestamp": [("", "timestamp", "localtimestamp()")],
        "current_date": [("", "date", "current_date()")],
        "make_date": [("int int int", "date", "make_date({0}, {1}, {2})")],
        "make_timestamp": [
            (
                "int int int int int double",
                "timestamp",
                "make_timestamp_ntz({0}, {1}, {2}, {3}, {4}, CAST({5} AS DECIMAL(16,6)))",
            )
        ],
        "to_timestamp": [("double", "timestamptz", "timestamp_seconds({0})")],
        # jsonb
        "jsonb_array_length": [("jsonb", "int", "json_array_length({0})")],
        "jsonb_typeof": [("jsonb", "text", _JSONB_TYPE)],
    }.items()
}


# --- functions that look at their arguments ---------------------------------------------------------------------


def _arity(name: str, args: list[Typed], least: int, most: int | None = None) -> None:
    if not least <= len(args) <= (most or least):
        raise no_function(name, args)


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
    checked = _checked(f"{length} < 0", "negative substring length not allowed", sql)
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
        ("decode", "hex"): _checked(
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
    texts = f"transform({array.sql}, _e -> {_printed(Typed('_e', array.type.element))})"
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


def _row(name: str, args: list[Typed]) -> Typed:
    args = [cast(arg, TEXT) if arg.type is None else arg for arg in args]
    fields = tuple((f"f{number}", arg.type) for number, arg in enumerate(args, 1))
    inner = ", ".join(f"'f{number}', {arg.sql}" for number, arg in enumerate(args, 1))
    return Typed(f"named_struct({inner})", SqlType("struct", fields=fields))


# --- jsonb ------------------------------------------------------------------------------------------------------


def _jsonb_path(name: str, args: list[Typed]) -> Typed:
    from headrace.sql.jsonb import get

    _arity(name, args, 2, 1000)
    value = cast(args[0], JSONB)
    for key in args[1:-1]:
        value = get(value, key)
    return get(value, args[-1], as_text=name.endswith("_text"))


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
    **dict.fromkeys(("jsonb_extract_path", "jsonb_extract_path_text"), _jsonb_path),
    "extract": datetimes.extract,
    "date_part": datetimes.date_part,
    "date_trunc": datetimes.date_trunc,
    "to_char": datetimes.to_char,
    "to_date": datetimes.to_date,
    "date_bin": datetimes.date_bin,
    "make_interval": datetimes.make_interval,
}
