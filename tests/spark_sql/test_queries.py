# ruff: noqa: E501 (the statements are data)
"""What PostgreSQL answers, Spark must answer after translation: whole queries.

The expected values are PostgreSQL 15's own output, as text, compared as tests/spark_sql/answers.py says.
"""

from __future__ import annotations

import pytest

from tests.spark_sql.answers import run, same

QUERIES = [
    (
        "SELECT x FROM (VALUES (2), (NULL), (1)) AS v(x) ORDER BY x",
        [("1",), ("2",), (None,)],
    ),
    (
        "SELECT x FROM (VALUES (2), (NULL), (1)) AS v(x) ORDER BY x DESC",
        [(None,), ("2",), ("1",)],
    ),
    (
        "SELECT x FROM (VALUES (2), (NULL), (1)) AS v(x) ORDER BY x DESC NULLS LAST",
        [("2",), ("1",), (None,)],
    ),
    (
        "SELECT x, row_number() OVER (ORDER BY x) FROM (VALUES (2), (NULL), (1)) AS v(x) ORDER BY 2",
        [("1", "1"), ("2", "2"), (None, "3")],
    ),
    (
        "SELECT x, rank() OVER (ORDER BY x DESC) FROM (VALUES (2), (2), (NULL), (1)) AS v(x) ORDER BY 2, 1",
        [(None, "1"), ("2", "2"), ("2", "2"), ("1", "4")],
    ),
    (
        "SELECT x, lag(x) OVER (ORDER BY x), lead(x, 1, 0) OVER (ORDER BY x) FROM (VALUES (1), (2), (3)) AS v(x) ORDER BY 1",
        [("1", None, "2"), ("2", "1", "3"), ("3", "2", "0")],
    ),
    (
        "SELECT x, sum(x) OVER (ORDER BY x ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM (VALUES (1), (2), (3)) AS v(x) ORDER BY 1",
        [("1", "1"), ("2", "3"), ("3", "5")],
    ),
    (
        "SELECT k, sum(x) OVER w, first_value(x) OVER w FROM (VALUES ('a', 1), ('a', 2), ('b', 3)) AS v(k, x) WINDOW w AS (PARTITION BY k ORDER BY x) ORDER BY 1, 2",
        [("a", "1", "1"), ("a", "3", "1"), ("b", "3", "3")],
    ),
    (
        "SELECT count(*), count(x), count(DISTINCT x), sum(x), avg(x), min(x), max(x) FROM (VALUES (1), (1), (2), (NULL)) AS v(x)",
        [("4", "3", "2", "4", "1.3333333333333333", "1", "2")],
    ),
    (
        "SELECT sum(x), avg(x), min(x) FROM (VALUES (1)) AS v(x) WHERE false",
        [(None, None, None)],
    ),
    (
        "SELECT sum(x) FROM (VALUES (9223372036854775807), (1)) AS v(x)",
        [("9223372036854775808",)],
    ),
    (
        "SELECT avg(x), sum(x) FROM (VALUES (1.5::float8), (2.5)) AS v(x)",
        [("2", "4")],
    ),
    (
        "SELECT count(*) FILTER (WHERE x > 1), sum(x) FILTER (WHERE x > 5) FROM (VALUES (1), (2)) AS v(x)",
        [("1", None)],
    ),
    (
        "SELECT string_agg(x, ',' ORDER BY x DESC), string_agg(x, '-') FILTER (WHERE x = 'a') FROM (VALUES ('a'), ('b'), (NULL)) AS v(x)",
        [("b,a", "a")],
    ),
    (
        "SELECT array_agg(x ORDER BY x DESC), array_agg(x ORDER BY x), array_agg(DISTINCT x) FROM (VALUES (1), (3), (NULL), (1)) AS v(x)",
        [("{NULL,3,1,1}", "{1,1,3,NULL}", "{1,3,NULL}")],
    ),
    (
        "SELECT array_agg(x) FROM (VALUES (1)) AS v(x) WHERE false",
        [(None,)],
    ),
    (
        "SELECT bool_and(x), bool_or(x), every(x) FROM (VALUES (true), (false), (NULL)) AS v(x)",
        [("f", "t", "f")],
    ),
    (
        "SELECT bit_and(x), bit_or(x) FROM (VALUES (3), (5)) AS v(x)",
        [("1", "7")],
    ),
    (
        "SELECT round(stddev(x)::numeric, 4), round(variance(x)::numeric, 4), var_pop(x) FROM (VALUES (1), (2), (3)) AS v(x)",
        [("1.0000", "1.0000", "0.66666666666666666667")],
    ),
    (
        "SELECT k, count(*) AS n FROM (VALUES ('a'), ('b'), ('a')) AS v(k) GROUP BY k HAVING count(*) > 1 ORDER BY n",
        [("a", "2")],
    ),
    (
        "SELECT upper(k) AS u, count(*) FROM (VALUES ('a'), ('b'), ('A')) AS v(k) GROUP BY u ORDER BY 1",
        [("A", "2"), ("B", "1")],
    ),
    (
        "SELECT k || 'x', count(*) FROM (VALUES ('a'), ('b'), ('a')) AS v(k) GROUP BY 1 ORDER BY 1",
        [("ax", "2"), ("bx", "1")],
    ),
    (
        "SELECT DISTINCT x FROM (VALUES (1), (1), (2)) AS v(x) ORDER BY x",
        [("1",), ("2",)],
    ),
    (
        "SELECT DISTINCT ON (k) k, x FROM (VALUES ('a', 1), ('a', 2), ('b', 3)) AS v(k, x) ORDER BY k, x DESC",
        [("a", "2"), ("b", "3")],
    ),
    (
        "SELECT x FROM generate_series(1, 5) AS g(x) LIMIT 2 OFFSET 1",
        [("2",), ("3",)],
    ),
    (
        "SELECT x FROM generate_series(1, 5) AS g(x) ORDER BY x FETCH FIRST 2 ROWS ONLY",
        [("1",), ("2",)],
    ),
    (
        "SELECT * FROM generate_series(1, 3)",
        [("1",), ("2",), ("3",)],
    ),
    (
        "SELECT * FROM generate_series(5, 1)",
        [],
    ),
    (
        "SELECT * FROM generate_series(5, 1, -2)",
        [("5",), ("3",), ("1",)],
    ),
    (
        "SELECT * FROM generate_series(1, 10, 4) AS g",
        [("1",), ("5",), ("9",)],
    ),
    (
        "SELECT * FROM generate_series(timestamp '2020-01-01', timestamp '2020-03-01', interval '1 month') AS g",
        [("2020-01-01 00:00:00",), ("2020-02-01 00:00:00",), ("2020-03-01 00:00:00",)],
    ),
    (
        "SELECT * FROM generate_series(timestamp '2020-01-01', timestamp '2020-01-02', '12 hours') AS g",
        [("2020-01-01 00:00:00",), ("2020-01-01 12:00:00",), ("2020-01-02 00:00:00",)],
    ),
    (
        "SELECT * FROM unnest(array[3, 4]) AS u",
        [("3",), ("4",)],
    ),
    (
        "SELECT * FROM unnest(array['a', 'b']) WITH ORDINALITY AS u(x, n)",
        [("a", "1"), ("b", "2")],
    ),
    (
        "SELECT k, e FROM (VALUES ('a', array[1, 2]), ('b', array[]::int[])) AS v(k, es), unnest(es) AS e ORDER BY 1, 2",
        [("a", "1"), ("a", "2")],
    ),
    (
        "SELECT k, e FROM (VALUES ('a', array[1, 2]), ('b', array[]::int[])) AS v(k, es) LEFT JOIN LATERAL unnest(es) AS e ON true ORDER BY 1, 2",
        [("a", "1"), ("a", "2"), ("b", None)],
    ),
    (
        "SELECT unnest(array[1, 2]) AS x, 'k' AS k",
        [("1", "k"), ("2", "k")],
    ),
    (
        "SELECT 1 UNION ALL SELECT 2.5 ORDER BY 1",
        [("1",), ("2.5",)],
    ),
    (
        "SELECT 1 UNION SELECT 1",
        [("1",)],
    ),
    (
        "SELECT NULL UNION ALL SELECT 5 ORDER BY 1",
        [("5",), (None,)],
    ),
    (
        "SELECT 'a' UNION ALL SELECT NULL ORDER BY 1",
        [("a",), (None,)],
    ),
    (
        "SELECT x FROM (VALUES (1), (1), (2)) v(x) EXCEPT SELECT 2",
        [("1",)],
    ),
    (
        "SELECT x FROM (VALUES (1), (1), (2)) v(x) EXCEPT ALL SELECT 1 ORDER BY 1",
        [("1",), ("2",)],
    ),
    (
        "SELECT x FROM (VALUES (1), (2)) v(x) INTERSECT SELECT 2",
        [("2",)],
    ),
    (
        "(SELECT 1 AS a ORDER BY 1 LIMIT 1) UNION ALL (SELECT 2) ORDER BY a DESC",
        [("2",), ("1",)],
    ),
    (
        "VALUES (1, 'a'), (2, NULL) ORDER BY 1 DESC",
        [("2", None), ("1", "a")],
    ),
    (
        "SELECT a.x, b.x FROM (VALUES (1), (2)) a(x) LEFT JOIN (VALUES (2), (3)) b(x) ON a.x = b.x ORDER BY 1",
        [("1", None), ("2", "2")],
    ),
    (
        "SELECT * FROM (VALUES (1), (2)) a(x) FULL JOIN (VALUES (2), (3)) b(x) USING (x) ORDER BY 1",
        [("1",), ("2",), ("3",)],
    ),
    (
        "SELECT * FROM (VALUES (1, 2)) a(x, y) NATURAL JOIN (VALUES (1, 3)) b(x, z)",
        [("1", "2", "3")],
    ),
    (
        "SELECT a.x, b.y FROM (VALUES (1), (2)) a(x) CROSS JOIN (VALUES (3)) b(y) ORDER BY 1",
        [("1", "3"), ("2", "3")],
    ),
    (
        "SELECT a.x, l.y FROM (VALUES (1), (2)) a(x), LATERAL (SELECT a.x * 10 AS y) AS l ORDER BY 1",
        [("1", "10"), ("2", "20")],
    ),
    (
        "SELECT x FROM (VALUES (1), (2)) a(x) WHERE EXISTS (SELECT 1 FROM (VALUES (2)) b(y) WHERE b.y = a.x)",
        [("2",)],
    ),
    (
        "SELECT x FROM (VALUES (1), (2)) a(x) WHERE x NOT IN (SELECT y FROM (VALUES (2)) b(y))",
        [("1",)],
    ),
    (
        "SELECT x, (SELECT max(y) FROM (VALUES (1, 5), (2, 6)) b(k, y) WHERE k = x) FROM (VALUES (1), (3)) a(x) ORDER BY 1",
        [("1", "5"), ("3", None)],
    ),
    (
        "WITH c(x) AS (SELECT 1 UNION ALL SELECT 2), d AS (SELECT x * 2 AS y FROM c) SELECT * FROM c JOIN d ON c.x = d.y",
        [("2", "2")],
    ),
    (
        "WITH c AS (VALUES (1, 'a')) SELECT * FROM c",
        [("1", "a")],
    ),
    (
        "SELECT a, b, sum(x) FROM (VALUES ('p', 'q', 1), ('p', 'r', 2)) v(a, b, x) GROUP BY ROLLUP (a, b) ORDER BY 1, 2",
        [("p", "q", "1"), ("p", "r", "2"), ("p", None, "3"), (None, None, "3")],
    ),
    (
        "SELECT CASE WHEN x > 1 THEN 'big' ELSE NULL END FROM (VALUES (1), (2)) v(x) ORDER BY 1",
        [("big",), (None,)],
    ),
    (
        "SELECT s, (r).f1 FROM (SELECT 's' AS s, row(1, 2) AS r) q",
        [("s", "1")],
    ),
    (
        "SELECT x FROM (VALUES (1.10), (1.1), (2)) v(x) GROUP BY x ORDER BY x",
        [("1.10",), ("2",)],
    ),
    (
        "SELECT count(*) FROM (VALUES (0.1::float8 + 0.2)) v(x) WHERE x = 0.3",
        [("0",)],
    ),
    (
        "SELECT min(d), max(d) FROM (VALUES (date '2020-01-01'), (date '2021-01-01')) v(d)",
        [("2020-01-01", "2021-01-01")],
    ),
    (
        "SELECT sum(i)::text FROM (VALUES (interval '1 hour'), (interval '30 minutes')) v(i)",
        [("01:30:00",)],
    ),
]


@pytest.mark.parametrize(("sql", "expected"), QUERIES)
def test_query(session, sql, expected):
    rows = run(session, sql)
    assert len(rows) == len(expected), rows
    for ours, theirs in zip(rows, expected, strict=True):
        assert all(same(a, b) for a, b in zip(ours, theirs, strict=True)), (rows, expected)
