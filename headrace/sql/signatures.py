"""Functions that are a pattern: parameter types, a result type, and Spark SQL with the arguments put in.

``{0}`` and so on are the arguments, already converted to the parameter types of the signature that matched. Functions
whose result type or SQL depends on what the arguments are, are in :mod:`headrace.sql.functions`.

>>> from headrace.sql.typed import TEXT
>>> call_by_signature("strpos", [Typed("`a`", TEXT), Typed("NULL", None, literal="x")]).sql
"locate('x', `a`)"
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.errors import TypeMismatch, UndefinedFunction
from headrace.sql.casts import cast, error_if
from headrace.sql.typed import Typed, converts_implicitly, describe
from headrace.types import SqlType


def call_by_signature(name: str, args: list[Typed]) -> Typed:
    candidates = [each for each in SIGNATURES[name] if len(each.parameters) == len(args)]
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


def no_function(name: str, args: Sequence[Typed]) -> TypeMismatch:
    return UndefinedFunction(
        f"function {name}({', '.join(describe(arg.type) for arg in args)}) does not exist",
        hint="No function matches the given name and argument types. You might need to add explicit type casts.",
    )


def check_arity(name: str, args: list[Typed], least: int, most: int | None = None) -> None:
    if not least <= len(args) <= (most or least):
        raise no_function(name, args)


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


_BEYOND_ONE = "abs({0}) > 1 AND NOT isnan({0})"
_SQRT = error_if("{0} < 0", "cannot take square root of a negative number", "sqrt({0})")
_LOGARITHM = (
    "CASE WHEN {0} = 0 THEN raise_error('cannot take logarithm of zero') "
    "WHEN {0} < 0 THEN raise_error('cannot take logarithm of a negative number') ELSE %s END"
)
_SPLIT_PART = error_if("{2} = 0", "field position must not be zero", "split_part({0}, {1}, {2})")
_LENGTH = error_if("NOT startswith({0}, '[')", "cannot get array length of a non-array", "json_array_length({0})")
_WORDS = r"regexp_extract_all({0}, '([\\p{{L}}\\p{{Nd}}]+|[^\\p{{L}}\\p{{Nd}}]+)', 0)"

_JSONB_TYPE = (
    "CASE substring({0}, 1, 1) WHEN '{{' THEN 'object' WHEN '[' THEN 'array' WHEN '\"' THEN 'string' "
    "WHEN 't' THEN 'boolean' WHEN 'f' THEN 'boolean' WHEN 'n' THEN 'null' "
    "ELSE CASE WHEN {0} IS NOT NULL THEN 'number' END END"
)

SIGNATURES: dict[str, list[Signature]] = {
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
        "asin": [("double", "double", error_if(_BEYOND_ONE, "input is out of range", "asin({0})"))],
        "acos": [("double", "double", error_if(_BEYOND_ONE, "input is out of range", "acos({0})"))],
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
        "split_part": [("text text int", "text", _SPLIT_PART)],
        "ascii": [("text", "int", "ascii({0})")],
        # Spark's chr knows only 256 characters
        "chr": [
            (
                "int",
                "text",
                error_if(
                    "{0} <= 0", "character number must be positive", "decode(unhex(lpad(hex({0}), 8, '0')), 'UTF-32')"
                ),
            )
        ],
        "overlay": [
            ("text text int", "text", "overlay({0} PLACING {1} FROM {2})"),
            ("text text int int", "text", "overlay({0} PLACING {1} FROM {2} FOR {3})"),
        ],
        "gen_random_uuid": [("", "uuid", "uuid()")],
        "get_byte": [
            (
                "bytea int",
                "int",
                error_if(
                    "{1} < 0 OR {1} >= length({0})",
                    "index out of valid range",
                    "CAST(conv(hex(substring({0}, {1} + 1, 1)), 16, 10) AS INT)",
                ),
            )
        ],
        "md5": [("text", "text", "md5({0})"), ("bytea", "text", "md5({0})")],
        "sha224": [("bytea", "bytea", "unhex(sha2({0}, 224))")],
        "sha256": [("bytea", "bytea", "unhex(sha2({0}, 256))")],
        "sha384": [("bytea", "bytea", "unhex(sha2({0}, 384))")],
        "sha512": [("bytea", "bytea", "unhex(sha2({0}, 512))")],
        # times
        "now": [("", "timestamptz", "current_timestamp()")],
        "_hr_watermark": [("int", "timestamptz", "CAST(NULL AS TIMESTAMP)")],  # headrace/sql/watermarks.py
        "current_timestamp": [("", "timestamptz", "current_timestamp()")],
        "statement_timestamp": [("", "timestamptz", "current_timestamp()")],
        "transaction_timestamp": [("", "timestamptz", "current_timestamp()")],
        # Spark's own clocks stand still during a query. Java's has no microseconds, and now() is never later.
        "clock_timestamp": [
            (
                "",
                "timestamptz",
                "greatest(current_timestamp(), "
                "timestamp_millis(CAST(reflect('java.lang.System', 'currentTimeMillis') AS BIGINT)))",
            )
        ],
        "make_date": [("int int int", "date", "make_date({0}, {1}, {2})")],
        "make_timestamp": [
            (
                "int int int int int double",
                "timestamp",
                "make_timestamp_ntz({0}, {1}, {2}, {3}, {4}, CAST({5} AS DECIMAL(16,6)))",
            )
        ],
        "isfinite": [
            ("date", "boolean", "CASE WHEN {0} IS NOT NULL THEN true END"),
            ("timestamp", "boolean", "CASE WHEN {0} IS NOT NULL THEN true END"),
            ("timestamptz", "boolean", "CASE WHEN {0} IS NOT NULL THEN true END"),
            ("interval", "boolean", "CASE WHEN {0} IS NOT NULL THEN true END"),
        ],
        # jsonb
        **dict.fromkeys(("jsonb_array_length", "json_array_length"), [("jsonb", "int", _LENGTH)]),
        **dict.fromkeys(("jsonb_typeof", "json_typeof"), [("jsonb", "text", _JSONB_TYPE)]),
    }.items()
}
