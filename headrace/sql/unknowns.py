"""Parameters whose values are not known yet: which types their surroundings ask for.

A driver wants to know the types of a statement's parameters before it sends values. Where nobody named one, the
parameter stands in the text as a string constant, which has no type of its own either: it is converted to what its
surroundings want, and that is remembered. It is by a mark in the constant that such a parameter is known.

>>> mark(3)
"'\\ue000$3'"
>>> with asked() as found:
...     is_wanted_as("\\ue000$3", SqlType("integer")), is_wanted_as("text", SqlType("integer"))
(True, False)
>>> str(found[3]), is_wanted_as("\\ue000$3", SqlType("integer"))
('integer', False)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from headrace.types import SqlType

_MARK = re.compile(r"\ue000\$(\d+)")
"""It begins with a character that Unicode gives to nobody."""
_found: ContextVar[dict[int, SqlType] | None] = ContextVar("found", default=None)


def mark(number: int) -> str:
    return f"'\ue000${number}'"


@contextmanager
def asked() -> Iterator[dict[int, SqlType]]:
    """The types of marked parameters in what is translated meanwhile, as far as they have any: by their first use."""
    found: dict[int, SqlType] = {}
    token = _found.set(found)
    try:
        yield found
    finally:
        _found.reset(token)


def is_wanted_as(text: str, target: SqlType) -> bool:
    """Whether the constant is a parameter; then the type is remembered."""
    found = _found.get()
    match = None if found is None else _MARK.fullmatch(text)
    if match is None:
        return False
    found.setdefault(int(match[1]), target)
    return True
