"""Set-returning functions: each as a Spark array, one element per row.

>>> from headrace.sql.typed import INTEGER
>>> set_rows("unnest", [Typed("`a`", array_of(INTEGER))]).columns
[(None, SqlType(name='integer', precision=None, scale=None, element=None, fields=()))]
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import Unsupported
from headrace.sql import datetimes, regex
from headrace.sql.casts import cast
from headrace.sql.literals import spark_string
from headrace.sql.signatures import no_function
from headrace.sql.typed import JSONB, TEXT, Typed
from headrace.types import SqlType, array_of


@dataclass(frozen=True, kw_only=True)
class Rows:
    sql: str
    """An array; of structs with the fields ``0``, ``1`` and so on if there are several columns."""
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


_VARIANTS = "CAST(parse_json({}) AS ARRAY<VARIANT>)"
_ENTRIES = "map_entries(CAST(parse_json({}) AS MAP<STRING, VARIANT>))"


def set_rows(name: str, args: list[Typed]) -> Rows:
    if name == "generate_series":
        series = datetimes.series(args)
        return Rows(sql=series.sql, columns=[(None, series.type)])
    if name == "unnest":
        return _unnest(args)
    if name.startswith("jsonb_"):
        return _jsonb(name, args)
    return _split(name, args)


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
        keys = f"array_sort(map_keys(CAST(parse_json({value}) AS MAP<STRING, VARIANT>)))"
        return Rows(sql=keys, columns=[(None, TEXT)])
    pairs = f"transform({_ENTRIES.format(value)}, _v -> named_struct('0', _v.key, '1', {out('_v.value')}))"
    return Rows(sql=pairs, columns=[("key", TEXT), ("value", kind)])


def _split(name: str, args: list[Typed]) -> Rows:
    if len(args) != 2 or any(arg.type not in (None, TEXT) for arg in args):
        raise no_function(name, args)
    if not args[1].literal:
        raise Unsupported(f"{name}() is only supported with a constant separator that is not empty")
    value = cast(args[0], TEXT).sql
    if name == "regexp_split_to_table":
        return Rows(sql=f"split({value}, {spark_string(regex.java_regex(args[1].literal))})", columns=[(None, TEXT)])
    quoted = spark_string("\\Q" + args[1].literal.replace("\\E", "\\E\\\\E\\Q") + "\\E")
    empty = f"CAST(array() AS {array_of(TEXT).spark})"
    return Rows(sql=f"CASE WHEN {value} = '' THEN {empty} ELSE split({value}, {quoted}) END", columns=[(None, TEXT)])


_NAMES = frozenset(
    "unnest generate_series jsonb_array_elements jsonb_array_elements_text jsonb_object_keys jsonb_each "
    "jsonb_each_text regexp_split_to_table string_to_table".split()
)


def is_set_returning(name: str) -> bool:
    return name in _NAMES
