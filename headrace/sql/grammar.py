"""Statements other than queries: what sqlglot's parser does not know, or knows too leniently.

Each function reads one kind of statement off the parser, which has the first keyword behind it, and returns what is
still missing only the text: a :class:`functools.partial` of a class of :mod:`headrace.sql.statements`. Names,
types, expressions and queries are sqlglot's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType

from headrace.catalog import INDEX, MATERIALIZED_VIEW, SOURCE, TABLE, VIEW
from headrace.errors import DuplicateColumn, InvalidDefinition, SqlSyntaxError, Unsupported
from headrace.sql import statements as s
from headrace.sql.datatypes import sql_type
from headrace.sql.dialect import Parser, fold, fold_name, parse_expression, print_sql
from headrace.sql.names import check_column_names, relation_name

Unfinished = Callable[..., s.Statement]


def statement(p: Parser) -> Unfinished:
    for words, parse in _STATEMENTS.items():
        if p._match_text_seq(*words.split()):
            return parse(p)
    word = p._curr.text.upper()
    if word in _REFUSED and p._curr.token_type not in (TokenType.STRING, TokenType.IDENTIFIER):
        raise Unsupported(f"{word} is not supported", hint=_REFUSED[word], position=p._curr.start + 1)
    return partial(s.Select, query=fold(p.parse_query()))


# --- small parts ------------------------------------------------------------------------------------------------


def _identifier(p: Parser) -> exp.Identifier:
    identifier = p._parse_id_var(any_token=False)
    if not isinstance(identifier, exp.Identifier):
        p.raise_error("expected a name")
    return fold(identifier)


def _id(p: Parser) -> str:
    return _identifier(p).name


def _name(p: Parser) -> str:
    position = p._curr.start + 1 if p._curr else None
    parts = [_id(p)]
    while p._match(TokenType.DOT):
        parts.append(_id(p))
    return relation_name(parts, position)


def _names(p: Parser) -> tuple[str, ...]:
    names = p._parse_wrapped_csv(partial(_identifier, p))
    return tuple(name.name for name in names)


def _expect(p: Parser, *words: str) -> None:
    if not p._match_text_seq(*words):
        for word in words:  # stand at the word that is wrong
            if not p._match_text_seq(word):
                break
        p.raise_error(f"expected {' '.join(words)}")


def _if_not_exists(p: Parser) -> bool:
    return bool(p._match_text_seq("IF", "NOT", "EXISTS"))


def _expression(p: Parser) -> exp.Expression:
    expression = p._parse_disjunction()
    if expression is None:
        p.raise_error("expected an expression")
    return fold(expression)


def _where(p: Parser) -> exp.Expression | None:
    return _expression(p) if p._match(TokenType.WHERE) else None


def _returning(p: Parser) -> tuple[exp.Expression, ...]:
    if not p._match(TokenType.RETURNING):
        return ()
    items = p._parse_csv(p._parse_expression)
    if not items:
        p.raise_error("expected an expression")
    return tuple(fold(item) for item in items)


def _string(p: Parser) -> str:
    literal = p._parse_string()
    if literal is None:
        p.raise_error("expected a string")
    return literal.name


def _value(p: Parser) -> str:
    """The value of an option or a parameter, as text: 'a string', 5, -1, true, or a bare word."""
    if p._match_text_seq("-"):
        return f"-{_value(p)}"
    if p._curr.token_type in (TokenType.R_PAREN, TokenType.COMMA, TokenType.EQ) or not p._curr:
        p.raise_error("expected a value")
    literal = p._parse_string()
    if literal is not None:
        return literal.name
    p._advance()
    return p._prev.text if p._prev.token_type in (TokenType.IDENTIFIER, TokenType.NUMBER) else fold_name(p._prev.text)


def _options(p: Parser) -> tuple[tuple[str, str], ...]:
    """WITH (key = value, …)"""

    def option() -> tuple[str, str]:
        key = [_string(p) if p._match(TokenType.STRING, advance=False) else _id(p)]
        while p._match(TokenType.DOT):
            key.append(_id(p))
        if not p._match(TokenType.EQ):
            p.raise_error("expected =")
        return ".".join(key), _value(p)

    options = p._parse_wrapped_csv(option)
    for key in {key for key, _ in options}:
        if sum(1 for other, _ in options if other == key) > 1:
            raise SqlSyntaxError(f'option "{key}" specified more than once')
    return tuple(options)


def _kind(p: Parser) -> str | None:
    for words, kind in _KINDS.items():
        if p._match_text_seq(*words.split()):
            return kind
    return None


_KINDS = {"TABLE": TABLE, "MATERIALIZED VIEW": MATERIALIZED_VIEW, "VIEW": VIEW, "INDEX": INDEX, "SOURCE": SOURCE}


# --- CREATE -----------------------------------------------------------------------------------------------------


def _create(p: Parser) -> Unfinished:
    replace = bool(p._match_text_seq("OR", "REPLACE"))
    if p._match_text_seq("TABLE"):
        if replace:
            raise Unsupported("CREATE OR REPLACE TABLE is not supported")
        return _create_table(p)
    if p._match_text_seq("MATERIALIZED", "VIEW"):
        if replace:
            raise Unsupported("CREATE OR REPLACE MATERIALIZED VIEW is not supported", hint="drop it first")
        return _create_materialized_view(p)
    if p._match_text_seq("VIEW"):
        return _create_view(p, replace)
    what = p._curr.text.upper()
    if what in _NOT_CREATED:
        raise Unsupported(f"CREATE {what} is not supported yet", position=p._curr.start + 1)
    p.raise_error("unknown CREATE")


_NOT_CREATED = {
    "SOURCE", "SINK", "INDEX", "SCHEMA", "DATABASE", "FUNCTION", "CONNECTION", "SECRET", "SUBSCRIPTION", "USER", "ROLE",
    "TYPE", "SEQUENCE", "TRIGGER", "AGGREGATE", "EXTENSION", "UNIQUE", "TEMP", "TEMPORARY", "UNLOGGED", "DOMAIN",
}  # fmt: skip


def _create_materialized_view(p: Parser) -> Unfinished:
    if_not_exists = _if_not_exists(p)
    name = _name(p)
    columns = _names(p) if p._match(TokenType.L_PAREN, advance=False) else ()
    check_column_names(columns)
    options = _options(p) if p._match(TokenType.WITH) else ()
    if not p._match(TokenType.ALIAS):
        p.raise_error("expected AS")
    query = fold(p.parse_query())
    return partial(
        s.CreateMaterializedView,
        name=name,
        query=query,
        column_names=columns,
        if_not_exists=if_not_exists,
        options=options,
    )


def _create_view(p: Parser, replace: bool) -> Unfinished:
    if_not_exists = _if_not_exists(p)
    name = _name(p)
    columns = _names(p) if p._match(TokenType.L_PAREN, advance=False) else ()
    check_column_names(columns)
    if p._match(TokenType.WITH, advance=False):
        raise Unsupported("CREATE VIEW with WITH options is not supported")
    if not p._match(TokenType.ALIAS):
        p.raise_error("expected AS")
    query = fold(p.parse_query())
    return partial(
        s.CreateView, name=name, query=query, column_names=columns, if_not_exists=if_not_exists, or_replace=replace
    )


class _TableDefinition:
    """What the parentheses of a CREATE TABLE say, collected."""

    def __init__(self) -> None:
        self.columns: list[s.ColumnSpec] = []
        self.bare_names: list[str] = []
        self.pk: tuple[str, ...] | None = None

    def set_pk(self, name: str, names: tuple[str, ...]) -> None:
        if self.pk is not None:
            raise InvalidDefinition(f'multiple primary keys for table "{name}" are not allowed')
        self.pk = names


def _create_table(p: Parser) -> Unfinished:
    if_not_exists = _if_not_exists(p)
    name = _name(p)
    definition = _TableDefinition()
    if p._match(TokenType.L_PAREN) and not p._match(TokenType.R_PAREN):
        p._parse_csv(lambda: _table_item(p, name, definition) or True)
        p._match_r_paren()
    fields = _table_options(p)
    if p._match(TokenType.ALIAS):
        return _create_table_as(p, name, definition, if_not_exists, fields)
    if definition.bare_names:
        p.raise_error("expected a type or AS")
    if not definition.columns:
        raise Unsupported("a table without columns is not supported")
    if "on_conflict" in fields and not definition.pk:
        raise InvalidDefinition("ON CONFLICT needs a primary key", hint="without one, rows cannot conflict")
    return partial(
        s.CreateTable,
        name=name,
        columns=_finish_columns(definition),
        pk=definition.pk or (),
        if_not_exists=if_not_exists,
        **fields,
    )


def _create_table_as(
    p: Parser, name: str, definition: _TableDefinition, if_not_exists: bool, fields: dict[str, Any]
) -> Unfinished:
    if definition.columns or definition.pk is not None:
        raise Unsupported("CREATE TABLE with both column types and AS is not supported", hint="leave the types out")
    if fields.pop("on_conflict", "overwrite") != "overwrite":
        raise Unsupported("CREATE TABLE AS with ON CONFLICT is not supported")
    check_column_names(definition.bare_names)
    query = fold(p.parse_query())
    return partial(
        s.CreateTableAs,
        name=name,
        query=query,
        column_names=tuple(definition.bare_names),
        if_not_exists=if_not_exists,
        **fields,
    )


def _table_options(p: Parser) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    while True:
        if p._match_text_seq("APPEND", "ONLY"):
            fields["append_only"] = True
        elif p._match_text_seq("ON", "CONFLICT"):
            fields["on_conflict"] = _conflict_action(p)
        elif p._match(TokenType.WITH):
            fields["options"] = _options(p)
        elif p._match_texts(("FORMAT", "INCLUDE", "ENGINE", "FROM")):
            raise Unsupported(f"CREATE TABLE … {p._prev.text.upper()} is not supported yet", position=p._prev.start + 1)
        else:
            return fields


def _conflict_action(p: Parser) -> str:
    for words, action in _CONFLICT_ACTIONS.items():
        if p._match_text_seq(*words.split()):
            return action
    p.raise_error("expected an action")


_CONFLICT_ACTIONS = {
    "OVERWRITE": "overwrite",
    "IGNORE": "ignore",
    "DO NOTHING": "ignore",
    "DO UPDATE FULL": "overwrite",
    "DO UPDATE IF NOT NULL": "update_if_not_null",
}


def _table_item(p: Parser, table: str, definition: _TableDefinition) -> None:
    """A column, or a constraint of the table."""
    if p._match_text_seq("CONSTRAINT"):
        _id(p)
    if p._match(TokenType.PRIMARY_KEY):
        definition.set_pk(table, _names(p))
        return
    for words in ("UNIQUE", "CHECK", "FOREIGN KEY", "EXCLUDE", "WATERMARK", "LIKE"):
        if p._match_text_seq(words):
            raise Unsupported(f"{words} is not supported in CREATE TABLE", position=p._prev.start + 1)
    if p._match(TokenType.STAR):
        raise Unsupported("CREATE TABLE (*) is not supported yet", position=p._prev.start + 1)
    name = _id(p)
    if p._curr.token_type in (TokenType.COMMA, TokenType.R_PAREN):
        definition.bare_names.append(name)
        return
    _column(p, table, name, definition)


def _column(p: Parser, table: str, name: str, definition: _TableDefinition) -> None:
    data_type = p._parse_types(schema=True)
    if data_type is None:
        p.raise_error("expected a type")
    nullable, default, generated = True, None, None
    while True:
        if p._match_text_seq("CONSTRAINT"):
            _id(p)
        if p._match(TokenType.PRIMARY_KEY):
            definition.set_pk(table, (name,))
        elif p._match_text_seq("NOT", "NULL"):
            nullable = False
        elif p._match_text_seq("NULL"):
            pass
        elif p._match_text_seq("DEFAULT"):
            default = _constraint_expression(p)
        elif p._match_text_seq("GENERATED", "ALWAYS", "AS"):
            if p._match_text_seq("IDENTITY"):
                raise Unsupported("GENERATED ALWAYS AS IDENTITY is not supported", position=p._prev.start + 1)
            generated = print_sql(p._parse_wrapped(partial(_expression, p)))
            if p._match_text_seq("VIRTUAL"):
                raise Unsupported("a VIRTUAL generated column is not supported", hint="use STORED")
            p._match_text_seq("STORED")
        elif p._match(TokenType.ALIAS):
            generated = _constraint_expression(p)
        else:
            break
    for words in ("UNIQUE", "CHECK", "REFERENCES", "COLLATE"):
        if p._match_text_seq(words):
            raise Unsupported(f"{words} is not supported in CREATE TABLE", position=p._prev.start + 1)
    if default is not None and generated is not None:
        raise InvalidDefinition(f'both default and generation expression specified for column "{name}"')
    definition.columns.append(
        s.ColumnSpec(name=name, type=sql_type(data_type), nullable=nullable, default=default, generated=generated)
    )


def _constraint_expression(p: Parser) -> str:
    """Without parentheses only what cannot be confused with the next constraint, as in PostgreSQL."""
    expression = None if p._match(TokenType.NOT, advance=False) else p._parse_bitwise()
    if expression is None:
        p.raise_error("expected an expression")
    return print_sql(fold(expression).unnest())


def _finish_columns(definition: _TableDefinition) -> tuple[s.ColumnSpec, ...]:
    names = [column.name for column in definition.columns]
    check_column_names(names)
    _check_generated(definition.columns)
    pk = definition.pk or ()
    for position, key in enumerate(pk):
        if key not in names:
            raise InvalidDefinition(f'column "{key}" named in key does not exist')
        if key in pk[:position]:
            raise DuplicateColumn(f'column "{key}" appears twice in primary key constraint')
    return tuple(
        s.ColumnSpec(
            name=column.name,
            type=column.type,
            nullable=column.nullable and column.name not in pk,
            default=column.default,
            generated=column.generated,
        )
        for column in definition.columns
    )


def _check_generated(columns: list[s.ColumnSpec]) -> None:
    """A generated column is computed from the columns that a statement gives, in one step."""
    generated = {column.name for column in columns if column.generated is not None}
    for column in columns:
        if column.generated is None:
            continue
        for used in parse_expression(column.generated).find_all(exp.Column):
            if used.name in generated:
                raise InvalidDefinition(f'cannot use generated column "{used.name}" in column generation expression')


# --- DROP, ALTER, COMMENT ---------------------------------------------------------------------------------------


def _drop(p: Parser) -> Unfinished:
    start = p._curr
    kind = _kind(p)
    if kind is None:
        if start and start.text.upper() in _NOT_CREATED:
            raise Unsupported(f"DROP {start.text.upper()} is not supported yet", position=start.start + 1)
        p.raise_error("unknown DROP")
    if_exists = bool(p._match_text_seq("IF", "EXISTS"))
    names = tuple(p._parse_csv(partial(_name, p)))
    cascade = bool(p._match_text_seq("CASCADE"))
    if not cascade:
        p._match_text_seq("RESTRICT")
    return partial(s.Drop, kind=kind, names=names, if_exists=if_exists, cascade=cascade)


def _alter(p: Parser) -> Unfinished:
    if p._match_text_seq("SYSTEM"):
        if p._match_text_seq("RESET"):
            return partial(s.SetParameter, name=_parameter(p), value=None, system=True)
        _expect(p, "SET")
        return _assignment(p, system=True)
    start = p._curr
    kind = _kind(p)
    if kind is None:
        if start and start.text.upper() in _NOT_CREATED:
            raise Unsupported(f"ALTER {start.text.upper()} is not supported yet", position=start.start + 1)
        p.raise_error("unknown ALTER")
    if p._match_text_seq("IF", "EXISTS"):
        raise Unsupported(f"ALTER {kind.upper()} IF EXISTS is not supported")
    name = _name(p)
    if p._match_text_seq("RENAME", "TO"):
        return partial(s.Rename, kind=kind, name=name, new_name=_id(p))
    if not p._curr:
        p.raise_error("expected an action")
    action = [p._curr.text.upper()]
    if p._next.token_type not in (TokenType.VAR, TokenType.IDENTIFIER, TokenType.L_PAREN) and p._next:
        action.append(p._next.text.upper())
    raise Unsupported(f"ALTER {kind.upper()} {' '.join(action)} is not supported yet", position=p._curr.start + 1)


def _comment(p: Parser) -> Unfinished:
    _expect(p, "ON")
    column = None
    if p._match_text_seq("COLUMN"):
        kind, position = "column", p._curr.start + 1 if p._curr else None
        parts = [_id(p)]
        while p._match(TokenType.DOT):
            parts.append(_id(p))
        if len(parts) < 2:
            raise SqlSyntaxError("column name must be qualified", position=position, hint="write table.column")
        *relation, column = parts
        name = relation_name(relation, position)
    else:
        kind = _kind(p)
        if kind is None:
            p.raise_error("unknown COMMENT")
        name = _name(p)
    _expect(p, "IS")
    text = None if p._match(TokenType.NULL) else _string(p)
    return partial(s.Comment, kind=kind, name=name, column=column, text=text)


# --- INSERT, UPDATE, DELETE -------------------------------------------------------------------------------------


def _insert(p: Parser) -> Unfinished:
    _expect(p, "INTO")
    table = _name(p)
    if p._match(TokenType.ALIAS):
        raise Unsupported("INSERT INTO … AS alias is not supported", position=p._prev.start + 1)
    columns: tuple[str, ...] = ()
    if p._match(TokenType.L_PAREN, advance=False) and p._next.text.upper() not in ("SELECT", "WITH", "VALUES", "("):
        columns = _names(p)
    for position, column in enumerate(columns):
        if column in columns[:position]:
            raise DuplicateColumn(f'column "{column}" specified more than once')
    rows, query = None, None
    if p._match_text_seq("DEFAULT", "VALUES"):
        rows = ((),)
    elif p._match(TokenType.VALUES):
        rows = _rows(p, columns)
    else:
        query = fold(p.parse_query())
    if p._match_text_seq("ON", "CONFLICT"):
        raise Unsupported(
            "INSERT … ON CONFLICT is not supported",
            hint="declare it on the table: CREATE TABLE … ON CONFLICT OVERWRITE | IGNORE | DO UPDATE IF NOT NULL",
            position=p._tokens[p._index - 2].start + 1,
        )
    return partial(s.Insert, table=table, columns=columns, rows=rows, query=query, returning=_returning(p))


def _rows(p: Parser, columns: tuple[str, ...]) -> tuple[tuple[exp.Expression, ...], ...]:
    def value() -> exp.Expression:
        return exp.var("DEFAULT") if p._match(TokenType.DEFAULT) else _expression(p)

    rows = tuple(tuple(row) for row in p._parse_csv(lambda: p._parse_wrapped_csv(value)))
    if any(len(row) != len(rows[0]) for row in rows):
        raise SqlSyntaxError("VALUES lists must all be the same length")
    if columns and len(rows[0]) > len(columns):
        raise SqlSyntaxError("INSERT has more expressions than target columns")
    if columns and len(rows[0]) < len(columns):
        raise SqlSyntaxError("INSERT has more target columns than expressions")
    return rows


def _alias(p: Parser) -> str | None:
    if p._match(TokenType.ALIAS):
        return _id(p)
    if p._match_texts(("SET", "WHERE", "USING", "RETURNING", "FROM"), advance=False) or not p._curr:
        return None
    return _id(p)


def _update(p: Parser) -> Unfinished:
    table, alias = _name(p), _alias(p)
    _expect(p, "SET")
    assignments: list[tuple[str, exp.Expression]] = []
    for assignment in p._parse_csv(p._parse_update_assignment):
        assignments += _assignments(fold(assignment))
    for position, (column, _) in enumerate(assignments):
        if column in [other for other, _ in assignments[:position]]:
            raise SqlSyntaxError(f'multiple assignments to same column "{column}"')
    if p._match(TokenType.FROM):
        raise Unsupported("UPDATE … FROM is not supported", position=p._prev.start + 1)
    where = _where(p)
    return partial(
        s.Update, table=table, alias=alias, assignments=tuple(assignments), where=where, returning=_returning(p)
    )


def _assignments(assignment: exp.Expression) -> list[tuple[str, exp.Expression]]:
    target, value = assignment.this, assignment.expression
    if isinstance(target, exp.Column) and not target.table:
        return [(target.name, value)]
    if isinstance(target, (exp.Tuple, exp.Paren)):
        targets = target.expressions if isinstance(target, exp.Tuple) else [target.this]
        if isinstance(value, exp.Anonymous) and value.this == "row":
            value = exp.Tuple(expressions=value.expressions)
        values = value.expressions if isinstance(value, exp.Tuple) else [value.unnest()]
        if len(targets) == len(values) and all(isinstance(t, exp.Column) and not t.table for t in targets):
            return [(t.name, v) for t, v in zip(targets, values, strict=True)]
        raise Unsupported("UPDATE … SET (…) = subquery is not supported")
    raise Unsupported(f"SET {print_sql(target)} is not supported", hint="assign to a whole column")


def _delete(p: Parser) -> Unfinished:
    _expect(p, "FROM")
    table, alias = _name(p), _alias(p)
    if p._match(TokenType.USING):
        raise Unsupported("DELETE … USING is not supported", position=p._prev.start + 1)
    where = _where(p)
    return partial(s.Delete, table=table, alias=alias, where=where, returning=_returning(p))


# --- SHOW, SET, DESCRIBE, EXPLAIN and the like ------------------------------------------------------------------


def _show(p: Parser) -> Unfinished:
    if p._match_text_seq("CREATE"):
        kind = _kind(p)
        return partial(s.ShowCreate, kind=kind, name=_name(p))
    if p._match_text_seq("COLUMNS", "FROM"):
        return partial(s.Describe, name=_name(p))
    for words, what in _SHOWN.items():
        if p._match_text_seq(*words.split()):
            if p._match_texts(("FROM", "IN")):
                relation_name([_id(p), "*"])
            like = _string(p) if p._match(TokenType.LIKE) else None
            return partial(s.Show, what=what, like=like)
    for words in _NOT_SHOWN:
        if p._match_text_seq(*words.split()):
            raise Unsupported(f"SHOW {words} is not supported yet", position=p._prev.start + 1)
    return partial(s.ShowParameter, name=_parameter(p))


_SHOWN = {
    "TABLES": "tables",
    "SOURCES": "sources",
    "VIEWS": "views",
    "MATERIALIZED VIEWS": "materialized views",
    "INDEXES": "indexes",
    "PARAMETERS": "parameters",
    "ALL": "parameters",
}

_NOT_SHOWN = (
    "SINKS", "FUNCTIONS", "CONNECTIONS", "DATABASES", "SCHEMAS", "CLUSTER", "JOBS", "PROCESSLIST", "SECRETS",
    "SUBSCRIPTIONS", "CURSORS", "COLUMNS",
)  # fmt: skip


def _parameter(p: Parser) -> str:
    for words, name in (("TIME ZONE", "timezone"), ("TRANSACTION ISOLATION LEVEL", "transaction_isolation")):
        if p._match_text_seq(*words.split()):
            return name
    parts = [_id(p)]
    while p._match(TokenType.DOT):
        parts.append(_id(p))
    return ".".join(parts)


def _set(p: Parser) -> Unfinished:
    if p._match_text_seq("LOCAL"):
        raise Unsupported("SET LOCAL is not supported", hint="there are no transactions; use SET")
    p._match_text_seq("SESSION")
    if p._match_text_seq("TIME", "ZONE"):
        return partial(
            s.SetParameter, name="timezone", value=None if p._match_texts(("DEFAULT", "LOCAL")) else _value(p)
        )
    return _assignment(p, system=False)


def _assignment(p: Parser, *, system: bool) -> Unfinished:
    name = _parameter(p)
    if not p._match(TokenType.EQ) and not p._match_text_seq("TO"):
        p.raise_error("expected = or TO")
    if p._match(TokenType.DEFAULT):
        return partial(s.SetParameter, name=name, value=None, system=system)
    value = ", ".join(p._parse_csv(partial(_value, p)))
    return partial(s.SetParameter, name=name, value=value, system=system)


def _reset(p: Parser) -> Unfinished:
    return partial(s.SetParameter, name=_parameter(p), value=None)


def _describe(p: Parser) -> Unfinished:
    p._match_text_seq("TABLE")
    return partial(s.Describe, name=_name(p))


def _explain(p: Parser) -> Unfinished:
    if p._match(TokenType.L_PAREN, advance=False) and p._next.text.upper() not in ("SELECT", "WITH", "VALUES", "("):
        raise Unsupported("EXPLAIN with options in parentheses is not supported", position=p._curr.start + 1)
    analyze = bool(p._match_text_seq("ANALYZE"))
    p._match_text_seq("VERBOSE")
    if not p._curr:
        p.raise_error("expected a statement")
    start = p._curr.start
    inner = statement(p)
    text = p.sql[start : p._tokens[-1].end + 1]
    return partial(s.Explain, statement=inner(sql=text), analyze=analyze)


def _compact(p: Parser) -> Unfinished:
    return partial(s.Compact, name=_name(p) if p._curr else None)


def _no_transactions(p: Parser) -> Unfinished:
    raise Unsupported(
        f"{p._prev.text.upper()} is not supported: there are no transactions",
        hint="every statement takes effect by itself",
        position=p._prev.start + 1,
    )


_STATEMENTS: dict[str, Callable[[Parser], Unfinished]] = {
    "CREATE": _create,
    "DROP": _drop,
    "ALTER": _alter,
    "COMMENT": _comment,
    "INSERT": _insert,
    "UPDATE": _update,
    "DELETE": _delete,
    "SHOW": _show,
    "SET": _set,
    "RESET": _reset,
    "DESCRIBE": _describe,
    "DESC": _describe,
    "EXPLAIN": _explain,
    "FLUSH": lambda p: partial(s.Flush),
    "VACUUM": lambda p: partial(s.Vacuum),
    "COMPACT": _compact,
    **dict.fromkeys(
        ("BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK", "ABORT", "END", "SAVEPOINT"), _no_transactions
    ),
}

_REFUSED: dict[str, str | None] = {
    "TRUNCATE": "use DELETE FROM",
    "MERGE": None,
    "COPY": None,
    "GRANT": None,
    "REVOKE": None,
    "ANALYZE": None,
    "REFRESH": "a materialized view is always up to date",
    "REINDEX": None,
    "LOCK": None,
    "PREPARE": None,
    "EXECUTE": None,
    "DEALLOCATE": None,
    "DECLARE": None,
    "FETCH": None,
    "CLOSE": None,
    "CALL": None,
    "DO": None,
    "USE": None,
    "WAIT": "FLUSH waits until everything is visible",
    "KILL": None,
    "CANCEL": None,
    "RECOVER": None,
    "DISCARD": None,
    "LISTEN": None,
    "NOTIFY": None,
}
