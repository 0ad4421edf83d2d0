"""Calls with a grammar of their own: keywords between the arguments, lambdas, INTERVAL constants.

A part of :class:`headrace.sql.dialect.Parser`.

>>> call("now").sql()
'NOW()'
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from headrace.errors import UndefinedParameterNumber, Unsupported
from headrace.sql.text import string_value


def call(name: str, *args: exp.Expression) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(args))


def string_token(self: Any, token: Token) -> exp.Expression:
    literal = exp.Literal.string(string_value(self.sql[token.start : token.end + 1]))
    return literal.update_positions(token)


STRINGS = dict.fromkeys(
    (TokenType.STRING, TokenType.BYTE_STRING, TokenType.HEREDOC_STRING, TokenType.UNICODE_STRING), string_token
)

HIGHER_ORDER = frozenset(
    "transform filter exists forall aggregate reduce zip_with array_sort map_filter transform_keys transform_values "
    "map_zip_with".split()
)
"""The functions in which ``x -> …`` is a lambda; elsewhere the arrow looks into a jsonb value."""

_INTERVAL_FIELDS = {"YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"}


class FunctionSyntax:
    _inside: str | None = None
    """The name of the call whose arguments are being read."""

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expression | None:
        outside = self._inside
        if self._curr and self._next.token_type == TokenType.L_PAREN:
            self._inside = self._curr.text.lower()
        try:
            return super()._parse_function_call(*args, **kwargs)
        finally:
            self._inside = outside

    def _parse_arrow(self) -> exp.Expression | None:
        """An argument that is a lambda, ``x -> …`` or ``(x, y) -> …``, or that has a name, ``name => …``."""
        start = self._index
        if self._match_set((TokenType.VAR, TokenType.IDENTIFIER), advance=False) and self._next.text == "=>":
            name = self._parse_id_var(any_token=False)
            self._advance()
            return exp.Kwarg(this=name, expression=self._expected(self._parse_disjunction))
        if self._inside not in HIGHER_ORDER or self._prev.token_type != TokenType.COMMA:
            return None
        if self._match(TokenType.L_PAREN):
            names = [self._parse_id_var(any_token=False)]
            while self._match(TokenType.COMMA):
                names.append(self._parse_id_var(any_token=False))
            closed = self._match(TokenType.R_PAREN)
        else:
            names, closed = [self._parse_id_var(any_token=False)], True
        if None in names or not closed or not self._match(TokenType.ARROW):
            self._retreat(start)
            return None
        return exp.Lambda(this=self._expected(self._parse_disjunction), expressions=names)

    def _parse_at_sign(self) -> exp.Expression:
        """``@ x``, PostgreSQL's operator for the absolute value."""
        sign = self._prev
        if sign.text != "@":
            raise UndefinedParameterNumber(
                f"there is no parameter {sign.text}{self._curr.text if self._curr else ''}", position=sign.start + 1
            )
        return call("abs", self._expected(self._parse_unary))

    def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> exp.Expression | None:
        """INTERVAL '…' [field]: a string cast to interval, as in PostgreSQL; the field becomes part of the string."""
        if self._curr.token_type != TokenType.INTERVAL or self._next.token_type not in STRINGS:
            return None
        self._advance(2)
        literal = string_token(self, self._prev)
        if self._match_texts(_INTERVAL_FIELDS):
            field = self._prev.text.lower()
            if self._match_text_seq("TO"):
                raise Unsupported(
                    "INTERVAL '…' field TO field is not supported", hint="write the units into the string"
                )
            literal.set("this", f"{literal.name} {field}")
        return exp.Cast(this=literal, to=exp.DataType(this=exp.DType.INTERVAL))

    def _parse_extract(self) -> exp.Expression:
        if self._match_set(STRINGS):
            field = string_token(self, self._prev)
        else:
            self._advance()
            field = exp.Literal.string(self._prev.text.lower()).update_positions(self._prev)
        if not self._match(TokenType.FROM) and not self._match(TokenType.COMMA):
            self.raise_error("expected FROM")
        return self._close(call("extract", field, self._operand()))

    def _parse_position(self, haystack_first: bool = False) -> exp.Expression:
        args = self._parse_csv(self._parse_bitwise)
        if len(args) == 1 and self._match(TokenType.IN):
            args.append(self._operand())
        return self._close(call("position", *args))

    def _parse_substring(self) -> exp.Expression:
        args = self._parse_csv(self._parse_bitwise)
        start = length = None
        while self._match_set((TokenType.FROM, TokenType.FOR)):  # in any order
            if self._prev.token_type == TokenType.FROM:
                start = self._operand()
            else:
                length = self._operand()
        if start is not None or length is not None:
            args.append(start or exp.Literal.number(1))
        if length is not None:
            args.append(length)
        return self._close(call("substring", *args))

    def _parse_overlay(self) -> exp.Expression:
        args = self._parse_csv(self._parse_bitwise)
        if self._match_text_seq("PLACING"):
            args.append(self._operand())
            if not self._match(TokenType.FROM):
                self.raise_error("expected FROM")
            args.append(self._operand())
            if self._match(TokenType.FOR):
                args.append(self._operand())
        return self._close(call("overlay", *args))

    def _parse_trim(self) -> exp.Expression:
        side = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(self._curr.text.upper(), "btrim")
        self._match_texts(self.TRIM_TYPES)
        args = [] if self._match(TokenType.FROM) else self._parse_csv(self._parse_bitwise)
        if self._prev.token_type == TokenType.FROM:
            args = self._parse_csv(self._parse_bitwise)
        elif len(args) == 1 and self._match(TokenType.FROM):
            args.insert(0, self._operand())
        return self._close(call(side, *args))

    def _parse_escape(self, this: exp.Expression | None) -> exp.Expression | None:
        """LIKE … ESCAPE takes any expression."""
        if not self._match(TokenType.ESCAPE):
            return this
        return exp.Escape(this=this, expression=self._operand())

    def _parse_into(self) -> None:
        if self._match(TokenType.INTO):
            raise Unsupported(
                "SELECT INTO is not supported", hint="write CREATE TABLE … AS SELECT …", position=self._prev.start + 1
            )

    def _parse_try_cast(self) -> None:
        raise Unsupported(
            "TRY_CAST is not supported",
            hint="test the text first: CASE WHEN x ~ '^[0-9]+$' THEN x::INT END",
            position=self._prev.start + 1,
        )

    def _parse_function_parameter(self) -> exp.Expression | None:
        """A column of an alias, which has a name, but no type."""
        name = self._parse_id_var(any_token=False)
        more = name is not None and self._curr and self._curr.token_type not in (TokenType.COMMA, TokenType.R_PAREN)
        if more and self._is_alias_of_call():
            raise Unsupported(
                "an alias whose columns have types, as that of jsonb_to_record(), is not supported",
                hint="take the values with ->> and cast them",
                position=self._curr.start + 1,
            )
        return name

    def _is_alias_of_call(self) -> bool:
        """Whether the parser is at f(…) [AS] alias (here"""
        start = self._index - 1
        while start >= 0 and self._tokens[start].token_type != TokenType.L_PAREN:
            start -= 1
        before = [token.token_type for token in self._tokens[max(start - 3, 0) : max(start - 1, 0)]]
        return before[-1:] == [TokenType.R_PAREN] or before == [TokenType.R_PAREN, TokenType.ALIAS]

    def _operand(self) -> exp.Expression:
        return self._expected(self._parse_bitwise)

    def _expected(self, parse: Any) -> exp.Expression:
        expression = parse()
        if expression is None:
            self.raise_error("expected an expression")
        return expression

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
