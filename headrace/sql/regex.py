r"""PostgreSQL's regular expressions and LIKE patterns as Java's.

A constant is translated here. A pattern that comes from a column is translated by Spark, for each row: running it
untranslated would match other strings. What that translation does not know is an error of the row.

>>> java_regex("^[[:digit:]]+$")
'(?s)^[\\p{Digit}]+\\z'
>>> like_pattern("100#%", "#")
'100\\%'
"""

from __future__ import annotations

import re

from headrace.errors import DataError, Unsupported
from headrace.sql.literals import spark_string

_CLASSES = {
    "alpha": r"\p{L}", "digit": r"\p{Digit}", "alnum": r"\p{L}\p{Nd}", "upper": r"\p{Lu}", "lower": r"\p{Ll}",
    "space": r"\s", "blank": r" \t", "punct": r"\p{Punct}", "xdigit": r"\p{XDigit}", "word": r"\w",
    "cntrl": r"\p{Cntrl}", "print": r"\p{Print}", "graph": r"\p{Graph}",
}  # fmt: skip

_ESCAPES = {"m": r"\b(?=\w)", "M": r"\b(?<=\w)", "y": r"\b", "Y": r"\B", "Z": r"\z", "A": r"\A"}


_ONLY_CONSTANT = (
    r"^\*\*\*|^\(\?[a-z]+\)|\[[.=]",  # options; names of characters
    r"(?<!\\)\[\^?\]?(?:[^\[\]]|\[:\w+:\])*(?:\[(?!:)|&&)",  # what would need an escape inside brackets
    r"(?<!\\)(?:\\\\)*\\[QEpPRXkGzhHvV]",  # escapes that only Java has
)
"""What the translation in Spark does not do."""


def java_regex(pattern: str, *, ignore_case: bool = False) -> str:
    """A pattern for Spark's RLIKE and regexp functions; a dot matches newlines, $ only the very end."""
    if pattern.startswith("***"):
        raise Unsupported("a regular expression that starts with *** is not supported")
    options = re.match(r"\(\?([a-z]+)\)", pattern)
    if options is not None:
        if options[1] not in ("i", "c", "s"):
            raise Unsupported(f"the regular expression option (?{options[1]}) is not supported")
        ignore_case = ignore_case or options[1] == "i"
        pattern = pattern[options.end() :]
    flags = "(?si)" if ignore_case else "(?s)"
    body = flags + _translate(pattern)
    _check(body, pattern)
    return body


def runtime_regex(pattern: str, *, ignore_case: bool = False, bare: bool = False) -> str:
    """Spark SQL that translates a pattern which is only known row by row; bare: without the flags before it."""
    refused = "|".join(_ONLY_CONSTANT)
    java = pattern
    for name, replacement in _CLASSES.items():
        java = f"replace({java}, '[:{name}:]', {spark_string(replacement)})"
    for letter, replacement in _ESCAPES.items():
        escape = spark_string(rf"((?<!\\)(?:\\\\)*)\\{letter}")
        java = f"regexp_replace({java}, {escape}, {spark_string('$1' + replacement.replace(chr(92), chr(92) * 2))})"
    # a dollar sign outside of brackets is the very end
    dollar = spark_string(r"\G((?:\\.|\[\^?\]?[^\]]*\]|[^\\\[$])*)\$")
    java = f"regexp_replace({java}, {dollar}, {spark_string('$1' + chr(92) * 2 + 'z')})"
    flags = "" if bare else ("(?si)" if ignore_case else "(?s)")
    message = "this regular expression is only supported as a constant"
    return (
        f"CASE WHEN {pattern} RLIKE {spark_string(refused)} THEN raise_error('{message}') "
        f"ELSE concat('{flags}', {java}) END"
    )


def runtime_similar(pattern: str) -> str:
    """The same for SIMILAR TO."""
    java = f"regexp_replace({pattern}, {spark_string(r'([.^$])')}, {spark_string(chr(92) * 2 + '$1')})"
    java = f"replace(replace({java}, '%', '.*'), '_', '.')"
    message = "this pattern of SIMILAR TO is only supported as a constant"
    refused = spark_string(r"[\[\\]")
    whole = f"concat('(?s)^(?:', {java}, {spark_string(')' + chr(92) + 'z')})"
    return f"CASE WHEN {pattern} RLIKE {refused} THEN raise_error('{message}') ELSE {whole} END"


def quoted(text: str) -> str:
    """A Java pattern that matches just this text."""
    return "\\Q" + text.replace("\\E", "\\E\\\\E\\Q") + "\\E"


def _translate(pattern: str) -> str:
    out, position = [], 0
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            escaped = pattern[position + 1 : position + 2]
            if not escaped:
                raise DataError("invalid regular expression: invalid escape \\ sequence", sqlstate="2201B")
            out.append(_ESCAPES.get(escaped, "\\" + escaped))
            position += 2
        elif character == "[":
            text, position = _bracket(pattern, position)
            out.append(text)
        else:
            out.append(r"\z" if character == "$" else character)
            position += 1
    return "".join(out)


def _bracket(pattern: str, start: int) -> tuple[str, int]:
    position, out = start + 1, ["["]
    if pattern.startswith("^", position):
        out.append("^")
        position += 1
    first = True
    while position < len(pattern) and (pattern[position] != "]" or first):
        if pattern.startswith(("[:", "[.", "[="), position):
            end = pattern.find(pattern[position + 1] + "]", position + 2)
            name = pattern[position + 2 : end]
            if pattern[position + 1] != ":" or name not in _CLASSES:
                raise Unsupported(f"{pattern[position : end + 2]} in a regular expression is not supported")
            out.append(_CLASSES[name])
            position = end + 2
        elif pattern[position] == "\\":
            out.append(pattern[position : position + 2])
            position += 2
        else:
            out.append("\\" + pattern[position] if pattern[position] in "[]&" else pattern[position])
            position += 1
        first = False
    if position >= len(pattern):
        raise DataError("invalid regular expression: brackets [] not balanced", sqlstate="2201B")
    return "".join([*out, "]"]), position + 1


def _check(java: str, pattern: str) -> None:
    if re.search(r"\(\?<?[=!]", pattern) and "(?<" in pattern:
        return  # Python's look-behind is narrower than Java's
    python = re.sub(r"\\p\{\w+\}", "x", java).replace(r"\z", r"\Z")
    try:
        re.compile(python)
    except re.error as error:
        raise DataError(f"invalid regular expression: {error}", sqlstate="2201B") from None


def groups(pattern: str) -> int:
    """How many capturing groups there are."""
    plain = re.sub(r"\\.|\[\^?\]?[^\]]*\]", "", pattern)
    return len(re.findall(r"\((?!\?)", plain))


def took_part(java: str, group: int) -> str:
    """A Java pattern that is found only if the group has a part in the first match, as empty text.

    Spark gives empty text for a group without a part, too. A back reference to such a group never matches. The atomic
    group keeps Java from looking for another match in which it would."""
    flags, body = _split_flags(java)
    return rf"{flags}\A(?>.*?(?:{body}))\{group}"


def takes_part_at(java: str, group: int, offset: str) -> str:
    """Spark SQL of such a pattern for the match that starts behind so many characters."""
    flags, body = _split_flags(java)
    return f"concat({spark_string(flags + chr(92) + 'A.{')}, {offset}, {spark_string(f'}}(?>{body}){chr(92)}{group}')})"


def _split_flags(java: str) -> tuple[str, str]:
    end = java.index(")") + 1
    return java[:end], java[end:]


def like_pattern(pattern: str, escape: str = "\\") -> str:
    """The pattern in the only form that Spark takes: escapes by backslash, and only before %, _ and backslash."""
    if len(escape) > 1:
        raise DataError("invalid escape string", hint="Escape string must be empty or one character.", sqlstate="22025")
    out, position = [], 0
    while position < len(pattern):
        character = pattern[position]
        if escape and character == escape:
            position += 1
            if position == len(pattern):
                raise DataError("LIKE pattern must not end with escape character", sqlstate="22025")
            character = pattern[position]
            out.append("\\" + character if character in "%_\\" else character)
        else:
            out.append("\\\\" if character == "\\" else character)
        position += 1
    return "".join(out)


def runtime_like(pattern: str, escape: str | None = None) -> str:
    """The same in Spark SQL, for a pattern or an escape character that is only known row by row."""
    if escape is None:  # an escaped ordinary character is that character; Spark would refuse the pattern
        return rf"regexp_replace({pattern}, '(\\\\[%_\\\\])|\\\\(.)', '$1$2')"
    escaped = rf"CASE WHEN {escape} = '' THEN '' ELSE concat('\\Q', {escape}, '\\E.|') END"
    tokens = f"regexp_extract_all({pattern}, concat('(?s)', {escaped}, '.'), 0)"
    second = "substring(_t, 2)"
    token = (
        rf"CASE WHEN length(_t) = 2 THEN IF({second} IN ('%', '_', '\\'), concat('\\', {second}), {second}) "
        f"WHEN _t = {escape} THEN raise_error('LIKE pattern must not end with escape character') "
        r"WHEN _t = '\\' THEN '\\\\' ELSE _t END"
    )
    whole = f"array_join(transform({tokens}, _t -> {token}), '')"
    return f"CASE WHEN length({escape}) > 1 THEN raise_error('invalid escape string') ELSE {whole} END"


def similar_regex(pattern: str) -> str:
    """SIMILAR TO: % and _ as in LIKE; | * + ? {} () [] as in a regular expression; the whole string must match."""
    out, position = [], 0
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            position += 1
            out.append(re.escape(pattern[position : position + 1]))
        elif character == "[":
            text, position = _bracket(pattern, position)
            out.append(text)
            continue
        elif character in "%_":
            out.append(".*" if character == "%" else ".")
        else:
            out.append("\\" + character if character in ".^$" else character)
        position += 1
    return f"(?s)^(?:{''.join(out)})\\z"
