"""What the interpreter answers is what Spark would have answered, expression by expression and clause by clause."""

from __future__ import annotations

import pytest

from headrace.serving.interpreter.queries import evaluate
from headrace.serving.session import Session
from headrace.sql.parse import parse

VALUES = """(VALUES (1, 'abc', true, ARRAY[1, 2], ARRAY['x', NULL]), (-7, 'A_b%', false, ARRAY[3], ARRAY['y', 'x']),
  (NULL, NULL, NULL, NULL, NULL), (2147483647, '', true, NULL, ARRAY['']), (3, 'é"x', false, ARRAY[NULL, 7], NULL))
  AS t (i, s, b, a, w)"""
"""Every column has a NULL in another's company and alone."""

EXPRESSIONS = """
i - 2 | i / 2 | i % 4 | -7 / 2 | 7 % -3 | (i::bigint + 1) * 3 | - i::bigint | i & 6 | i # 5 | i::bigint
(i % 99)::smallint::int | i::text | b::text | s::varchar(2) | '12'::int | 'yes'::boolean | b::int | i || s
s || '-' || s | 'a' || NULL | '2026-01-01'::date | interval '1 day' | '{"a":  [1]}'::jsonb | i = 1 | i <> 1 | i < 3
i >= '3' | s = 'abc' | s < 'b' | s > 'Z' | b = true | b <> false | i IS NULL | s IS NOT NULL
cardinality(a) = 1 AND a = ARRAY[3] | b IS TRUE | b IS NOT FALSE | (i > 2) IS FALSE | i IS DISTINCT FROM 1
s IS NOT DISTINCT FROM NULL | b AND i > 0 | b OR i > 0 | NOT b | NOT b OR NULL | b AND NULL | i BETWEEN 1 AND 3
i NOT BETWEEN 0 AND NULL | i IN (1, 3) | i NOT IN (1, NULL) | s IN ('abc', NULL) | (i, s) IN ((1, 'abc'), (2, 'x'))
(i, s) = (1, 'abc') | i = ANY (ARRAY[1, 3]) | i <> ALL (ARRAY[1, 3]) | i > ANY ('{1,2}') | 'x' = ANY (w)
'y' <> ALL (w) | i = ANY (a) | s LIKE 'a%' | s LIKE '_b%' | s NOT LIKE '%c' | s LIKE 'A#_%' ESCAPE '#' | s LIKE s
s LIKE '%"x' | s <> 'é"x' AND s ILIKE 'A%' | s ~ '^a' | s ~ '^(abc|x)$' | s !~ 'b.$' | s <> 'é"x' AND s ~* '^AB'
CASE i WHEN 1 THEN 'one' WHEN 3 THEN 'three' END | CASE WHEN i > 2 THEN i ELSE 0 END
CASE i WHEN 1 THEN NULL ELSE s END | CASE s WHEN 'abc' THEN 1 ELSE 2 END | coalesce(i, 0) | coalesce(s, 'none')
nullif(i, 1) | nullif(s, '') | a[1] | a[3] | w[2] | a[i] | ARRAY[i, 2] | ARRAY[s, 'q'] | array_length(a, 1)
array_upper(w, 1) | array_lower(a, 1) | cardinality(a) | array_to_string(a, ',') | array_to_string(w, '-')
string_to_array(s, 'b') | split_part(s, 'b', 1) | split_part(s, '_', 2) | s <> 'é"x' AND lower(s) = 'abc'
s <> 'é"x' AND upper(s) = 'ABC' | length(s) | quote_ident(s) | btrim(s, 'ac') | trim(both '"' from s)
replace(s, 'b', 'zz') | substring(s, 2) | substring(s, 1, 2) | left(s, 1) | strpos(s, 'b') | position('c' in s)
starts_with(s, 'A') | quote_ident('select') | quote_ident('a$1') | NULL | 'text' | 5 | true
(SELECT max(x) FROM unnest(a) u (x)) | EXISTS (SELECT 1 FROM unnest(w) u (x) WHERE x = 'x')
ARRAY(SELECT x FROM unnest(a) u (x) WHERE x > 1) | i IN (SELECT unnest(ARRAY[1, 3]))
i NOT IN (SELECT unnest(ARRAY[1, NULL])) | i IN (SELECT 1 WHERE false)
(SELECT count(*) FROM unnest(a) u (x) WHERE x > t.i) | (SELECT string_agg(x, '+') FROM unnest(w) u (x))
w || ARRAY['z'] | ARRAY[0] || a | array_remove(w, 'x')
"""
EACH = [each.strip() for line in EXPRESSIONS.strip().splitlines() for each in line.split(" | ")]

FEW = "(VALUES ('a', 1), ('a', 3), ('b', NULL), ('b', 2), (NULL, 5)) AS t (k, n)"
QUERIES = (
    f"SELECT k, count(*), count(n), sum(n), min(n), max(n), array_agg(n ORDER BY n DESC), bool_and(n > 1) FROM {FEW} "
    "GROUP BY k HAVING count(*) > 1 ORDER BY k DESC",
    f"SELECT count(*), sum(n) FILTER (WHERE k = 'a'), string_agg(k, ',' ORDER BY n), count(DISTINCT k) FROM {FEW}",
    f"SELECT max(n), array_agg(k) FROM {FEW} WHERE false",
    f"SELECT DISTINCT k FROM {FEW} ORDER BY k NULLS FIRST LIMIT 2 OFFSET 1",
    f"SELECT k, row_number() OVER (PARTITION BY k ORDER BY n) FROM {FEW} ORDER BY 1, 2",
    f"SELECT n, unnest(ARRAY[n, 9]), unnest(ARRAY['x']) FROM {FEW} WHERE n < 3 ORDER BY 1, 2",
    f"SELECT k FROM {FEW} UNION SELECT 'z' UNION SELECT NULL ORDER BY 1",
    f"SELECT k, n FROM {FEW} EXCEPT SELECT 'a', 1 ORDER BY 2",
    f"SELECT n FROM {FEW} INTERSECT (SELECT 1 UNION ALL SELECT 5) ORDER BY 1",
    f"SELECT t.k, u.x FROM {FEW} LEFT JOIN (VALUES (1, 'one'), (2, NULL)) AS u (n, x) ON u.n = t.n AND t.k <> 'z' "
    "WHERE u.x IS NULL ORDER BY t.n",
    f"SELECT t.n, s.g, l.d FROM {FEW} CROSS JOIN generate_series(1, 2) AS s (g), LATERAL (SELECT t.n + s.g AS d) AS l "
    "WHERE t.n = s.g OR l.d = 4 ORDER BY 1, 2",
    f"WITH c AS (SELECT k, max(n) AS m FROM {FEW} GROUP BY k) SELECT t.n, c.m FROM {FEW} JOIN c USING (k) ORDER BY 1",
    f"SELECT u.a, u.o FROM {FEW}, unnest(ARRAY[t.n, 7]) WITH ORDINALITY AS u (a, o) WHERE t.k = 'a' ORDER BY 1, 2",
    "SELECT a.k, b.n FROM (VALUES (1), (2)) AS a (k) LEFT JOIN ((VALUES (1, 5)) AS b (k, n) JOIN (VALUES (5)) AS c (n) "
    "ON c.n = b.n) ON b.k = a.k ORDER BY 1",
    "SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), (SELECT count(*) FROM pg_index i "
    "WHERE i.indrelid = c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_attribute a "
    "ON a.attrelid = c.oid AND a.attnum > 0 WHERE n.nspname = 'public' ORDER BY 1, 2",
)  # fmt: skip


@pytest.fixture(scope="module")
def session(database) -> Session:
    database.sql("CREATE TABLE IF NOT EXISTS interpreted (id INT PRIMARY KEY, price NUMERIC(10,2), tags VARCHAR[])")
    return Session(database.engine)


def both(session: Session, sql: str) -> tuple[list | None, list]:
    (statement,) = parse(sql)
    asked = session._asked(statement)
    tables = {asked.state.catalog.relations[id].name: table for id, table in asked.tables.items()}
    here, there = evaluate(asked.bound, tables), session._frame(asked)[0].toArrow()
    return None if here is None else rows(here), rows(there)


def rows(table) -> list[tuple]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_expressions(session):
    """One query for all of them: what Spark needs for planning, it needs once."""
    for each in EACH:
        (statement,) = parse(f"SELECT {each} FROM {VALUES}")
        assert evaluate(session._asked(statement).bound, {}) is not None, each
    here, there = both(session, f"SELECT {', '.join(EACH)} FROM {VALUES}")
    key = EACH.index("i = 1"), EACH.index("length(s)"), EACH.index("i - 2")
    here, there = (sorted(found, key=lambda row: [str(row[at]) for at in key]) for found in (here, there))
    for at, each in enumerate(EACH):
        assert [row[at] for row in here] == [row[at] for row in there], each


@pytest.mark.parametrize("sql", QUERIES)
def test_queries(session, sql):
    here, there = both(session, sql)
    assert here == there and (there or "pg_class" not in sql)
