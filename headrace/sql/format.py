"""format(): PostgreSQL's sprintf, taken apart while the format is a constant.

>>> pieces("a %s, %2$L%%")
['a ', Piece(kind='s', argument=0, width=0), ', ', Piece(kind='L', argument=1, width=0), '%']
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.errors import DataError, Unsupported
from headrace.sql.casts import cast
from headrace.sql.dialect import RESERVED
from headrace.sql.literals import spark_string
from headrace.sql.signatures import no_function
from headrace.sql.typed import BOOLEAN, TEXT, Typed


@dataclass(frozen=True)
class Piece:
    kind: str
    argument: int
    width: int


_SPECIFIER = re.compile(r"%(?:%|(?:(\d+)\$)?(-?\d*)([sIL])|(.?))", re.DOTALL)


def pieces(text: str) -> list[str | Piece]:
    found: list[str | Piece] = []
    end = following = 0
    for match in _SPECIFIER.finditer(text):
        if match.start() > end:
            found.append(text[end : match.start()])
        end = match.end()
        if match[0] == "%%":
            found.append("%")
            continue
        if match[3] is None:
            raise DataError(f'unrecognized format() type specifier "{match[4]}"', sqlstate="22023")
        argument = following if match[1] is None else int(match[1]) - 1
        following = argument + 1
        found.append(Piece(match[3], argument, int(match[2]) if match[2] not in ("", "-") else 0))
    return found + ([text[end:]] if end < len(text) else [])


def format_text(name: str, args: list[Typed]) -> Typed:
    if not args:
        raise no_function(name, args)
    if args[0].literal is None:
        raise Unsupported("format() with a format that is not a string constant is not supported")
    parts = []
    for piece in pieces(args[0].literal):
        if isinstance(piece, str):
            parts.append(spark_string(piece))
            continue
        if not 0 <= piece.argument < len(args) - 1:
            raise DataError("too few arguments for format()", sqlstate="22023")
        parts.append(_padded(_piece(piece, args[piece.argument + 1]), piece.width))
    return Typed(f"concat({', '.join(parts)})" if parts else "''", TEXT)


def _piece(piece: Piece, value: Typed) -> str:
    text = cast(value, TEXT).sql
    if value.type == BOOLEAN:
        text = f"CASE WHEN {value.sql} THEN 't' WHEN NOT {value.sql} THEN 'f' END"
    if piece.kind == "s":
        return f"coalesce({text}, '')"
    if piece.kind == "L":
        quoted = f"""concat("'", replace({text}, "'", "''"), "'")"""
        escaped = f"""concat("E'", replace(replace({text}, '\\\\', '\\\\\\\\'), "'", "''"), "'")"""
        return f"CASE WHEN {text} IS NULL THEN 'NULL' WHEN contains({text}, '\\\\') THEN {escaped} ELSE {quoted} END"
    missing = "CAST(raise_error('null values cannot be formatted as an SQL identifier') AS STRING)"
    return f"CASE WHEN {text} IS NULL THEN {missing} ELSE {quoted_name(text)} END"


def quoted_name(text: str) -> str:
    """Spark SQL for a name as it must be written: in quotes where it would be another, or a word of SQL's."""
    words = ", ".join(f"'{word}'" for word in sorted(RESERVED))
    plain = f"{text} NOT IN ({words}) AND {text} RLIKE '^[a-z_][a-z0-9_$]*\\\\z'"
    return f"CASE WHEN {plain} THEN {text} ELSE concat('\"', replace({text}, '\"', '\"\"'), '\"') END"


def _padded(sql: str, width: int) -> str:
    if not width:
        return sql
    side = "rpad" if width < 0 else "lpad"
    return f"{side}({sql}, greatest({abs(width)}, length({sql})), ' ')"
