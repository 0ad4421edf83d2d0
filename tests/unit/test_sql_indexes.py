"""Indexes: what CREATE INDEX can say, what is refused by name, and where errors point."""

from __future__ import annotations

import pytest

from headrace.errors import HeadraceError, InvalidDefinition, SqlSyntaxError, UndefinedRelation, Unsupported
from headrace.sql import statements as s
from headrace.sql.parse import parse
from tests.support.statements import one


def test_the_shortest_index():
    text = "CREATE INDEX i ON t (a)"
    assert one(text) == s.CreateIndex(
        sql=text,
        name="i",
        table="t",
        keys=(s.IndexKey(name="a"),),
        include=None,
        distributed_by=(),
        if_not_exists=False,
        options=(),
    )


def test_all_that_an_index_can_say():
    text = (
        'create index if not exists public.I on dev.public."T" (a, "B" desc) '
        'include (c, "D") distributed by (a, "B") with (parallelism = 2, backfill_pacing = \'adaptive\')'
    )
    assert one(text) == s.CreateIndex(
        sql=text,
        name="i",
        table="T",
        keys=(s.IndexKey(name="a"), s.IndexKey(name="B", descending=True, nulls_first=True)),
        include=("c", "D"),
        distributed_by=("a", "B"),
        if_not_exists=True,
        options=(("parallelism", "2"), ("backfill_pacing", "adaptive")),
    )


@pytest.mark.parametrize(
    ("order", "descending", "nulls_first"),
    [
        ("", False, False),
        ("ASC", False, False),
        ("DESC", True, True),
        ("NULLS FIRST", False, True),
        ("NULLS LAST", False, False),
        ("ASC NULLS FIRST", False, True),
        ("ASC NULLS LAST", False, False),
        ("DESC NULLS FIRST", True, True),
        ("desc nulls last", True, False),
    ],
)
def test_order(order, descending, nulls_first):
    expected = s.IndexKey(name="a", descending=descending, nulls_first=nulls_first)
    assert one(f"CREATE INDEX i ON t (a {order})").keys == (expected,)
    assert one(f"CREATE INDEX i ON t (z, a {order}, b)").keys[1] == expected


def test_a_column_counts_once():
    statement = one("CREATE INDEX i ON t (a, b DESC, a DESC) INCLUDE (c, b, c) DISTRIBUTED BY (a, a)")
    assert statement.keys == (s.IndexKey(name="a"), s.IndexKey(name="b", descending=True, nulls_first=True))
    assert (statement.include, statement.distributed_by) == (("c",), ("a",))
    assert one("CREATE INDEX i ON t (a) INCLUDE (a)").include == ()


@pytest.mark.parametrize("word", ["date", "timestamp", "interval", "key", "index", "nulls", "first", "include", "job"])
def test_names_that_are_no_keywords(word):
    statement = one(f"CREATE INDEX {word} ON {word} ({word}, x DESC) INCLUDE ({word}) DISTRIBUTED BY ({word})")
    assert (statement.name, statement.table, statement.keys[0].name) == (word, word, word)
    assert statement.distributed_by == (word,)


def test_explain_holds_the_statement():
    inner = one("EXPLAIN CREATE INDEX i ON t (a DESC);").statement
    assert isinstance(inner, s.CreateIndex)
    assert inner.sql == "CREATE INDEX i ON t (a DESC)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DROP INDEX i", s.Drop(sql="", kind="index", names=("i",))),
        (
            "DROP INDEX IF EXISTS i, public.j CASCADE",
            s.Drop(sql="", kind="index", names=("i", "j"), if_exists=True, cascade=True),
        ),
        ("SHOW INDEXES", s.Show(sql="", what="indexes")),
        ("SHOW INDEXES LIKE 'a%'", s.Show(sql="", what="indexes", like="a%")),
        ("SHOW INDEXES FROM public.T", s.ShowIndexes(sql="", table="t")),
        ("SHOW INDEXES IN t LIKE 'a%'", s.ShowIndexes(sql="", table="t", like="a%")),
        ("ALTER INDEX i RENAME TO j", s.Rename(sql="", kind="index", name="i", new_name="j")),
        ("COMMENT ON INDEX i IS 'x'", s.Comment(sql="", kind="index", name="i", text="x")),
        ("SHOW CREATE INDEX i", s.ShowCreate(sql="", kind="index", name="i")),
        ("DESCRIBE i", s.Describe(sql="", name="i")),
    ],
)
def test_statements_about_indexes(text, expected):
    statement = one(text)
    fields = {key: value for key, value in vars(statement).items() if key != "sql"}
    assert type(statement) is type(expected)
    assert fields == {key: value for key, value in vars(expected).items() if key != "sql"}


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("CREATE INDEX", "syntax error at end of input", 13),
        ("CREATE INDEX i", "syntax error at end of input", 15),
        ("CREATE INDEX i t (a)", 'syntax error at or near "t"', 16),
        ("CREATE INDEX IF EXISTS i ON t (a)", 'syntax error at or near "EXISTS"', 17),
        ("CREATE INDEX i ON", "syntax error at end of input", 18),
        ("CREATE INDEX i ON t", "syntax error at end of input", 20),
        ("CREATE INDEX i ON t a", 'syntax error at or near "a"', 21),
        ("CREATE INDEX i ON t ()", 'syntax error at or near ")"', 22),
        ("CREATE INDEX i ON t (a", "syntax error at end of input", 23),
        ("CREATE INDEX i ON t (a,)", 'syntax error at or near ")"', 24),
        ("CREATE INDEX i ON t (,a)", 'syntax error at or near ","', 22),
        ("CREATE INDEX i ON t (a b)", 'syntax error at or near "b"', 24),
        ("CREATE INDEX i ON t (a 'asc')", "syntax error at or near \"'asc'\"", 24),
        ("CREATE INDEX i ON t (t.a)", 'syntax error at or near "."', 23),
        ("CREATE INDEX i ON t (*)", 'syntax error at or near "*"', 22),
        ("CREATE INDEX i ON t (1)", 'syntax error at or near "1"', 22),
        ("CREATE INDEX i ON t (order)", 'syntax error at or near "order"', 22),
        ("CREATE INDEX i ON t (a +)", 'syntax error at or near ")"', 25),
        ("CREATE INDEX i ON t (a ASC DESC)", 'syntax error at or near "DESC"', 28),
        ("CREATE INDEX i ON t (a NULLS)", 'syntax error at or near ")"', 29),
        ("CREATE INDEX i ON t (a NULLS FIRST DESC)", 'syntax error at or near "DESC"', 36),
        ("CREATE INDEX i ON t (a) INCLUDE", "syntax error at end of input", 32),
        ("CREATE INDEX i ON t (a) INCLUDE ()", 'syntax error at or near ")"', 34),
        ("CREATE INDEX i ON t (a) INCLUDE b", 'syntax error at or near "b"', 33),
        ("CREATE INDEX i ON t (a) INCLUDE (b DESC)", 'syntax error at or near "DESC"', 36),
        ("CREATE INDEX i ON t (a) DISTRIBUTED (a)", 'syntax error at or near "("', 37),
        ("CREATE INDEX i ON t (a) DISTRIBUTED BY ()", 'syntax error at or near ")"', 41),
        ("CREATE INDEX i ON t (a) DISTRIBUTED BY a", 'syntax error at or near "a"', 40),
        ("CREATE INDEX i ON t (a) DISTRIBUTED BY (a DESC)", 'syntax error at or near "DESC"', 43),
        ("CREATE INDEX i ON t (a) DISTRIBUTED BY (a) INCLUDE (b)", 'syntax error at or near "INCLUDE"', 44),
        ("CREATE INDEX i ON t (a) WITH (b)", 'syntax error at or near ")"', 32),
        ("CREATE INDEX i ON t (a) AS SELECT 1", 'syntax error at or near "AS"', 25),
        ("SHOW INDEXES FROM", "syntax error at end of input", 18),
        ("SHOW INDEXES FROM t LIKE a", 'syntax error at or near "a"', 26),
        ("DROP INDEX", "syntax error at end of input", 11),
    ],
)
def test_syntax_errors_point_at_the_token(text, message, position):
    with pytest.raises(SqlSyntaxError) as caught:
        parse(text)
    assert (caught.value.message, caught.value.position) == (message, position)


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("CREATE INDEX i ON t (lower(a))", "an index takes columns, not expressions", 22),
        ("CREATE INDEX i ON t (a, b + 1 DESC)", "an index takes columns, not expressions", 25),
        ("CREATE INDEX i ON t ((a))", "an index takes columns, not expressions", 22),
        ("CREATE INDEX i ON t (a::varchar NULLS LAST)", "an index takes columns, not expressions", 22),
        ("CREATE INDEX i ON t (a) DISTRIBUTED BY (lower(a))", "an index takes columns, not expressions", 41),
        ('CREATE INDEX i ON t (a COLLATE "C")', "COLLATE is not supported in CREATE INDEX", 24),
        ("CREATE INDEX i ON t USING btree (a)", "CREATE INDEX … USING is not supported", 21),
        ("CREATE INDEX i ON t (a) WHERE a > 1", "CREATE INDEX … WHERE is not supported", 25),
        ("CREATE INDEX i ON t (a) NULLS NOT DISTINCT", "CREATE INDEX … NULLS is not supported", 25),
        ("CREATE INDEX i ON t (a) TABLESPACE x", "CREATE INDEX … TABLESPACE is not supported", 25),
        ("CREATE INDEX ON t (a)", "CREATE INDEX without a name is not supported", 14),
        ("CREATE INDEX CONCURRENTLY i ON t (a)", "CREATE INDEX CONCURRENTLY is not supported", 14),
        ("CREATE UNIQUE INDEX i ON t (a)", "CREATE UNIQUE INDEX is not supported", 8),
        ("CREATE OR REPLACE INDEX i ON t (a)", "CREATE OR REPLACE INDEX is not supported", 19),
    ],
)
def test_what_is_refused_is_named(text, message, position):
    with pytest.raises(Unsupported) as caught:
        parse(text)
    assert (caught.value.message, caught.value.position) == (message, position)


@pytest.mark.parametrize("columns", ["b", "b, a", "a, c", "a, b, c"])
def test_an_index_is_distributed_by_the_first_columns_of_its_key(columns):
    with pytest.raises(InvalidDefinition, match="the first columns of its key") as caught:
        parse(f"CREATE INDEX i ON t (a, b) DISTRIBUTED BY ({columns})")
    assert (caught.value.hint, caught.value.position) == ("the key is (a, b)", 43)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("CREATE INDEX other.i ON t (a)", UndefinedRelation, 'schema "other" does not exist'),
        ("CREATE INDEX i ON other.t (a)", UndefinedRelation, 'schema "other" does not exist'),
        ("SHOW INDEXES FROM other.t", UndefinedRelation, 'schema "other" does not exist'),
        ("CREATE INDEX i ON t (a) WITH (b = 1, b = 2)", SqlSyntaxError, 'option "b" specified more than once'),
    ],
)
def test_other_errors(text, error, message):
    with pytest.raises(HeadraceError, match=message) as caught:
        parse(text)
    assert type(caught.value) is error
