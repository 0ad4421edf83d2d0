"""Sources of events in a query that is not linear: what it needs of each is stored first.

A source stores nothing, so there is nothing to look up in it, and nothing to build an aggregate from. So the query
stands on an internal table with the columns that it uses of the source, which is linear and has the source's own key,
(partition, offset). It is filled from the source's history like any view on it; all above it is as over a table.

    SELECT url, count(*) FROM clicks WHERE price > 5 GROUP BY url

becomes, with E an internal table,

    E  SELECT url FROM clicks WHERE price > 5           events
       SELECT url, count(*) FROM E GROUP BY url         the view

If rows are to be final when the source's watermark has passed (EMIT ON WINDOW CLOSE), E leaves late events out, and has
all others: so it is E's watermark that the query waits for.
"""

from __future__ import annotations

from sqlglot import exp

from headrace.catalog import SOURCE, Relation
from headrace.errors import Unsupported
from headrace.plan.arrange import Arrangements
from headrace.plan.build import refuse, refuse_what_changes
from headrace.plan.pieces import conjunction, conjuncts, has_query, select, sources_in, table, typed_column
from headrace.sql.names import SCHEMA
from headrace.sql.tree import is_as_of_now
from headrace.sql.watermarks import watermark_call, watermark_of


def with_events_stored(query: exp.Expression, arrangements: Arrangements) -> exp.Expression:
    """The query over internal tables in place of sources."""
    sources = _sources(query, arrangements)
    if not sources:
        return query
    # All conditions first: what only they use need not be stored. Each time the sources are looked for anew, because a
    # block that gives up a condition has copies of the others.
    awaited = {watermark_of(each) for each in query.find_all(exp.Anonymous)} - {None}
    taken = [_taken_conditions(_sources(query, arrangements)[at], arrangements, awaited) for at in range(len(sources))]
    stored_of: dict[int, list[int]] = {}
    for where in taken:
        node, *_ = _sources(query, arrangements)
        relation, alias = arrangements.catalog.get(node.name), node.alias_or_name
        if is_as_of_now(node):
            raise refuse("FOR SYSTEM_TIME AS OF PROCTIME() of a source", node, hint="a source has no rows to look up")
        names = [each.name for each in relation.visible_columns] if _renames(node) else _used(query, relation)
        items = [(name, typed_column(alias, name, relation.column(name).type)) for name in names]
        lateness = relation.lateness if relation.id in awaited else None
        events = arrangements.events(select(items, table(relation.name, alias), where), lateness)
        stored_of.setdefault(relation.id, []).append(events.id)
        stored = node.copy()
        stored.set("this", exp.to_identifier(events.name, quoted=True))
        node.replace(stored)
    for condition in [each for each in query.find_all(exp.LTE) if watermark_of(each.expression) in stored_of]:
        ids = dict.fromkeys(stored_of[watermark_of(condition.expression)])
        each = [exp.LTE(this=condition.this.copy(), expression=watermark_call(id)) for id in ids]
        condition.replace(conjunction(each))
    return arrangements.rebound(query)


def _sources(query: exp.Expression, arrangements: Arrangements) -> list[exp.Table]:
    """Where the query reads one, always in the same order."""
    found = arrangements.catalog.find
    return [
        node
        for node in query.find_all(exp.Table)
        if node.db == SCHEMA and (relation := found(node.name)) is not None and relation.kind == SOURCE
    ]


def _renames(node: exp.Table) -> bool:
    """Whether the query calls its columns by other names: ``clicks AS c (a, b)``."""
    return bool(node.args["alias"].args.get("columns"))


def _taken_conditions(node: exp.Table, arrangements: Arrangements, awaited: set[int | None]) -> list[exp.Expression]:
    """The conditions of a block that reads nothing but the source: they leave the block."""
    if arrangements.catalog.get(node.name).id in awaited:
        return []  # events of which nothing is wanted make the watermark go on, too
    block = node.find_ancestor(exp.Select)
    if block is None or block.args["from_"].this is not node or _renames(node) or node.args.get("sample"):
        return []
    if block.args.get("joins") or block.args.get("laterals"):
        return []
    parts = conjuncts(block.args.get("where"))
    taken = [
        each for each in parts if sources_in(each) <= {node.alias_or_name} and not has_query(each) and _stays(each)
    ]
    left = [each for each in parts if each not in taken]
    if taken:
        block.set("where", exp.Where(this=conjunction(left)) if left else None)
    return taken


def _stays(condition: exp.Expression) -> bool:
    """Whether it says the same of a row tomorrow: what the clock decides is not for a table that is only added to."""
    try:
        refuse_what_changes(condition)
    except Unsupported:
        return False
    return True


def _used(query: exp.Expression, relation: Relation) -> list[str]:
    """The columns that the query uses, or may: it names them. One at least, because a table has one."""
    named = {each.name for each in query.find_all(exp.Column)}
    visible = [each.name for each in relation.visible_columns]
    return [name for name in visible if name in named] or visible[:1]
