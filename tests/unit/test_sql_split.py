"""Where statements end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sql.parse import is_complete, parse, split


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", []),
        (" ; ;; ", []),
        ("-- nothing\n/* here; */", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';' ; SELECT \"a;b\"", ["SELECT ';'", 'SELECT "a;b"']),
        ("SELECT $$a;b$$; SELECT $x$;$$;$x$", ["SELECT $$a;b$$", "SELECT $x$;$$;$x$"]),
        ("SELECT 'it''s;'; x", ["SELECT 'it''s;'", "x"]),
        (r"SELECT E'\';'; x", [r"SELECT E'\';'", "x"]),
        (r"SELECT '\'; x", [r"SELECT '\'", "x"]),
        ("a /* ; /* nested; */ ; */ b; c", ["a /* ; /* nested; */ ; */ b", "c"]),
        ("-- c;\nSELECT 1 -- d;\n + 2;", ["SELECT 1 -- d;\n + 2"]),
        ("SELECT a$b$; SELECT 1", ["SELECT a$b$", "SELECT 1"]),
    ],
)
def test_split(text, statements):
    assert split(text) == statements


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", False),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1; SELECT 2", False),
        ("SELECT ';", False),
        ("SELECT ';';", True),
        ("SELECT $$;", False),
        ("SELECT 1 /* ;", False),
        ("SELECT 1; /* open", False),
        ('SELECT "a;', False),
        (";", True),
    ],
)
def test_is_complete(text, complete):
    assert is_complete(text) is complete


@given(st.text(alphabet="ab'\"$/*-;E\\ \n", max_size=30))
def test_splitting_never_fails_and_loses_no_code(text):
    is_complete(text)
    for statement in split(text):
        assert statement in text and statement.strip() == statement


@pytest.mark.parametrize("text", ["", " ", ";", "-- nothing", "/* nothing */ ;"])
def test_nothing_is_no_statement(text):
    assert parse(text) == []


def test_the_text_of_a_statement_is_as_written():
    first, second = parse("  SELECT  1 ;\n -- note\n FLUSH ; ")
    assert (first.sql, second.sql) == ("SELECT  1", "FLUSH")
