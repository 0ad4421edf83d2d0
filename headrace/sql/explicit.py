"""A bound expression of a session in another time zone than UTC, with the zone written wherever it matters.

Which parts those are is found by translating: a part whose translation asks for the zone
(:func:`headrace.sql.zoned.current`) depends on it. Constants become instants, so that what looks for keys and clocks
still finds them; sides of a comparison are converted one by one; all else gets a call around it that names the zone.

>>> from headrace.sql.dialect import parse_expression, print_sql
>>> print_sql(explicit(parse_expression("CAST('2024-07-01' AS TIMESTAMPTZ)"), "Europe/Berlin"))
"CAST('2024-06-30 22:00:00+00' AS TIMESTAMPTZ)"
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from headrace.catalog import INTERNAL_PREFIX
from headrace.errors import HeadraceError, Unsupported
from headrace.sql import zoned
from headrace.sql.aggregates import is_aggregate
from headrace.sql.casts import cast
from headrace.sql.datatypes import sql_type
from headrace.sql.dialect import parse_expression
from headrace.sql.literals import from_text
from headrace.sql.positions import position_of
from headrace.sql.sets import Rows, is_set_returning
from headrace.sql.subqueries import Types
from headrace.sql.translate import Translator
from headrace.sql.typed import DATE, TIMESTAMP, TIMESTAMPTZ, Typed
from headrace.types import SqlType
from headrace.zones import posix_name

SAYS_IT = "headrace_says_its_zones"
"""The key in the meta of a query that is somebody else's, and explicit already: that of a view."""

ROUNDS = 5
"""What is inside something else is found first; this many levels of what is only found then are looked for."""


def explicit(bound: exp.Expression, zone: str, *, definition: bool = False) -> exp.Expression:
    """The expression, changed in place, or another in its place.

    ``definition``: it stays. Then days before and after now() have 24 hours, so that it is known of each row when it
    comes and goes (:mod:`headrace.plan.moments`).
    """
    for _ in range(ROUNDS):
        recorder = _Recorder(zone)
        recorder.translate(bound)
        # Copies, because the nodes change while others that are equal to them are still to be found.
        found = {each.copy() for each in recorder.found if not (definition and _is_of_a_clock(each))}
        if not found and not recorder.converted:
            if recorder.elsewhere:
                break
            return bound
        bound = _Writer(zone, found, dict(recorder.converted)).written(bound)
    node = next(iter(found), bound)
    raise Unsupported(
        "this depends on the session's time zone, which cannot be said here",
        hint="say it with AT TIME ZONE, or SET TIME ZONE 'UTC'",
        position=position_of(node),
    )


def explicit_as(bound: exp.Expression, kind: SqlType, zone: str) -> exp.Expression | None:
    """The expression as a value of the type, with the zone written where it matters; None: it does not."""
    before = bound.copy()
    bound = explicit(bound, zone)
    value = Translator({}).value(bound)
    with zoned.meant_in(zone) as meant:
        cast(value, kind)
        asked = meant.asked and value.type != kind
    if asked:
        return _Writer(zone, set(), {}).cast(bound, kind)
    return None if bound == before else bound


class _Recorder(Translator):
    """A translation of which nothing is needed but what asked for the zone."""

    def __init__(self, zone: str):
        super().__init__({})
        self._zone = zone
        self.found: list[exp.Expression] = []
        self.converted: list[tuple[int, SqlType]] = []
        """Columns of queries that are converted because they stand below or above others, by the node's number"""
        self.elsewhere = False
        """Whether something asked that is no expression of its own"""

    def translate(self, node: exp.Expression) -> None:
        with zoned.meant_in(None):
            if isinstance(node, (exp.Query, exp.Values)):
                self.query(node)
            else:
                self.value(node.unalias())

    def query(self, node: exp.Expression, want: Types | None = None) -> str:
        with zoned.meant_in(None) as meant:
            if node.meta_get(SAYS_IT):
                return Translator({}).query(node, want)
            sql = self._with(node) + self._body(node, want)
            self.elsewhere = self.elsewhere or meant.asked
        return sql

    def types(self, node: exp.Expression) -> Types:
        if not node.meta_get(SAYS_IT):
            return super().types(node)
        with zoned.meant_in(None):
            return Translator({}).types(node)

    def value(self, node: exp.Expression) -> Typed:
        with zoned.meant_in(self._zone) as meant:
            value = self.translated(node)
            if meant.asked:
                self.found.append(node)
        return value

    def rows_of(self, node: exp.Anonymous) -> Rows:
        with zoned.meant_in(self._zone) as meant:
            rows = super().rows_of(node)
            if meant.asked:
                self.found.append(node)
        return rows

    def condition(self, construct: str, node: exp.Expression, *, top: bool = True) -> str:
        with zoned.meant_in(self._zone) as meant:
            sql = super().condition(construct, node, top=top)
            if meant.asked:  # by an IN that is translated in another way here
                self.found.append(node.unnest())
        return sql

    def _projections(self, node: exp.Select, want: Types | None) -> list[tuple[str, str]]:
        self._convert([each.unalias() for each in node.expressions], want)
        with zoned.meant_in(None):
            return super()._projections(node, want)

    def _rows(self, node: exp.Values, kinds: Types) -> str:
        for row in node.expressions:
            self._convert(row.expressions, kinds)
        with zoned.meant_in(None):
            return super()._rows(node, kinds)

    def _convert(self, items: list[exp.Expression], want: Types | None) -> None:
        for item, kind in zip(items, want or [], strict=False):
            value = self.value(item)
            if kind is None or kind == value.type:
                continue
            with zoned.meant_in(self._zone) as meant:
                cast(value, kind)
                if meant.asked:
                    self.converted.append((id(item), kind))


_SAME_TYPE = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between, exp.In, exp.Array,
)  # fmt: skip
_SAME_TYPE_CALLS = ("coalesce", "greatest", "least", "nullif")


class _Writer:
    def __init__(self, zone: str, found: set[exp.Expression], converted: dict[int, SqlType]):
        self._zone, self._found, self._converted = zone, found, converted

    def written(self, node: exp.Expression) -> exp.Expression:
        if node.meta_get(SAYS_IT):
            return node
        if zoned.zone_of(node) is not None:
            self._inside(node.expressions[1])
            return node
        depends, kind = node in self._found, self._converted.get(id(node))
        self._inside(node)
        if depends:
            node = self._dependent(node)
        return node if kind is None else self.cast(node, kind)

    def _inside(self, node: exp.Expression) -> None:
        for key, value in list(node.args.items()):
            if isinstance(value, exp.Expression):
                node.set(key, self.written(value))
            elif isinstance(value, list):
                node.set(key, [self.written(each) if isinstance(each, exp.Expression) else each for each in value])

    def _dependent(self, node: exp.Expression) -> exp.Expression:
        call = _call_in(node)
        if call is not None and is_aggregate(call.this):
            self._arguments(call)
            return node
        if call is not None and call is not node:  # a window function, with a constant in place of what is missing
            items = [self._constant(each) if _is_text(each) else each for each in call.expressions]
            call.set("expressions", items)
            return node
        if call is not None and is_set_returning(call.this):
            self._series(call)
            return node
        if isinstance(node, exp.Cast) and sql_type(node.to) == TIMESTAMPTZ and _is_text(node.this.unnest()):
            node.set("this", self._constant(node.this.unnest()))
            return node
        if isinstance(node, exp.In) and node.args.get("query") is not None and _type_of(node.this) in (DATE, TIMESTAMP):
            node.set("this", self._instant(node.this))
            return node
        if isinstance(node, _SAME_TYPE) or (call is not None and call.this in _SAME_TYPE_CALLS):
            keys = [key for key in ("this", "expression", "low", "high", "expressions") if node.args.get(key)]
            if call is not None:
                keys = ["expressions"]
            if self._same_type([(key, node) for key in keys]):
                return node
        return zoned.in_zone(node, self._zone)

    def _same_type(self, places: list[tuple[str, exp.Expression]]) -> bool:
        """Makes instants of all of them, if one is, and all others can be. Whether that is done."""
        items = [each for key, node in places for each in _listed(node.args[key])]
        kinds = [_type_of(each) for each in items]
        constants = [isinstance(each.unnest(), (exp.Null, exp.Literal)) for each in items]
        moments = [
            kind in (TIMESTAMPTZ, TIMESTAMP, DATE) or (kind is None and constant)
            for kind, constant in zip(kinds, constants, strict=True)
        ]
        if TIMESTAMPTZ not in kinds or not all(moments):
            return False
        for key, node in places:
            instants = [self._instant(each) for each in _listed(node.args[key])]
            node.set(key, instants if isinstance(node.args[key], list) else instants[0])
        return True

    def _instant(self, node: exp.Expression) -> exp.Expression:
        kind = _type_of(node)
        if kind is None:
            return self._constant(node.unnest()) if _is_text(node.unnest()) else node
        return node if kind == TIMESTAMPTZ else self.cast(node, TIMESTAMPTZ)

    def _constant(self, literal: exp.Expression) -> exp.Expression:
        with zoned.meant_in(self._zone):
            instant = from_text(literal.name, TIMESTAMPTZ)
        fraction = f".{instant.microsecond:06}" if instant.microsecond else ""
        return exp.Literal.string(f"{instant:%Y-%m-%d %H:%M:%S}{fraction}+00".rjust(22, "0"))

    def cast(self, node: exp.Expression, kind: SqlType) -> exp.Expression:
        if kind == TIMESTAMPTZ and _is_text(node.unnest()):
            return self._constant(node.unnest())
        return zoned.in_zone(exp.Cast(this=node, to=_type_tree(kind)), self._zone)

    def _arguments(self, call: exp.Anonymous) -> None:
        """An aggregate must stay what it is: its arguments are converted instead."""

        def argument(node: exp.Expression, *, as_text: bool) -> exp.Expression:
            if isinstance(node, exp.Order):
                node.set("this", argument(node.this, as_text=as_text))
                return node
            if isinstance(node, exp.Distinct):
                node.set("expressions", [argument(each, as_text=as_text) for each in node.expressions])
                return node
            if isinstance(node, (exp.Star, exp.Literal, exp.Null)):
                return node
            as_json = zoned.in_zone(exp.Anonymous(this="to_jsonb", expressions=[node]), self._zone)
            return exp.JSONBExtractScalar(this=as_json, expression=exp.Literal.string("{}")) if as_text else as_json

        by_key = call.this.endswith("object_agg")
        arguments = [argument(each, as_text=by_key and number == 0) for number, each in enumerate(call.expressions)]
        call.set("expressions", arguments)

    def _series(self, call: exp.Anonymous) -> None:
        """generate_series(start, stop, step, zone)"""
        items = call.expressions
        if len(items) == 3 and Translator({}).rows_of(call).columns[0][1] == TIMESTAMPTZ:
            bounds = [self._instant(each) for each in items[:2]]
            bounds = [exp.Cast(this=each, to=_type_tree(TIMESTAMPTZ)) if _is_text(each) else each for each in bounds]
            call.set("expressions", [*bounds, items[2], exp.Literal.string(posix_name(self._zone))])
            return
        call.set("expressions", [self._instant(each) if _is_text(each.unnest()) else each for each in items])


def _type_tree(kind: SqlType) -> exp.Expression:
    return parse_expression(f"CAST(NULL AS {kind})").to


def _type_of(node: exp.Expression) -> SqlType | None:
    try:
        return Translator({}).value(node).type
    except HeadraceError:
        return SqlType("varchar")  # a row, or something else that is not converted as a whole


def _listed(value: Any) -> list[exp.Expression]:
    return value if isinstance(value, list) else [value]


def _is_text(node: exp.Expression) -> bool:
    return isinstance(node, exp.Literal) and node.is_string


def _call_in(node: exp.Expression) -> exp.Anonymous | None:
    """The call that a node is, or that it has a FILTER, an OVER or a WITHIN GROUP of."""
    while isinstance(node, (exp.Filter, exp.Window, exp.WithinGroup)):
        node = node.this
    return node if isinstance(node, exp.Anonymous) else None


def _is_of_a_clock(node: exp.Expression) -> bool:
    """now() - INTERVAL '1 day'"""
    if not isinstance(node, (exp.Add, exp.Sub)):
        return False
    clock = node.this.unnest()
    return isinstance(clock, exp.Anonymous) and str(clock.this).lower() in _CLOCKS


_CLOCKS = ("now", "current_timestamp", f"{INTERNAL_PREFIX}watermark")
