r"""jsonb_strip_nulls and jsonb_pretty, which change a value at any depth.

Spark SQL has no recursion, but the text of a jsonb value is in normal form, without blanks. So it is taken apart into
strings, brackets and the rest, from left to right, and put together again.
"""

from __future__ import annotations

from headrace.sql.casts import cast
from headrace.sql.literals import spark_string
from headrace.sql.signatures import check_arity
from headrace.sql.typed import JSONB, TEXT, Typed

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'


def strip_nulls(name: str, args: list[Typed]) -> Typed:
    """Without the fields of objects that are null; an array keeps its nulls."""
    check_arity(name, args, 1)
    # Each match is either what is to go, or a piece that is kept as $1: so that nothing is found inside of a string.
    fields = spark_string(rf"(?s){_STRING}:null(?:,|(?=\}}))|({_STRING}|[^\"])")
    commas = spark_string(rf"(?s),(?=\}})|({_STRING}|[^\"])")
    bare = f"regexp_replace({cast(args[0], JSONB).sql}, {fields}, '$1')"
    return Typed(f"regexp_replace({bare}, {commas}, '$1')", JSONB)


def pretty(name: str, args: list[Typed]) -> Typed:
    """Every field and element on a line of its own, four blanks further in than what it is in."""
    check_arity(name, args, 1)
    token = spark_string("(?s)" + _STRING + r'|[{}\[\],:]|[^"{}\[\],:]+')
    tokens = f"regexp_extract_all(_j, {token}, 0)"
    # d: how deep; n: whether a new line is due before what comes next
    start = "named_struct('d', 0, 'n', false, 't', '')"
    line = r"concat('\n', repeat('    ', {}))"
    opens, closes = "_t IN ('{', '[')", "_t IN ('}', ']')"
    depth = f"_s.d + IF({opens}, 1, IF({closes}, -1, 0))"
    before = f"IF({closes}, {line.format('_s.d - 1')}, IF(_s.n, {line.format('_s.d')}, ''))"
    step = (
        f"named_struct('d', {depth}, 'n', {opens} OR _t = ',', 't', concat(_s.t, {before}, _t, IF(_t = ':', ' ', '')))"
    )
    text = f"aggregate({tokens}, {start}, (_s, _t) -> {step}, _s -> _s.t)"
    value = cast(args[0], JSONB).sql
    return Typed(f"get(transform(array({value}), _j -> CASE WHEN _j IS NOT NULL THEN {text} END), 0)", TEXT)
