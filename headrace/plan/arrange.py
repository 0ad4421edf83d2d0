"""Internal tables: arrangements of what a keyed piece reads, and pieces that others stand on.

Two views that need the same one share it. A relation that is stored by the wanted key is its own arrangement.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.catalog import INTERNAL, INTERNAL_PREFIX, Catalog, Column, KeyColumn, Lateness, Operator, Relation
from headrace.errors import Unsupported
from headrace.plan.build import build, output_types
from headrace.plan.finished import finished
from headrace.plan.keys import stream_key
from headrace.plan.nodes import Node
from headrace.plan.pieces import (
    Keyed,
    Name,
    NotCut,
    Piece,
    Side,
    aliased,
    free_name,
    rebound,
    relations_in,
    select,
    shown_alone,
    subquery,
    table,
    typed_column,
    with_columns,
)
from headrace.sql.bind import BoundQuery, bind_query
from headrace.sql.dialect import parse_query, print_sql
from headrace.sql.names import SCHEMA
from headrace.sql.typed import TEXT


@dataclass(frozen=True, kw_only=True)
class Arranged:
    """A linear query that can be read by key."""

    source: exp.Expression
    """What a piece has in its FROM."""
    key: list[exp.Column]
    rest: list[exp.Column]
    """What tells rows of one key apart."""
    order: list[exp.Ordered]
    """The same as an ORDER BY: how rows of one key are stored."""
    columns: Mapping[Name, exp.Expression]
    input: tuple[str, tuple[str, ...]]
    """The stored relation, and its columns of the key."""


class Arrangements:
    def __init__(self, catalog: Catalog, view: str, *, passing: bool = True):
        """``passing``: whether internal tables of other views that are not stored may be read, too."""
        self._passing = passing
        self.catalog = catalog
        """With the internal tables that were made."""
        self._view = view
        self.made: list[Relation] = []
        self._pieces: dict[int, Keyed] = {}
        """What the keyed ones of them hold."""

    def mark(self) -> tuple[Catalog, int]:
        return self.catalog, len(self.made)

    def back_to(self, mark: tuple[Catalog, int]) -> None:
        """Forgets the internal tables that were made since, for a way that leads nowhere."""
        self.catalog, count = mark
        self.made = self.made[:count]

    # --- arrangements ---------------------------------------------------------------------------------------------

    def arranged(
        self,
        side: Side,
        keys: Sequence[exp.Expression],
        alias: str,
        order: Sequence[exp.Ordered] | None = None,
    ) -> Arranged:
        """A query by some expressions over its columns, which is called ``alias`` in them and from now on.

        ``order``: in which rows of one key are stored, before what tells them apart. Without a key they are one slice.
        """
        found = self._in_place(side, keys, alias) if order is None else None
        if found is not None:
            return found
        flats = list(side.types)
        items: list[tuple[str, exp.Expression]] = [
            (flat, typed_column(alias, flat, side.types[flat])) for flat in flats
        ]
        names: list[str] = []
        for number, each in enumerate(keys):
            name = each.name if isinstance(each, exp.Column) else ""
            if name not in flats or name in names:
                name = free_name(f"key_{number}", [*flats, *names])
                items.append((name, each))
            names.append(name)
        sorted_by = self._sorted_by(order or (), names, flats, items)
        query = select(items, subquery(side.query.copy(), alias))
        relation = self._arrangement(query, names, None if order is None else sorted_by)
        rest = [key for key in relation.pk if key.name not in names]
        return Arranged(
            source=table(relation.name, alias),
            key=[typed_column(alias, name, relation.column(name).type) for name in names],
            rest=[typed_column(alias, key.name, relation.column(key.name).type) for key in rest],
            order=[_ordered(alias, key, relation) for key in rest],
            columns={name: typed_column(alias, flat, side.types[flat]) for name, flat in side.names.items()},
            input=(relation.name, tuple(names)),
        )

    def itself(self, side: Side, alias: str) -> Arranged:
        """A query by what tells its rows apart."""
        query, source = side.query, side.query.args.get("from_")
        plain = isinstance(query, exp.Select) and source is not None and isinstance(source.this, exp.Table)
        computed = plain and any(not isinstance(each.unalias(), exp.Column) for each in query.expressions)
        one_row = plain and source.this.db == SCHEMA and not self.catalog.get(source.this.name).pk
        # Of one row, what is computed from it is stored: it may stay as it is when the row does not.
        if not plain or query.args.get("joins") or source.this.db != SCHEMA or (one_row and computed):
            items = [(flat, typed_column(alias, flat, kind)) for flat, kind in side.types.items()]
            relation = self._arrangement(select(items, subquery(query.copy(), alias)), [], None)
            return Arranged(
                source=table(relation.name, alias),
                key=[typed_column(alias, key.name, relation.column(key.name).type) for key in relation.pk],
                rest=[],
                order=[],
                columns=side.over(alias),
                input=(relation.name, tuple(key.name for key in relation.pk)),
            )
        relation, name = self.catalog.get(source.this.name), source.this.alias_or_name
        inner, keys = query.copy(), []
        for number, key in enumerate(relation.pk):
            column = typed_column(name, key.name, relation.column(key.name).type)
            shown = next((each.alias for each in query.expressions if each.unalias() == column), None)
            if shown is None:
                shown = f"{INTERNAL_PREFIX}rest_{number}"
                inner.append("expressions", aliased(column, shown))
            keys.append(typed_column(alias, shown, relation.column(key.name).type))
        return Arranged(
            source=subquery(inner, alias),
            key=keys,
            rest=[],
            order=[],
            columns=side.over(alias),
            input=(relation.name, tuple(key.name for key in relation.pk)),
        )

    def _sorted_by(
        self,
        order: Sequence[exp.Ordered],
        names: Sequence[str],
        flats: Sequence[str],
        items: list[tuple[str, exp.Expression]],
    ) -> list[KeyColumn]:
        """The columns of an ORDER BY, which are added to the items if they are not there; each once."""
        found: list[KeyColumn] = []
        for number, each in enumerate(order):
            name = each.this.name if isinstance(each.this, exp.Column) else ""
            if name not in flats:
                name = next((own for own, item in items if item == each.this), "")
            if not name:
                name = free_name(f"order_{number}", [own for own, _ in items])
                items.append((name, each.this))
            if name not in names and all(key.name != name for key in found):
                descending, nulls_first = bool(each.args.get("desc")), bool(each.args.get("nulls_first"))
                found.append(KeyColumn(name=name, descending=descending, nulls_first=nulls_first))
        return found

    def _in_place(self, side: Side, keys: Sequence[exp.Expression], alias: str) -> Arranged | None:
        """By the relation's own key."""
        query = side.query
        if not isinstance(query, exp.Select) or not all(isinstance(each, exp.Column) for each in keys):
            return None
        source = query.args["from_"].this
        if not isinstance(source, exp.Table) or source.db != SCHEMA or query.args.get("joins"):
            return None
        relation = self.catalog.get(source.name)
        origin = {
            each.alias: each.unalias().name for each in query.expressions if isinstance(each.unalias(), exp.Column)
        }
        wanted = [origin.get(each.name) for each in keys]
        first = [key.name for key in relation.pk[: len(keys)]]
        if wanted != first or not relation.distribution or not set(relation.distribution) <= set(first):
            return None
        if any(relation.column(name).type != side.types[each.name] for name, each in zip(first, keys, strict=True)):
            return None
        inner, shown = query.copy(), {own: flat for flat, own in origin.items()}
        rest = []
        for key in relation.pk[len(keys) :]:
            if key.name not in shown:
                shown[key.name] = f"{INTERNAL_PREFIX}rest_{len(rest)}"
                column = typed_column(source.alias_or_name, key.name, relation.column(key.name).type)
                inner.append("expressions", aliased(column, shown[key.name]))
            rest.append(typed_column(alias, shown[key.name], relation.column(key.name).type))
        return Arranged(
            source=subquery(inner, alias),
            key=[typed_column(alias, each.name, side.types[each.name]) for each in keys],
            rest=rest,
            order=[
                exp.Ordered(this=column.copy(), desc=key.descending, nulls_first=key.nulls_first)
                for column, key in zip(rest, relation.pk[len(keys) :], strict=True)
            ],
            columns={name: typed_column(alias, flat, side.types[flat]) for name, flat in side.names.items()},
            input=(relation.name, tuple(first)),
        )

    def _arrangement(self, query: exp.Query, key: Sequence[str], order: Sequence[KeyColumn] | None) -> Relation:
        bound = bind_query(parse_query(print_sql(query)), self.catalog)
        return self._add(self.linear(bound, key, order), "arrangement")

    def events(self, query: exp.Query, lateness: Lateness | None = None) -> Relation:
        """The internal table that holds a linear query over a source of events, by the source's own key.

        ``lateness``: which of them it leaves out.
        """
        found = self.linear(bind_query(parse_query(print_sql(query)), self.catalog), (), None)
        return self._add(found.replace(lateness=lateness), "events")

    def check_linear(self, query: exp.Query) -> None:
        """A query may be linear and yet have no stream key."""
        try:
            bound = bind_query(parse_query(print_sql(query)), self.catalog)
            stream_key(build(bound, self.catalog), self.catalog)
        except Unsupported:
            raise NotCut from None

    def linear(self, bound: BoundQuery, key: Sequence[str], order: Sequence[KeyColumn] | None) -> Relation:
        """A linear query as a relation without a name: its columns, and its key behind the columns given."""
        plan = build(bound, self.catalog)
        try:
            found = stream_key(plan, self.catalog)
        except Unsupported:  # UNION ALL of a relation with one row and one with many has no stream key
            raise NotCut from None
        before = (*map(_ascending, key), *(order or ()))
        first = {each.name for each in before}
        types, hidden = output_types(found.plan, self.catalog), dict(found.hidden)
        return Relation(
            id=self.catalog.next_id,
            name="",
            kind=INTERNAL,
            columns=tuple(Column(name=name, type=types[name], hidden=name in hidden) for name in found.plan.output),
            pk=(*before, *(each for each in found.pk if each.name not in first)),
            distribution=tuple(key) if key or order is not None else found.distribution,
            query=bound.text(),
            depends_on=bound.relations,
        )

    # --- keyed pieces ---------------------------------------------------------------------------------------------

    def stored(self, piece: Keyed) -> exp.Query:
        """The visible columns of a keyed piece, from an internal table that holds it."""
        relation = self.made_of(piece)
        items = [(each.name, typed_column(relation.name, each.name, each.type)) for each in relation.visible_columns]
        return select(items, table(relation.name, relation.name))

    def made_of(self, piece: Keyed) -> Relation:
        """The internal table that holds a keyed piece."""
        relation = self._add(self.keyed(piece), piece.describe.split(" ")[0])
        self._pieces[relation.id] = piece
        return relation

    def unless_groups_alone(self, query: exp.Query) -> Piece:
        """A query; or groups that were made for it, if it only shows those: they would be stored twice."""
        last = self.made[-1] if self.made else None
        columns = shown_alone(query, last.name) if last is not None and last.operator and last.operator.adds else None
        if last is None or columns is None:
            return query
        self.made.pop()
        others = {id: each for id, each in self.catalog.relations.items() if id != last.id}
        self.catalog = Catalog(others, self.catalog.next_id)
        piece = with_columns(self._pieces[last.id], columns)
        return dataclasses.replace(piece, query=self.rebound(piece.query))

    def keyed(self, piece: Keyed) -> Relation:
        """A keyed piece as a relation without a name."""
        bound = bind_query(parse_query(print_sql(piece.query)), self.catalog)
        kinds = [kind or TEXT for kind in bound.types]
        pk = (*piece.key, *piece.rest)
        inputs = tuple((self.catalog.get(name).id, columns) for name, columns in piece.inputs)
        return Relation(
            id=self.catalog.next_id,
            name="",
            kind=INTERNAL,
            columns=tuple(
                Column(name=name, type=kind, hidden=at >= piece.visible)
                for at, (name, kind) in enumerate(zip(bound.output, kinds, strict=True))
            ),
            pk=tuple(map(_ascending, pk)),
            distribution=piece.distribution,
            query=bound.text(),
            depends_on=tuple(id for id, _ in inputs),
            maintained=bound.text(),
            reads=tuple(id for id, _ in inputs),
            operator=Operator(
                key=piece.key,
                inputs=inputs,
                describe=piece.describe,
                adds=piece.adds,
                averages=piece.averages,
                extremes=piece.extremes,
                first=piece.first,
                kept=piece.kept,
                whole=tuple(self.catalog.get(name).id for name in piece.whole),
                clock=piece.clock,
                watermark=piece.watermark,
                as_of_now=tuple(self.catalog.get(name).id for name in piece.as_of_now),
                linear=tuple(self.catalog.get(name).id for name in piece.linear),
            ),
        )

    def pass_on(self, last: Keyed | exp.Query) -> bool:
        """Marks the pieces whose rows need not be stored: joins of which only changes are read, to be added up.

        False if one of another view is not stored and would have to be.
        """
        reads = {name for name, _ in last.inputs} if isinstance(last, Keyed) else relations_in(last)
        changes = isinstance(last, Keyed) and last.follows_changes
        kept = set() if changes else {self.catalog.get(name).id for name in reads}
        for each in self.catalog:
            if each.operator is None or not each.operator.follows_changes:
                kept |= {*each.reads, *each.depends_on}
        for number, each in enumerate(self.made):
            operator = each.operator
            if operator is None or each.id in kept or len(operator.linear) < len(operator.inputs):
                continue
            passing = each.replace(operator=dataclasses.replace(operator, passing=True))
            self.made[number], self.catalog = passing, self.catalog.update(passing)
        return not any(each.operator is not None and each.operator.passing and each.id in kept for each in self.catalog)

    def _add(self, relation: Relation, what: str) -> Relation:
        for other in self.catalog.of_kind(INTERNAL):
            # One that loses rows when windows close has no history for others.
            if self._same(other, relation) and (other in self.made or finished(other, self.catalog) is None):
                return other
        relation = relation.replace(name=f"__internal_{self._view}_{relation.id}_{what}")
        self.catalog = self.catalog.add(relation)
        self.made.append(relation)
        return relation

    def _same(self, one: Relation, other: Relation) -> bool:
        """Whether two relations hold the same rows in the same order, whatever their queries call their sources."""
        if (one.columns, one.pk, one.distribution) != (other.columns, other.pk, other.distribution):
            return False
        if one.lateness != other.lateness:
            return False
        if one.operator is not None and other.operator is not None:
            if one.operator.passing and not self._passing:
                return False
            alike = dataclasses.replace(one.operator, passing=False) == dataclasses.replace(
                other.operator, passing=False
            )
            return alike and one.query == other.query
        if one.operator is not None or other.operator is not None:
            return False
        return self._plan(one) == self._plan(other)

    def _plan(self, relation: Relation) -> Node:
        assert relation.query is not None
        return stream_key(build(bind_query(parse_query(relation.query), self.catalog), self.catalog), self.catalog).plan

    def rebound(self, query: exp.Expression) -> exp.Query:
        return rebound(query, self.catalog)

    def side(self, query: exp.Query, names: Mapping[Name, str]) -> Side:
        bound = bind_query(parse_query(print_sql(query)), self.catalog)
        kinds = [kind or TEXT for kind in bound.types]
        return Side(query=bound.expression, names=names, types=dict(zip(bound.output, kinds, strict=True)))


def _ascending(name: str) -> KeyColumn:
    return KeyColumn(name=name)


def _ordered(alias: str, key: KeyColumn, relation: Relation) -> exp.Ordered:
    column = typed_column(alias, key.name, relation.column(key.name).type)
    return exp.Ordered(this=column, desc=key.descending, nulls_first=key.nulls_first)
