"""Where statements, strings and comments end: the little of SQL's lexis that must work on unfinished text.

The shell asks :func:`is_complete` after every line, long before the text can be parsed; everything else about SQL's
tokens is left to sqlglot.

>>> split("SELECT ';'; -- done;\\nSELECT 2")
["SELECT ';'", 'SELECT 2']
>>> is_complete("SELECT $$ ; ")
False
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.errors import DataError, SqlSyntaxError

_OPENING = re.compile(r"--|/\*|'|\"|\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$|;")
_COMMENT = re.compile(r"/\*|\*/")


@dataclass(frozen=True, kw_only=True)
class Piece:
    kind: str
    """code, comment, string, identifier, dollar, semicolon"""
    start: int
    end: int
    closed: bool = True


def pieces(text: str) -> Iterator[Piece]:
    """The text cut into code, comments, quoted things and semicolons, in order and without gaps."""
    position = code = 0
    while match := _OPENING.search(text, position):
        start, token = match.span()[0], match[0]
        if token[0] == "$" and start and (text[start - 1].isalnum() or text[start - 1] in "_$"):
            position = start + 1  # a$b$ is an identifier
            continue
        kind, end = _close(text, start, token)
        if start > code:
            yield Piece(kind="code", start=code, end=start)
        yield Piece(kind=kind, start=start, end=len(text) if end is None else end, closed=end is not None)
        position = code = len(text) if end is None else end
    if code < len(text):
        yield Piece(kind="code", start=code, end=len(text))


def _close(text: str, start: int, token: str) -> tuple[str, int | None]:
    """What the opening token begins, and the index after its end, or None if it has none."""
    after = start + len(token)
    if token == ";":
        return "semicolon", after
    if token == "--":
        end = text.find("\n", after)
        return "comment", len(text) if end < 0 else end + 1
    if token == "/*":
        return "comment", _comment_end(text, after)
    if token[0] == "$":
        end = text.find(token, after)
        return "dollar", None if end < 0 else end + len(token)
    escapes = token == "'" and start > 0 and text[start - 1] in "eE" and not (start > 1 and _in_word(text[start - 2]))
    return ("string" if token == "'" else "identifier"), _quote_end(text, after, token, escapes)


def _in_word(character: str) -> bool:
    return character.isalnum() or character in "_$"


def _comment_end(text: str, position: int) -> int | None:
    depth = 1  # PostgreSQL's comments nest
    for match in _COMMENT.finditer(text, position):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    return None


def _quote_end(text: str, position: int, quote: str, escapes: bool) -> int | None:
    while position < len(text):
        if escapes and text[position] == "\\":
            position += 2
        elif text[position] != quote:
            position += 1
        elif text.startswith(quote * 2, position):
            position += 2
        else:
            return position + 1
    return None


def split(text: str) -> list[str]:
    """The statements of the text, without their semicolons and the comments around them."""
    return [text[start:end] for start, end in spans(text)]


def spans(text: str) -> list[tuple[int, int]]:
    """Where the statements of the text are."""
    found, start, end = [], None, 0
    for piece in pieces(text):
        if piece.kind == "semicolon":
            if start is not None:
                found.append((start, end))
            start = None
        elif piece.kind != "comment":
            inner = text[piece.start : piece.end]
            if not inner.strip():
                continue
            if start is None:
                start = piece.start + len(inner) - len(inner.lstrip())
            end = piece.start + len(inner.rstrip())
    if start is not None:
        found.append((start, end))
    return found


def is_complete(text: str) -> bool:
    """Whether the last statement is closed by a semicolon, so that the shell may run what it has."""
    last = None
    for piece in pieces(text):
        if not piece.closed:
            return False
        if piece.kind != "comment" and text[piece.start : piece.end].strip():
            last = piece
    return last is not None and last.kind == "semicolon"


_UNTERMINATED = {
    "string": "unterminated quoted string",
    "identifier": "unterminated quoted identifier",
    "dollar": "unterminated dollar-quoted string",
    "comment": "unterminated /* comment",
}


def check_terminated(text: str) -> None:
    for piece in pieces(text):
        if not piece.closed:
            near = text[piece.start :].split("\n")[0]
            raise SqlSyntaxError(f'{_UNTERMINATED[piece.kind]} at or near "{near}"', position=piece.start + 1)


_SIMPLE_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HIGH, _LOW = "([dD][89abAB][0-9A-Fa-f]{2})", "([dD][c-fC-F][0-9A-Fa-f]{2})"
"""The halves of a surrogate pair, which are one character."""
_ESCAPE = re.compile(
    rf"\\(?:u|U0000){_HIGH}\\(?:u|U0000){_LOW}|"
    r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))|''",
    re.DOTALL,
)
_UNICODE = re.compile(rf"\\(?:\+00)?{_HIGH}\\(?:\+00)?{_LOW}|\\(?:(\\)|\+([0-9A-Fa-f]{{6}})|([0-9A-Fa-f]{{4}})|)")


def string_value(source: str) -> str:
    """The value of a string constant as written, in any of PostgreSQL's quoting styles.

    >>> string_value(r"E'a\\tb'"), string_value(r"'a\\tb'"), string_value("$x$it's$x$"), string_value(r"U&'d\\0061ta'")
    ('a\\tb', 'a\\\\tb', "it's", 'data')
    """
    value = _denoted(source)
    if "\0" in value:
        raise nul_character()
    return value


def quoted_string(value: str) -> str:
    """A string constant that has this value."""
    return "'" + value.replace("'", "''") + "'"


def nul_character() -> DataError:
    """PostgreSQL's text has every character but this one."""
    return DataError('invalid byte sequence for encoding "UTF8": 0x00', sqlstate="22021")


def _denoted(source: str) -> str:
    if source[0] == "$":
        tag = source[: source.index("$", 1) + 1]
        return source[len(tag) : -len(tag)]
    if source[0] in "eE":
        return _as_utf8(_ESCAPE.sub(_unescape, source[2:-1]))
    if source[:2].upper() == "U&":
        return _UNICODE.sub(_unicode, source[3:-1].replace("''", "'"))
    return source[1:-1].replace("''", "'")


def _as_utf8(text: str) -> str:
    """Characters may have been written as several bytes, each of which Python has as half of a pair."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-8", "surrogateescape").decode()
    except UnicodeError:
        raise DataError('invalid byte sequence for encoding "UTF8"', sqlstate="22021") from None


def _unescape(match: re.Match[str]) -> str:
    high, low, octal, hexadecimal, short, long, simple = match.groups()
    if match[0] == "''":
        return "'"
    if high is not None:
        return _of_pair(high, low)
    if octal is not None or hexadecimal is not None:
        byte = int(octal, 8) & 0xFF if octal is not None else int(hexadecimal, 16)
        return chr(byte) if byte < 0x80 else chr(0xDC00 + byte)
    if short is not None or long is not None:
        return _character(short or long)
    if simple in "uU":
        raise DataError("invalid Unicode escape", hint=r"\uXXXX and \UXXXXXXXX are some", sqlstate="22025")
    return _SIMPLE_ESCAPES.get(simple, simple)


def _unicode(match: re.Match[str]) -> str:
    high, low, backslash, *digits = match.groups()
    if backslash is not None:
        return "\\"
    if high is not None:
        return _of_pair(high, low)
    if not any(digits):
        raise SqlSyntaxError("invalid Unicode escape", hint=r"\XXXX and \+XXXXXX are some")
    return _character(digits[0] or digits[1])


def _of_pair(high: str, low: str) -> str:
    return chr(0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF))


def _character(digits: str) -> str:
    code = int(digits, 16)
    if code > 0x10FFFF:
        raise SqlSyntaxError("invalid Unicode escape value")
    if 0xD800 <= code < 0xE000:
        raise SqlSyntaxError("invalid Unicode surrogate pair")
    return chr(code)
