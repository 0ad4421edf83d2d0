"""Queries that speak of the system, made into queries that do not.

Names of system relations become names of tables that are added to the catalog for this one query; functions become
expressions; casts between numbers and names of objects are carried out. A query that has none of it stays what it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from headrace.catalog import TABLE, Catalog, Column, Relation
from headrace.errors import UndefinedFunction, Unsupported
from headrace.serving.pg_catalog import functions
from headrace.serving.pg_catalog.absent import ABSENT
from headrace.serving.pg_catalog.drivers import without_recursion
from headrace.serving.pg_catalog.relations import NAMESPACES, Context
from headrace.serving.pg_catalog.system import SCHEMAS
from headrace.sql.dialect import call
from headrace.sql.names import DATABASE

POSTGRES = SCHEMAS["pg_catalog"]
SEARCHED = ("pg_catalog", "rw_catalog")
"""Where a name without a schema is looked for that is no relation of the user's, as in RisingWave"""

_OPERATORS: dict[str, type[exp.Expression]] = {
    "~": exp.RegexpLike, "~*": exp.RegexpILike, "=": exp.EQ, "<>": exp.NEQ, "!=": exp.NEQ, "<": exp.LT, ">": exp.GT,
    "<=": exp.LTE, ">=": exp.GTE, "+": exp.Add, "-": exp.Sub, "~~": exp.Like, "~~*": exp.ILike, "||": exp.DPipe,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SystemQuery:
    query: exp.Expression
    catalog: Catalog
    """With the system relations that the query reads"""
    tables: dict[int, pa.Table] = field(default_factory=dict)
    """Their rows, by their number in that catalog"""


def resolve(query: exp.Expression, context: Context) -> SystemQuery:
    query = without_recursion(query)
    if not _speaks_of_the_system(query, context.catalog):
        return SystemQuery(query=query, catalog=context.catalog)
    resolver = _Resolver(context, {literal.this for literal in query.find_all(exp.Literal)})
    resolved = query.copy().transform(resolver.node, copy=False)
    return SystemQuery(query=resolved, catalog=resolver.catalog, tables=resolver.tables)


def _speaks_of_the_system(query: exp.Expression, catalog: Catalog) -> bool:
    return any(
        (isinstance(node, exp.Table) and _find(node, catalog, ()) is not None)
        or (isinstance(node, exp.Dot) and node.this.name in SCHEMAS)
        or (isinstance(node, exp.Anonymous) and _of_the_system(node.name.lower()))
        or (isinstance(node, exp.Cast) and object_type(node.args.get("to")) is not None)
        or isinstance(node, exp.Operator)
        for node in query.walk()
    )


def _of_the_system(function: str) -> bool:
    return function in functions.FUNCTIONS or functions.of_risingwave(function)


def _find(table: exp.Table, catalog: Catalog, ctes: tuple[str, ...]) -> tuple[str, str] | None:
    """Schema and name of the system relation that is meant."""
    schema, name = table.db, table.this.name if table.this is not None else ""  # ROWS FROM has no name
    if table.catalog and table.catalog != DATABASE:
        return None
    if schema:
        return (schema, name) if name in SCHEMAS.get(schema, ()) else None
    if name in ctes or catalog.find(name) is not None:
        return None
    return next(((schema, name) for schema in SEARCHED if name in SCHEMAS[schema]), None)


def object_type(kind: exp.Expression | None) -> str | None:
    """regclass, oid, name, and everything that is written as pg_catalog.type"""
    if isinstance(kind, exp.ObjectIdentifier):
        return kind.name.lower()
    if isinstance(kind, exp.DataType):
        inner = kind.args.get("kind")
        if isinstance(inner, exp.Dot) and inner.this.name == "pg_catalog":
            return inner.expression.name.lower()
        if kind.this in (exp.DataType.Type.NAME, exp.DataType.Type.USERDEFINED) and kind.sql().lower() in _NAMES:
            return kind.sql().lower().strip('"')
        if kind.this == exp.DataType.Type.ARRAY and kind.expressions and object_type(kind.expressions[0]) is not None:
            return f"{object_type(kind.expressions[0])}[]"
    return None


_SCALAR = {"string_to_array", "current_schemas", "parse_ident"}
_NAMES = {"name", "oid", '"char"', "regclass", "regtype", "regproc", "regnamespace", "regrole", "xid", "int2vector"}
_PLAIN = {
    "name": "varchar", "char": "varchar", "text": "varchar", "oid": "int", "xid": "int", "bpchar": "varchar",
    "int2": "smallint", "int4": "int", "int8": "bigint", "bool": "boolean", "float4": "real",
    "float8": "double precision", "int2vector": "int[]", "regproc": "varchar", "regrole": "varchar",
    "regprocedure": "varchar", "regoperator": "varchar", "regconfig": "varchar", "regdictionary": "varchar",
}  # fmt: skip


class _Resolver:
    def __init__(self, context: Context, words: set[str]):
        self._context = context
        self._words = words
        self.catalog = context.catalog
        self.tables: dict[int, pa.Table] = {}
        self._numbers: dict[tuple[str, str], str] = {}

    def node(self, node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Table):
            return self._table(node)
        if isinstance(node, exp.Column) and node.db in SCHEMAS:
            node.set("db", None)
            node.set("catalog", None)
            return node
        if isinstance(node, exp.Dot) and node.this.name in SCHEMAS:
            return node.expression.transform(self.node, copy=False)
        if isinstance(node, exp.Anonymous) and self._collects_nothing(node):
            return exp.Cast(this=exp.Array(), to=exp.DataType.build("varchar[]", "postgres"))
        if isinstance(node, exp.Anonymous) and (build := functions.FUNCTIONS.get(node.name.lower())) is not None:
            return self._call(node, build)
        if isinstance(node, exp.Anonymous) and functions.of_risingwave(node.name):
            raise functions.unknown_of_risingwave(node)
        if isinstance(node, exp.Cast) and (kind := object_type(node.args.get("to"))) is not None:
            return self._cast(node, kind)
        if isinstance(node, exp.Operator):
            return self._operator(node)
        if isinstance(node, exp.DPipe):
            return self._concatenation(node)
        if isinstance(node, exp.Bracket) and node.this.name.endswith("indoption"):
            return self._option(node)
        if isinstance(node, exp.Collate):
            return node.this.transform(self.node, copy=False)
        return node

    def _collects_nothing(self, node: exp.Anonymous) -> bool:
        """ARRAY(SELECT … FROM what is always empty): Spark could not plan all that psql puts into it."""
        query = node.expressions[0] if node.name.lower() == "array" and node.expressions else None
        source = query.args.get("from_") if isinstance(query, exp.Select) else None
        if source is None or not isinstance(source.this, exp.Table):
            return False
        found = _find(source.this, self._context.catalog, ())
        return found is not None and found[1] in ABSENT

    def _call(self, node: exp.Anonymous, build: functions.Build) -> exp.Expression:
        arguments = [each.transform(self.node, copy=False) for each in node.expressions]
        made = build(arguments, self._context)
        if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
            # Its result is called as the function was.
            return exp.Alias(this=made, alias=exp.to_identifier(node.name.lower(), quoted=True))
        if isinstance(node.parent, exp.Dot) and isinstance(node.parent.parent, exp.Select):
            return exp.Alias(this=made, alias=exp.to_identifier(node.name.lower(), quoted=True))
        return made

    def _table(self, node: exp.Table) -> exp.Expression:
        if isinstance(node.this, exp.Anonymous) and node.this.name not in POSTGRES:
            node.set("db", None)
            return self._one_value(node) if node.this.name in _SCALAR else node
        ctes = tuple(cte.alias for with_ in node.root().find_all(exp.With) for cte in with_.expressions)
        found = _find(node, self._context.catalog, ctes)
        if found is None:
            return node
        name = self._add(*found)
        if node.args.get("alias") is None:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(node.this.name, quoted=True)))
        node.set("this", exp.to_identifier(name, quoted=True))
        node.set("db", None)
        node.set("catalog", None)
        return node

    def _one_value(self, node: exp.Table) -> exp.Expression:
        """A function in FROM that returns no set is a table of one row, which is called as its column is."""
        name = node.alias or node.this.name
        value = exp.alias_(node.this.transform(self.node, copy=False), name, quoted=True)
        return exp.Select(expressions=[value]).subquery(exp.to_identifier(name, quoted=True))

    def _add(self, schema: str, name: str) -> str:
        """A table for the system relation, under a name that no user can give."""
        if (schema, name) not in self._numbers:
            system = SCHEMAS[schema][name]
            relation = Relation(
                id=self.catalog.next_id,
                name=f"{schema}.{name}\0",
                kind=TABLE,
                columns=tuple(Column(name=column, type=kind) for column, kind in system.columns.items()),
            )
            self.catalog = self.catalog.add(relation)
            self.tables[relation.id] = system.table(self._context, self._words)
            self._numbers[schema, name] = relation.name
        return self._numbers[schema, name]

    @staticmethod
    def _concatenation(node: exp.DPipe) -> exp.Expression:
        """Of constants it is one: a pattern must be."""
        parts = [side.this if isinstance(side, exp.Cast) else side for side in (node.this, node.expression)]
        if all(isinstance(part, exp.Literal) and part.is_string for part in parts):
            return exp.Literal.string("".join(part.this for part in parts))
        return node

    @staticmethod
    def _option(node: exp.Bracket) -> exp.Expression:
        """An int2vector is text here, as clients print it; its elements count from 0."""
        at = exp.Add(this=exp.paren(node.expressions[0].copy()), expression=functions.number(1))
        part = call("split_part", node.this.copy(), exp.Literal.string(" "), at)
        return exp.Cast(this=part, to=exp.DataType.build("smallint"))

    def _operator(self, node: exp.Operator) -> exp.Expression:
        name = str(node.args["operator"]).split(".")[-1]
        left, right = (each.transform(self.node, copy=False) for each in (node.this, node.expression))
        if name in ("!~", "!~*"):
            return exp.Not(this=_OPERATORS[name[1:]](this=left, expression=right))
        if name not in _OPERATORS:
            raise Unsupported(f"OPERATOR({name}) is not supported")
        return _OPERATORS[name](this=left, expression=right)

    def _cast(self, node: exp.Cast, kind: str) -> exp.Expression:
        inner = node.this.transform(self.node, copy=False)
        if kind == "regclass":
            if isinstance(inner, exp.Literal) and inner.is_string:
                return functions.number(functions.relation_oid(inner.this, self._context))
            if _is_text(inner):
                return functions.named_relation(inner, self._context)
            if _compared(node):
                return inner
            return functions.lookup(inner, functions.relation_names(self._context), self._text(inner))
        if kind == "regtype":
            return inner if _compared(node) else functions.lookup(inner, functions.TYPE_NAMES, self._text(inner))
        if kind == "regnamespace":
            if isinstance(inner, exp.Literal) and inner.is_string:
                return functions.number(NAMESPACES.get(inner.this, 0))
            names = {number: name for name, number in NAMESPACES.items()}
            return inner if _compared(node) else functions.lookup(inner, names)
        if kind in ("regproc", "regprocedure") and isinstance(inner, exp.Literal) and _becomes_oid(node):
            raise UndefinedFunction(f'function "{inner.this}" does not exist')
        if kind == "regproc" and isinstance(inner, exp.Literal):
            inner = exp.Literal.string(inner.this.removeprefix("pg_catalog."))
        bare, brackets, _ = kind.partition("[")
        return exp.Cast(
            this=inner, to=exp.DataType.build(_PLAIN.get(bare, bare) + ("[]" if brackets else ""), "postgres")
        )

    @staticmethod
    def _text(inner: exp.Expression) -> exp.Expression:
        return exp.Cast(this=inner.copy(), to=exp.DataType.build("varchar"))


def _is_text(node: exp.Expression) -> bool:
    """Whether an expression that is not bound yet is surely a text: one that is put together, or cast to it."""
    if isinstance(node, exp.Cast):
        return node.to.this in (exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR)
    made = isinstance(node, exp.Anonymous) and node.name.lower() in ("format", "quote_ident", "concat")
    return made or isinstance(node, exp.DPipe)


def _compared(node: exp.Expression) -> bool:
    """Whether the number of an object is wanted, and not its name."""
    return _becomes_oid(node) or isinstance(node.parent, (exp.EQ, exp.NEQ, exp.In, exp.Join))


def _becomes_oid(node: exp.Expression) -> bool:
    return isinstance(node.parent, exp.Cast) and object_type(node.parent.args.get("to")) == "oid"
