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

from typing import Any

from sqlglot import exp
from sqlglot.dialects.risingwave import RisingWave
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.generators.risingwave import RisingWaveGenerator
from sqlglot.parsers.risingwave import RisingWaveParser
from sqlglot.tokens import Token, TokenType

from headrace.errors import SqlSyntaxError, Unsupported
from headrace.sql.text import check_terminated, string_value


class UnexpectedToken(ParseError):
    """sqlglot tries alternatives by catching ParseError, so that is what a syntax error has to be at first."""

    def __init__(self, token: Token | None):
        super().__init__("unexpected token", [{}])
        self.token = token


def call(name: str, *args: exp.Expression) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(args))


def _string(self: Any, token: Token) -> exp.Expression:
    literal = exp.Literal.string(string_value(self.sql[token.start : token.end + 1]))
    return literal.update_positions(token)


def _refuse(construct: str):
    def refuse(self: Any, *_: Any) -> None:
        token = self._prev
        raise Unsupported(f"{construct} is not supported", position=token.start + 1 if token else None)

    return refuse


_STRINGS = dict.fromkeys(
    (TokenType.STRING, TokenType.BYTE_STRING, TokenType.HEREDOC_STRING, TokenType.UNICODE_STRING), _string
)
_BITS = dict.fromkeys((TokenType.BIT_STRING, TokenType.HEX_STRING), _refuse("a bit string"))


class Parser(RisingWaveParser):
    FUNCTIONS: dict = {}
    FUNCTION_PARSERS = {
        "CAST": lambda self: self._parse_cast(True),
        "EXTRACT": lambda self: self._parse_extract(),
        "OVERLAY": lambda self: self._parse_overlay(),
        "POSITION": lambda self: self._parse_position(),
        "SUBSTRING": lambda self: self._parse_substring(),
        "TRIM": lambda self: self._parse_trim(),
    }
    NO_PAREN_FUNCTION_PARSERS = {key: RisingWaveParser.NO_PAREN_FUNCTION_PARSERS[key] for key in ("ANY", "CASE")}
    NO_PAREN_FUNCTIONS = {
        TokenType.CURRENT_DATE: lambda: call("current_date"),
        TokenType.CURRENT_TIME: lambda: call("current_time"),
        TokenType.CURRENT_TIMESTAMP: lambda: call("current_timestamp"),
        TokenType.CURRENT_USER: lambda: call("current_user"),
        TokenType.CURRENT_SCHEMA: lambda: call("current_schema"),
        TokenType.LOCALTIME: lambda: call("localtime"),
        TokenType.LOCALTIMESTAMP: lambda: call("localtimestamp"),
    }
    PLACEHOLDER_PARSERS = {
        TokenType.PARAMETER: _refuse("a parameter"),
        TokenType.COLON: lambda self: None,
    }
    STRING_PARSERS = {**RisingWaveParser.STRING_PARSERS, **_STRINGS}
    PRIMARY_PARSERS = {**RisingWaveParser.PRIMARY_PARSERS, **_STRINGS, **_BITS}
    JSON_OPERATORS = {
        TokenType.ARROW: lambda self, this, key: exp.JSONExtract(this=this, expression=key),
        TokenType.DARROW: lambda self, this, key: exp.JSONExtractScalar(this=this, expression=key),
        TokenType.HASH_ARROW: lambda self, this, path: exp.JSONBExtract(this=this, expression=path),
        TokenType.DHASH_ARROW: lambda self, this, path: exp.JSONBExtractScalar(this=this, expression=path),
        TokenType.PLACEHOLDER: lambda self, this, key: exp.JSONBContainsTopKey(this=this, expression=key),
    }
    LAMBDAS: dict = {}
    OPTIONAL_ALIAS_TOKEN_CTE = False
    FUNCTIONS_WITH_ALIASED_ARGS: set = set()

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

    def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> exp.Expression | None:
        """INTERVAL '…' [field]: a string cast to interval, as in PostgreSQL; the field becomes part of the string."""
        if self._curr.token_type != TokenType.INTERVAL or self._next.token_type not in _STRINGS:
            return None
        self._advance(2)
        literal = _string(self, self._prev)
        if self._match_texts(_INTERVAL_FIELDS):
            field = self._prev.text.lower()
            if self._match_text_seq("TO"):
                raise Unsupported(
                    "INTERVAL '…' field TO field is not supported", hint="write the units into the string"
                )
            literal.set("this", f"{literal.name} {field}")
        return exp.Cast(this=literal, to=exp.DataType(this=exp.DType.INTERVAL))

    def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> exp.Expression | None:
        """type 'constant', which binds tighter than a cast that follows; sqlglot would cast the constant first."""
        if self._curr.token_type in self.TYPE_TOKENS and self._curr.token_type != TokenType.INTERVAL:
            index = self._index
            data_type = self._parse_types(check_func=True, allow_identifiers=False)
            if isinstance(data_type, exp.DataType) and self._match_set(_STRINGS):
                return self._parse_column_ops(exp.Cast(this=_string(self, self._prev), to=data_type))
            self._retreat(index)
        return super()._parse_type(parse_interval, fallback_to_identifier)

    def _parse_extract(self) -> exp.Expression:
        if self._match_set(_STRINGS):
            field = _string(self, self._prev)
        else:
            self._advance()
            field = exp.Literal.string(self._prev.text.lower()).update_positions(self._prev)
        if not self._match(TokenType.FROM) and not self._match(TokenType.COMMA):
            self.raise_error("expected FROM")
        return self._close(call("extract", field, self._parse_bitwise()))

    def _parse_position(self, haystack_first: bool = False) -> exp.Expression:
        args = self._parse_csv(self._parse_bitwise)
        if len(args) == 1 and self._match(TokenType.IN):
            args.append(self._parse_bitwise())
        return self._close(call("position", *args))

    def _parse_substring(self) -> exp.Expression:
        args = self._parse_csv(self._parse_bitwise)
        if self._match(TokenType.FROM):
            args.append(self._parse_bitwise())
            if self._match(TokenType.FOR):
                args.append(self._parse_bitwise())
        elif self._match(TokenType.FOR):
            args += [exp.Literal.number(1), self._parse_bitwise()]
        return self._close(call("substring", *args))

    def _parse_overlay(self) -> exp.Expression:
        args = self._parse_csv(self._parse_bitwise)
        if self._match_text_seq("PLACING"):
            args.append(self._parse_bitwise())
            if not self._match(TokenType.FROM):
                self.raise_error("expected FROM")
            args.append(self._parse_bitwise())
            if self._match(TokenType.FOR):
                args.append(self._parse_bitwise())
        return self._close(call("overlay", *args))

    def _parse_trim(self) -> exp.Expression:
        side = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(self._curr.text.upper(), "btrim")
        self._match_texts(self.TRIM_TYPES)
        args = [] if self._match(TokenType.FROM) else self._parse_csv(self._parse_bitwise)
        if self._prev.token_type == TokenType.FROM:
            args = self._parse_csv(self._parse_bitwise)
        elif len(args) == 1 and self._match(TokenType.FROM):
            args.insert(0, self._parse_bitwise())
        return self._close(call(side, *args))

    def _close(self, function: exp.Expression) -> exp.Expression:
        # sqlglot forgives a missing parenthesis after the functions that have a syntax of their own
        if not self._match(TokenType.R_PAREN, advance=False):
            self.raise_error("expected )")
        return function

    def _parse_cast(self, strict: bool, safe: bool | None = None) -> exp.Expression:
        this = self._parse_disjunction()
        if not self._match(TokenType.ALIAS):
            self.raise_error("expected AS")
        to = self._parse_types()
        if to is None:
            self.raise_error("expected a type")
        return self._close(exp.Cast(this=this, to=to))

    def _parse_update_assignment(self) -> exp.Expression | None:
        target = self._parse_unary()
        if not self._match(TokenType.EQ):
            self.raise_error("expected =")
        if self._match(TokenType.DEFAULT):
            return exp.EQ(this=target, expression=exp.var("DEFAULT"))
        value = self._parse_disjunction()
        if value is None:
            self.raise_error("expected a value")
        return exp.EQ(this=target, expression=value)


_INTERVAL_FIELDS = {"YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"}


class Generator(RisingWaveGenerator):
    SUPPORTS_BETWEEN_FLAGS = True
    TRANSFORMS = {
        **RisingWaveGenerator.TRANSFORMS,
        exp.Pow: lambda self, e: self.binary(e, "^"),
        exp.JSONExtract: lambda self, e: self.binary(e, "->"),
        exp.JSONExtractScalar: lambda self, e: self.binary(e, "->>"),
        exp.JSONBExtract: lambda self, e: self.binary(e, "#>"),
        exp.JSONBExtractScalar: lambda self, e: self.binary(e, "#>>"),
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


class Headrace(RisingWave):
    INDEX_OFFSET = 0  # brackets stay as written; translate knows that arrays start at 1
    UNESCAPED_SEQUENCES: dict = {}
    TABLES_REFERENCEABLE_AS_COLUMNS = False

    class Tokenizer(RisingWave.Tokenizer):
        # sqlglot swallows the rest of a "command" as one string; the grammar wants its tokens.
        COMMANDS: set = set()
        KEYWORDS = {
            key: (TokenType.VAR if token is TokenType.COMMAND else token)
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
    for token in tokens:
        if token.token_type == TokenType.IDENTIFIER and not token.text:
            raise SqlSyntaxError('zero-length delimited identifier at or near """"', position=token.start + 1)
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
        if isinstance(node, exp.Identifier):
            if not node.args.get("quoted"):
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
