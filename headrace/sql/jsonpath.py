"""The path language of jsonb_path_query and its like, as Spark SQL over arrays of JSON texts.

A path takes a sequence of values to a sequence of values, step by step. In Spark SQL a sequence is an array of JSON
texts, and a step a function of it. Only the lax mode is known: a step that wants fields looks into the elements of an
array, one that wants elements takes a single value for an array of one, and what is not there is left out.

A path must be a constant. What is not known of the language is refused by name.

>>> parse_path('$.a[*] ? (@.b >= 2)').steps
(Member(name='a'), Elements(), Filter(condition=Compare(symbol='>=', left=Path(root='@', steps=(Member(name='b'),)), \
right=Constant(text='2'))))
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.errors import DataError, SqlSyntaxError, Unsupported
from headrace.sql import regex
from headrace.sql.casts import cast
from headrace.sql.jsonb_paths import jsonb_order
from headrace.sql.literals import from_text, spark_string
from headrace.sql.signatures import check_arity
from headrace.sql.typed import BOOLEAN, JSONB, Typed

# --- the tree ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Constant:
    text: str
    """As JSON"""


@dataclass(frozen=True)
class Path:
    root: str
    """``$`` or ``@``"""
    steps: tuple[Any, ...]


@dataclass(frozen=True)
class Member:
    name: str | None = None
    """None for all of them"""


@dataclass(frozen=True)
class Elements:
    """[*]"""


class Index(NamedTuple):
    """A subscript: a number, or one counted back from the last; the second is the end of a range."""

    number: int
    from_last: bool = False


@dataclass(frozen=True)
class Subscripts:
    ranges: tuple[tuple[Index, Index | None], ...]


@dataclass(frozen=True)
class Method:
    name: str


@dataclass(frozen=True)
class Filter:
    condition: Any


@dataclass(frozen=True)
class Compare:
    symbol: str
    left: Any
    right: Any


@dataclass(frozen=True)
class Logic:
    word: str
    """AND, OR or NOT"""
    sides: tuple[Any, ...]


@dataclass(frozen=True)
class Exists:
    path: Any


@dataclass(frozen=True)
class Matches:
    """like_regex, or starts with"""

    value: Any
    pattern: str
    """As Java's regular expression"""


@dataclass(frozen=True)
class IsUnknown:
    condition: Any


_CONDITIONS = (Compare, Logic, Exists, Matches, IsUnknown)
_METHODS = ("size", "type", "double", "ceiling", "floor", "abs")

# --- text to tree -----------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+)"""
    r"""|(?P<variable>\$[A-Za-z_]\w*|\$"[^"]*")|(?P<word>[A-Za-z_]\w*)"""
    r"""|(?P<symbol>\*\*|&&|\|\||==|!=|<>|<=|>=|[$@.\[\]*?()!<>,+\-/%{}]))"""
)


def parse_path(text: str, variables: dict[str, Any] | None = None) -> Any:
    return _Parser(text, variables or {}).whole()


def _refuse(what: str) -> Unsupported:
    return Unsupported(f"{what} in a jsonpath is not supported")


class _Parser:
    def __init__(self, text: str, variables: dict[str, Any]):
        self.text, self.variables = text, variables
        self.tokens: list[tuple[str, str]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise self.error(text[position:].strip()[:1])
            self.tokens.append((match.lastgroup, match[match.lastgroup]))
            position = match.end()
        self.at = 0

    def error(self, token: str | None = None) -> SqlSyntaxError:
        token = token or (self.tokens[self.at][1] if self.at < len(self.tokens) else None)
        where = f'at or near "{token}"' if token else "at end"
        return SqlSyntaxError(f"syntax error {where} of jsonpath input")

    def peek(self, *texts: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at][1] in texts and not self.is_kind("string")

    def is_kind(self, kind: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at][0] == kind

    def take(self, *texts: str) -> str | None:
        if not self.peek(*texts):
            return None
        self.at += 1
        return self.tokens[self.at - 1][1]

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise self.error()

    def next(self, kind: str) -> str:
        if not self.is_kind(kind):
            raise self.error()
        self.at += 1
        return self.tokens[self.at - 1][1]

    def whole(self) -> Any:
        self.take("lax")
        if self.peek("strict"):
            raise _refuse("the mode strict")
        tree = self.either()
        if self.at < len(self.tokens):
            raise self.error()
        return tree

    # --- conditions

    def either(self) -> Any:
        return self.logic("||", "OR", lambda: self.logic("&&", "AND", self.single))

    def logic(self, symbol: str, word: str, inner: Any) -> Any:
        sides = [inner()]
        while self.take(symbol):
            sides.append(inner())
        if len(sides) == 1:
            return sides[0]
        return Logic(word, tuple(self.condition(side) for side in sides))

    def condition(self, node: Any) -> Any:
        if not isinstance(node, _CONDITIONS):
            raise self.error()
        return node

    def single(self) -> Any:
        if self.take("!"):
            self.expect("(")
            inner = self.condition(self.either())
            self.expect(")")
            return Logic("NOT", (inner,))
        if self.take("exists"):
            self.expect("(")
            inner = self.value()
            self.expect(")")
            return Exists(inner)
        if self.peek("(") and (grouped := self.grouped()) is not None:
            return grouped
        left = self.value()
        symbol = self.take("==", "!=", "<>", "<=", ">=", "<", ">")
        if symbol is not None:
            return Compare({"==": "=", "!=": "<>"}.get(symbol, symbol), left, self.value())
        if self.take("starts"):
            self.expect("with")
            return Matches(left, "(?s)^" + regex.quoted(self.string()))
        if self.take("like_regex"):
            pattern = self.string()
            flags = self.string() if self.take("flag") else ""
            if set(flags) - {"i"}:
                raise _refuse(f'the flag "{flags}" of like_regex')
            return Matches(left, regex.java_regex(pattern, ignore_case="i" in flags))
        return left

    def grouped(self) -> Any:
        """(condition) [is unknown]; None if what the parenthesis holds is a value"""
        start = self.at
        self.expect("(")
        inner = self.either()
        self.expect(")")
        if not isinstance(inner, _CONDITIONS):
            self.at = start
            return None
        if self.take("is"):
            self.expect("unknown")
            return IsUnknown(inner)
        return inner

    # --- values

    def value(self) -> Any:
        if self.take("("):
            inner = self.value()
            self.expect(")")
        else:
            inner = self.primary()
        if self.peek("+", "-", "*", "/", "%"):
            raise _refuse("arithmetic")
        return inner

    def primary(self) -> Any:
        if self.is_kind("string"):
            return Constant(json.dumps(self.string(), ensure_ascii=False))
        if self.is_kind("number"):
            return Constant(self.next("number"))
        if self.take("-"):
            return Constant("-" + self.next("number"))
        if self.take("+"):
            return Constant(self.next("number"))
        if word := self.take("true", "false", "null"):
            return Constant(word)
        if self.is_kind("variable"):
            return self.variable()
        if self.peek("last"):
            raise _refuse("last outside of brackets")
        root = self.take("$", "@")
        if root is None:
            raise self.error()
        return Path(root, tuple(self.steps()))

    def variable(self) -> Constant:
        name = self.next("variable")[1:].strip('"')
        if name not in self.variables:
            raise Unsupported(f'could not find jsonpath variable "{name}"', hint="its value must be a constant")
        value = self.variables[name]
        if isinstance(value, (dict, list)):
            raise _refuse("a variable that is an object or an array")
        return Constant(json.dumps(value, ensure_ascii=False))

    def string(self) -> str:
        return json.loads(self.next("string"))

    def steps(self) -> list[Any]:
        steps: list[Any] = []
        while True:
            if self.take("."):
                steps.append(self.member())
            elif self.take("["):
                steps.append(self.subscripts())
            elif self.take("?"):
                self.expect("(")
                condition = self.condition(self.either())
                self.expect(")")
                steps.append(Filter(condition))
            else:
                return steps

    def member(self) -> Any:
        if self.take("*"):
            return Member()
        if self.peek("**"):
            raise _refuse(".**")
        if self.is_kind("string"):
            return Member(self.string())
        name = self.next("word")
        if not self.take("("):
            return Member(name)
        if name not in _METHODS:
            raise _refuse(f".{name}()")
        self.expect(")")
        return Method(name)

    def subscripts(self) -> Any:
        if self.take("*"):
            self.expect("]")
            return Elements()
        ranges = []
        while True:
            first = self.index()
            ranges.append((first, self.index() if self.take("to") else None))
            if not self.take(","):
                break
        self.expect("]")
        return Subscripts(tuple(ranges))

    def index(self) -> Index:
        if self.take("last"):
            return Index(int(self.whole_number()) if self.take("-") else 0, from_last=True)
        return Index(int(self.whole_number()))

    def whole_number(self) -> str:
        if self.peek("]", ",", "to"):
            raise self.error()
        if not self.is_kind("number") or not self.tokens[self.at][1].isdigit():
            raise _refuse("a subscript that is not a whole number")
        return self.next("number")


# --- tree to Spark SQL ------------------------------------------------------------------------------------------

_NONE = "CAST(array() AS ARRAY<STRING>)"
_ITEMS = "transform(CAST(parse_json({}) AS ARRAY<VARIANT>), _v -> to_json(_v))"
_NUMBER = "'^-?[0-9]'"
_WHOLE = "'^-?[0-9]{1,38}$'"


def is_condition(tree: Any) -> bool:
    return isinstance(tree, _CONDITIONS)


def sequence(tree: Any, root: str) -> str:
    """All that a path finds in a JSON text, as an array of JSON texts."""
    return _Sql(root).sequence(tree, "", 0)


def condition(tree: Any, root: str) -> str:
    """A condition on a JSON text: true, false, or NULL where PostgreSQL says unknown."""
    return _Sql(root).condition(tree, "", 0)


class _Sql:
    """``current`` is what @ stands for, ``depth`` how many filters are around, which numbers the variables."""

    def __init__(self, root: str):
        self.root = root

    def sequence(self, node: Any, current: str, depth: int) -> str:
        if isinstance(node, Constant):
            return f"array({spark_string(node.text)})"
        if isinstance(node, _CONDITIONS):
            held = self.condition(node, current, depth)
            return f"array(coalesce(CAST({held} AS STRING), 'null'))"
        sql = f"array({self.root if node.root == '$' else current})"
        for step in node.steps:
            sql = self.step(sql, step, depth)
        return sql

    def step(self, sql: str, step: Any, depth: int) -> str:
        if isinstance(step, Elements):
            return _unwrapped(sql)
        if isinstance(step, Member) and step.name is None:
            entries = jsonb_order("map_entries(CAST(parse_json(_x) AS MAP<STRING, VARIANT>))", ".key")
            fields = f"transform({entries}, _v -> to_json(_v.value))"
            return f"flatten(transform({_unwrapped(sql)}, _x -> IF(startswith(_x, '{{'), {fields}, {_NONE})))"
        if isinstance(step, Member):
            field = f"to_json(variant_get(parse_json(_x), {spark_string(f'$[{_quote(step.name)}]')}))"
            found = f"transform({_unwrapped(sql)}, _x -> CASE WHEN startswith(_x, '{{') THEN {field} END)"
            return f"filter({found}, _x -> _x IS NOT NULL)"
        if isinstance(step, Subscripts):
            return f"flatten(transform({sql}, _x -> {self.subscripts(step)}))"
        if isinstance(step, Method):
            values = sql if step.name in ("size", "type") else _unwrapped(sql)
            return f"transform({values}, _x -> {_METHOD_SQL[step.name]})"
        item = f"_f{depth}"
        held = self.condition(step.condition, item, depth + 1)
        return f"filter({_unwrapped(sql)}, {item} -> coalesce({held}, false))"

    def subscripts(self, step: Subscripts) -> str:
        items = f"IF(startswith(_x, '['), {_ITEMS.format('_x')}, array(_x))"

        def place(index: Index) -> str:
            return f"(size({items}) - {index.number})" if index.from_last else str(index.number + 1)

        parts = []
        for first, last in step.ranges:
            low = f"greatest({place(first)}, 1)"
            high = place(last) if last is not None else place(first)
            parts.append(f"slice({items}, {low}, greatest({high} - {low} + 1, 0))")
        return parts[0] if len(parts) == 1 else f"concat({', '.join(parts)})"

    def condition(self, node: Any, current: str, depth: int) -> str:
        if isinstance(node, Logic):
            inner = [self.condition(side, current, depth) for side in node.sides]
            return f"(NOT {inner[0]})" if node.word == "NOT" else f"({f' {node.word} '.join(inner)})"
        if isinstance(node, Exists):
            return f"(size({self.sequence(node.path, current, depth)}) > 0)"
        if isinstance(node, IsUnknown):
            return f"({self.condition(node.condition, current, depth)} IS NULL)"
        if isinstance(node, Matches):
            text = "CASE WHEN startswith(_p, '\"') THEN variant_get(parse_json(_p), '$', 'string') RLIKE {} END"
            values = _unwrapped(self.sequence(node.value, current, depth))
            return f"exists({values}, _p -> {text.format(spark_string(node.pattern))})"
        left, right = (_unwrapped(self.sequence(side, current, depth)) for side in (node.left, node.right))
        return f"exists({left}, _p -> exists({right}, _q -> {_compared('_p', node.symbol, '_q')}))"


def _unwrapped(sql: str) -> str:
    """The elements of arrays in place of the arrays."""
    if sql.startswith("array('"):  # a constant
        return sql
    return f"flatten(transform({sql}, _x -> IF(startswith(_x, '['), {_ITEMS.format('_x')}, array(_x))))"


def _compared(left: str, symbol: str, right: str) -> str:
    """Numbers with numbers, strings with strings, booleans for being equal; null is only equal to itself."""
    string = "variant_get(parse_json({}), '$', 'string')"
    words = f"{left} {symbol} {right}" if symbol in ("=", "<>") else "CAST(NULL AS BOOLEAN)"
    null = (
        f"({left} {symbol} {right})"
        if symbol in ("=", "<>")
        else f"({left} = {right} AND {str('=' in symbol).lower()})"
    )
    return (
        f"CASE WHEN {left} = 'null' OR {right} = 'null' THEN {null} "
        f"WHEN {left} RLIKE {_WHOLE} AND {right} RLIKE {_WHOLE} "
        f"THEN CAST({left} AS DECIMAL(38,0)) {symbol} CAST({right} AS DECIMAL(38,0)) "
        f"WHEN {left} RLIKE {_NUMBER} AND {right} RLIKE {_NUMBER} "
        f"THEN CAST({left} AS DOUBLE) {symbol} CAST({right} AS DOUBLE) "
        f"WHEN startswith({left}, '\"') AND startswith({right}, '\"') "
        f"THEN {string.format(left)} {symbol} {string.format(right)} "
        f"WHEN {left} IN ('true', 'false') AND {right} IN ('true', 'false') THEN {words} END"
    )


def _quote(name: str) -> str:
    if '"' not in name:
        return f'"{name}"'
    if "'" not in name:
        return f"'{name}'"
    raise Unsupported("a jsonb key with both kinds of quotes is not supported")


def _of_number(name: str, sql: str) -> str:
    wrong = f"raise_error('jsonpath item method .{name}() can only be applied to a numeric value')"
    return f"IF(_x RLIKE {_NUMBER}, to_json(parse_json(CAST({sql} AS STRING))), {wrong})"


_DECIMAL = "CAST(_x AS DECIMAL(38,10))"
_METHOD_SQL = {
    "size": f"IF(startswith(_x, '['), CAST(size({_ITEMS.format('_x')}) AS STRING), '1')",
    "type": (
        "CASE substring(_x, 1, 1) WHEN '{' THEN '\"object\"' WHEN '[' THEN '\"array\"' WHEN '\"' THEN '\"string\"' "
        "WHEN 't' THEN '\"boolean\"' WHEN 'f' THEN '\"boolean\"' WHEN 'n' THEN '\"null\"' ELSE '\"number\"' END"
    ),
    "double": "CASE WHEN startswith(_x, '\"') THEN to_json(parse_json(variant_get(parse_json(_x), '$', 'string'))) "
    f"ELSE {_of_number('double', '_x')} END",
    "ceiling": _of_number("ceiling", f"ceil({_DECIMAL})"),
    "floor": _of_number("floor", f"floor({_DECIMAL})"),
    "abs": _of_number("abs", f"CAST(abs({_DECIMAL}) AS DECIMAL(38,10))"),
}


# --- the functions ----------------------------------------------------------------------------------------------


def call(name: str, args: list[Typed]) -> Typed:
    """jsonb_path_exists, _match, _query_array and _query_first"""
    tree, value = _arguments(name, args)
    found = sequence(tree, "_j")
    if name == "jsonb_path_exists":
        return Typed(_let(value, f"size({found}) > 0"), BOOLEAN)
    if name == "jsonb_path_match":
        single = "raise_error('single boolean result is expected')"
        whens = "WHEN 'true' THEN true WHEN 'false' THEN false WHEN 'null' THEN NULL"
        of_one = f"CASE get({found}, 0) {whens} ELSE {single} END"
        body = condition(tree, "_j") if is_condition(tree) else f"IF(size({found}) = 1, {of_one}, {single})"
        return Typed(_let(value, body), BOOLEAN)
    if name == "jsonb_path_query_first":
        return Typed(_let(value, f"get({found}, 0)"), JSONB)
    return Typed(_let(value, f"concat('[', array_join({found}, ','), ']')"), JSONB)


def found_rows(name: str, args: list[Typed]) -> str:
    """What jsonb_path_query returns, as an array."""
    tree, value = _arguments(name, args)
    return _let(value, sequence(tree, "_j"))


def _let(value: str, body: str) -> str:
    return f"get(transform(array({value}), _j -> CASE WHEN _j IS NOT NULL THEN {body} END), 0)"


def _arguments(name: str, args: list[Typed]) -> tuple[Any, str]:
    check_arity(name, args, 2, 4)
    if args[1].literal is None:
        raise Unsupported(f"{name}() with a path that is not a string constant is not supported")
    variables = {}
    if len(args) > 2:
        if args[2].literal is None:
            raise Unsupported(f"{name}() with variables that are not a constant is not supported")
        from_text(args[2].literal, JSONB)  # raises if it is no JSON
        variables = json.loads(args[2].literal)
        if not isinstance(variables, dict):
            raise DataError('"vars" argument is not an object')
    if len(args) > 3:
        raise Unsupported(f"{name}() with the argument silent is not supported")
    return parse_path(args[1].literal, variables), cast(args[0], JSONB).sql
