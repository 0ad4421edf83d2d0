"""How many decimals of a quotient are shown, in Spark SQL. See :mod:`headrace.decimals`.

There are two ways to know it. By the value: so a quotient becomes text inside of a query, because a view may have
stored it, and has to give the text that its query gives. And by the operands, as PostgreSQL knows it: so much is
handed out beside the value where a query's result is the quotient, or something computed with it.

>>> print(quotient_decimals(Typed("`a`", SqlType("numeric", precision=4, scale=0)), Typed("3", SqlType("integer"))))
greatest((16 - 4 * shiftright((0 + CAST(abs(CAST(`a` AS BIGINT)) AS INT)) - 3 - 1, 16)), 0)
"""

from __future__ import annotations

import re

from headrace.decimals import GROUP, SIGNIFICANT
from headrace.sql.typed import Typed, digits, is_free, is_integer
from headrace.types import SHOWN_DECIMALS, SHOWN_VALUE, SqlType


def _with(sql: str, name: str, body: str) -> str:
    """An expression in which a value stands several times, without computing it as often."""
    return f"get(transform(array({sql}), {name} -> {body}), 0)"


def _cases(kind: SqlType, name: str) -> list[tuple[str, int]]:
    """Conditions on a value's size, and how many decimals it has then; the last one always holds."""
    precision, scale = digits(kind)
    least, more = kind.quotient or (0, 0)

    def shown(decimals: int) -> int:
        return min(max(decimals, least, 0) + more, scale)

    found: list[tuple[str, int]] = []
    decimals = SIGNIFICANT + GROUP
    for zeros in range(0, precision - scale, GROUP):
        if shown(decimals) != shown(decimals - GROUP):
            # A power of 10,000 has the decimals of what is below it.
            found.append((f"abs({name}) <= 1{'0' * zeros}BD", shown(decimals)))
        decimals -= GROUP
    return [*found, ("true", shown(decimals))]


def text_of_quotient(sql: str, kind: SqlType) -> str:
    """As PostgreSQL prints it, by its value."""
    *cases, (_, last) = _cases(kind, "_q")

    def text(decimals: int) -> str:
        return f"CAST(CAST(_q AS DECIMAL(38,{decimals})) AS STRING)"

    if not cases:
        return text(last).replace("_q", sql)
    whens = " ".join(f"WHEN {condition} THEN {text(decimals)}" for condition, decimals in cases)
    return _with(sql, "_q", f"CASE {whens} ELSE {text(last)} END")


def shown_decimals(value: Typed) -> str:
    """How many decimals of an exact number are shown."""
    if value.decimals is not None:
        return value.decimals
    kind = value.type
    if is_integer(kind):
        return "0"
    if kind.quotient is not None:
        *cases, (_, last) = _cases(kind, "_q")
        whens = " ".join(f"WHEN {condition} THEN {decimals}" for condition, decimals in cases)
        return _with(value.sql, "_q", f"CASE {whens} ELSE {last} END") if cases else str(last)
    if is_free(kind):
        text = f"CAST({value.sql} AS STRING)"
        return f"({digits(kind)[1]} - length({text}) + length(rtrim('0', {text})))"
    return str(digits(kind)[1])


def is_dynamic(value: Typed) -> bool:
    """Whether how many decimals are shown depends on the value."""
    return value.decimals is not None or (value.type is not None and value.type.quotient is not None)


_STEP = 1 << 16
"""From one place in base 10,000 to the next. A shift undoes it, which is quicker than a division."""
_FIT = 18
"""Digits of which every number is a bigint."""


def _first_digit(value: Typed) -> str:
    """Where a number begins in base 10,000, and with which digit: ``_STEP`` times the one, plus the other.

    Each row of an answer needs it twice, so it is done with comparisons and integers as far as they go. A lambda, which
    could give names to what is repeated here, would not be compiled, nor anything else of the SELECT list.

    >>> [_first_digit(Typed(text, SqlType("numeric", precision=9, scale=2))) for text in ("1.50BD", "12345.00BD")]
    ['1', '65537']
    >>> _first_digit(Typed("`n`", SqlType("numeric", precision=6, scale=2)))[:77]
    'CASE WHEN abs(CAST(`n` AS BIGINT)) = 0 THEN CASE WHEN `n` = 0.0BD THEN 0 ELSE'
    """
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?(BD)?", value.sql):
        return str(_first_digit_of_constant(value.sql.removesuffix("BD")))
    precision, scale = digits(value.type)
    whole, sql = precision - scale, value.sql
    # The least bigint has no opposite, nor has a decimal of more than 34 digits one that Spark gets right.
    if is_integer(value.type):
        number = f"abs(greatest({sql}, {1 - 2**63}L))" if value.type.name == "bigint" else f"abs(CAST({sql} AS BIGINT))"
        fits = True
    else:
        fits = whole <= _FIT
        number = f"abs(CAST({sql} AS BIGINT))" if fits else f"abs(nullif(TRY_CAST({sql} AS BIGINT), {-(2**63)}))"
    places = [(f"{number} = 0", _fraction_place(sql, scale))] if scale else []
    for place in range((whole - 1) // GROUP + 1):
        least, above = f"1{'0' * GROUP * place}", f"1{'0' * GROUP * (place + 1)}"
        if fits or GROUP * (place + 1) <= _FIT:
            first = f"{number} DIV {least}L" if place else number
            places.append((f"{number} < {above}L", f"{place * _STEP} + CAST({first} AS INT)"))
        else:  # what is too large for a bigint is NULL, and was in none of the places below
            within = f"{sql} < {above}BD AND {sql} > -{above}BD"
            places.append((within, f"{place * _STEP} + abs(CAST({sql} DIV {least}BD AS INT))"))
    return _choice(places)


def _first_digit_of_constant(number: str) -> int:
    """
    >>> [_first_digit_of_constant(text) for text in ("0.0", "70000", "0.0300", "0.00001")]
    [0, 65543, -65236, -130072]
    """
    whole, _, fraction = number.partition(".")
    fraction += "0" * (-len(fraction) % GROUP)
    text = (whole + fraction).lstrip("0")
    last = len(text) - 1
    return ((last - len(fraction)) // GROUP) * _STEP + int(text[: last % GROUP + 1]) if text else 0


def _fraction_place(sql: str, scale: int) -> str:
    """The same of what is below 1: its text is a zero, a point, and as many digits as the type has."""
    places = [(f"{sql} = 0.0BD", "0")]  # beside an integer Spark would cut decimals off
    for place in range(1, -(-scale // GROUP) + 1):
        first = f"substr(ltrim('-', CAST({sql} AS STRING)), {3 + GROUP * (place - 1)}, {GROUP})"
        if scale < GROUP * place:
            first = f"rpad({first}, {GROUP}, '0')"
        least = f"0.{'0' * (GROUP * place - 1)}1BD"
        places.append((f"{sql} >= {least} OR {sql} <= -{least}", f"CAST({first} AS INT) - {place * _STEP}"))
    return _choice(places)


def _choice(cases: list[tuple[str, str]]) -> str:
    """The last one holds where no other does."""
    *cases, (_, last) = cases
    if not cases:
        return f"({last})"
    return f"CASE {' '.join(f'WHEN {condition} THEN {value}' for condition, value in cases)} ELSE {last} END"


def quotient_decimals(left: Typed, right: Typed) -> str:
    """As PostgreSQL does it, with the operands. That may be more than there are."""
    places = f"{_first_digit(left)} - {_first_digit(right)} - 1"
    found = f"({SIGNIFICANT} - {GROUP} * shiftright({places}, {_STEP.bit_length() - 1}))"
    least, others = 0, []
    for operand in (left, right):
        shown = shown_decimals(operand)
        if shown.isdigit():
            least = max(least, int(shown))
        elif is_dynamic(operand):
            others.append(shown)
        else:  # to count them takes long, and they are seldom so many
            others.append(f"IF({found} >= {digits(operand.type)[1]}, 0, {shown})")
    return f"greatest({', '.join((found, *others, str(least)))})"


def handed_out(value: Typed) -> str:
    """The value, and how many of its decimals are shown.

    The struct is there without a value, too: a CASE around it would compute the value a second time."""
    # Spark's rows do not become Arrow's where a field is never NULL and the struct is.
    decimals = f"nullif(CAST({value.decimals} AS INT), -1)"
    return f"named_struct('{SHOWN_VALUE}', {value.sql}, '{SHOWN_DECIMALS}', {decimals})"
