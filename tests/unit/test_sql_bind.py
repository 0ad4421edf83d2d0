"""Names in queries: found, made explicit, or reported as PostgreSQL would."""

from __future__ import annotations

import pytest

from headrace.catalog import INDEX, MATERIALIZED_VIEW, SOURCE, TABLE, VIEW, Catalog, Column, KeyColumn, Relation
from headrace.errors import (
    AmbiguousColumn,
    DataError,
    DuplicateAlias,
    GroupingError,
    InvalidColumnReference,
    SqlSyntaxError,
    TypeMismatch,
    UndefinedColumn,
    UndefinedRelation,
    Unsupported,
    WindowingError,
    WrongObjectKind,
)
from headrace.sql.bind import BoundQuery, bind_expression, bind_query, bind_returning, rename_relation
from headrace.sql.dialect import parse_expression, parse_query, print_sql
from headrace.sql.translate import to_spark, type_of
from headrace.types import SqlType, array_of

INT, BIGINT, TEXT, BOOL = SqlType("integer"), SqlType("bigint"), SqlType("varchar"), SqlType("boolean")


def relation(id: int, name: str, kind: str = TABLE, query: str | None = None, **columns: SqlType) -> Relation:
    hidden = {"_row_id"}
    return Relation(
        id=id,
        name=name,
        kind=kind,
        columns=tuple(Column(name=column, type=type, hidden=column in hidden) for column, type in columns.items()),
        pk=tuple(KeyColumn(name=name) for name in list(columns)[:1]),
        query=query,
    )


@pytest.fixture
def catalog() -> Catalog:
    catalog = Catalog()
    for each in (
        relation(1, "t", a=INT, b=TEXT, _row_id=BIGINT),
        relation(2, "u", a=BIGINT, c=SqlType("numeric", precision=10, scale=2), xs=array_of(INT)),
        relation(3, "v", VIEW, 'SELECT "t"."a" AS "a", "t"."b" AS "b" FROM "public"."t" AS "t"', x=INT, y=TEXT),
        relation(4, "w", VIEW, 'SELECT "v"."x" AS "x" FROM "public"."v" AS "v"', x=INT),
        relation(5, "m", MATERIALIZED_VIEW, "SELECT 1", k=INT),
        relation(6, "src", SOURCE),
        relation(7, "idx", INDEX, a=INT),
        relation(8, "Odd Name", TABLE, **{"A b": INT, "s": SqlType("struct", fields=(("f", INT), ("g", TEXT)))}),
    ):
        catalog = catalog.add(each)
    return catalog


def bind(text: str, catalog: Catalog, **options) -> BoundQuery:
    """Also checks that the bound query's text binds to itself."""
    bound = bind_query(parse_query(text), catalog, **options)
    again = bind_query(parse_query(bound.text()), catalog, **options)
    assert (again.text(), again.output, again.types, again.relations) == (
        bound.text(), bound.output, bound.types, bound.relations,
    )  # fmt: skip
    assert to_spark(again.expression) == to_spark(bound.expression)
    return bound


# --- stars and columns ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("SELECT * FROM t", ("a", "b")),
        ("SELECT _row_id, * FROM t", ("_row_id", "a", "b")),
        ("SELECT x.* FROM t AS x", ("a", "b")),
        ("SELECT public.t.a FROM t", ("a",)),
        ("SELECT a FROM dev.public.t", ("a",)),
        ("SELECT * FROM t, u", ("a", "b", "a", "c", "xs")),
        ("SELECT * FROM t JOIN u USING (a)", ("a", "b", "c", "xs")),
        ("SELECT * FROM t NATURAL JOIN u", ("a", "b", "c", "xs")),
        ("SELECT u.*, b FROM t LEFT JOIN u ON t.a = u.a", ("a", "c", "xs", "b")),
        ("SELECT * FROM (SELECT a AS z FROM t) AS q", ("z",)),
        ("SELECT * FROM (SELECT a, b FROM t) AS q(p)", ("p", "b")),
        ("SELECT * FROM t AS x(p, q)", ("p", "q")),
        ("WITH c(k) AS (SELECT a FROM t) SELECT * FROM c", ("k",)),
        ("SELECT * FROM (VALUES (1, 'a')) AS v(x)", ("x", "column2")),
        ("VALUES (1, 2)", ("column1", "column2")),
        ("SELECT * FROM generate_series(1, 2)", ("generate_series",)),
        ("SELECT * FROM generate_series(1, 2) AS g", ("g",)),
        ("SELECT * FROM u, unnest(xs) WITH ORDINALITY AS e(x, n)", ("a", "c", "xs", "x", "n")),
        ("SELECT * FROM (t JOIN u ON t.a = u.a)", ("a", "b", "a", "c", "xs")),
        ("SELECT a FROM t UNION ALL SELECT c FROM u", ("a",)),
        ('SELECT "A b", (s).f FROM "Odd Name"', ("A b", "f")),
        ("SELECT * FROM m", ("k",)),
        ("SELECT x FROM v", ("x",)),
        ("SELECT * FROM w", ("x",)),
    ],
)
def test_output(catalog, text, output):
    assert bind(text, catalog).output == output


@pytest.mark.parametrize(
    "text",
    [
        "SELECT string_agg(DISTINCT b, ',' ORDER BY b DESC) FROM t",
        "SELECT a FROM t WHERE b LIKE 'x#%' ESCAPE '#' OR b NOT LIKE b ESCAPE chr(35)",
        "SELECT to_jsonb(b) @? '$.a' AS p, to_jsonb(b) @@ '$.a == 1' AS q FROM t",
        "SELECT * FROM ((VALUES (1, 'x')) AS s (n, w) JOIN t ON t.a = s.n)",
        "SELECT t.a, s.n FROM t, LATERAL (VALUES (t.a), (2)) AS s (n)",
        "SELECT extract(year FROM age(current_date, DATE '2020-01-31')) FROM t",
        "SELECT DATE '2020-01-31' + a * INTERVAL '1 month' FROM t",
    ],
)
def test_a_stored_query_binds_to_itself(catalog, text):
    bind(text, catalog)


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("a", "a"), ("t.a", "a"), ("a + 1", "?column?"), ("1", "?column?"), ("'x'", "?column?"), ("NULL", "?column?"),
        ("count(*)", "count"), ("count(*) FILTER (WHERE true)", "count"), ("row_number() OVER ()", "row_number"),
        ("a::text", "a"), ("1::int", "int4"), ("'1'::text", "text"), ("'1'::varchar", "varchar"), ("true", "bool"),
        ("interval '1 day'", "interval"), ("date '2020-01-01'", "date"), ("'{1}'::int[]", "int4"), ("(a)", "a"),
        ("CASE WHEN true THEN 1 END", "case"), ("CASE WHEN true THEN 1 ELSE a END", "a"),
        ("coalesce(a, 1)", "coalesce"),
        ("ARRAY[1]", "array"), ("trim(b)", "btrim"), ("extract(year FROM now())", "extract"), ("now()", "now"),
        ("current_date", "current_date"), ("EXISTS (SELECT 1)", "exists"), ("(SELECT a)", "a"), ("-a", "?column?"),
        ("a AS z", "z"), ('a AS "Z"', "Z"), ("a IS NULL", "?column?"), ("now() AT TIME ZONE 'UTC'", "timezone"),
    ],
)  # fmt: skip
def test_labels_are_postgresqls(catalog, expression, name):
    assert bind(f"SELECT {expression} FROM t", catalog).output == (name,)


def test_a_bound_query_says_everything(catalog):
    bound = bind("SELECT x.*, a + 1 FROM t x WHERE b = 'q' ORDER BY 1", catalog)
    assert bound.text() == (
        'SELECT "x"."a" AS "a", "x"."b" AS "b", "x"."a" + 1 AS "?column?" '
        'FROM "public"."t" AS "x" WHERE "x"."b" = \'q\' ORDER BY 1'
    )
    assert bound.types == (INT, TEXT, INT)


def test_output_names_come_before_columns_in_order_by(catalog):
    assert "ORDER BY 1" in bind("SELECT -a AS a FROM t ORDER BY a", catalog).text()
    assert 'ORDER BY "t"."a" + 1' in bind("SELECT -a AS a FROM t ORDER BY a + 1", catalog).text()


def test_columns_come_before_output_names_in_group_by(catalog):
    assert 'GROUP BY "t"."a"' in bind("SELECT upper(b) AS a, count(*) FROM t GROUP BY a, b", catalog).text()
    assert 'GROUP BY upper("t"."b")' in bind("SELECT upper(b) AS z FROM t GROUP BY z", catalog).text()
    assert 'GROUP BY upper("t"."b")' in bind("SELECT upper(b) FROM t GROUP BY 1", catalog).text()


def test_a_query_that_is_grouped_by_is_one_when_it_is_read_again(catalog):
    for group in ("m", "1", "(SELECT max(k) FROM m)"):
        text = bind(f"SELECT (SELECT max(k) FROM m) AS m, count(*) FROM t GROUP BY {group}", catalog).text()
        assert text.endswith('GROUP BY (SELECT max("m"."k") AS "max" FROM "public"."m" AS "m")')


def test_using_merges_columns(catalog):
    assert 'SELECT "t"."a" AS "a"' in bind("SELECT a FROM t LEFT JOIN u USING (a)", catalog).text()
    assert 'SELECT "u"."a" AS "a"' in bind("SELECT a FROM t RIGHT JOIN u USING (a)", catalog).text()
    assert 'coalesce("t"."a", "u"."a") AS "a"' in bind("SELECT a FROM t FULL JOIN u USING (a)", catalog).text()


def test_named_windows_are_spelled_out(catalog):
    bound = bind("SELECT sum(a) OVER w FROM t WINDOW w AS (PARTITION BY b)", catalog)
    assert 'OVER (PARTITION BY "t"."b")' in bound.text()
    with pytest.raises(UndefinedColumn, match='window "x" does not exist'):
        bind("SELECT sum(a) OVER x FROM t", catalog)


def test_a_window_has_its_name_in_its_own_query(catalog):
    inner = "SELECT max(k) OVER w FROM m WINDOW w AS (ORDER BY k) LIMIT 1"
    text = bind(f"SELECT sum(a) OVER w, ({inner}) FROM t WINDOW w AS (PARTITION BY b)", catalog).text()
    assert 'max("m"."k") OVER (ORDER BY "m"."k")' in text and 'sum("t"."a") OVER (PARTITION BY "t"."b")' in text
    with pytest.raises(UndefinedColumn, match='window "w" does not exist'):
        bind("SELECT a, (SELECT max(k) OVER w FROM m) FROM t WINDOW w AS (ORDER BY b)", catalog)


def test_a_cte_hides_a_table_but_not_in_itself(catalog):
    bound = bind("WITH t AS (SELECT a AS only FROM t) SELECT * FROM t", catalog)
    assert bound.output == ("only",) and bound.relations == (1,)


def test_correlated_subqueries_see_the_outer_query(catalog):
    bound = bind("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND b = 'x')", catalog)
    assert '"u"."a" = "t"."a" AND "t"."b" = \'x\'' in bound.text()
    assert bound.relations == (1, 2)


def test_a_derived_table_does_not_see_its_neighbours(catalog):
    with pytest.raises(UndefinedRelation, match='missing FROM-clause entry for table "t"'):
        bind("SELECT * FROM t, (SELECT t.a) AS q", catalog)
    assert bind("SELECT * FROM t, LATERAL (SELECT t.a AS z) AS q", catalog).output == ("a", "b", "z")


# --- relations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "relations", "depends_on"),
    [
        ("SELECT 1", (), ()),
        ("SELECT u.a FROM u, t AS x, u AS y", (2, 1), (2, 1)),
        ("SELECT * FROM v", (1,), (3,)),
        ("SELECT * FROM w, t", (1,), (4, 1)),
        ("SELECT * FROM m WHERE k IN (SELECT a FROM t)", (5, 1), (5, 1)),
    ],
)
def test_relations(catalog, text, relations, depends_on):
    bound = bind(text, catalog)
    assert bound.relations == relations
    assert bind_query(parse_query(text), catalog).depends_on == depends_on


def test_views_are_inlined(catalog):
    assert bind("SELECT y FROM v AS q", catalog).text() == (
        'SELECT "q"."y" AS "y" FROM (SELECT "t"."a" AS "a", "t"."b" AS "b" FROM "public"."t" AS "t") AS "q"("x", "y")'
    )


def test_views_can_be_left_by_name(catalog):
    bound = bind("SELECT x FROM v", catalog, inline_views=False)
    assert bound.text() == 'SELECT "v"."x" AS "x" FROM "public"."v" AS "v"'
    assert (bound.relations, bound.depends_on) == ((1,), (3,))


def test_rename_relation_keeps_aliases_and_ctes(catalog):
    query = bind("WITH t AS (SELECT a FROM t) SELECT t.a, x.b FROM t JOIN public.t AS x ON true", catalog).text()
    renamed = rename_relation(query, "t", "New")
    assert renamed.count('"public"."New"') == 2 and '"public"."t"' not in renamed
    table = catalog.relations[1].replace(name="New")
    assert bind(renamed, catalog.update(table)).output == ("a", "b")
    assert rename_relation(query, "other", "x") == query


def test_as_of(catalog):
    assert bind_query(parse_query("SELECT a FROM t FOR SYSTEM_TIME AS OF 12"), catalog).as_of == "12"
    moment = bind_query(parse_query("SELECT a FROM t FOR SYSTEM_TIME AS OF '2020-01-01' AS x"), catalog)
    assert moment.as_of == "2020-01-01"
    with pytest.raises(Unsupported, match="must be the same for all tables"):
        bind_query(parse_query("SELECT 1 FROM t FOR SYSTEM_TIME AS OF 12, u"), catalog)
    with pytest.raises(Unsupported, match="only supported as"):
        bind_query(parse_query("SELECT 1 FROM t FOR SYSTEM_TIME AS OF now()"), catalog)


# --- errors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "error", "message", "position"),
    [
        ("SELECT 1 FROM nope", UndefinedRelation, 'relation "nope" does not exist', 15),
        ("SELECT 1 FROM other.t", UndefinedRelation, 'schema "other" does not exist', 15),
        ("SELECT 1 FROM src", WrongObjectKind, '"src" is a source, which cannot be queried', 15),
        ("SELECT 1 FROM idx", WrongObjectKind, '"idx" is an index, which cannot be queried', 15),
        ("SELECT nope FROM t", UndefinedColumn, 'column "nope" does not exist', 8),
        ("SELECT t.nope FROM t", UndefinedColumn, "column t.nope does not exist", 8),
        ("SELECT q.a FROM t", UndefinedRelation, 'missing FROM-clause entry for table "q"', 8),
        ("SELECT t.a FROM t AS x", UndefinedRelation, 'missing FROM-clause entry for table "t"', 8),
        ("SELECT a FROM t, u", AmbiguousColumn, 'column reference "a" is ambiguous', 8),
        ("SELECT 1 FROM t, t", DuplicateAlias, 'table name "t" specified more than once', None),
        ("SELECT a AS x, b AS x FROM t ORDER BY x", AmbiguousColumn, 'ORDER BY "x" is ambiguous', 39),
        ("SELECT a FROM t ORDER BY 2", InvalidColumnReference, "ORDER BY position 2 is not in select list", None),
        ("SELECT a FROM t GROUP BY 9", InvalidColumnReference, "GROUP BY position 9 is not in select list", None),
        ("SELECT a FROM t ORDER BY 'x'", SqlSyntaxError, "non-integer constant in ORDER BY", 26),
        ("SELECT a FROM t UNION SELECT 1 ORDER BY a + 1", Unsupported, "invalid UNION/INTERSECT/EXCEPT ORDER BY", 41),
        ("SELECT a FROM t UNION SELECT 1, 2", SqlSyntaxError, "same number of columns", None),
        ("SELECT a FROM t UNION SELECT b FROM t", TypeMismatch, "UNION types integer and varchar", None),
        ("SELECT * FROM (SELECT 1)", SqlSyntaxError, "subquery in FROM must have an alias", 23),
        ("SELECT * FROM t AS x(a, b, c, d)", SqlSyntaxError, "3 columns available but 4 columns", None),
        ("SELECT * FROM t JOIN u USING (b)", UndefinedColumn, 'column "b" specified in USING clause', None),
        ("SELECT a FROM t LIMIT -1", DataError, "LIMIT must not be negative", None),
        ("SELECT a FROM t LIMIT a", InvalidColumnReference, "argument of LIMIT must not contain variables", 23),
        ("SELECT *", SqlSyntaxError, "SELECT * with no tables specified is not valid", 8),
        ("SELECT FROM t", Unsupported, "SELECT without columns", None),
        ("SELECT string_agg(DISTINCT b, ',' ORDER BY a) FROM t", Unsupported, "expressions must appear in arg", None),
        ("SELECT q FROM t", UndefinedColumn, 'column "q" does not exist', 8),
        ("SELECT s.f FROM \"Odd Name\"", UndefinedRelation, 'missing FROM-clause entry for table "s"', 8),
        ("SELECT (s).z FROM \"Odd Name\"", TypeMismatch, 'could not identify column "z"', 12),
        ("WITH RECURSIVE c AS (SELECT 1 AS n UNION SELECT n FROM c) SELECT 1", Unsupported, "UNION in WITH", None),
        ("WITH RECURSIVE c AS (SELECT n FROM c) SELECT 1", Unsupported, "not of the form", None),
        ("WITH RECURSIVE c AS (SELECT n FROM c UNION ALL SELECT 1) SELECT 1", Unsupported, "not of the form", None),
        ("WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT 1.5 FROM c) SELECT 1", TypeMismatch, "has type", None),
        ("WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT 1, 2 FROM c) SELECT 1", SqlSyntaxError, "same", None),
        ("WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n FROM c LIMIT 5) SELECT 1", Unsupported, "LIMIT", None),
        ("WITH c AS (SELECT 1), c AS (SELECT 2) SELECT 1", DuplicateAlias, '"c" specified more than once', None),
        ("SELECT a FROM t WHERE a", TypeMismatch, "argument of WHERE must be type boolean, not type integer", 23),
        ("SELECT a = b FROM t", TypeMismatch, "operator does not exist: integer = varchar", 10),
        ("SELECT a + b FROM t", TypeMismatch, "operator does not exist: integer + varchar", 10),
        ("SELECT a || (1 || a) FROM t", TypeMismatch, "operator does not exist: integer || integer", 16),
        ("SELECT DISTINCT a FROM t ORDER BY b", InvalidColumnReference, "must appear in select list", 35),
        ("SELECT DISTINCT ON (b) a FROM t ORDER BY a, b", InvalidColumnReference, "must match initial", 21),
        ("SELECT a = 'x' FROM t", DataError, 'invalid input syntax for type integer: "x"', 12),
        ("SELECT lower(a) FROM t", TypeMismatch, r"function lower(integer) does not exist", 8),
        ("SELECT nope(a) FROM t", Unsupported, r"function nope() is not supported", 8),
        ("SELECT row_number() FROM t", WrongObjectKind, "window function row_number requires an OVER clause", 8),
        ("SELECT (SELECT 1, 2)", SqlSyntaxError, "subquery must return only one column", None),
        ("SELECT 1 FROM t FOR UPDATE", Unsupported, "FOR UPDATE", None),
        ("SELECT 1 FROM v TABLESAMPLE SYSTEM (10)", Unsupported, "TABLESAMPLE of something else", None),
        ("WITH c AS (SELECT 1) SELECT 1 FROM c TABLESAMPLE SYSTEM (10)", Unsupported, "TABLESAMPLE of something", None),
        ("SELECT grouping(b) FROM t GROUP BY ROLLUP (a)", GroupingError, "arguments to GROUPING must be grouping", 8),
        ("SELECT percentile_cont(0.5) FROM t", TypeMismatch, "WITHIN GROUP is required", 8),
        ("SELECT a FROM t FETCH FIRST 1 ROW WITH TIES", Unsupported, "WITH TIES", None),
        ("SELECT jsonb_each('{}'), unnest(ARRAY[1]) FROM t", Unsupported, "several columns, beside another", 8),
        ("SELECT a FROM t LIMIT (SELECT 1)", Unsupported, "LIMIT with a subquery", None),
        ("SELECT (a, b) < ANY (SELECT a, b FROM t) FROM t", Unsupported, "compared with a subquery by < ANY", None),
        ("SELECT count(*), generate_series(1, 2) + 1 FROM t", Unsupported, "generate_series() inside", None),
        ("SELECT rank() OVER (), unnest(ARRAY[1]) FROM t", Unsupported, "unnest() beside a window function", None),
        ("SELECT jsonb_each('{}'), count(*) FROM t", Unsupported, "jsonb_each() beside aggregates", 8),
        ("SELECT jsonb_each('{}'), rank() OVER () FROM t", Unsupported, "jsonb_each() beside a window function", 8),
        ("SELECT jsonb_each('{}'), unnest(ARRAY[1]) FROM t", Unsupported, "several columns, beside another", 8),
        ("SELECT a FROM t LIMIT (SELECT 1)", Unsupported, "LIMIT with a subquery", None),
        ("SELECT a, sum(a) OVER (ORDER BY a GROUPS 1 PRECEDING) FROM t", Unsupported, "GROUPS in a window frame", None),
        ("SELECT sum(a) OVER (ROWS 1 PRECEDING EXCLUDE TIES) FROM t", Unsupported, "EXCLUDE TIES", None),
        ("SELECT rank(1) WITHIN GROUP (ORDER BY a) FROM t", Unsupported, "rank() WITHIN GROUP", None),
        ("SELECT 1 INTO x FROM t", Unsupported, "SELECT INTO", None),
        ("VALUES (1), (1, 2)", SqlSyntaxError, "VALUES lists must all be the same length", None),
        ("VALUES (DEFAULT)", SqlSyntaxError, "DEFAULT is not allowed in this context", None),
        ("SELECT a FROM t WHERE count(*) > 1", GroupingError, "aggregate functions are not allowed in WHERE", 23),
        ("SELECT a FROM t GROUP BY count(*)", GroupingError, "aggregate functions are not allowed in GROUP BY", 26),
        ("SELECT t.a FROM t JOIN u ON sum(t.a) > 1", GroupingError, "not allowed in JOIN conditions", 29),
        ("SELECT a FROM t WHERE rank() OVER () > 1", WindowingError, "window functions are not allowed in WHERE", 23),
        ("SELECT a, count(*) FROM t", GroupingError, 'column "t.a" must appear in the GROUP BY clause', 8),
        ("SELECT b FROM t GROUP BY a", GroupingError, 'column "t.b" must appear in the GROUP BY clause', 8),
        ("SELECT a + 1 FROM t GROUP BY a + 2", GroupingError, 'column "t.a" must appear', 8),
        ("SELECT a FROM t HAVING true", GroupingError, 'column "t.a" must appear', 8),
        ("SELECT count(*) FROM t ORDER BY a", GroupingError, 'column "t.a" must appear', 33),
        ("SELECT sum(count(*)) FROM t", GroupingError, "aggregate function calls cannot be nested", 12),
        ('SELECT 1 AS ""', SqlSyntaxError, "zero-length delimited identifier", 13),
        ("SELECT a IN () FROM t", Unsupported, "IN with an empty list", None),
    ],
)  # fmt: skip
def test_errors(catalog, text, error, message, position):
    with pytest.raises(error) as caught:
        bind(text, catalog)
    assert message in caught.value.message
    if position is not None:
        assert caught.value.position == position


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM t",
        "SELECT a, a + 1, upper(b), count(*) FROM t GROUP BY a, b",
        "SELECT a + 1, sum(a) FROM t GROUP BY a + 1 HAVING sum(a) > 1 ORDER BY sum(a), a + 1",
        "SELECT upper(b) AS u FROM t GROUP BY u",
        "SELECT 1, 'x' FROM t GROUP BY 1, 2",
        "SELECT sum(a) OVER (), a FROM t",
        "SELECT a, sum(count(*)) OVER (ORDER BY a) FROM t GROUP BY a",
        "SELECT b, (SELECT max(c) FROM u) FROM t GROUP BY b",
        "SELECT a, b, count(*) FILTER (WHERE a > 1) FROM t GROUP BY ROLLUP (a, b)",
        "SELECT max(a) FROM t HAVING count(*) > 1",
    ],
)
def test_grouping_that_is_fine(catalog, text):
    bind(text, catalog)


def test_hints_name_what_there_is(catalog):
    with pytest.raises(UndefinedColumn) as caught:
        bind("SELECT nope FROM t", catalog)
    assert caught.value.hint == "there are: a, b"
    with pytest.raises(UndefinedRelation) as missing:
        bind('SELECT s.f FROM "Odd Name"', catalog)
    assert missing.value.hint == "for a field of a struct, write (s).f"
    assert AmbiguousColumn.sqlstate == "42702"


# --- expressions ------------------------------------------------------------------------------------------------

COLUMNS = (Column(name="a", type=INT), Column(name="b", type=TEXT), Column(name="_row_id", type=BIGINT, hidden=True))


@pytest.mark.parametrize("text", ["a + 1 > 2", "t.a + 1 > 2", "x.a + 1 > 2"])
def test_bind_expression(text):
    alias = "x" if text.startswith("x") else None
    bound = bind_expression(parse_expression(text), COLUMNS, "t", alias=alias)
    assert print_sql(bound) == '"a" + 1 > 2'
    assert type_of(bound) == BOOL
    assert to_spark(bound) == "((`a` + 1) > 2)"
    assert to_spark(bound, within="n0") == "((n0.`a` + 1) > 2)"


def test_bind_expression_errors():
    with pytest.raises(UndefinedColumn, match='column "a" does not exist'):
        bind_expression(parse_expression("a"), ())
    with pytest.raises(Unsupported, match="a subquery here"):
        bind_expression(parse_expression("a IN (SELECT 1)"), COLUMNS, "t")
    with pytest.raises(Unsupported, match=r"function nope\(\)"):
        bind_expression(parse_expression("nope(a)"), COLUMNS, "t")


def test_bind_expression_with_subqueries_keeps_qualifiers(catalog):
    bound = bind_expression(parse_expression("a IN (SELECT u.a FROM u WHERE c > t.a)"), COLUMNS, "t", catalog=catalog)
    assert print_sql(bound).startswith('"t"."a" IN')


def test_bind_returning():
    items = [parse_query(f"SELECT {text}").expressions[0] for text in ("*", "a + 1", "upper(b) AS u", "_row_id")]
    bound = bind_returning(items, COLUMNS, "t")
    assert [name for name, _ in bound] == ["a", "b", "?column?", "u", "_row_id"]


def test_windows_of_time():
    catalog = Catalog().add(relation(1, "bids", n=INT, at=SqlType("timestamp")))
    tumbling = bind("SELECT w.n, window_start FROM TUMBLE(bids, at, INTERVAL '1 minute') AS w", catalog)
    assert tumbling.types == (INT, SqlType("timestamp"))
    hopping = bind("SELECT bids.* FROM HOP(bids, at, INTERVAL '1 minute', INTERVAL '150 seconds')", catalog)
    assert hopping.output == ("n", "at", "window_start", "window_end")
    assert hopping.text().count("UNION ALL") == 2
    sessions = bind("SELECT * FROM SESSION(bids, at, INTERVAL '1 minute', n) AS s", catalog)
    assert sessions.output == ("n", "at", "window_start", "window_end")


def test_asof_joins():
    catalog = Catalog().add(relation(1, "bids", n=INT, at=INT)).add(relation(2, "rates", n=INT, at=INT, rate=INT))
    found = bind("SELECT b.n, r.rate FROM bids AS b ASOF LEFT JOIN rates AS r ON b.n = r.n AND r.at <= b.at", catalog)
    assert "LEFT JOIN LATERAL" in found.text() and found.text().count("LIMIT 1") == 1
    for on in ("b.n = r.n", "b.at > r.at AND b.n < r.n", "b.at > 3"):
        with pytest.raises(SqlSyntaxError, match="ASOF JOIN needs one <, <=, > or >="):
            bind_query(parse_query(f"SELECT 1 FROM bids AS b ASOF JOIN rates AS r ON {on}"), catalog)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ("TUMBLE(bids, at)", SqlSyntaxError, r"tumble\(\) is written tumble\(relation, column, size\)"),
        ("HOP(bids, at, INTERVAL '1 minute')", SqlSyntaxError, r"hop\(\) is written hop\("),
        ("TUMBLE(bids, at, INTERVAL '1 month')", Unsupported, "an interval of months"),
        ("TUMBLE(bids, at, at - at)", Unsupported, "an interval that is not a constant"),
        ("SESSION(bids, at)", SqlSyntaxError, r"session\(\) is written session\("),
        ("HOP(bids, at, INTERVAL '1 second', INTERVAL '1 day')", Unsupported, "more than 1000 windows"),
        ("TUMBLE(nothing, at, INTERVAL '1 minute')", UndefinedRelation, '"nothing" does not exist'),
    ],
)
def test_windows_of_time_that_are_refused(call, error, message):
    catalog = Catalog().add(relation(1, "bids", n=INT, at=SqlType("timestamp")))
    with pytest.raises(error, match=message):
        bind_query(parse_query(f"SELECT * FROM {call}"), catalog)
