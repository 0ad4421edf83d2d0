"""How many decimals of a quotient PostgreSQL shows.

It decides so for each division, by its operands in base 10,000: 16 digits at least, counted from where the quotient
begins. Its first digit is taken to be one place further if the operands' first digits do not tell. Here a quotient has
as many decimals as its type, so that sums and averages of a view stay exact, and this says how many of them are shown
(docs/design/server.md). Who has the operands does what PostgreSQL does (:mod:`headrace.sql.decimals`) and says so with
:class:`Shown`; of a value that was stored it is worked out from itself.

>>> [decimals_of_value(Decimal(text), 20) for text in ("0.5", "1", "2.5", "-12345", "123456789", "0")]
[20, 20, 16, 12, 8, 20]
>>> str(rounded(Decimal("2.66666666666666666667"), 16))
'2.6666666666666667'
"""

from __future__ import annotations

import decimal
from decimal import Decimal

SIGNIFICANT = 16
"""Digits of a quotient, at least."""
GROUP = 4
"""Decimal digits of one in base 10,000."""

_POWERS = {exponent: Decimal(1).scaleb(exponent) for exponent in range(-100, 101)}
_WIDE = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP)


class Shown(Decimal):
    """A number of which so many decimals are printed; it has them all."""

    decimals: int

    @staticmethod
    def of(value: Decimal, decimals: int) -> Shown:
        found = Shown(value)
        found.decimals = decimals
        return found


def decimals_of_value(value: Decimal, scale: int, least: int = 0, more: int = 0) -> int:
    """Of a quotient with ``scale`` decimals, by itself. ``least`` and ``more``: see SqlType.quotient."""
    if not value:
        shown = SIGNIFICANT + GROUP
    else:
        weight = value.adjusted() // GROUP
        # Operands that differ by a power of 10,000 begin with the same digit.
        exact = value.copy_abs() == _POWERS[GROUP * weight]
        shown = SIGNIFICANT - GROUP * (weight - exact)
    return min(max(shown, least, 0) + more, scale)


def decimals_shown(value: Shown, scale: int) -> int:
    """Of a quotient with ``scale`` decimals: not more than those, unless it has so few that zeros must follow.

    >>> [decimals_shown(Shown.of(Decimal(text), 24), 20) for text in ("0.00005", "0.00003333333333333333")]
    [24, 20]
    """
    if value.decimals <= scale or value == rounded(value, scale - GROUP):
        return value.decimals
    return scale


def rounded(value: Decimal, decimals: int) -> Decimal:
    """With so many decimals, half away from zero."""
    found = value.quantize(_POWERS[-decimals], context=_WIDE)
    return found if found else found.copy_abs()
