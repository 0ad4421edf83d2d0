"""Parameters of statements (``$1``): which types they have, and their values as constants in the text.

Headrace binds a statement with its values in it, as if the client had written them. A value whose type nobody gave
becomes a bare string constant, which takes the type that its surroundings ask for, as in PostgreSQL.

>>> parameter_count("SELECT $1, '$2' -- $3")
1
>>> made = with_constants("SELECT $1 + $2, a", ["CAST('1' AS numeric)", "2"])
>>> made.text
"SELECT CAST('1' AS numeric) + 2, a"
>>> made.original(made.text.index("a") + 1) == "SELECT $1 + $2, a".index("a") + 1
True
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from sqlglot import exp

from headrace.catalog import Catalog
from headrace.errors import DataError, HeadraceError, SqlSyntaxError, UndefinedParameterNumber
from headrace.serving.pg_catalog.rewrite import object_type
from headrace.serving.wire.binary import decode
from headrace.serving.wire.oids import oid_of, type_of
from headrace.sql import statements as ast
from headrace.sql.datatypes import sql_type
from headrace.sql.dialect import parse_expression
from headrace.sql.parse import parse
from headrace.sql.text import nul_character, pieces
from headrace.types import SqlType

_PARAMETER = re.compile(r"(?<![\w$])\$(\d{1,5})(?![\w$])")
MOST = 65_535
REMEMBERED_TEXT = 2_000
"""Characters of a statement that is remembered: drivers prepare the same ones again and again."""
TEXT, BIGINT, INTERVAL = SqlType("varchar"), SqlType("bigint"), SqlType("interval")


def _code(text: str) -> Iterator[tuple[bool, str]]:
    """The text in pieces, and whether each may hold parameters."""
    for piece in pieces(text):
        yield piece.kind == "code", text[piece.start : piece.end]


def parameter_count(text: str) -> int:
    numbers = [int(match[1]) for code, part in _code(text) if code for match in _PARAMETER.finditer(part)]
    if any(not 1 <= number <= MOST for number in numbers):
        raise UndefinedParameterNumber(f"there is no parameter ${min(numbers)}")
    return max(numbers, default=0)


class Substituted:
    """A statement with something else in place of its parameters. Errors still speak of the text that was sent."""

    def __init__(self, text: str, replace: Callable[[int], str]):
        parts: list[str] = []
        self._places: list[tuple[int, int, int]] = []
        """Where a replacement is, where it ends, and where its parameter was"""
        before = made = 0
        for code, part in _code(text):
            taken = 0
            for match in _PARAMETER.finditer(part) if code else ():
                parts += (part[taken : match.start()], replacement := replace(int(match[1])))
                made += match.start() - taken
                self._places.append((made, made + len(replacement), before + match.start()))
                made, taken = made + len(replacement), match.end()
            parts.append(part[taken:])
            made, before = made + len(part) - taken, before + len(part)
        self.text = "".join(parts)
        self._length = len(text)

    def original(self, position: int) -> int:
        """Positions count from 1, as errors have them."""
        at, made_end, original_end = position - 1, len(self.text), self._length
        for start, end, was in reversed(self._places):
            if at >= end:
                break
            if at >= start:
                return was + 1
            made_end, original_end = start, was
        return original_end - (made_end - at) + 1

    @contextmanager
    def positions(self) -> Iterator[None]:
        """Errors that happen meanwhile get the position that the client knows."""
        try:
            yield
        except HeadraceError as error:
            if error.position is not None:
                error.position = self.original(error.position)
            raise

    def parse(self) -> list[ast.Statement]:
        with self.positions():
            return parse(self.text)


@contextmanager
def without_positions() -> Iterator[None]:
    """Of what EXECUTE runs: its text was sent long ago."""
    try:
        yield
    except HeadraceError as error:
        error.position = None
        raise


def parse_with_names(text: str) -> Sequence[ast.Statement]:
    """The statements with parameters as columns, to be looked at and not to be changed: they may be others' as well."""
    return _parsed_before(text) if len(text) <= REMEMBERED_TEXT else _parse_with_names(text)


def _parse_with_names(text: str) -> Sequence[ast.Statement]:
    return tuple(Substituted(text, lambda number: f'"${number}"').parse())


_parsed_before = functools.lru_cache(maxsize=256)(_parse_with_names)


def with_constants(text: str, constants: Sequence[str]) -> Substituted:
    return Substituted(text, lambda number: constants[number - 1])


def unknown_constants(types: Sequence[SqlType], limits: Collection[int]) -> list[str]:
    """They stand for values that are not known yet. A LIMIT takes numbers only."""
    return ["0" if number in limits else f"CAST(NULL AS {kind})" for number, kind in enumerate(types, 1)]


def constant(data: bytes | None, form: int, kind: SqlType | None, oid: int) -> str:
    """The value as SQL."""
    if data is None:
        return "NULL"
    text = _value_text(data, form, kind, oid)
    quoted = "'" + text.replace("'", "''") + "'"
    if kind is None or kind.name == "varchar":
        return quoted
    if _is_number(text, kind):
        return f"({text})" if text.startswith("-") else text
    return f"CAST({quoted} AS {kind})"


def constant_tree(data: bytes | None, form: int, kind: SqlType | None, oid: int) -> exp.Expression:
    """The same as the parser would make of it."""
    if data is None:
        return exp.Null()
    text = _value_text(data, form, kind, oid)
    if kind is None or kind.name == "varchar":
        return exp.Literal.string(text)
    if _is_number(text, kind):
        number = exp.Literal.number(text.lstrip("-"))
        return exp.Neg(this=number) if text.startswith("-") else number
    return exp.Cast(this=exp.Literal.string(text), to=_type_tree(kind))


@functools.lru_cache(maxsize=256)
def _type_tree(kind: SqlType) -> exp.Expression:
    return parse_expression(f"CAST(NULL AS {kind})").to


def _is_number(text: str, kind: SqlType) -> bool:
    """A bare number fits columns of any width, so that a driver's guess decides nothing."""
    return kind.name in ("smallint", "integer", "bigint") and re.fullmatch(r"-?\d{1,18}", text) is not None


def _value_text(data: bytes, form: int, kind: SqlType | None, oid: int) -> str:
    if form == 1:
        if kind is None or (oid and type_of(oid) is None and oid != oid_of(kind)):
            raise DataError(
                f"a binary parameter of the type {oid} is not understood", hint="send it as text", sqlstate="42P18"
            )
        text = decode(data, kind)
    else:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise DataError('invalid byte sequence for encoding "UTF8"', sqlstate="22021") from None
    if "\0" in text:
        raise nul_character()
    return text


def written(value: exp.Expression, text: str, kind: SqlType | None) -> str:
    """A value that EXECUTE gives, for a parameter that was declared with a type, or with none."""
    if kind is not None:
        return f"CAST(({text}) AS {kind})"
    return text if isinstance(value, (exp.Literal, exp.Null, exp.Boolean)) else f"({text})"


# --- types --------------------------------------------------------------------------------------------------------


def parameter_types(statement: ast.Statement | None, count: int, oids: Sequence[int], catalog: Catalog) -> list:
    """The type of each: as the client says, else as its first use asks for, else text."""
    used = _used_types(statement, catalog) if statement is not None else {}
    given = [type_of(oid) if oid else None for oid in [*oids, *([0] * (count - len(oids)))][:count]]
    return [kind or used.get(number) or TEXT for number, kind in enumerate(given, 1)]


def named_oids(statement: ast.Statement | None) -> dict[int, int]:
    """Parameters that are cast to a type that Headrace has another for: the client is told the one it named."""
    query = getattr(statement, "query", None)
    casts = [] if query is None else query.find_all(exp.Cast)
    return {
        number: _OBJECTS[kind]
        for node in casts
        if (number := parameter_number(node.this)) is not None and (kind := object_type(node.to)) in _OBJECTS
    }


def limit_parameters(statement: ast.Statement | None) -> set[int]:
    """The parameters that say how many rows."""
    query = getattr(statement, "query", None)
    limits = [] if query is None else query.find_all(exp.Limit, exp.Offset, exp.Fetch)
    return {number for node in limits if (number := parameter_number(_limit(node))) is not None}


def _limit(node: exp.Expression) -> exp.Expression | None:
    return node.args.get("expression") or node.args.get("count")


def parameter_number(node: exp.Expression | None) -> int | None:
    """Which parameter an expression is, if it is one, with names in place of parameters."""
    if isinstance(node, exp.Paren):
        return parameter_number(node.this)
    if isinstance(node, exp.Column) and not node.table and re.fullmatch(r"\$\d+", node.name):
        return int(node.name[1:])
    return None


def _used_types(statement: ast.Statement, catalog: Catalog) -> dict[int, SqlType]:
    found: dict[int, SqlType] = {}

    def use(node: exp.Expression | None, kind: SqlType | None) -> None:
        if (number := parameter_number(node)) is not None and kind is not None:
            found.setdefault(number, kind)

    trees: list[exp.Expression] = []
    target = None
    if isinstance(statement, (ast.Insert, ast.Update, ast.Delete)):
        target = catalog.find(statement.table)
    if isinstance(statement, ast.Insert) and target is not None:
        names = statement.columns or [column.name for column in target.visible_columns]
        types = {column.name: column.type for column in target.columns}
        for row in statement.rows or ():
            for name, value in zip(names, row, strict=False):
                use(value, types.get(name))
                trees.append(value)
        if statement.query is not None:
            for name, item in zip(names, statement.query.selects, strict=False):
                use(item.unalias(), types.get(name))
    if isinstance(statement, ast.Update) and target is not None:
        for name, value in statement.assignments:
            use(value, next((column.type for column in target.columns if column.name == name), None))
            trees.append(value)
    trees += [tree for tree in (getattr(statement, "where", None), getattr(statement, "query", None)) if tree]
    tables = {table.name for tree in trees for table in tree.find_all(exp.Table)} | ({target.name} if target else set())
    columns = {
        column.name: column.type
        for name in tables
        if (relation := catalog.find(name)) is not None
        for column in relation.columns
    }
    for tree in trees:
        for node in tree.walk():
            _use_in(node, use, columns)
    return found


def _use_in(node: exp.Expression, use: Callable, columns: dict[str, SqlType]) -> None:
    def kind_of(other: exp.Expression | None) -> SqlType | None:
        if isinstance(other, exp.Column):
            return columns.get(other.name)
        if isinstance(other, exp.Cast):
            return _cast_type(other)
        if isinstance(other, exp.Literal) and not other.is_string:
            return SqlType("integer") if other.this.isdigit() else SqlType("numeric")
        if isinstance(other, (exp.Paren, exp.Neg)):
            return kind_of(other.this)
        return None

    if isinstance(node, exp.Cast):
        use(node.this, _cast_type(node))
    elif isinstance(node, (exp.Limit, exp.Offset, exp.Fetch)):
        use(_limit(node), BIGINT)
    elif isinstance(node, (exp.Like, exp.ILike)):
        use(node.this, TEXT)
        use(node.expression, TEXT)
    elif isinstance(node, exp.Between):
        for side in ("low", "high"):
            use(node.args[side], kind_of(node.this))
    elif isinstance(node, exp.In):
        for item in node.expressions:
            use(item, kind_of(node.this))
    elif isinstance(node, exp.Binary):
        right = node.expression
        if isinstance(right, (exp.Any, exp.All)):
            element = kind_of(node.this)
            use(right.this.unnest(), SqlType("array", element=element) if element is not None else None)
            return
        left, other = kind_of(node.this), kind_of(right)
        if isinstance(node, exp.Add):  # nothing else is added to a time
            left, other = (INTERVAL if kind is not None and kind.name in _MOVED else kind for kind in (left, other))
        use(node.this, other)
        use(right, left)


_MOVED = ("time", "timestamp", "timestamptz")
_OBJECTS = {"oid": 26, "oid[]": 1028}


def _cast_type(node: exp.Cast) -> SqlType | None:
    if (oid := _OBJECTS.get(object_type(node.to) or "")) is not None:
        return type_of(oid)
    try:
        return sql_type(node.to)
    except HeadraceError:
        return None


def check_count(given: int, wanted: int, name: str) -> None:
    if given != wanted:
        raise SqlSyntaxError(
            f'bind message supplies {given} parameters, but prepared statement "{name}" requires {wanted}'
        )
