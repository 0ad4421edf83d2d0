"""Stream keys: what identifies a view's rows, and where they lie."""

from __future__ import annotations

import pytest

from headrace.catalog import MATERIALIZED_VIEW, TABLE, Catalog, Column, KeyColumn, Relation
from headrace.plan.build import build, output_types
from headrace.plan.explain import explain
from headrace.plan.keys import StreamKey, stream_key
from headrace.plan.nodes import Project, Scan, UnionAll
from headrace.sql.bind import bind_query
from headrace.sql.dialect import parse_query
from headrace.types import SqlType

INT, BIGINT, SMALLINT, TEXT = (SqlType(name) for name in ("integer", "bigint", "smallint", "varchar"))


def table(
    number: int, name: str, pk: str, kind: str = TABLE, distribution: str | None = None, **columns: SqlType
) -> Relation:
    return Relation(
        id=number,
        name=name,
        kind=kind,
        columns=tuple(Column(name=each, type=type, hidden=each.startswith("_")) for each, type in columns.items()),
        pk=tuple(KeyColumn(name=each) for each in pk.split()),
        distribution=tuple((distribution if distribution is not None else pk).split()),
    )


@pytest.fixture
def catalog() -> Catalog:
    catalog = Catalog()
    for each in (
        table(1, "orders", "id", id=INT, item=TEXT),
        table(2, "lines", "id no", id=INT, no=SMALLINT, qty=INT),
        table(3, "log", "_row_id", line=TEXT, _row_id=BIGINT),
        table(4, "more", "id", id=INT, item=TEXT),
        table(5, "swapped", "id no", distribution="no id", id=INT, no=SMALLINT, qty=INT),
        table(6, "mv", "_hr_branch _hr_key_0", MATERIALIZED_VIEW, "_hr_key_0",
              a=TEXT, _hr_branch=SMALLINT, _hr_key_0=INT),
    ):  # fmt: skip
        catalog = catalog.add(each)
    return catalog


def key_of(text: str, catalog: Catalog) -> StreamKey:
    return stream_key(build(bind_query(parse_query(text), catalog), catalog), catalog)


def names(key: StreamKey) -> tuple[list[str], list[str], list[str]]:
    return [each.name for each in key.pk], list(key.distribution), [name for name, _ in key.hidden]


@pytest.mark.parametrize(
    ("text", "pk", "distribution", "hidden"),
    [
        ("SELECT id, item FROM orders", ["id"], ["id"], []),
        ("SELECT item, id AS k FROM orders", ["k"], ["k"], []),
        ("SELECT item FROM orders", ["_hr_key_0"], ["_hr_key_0"], ["_hr_key_0"]),
        ("SELECT id + 0 AS id FROM orders", ["_hr_key_0"], ["_hr_key_0"], ["_hr_key_0"]),
        ("SELECT id, id AS again FROM orders", ["id"], ["id"], []),
        ("SELECT no, qty FROM lines", ["_hr_key_0", "no"], ["_hr_key_0", "no"], ["_hr_key_0"]),
        ("SELECT qty FROM lines WHERE no > 1", ["_hr_key_0", "_hr_key_1"], ["_hr_key_0", "_hr_key_1"],
         ["_hr_key_0", "_hr_key_1"]),
        ("SELECT id, no FROM swapped", ["id", "no"], ["no", "id"], []),
        ("SELECT line FROM log", ["_hr_key_0"], ["_hr_key_0"], ["_hr_key_0"]),
        ("SELECT _row_id AS rid FROM log", ["rid"], ["rid"], []),
        ("SELECT a FROM mv", ["_hr_key_0", "_hr_key_1"], ["_hr_key_1"], ["_hr_key_0", "_hr_key_1"]),
        ("SELECT k + 1 AS z FROM (SELECT id + 1 AS k, item FROM orders) q WHERE item = 'x'",
         ["_hr_key_0"], ["_hr_key_0"], ["_hr_key_0"]),
    ],
)  # fmt: skip
def test_one_relation(catalog, text, pk, distribution, hidden):
    key = key_of(text, catalog)
    assert names(key) == (pk, distribution, hidden)
    assert key.plan.output == (*key.visible, *hidden)


@pytest.mark.parametrize(
    ("text", "pk", "distribution", "hidden"),
    [
        # the same key, shown in both branches
        ("SELECT id, item FROM orders UNION ALL SELECT id, item FROM more",
         ["_hr_branch", "id"], ["id"], ["_hr_branch"]),
        # the same type, but not shown in one of them
        ("SELECT id, item FROM orders UNION ALL SELECT 0, item FROM more",
         ["_hr_branch", "_hr_key_0"], ["_hr_key_0"], ["_hr_branch", "_hr_key_0"]),
        # shown under different names
        ("SELECT id, 1 AS x FROM orders UNION ALL SELECT 1, id FROM more",
         ["_hr_branch", "_hr_key_0"], ["_hr_key_0"], ["_hr_branch", "_hr_key_0"]),
        # different types
        ("SELECT item FROM orders UNION ALL SELECT line FROM log",
         ["_hr_branch", "_hr_key_0", "_hr_key_1"], ["_hr_key_0", "_hr_key_1"],
         ["_hr_branch", "_hr_key_0", "_hr_key_1"]),
        # different lengths
        ("SELECT id FROM orders UNION ALL SELECT id FROM lines",
         ["_hr_branch", "id", "_hr_key_0"], ["id", "_hr_key_0"], ["_hr_branch", "_hr_key_0"]),
        # the same columns, hashed in different orders: nothing can be shared
        ("SELECT qty FROM lines UNION ALL SELECT qty FROM swapped",
         ["_hr_branch", "_hr_key_0", "_hr_key_1", "_hr_key_2", "_hr_key_3"],
         ["_hr_key_0", "_hr_key_2", "_hr_key_3", "_hr_key_1"],
         ["_hr_branch", "_hr_key_0", "_hr_key_1", "_hr_key_2", "_hr_key_3"]),
        # a view over a union in a union
        ("SELECT a FROM mv UNION ALL SELECT item FROM orders",
         ["_hr_branch", "_hr_key_0", "_hr_key_1", "_hr_key_2"], ["_hr_key_2", "_hr_key_1"],
         ["_hr_branch", "_hr_key_0", "_hr_key_1", "_hr_key_2"]),
    ],
)  # fmt: skip
def test_unions(catalog, text, pk, distribution, hidden):
    key = key_of(text, catalog)
    assert names(key) == (pk, distribution, hidden)
    assert isinstance(key.plan, UnionAll)
    kinds = [list(output_types(branch, catalog).items()) for branch in key.plan.inputs]
    assert all(each == kinds[0] for each in kinds)
    assert dict(key.hidden).items() <= dict(kinds[0]).items()


def test_each_branch_hashes_what_its_relation_hashes(catalog):
    """The vnode of a row does not change on its way into the view: NULLs do not count, and the order is kept."""
    for text in (
        "SELECT item FROM orders UNION ALL SELECT line FROM log",
        "SELECT qty FROM lines UNION ALL SELECT qty FROM swapped",
        "SELECT id FROM orders UNION ALL SELECT id FROM lines",
        "SELECT a FROM mv UNION ALL SELECT item FROM orders UNION ALL SELECT line FROM log",
    ):
        key = key_of(text, catalog)
        for branch in key.plan.inputs:
            assert isinstance(branch, Project)
            scan = next(node for node in branch.walk() if isinstance(node, Scan))
            hashed = [branch.expression(name) for name in key.distribution]
            columns = [each.name for each in hashed if each.key == "column"]
            assert tuple(columns) == catalog.relations[scan.relation_id].distribution


def test_the_order_of_the_key_is_kept(catalog):
    descending = catalog.relations[1].replace(pk=(KeyColumn(name="id", descending=True, nulls_first=True),))
    (key,) = key_of("SELECT id AS k FROM orders", catalog.update(descending)).pk
    assert key == KeyColumn(name="k", descending=True, nulls_first=True)


def test_columns_that_nobody_uses_are_not_read(catalog):
    key = key_of("SELECT qty FROM lines WHERE qty > 1", catalog)
    scan = next(node for node in key.plan.walk() if isinstance(node, Scan))
    assert scan.columns == ("id", "no", "qty")
    scan = next(node for node in key_of("SELECT id FROM orders", catalog).plan.walk() if isinstance(node, Scan))
    assert scan.columns == ("id",)


def test_a_key_must_be_in_the_plan():
    scan = Scan(relation="t", relation_id=1, columns=("a",))
    with pytest.raises(ValueError, match="no column z"):
        StreamKey(plan=scan, hidden=(), pk=(KeyColumn(name="z"),), distribution=())


def test_explain(catalog):
    key = key_of("SELECT item, id AS \"K\" FROM orders WHERE item <> 'x' UNION ALL SELECT line, 1 FROM log", catalog)
    assert explain(key, catalog) == "\n".join(
        [
            'StreamMaterialize { columns: [item, "K", _hr_branch(hidden), _hr_key_0(hidden), _hr_key_1(hidden)], '
            "stream_key: [_hr_branch, _hr_key_0, _hr_key_1], dist: hash(_hr_key_0, _hr_key_1), incremental: linear }",
            "└─StreamUnion { all: true, stream_key: [_hr_branch, _hr_key_0, _hr_key_1], "
            "dist: hash(_hr_key_0, _hr_key_1), state: none, incremental: linear }",
            '  ├─StreamProject { exprs: [item, id as "K", CAST(0 AS SMALLINT) as _hr_branch, id as _hr_key_0, '
            "CAST(NULL AS BIGINT) as _hr_key_1], stream_key: [_hr_key_0], dist: hash(_hr_key_0), state: none, "
            "incremental: linear }",
            "  │ └─StreamFilter { predicate: item <> 'x', stream_key: [id], dist: hash(id), state: none, "
            "incremental: linear }",
            "  │   └─StreamTableScan { table: orders, columns: [id, item], pk: [id], dist: hash(id), "
            "incremental: linear }",
            '  └─StreamProject { exprs: [line as item, 1 as "K", CAST(1 AS SMALLINT) as _hr_branch, '
            "CAST(NULL AS INT) as _hr_key_0, _row_id as _hr_key_1], stream_key: [_hr_key_1], dist: hash(_hr_key_1), "
            "state: none, incremental: linear }",
            "    └─StreamTableScan { table: log, columns: [line, _row_id], pk: [_row_id], dist: hash(_row_id), "
            "incremental: linear }",
        ]
    )
