"""EMIT ON WINDOW CLOSE: rows come when they are final, because the watermark says that nothing can change them.

A watermark W of a relation says that no row comes any more whose time is before W. So for some columns of a query it is
known that all changes still to come are of rows with a later value: for the time itself, for the bins that it falls
into, for a group or a partition by one of them. Such a column *closes*: a row is final when its value, and so much more
(``after``), is not later than W. The query is put into another one which has that as its condition,

    SELECT … FROM (query) AS q WHERE q.window_end <= _hr_watermark(t)

and this is kept up to date like one with now() (:mod:`headrace.plan.moments`). If several relations have a part in a
column all of their watermarks must have passed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from headrace.catalog import INTERNAL, INTERNAL_PREFIX, MATERIALIZED_VIEW, SOURCE, Catalog
from headrace.errors import Unsupported
from headrace.plan.moments import has_now
from headrace.plan.pieces import aliased, conjuncts, free_name, has_query, outputs_of, select, subquery, typed_column
from headrace.sql.bind import BoundQuery, bind_query
from headrace.sql.dialect import parse_query, print_sql
from headrace.sql.grouping import has_aggregate
from headrace.sql.names import SCHEMA
from headrace.sql.tree import is_as_of_now
from headrace.sql.watermarks import constant_micros, watermark_call, watermark_of

RESULT = f"{INTERNAL_PREFIX}q"

_TRUNCATED = {
    "microseconds": 1, "milliseconds": 1_000, "second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000,
    "day": 86_400_000_000, "week": 604_800_000_000,
}  # fmt: skip


class Closing(NamedTuple):
    """A row is final when its value and ``after`` microseconds more are not later than any of the watermarks."""

    after: int
    watermarks: frozenset[int]
    """Of these relations"""


Closings = Mapping[str, Closing]
"""By the name of the column"""


def emitting_on_close(bound: BoundQuery, catalog: Catalog) -> exp.Query:
    """The query, of its final rows only."""
    inner = bound.expression.copy()
    inner.set("order", None)  # means nothing in a view, and would be a subquery's now
    found = closings(inner, catalog)
    name = next((each for each in ("window_end", "window_start", *found) if each in found), None)
    hidden = free_name("closes", bound.output)  # the column that closes, if the query does not show it
    if name is None and (key := _hidden_key(inner, catalog, hidden)) is not None:
        inner.append("expressions", aliased(key[0].copy(), hidden))
        name, found = hidden, {hidden: key[1]}
    if name is None:
        raise Unsupported(
            "EMIT ON WINDOW CLOSE needs rows that a watermark makes final",
            hint="GROUP BY (or PARTITION BY) window_start or window_end of TUMBLE or HOP, over a column that a source"
            " or an append-only table has a WATERMARK FOR",
        )
    names, kinds = [*bound.output, hidden], [*bound.types, None]
    if len(set(bound.output)) < len(bound.output):
        raise Unsupported("EMIT ON WINDOW CLOSE of two columns of one name", hint="give one another name with AS")
    items = [(each, typed_column(RESULT, each, kind)) for each, kind in zip(bound.output, kinds, strict=False)]
    kind = dict(zip(names, kinds, strict=True))[name]
    moment: exp.Expression = typed_column(RESULT, name, kind)
    closing = found[name]
    if closing.after:
        sign = exp.Add if closing.after > 0 else exp.Sub
        moment = sign(this=moment, expression=_interval(abs(closing.after)))
    where = [exp.LTE(this=moment.copy(), expression=watermark_call(each)) for each in sorted(closing.watermarks)]
    return parse_query(print_sql(select(items, subquery(inner, RESULT), where)))


def as_written(query: exp.Query) -> tuple[exp.Query, bool]:
    """The query inside what :func:`emitting_on_close` has made, and whether it has made it."""
    source = query.args["from_"].this if isinstance(query, exp.Select) and query.args.get("from_") else None
    if not isinstance(source, exp.Subquery) or source.alias != RESULT:
        return query, False
    inner = source.this.copy()
    if len(inner.expressions) > len(query.expressions):  # the column that closes
        inner.set("expressions", inner.expressions[:-1])
    return inner, True


def _interval(micros: int) -> exp.Expression:
    text = f"{micros // 1_000_000}.{micros % 1_000_000:06} seconds"
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build("INTERVAL"))


def closings(query: exp.Expression, catalog: Catalog) -> Closings:
    """The columns of a bound query that close."""
    return _Closings(catalog).of(query, {})


def _hidden_key(query: exp.Expression, catalog: Catalog, name: str) -> tuple[exp.Expression, Closing] | None:
    """What the query groups by without showing it."""
    if not isinstance(query, exp.Select) or query.args.get("group") is None or query.args.get("distinct") is not None:
        return None
    for key in query.args["group"].expressions:
        shown = query.copy()
        shown.append("expressions", aliased(key.copy(), name))
        if name in (found := _Closings(catalog).of(shown, {})):
            return key, found[name]
    return None


def both(one: Closing, other: Closing) -> Closing:
    """When a row is final by one and by the other."""
    return Closing(max(one.after, other.after), one.watermarks | other.watermarks)


class _Closings:
    def __init__(self, catalog: Catalog):
        self._catalog = catalog

    def of(self, query: exp.Expression, outer: Mapping[str, Closings]) -> Closings:
        if query.args.get("limit") is not None or query.args.get("offset") is not None:
            return {}
        ctes = dict(outer)
        clause = query.args.get("with_")
        for each in clause.expressions if clause is not None else ():
            ctes[each.alias] = _renamed(each, outputs_of(each.this), self.of(each.this, ctes))
        if isinstance(query, exp.Subquery):
            return self.of(query.this, ctes)
        if isinstance(query, exp.SetOperation):
            # A row is there, or not, because of rows of the same values on both sides.
            sides = [(outputs_of(each), self.of(each, ctes)) for each in (query.this, query.expression)]
            (names, left), (others, right) = sides
            pairs = zip(names, others, strict=True)
            return {name: both(left[name], right[other]) for name, other in pairs if name in left and other in right}
        return self._select(query, ctes) if isinstance(query, exp.Select) else {}

    def _select(self, node: exp.Select, ctes: Mapping[str, Closings]) -> Closings:
        where = conjuncts(node.args.get("where"))
        having = conjuncts(node.args.get("having"))
        if node.args.get("from_") is None or node.args.get("qualify") is not None:
            return {}
        # What a subquery reads, or the clock, could change a row after it was final.
        if any(has_query(each) for each in _expressions(node)) or any(map(_has_clock, (*where, *having))):
            return {}
        columns = self._sources(node, ctes)
        if not columns:
            return {}
        known = _Known(columns, where)
        items = [(each.alias_or_name, each.unalias()) for each in node.expressions]
        found = {name: closing for name, each in items if (closing := known.closing(each)) is not None}
        shown = dict(items)
        group = node.args.get("group")
        if group is not None:
            if any(group.args.get(key) for key in ("grouping_sets", "cube", "rollup", "all")):
                return {}
            found = {name: each for name, each in found.items() if shown[name] in group.expressions}
        elif having or any(has_aggregate(each) for _, each in items):
            return {}
        for window in (each for item in shown.values() for each in item.find_all(exp.Window)):
            keys = window.args.get("partition_by") or []
            found = {name: each for name, each in found.items() if shown[name] in keys}
        distinct = node.args.get("distinct")
        if distinct is not None and (on := distinct.args.get("on")) is not None:
            keys = on.expressions if isinstance(on, exp.Tuple) else [on]
            found = {name: each for name, each in found.items() if shown[name] in keys}
        return found

    def _sources(self, node: exp.Select, ctes: Mapping[str, Closings]) -> dict[tuple[str, str], Closing]:
        """The columns of FROM that close, by alias and name."""
        if node.args.get("laterals"):
            return {}
        columns = self._source(node.args["from_"].this, ctes)
        for join in node.args.get("joins") or ():
            columns = self._joined(columns, join, self._source(join.this, ctes))
        return columns

    def _joined(
        self, left: dict[tuple[str, str], Closing], join: exp.Join, right: dict[tuple[str, str], Closing]
    ) -> dict[tuple[str, str], Closing]:
        """Rows change with either side: what closes is what both sides have to agree on."""
        side = (join.args.get("side") or "").upper()
        if is_as_of_now(join.this):
            return left  # what changes there changes nothing here
        if side not in ("", "LEFT") or (join.args.get("kind") or "").upper() not in ("", "INNER", "OUTER"):
            return {}
        found = {}
        for each in conjuncts(join.args.get("on")):
            sides = (each.this, each.expression) if isinstance(each, exp.EQ) else ()
            if not sides or not all(isinstance(end, exp.Column) for end in sides):
                continue
            ends = [(end.table, end.name) for end in sides]
            for one, other in (ends, ends[::-1]):
                if one in left and other in right:
                    found[one] = both(left[one], right[other])
                    if not side:
                        found[other] = found[one]
        return found

    def _source(self, node: exp.Expression, ctes: Mapping[str, Closings]) -> dict[tuple[str, str], Closing]:
        alias = node.alias_or_name
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            found = _renamed(node, outputs_of(node.this), self.of(node.this, ctes))
        elif not isinstance(node, exp.Table) or isinstance(node.this, exp.Func):
            return {}
        elif node.db != SCHEMA:
            found = ctes.get(node.name, {})
            found = _renamed(node, list(found), found) if not _given(node) else {}
        else:
            relation = self._catalog.get(node.name)
            found = _renamed(node, [each.name for each in relation.visible_columns], self._relation(relation.name))
        return {(alias, name): closing for name, closing in found.items()}

    def _relation(self, name: str) -> Closings:
        relation = self._catalog.get(name)
        if relation.lateness is not None:
            return {relation.lateness.column: Closing(1, frozenset([relation.id]))}
        if relation.kind not in (MATERIALIZED_VIEW, INTERNAL) or relation.query is None:
            return {}
        bound = bind_query(parse_query(relation.query), self._catalog)
        own = dict(zip(bound.output, (each.name for each in relation.columns), strict=False))
        # A view on a source has read more of it, or less, than what has its watermark here.
        return {
            own[output]: closing
            for output, closing in self.of(bound.expression, {}).items()
            if all(self._catalog.relations[id].kind != SOURCE for id in closing.watermarks)
        }


class _Known:
    """What is known of the rows of a block."""

    def __init__(self, columns: Mapping[tuple[str, str], Closing], where: Sequence[exp.Expression]):
        self._columns = columns
        self._later: dict[str, Closing] = {}
        """Expressions that a condition says to be later than something that closes."""
        for each in where:
            if isinstance(each, exp.GT) and (than := self.closing(each.expression)) is not None:
                base, offset = _shifted(each.this)
                self._later[print_sql(base)] = Closing(than.after + offset - 1, than.watermarks)

    def closing(self, node: exp.Expression) -> Closing | None:
        base, offset = _shifted(node)
        found = self._base(base)
        said = self._later.get(print_sql(base)) if self._later else None
        if found is not None and said is not None and said.watermarks == found.watermarks:
            found = min(found, said)
        return None if found is None else Closing(found.after - offset, found.watermarks)

    def _base(self, node: exp.Expression) -> Closing | None:
        if isinstance(node, exp.Column):
            return self._columns.get((node.table, node.name))
        if isinstance(node, exp.Cast) and _same_moment(node.to):
            return self.closing(node.this)
        if not isinstance(node, exp.Anonymous):
            return None
        name, arguments = str(node.this).lower(), node.expressions
        width = None
        if name == "date_bin" and len(arguments) == 3 and not list(arguments[2].find_all(exp.Column)):
            width = constant_micros(arguments[0])
        elif name == "date_trunc" and len(arguments) == 2 and isinstance(arguments[0], exp.Literal):
            width = _TRUNCATED.get(arguments[0].name.lower())
        if width is None:
            return None
        inner = self.closing(arguments[1])
        # A bin is final when the first moment of the next one is.
        return None if inner is None else Closing(inner.after + width - 1, inner.watermarks)


def _same_moment(kind: exp.DataType) -> bool:
    """Whether a time that is cast to a type stays what it is: the time zone is always UTC."""
    return kind.this in (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ) and not kind.expressions


def _shifted(node: exp.Expression) -> tuple[exp.Expression, int]:
    """An expression as another one and constant microseconds more."""
    node = node.unnest()
    if isinstance(node, (exp.Add, exp.Sub)) and (micros := constant_micros(node.expression)) is not None:
        base, offset = _shifted(node.this)
        return base, offset + (micros if isinstance(node, exp.Add) else -micros)
    return node, 0


def _expressions(node: exp.Select) -> list[exp.Expression]:
    """All that a block says, but not what it reads from."""
    clauses = [node.args.get(key) for key in ("where", "group", "having", "distinct")]
    conditions = [join.args.get("on") for join in node.args.get("joins") or ()]
    return [*node.expressions, *(each for each in (*clauses, *conditions) if each is not None)]


def _has_clock(condition: exp.Expression) -> bool:
    """Whether it depends on now(). What a watermark lets pass stays."""
    calls = condition.find_all(exp.Anonymous)
    return has_now(condition) and not all(watermark_of(each) is not None for each in calls if has_now(each))


def _given(node: exp.Expression) -> list[str]:
    alias = node.args.get("alias")
    return [each.name for each in (alias.args.get("columns") if alias is not None else None) or []]


def _renamed(node: exp.Expression, names: Sequence[str], found: Closings) -> Closings:
    """By the names that an alias like ``AS x (a, b)`` gives to the columns."""
    given = _given(node)
    called = dict(zip(names, [*given, *names[len(given) :]], strict=False))
    return {called[name]: closing for name, closing in found.items() if name in called}
