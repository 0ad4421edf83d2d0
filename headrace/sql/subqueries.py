"""Queries inside expressions: scalar ones, EXISTS, IN, ANY and ALL.

A part of :class:`headrace.sql.translate.Translator`, which translates the queries themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

from sqlglot import exp

from headrace.errors import SqlSyntaxError, TypeMismatch
from headrace.sql.aggregates import is_call
from headrace.sql.casts import cast
from headrace.sql.expressions import Expressions, position_of, row_of, unsupported
from headrace.sql.intervals import comparable
from headrace.sql.operators import compare
from headrace.sql.rows import compare_rows
from headrace.sql.shapes import as_in
from headrace.sql.typed import BOOLEAN, TEXT, Typed, common_type
from headrace.types import SqlType

Types = list[SqlType | None]

ROW_COLUMNS = 4
"""The columns of a row that is looked for outside of a condition: the SQL doubles with each of them."""


class Subqueries(Expressions):
    def query(self, node: exp.Expression, want: Types | None = None) -> str:
        raise NotImplementedError

    def types(self, node: exp.Expression) -> Types:
        raise NotImplementedError

    def _scalar(self, node: exp.Expression) -> Typed:
        kinds = self.types(node)
        if len(kinds) != 1:
            raise SqlSyntaxError("subquery must return only one column", position=position_of(node))
        sql = f"({self.query(node, [kinds[0] or TEXT])})"
        return Typed(f"any_value({sql})" if _is_of_a_group(node) else sql, kinds[0] or TEXT)

    def _exists(self, node: exp.Exists) -> Typed:
        return Typed(f"EXISTS ({self.query(node.this)})", BOOLEAN)

    def condition(self, construct: str, node: exp.Expression, *, top: bool = True) -> str:
        """A condition of which only the truth counts, so that NULL may pass for false.

        There Spark's IN does, as a join. Elsewhere it would say false for NULL; see _quantified_query. Under NOT the
        difference counts, except for a NOT IN that the whole condition depends on."""
        node = as_in(node.unnest())
        if isinstance(node, (exp.And, exp.Or)):
            word = "AND" if isinstance(node, exp.And) else "OR"
            inner = top and word == "AND"
            left = self.condition(word, node.this, top=inner)
            return f"({left} {word} {self.condition(word, node.expression, top=inner)})"
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            return self._spark_in(node.this, node.args["query"]).sql
        negated = node.this.unnest() if isinstance(node, exp.Not) else None
        if top and isinstance(negated, exp.In) and negated.args.get("query") is not None:
            return f"(NOT {self._spark_in(negated.this, negated.args['query']).sql})"
        return self.boolean(construct, node)

    def _compared(self, left: exp.Expression, query: exp.Expression) -> tuple[list[Typed], Types]:
        """The values on the left, converted to the types in which they are compared, and those types."""
        kinds = self.types(query)
        row = row_of(left) or [left]
        if len(kinds) != len(row):
            few = len(kinds) < len(row)
            raise SqlSyntaxError(f"subquery has too {'few' if few else 'many'} columns", position=position_of(query))
        values = [self.value(each) for each in row]
        want = []
        for value, kind in zip(values, kinds, strict=True):
            common = common_type("IN", [value.type, kind])
            if common is None and value.type != kind:
                raise TypeMismatch("IN types cannot be matched")
            want.append(common or TEXT)
        return [cast(value, kind) for value, kind in zip(values, want, strict=True)], want

    def _spark_in(self, left: exp.Expression, query: exp.Expression) -> Typed:
        values, want = self._compared(left, query)
        values, sql, _ = self._by_length(values, self.query(query, want), want)
        left_sql = values[0].sql if len(values) == 1 else f"({', '.join(value.sql for value in values)})"
        return Typed(f"({left_sql} IN ({sql}))", BOOLEAN)

    def _by_length(self, values: list[Typed], sql: str, kinds: Types) -> tuple[list[Typed], str, Types]:
        """The values, and a query for them, with intervals as what they are compared by."""
        columns = [Typed(f"`_v{number}`", kind) for number, kind in enumerate(kinds)]
        compared = [comparable(column) for column in columns]
        if compared == columns:
            return values, sql, kinds
        listed = ", ".join(column.sql for column in compared)
        source = f"({sql}) AS `_q`({', '.join(column.sql for column in columns)})"
        return list(map(comparable, values)), f"SELECT {listed} FROM {source}", [each.type for each in compared]

    def _in_query(self, left: exp.Expression, query: exp.Expression) -> Typed:
        return self._quantified_query("=", left, query, every=False)

    def _quantified_query(self, symbol: str, left: exp.Expression, query: exp.Expression, *, every: bool) -> Typed:
        """x > ALL (query) and its like, with NULL where PostgreSQL has it.

        The query is summed up in one row: how many rows, how many not NULL, and what decides the comparison, which is
        the set of values for = ANY and <> ALL, and the least and the greatest for all others."""
        if row_of(left) is not None:
            return self._quantified_rows(symbol, left, query, every=every)
        values, kinds = self._compared(left, query)
        (value,), sql, (kind,) = self._by_length(values, self.query(query, kinds), kinds)
        by_set = (symbol, every) in (("=", False), ("<>", True))
        facts = "'s', collect_set(`_v`)" if by_set else "'l', min(`_v`), 'g', max(`_v`)"
        source = f"({sql}) AS `_q`(`_v`)"
        summary = f"(SELECT named_struct('n', count(*), 'm', count(`_v`), {facts}) FROM {source})"
        least, greatest = Typed(f"{summary}.l", kind), Typed(f"{summary}.g", kind)
        if by_set:
            decided = f"array_contains({summary}.s, {value.sql})"
        elif symbol in ("=", "<>"):  # some differ
            decided = f"({compare('<>', value, least).sql} OR {compare('<>', value, greatest).sql})"
        else:
            hardest = greatest if (symbol[0] == ">") == every else least
            decided = compare(symbol, value, hardest).sql
            decided = f"(NOT {decided})" if every else decided
        return Typed(
            f"CASE WHEN {summary}.n = 0 THEN {str(every).lower()} WHEN {value.sql} IS NULL THEN NULL "
            f"WHEN {decided} THEN {str(not every).lower()} WHEN {summary}.m < {summary}.n THEN NULL "
            f"ELSE {str(every).lower()} END",
            BOOLEAN,
        )

    def _quantified_rows(self, symbol: str, left: exp.Expression, query: exp.Expression, *, every: bool) -> Typed:
        """(a, b) IN (query), with NULL where PostgreSQL has it: where only what is NULL keeps a row from being equal.

        Spark compares structs with NULLs as if they were values. So rows with a NULL here or there are looked for as
        such: for each set of columns that are NULL on the left, among the other columns of the query, with each of
        them NULL or equal."""
        if (symbol, every) not in (("=", False), ("<>", True)):
            raise unsupported(f"a row compared with a subquery by {symbol} {'ALL' if every else 'ANY'}", left)
        if len(row_of(left)) > ROW_COLUMNS:
            raise unsupported(f"a row of more than {ROW_COLUMNS} columns compared with a subquery here", left)
        values, kinds = self._compared(left, query)
        values, sql, want = self._by_length(values, self.query(query, kinds), kinds)
        numbers = range(len(want))
        subsets = [part for size in range(1, len(want) + 1) for part in combinations(numbers, size)]

        def row(columns: Sequence[int], of: Callable[[int], str]) -> str:
            fields = [f"'{n}', {of(n)}" for n in columns]
            return f"named_struct({', '.join(fields)})"

        names = ", ".join(f"`_v{n}`" for n in numbers)
        sets = ", ".join(f"'s{''.join(map(str, part))}', collect_set({row(part, '`_v{}`'.format)})" for part in subsets)
        source = f"({sql}) AS `_q`({names})"
        summary = f"(SELECT named_struct('n', count(*), {sets}) FROM {source})"

        def found(part: Sequence[int], missing: Sequence[int]) -> str:
            def side(n: int) -> str:
                return f"CAST(NULL AS {want[n].spark})" if n in missing else f"CAST({values[n].sql} AS {want[n].spark})"

            return f"array_contains({summary}.s{''.join(map(str, part))}, {row(part, side)})"

        whens = [f"WHEN {summary}.n = 0 THEN false"]
        whens.append(f"WHEN {' AND '.join(f'{value.sql} IS NULL' for value in values)} THEN NULL")
        everything = tuple(numbers)
        for part in reversed(subsets):
            known = " AND ".join(f"{values[n].sql} IS {'NOT ' if n in part else ''}NULL" for n in numbers)
            if part == everything:
                whens.append(f"WHEN {known} AND {found(part, ())} THEN true")
            maybe = [found(part, missing) for size in range(len(part) + 1) for missing in combinations(part, size)]
            whens.append(f"WHEN {known} AND ({' OR '.join(maybe[1:] if part == everything else maybe)}) THEN NULL")
        result = f"CASE {' '.join(whens)} ELSE false END"
        return Typed(f"(NOT {result})" if every else result, BOOLEAN)

    def _compare_with_query(self, symbol: str, left: exp.Expression, query: exp.Expression) -> Typed:
        """(a, b) = (query of one row)"""
        values, want = self._compared(left, query)
        columns = ", ".join(f"`_v{number}`" for number in range(len(want)))
        fields = ", ".join(f"'{number}', `_v{number}`" for number in range(len(want)))
        row = f"(SELECT named_struct({fields}) FROM ({self.query(query, want)}) AS `_q`({columns}))"
        other = [Typed(f"{row}.`{number}`", kind) for number, kind in enumerate(want)]
        return compare_rows(symbol, values, other)


def _is_of_a_group(node: exp.Expression) -> bool:
    """Whether a query stands among the columns of groups. It may depend on what is grouped by, which Spark knows of
    those inside of an aggregate; and so it has one value in each group."""
    clause, block = node, node.parent
    while block is not None and not isinstance(block, exp.Select):
        if is_call(block):
            return False
        clause, block = block, block.parent
    group = block.args.get("group") if block is not None else None
    if group is None or clause.arg_key != "expressions":
        return False
    # In grouping sets the columns of an aggregate are those of the row, and not of the group.
    return node not in group.expressions and group.find(exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple) is None
