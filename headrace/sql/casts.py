"""Conversions between types with PostgreSQL's results.

Spark truncates where PostgreSQL rounds, prints floats differently, and knows fewer spellings of true. Each target
type has a function here that says how every source type becomes it, or that PostgreSQL has no such cast.

>>> cast(Typed("`x`", DOUBLE), INTEGER).sql
'CAST(rint(`x`) AS INT)'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headrace.errors import CannotCast, TypeMismatch, Unsupported
from headrace.intervals import parse_interval
from headrace.sql import intervals, times, zoned
from headrace.sql.composites import array_items
from headrace.sql.decimals import text_of_quotient
from headrace.sql.interval_texts import interval_of_text
from headrace.sql.literals import (
    FALSE_WORDS,
    NOT_CONSTANT,
    TRUE_WORDS,
    from_text,
    number_literal,
    spark_constant,
    spark_string,
)
from headrace.sql.typed import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    INTERVAL,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    UUID,
    Typed,
    describe,
    digits,
    is_float,
    is_free,
    is_integer,
    is_moment,
    is_number,
    is_text,
    is_time,
    numeric,
    undeclared,
)
from headrace.types import SqlType, quote_spark
from headrace.uuids import SPELLINGS

_Cast = Callable[[Typed, SqlType], str | None]


def cast(value: Typed, target: SqlType) -> Typed:
    """An explicit cast."""
    if value.type is None:
        return _from_unknown(value, target)
    if value.type == target:
        # Only what clients are told of it may change: a varchar that was cast to text is text.
        if value.type.modifier == target.modifier:
            return value
        shown = value.decimals if target.modifier is None else None
        return replace(value, type=_told(value.type, target), decimals=shown)
    if value.type.name == target.name == "array" and value.type.element.name == "array" != target.element.name:
        return cast(value, SqlType("array", element=target))  # PostgreSQL's types do not count dimensions
    if target == NUMERIC:
        target = _exact(value.type)
        if value.type == target and value.type.quotient is not None:
            return replace(value, type=target)
    sql = _CASTS[target.name](value, target)
    if sql is None:
        raise CannotCast(f"cannot cast type {value.type} to {target}")
    return Typed(sql, target)


def _told(source: SqlType, target: SqlType) -> SqlType:
    if target.name != "numeric" or target.modifier is not None:
        return target
    return replace(target, free=source.free, quotient=source.quotient)


def _exact(source: SqlType) -> SqlType:
    """numeric without precision keeps the digits of an exact source."""
    if is_integer(source):
        return numeric(digits(source)[0], 0)
    return undeclared(source) if source.name == "numeric" else NUMERIC


def _from_unknown(value: Typed, target: SqlType) -> Typed:
    """A string constant, or NULL, where a value of the target type is wanted."""
    if value.literal is None:
        return Typed(f"CAST(NULL AS {target.spark})", target)
    if target == INTERVAL:
        return intervals.interval(intervals.constant_parts(parse_interval(value.literal)))
    if target == NUMERIC and (exact := _exact_literal(value.literal)) is not None:
        return exact
    if target.name == "array":
        return _array_literal(value.literal, target)
    if target.name == "struct":
        raise Unsupported("a struct as a string is not supported", hint="use ROW(…)")
    constant = from_text(value.literal, target)
    if constant is not NOT_CONSTANT:
        return Typed(spark_constant(constant, target), target)
    if is_float(target):  # NaN and its like; what is out of range was refused
        return Typed(f"CAST({spark_string(value.literal)} AS {target.spark})", target)
    return cast(Typed(spark_string(value.literal), TEXT), target)


def _exact_literal(text: str) -> Typed | None:
    """numeric without precision is as precise as the constant."""
    body = text.strip().lstrip("+-")
    if not body or not (body[0].isdigit() or body[0] == "."):
        return None
    from_text(text, NUMERIC)  # raises if it is no number
    number = number_literal(body, exact=True)
    return Typed(f"(- {number.sql})", number.type) if text.strip().startswith("-") else number


def _array_literal(text: str, target: SqlType) -> Typed:
    """'{1,2,NULL,"a b"}', or '{{1,2},{3,4}}'"""
    if target.element.name == "struct":
        raise Unsupported(f"the array constant '{text}' is not supported", hint="use ARRAY[…]")
    items = array_items(text)
    if text.strip().startswith("{{") and target.element.name != "array":  # PostgreSQL's types do not count dimensions
        target = SqlType("array", element=target)
    elements = [cast(Typed("NULL", None, literal=item), target.element) for item in items]
    kind = SqlType("array", element=elements[0].type) if elements and target.element.name == "array" else target
    return Typed(f"CAST(array({', '.join(element.sql for element in elements)}) AS {kind.spark})", kind)


def array_text(items: list[str]) -> str:
    """PostgreSQL's text form of an array of strings; the inverse of :func:`array_items`.

    >>> array_text(["a", 'b"c'])
    '{"a","b\\\\"c"}'
    """
    return "{" + ",".join('"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"' for item in items) + "}"


# --- one function per target type -------------------------------------------------------------------------------


def _plain(value: Typed, target: SqlType) -> str:
    return f"CAST({value.sql} AS {target.spark})"


def _to_boolean(value: Typed, target: SqlType) -> str | None:
    if value.type == INTEGER:
        return f"({value.sql} <> 0)"
    if is_text(value.type):
        # Spark does not know 'on' and 'off'. What is left over is an error (or NULL) for Spark to raise.
        word = f"lower(trim({value.sql}))"
        yes, no = (", ".join(f"'{each}'" for each in words) for words in (TRUE_WORDS, FALSE_WORDS))
        rest = f"CAST({value.sql} AS BOOLEAN)"
        return f"CASE WHEN {word} IN ({yes}) THEN true WHEN {word} IN ({no}) THEN false ELSE {rest} END"
    if value.type.name == "jsonb":
        return f"CAST(parse_json({value.sql}) AS BOOLEAN)"
    return None


def _to_integer(value: Typed, target: SqlType) -> str | None:
    if is_integer(value.type) or is_text(value.type):
        return _plain(value, target)
    if value.type.name == "numeric":  # half away from zero
        return f"CAST(round({value.sql}, 0) AS {target.spark})"
    if is_float(value.type):  # half to even
        return f"CAST(rint({value.sql}) AS {target.spark})"
    if value.type == BOOLEAN and target == INTEGER:
        return _plain(value, target)
    if value.type.name == "jsonb":
        return f"CAST(round(CAST(parse_json({value.sql}) AS DECIMAL(38,10)), 0) AS {target.spark})"
    return None


def _to_number(value: Typed, target: SqlType) -> str | None:
    if is_number(value.type) or is_text(value.type):
        return _checked_number(value, target)
    if value.type.name == "jsonb":
        return f"CAST(parse_json({value.sql}) AS {target.spark})"
    return None


def _checked_number(value: Typed, target: SqlType) -> str:
    """Where Spark makes infinity of a number that is too large, zero of one that is too small, NULL of infinity."""
    sql, result = value.sql, _plain(value, target)
    if is_float(target) and is_text(value.type):
        overflow = f"{_infinite(result)} AND NOT lower({sql}) LIKE '%inf%'"
        wrong = f"({overflow}) OR ({result} = 0 AND {sql} RLIKE '^[^eE]*[1-9]')"
        text = f"concat('\"', {sql}, '\" is out of range for type {target}')"
        return f"CASE WHEN {wrong} THEN raise_error({text}) ELSE {result} END"
    if is_float(value.type) and target.name == "real":
        overflow = error_if(f"{_infinite(result)} AND NOT {_infinite(sql)}", "value out of range: overflow", result)
        return error_if(f"{result} = 0 AND {sql} <> 0", "value out of range: underflow", overflow)
    if is_float(value.type) and target.name == "numeric":
        no_number = f"isnan({sql}) OR {_infinite(sql)}"
        # Of a float PostgreSQL takes the digits that it certainly has: 6 of a real, 15 of a double precision.
        certain = f"format_string('%.{5 if value.type.name == 'real' else 14}e', CAST({sql} AS DOUBLE))"
        kept = f"CASE WHEN {sql} IS NOT NULL THEN CAST({certain} AS {target.spark}) END"
        return error_if(no_number, "numeric has no NaN and no infinity here", kept)
    return result


def _infinite(sql: str) -> str:
    return f"abs({sql}) = CAST('Infinity' AS DOUBLE)"


def error_if(condition: str, message: str, result: str) -> str:
    """An error where PostgreSQL has one and Spark would go on."""
    return f"CASE WHEN {condition} THEN raise_error('{message}') ELSE {result} END"


def _to_text(value: Typed, target: SqlType) -> str | None:
    kind, sql = value.type, value.sql
    if is_integer(kind) or kind == BOOLEAN or kind.name in ("date", "timestamp"):
        return f"CAST({sql} AS STRING)"
    if kind.name == "numeric":
        if kind.quotient is not None:
            return text_of_quotient(sql, kind)
        if not is_free(kind):
            return f"CAST({sql} AS STRING)"
        # The scale is Headrace's choice, not the user's: print no more digits than the value has.
        return _strip(sql)
    if is_float(kind):
        return _float_text(sql, kind)
    if kind.name == "timestamptz":
        return zoned.printed(sql, zoned.current())
    if kind.name == "bytea":
        return f"concat('\\\\x', lower(hex({sql})))"
    if kind.name == "jsonb":
        return f"regexp_replace({sql}, {_JSON_SEPARATOR}, '$1$2 ')"
    if kind == UUID:
        return sql
    if is_time(kind):
        return times.printed(sql)
    if kind == INTERVAL:
        constant = intervals.constant_of(value)
        return intervals.printed(value) if constant is None else spark_string(str(constant))
    if kind.name in ("array", "struct", "map"):
        return _nested_text(value)
    raise Unsupported(f"a cast from {kind} to text is not supported")


# What is kept has no blanks; PostgreSQL has one behind each comma and colon that is not part of a string.
_JSON_SEPARATOR = spark_string(r'((?:"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^",:])*+)([,:])')


def _nested_text(value: Typed, depth: int = 0) -> str:
    """An array, struct or map as PostgreSQL prints it; see headrace.serving.render, which does the same in Python."""
    kind, sql = value.type, value.sql

    def item(inner: Typed, special: str, missing: str, *, double: bool = False) -> str:
        nested = inner.type.name in ("array", "struct", "map")
        text = _nested_text(inner, depth + 1) if nested else printed(inner)
        if kind.name == "array" and inner.type.name == "array":
            return f"coalesce({text}, '{missing}')"
        quote = f"CASE WHEN {text} = '' OR upper({text}) = 'NULL' OR {text} RLIKE '{special}'"
        if double:  # a struct tells NULL from its name, and doubles its quotes
            quote = f"CASE WHEN {text} = '' OR {text} RLIKE '{special}'"
            escaped = f"replace(replace({text}, '\\\\', '\\\\\\\\'), '\"', '\"\"')"
        else:
            escaped = f"replace(replace({text}, '\\\\', '\\\\\\\\'), '\"', '\\\\\"')"
        return f"coalesce({quote} THEN concat('\"', {escaped}, '\"') ELSE {text} END, '{missing}')"

    name = f"_t{depth}"
    if kind.name == "array":
        each = item(Typed(name, kind.element), _SPECIAL_IN_ARRAY, "NULL")
        return f"concat('{{', array_join(transform({sql}, {name} -> {each}), ','), '}}')"
    if kind.name == "map":
        key, content = (item(Typed(f"{name}.{part}", each), _SPECIAL_IN_MAP, "NULL") for part, each in kind.fields)
        pairs = f"transform(map_entries({sql}), {name} -> concat({key}, ':', {content}))"
        return f"concat('{{', array_join({pairs}, ','), '}}')"
    fields = [
        item(Typed(f"{sql}.{quote_spark(field)}", each), _SPECIAL_IN_STRUCT, "", double=True)
        for field, each in kind.fields
    ]
    joined = ", ',', ".join(fields)
    return f"CASE WHEN {sql} IS NOT NULL THEN concat('(', {joined}, ')') END"


_SPECIAL_IN_ARRAY = r'[{},"\\\\\\s]'
_SPECIAL_IN_MAP = r'[{},:"\\\\\\s]'
_SPECIAL_IN_STRUCT = r'[(),"\\\\\\s]'


def printed(value: Typed) -> str:
    """As concat() and its like print a value: with the type's output function, which for booleans is t and f."""
    if value.type == BOOLEAN:
        return f"CASE WHEN {value.sql} THEN 't' WHEN NOT {value.sql} THEN 'f' END"
    return cast(value, TEXT).sql


def _strip(sql: str) -> str:
    """A decimal as text without zeros at the end of its fraction."""
    return rf"regexp_replace(regexp_replace(CAST({sql} AS STRING), '(\\.[0-9]*?)0+$', '$1'), '\\.$', '')"


def _float_text(sql: str, kind: SqlType) -> str:
    """PostgreSQL prints the shortest digits like C's %g; Java puts exponents and '.0' elsewhere."""
    limit = "1e15D" if kind == DOUBLE else "1e6D"
    exponent = rf"regexp_replace(regexp_replace(CAST({sql} AS STRING), '\\.0E', 'E'), 'E([0-9])', 'E+$1')"
    padded = rf"regexp_replace(regexp_replace({exponent}, 'E([+-])([0-9])$', 'E$10$2'), 'E', 'e')"
    plain = (
        _strip(f"CAST({sql} AS DECIMAL(38,21))")
        if kind == DOUBLE
        else _strip(f"CAST(CAST({sql} AS STRING) AS DECIMAL(38,21))")
    )
    return (
        f"CASE WHEN isnan({sql}) OR abs({sql}) = CAST('Infinity' AS DOUBLE) THEN CAST({sql} AS STRING) "
        f"WHEN {sql} <> 0 AND (abs({sql}) >= {limit} OR abs({sql}) < 1e-4D) THEN {padded} ELSE {plain} END"
    )


def _to_bytea(value: Typed, target: SqlType) -> str | None:
    if not is_text(value.type):
        return None
    digits_of = f"substring({value.sql}, 3)"
    bytes_of = error_if(
        f"NOT {digits_of} RLIKE '^([0-9a-fA-F]{{2}})*$'", "invalid hexadecimal data in bytea", f"unhex({digits_of})"
    )
    return (
        f"CASE WHEN {value.sql} LIKE '\\\\\\\\x%' THEN {bytes_of} "
        f"WHEN {value.sql} LIKE '%\\\\\\\\%' THEN raise_error('escapes in bytea are only supported in constants') "
        f"ELSE CAST({value.sql} AS BINARY) END"
    )


def _to_moment(value: Typed, target: SqlType) -> str | None:
    if is_text(value.type):
        return _moment_of_text(value.sql, target)
    if not is_moment(value.type):
        return None
    if target.name == "timestamptz" and (zone := zoned.current()) is not None:
        return zoned.instant(value.sql if value.type == TIMESTAMP else f"CAST({value.sql} AS TIMESTAMP_NTZ)", zone)
    if value.type.name == "timestamptz" and (zone := zoned.current()) is not None:
        shown = zoned.local(value.sql, zone)
        return shown if target.name == "timestamp" else f"CAST({shown} AS {target.spark})"
    return _plain(value, target)


# A zone stands behind a time of day; behind a date a minus sign has another meaning.
_HAS_ZONE = spark_string(r":[0-9.]+ *([A-Za-z]|[+-][0-9])")


def _moment_of_text(sql: str, target: SqlType) -> str:
    """Spark also takes a year, a month, a time of today, and for a date whatever comes after a blank."""
    result = f"CAST({sql} AS {target.spark})"
    if target.name == "timestamptz" and (zone := zoned.current()) is not None:
        there = zoned.instant(f"CAST({sql} AS TIMESTAMP_NTZ)", zone)
        result = f"CASE WHEN {sql} RLIKE {_HAS_ZONE} THEN {result} ELSE {there} END"
    if target.name == "date":
        with_time = f"CAST(CAST({sql} AS TIMESTAMP_NTZ) AS DATE)"
        result = f"CASE WHEN {sql} RLIKE '[0-9][ T]+[^ ]' THEN {with_time} ELSE {result} END"
    whole = f"{sql} RLIKE '^ *[0-9]+-[0-9]+-[0-9]+'"
    message = f"concat('invalid input syntax for type {target}: \"', {sql}, '\"')"
    return f"CASE WHEN NOT {whole} THEN raise_error({message}) ELSE {result} END"


def _to_time(value: Typed, target: SqlType) -> str | None:
    if is_text(value.type):
        return times.of_text(value.sql, target)
    if value.type == INTERVAL:
        sql = times.of_interval(value)
    elif value.type == TIMESTAMP:
        sql = times.of_timestamp(value)
    elif value.type.name == "timestamptz":
        sql = times.of_timestamp(Typed(zoned.local(value.sql, zoned.current()), TIMESTAMP))
    elif is_time(value.type):
        sql = value.sql
    else:
        return None
    return times.rounded(sql, target.precision)


def _to_interval(value: Typed, target: SqlType) -> str | None:
    if is_time(value.type):
        return times.as_interval(value).sql
    return interval_of_text(value.sql) if is_text(value.type) else None


def _to_uuid(value: Typed, target: SqlType) -> str | None:
    if not is_text(value.type):
        return None
    sql = value.sql
    message = f"concat('invalid input syntax for type uuid: \"', {sql}, '\"')"
    digits_of = f"lower(regexp_replace({sql}, '[^0-9a-fA-F]', ''))"
    made = f"regexp_replace({digits_of}, '^(.{{8}})(.{{4}})(.{{4}})(.{{4}})(.{{12}})$', '$1-$2-$3-$4-$5')"
    return f"CASE WHEN NOT {sql} RLIKE {_UUID} THEN raise_error({message}) ELSE {made} END"


_UUID = spark_string(rf"\A(?:{SPELLINGS})\z")


def _to_jsonb(value: Typed, target: SqlType) -> str | None:
    return f"to_json(parse_json({_without_exponents(value.sql)}))" if is_text(value.type) else None


_JSON_TOKEN = r'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?[0-9]+(?:\.[0-9]+)?[eE][-+]?[0-9]{1,2}(?![0-9])|[^"0-9-]+|.'


def _without_exponents(text: str) -> str:
    """JSON in which 1e2 is written 100: Spark would make it a double, and print 100.0."""
    exponent = "CAST(regexp_extract(_t, '[eE](.+)', 1) AS INT)"
    whole, fraction = (f"regexp_extract(_t, '([0-9]+)(?:[.]([0-9]+))?', {group})" for group in (1, 2))
    digits, point = f"concat({whole}, {fraction})", f"(length({whole}) + {exponent})"
    shifted = (
        f"CASE WHEN {point} <= 0 THEN concat('0.', repeat('0', -{point}), {digits}) "
        f"WHEN {point} >= length({digits}) THEN rpad({digits}, {point}, '0') "
        f"ELSE concat(left({digits}, {point}), '.', substring({digits}, {point} + 1)) END"
    )
    plain = f"concat(IF(startswith(_t, '-'), '-', ''), regexp_replace({shifted}, '^0+(?=[0-9])', ''))"
    tokens = f"regexp_extract_all({text}, {spark_string(_JSON_TOKEN)}, 0)"
    rewritten = f"array_join(transform({tokens}, _t -> IF(_t RLIKE '^-?[0-9].*[eE]', {plain}, _t)), '')"
    return f"IF({text} RLIKE '[0-9][eE][-+]?[0-9]', {rewritten}, {text})"


def _to_array(value: Typed, target: SqlType) -> str | None:
    if is_text(value.type):
        raise Unsupported("a cast from text to an array is only supported for constants")
    if value.type.name != "array":
        return None
    element = cast(Typed("_e", value.type.element), target.element)
    return f"transform({value.sql}, _e -> {element.sql})"


def _to_struct(value: Typed, target: SqlType) -> str | None:
    if value.type.name != "struct" or len(value.type.fields) != len(target.fields):
        return None
    parts = []
    for (name, kind), (new_name, new_kind) in zip(value.type.fields, target.fields, strict=True):
        field = cast(Typed(f"{value.sql}.{quote_spark(name)}", kind), new_kind)
        parts.append(f"{spark_string(new_name)}, {field.sql}")
    return f"CASE WHEN {value.sql} IS NOT NULL THEN named_struct({', '.join(parts)}) END"


def _to_map(value: Typed, target: SqlType) -> str | None:
    if value.type.name != "map":
        return None
    (_, key), (_, content) = value.type.fields
    (_, new_key), (_, new_content) = target.fields
    keys = f"transform_keys({value.sql}, (_k, _v) -> {cast(Typed('_k', key), new_key).sql})"
    return f"transform_values({keys}, (_k, _v) -> {cast(Typed('_v', content), new_content).sql})"


_CASTS: dict[str, _Cast] = {
    "boolean": _to_boolean,
    "smallint": _to_integer,
    "integer": _to_integer,
    "bigint": _to_integer,
    "numeric": _to_number,
    "real": _to_number,
    "double precision": _to_number,
    "varchar": _to_text,
    "bytea": _to_bytea,
    "date": _to_moment,
    "timestamp": _to_moment,
    "timestamptz": _to_moment,
    "interval": _to_interval,
    "jsonb": _to_jsonb,
    "uuid": _to_uuid,
    "time": _to_time,
    "array": _to_array,
    "struct": _to_struct,
    "map": _to_map,
}


def assign(value: Typed, target: SqlType, column: str) -> Typed:
    """The conversion that INSERT and UPDATE do by themselves: numbers to numbers, times to times, all to text."""
    if target == NUMERIC:  # what a column of that type holds
        target = numeric(*digits(NUMERIC), free=True)
    if value.type is None or value.type == target:
        return cast(value, target)
    source = value.type
    allowed = (
        (is_number(source) and is_number(target))
        or (is_moment(source) and is_moment(target))
        or (is_text(target) and source.name not in ("array", "struct"))
        or (is_time(target) and source.name in ("time", "timestamp", "timestamptz", "interval"))
        or (is_time(source) and target == INTERVAL)
        or (source.name == target.name and source.name in ("array", "struct"))
    )
    if not allowed:
        raise TypeMismatch(
            f'column "{column}" is of type {target} but expression is of type {describe(source)}',
            hint="You will need to rewrite or cast the expression.",
        )
    return cast(value, target)
