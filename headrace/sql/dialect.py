"""The SQL that Headrace reads: sqlglot's RisingWave dialect, made strict where sqlglot is lenient.

sqlglot wants to understand every database's SQL; Headrace must not run what PostgreSQL would refuse. So:

* every function call stays a plain call by its name (``exp.Anonymous``): what a name means is decided by
  :mod:`headrace.sql.functions` alone, and a query printed by :func:`print_sql` parses to the same tree;
* every kind of string constant becomes the string it denotes;
* an error is reported at the token where PostgreSQL would report it;
* statements that sqlglot only knows as opaque commands are parsed by :mod:`headrace.sql.grammar`.

>>> print_sql(parse_expression("A + lower('x')"))
'"a" + lower(\\'x\\')'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.dialects.risingwave import RisingWave
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.generators.risingwave import RisingWaveGenerator
from sqlglot.parsers.risingwave import RisingWaveParser
from sqlglot.tokens import Token, TokenType

from headrace.errors import SqlSyntaxError, Unsupported
from headrace.sql.positions import OPERATOR
from headrace.sql.syntax import STRINGS, FunctionSyntax, call, string_token
from headrace.sql.text import check_terminated
from headrace.sql.tree import LambdaVariable, WholeRow


class UnexpectedToken(ParseError):
    """sqlglot tries alternatives by catching ParseError, so that is what a syntax error has to be at first."""

    def __init__(self, token: Token | None):
        super().__init__("unexpected token", [{}])
        self.token = token


class _Operators(dict):
    """What makes the node of an operator, when the parser has just read it: it also notes where."""

    def __init__(self, parser: Any, makers: dict):
        super().__init__(makers)
        self._parser = parser

    def __getitem__(self, token_type: TokenType) -> Callable[..., exp.Expression]:
        make, start = super().__getitem__(token_type), self._parser._prev.start

        def made(**parts: Any) -> exp.Expression:
            node = make(**parts)
            node.meta[OPERATOR] = start
            return node

        return made


def _refuse(construct: str):
    def refuse(self: Any, *_: Any) -> None:
        token = self._prev
        raise Unsupported(f"{construct} is not supported", position=token.start + 1 if token else None)

    return refuse


_BITS = dict.fromkeys((TokenType.BIT_STRING, TokenType.HEX_STRING), _refuse("a bit string"))


class Parser(FunctionSyntax, RisingWaveParser):
    FUNCTIONS: dict = {}
    FUNCTION_PARSERS = {
        "CAST": lambda self: self._parse_cast(True),
        "EXTRACT": lambda self: self._parse_extract(),
        "OVERLAY": lambda self: self._parse_overlay(),
        "POSITION": lambda self: self._parse_position(),
        "SUBSTRING": lambda self: self._parse_substring(),
        "TRIM": lambda self: self._parse_trim(),
        "TRY_CAST": lambda self: self._parse_try_cast(),
    }
    NO_PAREN_FUNCTION_PARSERS = {key: RisingWaveParser.NO_PAREN_FUNCTION_PARSERS[key] for key in ("ANY", "CASE")}
    NO_PAREN_FUNCTIONS = {
        TokenType.CURRENT_DATE: lambda: call("current_date"),
        TokenType.CURRENT_TIME: lambda: call("current_time"),
        TokenType.CURRENT_TIMESTAMP: lambda: call("current_timestamp"),
        TokenType.CURRENT_USER: lambda: call("current_user"),
        TokenType.CURRENT_SCHEMA: lambda: call("current_schema"),
        TokenType.CURRENT_CATALOG: lambda: call("current_catalog"),
        TokenType.SESSION_USER: lambda: call("session_user"),
        TokenType.LOCALTIME: lambda: call("localtime"),
        TokenType.LOCALTIMESTAMP: lambda: call("localtimestamp"),
    }
    PLACEHOLDER_PARSERS = {
        TokenType.PARAMETER: FunctionSyntax._parse_at_sign,
        TokenType.COLON: lambda self: None,
    }
    STRING_PARSERS = {**RisingWaveParser.STRING_PARSERS, **STRINGS}
    PRIMARY_PARSERS = {**RisingWaveParser.PRIMARY_PARSERS, **STRINGS, **_BITS}
    UNARY_PARSERS = {
        **RisingWaveParser.UNARY_PARSERS,
        TokenType.PIPE_SLASH: lambda self: call("sqrt", self._expected(self._parse_unary)),
        TokenType.DPIPE_SLASH: lambda self: call("cbrt", self._expected(self._parse_unary)),
    }
    JSON_OPERATORS = {
        TokenType.ARROW: lambda self, this, key: exp.JSONExtract(this=this, expression=key),
        TokenType.DARROW: lambda self, this, key: exp.JSONExtractScalar(this=this, expression=key),
        TokenType.HASH_ARROW: lambda self, this, path: exp.JSONBExtract(this=this, expression=path),
        TokenType.DHASH_ARROW: lambda self, this, path: exp.JSONBExtractScalar(this=this, expression=path),
        TokenType.PLACEHOLDER: lambda self, this, key: exp.JSONBContainsTopKey(this=this, expression=key),
    }
    ARRAY_CONSTRUCTORS = {"ARRAY": exp.Array}
    LAMBDAS: dict = {}
    _array_depth = 0
    FUNC_TOKENS = {*RisingWaveParser.FUNC_TOKENS, TokenType.SESSION}
    OPTIONAL_ALIAS_TOKEN_CTE = False
    FUNCTIONS_WITH_ALIASED_ARGS: set = set()

    # --- where operators stand ------------------------------------------------------------------------------------

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._concatenations: list[int] = []
        for name in ("TERM", "FACTOR", "EQUALITY", "COMPARISON", "BITWISE"):
            setattr(self, name, _Operators(self, getattr(type(self), name)))

    def _match(self, token_type: TokenType, *args: Any, **kwargs: Any) -> bool | None:
        matched = super()._match(token_type, *args, **kwargs)
        if matched and token_type is TokenType.DPIPE:
            self._concatenations.append(self._prev.start)
        return matched

    def expression(self, instance: exp.Expression, *args: Any, **kwargs: Any) -> exp.Expression:
        if isinstance(instance, exp.DPipe) and self._concatenations:
            instance.meta[OPERATOR] = self._concatenations.pop()
        return super().expression(instance, *args, **kwargs)

    # --- errors ---------------------------------------------------------------------------------------------------

    def raise_error(self, message: str, token: Token | None = None) -> None:
        # Where the parser stopped says more than the token that sqlglot blames.
        raise UnexpectedToken(self._curr or None)

    def _warn_unsupported(self) -> None:
        pass

    def _parse_as_command(self, start: Token) -> exp.Command:
        raise UnexpectedToken(self._curr or None)

    def _parse_csv(self, parse_method, sep=TokenType.COMMA):
        first = parse_method()
        items = [] if first is None else [first]
        while self._match(sep):
            item = parse_method()
            if item is None or first is None:
                self.raise_error("expected an item")
            items.append(item)
        return items

    # --- where sqlglot is more lenient than PostgreSQL --------------------------------------------------------------

    def _parse_select_query(self, *args: Any, **kwargs: Any) -> exp.Expression | None:
        if self._match(TokenType.FROM, advance=False):
            return None  # no FROM before SELECT
        if self._match_pair(TokenType.SELECT, TokenType.ALIAS):
            self._fail_at_previous()
        return super()._parse_select_query(*args, **kwargs)

    def _parse_types(self, *args: Any, **kwargs: Any) -> exp.Expression | None:
        parsed = super()._parse_types(*args, **kwargs)
        if isinstance(parsed, exp.ObjectIdentifier) and self._match_pair(TokenType.L_BRACKET, TokenType.R_BRACKET):
            return exp.DataType(this=exp.DataType.Type.ARRAY, expressions=[parsed], nested=True)
        return parsed

    def _fail_at_previous(self) -> None:
        self._retreat(self._index - 1)
        self.raise_error("unexpected token")

    def _parse_value(self, values: bool = True) -> exp.Tuple | None:
        """A row of VALUES, or the list of DISTINCT ON: in parentheses, and not empty."""

        def item() -> exp.Expression | None:
            if self._match(TokenType.DEFAULT):
                return exp.var("DEFAULT")
            value = self._parse_disjunction()
            return None if isinstance(value, exp.Star) else value

        items = self._parse_wrapped_csv(item)
        if not items:
            self._fail_at_previous()
        return exp.Tuple(expressions=items)

    def _expect_name_after_as(self) -> None:
        nameless = self._next.token_type in self.RESERVED_TOKENS or self._next.token_type == TokenType.NUMBER
        if self._match(TokenType.ALIAS, advance=False) and (not self._next or nameless):
            self._advance()
            self.raise_error("expected a name")

    def _parse_table_alias(self, alias_tokens: Any = None) -> exp.TableAlias | None:
        self._expect_name_after_as()
        start = self._index
        alias = super()._parse_table_alias(alias_tokens)
        if alias is not None and alias.this is None:
            self._retreat(start)
            self._match(TokenType.ALIAS)
            self.raise_error("expected a name")
        return alias

    def _parse_alias(self, this: exp.Expression | None, explicit: bool = False) -> exp.Expression | None:
        self._expect_name_after_as()
        if self._match(TokenType.L_PAREN, advance=False):
            return this  # no list of aliases
        return super()._parse_alias(this, explicit)

    def _parse_group(self, skip_group_by_token: bool = False) -> exp.Group | None:
        group = super()._parse_group(skip_group_by_token)
        if group is not None and not any(group.args.values()):
            self.raise_error("expected an expression")
        return group

    def _parse_window(self, this: exp.Expression | None, alias: bool = False) -> exp.Expression | None:
        if self._match_pair(TokenType.FILTER, TokenType.L_PAREN, advance=False):
            where = self._tokens[self._index + 2] if self._index + 2 < self._tokens_size else None
            if where is None or where.token_type != TokenType.WHERE:
                self._advance(2)
                self.raise_error("expected WHERE")
        return super()._parse_window(this, alias)

    def _parse_lambda(self, alias: bool = False) -> exp.Expression | None:
        if self._match_set((TokenType.SELECT, TokenType.WITH), advance=False):
            if self._index > 1 and self._tokens[self._index - 2].text.upper() == "ARRAY":
                return self.parse_query()
            self.raise_error("a query needs parentheses")
        arrow = self._parse_arrow()
        if arrow is not None:
            return arrow
        argument = super()._parse_lambda(alias=False)
        bare = argument.this if isinstance(argument, exp.Order) else argument
        if (isinstance(argument, exp.Order) and bare is None) or (
            isinstance(bare, exp.Distinct) and not bare.expressions
        ):
            self.raise_error("expected an expression")
        return argument

    def _parse_bracket(self, this: exp.Expression | None = None) -> exp.Expression | None:
        """[…] alone is an array only inside ARRAY[…]."""
        if not self._match(TokenType.L_BRACKET, advance=False):
            return this
        if this is None and not self._array_depth:
            self.raise_error("unexpected token")
        self._array_depth += 1
        try:
            return super()._parse_bracket(this)
        finally:
            self._array_depth -= 1

    def _parse_between(self, this: exp.Expression | None) -> exp.Between:
        symmetric = bool(self._match_text_seq("SYMMETRIC")) or None
        if not symmetric:
            self._match_text_seq("ASYMMETRIC")
        low = self._operand()
        if not self._match(TokenType.AND):
            self.raise_error("expected AND")
        return exp.Between(this=this, low=low, high=self._operand(), symmetric=symmetric)

    def _parse_case(self) -> exp.Expression:
        operand = None if self._match(TokenType.WHEN, advance=False) else self._expected(self._parse_disjunction)
        branches = []
        while self._match(TokenType.WHEN):
            condition = self._expected(self._parse_disjunction)
            if not self._match(TokenType.THEN):
                self.raise_error("expected THEN")
            branches.append(exp.If(this=condition, true=self._expected(self._parse_disjunction)))
        default = self._expected(self._parse_disjunction) if branches and self._match(TokenType.ELSE) else None
        if not branches or not self._match(TokenType.END):
            self.raise_error("expected END")
        return exp.Case(this=operand, ifs=branches, default=default)

    def _match_pair(self, token_type_a: TokenType, token_type_b: TokenType, advance: bool = True) -> bool:
        if token_type_a == token_type_b and self._curr and self._next and self._curr.end + 1 != self._next.start:
            return False  # > > is not >>
        return super()._match_pair(token_type_a, token_type_b, advance)

    def _parse_lateral(self) -> exp.Lateral | None:
        lateral = super()._parse_lateral()
        if lateral is not None and isinstance(lateral.this, exp.Dot):
            self.raise_error("unexpected token")
        return lateral

    def _parse_table_parts(self, *args: Any, **kwargs: Any) -> exp.Table:
        if self._match(TokenType.DOT, advance=False):
            self.raise_error("expected a name")
        return super()._parse_table_parts(*args, **kwargs)

    def _parse_type_size(self) -> exp.DataTypeParam | None:
        return exp.DataTypeParam(this=self._parse_number()) if self._match(TokenType.NUMBER, advance=False) else None

    def _is_predicate_ahead(self) -> bool:
        if self._match_pair(TokenType.NOT, TokenType.NULL, advance=False):
            self._advance()
            self.raise_error("expected IS")
        return super()._is_predicate_ahead()

    # --- statements -----------------------------------------------------------------------------------------------

    def _parse_statement(self) -> exp.Expression | None:
        """Called by sqlglot for the bodies of CTEs and what follows them: queries only."""
        if self._match_texts(("INSERT", "UPDATE", "DELETE"), advance=False):
            raise Unsupported(f"{self._curr.text.upper()} with WITH is not supported", position=self._curr.start + 1)
        return self.parse_query()

    def parse_query(self) -> exp.Expression:
        if not self._match_texts(("SELECT", "VALUES", "WITH", "TABLE"), advance=False) and not self._match(
            TokenType.L_PAREN, advance=False
        ):
            self.raise_error("expected a query")
        query = super()._parse_statement()
        if not isinstance(query, (exp.Query, exp.Values)):
            self.raise_error("expected a query")
        return query

    def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
        if self._match(TokenType.COMMA):
            table = self._parse_table()
            if table is None:
                self.raise_error("expected a table")
            return exp.Join(this=table, kind="CROSS")
        join = super()._parse_join(*args, **kwargs)
        if join is not None and not (
            join.kind == "CROSS" or join.method or join.args.get("on") is not None or join.args.get("using")
        ):
            self.raise_error("expected ON or USING")
        return join

    # --- expressions ----------------------------------------------------------------------------------------------

    def _parse_star_ops(self) -> exp.Expression:
        star = exp.Star().update_positions(self._prev)
        if self._match_set((TokenType.VAR, TokenType.IDENTIFIER), advance=False) or self._match(
            TokenType.ALIAS, advance=False
        ):
            self.raise_error("a star has no alias")
        return star

    def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> exp.Expression | None:
        """type 'constant', which binds tighter than a cast that follows; sqlglot would cast the constant first."""
        if self._match_pair(TokenType.ARRAY, TokenType.L_BRACKET, advance=False):
            self._array_depth += 1
            try:
                return super()._parse_type(parse_interval, fallback_to_identifier)
            finally:
                self._array_depth -= 1
        if self._curr.token_type in self.TYPE_TOKENS and self._curr.token_type != TokenType.INTERVAL:
            index = self._index
            data_type = self._parse_types(check_func=True, allow_identifiers=False)
            if isinstance(data_type, exp.DataType) and self._match_set(STRINGS):
                return self._parse_column_ops(exp.Cast(this=string_token(self, self._prev), to=data_type))
            self._retreat(index)
        return super()._parse_type(parse_interval, fallback_to_identifier)

    def _parse_update_assignment(self) -> exp.Expression | None:
        target = self._parse_unary()
        if target is None or not self._match(TokenType.EQ):
            self.raise_error("expected =")
        if self._match(TokenType.DEFAULT):
            return exp.EQ(this=target, expression=exp.var("DEFAULT"))
        value = self._parse_disjunction()
        if value is None:
            self.raise_error("expected a value")
        return exp.EQ(this=target, expression=value)


class Generator(RisingWaveGenerator):
    SUPPORTS_BETWEEN_FLAGS = True
    MULTI_ARG_DISTINCT = True
    TRANSFORMS = {
        **RisingWaveGenerator.TRANSFORMS,
        exp.Pow: lambda self, e: self.binary(e, "^"),
        exp.JSONExtract: lambda self, e: self.binary(e, "->"),
        exp.JSONExtractScalar: lambda self, e: self.binary(e, "->>"),
        exp.JSONBExtract: lambda self, e: self.binary(e, "#>"),
        exp.JSONBExtractScalar: lambda self, e: self.binary(e, "#>>"),
        LambdaVariable: lambda self, e: self.sql(e, "this"),
        WholeRow: lambda self, e: self.sql(e, "this"),
        exp.Cast: lambda self, e: f"CAST({self.sql(e, 'this')} AS {self.sql(e, 'to')})",
    }
    for _class in (exp.Select, exp.Array, exp.Values, exp.DPipe):
        TRANSFORMS.pop(_class, None)

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        name = expression.this
        name = self.sql(name) if isinstance(name, exp.Expression) else name
        return f"{name}({self.expressions(expression, flat=True)})"

    def not_sql(self, expression: exp.Not) -> str:
        """IS NOT NULL, as one writes it; it parses to the same tree."""
        inner = expression.this
        if isinstance(inner, exp.Is):
            return f"{self.sql(inner, 'this')} IS NOT {self.sql(inner, 'expression')}"
        return super().not_sql(expression)

    def dot_sql(self, expression: exp.Dot) -> str:
        return f"{self.sql(expression, 'this')}.{self.sql(expression, 'expression')}"


# Keywords of sqlglot's that are none in PostgreSQL, or that the grammar knows by their text: they can be names.
_PLAIN_WORDS = {
    "ALTER", "DROP", "GLOB", "INSERT", "PARTITIONED_BY", "QUALIFY", "REGEXP", "REVOKE", "RLIKE", "ROLLBACK", "UNCACHE",
    "XOR",
}  # fmt: skip


class Headrace(RisingWave):
    INDEX_OFFSET = 0  # brackets stay as written; translate knows that arrays start at 1
    UNESCAPED_SEQUENCES: dict = {}
    TABLES_REFERENCEABLE_AS_COLUMNS = False

    class Tokenizer(RisingWave.Tokenizer):
        # sqlglot swallows the rest of a "command" as one string; the grammar wants its tokens.
        COMMANDS: set = set()
        KEYWORDS = {
            key: (TokenType.VAR if token is TokenType.COMMAND or key in _PLAIN_WORDS else token)
            for key, token in RisingWave.Tokenizer.KEYWORDS.items()
        }

    Parser = Parser
    Generator = Generator


_DIALECT = Headrace()


def tokenize(text: str) -> list[Token]:
    check_terminated(text)
    try:
        tokens = _DIALECT.tokenize(text)
    except TokenError as error:
        raise SqlSyntaxError(f"syntax error: {str(error).splitlines()[0]}") from None
    for token, following in zip(tokens, [*tokens[1:], None], strict=False):  # there may be no token at all
        if token.token_type == TokenType.IDENTIFIER and not token.text:
            raise SqlSyntaxError('zero-length delimited identifier at or near """"', position=token.start + 1)
        if following is not None and token.token_type in STRINGS and following.token_type in STRINGS:
            if "\n" not in text[token.end : following.start]:  # only strings on different lines are one string
                raise syntax_error(text, following, tokens)
    return tokens


def run(text: str, tokens: list[Token], method: Any) -> Any:
    """Apply a method of the parser to the tokens, which must be used up, and put errors into PostgreSQL's words."""
    parser = _DIALECT.parser(error_level=ErrorLevel.IMMEDIATE)
    parser.reset()
    parser.sql = text
    parser._chunks = [tokens]
    parser._advance_chunk()
    try:
        result = method(parser)
        if parser._curr:
            parser.raise_error("unexpected token")
    except UnexpectedToken as error:
        raise syntax_error(text, error.token, tokens) from None
    except RecursionError:
        raise Unsupported("the statement is nested too deeply") from None
    return result


def syntax_error(text: str, token: Token | None, tokens: list[Token]) -> SqlSyntaxError:
    if token is None or token.token_type == TokenType.SEMICOLON:
        end = tokens[-1].end + 1 if tokens else len(text)
        return SqlSyntaxError("syntax error at end of input", position=end + 1)
    return SqlSyntaxError(f'syntax error at or near "{text[token.start : token.end + 1]}"', position=token.start + 1)


def fold(tree: exp.Expression) -> exp.Expression:
    """Names as PostgreSQL keeps them: lower case unless quoted. Calls likewise; adjacent strings become one."""
    for node in list(tree.walk()):
        node.comments = None
        if isinstance(node, exp.Column) and _is_user(node):
            node.this.set("quoted", True)
            if node is tree:
                return call("current_user")
            node.replace(call("current_user"))
        elif isinstance(node, exp.Identifier):
            if not node.args.get("quoted"):
                _check_reserved(node)
                node.set("this", fold_name(node.name))
                node.set("quoted", True)
        elif isinstance(node, exp.Anonymous):
            node.set("this", node.this.name if isinstance(node.this, exp.Identifier) else node.this.lower())
        elif isinstance(node, exp.Concat):
            joined = exp.Literal.string("".join(part.name for part in node.expressions))
            if node is tree:
                return joined
            node.replace(joined)
    return tree


def _is_user(node: exp.Column) -> bool:
    """Functions that go without parentheses, and no names."""
    bare = isinstance(node.this, exp.Identifier) and not node.this.args.get("quoted") and not node.args.get("table")
    return bare and node.name.lower() in ("user", "current_role")


RESERVED = frozenset(
    """all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create
    current_date current_time current_timestamp current_user default deferrable desc distinct do else end except false
    fetch for foreign from grant group having in initially intersect into lateral leading limit localtime
    localtimestamp not null offset on only or order placing primary references returning select session_user some
    symmetric table then to trailing true union unique user using variadic when where window with
    cross full ilike inner is isnull join left like natural notnull outer overlaps right similar""".split()
)
"""Words that PostgreSQL takes for a name only in quotes; sqlglot takes most of them without."""


def _check_reserved(identifier: exp.Identifier) -> None:
    start, parent = identifier.meta_get("start"), identifier.parent
    if isinstance(parent, exp.Alias) and identifier.arg_key == "alias":
        return  # AS takes any word
    if isinstance(parent, exp.Column) and identifier.arg_key == "this" and parent.args.get("table") is not None:
        return  # and so does a dot
    if start is not None and identifier.name.lower() in RESERVED:
        raise SqlSyntaxError(f'syntax error at or near "{identifier.name}"', position=start + 1)


def fold_name(name: str) -> str:
    """Only ASCII folds, as in a PostgreSQL database in UTF-8."""
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in name)


def parse_expression(text: str) -> exp.Expression:
    """An expression of our own making, such as a stored DEFAULT."""

    def whole(parser: Parser) -> exp.Expression:
        expression = parser._parse_disjunction()
        if expression is None:
            parser.raise_error("expected an expression")
        return expression

    return fold(run(text, tokenize(text), whole))


def parse_query(text: str) -> exp.Expression:
    return fold(run(text, tokenize(text), Parser.parse_query))


def print_sql(tree: exp.Expression, *, identify: bool = True) -> str:
    """The tree as text that parses to the same tree again; every name is quoted."""
    return tree.sql(
        _DIALECT,
        identify=identify,
        comments=False,
        normalize_functions=False,
        unsupported_level=ErrorLevel.IGNORE,
    )
