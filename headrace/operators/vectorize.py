"""From a plan to expressions over Arrow arrays, or None where only Spark knows the answer.

Types are those of the translation to Spark SQL (:mod:`headrace.sql.expressions`), so both ways agree about them; what
is not listed here is Spark's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from headrace.errors import HeadraceError
from headrace.operators.vectors import (
    Call,
    Column,
    Constant,
    NotVectorized,
    Vector,
    VectorBranch,
    VectorFilter,
    VectorProject,
)
from headrace.plan.nodes import Filter, Node, Project, Scan, UnionAll
from headrace.sql.datatypes import sql_type
from headrace.sql.expressions import Expressions
from headrace.sql.lengths import FUNCTION as LENGTH
from headrace.sql.literals import NOT_CONSTANT, constant
from headrace.sql.operators import factor_scales, quotient_types
from headrace.sql.templates import TOKEN
from headrace.sql.typed import (
    BIGINT,
    BOOLEAN,
    INTEGER,
    INTERVAL,
    MAX_DIGITS,
    TEXT,
    TIME,
    TIMESTAMP,
    digits,
    is_float,
    is_integer,
    widen,
)
from headrace.types import SqlType

_ARITHMETIC = {exp.Add: "add", exp.Sub: "subtract", exp.Mul: "multiply", exp.Div: "divide", exp.Mod: "modulo"}
_COMPARISONS = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_ORDERED = ("smallint", "integer", "bigint", "numeric", "real", "double precision", "varchar", "uuid", "date", "time",
            "timestamp", "timestamptz", "interval")  # fmt: skip
_EQUAL_ONLY = ("boolean", "bytea")

_LARGE = 1 << 30

_FIELDS = {"date": ("year", "month", "day"), "timestamp": ("year", "month", "day", "hour", "minute")}
_UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
_PLACES = {
    "YYYY": (0, 4), "MM": (5, 7), "DD": (8, 10), "HH24": (11, 13), "MI": (14, 16), "SS": (17, 19), "MS": (20, 23),
    "US": (20, 26),
}  # fmt: skip
"""Where a part of a time's text is: 2026-01-31 10:20:30.123456"""

WIDE_DIGITS = 76
"""That Arrow's widest decimal has."""


def vectorized(node: Node, types: Mapping[str, SqlType]) -> tuple[VectorBranch, ...] | None:
    """The branches of a view's plan, whose columns are stored as ``types``."""
    try:
        return tuple(_branches(node, types))
    except (NotVectorized, RecursionError):
        return None


def vectorized_expression(node: exp.Expression) -> Vector | None:
    try:
        return _vector(node)
    except (NotVectorized, RecursionError):
        return None


def vector_of(node: exp.Expression) -> Vector:
    """An expression over columns without a table; :class:`NotVectorized` if it is Spark's."""
    return _vector(node)


def vector_projection(name: str, expression: exp.Expression, stored: SqlType | None) -> tuple[str, Vector, Any]:
    """The same as a column of a projection, as the type that it is stored as, or its own."""
    return _projected(name, expression, stored)


def _branches(node: Node, types: Mapping[str, SqlType]) -> list[VectorBranch]:
    match node:
        case Scan():
            return [VectorBranch(node.relation_id)]
        case UnionAll():
            return [branch for each in node.inputs for branch in _branches(each, types)]
        case Filter():
            step: VectorFilter | VectorProject = VectorFilter(_boolean(node.condition))
            return [VectorBranch(each.relation_id, (*each.steps, step)) for each in _branches(node.input, {})]
        case Project():
            step = VectorProject(tuple(_projected(name, each, types.get(name)) for name, each in node.columns))
            return [VectorBranch(each.relation_id, (*each.steps, step)) for each in _branches(node.input, {})]
    raise NotVectorized(type(node).__name__)


def _projected(name: str, expression: exp.Expression, stored: SqlType | None) -> tuple[str, Vector, Any]:
    kind = stored or _kind(expression)
    if kind is None:
        raise NotVectorized("a column without a type")
    return name, _as(expression, kind), kind.arrow


def _kind(node: exp.Expression) -> SqlType | None:
    try:
        return Expressions(qualified=False).value(node).type
    except HeadraceError as error:  # a part that is no value by itself
        raise NotVectorized(str(error)) from error


def _vector(node: exp.Expression) -> Vector:
    method = _METHODS.get(type(node))
    if method is None:
        raise NotVectorized(type(node).__name__)
    return method(node)


def _as(node: exp.Expression, target: SqlType) -> Vector:
    """The expression, converted if that loses nothing and both sides do it alike."""
    node = node.unnest()
    source = _kind(node)
    if _is_constant(node) and (source is None or _widens(source, target) or target.name == "double precision"):
        value = constant(node, target)
        if value is NOT_CONSTANT:
            raise NotVectorized("a constant that Spark reads")
        return Constant(value, target.arrow)
    if source is None or not _widens(source, target):
        raise NotVectorized(f"{source} as {target}")
    found = _vector(node)
    return found if source.arrow == target.arrow else Call("cast", (found,), target.arrow)


def _is_constant(node: exp.Expression) -> bool:
    if isinstance(node, exp.Neg):
        return isinstance(node.this, exp.Literal) and not node.this.is_string
    return isinstance(node, (exp.Literal, exp.Null, exp.Boolean))


def _widens(source: SqlType, target: SqlType) -> bool:
    if source == target:
        return True
    if is_integer(source) and is_integer(target):
        return digits(source) <= digits(target)
    if target.name == "numeric" and (is_integer(source) or source.name == "numeric"):
        (p1, s1), (p2, s2) = digits(source), digits(target)
        return s1 <= s2 and p1 - s1 <= p2 - s2
    if source.name == "time":
        return target == TIME
    return (source.name, target.name) in (("real", "double precision"), ("uuid", "varchar"))


def _boolean(node: exp.Expression) -> Vector:
    # What type the parts have is asked of each anyway. To ask it of all together would make long conditions slow.
    bare = node.unnest()
    return _and_or(bare) if isinstance(bare, (exp.And, exp.Or)) else _as(node, BOOLEAN)


def _column(node: exp.Column) -> Vector:
    return Column(node.name)


def _constant(node: exp.Expression) -> Vector:
    kind = _kind(node)
    if kind is None:
        raise NotVectorized("a constant without a type")
    return _as(node, kind)


def _paren(node: exp.Paren) -> Vector:
    return _vector(node.this)


def _cast(node: exp.Cast) -> Vector:
    if sql_type(node.to) == TEXT and node.to.expressions:
        raise NotVectorized("varchar(n) truncates")
    kind = _kind(node)
    if _is_constant(node.this.unnest()) and (value := constant(node, kind)) is not NOT_CONSTANT:
        return Constant(value, kind.arrow)
    return _as(node.this, kind)


def _arithmetic(node: exp.Binary) -> Vector:
    name = _ARITHMETIC[type(node)]
    left, right, result = _kind(node.this), _kind(node.expression), _kind(node)
    if left is None or right is None:
        raise NotVectorized("a constant without a type")
    if left == TIMESTAMP and right == INTERVAL and name in ("add", "subtract"):
        span = _as(node.expression, right)
        if isinstance(span, Constant) and span.value is not None and span.value["months"]:
            raise NotVectorized("months")
        return Call("later" if name == "add" else "earlier", (_as(node.this, left), span), result.arrow)
    if is_integer(result):
        return Call(name, (_as(node.this, result), _as(node.expression, result)), result.arrow)
    if is_float(result) and left == right and name in ("add", "subtract", "multiply"):
        return Call(f"{name}_floats", (_as(node.this, result), _as(node.expression, result)), result.arrow)
    if result.name == "numeric" and name in ("add", "subtract", "multiply"):
        return _decimals(name, node, left, right, result)
    if result.name == "numeric" and name == "divide":
        # What has more digits before the point than that is Spark's to refuse: Arrow stops there.
        numbers = [
            _as(side, SqlType("numeric", precision=precision, scale=scale))
            for side, (precision, scale) in ((node.this, digits(left)), (node.expression, digits(right)))
        ]
        *kinds, quotient = quotient_types(left, right)
        sides = tuple(Call("cast", (number,), kind.arrow) for number, kind in zip(numbers, kinds, strict=True))
        return Call(f"divide_decimals_{quotient.scale}", sides, quotient.arrow)
    raise NotVectorized(f"{left} {name} {right}")


def _decimals(name: str, node: exp.Binary, left: SqlType, right: SqlType, result: SqlType) -> Vector:
    """Where the result's digits always suffice, both give it the same type."""
    (p1, s1), (p2, s2) = digits(left), digits(right)
    if name == "multiply" and (left.quotient or right.quotient) and factor_scales(left, right) != (s1, s2):
        raise NotVectorized("a quotient that is rounded first")
    precision = p1 + p2 + 1 if name == "multiply" else max(p1 - s1, p2 - s2) + max(s1, s2) + 1
    wide = name == "multiply" and precision <= WIDE_DIGITS and s1 + s2 <= MAX_DIGITS
    if precision > MAX_DIGITS and not wide:
        raise NotVectorized("more digits than a decimal has")
    sides = (
        _as(node.this, SqlType("numeric", precision=p1, scale=s1)),
        _as(node.expression, SqlType("numeric", precision=p2, scale=s2)),
    )
    # A product that may have more digits is computed with all of them; if it does not fit, Spark says so.
    return Call(name if precision <= MAX_DIGITS else "multiply_wide", sides, result.arrow)


def _negate(node: exp.Neg) -> Vector:
    kind = _kind(node)
    if _is_constant(node):
        return _as(node, kind)
    if not is_integer(kind):
        raise NotVectorized(f"-{kind}")
    return Call("negate", (_vector(node.this),), kind.arrow)


def _compare(node: exp.Binary) -> Vector:
    symbol = _COMPARISONS[type(node)]
    return Call(symbol, _comparable(symbol, node.this, node.expression), BOOLEAN.arrow)


def _comparable(symbol: str, *nodes: exp.Expression) -> tuple[Vector, ...]:
    """The sides of a comparison as one type."""
    if any(isinstance(node.unnest(), (exp.Tuple, exp.Any, exp.All, exp.Subquery)) for node in nodes):
        raise NotVectorized("a comparison of rows")
    kinds = [kind for node in nodes if (kind := _kind(node)) is not None]
    if not kinds:
        raise NotVectorized("constants without a type")
    common = kinds[0]
    for kind in kinds[1:]:
        wider = widen(common, kind)
        if wider is None:
            raise NotVectorized(f"{common} {symbol} {kind}")
        common = wider
    if common.name not in _ORDERED and not (common.name in _EQUAL_ONLY and symbol in ("=", "<>")):
        raise NotVectorized(f"{symbol} of {common}")
    sides = tuple(_as(node, common) for node in nodes)
    return tuple(map(_length, sides)) if common == INTERVAL else sides


def _length(value: Vector) -> Vector:
    """What an interval is compared by."""
    return Call("interval_length", (value,), BIGINT.arrow)


def _between(node: exp.Between) -> Vector:
    if node.args.get("symmetric"):
        raise NotVectorized("BETWEEN SYMMETRIC")
    value, low, high = _comparable("<=", node.this, node.args["low"], node.args["high"])
    from_low, to_high = (Call(">=", (value, low), BOOLEAN.arrow), Call("<=", (value, high), BOOLEAN.arrow))
    return Call("and", (from_low, to_high), BOOLEAN.arrow)


def _in(node: exp.In) -> Vector:
    if node.args.get("query") is not None or not node.expressions:
        raise NotVectorized("IN of a query")
    value, *items = _comparable("=", node.this, *node.expressions)
    if is_float(_kind(node.this)) or any(not isinstance(each, Constant) or each.value is None for each in items):
        raise NotVectorized("IN of more than constants")
    return Call("in", (value, *items), BOOLEAN.arrow)


def _and_or(node: exp.Connector) -> Vector:
    word = "and" if isinstance(node, exp.And) else "or"
    return Call(word, (_boolean(node.this), _boolean(node.expression)), BOOLEAN.arrow)


def _not(node: exp.Not) -> Vector:
    return Call("not", (_boolean(node.this),), BOOLEAN.arrow)


def _is(node: exp.Is) -> Vector:
    if isinstance(node.this.unnest(), (exp.Column, exp.Paren, *_ARITHMETIC)) and isinstance(node.expression, exp.Null):
        return Call("is_null", (_vector(node.this),), BOOLEAN.arrow)
    if isinstance(node.expression, exp.Boolean):
        word = "is_true" if node.expression.this else "is_false"
        return Call(word, (_boolean(node.this),), BOOLEAN.arrow)
    raise NotVectorized("IS")


def _concatenate(node: exp.DPipe) -> Vector:
    if _kind(node) != TEXT or any(_kind(side) not in (None, TEXT) for side in (node.this, node.expression)):
        raise NotVectorized("|| of other types than text")
    return Call("concatenate", (_as(node.this, TEXT), _as(node.expression, TEXT)), TEXT.arrow)


def _case(node: exp.Case) -> Vector:
    kind = _kind(node)
    parts: list[Vector] = []
    for branch in node.args["ifs"]:
        if node.this is None:
            parts.append(_boolean(branch.this))
        else:
            parts.append(Call("=", _comparable("=", node.this, branch.this), BOOLEAN.arrow))
        parts.append(_as(branch.args["true"], kind))
    default = node.args.get("default")
    parts.append(Constant(None, kind.arrow) if default is None else _as(default, kind))
    return Call("case", tuple(parts), kind.arrow)


def _like(node: exp.Like) -> Vector:
    pattern = node.expression.unnest()
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise NotVectorized("LIKE of an expression")
    text, body = pattern.this, pattern.this.strip("%")
    first, last = text.startswith("%"), text.endswith("%")
    if not body or any(each in body for each in "_\\"):
        raise NotVectorized("a pattern of another kind")
    name = {(True, True): "contains", (False, True): "starts_with", (True, False): "ends_with"}.get((first, last), "=")
    if "%" in body or len(text) != len(body) + first + last:
        name, body = "like", text
    found = Call(name, (_as(node.this, TEXT), Constant(body, TEXT.arrow)), BOOLEAN.arrow)
    return Call("not", (found,), BOOLEAN.arrow) if node.args.get("negate") else found


def _call(node: exp.Anonymous) -> Vector:
    name, arguments, kind = node.this, node.expressions, _kind(node)
    if name in ("upper", "lower") and len(arguments) == 1:
        return Call(name, (_as(arguments[0], TEXT),), TEXT.arrow)
    if name in ("length", "char_length", "character_length") and len(arguments) == 1:
        return Call("length", (_as(arguments[0], TEXT),), kind.arrow)
    if name == "abs" and len(arguments) == 1 and is_integer(kind):
        return Call("abs", (_as(arguments[0], kind),), kind.arrow)
    if name == "extract" and len(arguments) == 2 and isinstance(arguments[0], exp.Literal):
        field, of = arguments[0].name.lower(), (_kind(arguments[1]) or TEXT).name
        if field in _FIELDS.get(of, ()):
            return Call(field, (_vector(arguments[1]),), kind.arrow)
    if name == "to_char" and len(arguments) == 2 and (_kind(arguments[0]) or TEXT).name in _FIELDS:
        return _to_char(*arguments)
    if name == "date_trunc" and len(arguments) == 2 and kind == TIMESTAMP and isinstance(arguments[0], exp.Literal):
        if (unit := arguments[0].name.lower()) in _UNITS:
            return Call("date_trunc", (Constant(unit, TEXT.arrow), _as(arguments[1], kind)), kind.arrow)
    if name == "replace" and len(arguments) == 3:
        text, old, new = (_as(each, TEXT) for each in arguments)
        if not all(isinstance(each, Constant) and each.value is not None for each in (old, new)) or not old.value:
            raise NotVectorized("replace() of what is not a constant")
        return Call("replace", (text, old, new), TEXT.arrow)
    if name == "split_part" and len(arguments) == 3:
        return _split_part(*arguments)
    if name == "nullif" and len(arguments) == 2 and kind is not None:
        equal = Call("=", _comparable("=", *arguments), BOOLEAN.arrow)
        return Call("case", (equal, Constant(None, kind.arrow), _as(arguments[0], kind)), kind.arrow)
    if name == LENGTH and len(arguments) == 1:
        return _length(_as(arguments[0], INTERVAL))
    if name in ("substring", "substr") and kind == TEXT:
        return _substring(arguments)
    if name == "date_bin" and len(arguments) == 3 and kind == TIMESTAMP:
        stride, value, origin = arguments
        return Call("date_bin", (_length(_as(stride, INTERVAL)), _as(value, kind), _as(origin, kind)), kind.arrow)
    if name == "coalesce" and kind is not None:
        return Call("coalesce", tuple(_as(each, kind) for each in arguments), kind.arrow)
    raise NotVectorized(f"{name}()")


def _to_char(moment: exp.Expression, template: exp.Expression) -> Vector:
    """By a template of numbers that have a fixed place in a time's own text."""
    if not isinstance(template, exp.Literal) or not template.is_string:
        raise NotVectorized("a template that is not a constant")
    parts: list[Vector] = []
    for token in TOKEN.findall(template.name):
        if (place := _PLACES.get(token.upper())) is not None:
            parts += [Constant(end, INTEGER.arrow) for end in place]
        elif token[0].isalpha() or token[0] == '"':
            raise NotVectorized("a template of another kind")
        else:
            parts += [Constant(token, TEXT.arrow), Constant(None, TEXT.arrow)]
    return Call("to_char", (_vector(moment), *parts), TEXT.arrow)


def _split_part(text: exp.Expression, delimiter: exp.Expression, number: exp.Expression) -> Vector:
    constants = isinstance(delimiter, exp.Literal) and delimiter.is_string and isinstance(number, exp.Literal)
    if not constants or not delimiter.name or not number.name.isdigit() or not 0 < int(number.name) < _LARGE:
        raise NotVectorized("split_part() by what is not a constant, or of parts from the end")
    ends = Constant(delimiter.name, TEXT.arrow), Constant(int(number.name), INTEGER.arrow)
    return Call("split_part", (_as(text, TEXT), *ends), TEXT.arrow)


def _substring(arguments: list[exp.Expression]) -> Vector:
    """Of positions that are constants, and in the text."""
    text, *positions = arguments
    if not all(isinstance(each, exp.Literal) and not each.is_string and each.name.isdigit() for each in positions):
        raise NotVectorized("substring() of positions that are not constants")
    first, *counts = (int(each.name) for each in positions)
    if first < 1 or first + sum(counts) > _LARGE:
        raise NotVectorized("substring() of positions beyond a text")
    # From the character with this number on, counted from 0, to before that one.
    ends = [first - 1, *(first - 1 + count for count in counts)]
    return Call("substring", (_as(text, TEXT), *(Constant(end, INTEGER.arrow) for end in ends)), TEXT.arrow)


_METHODS: dict[type, Callable[[Any], Vector]] = {
    exp.Column: _column,
    exp.Literal: _constant,
    exp.Boolean: _constant,
    exp.Paren: _paren,
    exp.Cast: _cast,
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys(_COMPARISONS, _compare),
    exp.Neg: _negate,
    exp.Between: _between,
    exp.In: _in,
    exp.And: _and_or,
    exp.Or: _and_or,
    exp.Not: _not,
    exp.Is: _is,
    exp.DPipe: _concatenate,
    exp.Case: _case,
    exp.Like: _like,
    exp.Anonymous: _call,
}
