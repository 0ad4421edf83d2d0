"""FROM with several sources, and queries in WHERE that ask whether there is a row: joins, two sources at a time.

Joins are taken as written; where all are inner, a source that has no equality with those before it waits for one that
has. Conditions on one source are applied to it before it is joined, unless an outer join fills it with NULLs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from headrace.catalog import INTERNAL_PREFIX
from headrace.errors import HeadraceError
from headrace.plan.arrange import Arranged, Arrangements
from headrace.plan.build import cast_to, refuse
from headrace.plan.expand import lists_rows
from headrace.plan.pieces import (
    HIDDEN,
    Keyed,
    Name,
    NotCut,
    Piece,
    Side,
    columns_of,
    conjunction,
    conjuncts,
    flat_names,
    has_query,
    merged,
    outer_columns,
    select,
    sources_in,
    subquery,
    substituted,
    typed_column,
)
from headrace.plan.temporal import refuse_if_rows_may_change
from headrace.sql.dialect import parse_expression
from headrace.sql.grouping import has_aggregate
from headrace.sql.lengths import length
from headrace.sql.names import SCHEMA
from headrace.sql.translate import type_of
from headrace.sql.tree import is_as_of_now
from headrace.sql.typed import INTEGER, INTERVAL, TEXT, common_type

LEFT, RIGHT = f"{INTERNAL_PREFIX}l", f"{INTERNAL_PREFIX}r"
HERE = f"{INTERNAL_PREFIX}here"
"""A column that is NULL where an outer join has found no row."""


@dataclass(kw_only=True)
class Joined:
    """Two sources joined, or one filtered by what another holds."""

    arrangements: Arrangements
    source: exp.Expression
    joins: list[exp.Join] = field(default_factory=list)
    where: list[exp.Expression] = field(default_factory=list)
    columns: dict[Name, exp.Expression]
    key: list[exp.Expression]
    rest: list[exp.Expression]
    inputs: list[tuple[str, tuple[str, ...]]]
    describe: str
    whole: tuple[str, ...] = ()
    """Inputs that are read whole."""
    as_of_now: tuple[str, ...] = ()
    """Inputs whose changes are not followed."""
    linear: tuple[str, ...] = ()
    """Inputs of which each row gives rows of its own. One that is joined with itself is none."""

    def keyed(self, items: Sequence[tuple[str, exp.Expression]]) -> Keyed:
        """The wanted columns, over those of the original sources."""
        outputs = [(name, substituted(each, self.columns)) for name, each in items]
        names: list[list[str]] = []
        for wanted in (self.key, self.rest):
            names.append([])
            for each in wanted:
                shown = next((name for name, item in outputs if item == each), None)
                if shown is None:
                    shown = f"{HIDDEN}{len(outputs) - len(items)}"
                    outputs.append((shown, each))
                names[-1].append(shown)
        key = tuple(names[0])
        return Keyed(
            query=self.arrangements.rebound(select(outputs, self.source.copy(), self.where, self.joins)),
            visible=len(items),
            key=key,
            rest=tuple(dict.fromkeys(name for name in names[1] if name not in key)),
            inputs=merged(self.inputs),
            describe=self.describe,
            whole=self.whole,
            as_of_now=self.as_of_now,
            linear=self.linear if len({name for name, _ in self.inputs}) == len(self.inputs) else (),
        )


@dataclass(kw_only=True)
class Item:
    source: exp.Expression
    alias: str
    kind: str
    """inner, left, right or full"""
    on: list[exp.Expression]
    temporal: bool = False
    """FOR SYSTEM_TIME AS OF PROCTIME()"""


class Joins:
    arrangements: Arrangements

    def piece(self, query: exp.Expression) -> Piece:
        raise NotImplementedError

    def linear(self, query: exp.Expression) -> exp.Query:
        raise NotImplementedError

    def side(self, node: exp.Select, used: Sequence[exp.Expression]) -> Side:
        raise NotImplementedError

    def mapped(self, node: exp.Select, items: list, where: list) -> Piece:
        raise NotImplementedError

    def joined(self, node: exp.Select, used: Sequence[exp.Expression]) -> Joined:
        items = _items(node)
        aliases = [each.alias for each in items]
        where = conjuncts(node.args.get("where"))
        hidden = [each for each in where if not _is_in(each) and _shadows(each, set(aliases))]
        if len(set(aliases)) < len(aliases) or hidden:
            raise NotCut
        nullable = _nullable(items)
        asked = [each for each in where if has_query(each)]
        pool = [each for each in where if not has_query(each)]
        for each in items:
            if any(map(has_query, each.on)):
                raise NotCut
            if each.kind == "inner":
                certain = [on for on in each.on if not sources_in(on) & nullable]
                pool += certain
                each.on = [on for on in each.on if on not in certain]
        first: dict[str, list[exp.Expression]] = {}
        for each in items:
            pushed = [one for one in pool if sources_in(one) == {each.alias} and each.alias not in nullable]
            pool = [one for one in pool if one not in pushed]
            own_on = [one for one in each.on if sources_in(one) == {each.alias}] if each.kind == "left" else []
            each.on = [one for one in each.on if one not in own_on]
            first[each.alias] = pushed + own_on
        # A query that IN compares with has names of its own.
        seen = [each.find(exp.In).this if _is_in(each) else each for each in asked]
        later = [*used, *seen, *pool, *(on for each in items for on in each.on)]
        kinds = {(each.table, each.name): each for one in later for each in one.find_all(exp.Column)}
        sides: dict[str, Side] = {}
        for each in items:
            mine = [name for name in sorted(kinds) if name[0] == each.alias]
            sides[each.alias] = self.item_side(each, mine, kinds, first[each.alias])
        done = {items[0].alias}
        current: Side | Joined = sides[items[0].alias]
        waiting = items[1:]
        free = not nullable and not any(each.temporal for each in items)
        while waiting:
            item = waiting[0]
            if free:
                item = next((each for each in waiting if equalities(pool, done, {each.alias})), item)
            waiting.remove(item)
            usable = pool if item.kind == "inner" else []
            usable = [
                each for each in usable if sources_in(each) <= done | {item.alias} and not sources_in(each) & nullable
            ]
            pool = [each for each in pool if each not in usable]
            conditions = usable + item.on
            later = [*used, *asked, *pool, *(on for each in waiting for on in each.on), *conditions]
            if isinstance(current, Joined) and current.whole and not equalities(conditions, done, {item.alias}):
                self._also_with_all(current, sides[item.alias], item.kind, conditions)
                done |= {item.alias}
                continue
            left = self._as_side(current, later)
            step = self._temporal if item.temporal else self._step
            current = step(left, sides[item.alias], item.kind, conditions, done, {item.alias})
            done |= {item.alias}
        if pool:
            if isinstance(current, Joined):
                current.where += [substituted(each, current.columns) for each in pool]
            else:
                raise NotCut
        for position, each in enumerate(asked):
            left = self._as_side(current, [*used, *asked[position:]])
            current = self._asked(left, each, set(aliases), node)
        assert isinstance(current, Joined)
        return current

    def item_side(
        self, item: Item, wanted: list[Name], kinds: Mapping[Name, exp.Column], where: list[exp.Expression]
    ) -> Side:
        names = flat_names(wanted)
        columns: list[tuple[str, exp.Expression]] = [(names[name], kinds[name]) for name in wanted]
        node = select([], item.source.copy())
        found = self.mapped(node, columns or [("one", exp.Literal.number(1))], where)
        query = self.arrangements.stored(found) if isinstance(found, Keyed) else found
        return self.arrangements.side(query, names)

    def _as_side(self, current: Side | Joined, used: Sequence[exp.Expression]) -> Side:
        """What has been joined so far, stored, with the columns that are still needed."""
        if isinstance(current, Side):
            return current
        wanted = [name for name in sorted(set().union(*map(columns_of, used))) if name in current.columns]
        names = flat_names(wanted)
        columns: list[tuple[str, exp.Expression]] = [(names[name], current.columns[name]) for name in wanted]
        # what is substituted already is left alone: its columns are those of l and r
        found = current.keyed(columns or [("one", exp.Literal.number(1))])
        return self.arrangements.side(self.arrangements.stored(found), names)

    def _step(
        self, left: Side, right: Side, kind: str, conditions: list[exp.Expression], before: set[str], new: set[str]
    ) -> Joined:
        equal = equalities(conditions, before, new)
        if not equal:
            return self._with_all(left, right, kind, conditions)
        rest = [each for each in conditions if all(each is not one for one, _, _ in equal)]
        keys = [alike(substituted(a, left.over(LEFT)), substituted(b, right.over(RIGHT))) for _, a, b in equal]
        one = self.arrangements.arranged(left, [a for a, _ in keys], LEFT)
        other = self.arrangements.arranged(right, [b for _, b in keys], RIGHT)
        columns: dict[Name, exp.Expression] = {**one.columns, **other.columns}
        on = [exp.EQ(this=a.copy(), expression=b.copy()) for a, b in zip(one.key, other.key, strict=True)]
        on += [substituted(each, columns) for each in rest]
        condition = conjunction(on)
        key: list[exp.Expression] = list(other.key if kind == "right" else one.key)
        tail: list[exp.Expression] = [*one.rest, *other.rest]
        sources = [one.source, other.source]
        if kind == "full":
            key = [_coalesced(a, b) for a, b in zip(one.key, other.key, strict=True)]
            sources = [_marked(each) for each in (one, other)]
            tail.append(
                parse_expression(
                    f'CASE WHEN "{LEFT}"."{HERE}" IS NULL THEN 2 WHEN "{RIGHT}"."{HERE}" IS NULL THEN 1 ELSE 0 END'
                )
            )
        join = exp.Join(this=sources[1], on=condition)
        if kind != "inner":
            join.set("side", kind.upper())
        return Joined(
            arrangements=self.arrangements,
            source=sources[0],
            joins=[join],
            columns=columns,
            key=key,
            rest=tail,
            inputs=[one.input, other.input],
            describe=f"{kind} join",
            linear={
                "inner": (one.input[0], other.input[0]),
                "left": (one.input[0],),
                "right": (other.input[0],),
                "full": (),
            }[kind],
        )

    def _temporal(
        self, left: Side, right: Side, kind: str, conditions: list[exp.Expression], before: set[str], new: set[str]
    ) -> Joined:
        """Each row of the left, when it comes, with what is then on the right (:mod:`headrace.plan.temporal`)."""
        equal = equalities(conditions, before, new)
        if kind not in ("inner", "left") or not equal:
            how = f"in a {kind.upper()} JOIN" if equal else "without an equality"
            raise refuse(f"FOR SYSTEM_TIME AS OF PROCTIME() {how}", hint="use JOIN or LEFT JOIN … ON a = b")
        refuse_if_rows_may_change(left, self.arrangements.catalog)
        found = self._step(left, right, kind, conditions, before, new)
        relation = self.arrangements.catalog.get(found.inputs[0][0])
        of_left = len(relation.pk) - len(found.inputs[0][1])
        # Keyed by all that tells rows of the left apart, so that no row is ever touched again.
        found.key += found.rest[:of_left]
        found.rest = found.rest[of_left:]
        found.inputs[0] = (relation.name, tuple(key.name for key in relation.pk))
        found.describe = "temporal join" if kind == "inner" else "left temporal join"
        found.as_of_now, found.linear = (found.inputs[1][0],), ()
        return found

    def _with_all(self, left: Side, right: Side, kind: str, conditions: list[exp.Expression]) -> Joined:
        """A join without an equality: every row on the left with all on the right, which had better be few."""
        if kind not in ("inner", "left"):
            raise NotCut
        one, other = self.arrangements.itself(left, LEFT), self.arrangements.itself(right, RIGHT)
        if not one.key or one.input[0] == other.input[0]:
            raise NotCut
        columns: dict[Name, exp.Expression] = {**one.columns, **other.columns}
        return Joined(
            arrangements=self.arrangements,
            source=one.source,
            joins=[_without_equality(other.source, kind, conditions, columns)],
            columns=columns,
            key=list(one.key),
            rest=list(other.key),
            inputs=[one.input, (other.input[0], ())],
            describe=f"{kind} join",
            whole=(other.input[0],),
        )

    def _also_with_all(self, current: Joined, right: Side, kind: str, conditions: list[exp.Expression]) -> None:
        """The same once more: nothing of what is there needs to be stored for it."""
        other = self.arrangements.itself(right, f"{RIGHT}{len(current.joins)}")
        if kind not in ("inner", "left") or other.input[0] == current.inputs[0][0]:
            raise NotCut
        current.columns |= other.columns
        current.joins.append(_without_equality(other.source, kind, conditions, current.columns))
        current.rest += other.key
        current.inputs.append((other.input[0], ()))
        current.whole += (other.input[0],)

    # --- EXISTS and IN --------------------------------------------------------------------------------------------

    def _asked(self, left: Side, condition: exp.Expression, outer: set[str], node: exp.Select) -> Joined:
        negated = isinstance(condition, exp.Not)
        inner = condition.this.unnest() if negated else condition
        if isinstance(inner, exp.Exists):
            right, equal, rest = self._exists(inner.this, outer)
        elif isinstance(inner, exp.In) and inner.args.get("query") is not None:
            if negated and not self.without_nulls(inner, node):
                raise NotCut  # one NULL among the others, and nothing is known not to be there
            right, equal, rest = self._in(inner, outer)
        else:
            raise NotCut
        keys = [alike(substituted(a, left.over(LEFT)), substituted(b, right.over(RIGHT))) for a, b in equal]
        one = self.arrangements.arranged(left, [a for a, _ in keys], LEFT)
        other = self.arrangements.arranged(right, [b for _, b in keys], RIGHT)
        columns = {**one.columns, **other.columns}
        found = [exp.EQ(this=a.copy(), expression=b.copy()) for a, b in zip(one.key, other.key, strict=True)]
        found += [substituted(each, columns) for each in rest]
        exists: exp.Expression = exp.Exists(this=select([("one", exp.Literal.number(1))], other.source, found))
        return Joined(
            arrangements=self.arrangements,
            source=one.source,
            where=[exp.Not(this=exists) if negated else exists],
            columns=dict(one.columns),
            key=list(one.key),
            rest=list(one.rest),
            inputs=[one.input, other.input],
            describe="anti join" if negated else "semi join",
            linear=(one.input[0],),
        )

    def _exists(self, query: exp.Expression, outer: set[str]):
        node = query.unnest() if isinstance(query, exp.Subquery) else query
        simple = isinstance(node, exp.Select) and node.args.get("from_") is not None
        if not simple or any(node.args.get(key) for key in ("group", "having", "limit", "offset", "with_")):
            raise NotCut
        # An aggregate has a row where there are none, and functions that return rows may have none where there is one.
        if lists_rows(node) or any(has_aggregate(each.unalias()) for each in node.expressions):
            raise NotCut
        aliases = {each.alias for each in _items(node)}
        where = conjuncts(node.args.get("where"))
        outside = [each for each in where if sources_in(each) & outer]
        if aliases & outer or any(map(has_query, outside)):
            raise NotCut
        if any(sources_in(on) & outer for each in _items(node) for on in each.on):
            raise NotCut
        equal = equalities(outside, outer, aliases)
        if not equal:
            raise NotCut
        rest = [each for each in outside if all(each is not one for one, _, _ in equal)]
        return self._inner_side(node, where, outside, aliases), [(a, b) for _, a, b in equal], rest

    def _in(self, condition: exp.In, outer: set[str]):
        query = condition.args["query"]
        node = query.this if isinstance(query, exp.Subquery) else query
        if isinstance(condition.this.unnest(), exp.Tuple) or has_query(condition.this):
            raise NotCut
        if any(each.table in outer for each in outer_columns(node)):
            raise NotCut
        found = self.arrangements.rebound(self.linear(node))
        side = self.arrangements.side(found, {})
        (name,) = list(side.types)
        side = Side(query=side.query, names={("in", name): name}, types=side.types)
        return side, [(condition.this, typed_column("in", name, side.types[name]))], []

    def without_nulls(self, condition: exp.In, node: exp.Select) -> bool:
        """Whether neither side of IN can be NULL: both are columns of tables that say so."""
        query = condition.args["query"]
        inner = query.this if isinstance(query, exp.Subquery) else query
        if not isinstance(inner, exp.Select) or len(inner.expressions) != 1 or inner.args.get("group") is not None:
            return False
        return self._never_null(condition.this.unnest(), node) and self._never_null(
            inner.expressions[0].unalias(), inner
        )

    def _never_null(self, column: exp.Expression, node: exp.Select) -> bool:
        if not isinstance(column, exp.Column) or node.args.get("from_") is None:
            return False
        items = _items(node)
        source = next((each.source for each in items if each.alias == column.table), None)
        if not isinstance(source, exp.Table) or source.db != SCHEMA or column.table in _nullable(items):
            return False
        found = next(
            (each for each in self.arrangements.catalog.get(source.name).columns if each.name == column.name), None
        )
        return found is not None and not found.nullable

    def _inner_side(
        self, node: exp.Select, where: list[exp.Expression], outside: list[exp.Expression], aliases: set[str]
    ) -> Side:
        inner = node.copy()
        inside = [each for each in where if each not in outside]
        inner.set("where", exp.Where(this=conjunction(inside)) if inside else None)
        inner.set("distinct", None)
        inner.set("order", None)
        used = [each for one in outside for each in one.find_all(exp.Column) if each.table in aliases]
        return self.side(inner, used)

    def check_table(self, source: exp.Expression) -> None:
        """What stands in FROM is a stored relation, and nothing else."""
        plain = isinstance(source, exp.Table) and source.db == SCHEMA and not isinstance(source.this, exp.Anonymous)
        given = source.args.get("alias").args.get("columns") if plain and source.args.get("alias") else None
        if not plain or given or any(source.args.get(key) for key in ("sample", "joins", "pivots", "ordinality")):
            raise NotCut


def _items(node: exp.Select) -> list[Item]:
    items = [Item(source=node.args["from_"].this, alias=node.args["from_"].this.alias_or_name, kind="inner", on=[])]
    for join in node.args.get("joins") or []:
        known = {"this", "side", "kind", "on"}
        if any(value for name, value in join.args.items() if name not in known):
            raise NotCut
        side, kind = (join.args.get("side") or "").lower(), (join.args.get("kind") or "").lower()
        if side not in ("", "left", "right", "full") or kind not in ("", "inner", "outer", "cross"):
            raise NotCut
        source = join.this.copy()
        temporal = isinstance(source, exp.Table) and is_as_of_now(source)
        if temporal:
            source.set("version", None)
        items.append(
            Item(
                source=source,
                alias=source.alias_or_name,
                kind=side or "inner",
                on=conjuncts(join.args.get("on")),
                temporal=temporal,
            )
        )
    if any(isinstance(each.source, exp.Lateral) or not each.alias for each in items):
        raise NotCut
    return items


def _nullable(items: Sequence[Item]) -> set[str]:
    """The sources that an outer join may fill with NULLs."""
    found: set[str] = set()
    for position, each in enumerate(items):
        if each.kind in ("left", "full"):
            found.add(each.alias)
        if each.kind in ("right", "full"):
            found |= {other.alias for other in items[:position]}
    return found


def equalities(
    conditions: Sequence[exp.Expression], left: set[str], right: set[str], kind: type[exp.Expression] = exp.EQ
) -> list[tuple[exp.Expression, exp.Expression, exp.Expression]]:
    """Of the conditions those that compare something of one side with something of the other, each with the two."""
    found = []
    for each in conditions:
        # x = ANY (array) compares with each of its elements.
        if not isinstance(each, kind) or isinstance(each.this.unnest(), exp.Tuple) or each.find(exp.Any, exp.All):
            continue
        one, other = sources_in(each.this), sources_in(each.expression)
        if one and other and one <= left and other <= right:
            found.append((each, each.this, each.expression))
        elif one and other and one <= right and other <= left:
            found.append((each, each.expression, each.this))
    return found


def alike(one: exp.Expression, other: exp.Expression) -> tuple[exp.Expression, exp.Expression]:
    """Two sides of an equality as the type that they are compared as."""
    kinds = [type_of(one) or TEXT, type_of(other) or TEXT]
    if kinds[0] == kinds[1] == INTERVAL:
        return length(one), length(other)
    if kinds[0] == kinds[1]:
        return one, other
    try:
        kind = common_type("=", kinds)
    except HeadraceError:
        raise NotCut from None
    if kind is None:
        raise NotCut
    return cast_to(one, kind), cast_to(other, kind)


def _without_equality(
    source: exp.Expression, kind: str, conditions: list[exp.Expression], columns: Mapping[Name, exp.Expression]
) -> exp.Join:
    if kind == "inner" and not conditions:
        return exp.Join(this=source, kind="CROSS")
    on = conjunction([substituted(each, columns) for each in conditions]) if conditions else exp.Boolean(this=True)
    join = exp.Join(this=source, on=on)
    if kind == "left":
        join.set("side", "LEFT")
    return join


def _coalesced(one: exp.Expression, other: exp.Expression) -> exp.Expression:
    call = parse_expression('coalesce("a", "b")')
    first, second = list(call.find_all(exp.Column))
    first.replace(one.copy())
    second.replace(other.copy())
    return call


def _marked(arranged: Arranged) -> exp.Subquery:
    """With a column that tells a row from none."""
    alias = arranged.key[0].table
    shown = {column.name: column for column in (*arranged.columns.values(), *arranged.key, *arranged.rest)}
    items: list[tuple[str, exp.Expression]] = [*shown.items(), (HERE, cast_to(exp.Literal.number(1), INTEGER))]
    return subquery(select(items, arranged.source), alias)


def _is_in(condition: exp.Expression) -> bool:
    """Whether a condition is IN or NOT IN, and nothing else."""
    return isinstance(condition.this.unnest() if isinstance(condition, exp.Not) else condition, exp.In)


def _shadows(condition: exp.Expression, outer: set[str]) -> bool:
    """Whether a query inside the condition gives a source a name that the block around it has, too."""
    inside = [each.alias_or_name for each in condition.find_all(exp.Table, exp.Subquery)]
    return any(name in outer for name in inside)
