"""JSON as the text that a jsonb column holds: sorted keys, no blanks, and numbers with all their digits.

SQL makes the same of it (``text::jsonb``), so that the two are equal. There, a number is a decimal of 38 digits or, if
that cannot hold it, a double, as Java prints them. Here, one that is neither keeps its digits all the same.

>>> normal_text({"b": Decimal("9007199254740993.10"), "a": [1, Decimal("1e-7")]})
'{"a":[1,0.0000001],"b":9007199254740993.1}'
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

DIGITS = 38
"""Of a decimal in Spark's VARIANT, and as many behind the point"""


class _Exactly(Exception):
    """A number is not one that Python's own writer of JSON has."""


def normal_text(value: Any) -> str:
    """Of what ``json.loads`` has, with Decimals for numbers with a point. ValueError, if it is nothing of JSON's."""
    try:
        return _written(value, _quick)
    except _Exactly:  # by far slower, and seldom needed
        return _exact(value)


def _written(value: Any, default: Any = None) -> str:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=default
    )


def _quick(value: Any) -> int | float:
    if not isinstance(value, Decimal):
        raise ValueError(f"{value!r} is nothing that JSON has")
    text = number_text(value)
    if text.removeprefix("-").isdigit():
        return int(text)
    number = float(text)
    if repr(number) != text:
        raise _Exactly
    return number


def _exact(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{','.join(f'{_written(key)}:{_exact(value[key])}' for key in sorted(value))}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_exact, value))}]"
    return number_text(value) if isinstance(value, Decimal) else _written(value)


def number_text(value: Decimal) -> str:
    """
    >>> [number_text(Decimal(text)) for text in ("-0.0", "1.50", "1E+2", "1E+40", "1E-400", "7" * 40 + ".5")]
    ['0', '1.5', '100', '1.0E40', '1E-400', '7777777777777777777777777777777777777777.5']
    """
    if not value:
        return "0"
    double = float(value) if value.is_finite() else math.inf
    if math.isinf(double):
        raise ValueError(f"{value} is a number that is too large")
    text = str(value)
    if abs(value.adjusted()) <= 2 * DIGITS:  # or writing it out would take what its exponent says
        text = f"{value:f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        whole, _, fraction = text.removeprefix("-").partition(".")
        if len(fraction) <= DIGITS and len((whole + fraction).lstrip("0")) <= DIGITS:
            return text
    return _as_java(double) if Decimal(repr(double)) == value else text


def _as_java(number: float) -> str:
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    shown = "".join(map(str, digits)).rstrip("0")
    return f"{'-' * sign}{shown[0]}.{shown[1:] or '0'}E{len(digits) - 1 + int(exponent)}"
