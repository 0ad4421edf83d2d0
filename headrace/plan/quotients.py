"""Quotients in a value that a block is joined with: what fails only counts where the value is used.

    SELECT k FROM t GROUP BY k HAVING count(*) >= (SELECT count(*) / count(y) FROM u)

If u is empty the value cannot be had, and nobody minds as long as t has no group that asks for it. But it is stored,
when there is none, too. So it is stored without the failure, which comes where a row is compared with it:

    Q  SELECT count(*) / nullif(count(y), 0) AS value, CASE WHEN count(y) = 0 THEN 0 ELSE 1 END AS whole_0 FROM u
       … WHERE had_0 >= CASE WHEN 1 / Q.whole_0 = 1 THEN Q.value END
"""

from __future__ import annotations

from sqlglot import exp

from headrace.plan.pieces import aliased, typed_column
from headrace.sql.aggregates import is_call
from headrace.sql.dialect import parse_expression, print_sql

VALUE = "value"

_QUOTIENTS = (exp.Div, exp.Mod)
_ALWAYS = (exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Paren, exp.Cast, *_QUOTIENTS)
_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def as_value(query: exp.Select, alias: str, *, lazy: bool = True) -> tuple[exp.Select, exp.Expression]:
    """A query of one column with that called ``value``, and what stands for it where the query is called ``alias``."""
    found = query.copy()
    item = found.expressions[0].unalias()
    divisors: list[exp.Expression] = []
    if lazy:
        item = _guarded(item, divisors)
    names = [f"whole_{at}" for at in range(len(divisors))]
    marks = [parse_expression(f"CASE WHEN {print_sql(each)} = 0 THEN 0 ELSE 1 END") for each in divisors]
    found.set("expressions", [aliased(each, name) for each, name in zip([item, *marks], [VALUE, *names], strict=True)])
    used: exp.Expression = typed_column(alias, VALUE, None)
    for name in names:
        used = parse_expression(f'CASE WHEN 1 / "{alias}"."{name}" = 1 THEN {print_sql(used)} END')
    return found, used


def _guarded(node: exp.Expression, divisors: list[exp.Expression]) -> exp.Expression:
    """The expression with NULL in place of a division by zero; what it divides by is added to the list.

    Only where it is always evaluated, and not where an aggregate is computed, which is its rows' affair.
    """
    if is_call(node) or not isinstance(node, (*_ALWAYS, *_COMPARED)):
        return node
    found = node.copy()
    for name in ("this", "expression"):
        if isinstance(found.args.get(name), exp.Expression):
            found.set(name, _guarded(found.args[name], divisors))
    if isinstance(found, _QUOTIENTS) and not isinstance(found.expression.unnest(), exp.Literal):
        divisors.append(found.expression.copy())
        found.set("expression", parse_expression(f"nullif({print_sql(found.expression)}, 0)"))
    return found
