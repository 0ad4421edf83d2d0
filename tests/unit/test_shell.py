from __future__ import annotations

import io

import pytest

from headrace.errors import SqlSyntaxError, UndefinedRelation
from headrace.shell import Quit, Shell, Stop, candidates, describe_error, finished, history_path
from tests.support.fake_database import FakeDatabase, FakeResult, rows

RELATIONS = (
    {"name": "orders", "kind": "table", "rows": 20},
    {"name": "Cheap", "kind": "materialized view", "rows": 3},
)


class Terminal:
    """A shell with its output and errors caught."""

    def __init__(self, answers=None, *, relations=RELATIONS, **options):
        self.database = FakeDatabase(answers, relations)
        self.out, self.err = io.StringIO(), io.StringIO()
        self.shell = Shell(self.database, out=self.out, err=self.err, **options)

    @property
    def ran(self) -> list[str]:
        return [text for text in self.database.log if not text.startswith("<") and text != "SHOW VIEWS"]


def test_each_statement_of_a_text_is_run():
    terminal = Terminal({"SELECT 1": rows(a=("integer", [1]))})
    terminal.shell.run("FLUSH; SELECT 1;")
    assert terminal.ran == ["FLUSH", "SELECT 1"]
    assert terminal.out.getvalue() == "OK\n a\n---\n 1\n(1 row)\n\n"


def test_a_pipe_is_followed_statement_by_statement():
    terminal = Terminal()

    def lines():
        yield "-- a comment; with a semicolon\n"
        yield "INSERT INTO t\n"
        yield "VALUES ('a;\n"
        assert terminal.ran == []
        yield "b');\n"
        assert len(terminal.ran) == 1
        yield "FLUSH"

    terminal.shell.run_lines(lines())
    assert terminal.ran[0].endswith("VALUES ('a;\nb')")
    assert terminal.ran[1] == "FLUSH"


def test_a_script_stops_at_the_first_error_and_says_where():
    terminal = Terminal(
        {"SELECT * FROM x": UndefinedRelation('relation "x" does not exist', hint="SHOW TABLES", position=15)}
    )
    with pytest.raises(Stop):
        terminal.shell.run_lines(["FLUSH;\n", "\n", "FLUSH; SELECT * FROM x;\n", "VACUUM;\n"], name="a.sql")
    assert terminal.ran == ["FLUSH", "FLUSH", "SELECT * FROM x"]
    assert terminal.err.getvalue() == (
        'a.sql:3: ERROR:  relation "x" does not exist\n'
        "LINE 1: SELECT * FROM x\n"
        "                      ^\n"
        "HINT:  SHOW TABLES\n"
    )


def test_at_the_prompt_an_error_stops_nothing():
    terminal = Terminal({"VACUUM": UndefinedRelation("no")}, interactive=True)
    terminal.shell.run("VACUUM; FLUSH;")
    assert terminal.ran == ["VACUUM", "FLUSH"]
    assert terminal.err.getvalue() == "ERROR:  no\n"


def test_the_caret_points_into_the_right_line():
    error = SqlSyntaxError('syntax error at or near "FORM"', position=12)
    assert describe_error(error, "SELECT *\n\t\tFORM t\n") == (
        'ERROR:  syntax error at or near "FORM"\nLINE 2:   FORM t\n          ^'
    )
    assert "LINE" not in describe_error(SqlSyntaxError("no position"), "SELECT")
    assert "LINE" not in describe_error(SqlSyntaxError("beyond the text", position=99), "SELECT")


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("SELECT 1;", True),
        ("SELECT 1", False),
        ("SELECT ';", False),
        ("SELECT ';';", True),
        ("SELECT 1; -- really", True),
        ("\\d", True),
        ("", True),
        ("  ", True),
    ],
)
def test_when_enter_runs(text, done):
    assert finished(text) is done


def test_listing_relations():
    terminal = Terminal({"SHOW VIEWS": rows(Name=("varchar", ["a view"]))})
    terminal.shell.run("\\d")
    assert terminal.out.getvalue().splitlines()[2:] == [
        ' "Cheap"  | materialized view |    3',
        ' "a view" | view              |',
        " orders   | table             |   20",
        "(3 rows)",
        "",
    ]
    terminal.shell.run("\\dt")
    assert '"Cheap"' not in terminal.out.getvalue().split("(3 rows)")[1]
    empty = Terminal(relations=())
    empty.shell.run("\\dm")
    assert empty.out.getvalue() == "There are no materialized views.\n"


def test_describing_one():
    terminal = Terminal()
    terminal.shell.run('\\d "Cheap";')
    assert terminal.ran == ['DESCRIBE "Cheap"']


def test_switches():
    terminal = Terminal({"SELECT 1": rows(a=("integer", [1]))})
    terminal.shell.run_lines(["\\x\n", "\\timing\n", "SELECT 1;\n"])
    lines = terminal.out.getvalue().splitlines()
    assert lines[:2] == ["Expanded display is on.", "Timing is on."]
    assert "a | 1" in lines
    assert lines[-1].startswith("Time: ") and lines[-1].endswith(" ms")


def test_running_a_file(tmp_path):
    (tmp_path / "a.sql").write_text("FLUSH;\nVACUUM;\n")
    terminal = Terminal()
    terminal.shell.run(f"\\i {tmp_path / 'a.sql'}")
    assert terminal.ran == ["FLUSH", "VACUUM"]
    with pytest.raises(Stop):
        terminal.shell.run("\\i nowhere.sql")
    assert "nowhere.sql: No such file" in terminal.err.getvalue()


def test_help_quit_and_the_unknown():
    terminal = Terminal(interactive=True)
    terminal.shell.run("\\?")
    assert "\\timing" in terminal.out.getvalue()
    terminal.shell.run("\\wat")
    assert terminal.err.getvalue() == "ERROR:  invalid command \\wat\nHINT:  \\? lists the commands\n"
    with pytest.raises(Quit):
        terminal.shell.run("\\q")


@pytest.mark.parametrize(("output", "text"), [("csv", "a\n1\n"), ("json", '{"a": 1}\n')])
def test_formats_for_programs_hold_rows_only(output, text):
    terminal = Terminal({"SELECT 1": rows(a=("integer", [1])), "FLUSH": FakeResult(tag="FLUSH")}, output=output)
    terminal.shell.run("FLUSH; SELECT 1")
    assert terminal.out.getvalue() == text


def test_completion():
    assert candidates("or", ["orders", '"Cheap"']) == ["orders", "OR", "ORDER"]
    assert candidates("", ["orders"]) == ["orders"]


def test_history_has_a_place(tmp_path):
    assert history_path({"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "headrace" / "history"
    assert history_path({}).parts[-4:] == (".local", "state", "headrace", "history")
