"""Functions of text and bytes that look at their arguments: parts of strings, regular expressions, encodings.

>>> pattern_sql(Typed("NULL", None, literal="^a"))
"'(?s)^a'"
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.errors import Unsupported
from headrace.sql import regex
from headrace.sql.casts import cast, error_if
from headrace.sql.format import quoted_name
from headrace.sql.literals import spark_string
from headrace.sql.signatures import check_arity, no_function
from headrace.sql.typed import BOOLEAN, BYTEA, INTEGER, TEXT, Typed
from headrace.types import array_of

Handler = Callable[[str, list[Typed]], Typed]


def _substring(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2, 3)
    value, start = args[0], args[1]
    if value.type is None:
        value = cast(value, TEXT)
    if value.type not in (TEXT, BYTEA):
        raise no_function(name, args)
    if start.type == TEXT or start.literal is not None:
        if len(args) == 3:
            raise Unsupported("SUBSTRING with an escape character is not supported")
        return _regexp_substring(value, start)
    start = cast(start, INTEGER)
    if start.sql.isdigit() and int(start.sql) > 0 and (len(args) == 2 or args[2].sql.isdigit()):
        # nothing to correct
        return Typed(f"substring({', '.join([value.sql, start.sql] + [arg.sql for arg in args[2:]])})", value.type)
    first = f"greatest({start.sql}, 1)"
    if len(args) == 2:
        return Typed(f"CASE WHEN {start.sql} IS NOT NULL THEN substring({value.sql}, {first}) END", value.type)
    # Positions before the string count, too: substring('abc', 0, 2) is 'a'. Spark would count them from the end.
    length = cast(args[2], INTEGER).sql
    end = f"CAST({start.sql} AS BIGINT) + {length}"
    sql = f"substring({value.sql}, {first}, CAST(least(greatest({end} - {first}, 0), 2147483647) AS INT))"
    checked = error_if(f"{length} < 0", "negative substring length not allowed", sql)
    return Typed(f"CASE WHEN {start.sql} IS NULL OR {length} IS NULL THEN NULL ELSE {checked} END", value.type)


def pattern_sql(value: Typed, *, ignore_case: bool = False) -> str:
    """A regular expression as Java's, in Spark SQL; one that is not a constant is translated when it is known."""
    if value.literal is not None:
        return spark_string(regex.java_regex(value.literal, ignore_case=ignore_case))
    return regex.runtime_regex(cast(value, TEXT).sql, ignore_case=ignore_case)


def _constant_pattern(name: str, value: Typed, *, ignore_case: bool = False) -> str:
    """Where the number of its groups decides what the call becomes."""
    if value.literal is None:
        raise Unsupported(f"{name}() with a regular expression that is not a string constant is not supported")
    return regex.java_regex(value.literal, ignore_case=ignore_case)


def _regexp_substring(value: Typed, pattern: Typed) -> Typed:
    java = _constant_pattern("substring", pattern)
    if regex.groups(pattern.literal):
        return Typed(_group(value.sql, java, 1), TEXT)
    return Typed(f"regexp_substr({value.sql}, {spark_string(java)})", TEXT)


def _group(value: str, java: str, number: int) -> str:
    """A group of the first match, NULL if it has no part in it."""
    found = f"regexp_extract({value}, {spark_string(java)}, {number})"
    if number == 0:
        return found
    return f"CASE WHEN {found} <> '' OR {value} RLIKE {spark_string(regex.took_part(java, number))} THEN {found} END"


def _first_match(value: str, java: str, count: int) -> str:
    """The groups of the first match as an array, or all of it if it has none; NULL without a match."""
    found = [_group(value, java, number) for number in (range(1, count + 1) if count else [0])]
    return f"CASE WHEN {value} RLIKE {spark_string(java)} THEN array({', '.join(found)}) END"


def _all_matches(value: str, java: str, count: int) -> str:
    """An array of the groups of each match."""
    pattern = spark_string(java)
    whole = f"regexp_extract_all({value}, {pattern}, 0)"
    if not count:
        return f"transform({whole}, _m -> array(_m))"
    # where a match begins: behind the text between the matches before it, and those matches
    between = f"split(regexp_replace({value}, {pattern}, '{_BETWEEN}'), '{_BETWEEN}')"
    behind = f"length(array_join(concat(slice({between}, 1, _i + 1), slice({whole}, 1, _i)), ''))"
    groups = []
    for number in range(1, count + 1):
        found = f"get(regexp_extract_all({value}, {pattern}, {number}), _i)"
        part = f"{value} RLIKE {regex.takes_part_at(java, number, behind)}"
        groups.append(f"CASE WHEN {found} <> '' OR {part} THEN {found} END")
    return f"transform({whole}, (_m, _i) -> array({', '.join(groups)}))"


_BETWEEN = "\uffff"
"""No character, so that no text has it."""


def _regexp_find(name: str, args: list[Typed]) -> Typed:
    """regexp_substr and regexp_instr, of the first match."""
    check_arity(name, args, 2)
    return Typed(
        f"{name}({cast(args[0], TEXT).sql}, {pattern_sql(args[1])})", TEXT if name == "regexp_substr" else INTEGER
    )


def regexp_split(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2, 3)
    flags = _flags(name, args[2] if len(args) > 2 else None, "i")
    pattern = "''" if args[1].literal == "" else pattern_sql(args[1], ignore_case="i" in flags)
    return Typed(f"split({cast(args[0], TEXT).sql}, {pattern})", array_of(TEXT))


def regexp_matches(name: str, args: list[Typed]) -> Typed:
    """All matches, or the first: an array of the groups of each."""
    check_arity(name, args, 2, 3)
    flags = _flags(name, args[2] if len(args) > 2 else None, "gi")
    value, java = cast(args[0], TEXT).sql, _constant_pattern(name, args[1], ignore_case="i" in flags)
    count, kind = regex.groups(args[1].literal), array_of(array_of(TEXT))
    if "g" in flags:
        return Typed(_all_matches(value, java, count), kind)
    first = f"array({_first_match(value, java, count)})"
    return Typed(f"filter({first}, _m -> _m IS NOT NULL)", kind)


def _flags(name: str, value: Typed | None, known: str) -> str:
    if value is None:
        return ""
    if value.literal is None or set(value.literal) - set(known):
        raise Unsupported(
            f"flags {value.literal or value.sql} of {name}() are not supported", hint=f"known are: {known}"
        )
    return value.literal


def _regexp_like(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2, 3)
    flags = _flags(name, args[2] if len(args) > 2 else None, "i")
    return Typed(f"({cast(args[0], TEXT).sql} RLIKE {pattern_sql(args[1], ignore_case='i' in flags)})", BOOLEAN)


def _regexp_count(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2)
    return Typed(f"regexp_count({cast(args[0], TEXT).sql}, {pattern_sql(args[1])})", INTEGER)


def _regexp_match(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2, 3)
    flags = _flags(name, args[2] if len(args) > 2 else None, "i")
    java = _constant_pattern(name, args[1], ignore_case="i" in flags)
    return Typed(_first_match(cast(args[0], TEXT).sql, java, regex.groups(args[1].literal)), array_of(TEXT))


def _regexp_replace(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 3, 4)
    flags = _flags(name, args[3] if len(args) > 3 else None, "gi")
    if args[2].literal is None:
        raise Unsupported("regexp_replace() with a replacement that is not a string constant is not supported")
    value, everywhere = cast(args[0], TEXT).sql, "g" in flags
    replacement = spark_string(
        ("" if everywhere else "$1") + _java_replacement(args[2].literal, 0 if everywhere else 1)
    )
    if everywhere:
        return Typed(f"regexp_replace({value}, {pattern_sql(args[1], ignore_case='i' in flags)}, {replacement})", TEXT)
    # Spark replaces every match; the first is the one after as little as possible.
    prefix = "(?si)" if "i" in flags else "(?s)"
    if args[1].literal is None:
        body = regex.runtime_regex(cast(args[1], TEXT).sql, bare=True)
        return Typed(f"regexp_replace({value}, concat('{prefix}\\\\A(.*?)(?:', {body}, ')'), {replacement})", TEXT)
    pattern = regex.java_regex(args[1].literal, ignore_case="i" in flags)
    prefix, body = pattern[: pattern.index(")") + 1], pattern[pattern.index(")") + 1 :]
    if any(f"\\{digit}" in body for digit in "123456789"):
        raise Unsupported("regexp_replace() with a back reference in the pattern needs the flag g")
    first = spark_string(f"{prefix}\\A(.*?)(?:{body})")
    return Typed(f"regexp_replace({value}, {first}, {replacement})", TEXT)


def _java_replacement(text: str, shift: int) -> str:
    out, position = [], 0
    while position < len(text):
        character, following = text[position], text[position + 1 : position + 2]
        if character == "\\" and (following.isdigit() or following == "&"):
            group = 0 if following == "&" else int(following)
            if group == 0 and shift:
                raise Unsupported("\\& in regexp_replace() needs the flag g")
            out.append(f"${group + shift}")
            position += 2
            if position < len(text) and text[position].isdigit():
                raise Unsupported(f"a digit after {text[position - 2 : position]} in regexp_replace() is not supported")
        elif character == "\\" and following:
            out.append("\\" + following)
            position += 2
        else:
            out.append("\\" + character if character in "$\\" else character)
            position += 1
    return "".join(out)


_BYTE = "CAST(conv(_b, 16, 10) AS INT)"
_ESCAPED = (
    "array_join(transform(regexp_extract_all(hex({0}), '..', 0), _b -> "
    r"CASE WHEN _b = '5C' THEN '\\\\' "
    rf"WHEN _b = '00' OR _b >= '80' THEN concat('\\', lpad(conv(_b, 16, 8), 3, '0')) ELSE chr({_BYTE}) END), '')"
)
_ESCAPE = spark_string(r"(?s)\\\\|\\[0-3][0-7][0-7]|[^\\]")
_ESCAPES = f"regexp_extract_all({{0}}, {_ESCAPE}, 0)"
_UNESCAPED = error_if(
    f"array_join({_ESCAPES}, '') <> {{0}}",
    "invalid input syntax for type bytea",
    f"unhex(array_join(transform({_ESCAPES}, _b -> CASE WHEN length(_b) = 4 THEN "
    r"lpad(conv(substring(_b, 2), 8, 16), 2, '0') WHEN _b = '\\\\' THEN '5C' ELSE hex(_b) END), ''))",
)
"""PostgreSQL's escape format: zero and what is no ASCII as three octal digits, backslashes doubled."""


def _encode(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2)
    value, encoding = args
    known = {
        ("encode", "hex"): "lower(hex({0}))",
        # Java's lines end as those of mail.
        ("encode", "base64"): "replace(base64({0}), '\\r\\n', '\\n')",
        ("encode", "escape"): _ESCAPED,
        # Spark's unhex gives NULL for what is no hexadecimal number
        ("decode", "hex"): error_if(
            "{0} IS NOT NULL AND (length({0}) % 2 = 1 OR unhex({0}) IS NULL)", "invalid hexadecimal data", "unhex({0})"
        ),
        ("decode", "base64"): "unbase64({0})",
        ("decode", "escape"): _UNESCAPED,
    }
    template = known.get((name, (encoding.literal or "").lower()))
    if template is None:
        raise Unsupported(f"{name}() is only supported with the constants 'hex', 'base64' and 'escape'")
    if name == "encode":
        return Typed(template.format(cast(value, BYTEA).sql), TEXT)
    return Typed(template.format(cast(value, TEXT).sql), BYTEA)


def separated(value: str, separator: Typed) -> str:
    """The parts of a text between separators, as an array. Without one, its characters; an empty one parts nothing."""
    if separator.type is None and separator.literal is None:
        return f"split({value}, '')"
    if separator.literal == "":
        parts = f"array({value})"
    elif separator.literal is not None:
        parts = f"split({value}, {spark_string(regex.quoted(separator.literal))})"
    else:
        between = separator.sql
        pattern = f"concat('\\\\Q', {between}, '\\\\E')"
        parts = (
            f"CASE WHEN {between} IS NULL THEN split({value}, '') WHEN {between} = '' THEN array({value}) "
            f"ELSE split({value}, {pattern}) END"
        )
    empty = f"CAST(array() AS {array_of(TEXT).spark})"
    return f"CASE WHEN {value} = '' THEN {empty} WHEN {value} IS NOT NULL THEN {parts} END"


def string_to_array(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 2, 3)
    if any(arg.type not in (None, TEXT) for arg in args):
        raise no_function(name, args)
    parts = separated(cast(args[0], TEXT).sql, args[1])
    if len(args) == 3:
        parts = f"transform({parts}, _e -> nullif(_e, {cast(args[2], TEXT).sql}))"
    return Typed(parts, array_of(TEXT))


def _quote(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 1)
    value = cast(args[0], TEXT).sql
    if name == "quote_ident":
        return Typed(quoted_name(value), TEXT)
    doubled = f"replace(replace({value}, '\\\\', '\\\\\\\\'), '\\'', '\\'\\'')"
    quoted = f"concat(CASE WHEN contains({value}, '\\\\') THEN 'E' ELSE '' END, '\\'', {doubled}, '\\'')"
    return Typed(f"coalesce({quoted}, 'NULL')" if name == "quote_nullable" else quoted, TEXT)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("substring", "substr"), _substring),
    "regexp_like": _regexp_like,
    "regexp_count": _regexp_count,
    "regexp_match": _regexp_match,
    "regexp_replace": _regexp_replace,
    **dict.fromkeys(("regexp_substr", "regexp_instr"), _regexp_find),
    "regexp_split_to_array": regexp_split,
    "string_to_array": string_to_array,
    **dict.fromkeys(("quote_ident", "quote_literal", "quote_nullable"), _quote),
    **dict.fromkeys(("encode", "decode"), _encode),
}
