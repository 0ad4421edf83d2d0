"""Internal tables: arrangements of what a keyed piece reads, and pieces that others stand on.

Two views that need the same one share it. A relation that is stored by the wanted key is its own arrangement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.catalog import INTERNAL, INTERNAL_PREFIX, Catalog, Column, KeyColumn, Operator, Relation
from headrace.errors import Unsupported
from headrace.plan.build import build, output_types
from headrace.plan.keys import stream_key
from headrace.plan.nodes import Node
from headrace.plan.pieces import (
    Keyed,
    Name,
    NotCut,
    Side,
    aliased,
    rebound,
    select,
    subquery,
    table,
    typed_column,
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
    columns: Mapping[Name, exp.Expression]
    input: tuple[str, tuple[str, ...]]
    """The stored relation, and its columns of the key."""


class Arrangements:
    def __init__(self, catalog: Catalog, view: str):
        self.catalog = catalog
        """With the internal tables that were made."""
        self._view = view
        self.made: list[Relation] = []

    def mark(self) -> tuple[Catalog, int]:
        return self.catalog, len(self.made)

    def back_to(self, mark: tuple[Catalog, int]) -> None:
        """Forgets the internal tables that were made since, for a way that leads nowhere."""
        self.catalog, count = mark
        self.made = self.made[:count]

    # --- arrangements ---------------------------------------------------------------------------------------------

    def arranged(self, side: Side, keys: Sequence[exp.Expression], alias: str) -> Arranged:
        """A query by some expressions over its columns, which is called ``alias`` in them and from now on."""
        found = self._in_place(side, keys, alias)
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
                name = _free(f"key_{number}", [*flats, *names])
                items.append((name, each))
            names.append(name)
        relation = self._arrangement(select(items, subquery(side.query.copy(), alias)), names)
        return Arranged(
            source=table(relation.name, alias),
            key=[typed_column(alias, name, relation.column(name).type) for name in names],
            rest=[
                typed_column(alias, key.name, relation.column(key.name).type)
                for key in relation.pk
                if key.name not in names
            ],
            columns={name: typed_column(alias, flat, side.types[flat]) for name, flat in side.names.items()},
            input=(relation.name, tuple(names)),
        )

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
            columns={name: typed_column(alias, flat, side.types[flat]) for name, flat in side.names.items()},
            input=(relation.name, tuple(first)),
        )

    def _arrangement(self, query: exp.Query, key: Sequence[str]) -> Relation:
        bound = bind_query(parse_query(print_sql(query)), self.catalog)
        return self._add(self.linear(bound, None, key), "arrangement")

    def events(self, query: exp.Query) -> Relation:
        """The internal table that holds a linear query over a source of events, by the source's own key."""
        return self._add(self.linear(bind_query(parse_query(print_sql(query)), self.catalog), None), "events")

    def check_linear(self, query: exp.Query) -> None:
        """A query may be linear and yet have no stream key: UNION ALL of a relation with one row and one with many."""
        try:
            bound = bind_query(parse_query(print_sql(query)), self.catalog)
            stream_key(build(bound, self.catalog), self.catalog)
        except Unsupported:
            raise NotCut from None

    def linear(self, bound: BoundQuery, names: Sequence[str] | None, key: Sequence[str] = ()) -> Relation:
        """A linear query as a relation without a name: its columns, and its key behind the columns given."""
        found = stream_key(build(bound, self.catalog, names), self.catalog)
        types, hidden = output_types(found.plan, self.catalog), dict(found.hidden)
        return Relation(
            id=self.catalog.next_id,
            name="",
            kind=INTERNAL,
            columns=tuple(Column(name=name, type=types[name], hidden=name in hidden) for name in found.plan.output),
            pk=(*map(_ascending, key), *(each for each in found.pk if each.name not in key)),
            distribution=tuple(key) or found.distribution,
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
        return self._add(self.keyed(piece), piece.describe.split(" ")[0])

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
            operator=Operator(key=piece.key, inputs=inputs, describe=piece.describe, adds=piece.adds),
        )

    def _add(self, relation: Relation, what: str) -> Relation:
        for other in self.catalog.of_kind(INTERNAL):
            if self._same(other, relation):
                return other
        relation = relation.replace(name=f"__internal_{self._view}_{relation.id}_{what}")
        self.catalog = self.catalog.add(relation)
        self.made.append(relation)
        return relation

    def _same(self, one: Relation, other: Relation) -> bool:
        """Whether two relations hold the same rows in the same order, whatever their queries call their sources."""
        if (one.columns, one.pk, one.distribution) != (other.columns, other.pk, other.distribution):
            return False
        if one.operator is not None or other.operator is not None:
            return (one.operator, one.query) == (other.operator, other.query)
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


def _free(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name
