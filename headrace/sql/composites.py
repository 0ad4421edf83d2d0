"""The text forms of arrays and structs, taken apart as PostgreSQL does: each element is a text again, or None for NULL.

>>> array_items('{a, "b,\\\\"c", NULL, {1,2}}')
['a', 'b,"c', None, '{1,2}']
>>> struct_items('(1,"a ""b",,"")')
['1', 'a "b', None, '']
>>> array_items('{"a')
Traceback (most recent call last):
headrace.errors.DataError: malformed array literal: "{"a"
"""

from __future__ import annotations

from headrace.errors import DataError

_BLANKS = " \t\n\r\v\f"


def array_items(text: str) -> list[str | None]:
    body = text.strip(_BLANKS)
    if not (body.startswith("{") and body.endswith("}") and len(body) > 1):
        raise _malformed("array", text)
    inner = body[1:-1]
    if not inner.strip(_BLANKS):
        return []
    return [_array_item(part, text) for part in _parts(inner, text)]


def _parts(inner: str, text: str) -> list[str]:
    """What is between the commas, as it is written."""
    parts, start, depth, position, quoted = [], 0, 0, 0, False
    while position < len(inner):
        character = inner[position]
        if character == "\\":
            position += 1
        elif character == '"':
            quoted = not quoted
        elif not quoted and character in "{}":
            depth += 1 if character == "{" else -1
            if depth < 0:
                raise _malformed("array", text)
        elif not quoted and character == "," and depth == 0:
            parts.append(inner[start:position])
            start = position + 1
        position += 1
    if quoted or depth or position > len(inner):
        raise _malformed("array", text)
    return [*parts, inner[start:]]


def _array_item(part: str, text: str) -> str | None:
    item = part.lstrip(_BLANKS)
    if item.startswith("{"):
        return item.rstrip(_BLANKS)
    if item.startswith('"'):
        value, end = _quoted(item, doubled=False)
        if item[end:].strip(_BLANKS):
            raise _malformed("array", text)
        return value
    item = _trimmed(item)
    if not item or '"' in item or "{" in item or "}" in item:
        raise _malformed("array", text)
    return None if item.upper() == "NULL" else _unescaped(item)


def _trimmed(item: str) -> str:
    """Without blanks at the end, unless one is escaped."""
    trimmed = item.rstrip(_BLANKS)
    slashes = len(trimmed) - len(trimmed.rstrip("\\"))
    return trimmed if slashes % 2 == 0 else item[: len(trimmed) + 1]


def struct_items(text: str) -> list[str | None]:
    body = text.strip(_BLANKS)
    if not (body.startswith("(") and body.endswith(")") and len(body) > 1):
        raise _malformed("record", text)
    inner, items, position = body[1:-1], [], 0
    while True:
        value: str | None = None
        while position < len(inner) and inner[position] != ",":
            if inner[position] == '"':
                more, length = _quoted(inner[position:], doubled=True)
            elif inner[position] == "\\" and position + 1 < len(inner):
                more, length = inner[position + 1], 2
            elif inner[position] in "()\\":
                raise _malformed("record", text)
            else:
                more, length = inner[position], 1
            value, position = (value or "") + more, position + length
        items.append(value)
        if position >= len(inner):
            return items
        position += 1


def _quoted(item: str, *, doubled: bool) -> tuple[str, int]:
    """What the quotes at the start hold, and where they end. Inside, a quote is escaped, or doubled in a struct."""
    value, position = [], 1
    while position < len(item):
        character = item[position]
        if character == "\\" and position + 1 < len(item):
            value.append(item[position + 1])
            position += 2
        elif character != '"':
            value.append(character)
            position += 1
        elif doubled and item[position + 1 : position + 2] == '"':
            value.append('"')
            position += 2
        else:
            return "".join(value), position + 1
    raise _malformed("record" if doubled else "array", item)


def _unescaped(item: str) -> str:
    if "\\" not in item:
        return item
    value, position = [], 0
    while position < len(item):
        position += item[position] == "\\" and position + 1 < len(item)
        value.append(item[position])
        position += 1
    return "".join(value)


def _malformed(what: str, text: str) -> DataError:
    return DataError(f'malformed {what} literal: "{text}"', sqlstate="22P02")
