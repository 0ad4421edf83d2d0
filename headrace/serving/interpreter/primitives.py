"""What the interpreter does with values: NULL stays NULL, and what is doubtful is not done."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from typing import Any

from headrace.errors import HeadraceError
from headrace.serving.interpreter.scope import Elsewhere, Evaluate, Row
from headrace.sql.literals import INTEGER_RANGES, NOT_CONSTANT, from_text
from headrace.sql.typed import is_integer, is_text
from headrace.types import SqlType

_PLAIN_REGEX = re.compile(r"(?:[^\W]|[ ,/^$.|*+)-]|\((?!\?))*")
"""What means the same to PostgreSQL, Java and Python."""


class Rows(list):
    """Rows of a query. What they are looked up by is made once."""

    def __init__(self, rows: Iterable[tuple]):
        super().__init__(rows)
        self._known: frozenset | None = None

    @property
    def known(self) -> frozenset:
        """The values of the one column."""
        if self._known is None:
            self._known = frozenset(value for (value,) in self)
        return self._known


def each_of(compare: Callable, value: Evaluate, elements: Evaluate, *, every: bool) -> Evaluate:
    def evaluate(row: Row) -> bool | None:
        found, others = value(row), elements(row)
        if others is None:
            return None
        if not others:
            return every
        if found is None:
            return None
        unknown = False
        for other in others:
            if other is None:
                unknown = True
            elif compare(found, other) is not every:
                return not every
        return None if unknown else every

    return evaluate


def compared(compare: Callable, left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(row: Row) -> bool | None:
        a, b = left(row), right(row)
        if a is None or b is None:
            return None
        if isinstance(a, list) and (compare not in (operator.eq, operator.ne) or None in a or None in b):
            raise Elsewhere("the order of arrays")
        return compare(a, b)

    return evaluate


def both(left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(row: Row) -> bool | None:
        a, b = left(row), right(row)
        return False if a is False or b is False else (None if a is None or b is None else True)

    return evaluate


def mapped(value: Evaluate, change: Callable[[Any], Any]) -> Evaluate:
    def evaluate(row: Row) -> Any:
        found = value(row)
        return None if found is None else change(found)

    return evaluate


def unless_null(value: Evaluate, reason: str) -> Evaluate:
    def evaluate(row: Row) -> None:
        if value(row) is not None:
            raise Elsewhere(reason)

    return evaluate


def matched(
    value: Evaluate, pattern: Evaluate, translate: Callable[[str], str], *, caseless: bool, whole: bool = False
) -> Evaluate:
    known: dict[str, re.Pattern] = {}
    flags = re.DOTALL | (re.IGNORECASE if caseless else 0)

    def evaluate(row: Row) -> bool | None:
        text, wanted = value(row), pattern(row)
        if text is None or wanted is None:
            return None
        if caseless and not (text.isascii() and wanted.isascii()):
            raise Elsewhere("case beyond ASCII")
        if wanted not in known:
            known[wanted] = re.compile(translate(wanted), flags)
        match = known[wanted].fullmatch(text) if whole else known[wanted].search(text)
        return match is not None

    return evaluate


def like_regex(pattern: str, escape: str) -> str:
    out, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None:
                raise Elsewhere("an escape at the end")
            out.append(re.escape(following))
        else:
            out.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return "".join(out)


def python_regex(pattern: str) -> str:
    if _PLAIN_REGEX.fullmatch(pattern) is None or re.search(r"[*+]{2}|[*+^|(]\s*[*+]|\$[*+]", pattern):
        raise Elsewhere(f"the pattern {pattern}")
    try:
        re.compile(pattern)
    except re.error as error:
        raise Elsewhere(str(error)) from error
    return pattern.replace("$", r"\Z")


def same(own: SqlType, kind: SqlType) -> bool:
    """Whether a value of one type is the same Python value of the other."""
    if own == kind or (is_integer(own) and is_integer(kind)) or (is_text(own) and is_text(kind)):
        return True
    return own.name == kind.name == "array" and same(own.element, kind.element)


def in_range(number: int, kind: SqlType) -> int:
    limit = INTEGER_RANGES[kind.name]
    if not -limit <= number < limit:
        raise Elsewhere("out of range")
    return number


def read(text: str, kind: SqlType) -> Any:
    try:
        found = from_text(text, kind)
    except HeadraceError as error:
        raise Elsewhere(str(error)) from error
    if found is NOT_CONSTANT:
        raise Elsewhere(text)
    return found


def divide(a: int, b: int) -> int:
    """Towards zero, as SQL does; Python rounds down."""
    if b == 0:
        raise Elsewhere("division by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a - b * divide(a, b)
