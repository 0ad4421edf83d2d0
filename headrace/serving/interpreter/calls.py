"""Calls of the interpreter: functions that clients use on system relations, aggregates, functions that return rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any

from sqlglot import exp

from headrace.serving.interpreter.scope import Elsewhere, Evaluate, Row, hashable
from headrace.sql.aggregates import is_aggregate
from headrace.sql.dialect import RESERVED
from headrace.sql.format import Piece, pieces
from headrace.sql.sets import is_set_returning
from headrace.sql.typed import BOOLEAN, TEXT, is_integer, is_text
from headrace.types import SqlType

MOST_ROWS = 100
"""That a function may return here."""
_ORDERED = ("smallint", "integer", "bigint", "varchar")


def elsewhere(reason: str) -> Evaluate:
    def refuse(row: Row) -> Any:
        raise Elsewhere(reason)

    return refuse


class Calls:
    """A part of :class:`headrace.serving.interpreter.values.Values`, which compiles the arguments."""

    def value(self, node: exp.Expression) -> Evaluate:
        raise NotImplementedError

    def converted(self, node: exp.Expression, kind: SqlType | None) -> Evaluate:
        raise NotImplementedError

    def kind(self, node: exp.Expression) -> SqlType | None:
        raise NotImplementedError

    def alike(self, nodes: Sequence[exp.Expression]) -> tuple[SqlType, list[Evaluate]]:
        raise NotImplementedError

    def comparable(self, nodes: Sequence[exp.Expression]) -> list[Evaluate]:
        raise NotImplementedError

    def _call(self, node: exp.Expression) -> Evaluate:
        filtered = node.expression.this if isinstance(node, exp.Filter) else None
        call = node.this if isinstance(node, exp.Filter) else node
        if not isinstance(call, exp.Anonymous):
            return elsewhere(type(call).__name__)
        if is_aggregate(call.this):
            return self._aggregate(call, filtered)
        if is_set_returning(call.this):
            return made_elsewhere(call)
        if call.this == "coalesce":
            _, values = self.alike(call.expressions)
            return lambda row: next((found for each in values if (found := each(row)) is not None), None)
        if call.this == "nullif":
            left, right = self.comparable(call.expressions)
            return lambda row: None if (found := left(row)) == right(row) else found
        if call.this == "_array_or_empty":
            value = self.value(call.expressions[0])
            return lambda row: [] if (found := value(row)) is None else found
        return self._format(call) if call.this == "format" else self._plain(call)

    def _format(self, node: exp.Anonymous) -> Evaluate:
        """format() of texts, with %s and %I."""
        template, arguments = node.expressions[0], node.expressions[1:]
        known = isinstance(template, exp.Literal) and all(_takes("t", self.kind(each)) for each in arguments)
        parts = pieces(template.this) if known else []
        if not parts or any(isinstance(each, Piece) and (each.kind == "L" or each.width) for each in parts):
            return elsewhere("format()")
        values = [self.converted(each, TEXT) for each in arguments]

        def evaluate(row: Row) -> str:
            texts = [value(row) for value in values]
            return "".join(each if isinstance(each, str) else _formatted(each, texts[each.argument]) for each in parts)

        return evaluate

    def _plain(self, node: exp.Anonymous) -> Evaluate:
        """A function that is NULL where an argument is."""
        wanted, function = _FUNCTIONS.get(node.this, {}).get(len(node.expressions), ("", None))
        if function is None:
            return elsewhere(f"{node.this}()")
        arguments = []
        for letter, each in zip(wanted, node.expressions, strict=True):
            kind = self.kind(each)
            if not _takes(letter, kind):
                return elsewhere(f"{node.this}({kind})")
            arguments.append(self.converted(each, TEXT if letter == "t" else kind))

        def evaluate(row: Row) -> Any:
            values = [argument(row) for argument in arguments]
            return None if any(each is None for each in values) else function(*values)

        return evaluate

    # --- aggregates --------------------------------------------------------------------------------------------------

    def _aggregate(self, node: exp.Anonymous, filtered: exp.Expression | None) -> Evaluate:
        arguments, order, distinct = list(node.expressions), [], False
        if arguments and isinstance(arguments[-1], exp.Order):
            order, arguments[-1] = arguments[-1].expressions, arguments[-1].this
        if arguments and isinstance(arguments[0], exp.Distinct):
            distinct, arguments = True, [*arguments[0].expressions, *arguments[1:]]
        if len(arguments) == 1 and isinstance(arguments[0], exp.Star):
            arguments = []
        finish = _AGGREGATES.get((node.this, len(arguments)))
        if finish is None or (distinct and order):
            return elsewhere(f"{node.this}()")
        kinds = [self.kind(each) for each in arguments]
        exact = {"sum": ("smallint", "integer"), "min": _ORDERED, "max": _ORDERED}.get(node.this)
        if exact is not None and (kinds[0] is None or kinds[0].name not in exact):
            return elsewhere(f"{node.this}({kinds[0]})")
        values = [self.converted(each, kind or TEXT) for each, kind in zip(arguments, kinds, strict=True)]
        condition = None if filtered is None else self.converted(filtered, BOOLEAN)
        sort = self.sorter(order)

        def evaluate(row: Row) -> Any:
            if row.group is None:
                raise Elsewhere("an aggregate of another query")
            rows = row.group if condition is None else [each for each in row.group if condition(each)]
            found = [tuple(value(each) for value in values) for each in sort(list(rows))]
            if distinct:
                found = list({tuple(map(hashable, each)): each for each in found}.values())
            return finish(found)

        return evaluate

    def sorter(self, order: Sequence[exp.Ordered]) -> Callable[[list[Row]], list[Row]]:
        keys = [(self.comparable([each.this])[0], *ways(each)) for each in order]

        def sort(rows: list[Row]) -> list[Row]:
            for key, descending, nulls_first in reversed(keys):
                rows = sort_by(rows, key, descending, nulls_first)
            return rows

        return sort

    # --- functions that return rows ----------------------------------------------------------------------------------

    def rows_of(self, node: exp.Anonymous) -> Evaluate:
        """The rows, each a tuple."""
        arguments = node.expressions
        if node.this == "unnest" and all((kind := self.kind(each)) and kind.name == "array" for each in arguments):
            arrays = [self.value(each) for each in arguments]

            def unnest(row: Row) -> list[tuple]:
                found = [array(row) or [] for array in arrays]
                size = max(map(len, found))
                if size > MOST_ROWS:
                    raise Elsewhere("a long array")
                return [tuple(each[at] if at < len(each) else None for each in found) for at in range(size)]

            return unnest
        if node.this == "generate_series" and all(is_integer(self.kind(each)) for each in arguments):
            bounds = [self.value(each) for each in arguments]

            def series(row: Row) -> list[tuple]:
                found = [bound(row) for bound in bounds]
                if None in found:
                    return []
                first, last, step = (*found, 1)[:3]
                if step == 0 or (last - first) // step > MOST_ROWS:
                    raise Elsewhere("a long series")
                return [(number,) for number in range(first, last + (1 if step > 0 else -1), step)]

            return series
        return elsewhere(f"{node.this}()")


def made_elsewhere(node: exp.Expression) -> Evaluate:
    """A value that whoever evaluates the query has put into the row."""
    key = id(node)

    def evaluate(row: Row) -> Any:
        if row.made is None or key not in row.made:
            raise Elsewhere("a window function, or one that returns rows")
        return row.made[key]

    return evaluate


# --- order ----------------------------------------------------------------------------------------------------------


def ways(node: exp.Ordered) -> tuple[bool, bool]:
    """Whether descending, and whether NULLs come first."""
    return bool(node.args.get("desc")), bool(node.args.get("nulls_first"))


def sort_by(rows: list, key: Callable[[Any], Any], descending: bool, nulls_first: bool) -> list:
    known = [(key(row), row) for row in rows]
    nulls = [row for value, row in known if value is None]
    others = [(value, row) for value, row in known if value is not None]
    if others and isinstance(others[0][0], list):
        others.sort(key=cmp_to_key(_compare_arrays), reverse=descending)
    else:
        others.sort(key=lambda pair: pair[0], reverse=descending)
    found = [row for _, row in others]
    return nulls + found if nulls_first else found + nulls


def _compare_arrays(left: tuple[list, Any], right: tuple[list, Any]) -> int:
    if None in left[0] or None in right[0]:
        raise Elsewhere("the order of arrays with NULLs")
    return (left[0] > right[0]) - (left[0] < right[0])


# --- what functions and aggregates do -------------------------------------------------------------------------------


def _takes(letter: str, kind: SqlType | None) -> bool:
    if letter == "t":
        return kind is None or is_text(kind)
    if letter == "i":
        return is_integer(kind)
    return kind is not None and kind.name == "array" and kind.element.name != "array"


def _ascii(change: Callable[[str], str]) -> Callable[[str], str]:
    def apply(text: str) -> str:
        if not text.isascii():
            raise Elsewhere("case beyond ASCII")
        return change(text)

    return apply


def _quote_ident(name: str) -> str:
    plain = re.fullmatch("[a-z_][a-z0-9_$]*", name) is not None and name not in RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'


def _formatted(piece: Piece, text: str | None) -> str:
    if piece.kind == "s":
        return text or ""
    if text is None or text in RESERVED or "$" in text:
        raise Elsewhere("format()")
    return _quote_ident(text)


def _split_part(text: str, separator: str, at: int) -> str:
    if at < 1 or not separator:
        raise Elsewhere("split_part()")
    parts = text.split(separator)
    return parts[at - 1] if at <= len(parts) else ""


def _split(text: str, separator: str) -> list[str]:
    if not separator:
        raise Elsewhere("string_to_array()")
    return text.split(separator) if text else []


def _join(array: list, separator: str) -> str:
    if not all(each is None or (isinstance(each, (str, int)) and not isinstance(each, bool)) for each in array):
        raise Elsewhere("array_to_string()")
    return separator.join(str(each) for each in array if each is not None)


def _first_dimension(of: Callable[[int], int]) -> Callable[[list, int], int | None]:
    def apply(array: list, dimension: int) -> int | None:
        if dimension != 1:
            raise Elsewhere("another dimension")
        return of(len(array)) if array else None

    return apply


def _substring(text: str, first: int, length: int | None = None) -> str:
    if first < 1 or (length is not None and length < 0):
        raise Elsewhere("substring()")
    return text[first - 1 :] if length is None else text[first - 1 : first - 1 + length]


def _left(text: str, count: int) -> str:
    if count < 0:
        raise Elsewhere("left()")
    return text[:count]


_FUNCTIONS: dict[str, dict[int, tuple[str, Callable[..., Any]]]] = {
    "lower": {1: ("t", _ascii(str.lower))},
    "upper": {1: ("t", _ascii(str.upper))},
    **dict.fromkeys(("length", "char_length", "character_length"), {1: ("t", len)}),
    "quote_ident": {1: ("t", _quote_ident)},
    "btrim": {1: ("t", lambda text: text.strip(" ")), 2: ("tt", lambda text, of: text.strip(of))},
    "replace": {3: ("ttt", lambda text, old, new: text.replace(old, new) if old else text)},
    "split_part": {3: ("tti", _split_part)},
    "string_to_array": {2: ("tt", _split)},
    "array_to_string": {2: ("at", _join)},
    "array_length": {2: ("ai", _first_dimension(lambda size: size))},
    "array_upper": {2: ("ai", _first_dimension(lambda size: size))},
    "array_lower": {2: ("ai", _first_dimension(lambda size: 1))},
    "cardinality": {1: ("a", len)},
    "array_remove": {2: ("at", lambda array, element: [each for each in array if each != element])},
    "substring": {2: ("ti", _substring), 3: ("tii", _substring)},
    "substr": {2: ("ti", _substring), 3: ("tii", _substring)},
    "left": {2: ("ti", _left)},
    "strpos": {2: ("tt", lambda text, part: text.find(part) + 1)},
    "position": {2: ("tt", lambda part, text: text.find(part) + 1)},
    "starts_with": {2: ("tt", str.startswith)},
}


def _known(rows: list[tuple]) -> list[Any]:
    return [value for (value,) in rows if value is not None]


def _sum(rows: list[tuple]) -> int | None:
    values = _known(rows)
    return sum(values) if values else None


def _string_agg(rows: list[tuple]) -> str | None:
    known = [(text, separator) for text, separator in rows if text is not None]
    if not known:
        return None
    return known[0][0] + "".join((separator or "") + text for text, separator in known[1:])


_AGGREGATES: dict[tuple[str, int], Callable[[list[tuple]], Any]] = {
    ("count", 0): len,
    ("count", 1): lambda rows: len(_known(rows)),
    ("min", 1): lambda rows: min(_known(rows), default=None),
    ("max", 1): lambda rows: max(_known(rows), default=None),
    ("sum", 1): _sum,
    ("array_agg", 1): lambda rows: [value for (value,) in rows] or None,
    ("string_agg", 2): _string_agg,
    **dict.fromkeys((("bool_and", 1), ("every", 1)), lambda rows: all(found) if (found := _known(rows)) else None),
    ("bool_or", 1): lambda rows: any(found) if (found := _known(rows)) else None,
}
