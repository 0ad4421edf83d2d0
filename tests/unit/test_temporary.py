"""What a name means to a session that has temporary tables."""

from __future__ import annotations

import pytest

from headrace.catalog import TABLE, Catalog, Relation
from headrace.engine.temporary import without_temporary
from headrace.errors import HeadraceError, InvalidDefinition, Unsupported
from headrace.serving.temporary import TemporaryTables
from headrace.sql.dialect import print_sql
from headrace.sql.parse import parse
from headrace.state.manifest import Manifest


@pytest.fixture
def tables() -> TemporaryTables:
    tables = TemporaryTables(7)
    (created,) = parse("CREATE TEMP TABLE t (id INT)")
    tables.performed(tables.meant(created))
    return tables


def meant(tables: TemporaryTables, text: str):
    (statement,) = parse(text)
    return tables.meant(statement)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT t.id FROM t", "SELECT t.id FROM stored AS t"),
        ("SELECT a.id FROM t AS a, u", "SELECT a.id FROM stored AS a CROSS JOIN u"),
        ("SELECT id FROM pg_temp.t", "SELECT id FROM stored AS t"),
        ("SELECT id FROM public.t", "SELECT id FROM public.t"),
        ("SELECT (SELECT max(id) FROM t)", "SELECT (SELECT MAX(id) FROM stored AS t)"),
        # what WITH names t hides the table, from there on
        ("WITH t AS (SELECT 1 AS id) SELECT id FROM t", "WITH t AS (SELECT 1 AS id) SELECT id FROM t"),
        ("WITH t AS (SELECT id FROM t) SELECT id FROM t", "WITH t AS (SELECT id FROM stored AS t) SELECT id FROM t"),
        (
            "WITH RECURSIVE t AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM t) SELECT id FROM t",
            "WITH RECURSIVE t AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM t) SELECT id FROM t",
        ),
        (
            "SELECT id FROM (WITH t AS (SELECT 1 AS id) SELECT id FROM t) AS q UNION ALL SELECT id FROM t",
            "SELECT id FROM (WITH t AS (SELECT 1 AS id) SELECT id FROM t) AS q UNION ALL SELECT id FROM stored AS t",
        ),
    ],
)
def test_queries(tables, text, expected):
    def bare(text: str) -> str:
        return text.replace('"', "").lower()

    assert bare(print_sql(meant(tables, text).query).replace("t\0" + "7", "stored")) == bare(expected)


def test_statements_that_name_a_table(tables):
    stored = "t\0" + "7"
    assert meant(tables, "INSERT INTO t VALUES (1)").table == stored
    assert meant(tables, "INSERT INTO public.t VALUES (1)").table == "t"
    assert meant(tables, "COPY t FROM STDIN").table == stored
    assert meant(tables, "DESCRIBE t").name == stored
    assert meant(tables, "DROP TABLE t, u").names == (stored, "u")
    assert meant(tables, "DROP VIEW t").names == ("t",)
    assert meant(tables, "CREATE TABLE t (id INT)").name == "t"
    update = meant(tables, "UPDATE t SET id = (SELECT max(id) FROM t) WHERE t.id = 1")
    assert (update.table, update.alias) == (stored, "t")
    assert stored in print_sql(update.assignments[0][1])
    renamed = meant(tables, "ALTER TABLE t RENAME TO u")
    assert (renamed.name, renamed.new_name) == (stored, "u\0" + "7")
    tables.performed(renamed)
    assert meant(tables, "DESCRIBE t").name == "t"
    assert meant(tables, "DESCRIBE u").name == "u\0" + "7"
    tables.performed(meant(tables, "DROP TABLE u"))
    assert meant(tables, "DESCRIBE u").name == "u"


def test_what_a_temporary_table_cannot_have(tables):
    for text in ("CREATE MATERIALIZED VIEW v AS SELECT * FROM t", "CREATE VIEW v AS SELECT * FROM t"):
        with pytest.raises(InvalidDefinition, match="temporary table"):
            meant(tables, text)
    with pytest.raises(Unsupported, match="index on a temporary table"):
        meant(tables, "CREATE INDEX i ON t (id)")
    for text, problem in (
        ("CREATE TEMP VIEW v AS SELECT 1", "CREATE TEMPORARY VIEW"),
        ("CREATE TEMP TABLE x (id INT) ON COMMIT DROP", "ON COMMIT DROP"),
        ("CREATE TEMP TABLE public.x (id INT)", "non-temporary schema"),
        ("CREATE TEMP TABLE x (id INT) WITH (connector = 'datagen')", "with a source"),
        ("CREATE TEMP TABLE x (*) FROM s TABLE 'a.b'", "with a source"),
    ):
        with pytest.raises(HeadraceError, match=problem):
            parse(text)
    (kept,) = parse("CREATE LOCAL TEMPORARY TABLE x ON COMMIT PRESERVE ROWS AS SELECT 1 AS a")
    assert kept.temporary
    (kept,) = parse("CREATE TABLE pg_temp.x (id INT)")
    assert kept.temporary


def test_those_of_one_session_or_of_all_go():
    def table(id: int, name: str, temporary: bool) -> Relation:
        return Relation(id=id, name=name, kind=TABLE, columns=(), temporary=temporary)

    relations = [table(1, "t", False), table(2, "t\0" + "7", True), table(3, "t\0" + "77", True)]
    state = Manifest(catalog=Catalog({each.id: each for each in relations}, 4), runs={1: (), 2: (), 3: ()})
    left = without_temporary(state, TemporaryTables(7).owns)
    assert sorted(left.catalog.relations) == sorted(left.runs) == [1, 3]
    assert sorted(without_temporary(state).catalog.relations) == [1]


def test_nobody_reads_whose_a_table_is():
    assert str(HeadraceError('table "t\0' + '7" exists', hint="drop t\0" + "7")) == 'table "t" exists\nHINT: drop t'
