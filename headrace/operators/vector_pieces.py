"""Pieces of queries over a few rows in Arrow: joins, and sums of groups, where Arrow says what Spark would.

A piece that follows its inputs key by key is evaluated over a few rows in each epoch that touches it. A Spark job for
them costs more than the rest of the epoch, so what is plain enough is done by Arrow: inner and left joins, EXISTS and
NOT EXISTS, UNION ALL, conditions and expressions that :mod:`headrace.operators.vectorize` knows, windows that
:mod:`headrace.operators.vector_windows` knows, counts, and sums, minima and maxima of what is not a float. For the
rest, and for values that only Spark can judge, there is Spark.

The rows of a relation are a table with its columns, and maybe a weight, which stays with the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from headrace.operators.vector_pairs import MOST_PAIRS, all_pairs, bytes_of, numbered, pairs
from headrace.operators.vector_windows import NEIGHBOURS, NUMBERS, TOTALS, Window
from headrace.operators.vectorize import vector_of, vector_projection
from headrace.operators.vectors import Datum, NotVectorized, Vector, VectorFilter, VectorProject
from headrace.plan.joins import equalities
from headrace.plan.pieces import conjunction, conjuncts, outputs_of, typed_column
from headrace.sql.expressions import COLUMN_TYPE
from headrace.sql.grouping import has_aggregate
from headrace.sql.names import SCHEMA
from headrace.sql.oracle import generates
from headrace.sql.sets import is_set_returning
from headrace.sql.translate import type_of, types_of
from headrace.sql.typed import BOOLEAN, INTERVAL, is_float, is_integer
from headrace.state.runs import WEIGHT
from headrace.types import SqlType

PAIR_BYTES = 256 << 20
"""What the pairs of rows of a join may take, of the columns that the query names."""

WINDOWS = "_hr_w"
"""What the columns with the values of window functions are of."""

SUM_DIGITS = 38
"""Of a sum of Arrow's, which does not tell when it has more."""

Tables = Mapping[int, pa.Table]


@dataclass(frozen=True)
class Rows:
    """A relation's rows; its columns are called ``alias.name`` from here on."""

    relation_id: int
    alias: str
    names: frozenset[str]
    """Those of its columns that the query names; others would only be carried along."""

    def evaluate(self, tables: Tables) -> pa.Table:
        rows = tables[self.relation_id]
        wanted = [name for name in rows.column_names if name in self.names or name == WEIGHT]
        # Without a column a table would not know how many rows it has.
        return _aliased(rows.select(wanted or rows.column_names[:1]), self.alias)


@dataclass(frozen=True)
class Mapped:
    input: Plan
    steps: tuple[VectorFilter | VectorProject, ...]
    alias: str | None = None

    def evaluate(self, tables: Tables) -> pa.Table:
        rows = self.input.evaluate(tables)
        for step in self.steps:
            rows = step.apply(rows)
        return rows if self.alias is None else _aliased(rows, self.alias)


@dataclass(frozen=True)
class Windowed:
    """Rows, and beside them the values of window functions."""

    input: Plan
    windows: tuple[Window, ...]

    def evaluate(self, tables: Tables) -> pa.Table:
        rows = self.input.evaluate(tables)
        found = [each.evaluate(rows) for each in self.windows]
        for at, values in enumerate(found):
            rows = rows.append_column(f"{WINDOWS}.{at}", values)
        return rows


@dataclass(frozen=True)
class Together:
    """UNION ALL: columns go by their place, and have the names of the first."""

    inputs: tuple[Plan, ...]
    alias: str | None

    def evaluate(self, tables: Tables) -> pa.Table:
        found: list[pa.Table] = []
        for each in self.inputs:
            rows = each.evaluate(tables)
            found.append(rows.rename_columns(found[0].column_names) if found else rows)
            if sum(each.num_rows for each in found) > MOST_PAIRS:
                raise NotVectorized("many rows")
        rows = pa.concat_tables(found)
        return rows if self.alias is None else _aliased(rows, self.alias)


@dataclass(frozen=True)
class Joined:
    left: Plan
    right: Plan
    kind: str
    """inner, left, semi or anti"""
    keys: tuple[tuple[Vector, Vector], ...]
    """None: all pairs."""
    null_safe: tuple[tuple[Vector, Vector], ...]
    """… of which NULL is equal to NULL."""
    condition: Vector | None
    most_bytes: int = PAIR_BYTES

    def evaluate(self, tables: Tables) -> pa.Table:
        left, right = self.left.evaluate(tables), self.right.evaluate(tables)
        if WEIGHT in left.column_names and WEIGHT in right.column_names:
            raise NotVectorized("changes of both sides")
        if self.keys or self.null_safe:
            both = [(one.evaluate(left), other.evaluate(right)) for one, other in self.keys]
            both += [numbered(one.evaluate(left), other.evaluate(right)) for one, other in self.null_safe]
            mine, theirs = pairs([one for one, _ in both], [other for _, other in both])
        else:
            mine, theirs = all_pairs(left.num_rows, right.num_rows)
        if bytes_of(left, mine) + bytes_of(right, theirs) > self.most_bytes:
            raise NotVectorized("a join of large rows")
        if self.condition is not None:
            keep = self.condition.evaluate(_beside(left.take(mine), right.take(theirs)))
            if isinstance(keep, pa.Scalar):
                keep = pa.repeat(keep, len(mine))
            keep = pc.fill_null(keep, False)
            mine, theirs = mine.filter(keep), theirs.filter(keep)
        if self.kind == "inner":
            return _beside(left.take(mine), right.take(theirs))
        matched = np.zeros(left.num_rows, dtype=bool)
        matched[mine.to_numpy()] = True
        if self.kind == "semi":
            return left.filter(pa.array(matched))
        alone = left.filter(pa.array(~matched))
        if self.kind == "anti":
            return alone
        nothing = right.slice(0, 0).schema.empty_table()
        padded = pa.table([pa.nulls(alone.num_rows, field.type) for field in nothing.schema], schema=nothing.schema)
        return pa.concat_tables([_beside(left.take(mine), right.take(theirs)), _beside(alone, padded)])


@dataclass(frozen=True)
class First:
    """The first rows in an order."""

    input: Plan
    order: tuple[tuple[str, bool, bool], ...]
    """Columns of the result; whether they descend, and have their NULLs first."""
    offset: int
    limit: int | None

    def evaluate(self, tables: Tables) -> pa.Table:
        rows = self.input.evaluate(tables)
        if any(pa.types.is_floating(rows[name].type) for name, _, _ in self.order):
            raise NotVectorized("an order of floats")
        found = np.arange(rows.num_rows)
        for name, descending, nulls_first in reversed(self.order):
            column = rows[name].take(pa.array(found))
            if descending:
                # Stable both ways: backwards, and back again.
                found, column = found[::-1], column.take(pa.array(np.arange(len(column))[::-1]))
            by = pc.rank(column, sort_keys="ascending", tiebreaker="min").to_numpy().astype(np.int64)  # NULLs are last
            if nulls_first is not descending:
                by[pc.is_null(column).to_numpy()] = -1
            found = found[np.argsort(by, kind="stable")]
            if descending:
                found = found[::-1]
        stop = rows.num_rows if self.limit is None else self.offset + self.limit
        return rows.take(pa.array(found[self.offset : stop]))


@dataclass(frozen=True)
class Sum:
    name: str
    function: str | None
    """count, sum, min or max; None for an average that follows from others"""
    argument: Vector | None
    """None counts rows."""
    condition: Vector | None
    type: pa.DataType

    def prepared(self, rows: pa.Table) -> pa.ChunkedArray:
        """What is to be counted or summed, of each row."""
        if self.argument is None:
            values: Datum = pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
        else:
            values = self.argument.evaluate(rows)
            if isinstance(values, pa.Scalar):
                values = pa.repeat(values, rows.num_rows)
            if self.function == "sum":
                scale = values.type.scale if pa.types.is_decimal(values.type) else 0
                values = values.cast(pa.decimal128(SUM_DIGITS, scale))
                _check_sum(values, scale)
        if self.condition is not None:
            keep = self.condition.evaluate(rows)
            values = pc.if_else(pc.fill_null(keep, False), values, pa.scalar(None, values.type))
        return values

    def of_nothing(self) -> pa.Array:
        return pa.array([0 if self.function == "count" else None], self.type)


@dataclass(frozen=True)
class Sums:
    """Groups of exact numbers."""

    input: Plan
    keys: tuple[tuple[str, Vector, pa.DataType], ...]
    values: tuple[Sum, ...]
    alias: str | None = None

    def evaluate(self, tables: Tables) -> pa.Table:
        rows = self.input.evaluate(tables)
        if not self.keys and rows.num_rows == 0:
            return self._named({each.name: each.of_nothing() for each in self.values})
        keys = VectorProject(self.keys).apply(rows)
        columns = {f"k{at}": keys[name] for at, (name, _, _) in enumerate(self.keys)}
        asked = []
        for at, each in enumerate(self.values):
            if each.function is not None:
                columns[f"v{at}"] = each.prepared(rows)
                asked.append((f"v{at}", each.function))
        # Without a key there is one group.
        columns["one"] = pa.repeat(pa.scalar(1, pa.int8()), rows.num_rows)
        by = [name for name in columns if name.startswith("k")] or ["one"]
        grouped = pa.table(columns).group_by(by, use_threads=False).aggregate(asked)
        found = {name: grouped[f"k{at}"].cast(kind) for at, (name, _, kind) in enumerate(self.keys)}
        for at, each in enumerate(self.values):
            if each.function is None:
                found[each.name] = pa.nulls(grouped.num_rows, each.type)
            else:
                found[each.name] = grouped[f"v{at}_{each.function}"].cast(each.type)
        return self._named(found)

    def _named(self, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
        return pa.table(columns) if self.alias is None else _aliased(pa.table(columns), self.alias)


Plan = Rows | Mapped | Windowed | Together | Joined | Sums | First


def vectorized_piece(
    query: exp.Expression, relations: Mapping[str, int], types: Mapping[str, SqlType], averages: Collection[str] = ()
) -> Plan | None:
    """A bound query over relations, whose columns are stored as ``types``, in order; None if it is Spark's.

    ``averages``: columns that nobody looks at.
    """
    try:
        return plan_of(query, relations, types, averages)
    except (NotVectorized, RecursionError):
        return None


def plan_of(
    query: exp.Expression,
    relations: Mapping[str, int],
    types: Mapping[str, SqlType],
    averages: Collection[str] = (),
    *,
    pair_bytes: int = PAIR_BYTES,
) -> Plan:
    """The same; :class:`NotVectorized` if it is Spark's."""
    return _Builder(query, relations, averages, pair_bytes).query(query, types)


class _Builder:
    def __init__(self, query: exp.Expression, relations: Mapping[str, int], averages: Collection[str], pair_bytes: int):
        self._relations, self._averages, self._pair_bytes = relations, averages, pair_bytes
        self._named: dict[str, set[str]] = {}
        """Columns by the alias of their source, which may mean several sources."""
        for each in query.find_all(exp.Column):
            self._named.setdefault(each.table, set()).add(each.name)

    def query(self, node: exp.Expression, types: Mapping[str, SqlType], alias: str | None = None) -> Plan:
        if isinstance(node, exp.Subquery) and not any(value for name, value in node.args.items() if name != "this"):
            return self.query(node.this, types, alias)
        if isinstance(node, exp.Union):
            return self._together(node, types, alias)
        if isinstance(node, exp.Select) and (node.args.get("group") is not None or _sums(node)):
            return self.sums(node, types, alias)
        if isinstance(node, exp.Select) and alias is None and node.args.get("order") is not None:
            return self._first(node, types)
        return self.select(node, types, alias)

    def _together(self, node: exp.Union, types: Mapping[str, SqlType], alias: str | None) -> Together:
        known = {"this", "expression", "distinct"}
        if node.args.get("distinct") or any(value for name, value in node.args.items() if name not in known):
            raise NotVectorized("more than UNION ALL")
        plans, kinds = [], types_of(node)
        for side in (node.this, node.expression):
            names = outputs_of(side)
            if any(kind is None for kind in kinds) or len(set(names)) < len(names):
                raise NotVectorized("columns without a type, or two of one name")
            own = dict(zip(names, kinds, strict=True)) if not types else dict(zip(names, types.values(), strict=True))
            plans.append(self.query(side, own))
        return Together(tuple(plans), alias)

    def _first(self, node: exp.Select, types: Mapping[str, SqlType]) -> First:
        plain = node.copy()
        counts = {}
        for key in ("order", "limit", "offset"):
            clause = plain.args.get(key)
            plain.set(key, None)
            if key != "order" and clause is not None:
                counts[key] = count_of(clause, key)
        names = [each.alias_or_name for each in plain.expressions]
        items = [each.unalias() for each in plain.expressions]
        order = []
        for each in node.args["order"].expressions:
            place = place_of(each, items)
            if place is None:
                raise NotVectorized("an order by what is not shown")
            order.append((names[place], bool(each.args.get("desc")), bool(each.args.get("nulls_first"))))
        return First(self.select(plain, types), tuple(order), counts.get("offset", 0), counts.get("limit"))

    def select(self, node: exp.Expression, types: Mapping[str, SqlType], alias: str | None = None) -> Mapped:
        plan, _ = self._rows(node, {"expressions", "from_", "joins", "where"})
        names = _check_names(node)
        items, windows = _without_windows([each.unalias() for each in node.expressions])
        if windows:
            plan = Windowed(plan, windows)
        columns = [
            vector_projection(name, _flat(each), types.get(name)) for name, each in zip(names, items, strict=True)
        ]
        return Mapped(plan, (VectorProject(tuple(columns)),), alias)

    def sums(self, node: exp.Select, types: Mapping[str, SqlType], alias: str | None) -> Sums:
        plan, _ = self._rows(node, {"expressions", "from_", "joins", "where", "group"})
        group = node.args.get("group")
        if group is not None and any(value for name, value in group.args.items() if name != "expressions"):
            raise NotVectorized("several groupings")
        grouped = list(group.expressions) if group is not None else []
        _check_names(node)
        shown = [each.unalias() for each in node.expressions]
        if any(each not in shown for each in grouped):
            raise NotVectorized("a group that is not shown")
        keys, values = [], []
        for each in node.expressions:
            name, item = each.alias_or_name, each.unalias()
            kind = types.get(name) or type_of(item)
            if kind is None or is_float(kind) or is_float(type_of(item)):
                raise NotVectorized("floats, or a column without a type")
            if item in grouped:
                keys.append(vector_projection(name, _flat(item), kind))
            elif name in self._averages and alias is None:
                values.append(Sum(name, None, None, None, kind.arrow))
            else:
                values.append(_sum(name, item, kind))
        return Sums(plan, tuple(keys), tuple(values), alias)

    def _rows(self, node: exp.Expression, known: set[str]) -> tuple[Plan, set[str]]:
        """FROM and WHERE."""
        if not isinstance(node, exp.Select) or any(value for name, value in node.args.items() if name not in known):
            raise NotVectorized("more than a join")
        if node.args.get("from_") is None:
            raise NotVectorized("no FROM")
        plan, alias = self._source(node.args["from_"].this)
        aliases = {alias}
        for join in node.args.get("joins") or ():
            if any(value for name, value in join.args.items() if name not in ("this", "side", "kind", "on")):
                raise NotVectorized("a join of another kind")
            side, kind = (join.args.get("side") or "").lower(), (join.args.get("kind") or "").lower()
            if side not in ("", "left") or kind not in ("", "inner", "outer", "cross"):
                raise NotVectorized(f"{side} {kind} join")
            right, alias = self._source(join.this)
            plan = self._joined(plan, right, side or "inner", conjuncts(join.args.get("on")), aliases, {alias})
            aliases.add(alias)
        filters = []
        for each in conjuncts(node.args.get("where")):
            negated = isinstance(each, exp.Not) and isinstance(each.this.unnest(), exp.Exists)
            inner = each.this.unnest() if negated else each
            if isinstance(inner, exp.Exists):
                plan = self._exists(plan, inner.this, aliases, "anti" if negated else "semi")
            else:
                filters.append(each)
        return (_filtered(plan, filters) if filters else plan), aliases

    def _exists(self, plan: Plan, node: exp.Expression, outer: set[str], kind: str) -> Joined:
        node = node.unnest() if isinstance(node, exp.Subquery) else node
        known = {"expressions", "from_", "where"}
        if not isinstance(node, exp.Select) or any(value for name, value in node.args.items() if name not in known):
            raise NotVectorized("EXISTS of more than one source")
        if node.args.get("from_") is None or any(map(_makes_rows, node.expressions)):
            raise NotVectorized("EXISTS of other rows than those of a source")
        right, alias = self._source(node.args["from_"].this)
        if alias in outer:
            raise NotVectorized("one name for two sources")
        return self._joined(plan, right, kind, conjuncts(node.args.get("where")), outer, {alias})

    def _joined(
        self, left: Plan, right: Plan, kind: str, conditions: list[exp.Expression], before: set[str], new: set[str]
    ) -> Joined:
        equal, same = (equalities(conditions, before, new, kind) for kind in (exp.EQ, exp.NullSafeEQ))
        rest = [each for each in conditions if all(each is not one for one, _, _ in (*equal, *same))]
        keys: list[list[tuple[Vector, Vector]]] = [[], []]
        for found, compared in zip(keys, (equal, same), strict=True):
            for _, one, other in compared:
                kinds = type_of(one), type_of(other)
                if kinds[0] is None or kinds[0] != kinds[1] or is_float(kinds[0]):
                    raise NotVectorized("a comparison of other types")
                found.append((vector_of(_flat(one)), vector_of(_flat(other))))
        condition = None
        if rest:
            condition = vector_projection("condition", _flat(conjunction(rest)), BOOLEAN)[1]
        return Joined(left, right, kind, *map(tuple, keys), condition, self._pair_bytes)

    def _source(self, node: exp.Expression) -> tuple[Plan, str]:
        alias = node.args.get("alias")
        if alias is None or alias.args.get("columns"):
            raise NotVectorized("a source without a name, or with names for its columns")
        if "." in alias.name:  # a.b of c would be the same as a of b.c
            raise NotVectorized("a name with a dot")
        if isinstance(node, exp.Subquery):
            if any(value for name, value in node.args.items() if name not in ("this", "alias")):
                raise NotVectorized("more than a subquery")
            return self.query(node.this, {}, alias.name), alias.name
        if not isinstance(node, exp.Table) or node.db != SCHEMA or node.name not in self._relations:
            raise NotVectorized("something else in FROM")
        if any(value for name, value in node.args.items() if name not in ("this", "db", "alias")):
            raise NotVectorized("more than a table")
        names = frozenset(self._named.get(alias.name, ()))
        return Rows(self._relations[node.name], alias.name, names), alias.name


def place_of(key: exp.Expression, items: Sequence[exp.Expression]) -> int | None:
    """Which column an order goes by; a number is the place of one."""
    if isinstance(key.this, exp.Literal) and not key.this.is_string:
        return int(key.this.name) - 1
    return next((at for at, item in enumerate(items) if item == key.this), None)


def count_of(clause: exp.Expression, what: str) -> int:
    """Of LIMIT or OFFSET."""
    number = clause.args.get("expression")
    plain = {name for name, value in clause.args.items() if value} == {"expression"}
    if not plain or not isinstance(number, exp.Literal) or number.is_string or not number.name.isdigit():
        raise NotVectorized(f"{what} of an expression")
    return int(number.name)


def _check_names(node: exp.Expression) -> list[str]:
    """What a block calls its columns."""
    names = [each.alias_or_name for each in node.expressions]
    if len(set(names)) < len(names):
        raise NotVectorized("two columns of one name")
    return names


def _makes_rows(item: exp.Expression) -> bool:
    """Whether there are more or fewer rows because of it."""
    calls = item.find_all(exp.Anonymous)
    return has_aggregate(item) or any(is_set_returning(each.this) or generates(each) for each in calls)


def _without_windows(items: list[exp.Expression]) -> tuple[list[exp.Expression], tuple[Window, ...]]:
    """Expressions with columns in place of window functions, and those."""
    found: list[exp.Window] = []

    def replaced(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Window):
            return node
        if node not in found:
            found.append(node)
        return typed_column(WINDOWS, str(found.index(node)), type_of(node))

    return [each.copy().transform(replaced) for each in items], tuple(map(_window, found))


def _window(node: exp.Window) -> Window:
    call, kind, order = node.this, type_of(node), node.args.get("order")
    known = {"this", "partition_by", "order", "over"}
    if any(value for name, value in node.args.items() if name not in known) or kind is None:
        raise NotVectorized("a window with a frame")
    if not isinstance(call, exp.Anonymous) or call.this not in (*NUMBERS, *NEIGHBOURS, *TOTALS):
        raise NotVectorized("another window function")
    if kind == INTERVAL or (not order and call.this in (*NUMBERS, *NEIGHBOURS)):
        raise NotVectorized("a window of intervals, or without an order")
    if order is not None and call.this in ("min", "max"):
        raise NotVectorized(f"{call.this} so far")
    argument, distance = None, 1
    if call.this not in NUMBERS and not isinstance(call.expressions[0], exp.Star):
        first, *rest = call.expressions
        if isinstance(first, (exp.Distinct, exp.Order)) or len(rest) > (call.this in NEIGHBOURS):
            raise NotVectorized("a window function of several values")
        if call.this == "sum" and not is_integer(type_of(first)):
            raise NotVectorized("a sum of other numbers than integers")
        argument = vector_of(_flat(first))
        if rest:
            if not isinstance(rest[0], exp.Literal) or rest[0].is_string or not rest[0].name.isdigit():
                raise NotVectorized("a neighbour at a distance that is not a constant")
            distance = int(rest[0].name)
    orders = []
    for each in order.expressions if order is not None else ():
        if type_of(each.this) in (None, INTERVAL):
            raise NotVectorized("an order of intervals, or of constants")
        orders.append((vector_of(_flat(each.this)), bool(each.args.get("desc")), bool(each.args.get("nulls_first"))))
    partition = tuple(vector_of(_flat(each)) for each in node.args.get("partition_by") or ())
    return Window(call.this, argument, partition, tuple(orders), kind.arrow, distance)


def _sums(node: exp.Select) -> bool:
    return any(_call(each.unalias()) is not None for each in node.expressions)


def _call(item: exp.Expression) -> exp.Anonymous | None:
    call = item.this if isinstance(item, exp.Filter) else item
    return call if isinstance(call, exp.Anonymous) and call.this in ("count", "sum", "avg", "min", "max") else None


def _sum(name: str, item: exp.Expression, kind: SqlType) -> Sum:
    call = _call(item)
    if call is None or call.this == "avg" or len(call.expressions) != 1:
        raise NotVectorized("another aggregate")
    (argument,) = call.expressions
    condition = None
    if isinstance(item, exp.Filter):
        condition = vector_projection("condition", _flat(item.expression.this), BOOLEAN)[1]
    if isinstance(argument, exp.Star):
        return Sum(name, "count", None, condition, kind.arrow)
    if isinstance(argument, (exp.Distinct, exp.Order)):
        raise NotVectorized("an aggregate of some values")
    if call.this == "sum":
        source = type_of(argument)
        if source is None or not (is_integer(source) or source.name == "numeric"):
            raise NotVectorized(f"a sum of {source}")
    if call.this in ("min", "max") and type_of(argument) == INTERVAL:
        raise NotVectorized("the shortest or longest interval")
    return Sum(name, call.this, vector_of(_flat(argument)), condition, kind.arrow)


def _check_sum(values: pa.Array | pa.ChunkedArray, scale: int) -> None:
    """No sum of some of them may have more digits than there are."""
    ends = pc.min_max(values)
    largest = max((abs(ends[end].as_py()) for end in ("min", "max") if ends[end].is_valid), default=0)
    if largest * len(values) >= 10 ** (SUM_DIGITS - scale):
        raise NotVectorized("a sum of large numbers")


def _filtered(plan: Plan, conditions: Sequence[exp.Expression]) -> Mapped:
    condition = vector_projection("condition", _flat(conjunction(conditions)), BOOLEAN)[1]
    return Mapped(plan, (VectorFilter(condition),))


def _flat(expression: exp.Expression) -> exp.Expression:
    """With the columns under the names that they have here."""
    copy = exp.Paren(this=expression.copy())
    for each in list(copy.find_all(exp.Column)):
        new = exp.Column(this=exp.to_identifier(f"{each.table}.{each.name}", quoted=True))
        new.meta[COLUMN_TYPE] = each.meta.get(COLUMN_TYPE)
        each.replace(new)
    return copy.this.pop()


def _aliased(rows: pa.Table, alias: str) -> pa.Table:
    return rows.rename_columns([name if name == WEIGHT else f"{alias}.{name}" for name in rows.column_names])


def _beside(left: pa.Table, right: pa.Table) -> pa.Table:
    return pa.table([*left.columns, *right.columns], names=[*left.column_names, *right.column_names])
