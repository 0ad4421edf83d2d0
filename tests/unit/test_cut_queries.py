"""Random queries cut into pieces, and the pieces evaluated by SQLite, without an engine.

What must hold whatever the rows are: the last piece says what the query says; no two rows of a piece have the same
key; and a piece over its inputs' rows of some keys says what it says of these keys over all of them. The last is what
the engine relies on when it computes touched keys alone. The queries are new ones in every run. A failure says which
seed draws it again, as ``HEADRACE_SEED``; ``HEADRACE_QUERIES=10000`` tries more of them.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pytest
from sqlglot import exp

from headrace.catalog import TABLE, Catalog, Column, KeyColumn, Relation
from headrace.engine.firsts import ChangedFirstRows
from headrace.engine.groups import ChangedGroups
from headrace.operators.vector_pieces import vectorized_piece
from headrace.plan.build import build
from headrace.plan.cut import cut
from headrace.plan.keys import stream_key
from headrace.plan.nodes import Filter, Node, Project, Scan, UnionAll
from headrace.plan.pieces import Keyed
from headrace.sql.bind import bind_query
from headrace.sql.dialect import parse_query, print_sql
from headrace.state.keys import KeyCodec
from headrace.state.layout import Layout
from headrace.types import SqlType
from tests.support.four_ways import THOROUGH, drawn_seed
from tests.support.random_queries import TABLES, Queries, how_many, random_rows

COUNT = how_many(4000 if THOROUGH else 100)
PART = 20


VECTORIZED: Counter = Counter()
"""How many pieces of a kind Arrow has evaluated."""


def _catalog() -> Catalog:
    catalog = Catalog()
    for number, (name, columns) in enumerate(TABLES.items(), 1):
        kinds = {column: SqlType("varchar" if column == "s" else "integer") for column in columns}
        key = "id"
        shown = [Column(name=column, type=kind, nullable=column != "id") for column, kind in kinds.items()]
        if "id" not in columns:
            key = "_row_id"
            shown.append(Column(name=key, type=SqlType("bigint"), hidden=True, nullable=False))
        pk = (KeyColumn(name=key),)
        catalog = catalog.add(
            Relation(id=number, name=name, kind=TABLE, columns=tuple(shown), pk=pk, distribution=(key,))
        )
    return catalog


class Lite:
    """Relations in SQLite: ``public`` has all rows, ``part`` those of some keys."""

    def __init__(self):
        self.database = sqlite3.connect(":memory:")
        for schema in ("public", "part"):
            self.database.execute(f"ATTACH ':memory:' AS {schema}")

    def store(self, relation: Relation, rows: list[tuple], schema: str = "public") -> None:
        names = ", ".join(f'"{column.name}"' for column in relation.columns)
        self.database.execute(f'DROP TABLE IF EXISTS {schema}."{relation.name}"')
        self.database.execute(f'CREATE TABLE {schema}."{relation.name}" ({names})')
        marks = ", ".join("?" for _ in relation.columns)
        values = [tuple(map(_in_sqlite, row)) for row in rows]
        self.database.executemany(f'INSERT INTO {schema}."{relation.name}" VALUES ({marks})', values)

    def rows(self, text: str, schema: str = "public") -> list[tuple]:
        if "ORDER BY" in text:  # SQLite has NULLs where Headrace has them only if it is told
            text = parse_query(text).sql(dialect="sqlite", identify=True)
        return self.database.execute(text.replace('"public".', f'"{schema}".')).fetchall()


def _in_sqlite(value: object) -> object:
    """It has no numbers but integers and floats; a sum of integers is a numeric, and comes back from Arrow as one."""
    if not isinstance(value, Decimal):
        return value
    return int(value) if value == value.to_integral_value() else float(value)


def linear_text(node: Node) -> str:
    """A linear plan, hidden columns and all, as SQL."""
    if isinstance(node, Scan):
        return f'SELECT {", ".join(map(_quoted, node.columns))} FROM "public".{_quoted(node.relation)}'
    if isinstance(node, Filter):
        return f"SELECT * FROM ({linear_text(node.input)}) WHERE {print_sql(node.condition)}"
    if isinstance(node, Project):
        items = ", ".join(f"{print_sql(each)} AS {_quoted(name)}" for name, each in node.columns)
        return f"SELECT {items} FROM ({linear_text(node.input)})"
    assert isinstance(node, UnionAll)
    return " UNION ALL ".join(map(linear_text, node.inputs))


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql()


def _picked(rows: list[tuple], relation: Relation, columns: tuple[str, ...], keys: set[tuple]) -> list[tuple]:
    at = [[column.name for column in relation.columns].index(name) for name in columns]
    return [row for row in rows if tuple(row[index] for index in at) in keys]


def _keys(rows: list[tuple], relation: Relation, columns: tuple[str, ...]) -> set[tuple]:
    at = [[column.name for column in relation.columns].index(name) for name in columns]
    return {tuple(row[index] for index in at) for row in rows}


def check_sums(
    lite: Lite, relation: Relation, catalog: Catalog, held: dict[int, list[tuple]], chance: random.Random
) -> None:
    """What the rows of one half of the inputs say and what those of the other half say add up, both ways."""
    layout = Layout.of(relation)
    halves: list[pa.Table] = []
    chosen = {id: [chance.random() < 0.5 for _ in held[id]] for id in relation.reads}
    for half in (True, False):
        for id in relation.reads:
            rows = [row for row, mine in zip(held[id], chosen[id], strict=True) if mine is half]
            lite.store(catalog.relations[id], rows, "part")
        halves.append(_arrow(layout, lite.rows(relation.query, "part")))
    whole, nothing = _arrow(layout, held[relation.id]), layout.row_schema.empty_table()
    one, other = halves
    for old, came, gone, new in ((one, other, nothing, whole), (whole, nothing, other, one), (one, other, other, one)):
        groups = ChangedGroups(layout, relation.operator, old, came, gone)
        doubted = groups.in_doubt()
        if not doubted.num_rows:
            assert _counted(groups.new_rows()) == _counted(new), relation.query
            continue
        VECTORIZED["groups in doubt"] += 1
        assert gone.num_rows and relation.operator.extremes
        keys = {tuple(row.values()) for row in doubted.to_pylist()}
        again = [tuple(row[name] for name in relation.operator.key) in keys for row in new.to_pylist()]
        assert _counted(groups.new_rows(new.filter(pa.array(again, pa.bool_())))) == _counted(new), relation.query


def check_linear(
    lite: Lite, relation: Relation, catalog: Catalog, held: dict[int, list[tuple]], chance: random.Random
) -> None:
    """What the rows of one half of an input say and what those of the other half say is what all of them say."""
    for id in relation.operator.linear:
        mine = [chance.random() < 0.5 for _ in held[id]]
        said: Counter = Counter()
        for half in (True, False):
            for other in relation.reads:
                rows = held[other]
                if other == id:
                    rows = [row for row, chosen in zip(rows, mine, strict=True) if chosen is half]
                lite.store(catalog.relations[other], rows, "part")
            said.update(lite.rows(relation.query, "part"))
        assert said == Counter(held[relation.id]), f"{relation.query} is not linear in {catalog.relations[id].name}"


def check_vectors(relation: Relation, catalog: Catalog, held: dict[int, list[tuple]]) -> None:
    """What Arrow can evaluate, it evaluates as SQLite does."""
    names = {catalog.relations[id].name: id for id in relation.reads}
    layout = Layout.of(relation)
    bound = bind_query(parse_query(relation.query), catalog)
    left_out = {name for name, _, _ in relation.operator.averages}
    plan = vectorized_piece(bound.expression, names, layout.types, left_out)
    if plan is None:
        return
    tables = {id: _arrow(Layout.of(catalog.relations[id]), held[id]) for id in relation.reads}
    found = plan.evaluate(tables).select(layout.names)
    expected = _arrow(layout, held[relation.id])
    shown = [name for name in layout.names if name not in left_out]
    VECTORIZED[relation.operator.describe] += 1
    assert _counted(found.select(shown)) == _counted(expected.select(shown)), relation.query


def check_first(lite: Lite, relation: Relation, catalog: Catalog, held: dict[int, list[tuple]]) -> None:
    """The first rows of each key of its inputs are all that it needs."""
    for (id, columns), count in zip(relation.operator.inputs, relation.operator.first, strict=True):
        source = catalog.relations[id]
        lite.store(source, _first(source, held[id], columns, count), "part")
    assert Counter(lite.rows(relation.query, "part")) == Counter(held[relation.id]), relation.query


def check_kept(
    lite: Lite, relation: Relation, catalog: Catalog, held: dict[int, list[tuple]], chance: random.Random
) -> None:
    """Its new rows follow from its old ones and what came and went, unless it says that it has to look."""
    ((id, columns),), (count,) = relation.operator.inputs, relation.operator.first
    source, layout = catalog.relations[id], Layout.of(relation)

    def query(rows: list[tuple]) -> list[tuple]:
        lite.store(source, rows, "part")
        return lite.rows(relation.query, "part")

    for came, gone in ((0.3, 0.0), (0.0, 0.3), (0.3, 0.3)):
        kinds = [chance.random() for _ in held[id]]
        new, gone = (
            [row for row, kind in zip(held[id], kinds, strict=True) if low <= kind < high]
            for low, high in ((0, came), (came, came + gone))
        )
        stay = [row for row in held[id] if row not in new and row not in gone]
        arrow = [_arrow(Layout.of(source), rows) for rows in (new, gone)]
        known = ChangedFirstRows(Layout.of(source), relation.operator, _arrow(layout, query(stay + gone)), *arrow)
        keys = {tuple(row.values()) for row in known.in_doubt().to_pylist()}
        assert gone or not keys
        if gone:
            VECTORIZED["first rows in doubt" if keys else "first rows known"] += 1
        again = _first(source, _picked(stay + new, source, columns, keys), columns, count)
        rows = known.rows(_arrow(Layout.of(source), again)).to_pylist()
        found = query([tuple(row.values()) for row in rows])
        assert Counter(found) == Counter(query(stay + new)), relation.query


def _first(source: Relation, rows: list[tuple], columns: tuple[str, ...], count: int) -> list[tuple]:
    """The first rows of each key."""
    codec, names = KeyCodec.of(source), [column.name for column in source.columns]

    def order(row: tuple) -> bytes:
        return codec.encode([row[names.index(name)] for name in codec.names])

    found: dict[tuple, list[tuple]] = {}
    for row in sorted(rows, key=order):
        found.setdefault(tuple(row[names.index(name)] for name in columns), []).append(row)
    return [row for rows in found.values() for row in rows[:count]]


def _arrow(layout: Layout, rows: list[tuple]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(layout.names)
    # SQLite has no booleans but numbers.
    columns = [
        [None if each is None else bool(each) for each in values] if pa.types.is_boolean(field.type) else values
        for values, field in zip(columns, layout.row_schema, strict=True)
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, layout.row_schema, strict=True)]
    return pa.table(arrays, schema=layout.row_schema)


def _counted(rows: pa.Table) -> Counter:
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def check(seed: int) -> str:
    chance = random.Random(seed)
    catalog, lite = _catalog(), Lite()
    text = Queries(chance).query()
    held: dict[int, list[tuple]] = {}
    for relation in catalog:
        rows = random_rows(chance, relation.name, chance.choice([0, 3, 8]))
        held[relation.id] = [(*row, at) for at, row in enumerate(rows)] if relation.name == "w" else rows
        lite.store(relation, held[relation.id])
    bound = bind_query(parse_query(text), catalog)
    last, arrangements = cut(bound, catalog, "v", bound.output)
    root = arrangements.keyed(last) if isinstance(last, Keyed) else None
    for relation in (*arrangements.made, *([root] if root else [])):
        relation = relation.replace(name=relation.name or "v")
        if relation.operator is None:
            inner = bind_query(parse_query(relation.query), arrangements.catalog)
            found = lite.rows(linear_text(stream_key(build(inner, arrangements.catalog), arrangements.catalog).plan))
        else:
            found = lite.rows(relation.query)
        held[relation.id] = found
        pk = tuple(key.name for key in relation.pk)
        assert len(_keys(found, relation, pk)) == len(found), (
            f"{relation.name} has two rows of one key: {relation.query}"
        )
        lite.store(relation, found)
        operator = relation.operator
        if operator is not None and operator.adds:
            check_sums(lite, relation, arrangements.catalog, held, chance)
        if operator is not None and operator.first:
            check_first(lite, relation, arrangements.catalog, held)
        if operator is not None and operator.kept:
            check_kept(lite, relation, arrangements.catalog, held, chance)
        if operator is not None:
            check_vectors(relation, arrangements.catalog, held)
            check_linear(lite, relation, arrangements.catalog, held, chance)
        if operator is None or operator.follows_changes or not operator.key:
            continue
        every = _keys(found, relation, operator.key)
        for id, columns in operator.inputs:
            if id not in operator.whole:
                every |= _keys(held[id], arrangements.catalog.relations[id], columns)
        some = {key for key in sorted(every, key=repr) if chance.random() < 0.5}
        for id, columns in operator.inputs:
            source = arrangements.catalog.relations[id]
            lite.store(source, held[id] if id in operator.whole else _picked(held[id], source, columns, some), "part")
        partly = Counter(lite.rows(relation.query, "part"))
        assert partly == Counter(_picked(found, relation, operator.key, some)), f"{relation.name}: {relation.query}"
    expected = Counter(lite.rows(bound.text()))
    width = len(bound.output)
    if root is not None:
        actual = Counter(row[:width] for row in held[root.id])
    else:
        inner = bind_query(parse_query(print_sql(last)), arrangements.catalog)
        plan = stream_key(build(inner, arrangements.catalog, bound.output), arrangements.catalog).plan
        actual = Counter(row[:width] for row in lite.rows(linear_text(plan)))
    assert actual == expected, text
    return " ".join(each.operator.describe for each in arrangements.made if each.operator) if root is None else "keyed"


@pytest.mark.parametrize("start", range(0, COUNT, PART))
def test_pieces_say_what_the_query_says(start):
    first = drawn_seed()
    for seed in range(first + start, first + min(start + PART, COUNT)):
        try:
            check(seed)
        except Exception as error:
            query = Queries(random.Random(seed)).query()
            error.add_note(f"HEADRACE_SEED={seed} HEADRACE_QUERIES=1 draws it again: {query}")
            raise


def test_arrow_evaluates_what_is_plain():
    wanted = {"inner join", "left join", "semi join", "anti join", "aggregate", "groups in doubt"}
    wanted |= {"first rows in doubt", "first rows known"}
    VECTORIZED.clear()
    for seed in range(400):
        check(seed)
        if wanted <= set(VECTORIZED):
            return
    pytest.fail(f"not evaluated: {wanted - set(VECTORIZED)}")
