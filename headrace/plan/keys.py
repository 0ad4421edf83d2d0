"""The stream key of a view: what tells its rows apart, so that an update upstream finds the row it changes.

A view over one relation has that relation's key. Where the view shows a key column unchanged it is used under the
view's name for it; otherwise it is carried along in a hidden column ``_hr_key_<n>``. A UNION ALL adds the number of
the branch, ``_hr_branch``. Where all branches have the same type at a position of their keys they share a column
there; where not, each has one of its own, which is NULL in the rows of the others.

The distribution columns are those of the upstream relations, carried along. The hash that makes the vnode skips
NULLs and does not depend on names, so a row of the view has the vnode of the row it comes from.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headrace.catalog import INTERNAL_PREFIX, Catalog, KeyColumn, Relation
from headrace.errors import Unsupported
from headrace.plan.build import cast_to
from headrace.plan.nodes import Filter, Node, Project, Scan, UnionAll, column
from headrace.plan.rules import prune_columns
from headrace.sql.typed import SMALLINT
from headrace.types import SqlType

BRANCH = f"{INTERNAL_PREFIX}branch"
KEY = f"{INTERNAL_PREFIX}key_"


@dataclass(frozen=True, kw_only=True)
class StreamKey:
    plan: Node
    """The plan with the hidden columns: the root's output is the view's columns, then those."""
    hidden: tuple[tuple[str, SqlType], ...]
    pk: tuple[KeyColumn, ...]
    distribution: tuple[str, ...]

    def __post_init__(self):
        names = set(self.plan.output)
        for name in (*(key.name for key in self.pk), *self.distribution, *(name for name, _ in self.hidden)):
            if name not in names:
                raise ValueError(f"the plan has no column {name}")

    @property
    def visible(self) -> tuple[str, ...]:
        return self.plan.output[: len(self.plan.output) - len(self.hidden)]


@dataclass(frozen=True, kw_only=True)
class _Carried:
    """A column of the upstream key on its way to the top."""

    name: str
    """What it is called at this level."""
    type: SqlType
    key: KeyColumn | None
    """How it sorts; None if only the distribution needs it."""
    distributes: bool


def stream_key(node: Node, catalog: Catalog) -> StreamKey:
    if isinstance(node, UnionAll):
        return _of_union(node, catalog)
    plan, carried = _carry(node, catalog)
    plan, carried = _top(plan, carried, node.output)
    hidden = tuple((each.name, each.type) for each in carried if each.name not in node.output)
    return StreamKey(
        plan=prune_columns(plan),
        hidden=hidden,
        pk=tuple(_key(each.name, each.key) for each in carried if each.key is not None),
        distribution=_distribution(_upstream(node, catalog), carried),
    )


def _key(name: str, key: KeyColumn) -> KeyColumn:
    return KeyColumn(name=name, descending=key.descending, nulls_first=key.nulls_first)


def _upstream(node: Node, catalog: Catalog) -> Relation:
    scan = next(each for each in node.walk() if isinstance(each, Scan))
    return catalog.relations[scan.relation_id]


def _names_carried(relation: Relation) -> list[str]:
    keys = [key.name for key in relation.pk]
    return keys + [name for name in relation.distribution if name not in keys]


def _distribution(relation: Relation, carried: list[_Carried]) -> tuple[str, ...]:
    """In the upstream's order, which the hash depends on."""
    by_origin = dict(zip(_names_carried(relation), carried, strict=True))
    return tuple(by_origin[name].name for name in relation.distribution)


def _carry(node: Node, catalog: Catalog) -> tuple[Node, list[_Carried]]:
    """The chain with the key columns in every operator's output."""
    if isinstance(node, Scan):
        return _carry_from(node, catalog.relations[node.relation_id])
    if isinstance(node, Filter):
        below, carried = _carry(node.input, catalog)
        return Filter(input=below, condition=node.condition), carried
    assert isinstance(node, Project)
    below, carried = _carry(node.input, catalog)
    columns, above = list(node.columns), []
    for number, each in enumerate(carried):
        shown = next((name for name, e in node.columns if isinstance(e, exp.Column) and e.name == each.name), None)
        if shown is None:
            shown = _free(f"{KEY}{number}", [name for name, _ in columns])
            columns.append((shown, column(each.name, each.type)))
        above.append(_Carried(name=shown, type=each.type, key=each.key, distributes=each.distributes))
    return Project(input=below, columns=tuple(columns)), above


def _carry_from(scan: Scan, relation: Relation) -> tuple[Node, list[_Carried]]:
    keys = {key.name: key for key in relation.pk}
    carried = [
        _Carried(
            name=name,
            type=relation.column(name).type,
            key=keys.get(name),
            distributes=name in relation.distribution,
        )
        for name in _names_carried(relation)
    ]
    missing = tuple(each.name for each in carried if each.name not in scan.columns)
    return Scan(relation=scan.relation, relation_id=scan.relation_id, columns=scan.columns + missing), carried


def _free(name: str, taken: list[str]) -> str:
    """Below the top a column may already be called so: a view upstream has hidden columns, too."""
    while name in taken:
        name += "_"
    return name


def _top(plan: Node, carried: list[_Carried], visible: tuple[str, ...]) -> tuple[Node, list[_Carried]]:
    """The root with its hidden columns last and called _hr_key_0, _hr_key_1, …"""
    assert isinstance(plan, Project)
    shown = [item for item in plan.columns if item[0] in visible]
    hidden, final = [], []
    for each in carried:
        name = each.name
        if name not in visible:
            name = f"{KEY}{len(hidden)}"
            hidden.append((name, plan.expression(each.name)))
        final.append(_Carried(name=name, type=each.type, key=each.key, distributes=each.distributes))
    return Project(input=plan.input, columns=(*shown, *hidden)), final


# --- UNION ALL --------------------------------------------------------------------------------------------------


def _of_union(node: UnionAll, catalog: Catalog) -> StreamKey:
    chains = [_carry(branch, catalog) for branch in node.inputs]
    keys = [carried for _, carried in chains]
    slots = _slots(keys, node.output, share=True)
    distribution = _union_distribution(node, catalog, slots)
    if distribution is None:
        slots = _slots(keys, node.output, share=False)
        distribution = _union_distribution(node, catalog, slots)
        assert distribution is not None
    branches = [_branch(number, plan, carried, slots, node.output) for number, (plan, carried) in enumerate(chains)]
    hidden = [(BRANCH, SMALLINT), *((slot.name, slot.type) for slot in slots if slot.name not in node.output)]
    pk = [KeyColumn(name=BRANCH), *(_key(slot.name, slot.key) for slot in slots if slot.key is not None)]
    return StreamKey(
        plan=prune_columns(UnionAll(inputs=tuple(branches))),
        hidden=tuple(hidden),
        pk=tuple(pk),
        distribution=distribution,
    )


@dataclass(frozen=True, kw_only=True)
class _Slot:
    """A column for one position of the keys of some branches."""

    name: str
    type: SqlType
    key: KeyColumn | None
    position: int
    branches: frozenset[int]


def _branch(number: int, plan: Node, carried: list[_Carried], slots: list[_Slot], visible: tuple[str, ...]) -> Node:
    assert isinstance(plan, Project)
    columns = [item for item in plan.columns if item[0] in visible]
    columns.append((BRANCH, cast_to(exp.Literal.number(number), SMALLINT)))
    for slot in slots:
        if slot.name in visible:
            continue
        if number in slot.branches:
            columns.append((slot.name, plan.expression(carried[slot.position].name)))
        else:
            columns.append((slot.name, cast_to(exp.Null(), slot.type)))
    return Project(input=plan.input, columns=tuple(columns))


def _slots(keys: list[list[_Carried]], visible: tuple[str, ...], *, share: bool) -> list[_Slot]:
    slots: list[_Slot] = []
    hidden = 0
    everyone = frozenset(range(len(keys)))
    for position in range(max(map(len, keys))):
        present = [(number, key[position]) for number, key in enumerate(keys) if position < len(key)]
        first = present[0][1]
        agree = share and len(present) == len(keys) and all(_alike(each, first) for _, each in present)
        groups = [(first, everyone)] if agree else [(each, frozenset({number})) for number, each in present]
        for each, branches in groups:
            name = each.name
            if not agree or name not in visible or any(other.name != name for _, other in present):
                name, hidden = f"{KEY}{hidden}", hidden + 1
            slots.append(_Slot(name=name, type=each.type, key=each.key, position=position, branches=branches))
    return slots


def _alike(one: _Carried, other: _Carried) -> bool:
    return (one.type, one.distributes, one.key is None) == (other.type, other.distributes, other.key is None)


def _union_distribution(node: UnionAll, catalog: Catalog, slots: list[_Slot]) -> tuple[str, ...] | None:
    """Each branch's distribution columns in its upstream's order: those of the others are NULL, and skipped.

    None if branches share columns but hash them in different orders, so that no list fits both.
    """
    orders = []
    for number, branch in enumerate(node.inputs):
        relation = _upstream(branch, catalog)
        positions = {name: at for at, name in enumerate(_names_carried(relation))}
        by_position = {slot.position: slot.name for slot in slots if number in slot.branches}
        orders.append([by_position[positions[name]] for name in relation.distribution])
    if any(orders) and not all(orders):
        # one slice for all rows: its vnode is 0, which no hash of NULLs gives
        raise Unsupported("UNION ALL of this relation and others is not supported in a materialized view yet")
    merged = list(dict.fromkeys(name for order in orders for name in order))
    fits = all([name for name in merged if name in order] == order for order in orders)
    return tuple(merged) if fits else None
