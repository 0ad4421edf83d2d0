"""Set-returning functions: each as a Spark array, one element per row.

>>> from headrace.sql.typed import INTEGER
>>> set_rows("unnest", [Typed("`a`", array_of(INTEGER))]).columns
[(None, SqlType(name='integer', precision=None, scale=None, element=None, fields=()))]
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.sql import datetimes, jsonpath, texts
from headrace.sql.casts import cast
from headrace.sql.functions import call_function
from headrace.sql.jsonb_paths import jsonb_order
from headrace.sql.signatures import no_function
from headrace.sql.typed import BIGINT, BOOLEAN, INTEGER, JSONB, TEXT, Typed, is_integer
from headrace.types import SqlType, array_of, quote_spark


@dataclass(frozen=True, kw_only=True)
class Rows:
    sql: str
    """An array; of structs with the fields ``0``, ``1`` and so on if there are several columns."""
    generator: str | None = None
    """Instead of the array, a call of one of Spark's generators that nothing else is known of."""
    columns: list[tuple[str | None, SqlType]]
    """Names and types. A column without a name takes the alias."""

    @property
    def structs(self) -> bool:
        return len(self.columns) > 1

    def numbered(self) -> str:
        """The array as structs that hold the row's number, too."""
        fields = [f"_e.`{n}`" for n in range(len(self.columns))] if self.structs else ["_e"]
        inner = ", ".join(f"'c{n}', {field}" for n, field in enumerate(fields))
        return f"transform({self.sql}, (_e, _i) -> named_struct({inner}, 'n', CAST(_i + 1 AS BIGINT)))"


ROWS_FROM = "_rows_from"
"""What ROWS FROM (…) is bound to: a function of the functions in it."""

_VARIANTS = "CAST(parse_json({}) AS ARRAY<VARIANT>)"
_ENTRIES = "map_entries(CAST(parse_json({}) AS MAP<STRING, VARIANT>))"


def set_rows(name: str, args: list[Typed]) -> Rows:
    if name == "generate_series":
        series = datetimes.series(args)
        return Rows(sql=series.sql, columns=[(None, series.type)])
    if name == "range":
        return _range(args)
    if name == "unnest":
        return _unnest(args)
    if name == "jsonb_path_query":
        return Rows(sql=jsonpath.found_rows(name, args), columns=[(None, JSONB)])
    if name.startswith(("jsonb_", "json_")):
        return _jsonb(name.replace("json_", "jsonb_", 1), args)
    if name == "generate_subscripts":
        return _subscripts(name, args)
    if name == "regexp_matches":
        return Rows(sql=texts.regexp_matches(name, args).sql, columns=[(None, array_of(TEXT))])
    array = texts.regexp_split(name, args) if name == "regexp_split_to_table" else texts.string_to_array(name, args)
    return Rows(sql=array.sql, columns=[(None, TEXT)])


def rows_from(parts: list[Rows]) -> Rows:
    """ROWS FROM (f(…), g(…)): the rows side by side, with NULLs where one has fewer than another."""
    arrays, fields, columns = [], [], []
    for number, part in enumerate(parts):
        inner = ", ".join(f"`{n}`: {kind.spark}" for n, (_, kind) in enumerate(part.columns))
        spark = f"STRUCT<{inner}>" if part.structs else part.columns[0][1].spark
        arrays.append(f"coalesce(CAST({part.sql} AS ARRAY<{spark}>), CAST(array() AS ARRAY<{spark}>))")
        fields.append(f"`{number}`: {spark}")
        for n, each in enumerate(part.columns):
            columns.append((f"_z.`{number}`.`{n}`" if part.structs else f"_z.`{number}`", *each))
    zipped = f"CAST(arrays_zip({', '.join(arrays)}) AS ARRAY<STRUCT<{', '.join(fields)}>>)"
    flat = ", ".join(f"'{n}', {path}" for n, (path, _, _) in enumerate(columns))
    if len(columns) == 1:
        return Rows(sql=f"transform({zipped}, _z -> {columns[0][0]})", columns=[columns[0][1:]])
    return Rows(sql=f"transform({zipped}, _z -> named_struct({flat}))", columns=[each[1:] for each in columns])


def spark_rows(name: str, arg: Typed | None, call: str, columns: list[tuple[str | None, SqlType]]) -> Rows:
    """A generator of Spark's as an array, if it is one of those that only unfold one."""
    kind = arg.type.name if arg is not None and arg.type is not None else None
    if name == "explode" and kind == "array":
        return Rows(sql=arg.sql, columns=columns)
    if name == "explode" and kind == "map":
        pairs = f"transform(map_entries({arg.sql}), _e -> named_struct('0', _e.key, '1', _e.value))"
        return Rows(sql=pairs, columns=columns)
    if name == "posexplode" and kind == "array":
        return Rows(sql=f"transform({arg.sql}, (_e, _i) -> named_struct('0', _i, '1', _e))", columns=columns)
    if name == "posexplode" and kind == "map":
        triples = f"transform(map_entries({arg.sql}), (_e, _i) -> named_struct('0', _i, '1', _e.key, '2', _e.value))"
        return Rows(sql=triples, columns=columns)
    if name == "inline" and kind == "array" and len(columns) == 1:
        field, inner = arg.type.element.fields[0]
        return Rows(sql=f"transform({arg.sql}, _e -> _e.{quote_spark(field)})", columns=[(field, inner)])
    if name == "inline" and kind == "array":
        fields = ", ".join(f"`{n}`: {each.spark}" for n, (_, each) in enumerate(columns))
        return Rows(sql=f"CAST({arg.sql} AS ARRAY<STRUCT<{fields}>>)", columns=columns)
    return Rows(sql="", generator=call, columns=columns)


def _range(args: list[Typed]) -> Rows:
    """Spark's range(end), or range(start, end[, step[, partitions]])."""
    if not 1 <= len(args) <= 4 or not all(is_integer(arg.type) for arg in args):
        raise no_function("range", args)
    bounds = args[:2] if len(args) > 1 else [Typed("0L", BIGINT), args[0]]
    first, end = (cast(each, BIGINT) for each in bounds)
    step = cast(args[2], BIGINT) if len(args) > 2 else Typed("1L", BIGINT)
    last = Typed(f"CAST({end.sql} - sign({step.sql}) AS BIGINT)", BIGINT)
    series = datetimes.series([first, last, step])
    return Rows(sql=series.sql, columns=[("id", BIGINT)])


def _unnest(args: list[Typed]) -> Rows:
    if not args or any(arg.type is None or arg.type.name != "array" for arg in args):
        raise no_function("unnest", args)
    if len(args) == 1:
        return Rows(sql=args[0].sql, columns=[(None, args[0].type.element)])
    # an array that is NULL has no elements; it must not take those of the others away
    arrays = ", ".join(f"coalesce({arg.sql}, CAST(array() AS {arg.type.spark}))" for arg in args)
    # arrays_zip names its fields after columns where it can: cast them to the names that we use
    fields = ", ".join(f"`{n}`: {arg.type.element.spark}" for n, arg in enumerate(args))
    zipped = f"CAST(arrays_zip({arrays}) AS ARRAY<STRUCT<{fields}>>)"
    return Rows(sql=zipped, columns=[("unnest", arg.type.element) for arg in args])


def _jsonb(name: str, args: list[Typed]) -> Rows:
    if len(args) != 1 or args[0].type not in (None, JSONB):
        raise no_function(name, args)
    value = cast(args[0], JSONB).sql
    as_text = name.endswith("_text")
    kind = TEXT if as_text else JSONB

    def out(variant: str) -> str:
        return f"variant_get({variant}, '$', 'string')" if as_text else f"to_json({variant})"

    if name.startswith("jsonb_array_elements"):
        elements = f"transform({_VARIANTS.format(value)}, _v -> {out('_v')})"
        return Rows(sql=elements, columns=[("value", kind)])
    if name == "jsonb_object_keys":
        keys = jsonb_order(f"map_keys(CAST(parse_json({value}) AS MAP<STRING, VARIANT>))")
        return Rows(sql=keys, columns=[(None, TEXT)])
    entries = jsonb_order(_ENTRIES.format(value), ".key")
    pairs = f"transform({entries}, _v -> named_struct('0', _v.key, '1', {out('_v.value')}))"
    return Rows(sql=pairs, columns=[("key", TEXT), ("value", kind)])


def _subscripts(name: str, args: list[Typed]) -> Rows:
    """generate_subscripts(array, 1)"""
    if not 2 <= len(args) <= 3:
        raise no_function(name, args)
    last = f"size({args[0].sql})" if args[1].sql == "1" else call_function("array_upper", args[:2]).sql
    numbers = f"sequence(1, {last})"
    if len(args) == 3:
        numbers = f"CASE WHEN {cast(args[2], BOOLEAN).sql} THEN reverse({numbers}) ELSE {numbers} END"
    empty = f"CAST(array() AS {array_of(INTEGER).spark})"
    return Rows(sql=f"CASE WHEN {last} > 0 THEN {numbers} ELSE {empty} END", columns=[(None, INTEGER)])


_NAMES = frozenset(
    "unnest generate_series jsonb_array_elements jsonb_array_elements_text jsonb_object_keys jsonb_each "
    "jsonb_each_text regexp_split_to_table string_to_table range _rows_from "
    "regexp_matches generate_subscripts json_array_elements json_array_elements_text json_object_keys json_each "
    "json_each_text jsonb_path_query".split()
)


def is_set_returning(name: str) -> bool:
    return name in _NAMES
