"""A plan as text, in RisingWave's style.

>>> from headrace.plan.nodes import Scan
>>> print(explain(Scan(relation="t", relation_id=1, columns=("a",)), Catalog()))
StreamTableScan { table: t, columns: [a], incremental: linear }
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from sqlglot import exp

from headrace.catalog import INTERNAL, Catalog, KeyColumn, Relation
from headrace.plan.finished import can_be_computed_anew, finished
from headrace.plan.keys import StreamKey
from headrace.plan.nodes import Filter, Node, Project, Scan, UnionAll
from headrace.sql.dialect import print_sql
from headrace.types import quote_sql

_Filled = Callable[[Scan], Mapping[str, str]]

_Carried = tuple[tuple[KeyColumn, ...], tuple[str, ...]]
"""What tells an operator's rows apart, and by which columns they are distributed."""

BUILD = {"stream_scan_type": "Build"}
"""How what is looked up comes into a relation that is new: a query over all that there is, in parts."""


def explain(plan: StreamKey | Node, catalog: Catalog, filled: _Filled = lambda scan: {}) -> str:
    """A view's plan, with StreamMaterialize on top if its key is given; ``filled`` has more to say of each scan."""
    if isinstance(plan, StreamKey):
        carried = (plan.pk, plan.distribution)
        return "\n".join([_materialize(plan), *_lines(plan.plan, catalog, filled, "", "└─", carried)])
    return "\n".join(_lines(plan, catalog, filled, "", ""))


def explain_pieces(
    view: Relation, catalog: Catalog, plan_of: Callable[[Relation], Node], filled: _Filled = lambda scan: {}
) -> str:
    """A view that was cut into pieces: each as an operator over what it reads."""
    columns = [f"{quote_sql(each.name)}{'(hidden)' if each.hidden else ''}" for each in view.columns]
    top = _line(
        "StreamMaterialize",
        columns=_list(columns),
        **_told((view.pk, view.distribution)),
        incremental=_rule(view, catalog),
    )
    catalog = Catalog(catalog.relations | {view.id: view}, catalog.next_id)
    return "\n".join([top, *_piece(view, catalog, plan_of, filled, "", "└─")])


def _rule(relation: Relation, catalog: Catalog) -> str:
    operator = relation.operator
    if operator is None:
        return "linear"
    if operator.recomputes:
        return "no, all of it is computed anew"
    if operator.passing:
        return "from changes alone, not stored"
    if operator.adds:
        doubted = operator.extremes and not operator.follows_changes
        return "from its old rows" + (", or by key if a minimum or maximum goes" if doubted else "")
    if relation.operator.clock is not None:
        column, comparison = relation.operator.clock
        if operator.watermark is not None:
            of = quote_sql(catalog.relations[operator.watermark].name)
            return f"by key, once the watermark of {of} {comparison} {quote_sql(column)}"
        return f"by key, while now() {comparison} {quote_sql(column)}"
    first = relation.operator.first
    few = "" if not first else "the first row" if set(first) == {1} else f"the first {max(first)} rows"
    if not relation.operator.key:
        return f"from {few}"
    if operator.as_of_now:
        return f"by key {name_list(operator.key)}, looked up once, when a row comes"
    if operator.kept:
        few = f"its own rows, or {few} if one of them goes"
    also = f", from {few}" if few else ", or all of it if one that is read whole changes" if operator.whole else ""
    return f"by key {name_list(relation.operator.key)}{also}"


def _piece(
    relation: Relation,
    catalog: Catalog,
    plan_of: Callable[[Relation], Node],
    filled: _Filled,
    indent: str,
    branch: str,
) -> list[str]:
    """How a relation follows what it reads, and below it the same of that."""
    below = indent + {"├─": "│ ", "└─": "  "}[branch]
    if relation.operator is None:
        plan = plan_of(relation)
        lines = _lines(plan, catalog, filled, indent, branch, (relation.pk, relation.distribution))
        ids = [each.relation_id for each in plan.walk() if isinstance(each, Scan)]
        inner = [catalog.relations[id] for id in dict.fromkeys(ids) if catalog.relations[id].kind == INTERNAL]
        for number, each in enumerate(inner, 1):
            lines += _stored(each, catalog, plan_of, filled, below, "└─" if number == len(inner) else "├─")
        return lines
    operator = relation.operator
    name = "Stream" + "".join(word.capitalize() for word in operator.describe.split("(")[0].split())
    fields = {"key": name_list(operator.key)} if operator.key else {}
    # What it looks things up in: its own rows, and those of its inputs unless their changes are enough.
    read = () if operator.follows_changes else (catalog.relations[id].name for id, _ in operator.inputs)
    fields |= {"dist": _hash(relation.distribution), "state": name_list([relation.name, *read])}
    fields["incremental"] = _rule(relation, catalog)
    if not operator.recomputes and not operator.first and can_be_computed_anew(relation, catalog):
        fields["large changes"] = "computed anew"
    lines = [indent + branch + _line(name, **fields)]
    for number, (id, columns) in enumerate(operator.inputs, 1):
        each = catalog.relations[id]
        mark = "└─" if number == len(operator.inputs) else "├─"
        if each.kind == INTERNAL:
            lines += _stored(each, catalog, plan_of, filled, below, mark)
        else:
            # By key, or only what changes, or all of it.
            by_key = columns or operator.first
            name = "StreamLookup" if by_key else "StreamChanges" if operator.adds else "StreamRead"
            by = {"by": name_list(columns)} if columns else {}
            pk = {"pk": _list(map(_key, each.pk)), "dist": _hash(each.distribution)}
            lines.append(below + mark + _line(name, table=quote_sql(each.name), **by, **pk, **BUILD))
    return lines


def _stored(
    relation: Relation,
    catalog: Catalog,
    plan_of: Callable[[Relation], Node],
    filled: _Filled,
    indent: str,
    branch: str,
) -> list[str]:
    """An internal table, and what it follows."""
    until = finished(relation, catalog)
    line = _line(
        "StreamInternalTable",
        table=quote_sql(relation.name),
        **_told((relation.pk, relation.distribution)),
        **({} if until is None else {"keeps": f"what has not closed by {quote_sql(until[0])}"}),
        incremental=_rule(relation, catalog),
    )
    below = indent + {"├─": "│ ", "└─": "  "}[branch]
    return [indent + branch + line, *_piece(relation, catalog, plan_of, filled, below, "└─")]


def _materialize(key: StreamKey) -> str:
    columns = [*map(quote_sql, key.visible), *(f"{quote_sql(name)}(hidden)" for name, _ in key.hidden)]
    return _line(
        "StreamMaterialize",
        columns=_list(columns),
        **_told((key.pk, key.distribution)),
    )


def _lines(
    node: Node, catalog: Catalog, filled: _Filled, indent: str, branch: str, carried: _Carried | None = None
) -> list[str]:
    """The node and what is below it; branch is the line that leads to the node."""
    lines = [indent + branch + _describe(node, catalog, filled, carried or _carried(node, catalog))]
    below = indent + {"": "", "├─": "│ ", "└─": "  "}[branch]
    for number, each in enumerate(node.inputs, 1):
        lines += _lines(each, catalog, filled, below, "└─" if number == len(node.inputs) else "├─")
    return lines


def _describe(node: Node, catalog: Catalog, filled: _Filled, carried: _Carried | None) -> str:
    if isinstance(node, Scan):
        fields = {"table": quote_sql(node.relation), "columns": name_list(node.columns)}
        relation = catalog.relations.get(node.relation_id)
        if relation is not None:
            fields |= {"pk": _list(map(_key, relation.pk)), "dist": _hash(relation.distribution)}
        return _line("StreamTableScan", **fields, **filled(node))
    # What maps changes row by row keeps nothing.
    told = {} if carried is None else _told(carried) | {"state": "none"}
    if isinstance(node, Filter):
        return _line("StreamFilter", predicate=sql(node.condition), **told)
    if isinstance(node, Project):
        return _line("StreamProject", exprs=_list(_item(name, each) for name, each in node.columns), **told)
    assert isinstance(node, UnionAll)
    return _line("StreamUnion", all="true", **told)


def _carried(node: Node, catalog: Catalog) -> _Carried | None:
    """The upstream relation's key under the names that a chain has for its columns; None: it does not have all."""
    if isinstance(node, Scan):
        relation = catalog.relations.get(node.relation_id)
        names = () if relation is None else (*(key.name for key in relation.pk), *relation.distribution)
        whole = relation is not None and set(names) <= set(node.columns)
        return (relation.pk, relation.distribution) if whole else None
    if isinstance(node, Filter):
        return _carried(node.input, catalog)
    below = _carried(node.input, catalog) if isinstance(node, Project) else None
    if below is None:
        return None
    shown = {each.name: name for name, each in node.columns if isinstance(each, exp.Column)}
    pk, distribution = below
    if not {*(key.name for key in pk), *distribution} <= shown.keys():
        return None
    renamed = tuple(dataclasses.replace(key, name=shown[key.name]) for key in pk)
    return renamed, tuple(shown[name] for name in distribution)


def _told(carried: _Carried) -> dict[str, str]:
    pk, distribution = carried
    return {"stream_key": _list(map(_key, pk)), "dist": _hash(distribution)}


def _line(operator: str, **fields: str) -> str:
    fields = {"incremental": "linear"} | fields
    fields["incremental"] = fields.pop("incremental")  # last
    inner = ", ".join(f"{name}: {value}" for name, value in fields.items())
    return f"{operator} {{ {inner} }}"


def _list(items) -> str:
    return f"[{', '.join(items)}]"


def name_list(names: Iterable[str]) -> str:
    return _list(map(quote_sql, names))


def _hash(columns: tuple[str, ...]) -> str:
    return f"hash({', '.join(map(quote_sql, columns))})" if columns else "single"


def _key(key: KeyColumn) -> str:
    return quote_sql(key.name) + (" DESC" if key.descending else "")


def _item(name: str, expression: exp.Expression) -> str:
    text = sql(expression)
    return text if text == quote_sql(name) else f"{text} as {quote_sql(name)}"


def sql(expression: exp.Expression) -> str:
    """An expression as a user would write it: names quoted only where they must be."""
    copy = expression.copy()
    for identifier in copy.find_all(exp.Identifier):
        identifier.set("quoted", quote_sql(identifier.name) != identifier.name)
    return print_sql(copy, identify=False)
