"""The layouts are what psql 15 prints, without its blanks at line ends."""

from __future__ import annotations

from decimal import Decimal
from textwrap import dedent

from headrace.serving.table import expanded, footer, layout
from headrace.types import SqlType

COLUMNS = ["id", "name", "long header name"]
TYPES = [SqlType("integer"), SqlType("varchar"), SqlType("numeric")]
ROWS = [(1, "a", Decimal("1.5")), (20, None, None), (3, "multi\nline", Decimal(10))]


def text(lines) -> str:
    return "\n".join(lines)


def test_layout():
    assert text(layout(COLUMNS, TYPES, ROWS)) == dedent(
        """\
         id | name  | long header name
        ----+-------+------------------
          1 | a     |              1.5
         20 |       |
          3 | multi+|               10
            | line  |"""
    )


def test_expanded():
    assert text(expanded(COLUMNS, TYPES, ROWS[2:])) == dedent(
        """\
        -[ RECORD 1 ]----+----------
        id               | 3
        name             | multi
                         | line
        long header name | 10"""
    )


def test_wide_characters_take_two_cells():
    lines = list(layout(["ü", "b"], [SqlType("varchar"), SqlType("boolean")], [("wide值", True)]))
    assert lines == ["   ü    | b", "--------+---", " wide值 | t"]


def test_control_characters_do_not_reach_the_terminal():
    assert list(layout(["a"], [SqlType("varchar")], [("\x1b[2J",)]))[-1] == r" \x1b[2J"


def test_null_can_be_shown():
    assert list(layout(["a"], [SqlType("varchar")], [(None,), ("",)], null="NULL")) == ["  a", "------", " NULL", ""]


def test_no_rows_and_no_columns():
    assert list(layout(["a"], [SqlType("integer")], [])) == [" a", "---"]
    assert list(layout([], [], [()])) == ["", "", ""]


def test_footer():
    assert [footer(count) for count in (0, 1, 2)] == ["(0 rows)", "(1 row)", "(2 rows)"]
