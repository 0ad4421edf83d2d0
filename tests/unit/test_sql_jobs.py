"""Statements about jobs, and the options of a backfill: what is understood, and where errors point."""

from __future__ import annotations

import pytest

from headrace.errors import InvalidParameterValue, SqlSyntaxError, UndefinedRelation, Unsupported
from headrace.sql import statements as s
from headrace.sql.jobs import backfill_order
from headrace.sql.parse import parse
from tests.support.statements import one


@pytest.mark.parametrize(
    ("text", "kind", "fields"),
    [
        ("SHOW JOBS", s.ShowJobs, {"id": None, "positions": False, "like": None}),
        ("show jobs like 'a%'", s.ShowJobs, {"like": "a%"}),
        ("show job 5", s.ShowJobs, {"id": 5, "positions": False}),
        ("SHOW JOB 5 POSITIONS", s.ShowJobs, {"id": 5, "positions": True}),
        ("WAIT", s.Wait, {"name": None}),
        ("WAIT dev.public.V", s.Wait, {"name": "v"}),
        ("CANCEL JOB 5", s.CancelJobs, {"ids": (5,)}),
        ("CANCEL JOBS 5", s.CancelJobs, {"ids": (5,)}),
        ("cancel jobs 3, 1, 3, 2", s.CancelJobs, {"ids": (3, 1, 2)}),
        ("PAUSE", s.Pause, {"job_id": None}),
        ("PAUSE JOB 7", s.Pause, {"job_id": 7}),
        ("RESUME", s.Resume, {"job_id": None}),
        ("RESUME JOB 7", s.Resume, {"job_id": 7}),
        ('RESNAPSHOT TABLE public."Odd t"', s.Resnapshot, {"name": "Odd t"}),
        ("CHECK MATERIALIZED VIEW public.v", s.Check, {"kind": "materialized view", "name": "v"}),
        ('CHECK INDEX "I"', s.Check, {"kind": "index", "name": "I"}),
    ],
)
def test_statements(text, kind, fields):
    assert one(f"{text};") == kind(sql=text, **fields)


@pytest.mark.parametrize(
    ("value", "parallelism"),
    [
        ("= 4", 4),
        ("TO 4", 4),
        ("='8'", 8),
        ("= ADAPTIVE", None),
        ("TO adaptive", None),
        ("= 'adaptive'", None),
        ("= DEFAULT", None),
        ("= 0", None),
    ],
)
@pytest.mark.parametrize("kind", ["table", "materialized view", "index"])
def test_parallelism(kind, value, parallelism):
    text = f"ALTER {kind.upper()} public.x SET PARALLELISM {value}"
    assert one(text) == s.SetParallelism(sql=text, kind=kind, name="x", parallelism=parallelism)


@pytest.mark.parametrize(
    ("value", "limit"),
    [("= 100", 100), ("TO 100", 100), ("= 0", 0), ("= DEFAULT", None), ("TO default", None), ("= -1", None)],
)
@pytest.mark.parametrize("kind", ["table", "materialized view", "index", "source"])
def test_backfill_rate_limit(kind, value, limit):
    text = f"alter {kind} x set backfill_rate_limit {value}"
    assert one(text) == s.SetBackfillRateLimit(sql=text, kind=kind, name="x", limit=limit)


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("SHOW JOB", "syntax error at end of input", 9),
        ("SHOW JOB x", 'syntax error at or near "x"', 10),
        ("SHOW JOB '1'", "syntax error at or near \"'1'\"", 10),
        ("SHOW JOB 1.5", 'syntax error at or near "1.5"', 10),
        ("SHOW JOB -1", 'syntax error at or near "-"', 10),
        (f"SHOW JOB {'9' * 19}", f'syntax error at or near "{"9" * 19}"', 10),
        ("SHOW JOB 1, 2", 'syntax error at or near ","', 11),
        ("SHOW JOB 1 POSITION", 'syntax error at or near "POSITION"', 12),
        ("SHOW JOBS LIKE", "syntax error at end of input", 15),
        ("SHOW JOBS LIKE x", 'syntax error at or near "x"', 16),
        ("SHOW JOB 1 LIKE 'a'", 'syntax error at or near "LIKE"', 12),
        ("SHOW JOBS POSITIONS", 'syntax error at or near "POSITIONS"', 11),
        ("WAIT 5", 'syntax error at or near "5"', 6),
        ("WAIT a, b", 'syntax error at or near ","', 7),
        ("CANCEL", "syntax error at end of input", 7),
        ("CANCEL 5", 'syntax error at or near "5"', 8),
        ("CANCEL JOBS", "syntax error at end of input", 12),
        ("CANCEL JOBS 1,", "syntax error at end of input", 15),
        ("CANCEL JOBS 1 2", 'syntax error at or near "2"', 15),
        ("CANCEL JOBS 12a", 'syntax error at or near "a"', 15),
        ("SELECT 1; CANCEL JOBS x", 'syntax error at or near "x"', 23),
        ("PAUSE JOB", "syntax error at end of input", 10),
        ("PAUSE 1", 'syntax error at or near "1"', 7),
        ("RESUME JOB v", 'syntax error at or near "v"', 12),
        ("RESUME JOB 1, 2", 'syntax error at or near ","', 13),
        ("CHECK", "syntax error at end of input", 6),
        ("CHECK v", 'syntax error at or near "v"', 7),
        ("CHECK INDEX", "syntax error at end of input", 12),
        ("CHECK INDEX i, j", 'syntax error at or near ","', 14),
        ("ALTER TABLE t SET PARALLELISM", "syntax error at end of input", 30),
        ("ALTER TABLE t SET PARALLELISM 4", 'syntax error at or near "4"', 31),
        ("ALTER TABLE t SET PARALLELISM =", "syntax error at end of input", 32),
        ("ALTER TABLE t SET PARALLELISM = 4, 5", 'syntax error at or near ","', 34),
        ("ALTER SOURCE t SET BACKFILL_RATE_LIMIT TO", "syntax error at end of input", 42),
    ],
)
def test_syntax_errors_point_at_the_token(text, message, position):
    with pytest.raises(SqlSyntaxError) as caught:
        parse(text)
    assert (caught.value.message, caught.value.position) == (message, position)


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("ALTER TABLE t SET PARALLELISM = -1", 'invalid value for PARALLELISM: "-1"', 33),
        ("ALTER TABLE t SET PARALLELISM = 1.5", 'invalid value for PARALLELISM: "1.5"', 33),
        ("ALTER INDEX t SET PARALLELISM TO many", 'invalid value for PARALLELISM: "many"', 34),
        ("ALTER SOURCE t SET BACKFILL_RATE_LIMIT = -2", 'invalid value for BACKFILL_RATE_LIMIT: "-2"', 42),
        ("ALTER TABLE t SET BACKFILL_RATE_LIMIT = 'fast'", 'invalid value for BACKFILL_RATE_LIMIT: "fast"', 41),
    ],
)
def test_values_that_are_refused(text, message, position):
    with pytest.raises(InvalidParameterValue) as caught:
        parse(text)
    assert (caught.value.message, caught.value.position) == (message, position)
    assert "is expected" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("CHECK TABLE t", "CHECK TABLE is not supported", 7),
        ("CHECK VIEW v", "CHECK VIEW is not supported", 7),
        ("CHECK SOURCE s", "CHECK SOURCE is not supported", 7),
        ("ALTER VIEW v SET PARALLELISM = 1", "ALTER VIEW SET PARALLELISM is not supported", 18),
        ("ALTER SOURCE s SET PARALLELISM = 1", "ALTER SOURCE SET PARALLELISM is not supported", 20),
        ("ALTER VIEW v SET BACKFILL_RATE_LIMIT = 1", "ALTER VIEW SET BACKFILL_RATE_LIMIT is not supported", 18),
        ("ALTER TABLE t SET PARALLELISM = 4 DEFERRED", "SET PARALLELISM … DEFERRED is not supported", 35),
        ("ALTER TABLE t SET SOURCE_RATE_LIMIT = 4", "ALTER TABLE SET SOURCE_RATE_LIMIT is not supported yet", 15),
    ],
)
def test_what_is_refused_is_named(text, message, position):
    with pytest.raises(Unsupported) as caught:
        parse(text)
    assert (caught.value.message, caught.value.position) == (message, position)


def test_other_schemas_do_not_exist():
    for text in ("WAIT other.v", "CHECK INDEX other.v", "ALTER TABLE other.v SET PARALLELISM = 1"):
        with pytest.raises(UndefinedRelation, match='schema "other" does not exist'):
            parse(text)


def test_the_words_are_still_names():
    for word in ("job", "jobs", "wait", "cancel", "pause", "resume", "positions", "parallelism", "fixed", "include"):
        assert one(f"SELECT {word} FROM {word}").query.named_selects == [word]
        assert one(f"WAIT {word}").name == word


# --- options ----------------------------------------------------------------------------------------------------


def view(options: str) -> str:
    return f"CREATE MATERIALIZED VIEW v WITH ({options}) AS SELECT a FROM t"


def test_options_of_a_backfill():
    statement = one(
        view(
            "backfill_rate_limit = 100, backfill_order = FIXED(a -> b, b -> c), backfill_pacing = 'adaptive', "
            "parallelism = 2"
        )
    )
    assert statement.options == (
        ("backfill_rate_limit", "100"),
        ("backfill_order", "FIXED(a -> b, b -> c)"),
        ("backfill_pacing", "adaptive"),
        ("parallelism", "2"),
    )


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("backfill_order = AUTO", "auto"),
        ("backfill_order = NONE", "none"),
        ("backfill_order = 'auto'", "auto"),
        ('BACKFILL_ORDER = fixed (A->public."B",\n  "order" -> "x, y")', 'FIXED(A -> public."B", "order" -> "x, y")'),
        ("backfill_rate_limit = DEFAULT", "default"),
        ("backfill_rate_limit = -1", "-1"),
        ("backfill_pacing = until_barrier", "until_barrier"),
        ("parallelism = ADAPTIVE", "adaptive"),
    ],
)
def test_values_of_options(option, text):
    ((_, value),) = one(view(option)).options
    assert value == text


@pytest.mark.parametrize(
    ("option", "near", "position"),
    [
        ("backfill_order = FIXED", ")", 56),
        ("backfill_order = FIXED()", ")", 57),
        ("backfill_order = FIXED(a)", ")", 58),
        ("backfill_order = FIXED(a -> )", ")", 62),
        ("backfill_order = FIXED(a -> b -> c)", "->", 64),
        ("backfill_order = FIXED(a -> b,)", ")", 64),
        ("backfill_order = FIXED(a, b)", ",", 58),
        ("backfill_order = AUTO(a -> b)", "(", 55),
        ("another = FIXED(a -> b)", "(", 49),
    ],
)
def test_options_that_are_no_options(option, near, position):
    with pytest.raises(SqlSyntaxError) as caught:
        parse(view(option))
    assert (caught.value.message, caught.value.position) == (f'syntax error at or near "{near}"', position)


def test_an_order_can_be_read_back():
    statement = one(view('backfill_order = FIXED(A -> public."B", "B" -> "order")'))
    assert backfill_order(dict(statement.options)["backfill_order"]) == (("a", "B"), ("B", "order"))
    assert backfill_order("None") == "none"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "AUTO, NONE or FIXED"),
        ("sometimes", 'syntax error at or near "sometimes"'),
        ("FIXED(a -> b) c", 'syntax error at or near "c"'),
        ("FIXED('a -> b", "unterminated quoted string"),
        ("FIXED(other.a -> b)", 'schema "other" does not exist'),
    ],
)
def test_orders_that_are_refused(text, message):
    with pytest.raises(InvalidParameterValue) as caught:
        backfill_order(text)
    assert message in str(caught.value)
