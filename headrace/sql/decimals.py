"""How many decimals of a quotient are shown, in Spark SQL. See :mod:`headrace.decimals`.

There are two ways to know it. By the value: so a quotient becomes text inside of a query, because a view may have
stored it, and has to give the text that its query gives. And by the operands, as PostgreSQL knows it: so much is
handed out beside the value where a query's result is the quotient, or something computed with it.

>>> print(quotient_decimals(Typed("`a`", SqlType("integer")), Typed("3", SqlType("integer")))[:79])
greatest(CASE WHEN abs(try_divide(CAST(`a` AS DOUBLE), CAST(3 AS DOUBLE))) > 2.
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
        return rf"length(regexp_extract(CAST({value.sql} AS STRING), '\\.([0-9]*[1-9])', 1))"
    return str(digits(kind)[1])


def is_dynamic(value: Typed) -> bool:
    """Whether how many decimals are shown depends on the value."""
    return value.decimals is not None or (value.type is not None and value.type.quotient is not None)


def _first_digit(value: Typed) -> str:
    """Where a number begins in base 10,000, and with which digit: 10,000 times the one, plus the other.

    >>> [_first_digit(Typed(text, SqlType("numeric", precision=9, scale=2))) for text in ("1.50BD", "12345.00BD")]
    ['1', '10001']
    """
    scale = digits(value.type)[1]
    padding = -scale % GROUP
    groups = (scale + padding) // GROUP
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?(BD)?", value.sql):
        number = (value.sql.removesuffix("BD").replace(".", "") + "0" * padding).lstrip("0")
        last = len(number) - 1
        return str((last // GROUP - groups) * 10_000 + int(number[: last % GROUP + 1])) if number else "0"
    number = f"replace(CAST(abs({value.sql}) AS STRING), '.', '')"
    number = f"ltrim('0', concat({number}, '{'0' * padding}'))" if padding else f"ltrim('0', {number})"
    weight = f"((length(_n) - 1) DIV {GROUP}{f' - {groups}' if groups else ''})"
    first = f"CAST(left(_n, (length(_n) - 1) % {GROUP} + 1) AS INT)"
    return _with(number, "_n", f"IF(_n = '', 0, {weight} * 10000 + {first})")


def quotient_decimals(left: Typed, right: Typed) -> str:
    """As PostgreSQL does it, with the operands. That may be more than there are.

    Looking at their digits takes long. It is for quotients that begin with the digit 1 in base 10,000, or may do so: to
    most of them a double, which is quickly had, says where they begin.
    """
    places = f"{_first_digit(left)} - {_first_digit(right)} - 1"
    by_digits = f"{SIGNIFICANT} - {GROUP} * CAST(floor(({places}) / 10000D) AS INT)"
    shown = sorted({shown_decimals(left), shown_decimals(right), "0"})
    size = f"abs(try_divide(CAST({left.sql} AS DOUBLE), CAST({right.sql} AS DOUBLE)))"
    clear = [("2.0001D", "9999.9D", 16), ("0.00020001D", "0.9999D", 20), ("20001D", "99999999D", 12)]
    whens = [f"WHEN {size} > {low} AND {size} < {high} THEN {decimals}" for low, high, decimals in clear]
    return f"greatest(CASE {' '.join(whens)} ELSE {by_digits} END, {', '.join(shown)})"


def handed_out(value: Typed) -> str:
    """The value, and how many of its decimals are shown."""
    # Spark's rows do not become Arrow's where a field is never NULL and the struct around it is.
    decimals = f"nullif(CAST({value.decimals} AS INT), -1)"
    pair = f"named_struct('{SHOWN_VALUE}', {value.sql}, '{SHOWN_DECIMALS}', {decimals})"
    return f"CASE WHEN {value.sql} IS NOT NULL THEN {pair} END"
