"""to_char, to_date, to_timestamp and to_number: dates, times and numbers as text by a template, and back.

The template must be a constant: it is taken apart here, and each of its patterns becomes a piece of Spark SQL.

>>> java_format("YYYY-MM-DD HH24:MI")
"yyyy'-'MM'-'dd' 'HH':'mm"
"""

from __future__ import annotations

import re

from headrace.errors import TypeMismatch, Unsupported
from headrace.sql import intervals, times, zoned
from headrace.sql.casts import cast
from headrace.sql.literals import spark_string
from headrace.sql.typed import (
    DATE,
    DOUBLE,
    INTERVAL,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Typed,
    describe,
    is_float,
    is_moment,
    is_number,
    is_time,
    numeric,
)

_JAVA = {
    "YYYY": "yyyy", "YY": "yy", "MM": "MM", "DDD": "DDD", "DD": "dd", "HH24": "HH", "HH12": "hh", "HH": "hh",
    "MI": "mm", "SS": "ss", "MS": "SSS", "US": "SSSSSS", "Q": "Q", "AM": "a", "PM": "a", "Mon": "MMM", "Dy": "EEE",
    "FMMonth": "MMMM", "FMDay": "EEEE", "TMMonth": "MMMM", "TMDay": "EEEE",
    "FMMM": "M", "FMDD": "d", "FMHH24": "H", "FMHH12": "h", "FMMI": "m", "FMSS": "s",
}  # fmt: skip
"""Patterns that Java has under another name. Both read and write with them."""

_NUMBERS = {
    "IYYY": "lpad(extract(YEAROFWEEK FROM {0}), 4, '0')",
    "IW": "lpad(extract(WEEK FROM {0}), 2, '0')",
    "ID": "extract(DOW_ISO FROM {0})",
    "WW": "lpad((extract(DOY FROM {0}) - 1) DIV 7 + 1, 2, '0')",
    "W": "((extract(DAY FROM {0}) - 1) DIV 7 + 1)",
    "D": "extract(DOW FROM {0})",
    "J": "(unix_date(CAST({0} AS DATE)) + 2440588)",
    "CC": "lpad(CAST(ceil(extract(YEAR FROM {0}) / 100) AS INT), 2, '0')",
    "YYY": "right(date_format({0}, 'yyyy'), 3)",
    "SSSSS": "(hour({0}) * 3600 + minute({0}) * 60 + second({0}))",
    "SSSS": "(hour({0}) * 3600 + minute({0}) * 60 + second({0}))",
}
_NAMES = {"Month": "MMMM", "Day": "EEEE", "Mon": "MMM", "Dy": "EEE", "AM": "a", "PM": "a"}
_PADDED = ("month", "day")
_CASELESS = ("YYYY", "YYY", "YY", "MM", "DDD", "DD", "HH24", "HH12", "HH", "MI", "SSSSS", "SSSS", "SS", "MS", "US", "Q",
             "IYYY", "IW", "ID", "WW", "W", "D", "J", "CC")  # fmt: skip
_REFUSED = ("Y,YYY", "IYY", "IY", "IDDD", "TZH", "TZM", "TZ", "OF", "RM", "A.M.", "P.M.", "BC", "AD")
_SPELLINGS = {spelling for name in _NAMES for spelling in (name, name.upper(), name.lower())}
_WORDS = sorted(
    {*_JAVA, *_CASELESS, *map(str.lower, _CASELESS), *_SPELLINGS, *_REFUSED, "FM", "TM", "th", "TH"},
    key=len,
    reverse=True,
)
TOKEN = re.compile("|".join(map(re.escape, _WORDS)) + r"|\"[^\"]*\"|[A-Za-z]+|[^A-Za-z\"]")
"""What a template consists of: patterns, text in quotes, and single characters that stand for themselves."""


def constant_template(name: str, value: Typed) -> str:
    if value.literal is None:
        raise Unsupported(f"{name}() with a pattern that is not a string constant is not supported")
    return value.literal


def _unknown(token: str) -> Unsupported:
    return Unsupported(f'the pattern "{token}" of to_char() is not supported', hint="text stands in double quotes")


def java_format(pattern: str) -> str:
    """A template as Java's, as far as Java has its patterns; letters that are none are refused, the rest is quoted."""
    out: list[str] = []
    literal = ""
    for token in TOKEN.findall(pattern):
        known = _JAVA.get(token) or _JAVA.get(token.upper() if token.upper() in _CASELESS else "")
        if known is None and token[0].isalpha():
            raise _unknown(token)
        if known is None:
            literal += token.strip('"').replace("'", "''")
            continue
        if literal:
            out.append(f"'{literal}'")
            literal = ""
        out.append(known)
    return "".join([*out, f"'{literal}'"] if literal else out)


def to_date(name: str, args: list[Typed]) -> Typed:
    if len(args) != 2:
        raise TypeMismatch("to_date() takes two arguments")
    pattern = java_format(constant_template(name, args[1]))
    return Typed(f"to_date({cast(args[0], TEXT).sql}, {spark_string(pattern)})", DATE)


def to_timestamp(name: str, args: list[Typed]) -> Typed:
    """Of a text and its template, or of seconds since 1970."""
    if len(args) == 1:
        return Typed(f"timestamp_seconds({cast(args[0], DOUBLE).sql})", TIMESTAMPTZ)
    if len(args) != 2:
        raise TypeMismatch("to_timestamp() takes one or two arguments")
    pattern = java_format(constant_template(name, args[1]))
    read = f"to_timestamp({cast(args[0], TEXT).sql}, {spark_string(pattern)})"
    zone = zoned.current()
    return Typed(read if zone is None else zoned.instant(read, zone), TIMESTAMPTZ)


def to_char(name: str, args: list[Typed]) -> Typed:
    if len(args) != 2:
        raise TypeMismatch("to_char() takes two arguments")
    value = times.as_interval(args[0]) if is_time(args[0].type) else args[0]
    if is_number(value.type):
        return Typed(_number_text(value, constant_template(name, args[1])), TEXT)
    if value.type == INTERVAL:
        return Typed(intervals.unfolded(value, _interval_text(constant_template(name, args[1]))), TEXT)
    if not is_moment(value.type):
        raise Unsupported(f"to_char() of {describe(value.type)} is not supported")
    pieces = _pieces(cast(value, TIMESTAMP).sql, constant_template(name, args[1]))
    return Typed(pieces[0] if len(pieces) == 1 else f"concat({', '.join(pieces)})" if pieces else "''", TEXT)


def _pieces(moment: str, template: str) -> list[str]:
    """Spark SQL of the parts of a date's text, from left to right."""
    pieces: list[str] = []
    plain, number = True, False  # whether FM went before; whether the last piece is a number
    for token in TOKEN.findall(template):
        if token in ("FM", "TM"):
            plain = False
            continue
        if token in ("th", "TH") and number:
            pieces.append(_ordinal(pieces[-1], upper=token == "TH"))
            continue
        short = token.removeprefix("FM").removeprefix("TM") if token in _JAVA else token
        padded = plain and short == token
        upper = short.upper() if short.upper() in _CASELESS else ""
        number = bool(upper)
        if upper in _NUMBERS:
            piece = f"CAST({_NUMBERS[upper].format(moment)} AS STRING)"
            pieces.append(piece if padded else f"CAST(CAST({piece} AS INT) AS STRING)")
        elif upper:
            piece = f"date_format({moment}, '{_JAVA[upper]}')"
            pieces.append(piece if padded else f"CAST(CAST({piece} AS INT) AS STRING)")
        elif short in _SPELLINGS:
            pieces.append(_name(moment, short, padded=padded))
        elif token[0].isalpha():
            raise _unknown(token)
        else:
            pieces.append(spark_string(token.strip('"') if token.startswith('"') else token))
        plain = True
    # NULL stays NULL even where a template has text only
    return [*pieces, f"CASE WHEN {moment} IS NOT NULL THEN '' END"] if "date_format" not in "".join(pieces) else pieces


_INTERVAL = {
    "YYYY": ("year", 4), "YY": ("year", 2), "MM": ("month", 2), "DD": ("day", 2), "HH24": ("hour", 2),
    "HH12": ("hour", 2), "HH": ("hour", 2), "MI": ("minute", 2), "SS": ("second", 2), "MS": ("fraction", 3),
    "US": ("fraction", 6), "SSSS": ("clock", 1), "SSSSS": ("clock", 1),
}  # fmt: skip
_CLOCK = ("hour", "minute", "second")


def _interval_text(template: str) -> str:
    """Spark SQL over the parts of an interval (:func:`headrace.sql.intervals.unfolded`)."""
    pieces, plain = [], True
    for token in TOKEN.findall(template):
        if token in ("FM", "TM"):
            plain = False
            continue
        short = token.removeprefix("FM") if token in _JAVA else token
        padded = plain and short == token
        plain = True
        if short.upper() not in _INTERVAL:
            if token[0].isalpha():
                raise Unsupported(
                    f'the pattern "{token}" of to_char() of an interval is not supported',
                    hint=f"known are {', '.join(_INTERVAL)}; text stands in double quotes",
                )
            pieces.append(spark_string(token.strip('"') if token.startswith('"') else token))
            continue
        part, width = _INTERVAL[short.upper()]
        number = intervals.PARTS[part]
        if short.upper() in ("HH12", "HH"):
            number = f"({number} % 12 + IF({number} % 12 = 0, 12, 0))"
        elif short.upper() == "MS":
            number = f"({number} DIV 1000)"
        elif part == "clock":
            number = f"({number} DIV 1000000)"
        if not padded:
            pieces.append(f"CAST({number} AS STRING)")
            continue
        size = f"{width} - IF({number} < 0, {0 if part in _CLOCK else 1}, 0)"  # of a clock, the sign comes on top
        digits = f"CAST(abs({number}) AS STRING)"
        pieces.append(f"IF({number} < 0, '-', '') || lpad({digits}, greatest({size}, length({digits})), '0')")
    return f"CASE WHEN {intervals.KNOWN} THEN {' || '.join(pieces) or chr(39) * 2} END"


def _name(moment: str, spelling: str, *, padded: bool) -> str:
    java = next(java for name, java in _NAMES.items() if name.lower() == spelling.lower())
    text = f"date_format({moment}, '{java}')"
    if spelling.isupper():
        text = f"upper({text})"
    elif spelling.islower():
        text = f"lower({text})"
    return f"rpad({text}, 9, ' ')" if padded and spelling.lower() in _PADDED else text


def _ordinal(number: str, *, upper: bool) -> str:
    value = f"CAST({number} AS INT)"
    suffix = (
        f"CASE WHEN {value} % 100 BETWEEN 11 AND 13 THEN 'th' WHEN {value} % 10 = 1 THEN 'st' "
        f"WHEN {value} % 10 = 2 THEN 'nd' WHEN {value} % 10 = 3 THEN 'rd' ELSE 'th' END"
    )
    return f"upper({suffix})" if upper else suffix


# --- numbers ----------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"(FM)?(S|MI)?([90][90,G]*|)(?:[.D]([90]*))?(S|MI)?", re.IGNORECASE)


def _number_text(value: Typed, template: str) -> str:
    match = _NUMBER.fullmatch(template)
    whole, fraction = (match[3].upper().replace("G", ","), match[4] or "") if match else ("", "")
    groups = whole.split(",")
    if match is None or not whole or (match[2] and match[5]) or any(len(group) != 3 for group in groups[1:]):
        raise Unsupported(
            f"the template '{template}' of to_char() is not supported",
            hint="of a number it may have 9 0 . , and FM, S or MI",
        )
    short, before, after = bool(match[1]), (match[2] or "").upper(), (match[5] or "").upper()
    digits = whole.replace(",", "")
    always = len(digits) - digits.index("0") if "0" in digits else int(not fraction)
    exact = f"CAST({value.sql} AS DECIMAL(38,10))" if is_float(value.type) else cast(value, NUMERIC).sql
    rounded = f"round(abs({exact}), {len(fraction)})"
    integer = f"CAST(floor({rounded}) AS DECIMAL(38,0))"
    text = f"CASE WHEN {integer} = 0 THEN '' ELSE CAST({integer} AS STRING) END"
    if always:
        text = f"CASE WHEN length({text}) < {always} THEN lpad({text}, {always}, '0') ELSE {text} END"
    grouped = rf"regexp_replace({text}, '([0-9])(?=([0-9]{{3}})+$)', '$1,')" if len(groups) > 1 else text
    body = grouped
    if match[4] is not None:
        body = f"concat({grouped}, '.', {_fraction(rounded, fraction, short=short)})"
    width = len(whole) + (len(fraction) + 1 if match[4] is not None else 0)
    negative = f"{exact} < 0"
    sign = f"CASE WHEN {negative} THEN '-' ELSE '{'+' if 'S' in (before, after) else ''}' END"
    hashes = re.sub("[90]", "#", whole) + ("." + "#" * len(fraction) if match[4] is not None else "")
    body = f"CASE WHEN {integer} >= {10 ** len(digits)}BD THEN '{hashes}' ELSE {body} END"
    padded = body if short else f"lpad({body}, {width}, ' ')"
    blank = "" if short else " "
    if after == "S":
        return f"concat({padded}, {sign})"
    if "MI" in (before, after):
        sign = f"CASE WHEN {negative} THEN '-' ELSE '{blank}' END"
        return f"concat({padded}, {sign})" if after else f"concat({sign}, {padded})"
    signed = f"concat({sign}, {body})"
    return signed if short else f"lpad({signed}, {width + 1}, ' ')"


def _fraction(rounded: str, template: str, *, short: bool) -> str:
    """The digits behind the point; with FM, no zeros at the end that the template does not ask for."""
    if not template:
        return f"CASE WHEN {rounded} IS NOT NULL THEN '' END"
    count = len(template)
    digits = f"right(concat('{'0' * count}', CAST(CAST({rounded} * 1e{count}BD AS DECIMAL(38,0)) AS STRING)), {count})"
    if not short:
        return digits
    kept = template.rindex("0") + 1 if "0" in template else 0
    return f"concat(left({digits}, {kept}), regexp_replace(substring({digits}, {kept + 1}), '0+$', ''))"


_NUMBER_READ = re.compile(r"(?:FM)?(S|MI)?L?([90,G]*)(?:[.D]([90]*))?(S|MI)?", re.IGNORECASE)


def to_number(name: str, args: list[Typed]) -> Typed:
    """A number as to_char() writes it. The text must fit the template; PostgreSQL reads on where it does not."""
    if len(args) != 2:
        raise TypeMismatch("to_number() takes two arguments")
    template = constant_template(name, args[1])
    match = _NUMBER_READ.fullmatch(template)
    count = len(re.sub("[,G]", "", match[2], flags=re.IGNORECASE)) if match else 0
    if match is None or (match[1] and match[4]) or not count + len(match[3] or ""):
        raise Unsupported(
            f"the template '{template}' of to_number() is not supported",
            hint="it may have 9 0 . , and FM, L, S or MI",
        )
    places = len(match[3] or "")
    inner = "[0-9,]" if re.search("[,G]", match[2], re.IGNORECASE) else "[0-9]"
    pattern = spark_string(rf"^\s*([+-]?)\s*\$?(?=\.?[0-9])({inner}*)(\.[0-9]*)?\s*([+-]?)\s*$")

    def group(number: int) -> str:
        return f"regexp_extract(_v, {pattern}, {number})"

    whole = f"replace({group(2)}, ',', '')"
    sign = f"IF(contains(concat({group(1)}, {group(4)}), '-'), '-', '')"
    text = f"concat({sign}, '0', {whole}, '.', left(substring({group(3)}, 2), {places}), '0')"
    kind = numeric(38, places, free=True)
    read = (
        f"CASE WHEN NOT _v RLIKE {pattern} THEN raise_error('invalid input syntax for type numeric') "
        f"WHEN length(ltrim('0', {whole})) > {count} THEN raise_error('numeric field overflow') "
        f"ELSE CAST({text} AS {kind.spark}) END"
    )
    return Typed(f"get(transform(array({cast(args[0], TEXT).sql}), _v -> {read}), 0)", kind)
