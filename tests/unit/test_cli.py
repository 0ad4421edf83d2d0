from __future__ import annotations

import io
import sys

import pytest

import headrace
from headrace import cli
from headrace.errors import DataError, EnvironmentProblem
from tests.support.fake_database import FakeDatabase, rows


@pytest.fixture
def database(monkeypatch):
    """Connecting gives a fake; how it was called is in `.arguments`."""
    fake = FakeDatabase({"SELECT 1": rows(a=("integer", [1])), "SELECT 1/0": DataError("division by zero")})

    def connect(warehouse, **options):
        fake.arguments = (warehouse, options)
        return fake

    monkeypatch.setattr(headrace, "connect", connect, raising=False)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return fake


def test_help_teaches(capsys):
    assert cli.main([]) == 0
    printed = capsys.readouterr().out
    for word in ("headrace demo", "headrace sql -c", "sql", "status", "vacuum", "version", "HEADRACE_WAREHOUSE"):
        assert word in printed
    with pytest.raises(SystemExit) as exit:
        cli.main(["sql", "--help"])
    assert exit.value.code == 0
    assert "CREATE MATERIALIZED VIEW" in capsys.readouterr().out


def test_commands_and_files_run_in_the_order_given(database, tmp_path, capsys):
    script = tmp_path / "a.sql"
    script.write_text("VACUUM;\n")
    assert cli.main(["sql", "-w", "w", "-c", "FLUSH", "-f", str(script), "-c", "SELECT 1", "--format", "csv"]) == 0
    assert database.log == ["<session>", "FLUSH", "VACUUM", "SELECT 1", "<close>"]
    assert capsys.readouterr().out == "a\n1\n"


def test_options_reach_the_engine(database):
    cli.main(
        ["sql", "-w", "s3a://b/w", "--master", "local[1]", "--takeover", "--set", "a=1", "--set", "b = 2s", "-c", ""]
    )
    assert database.arguments == (
        "s3a://b/w",
        {"master": "local[1]", "takeover": True, "parameters": {"a": "1", "b": "2s"}},
    )


def test_the_first_error_ends_with_status_1(database, capsys):
    assert cli.main(["sql", "-c", "SELECT 1/0; FLUSH", "-c", "VACUUM"]) == 1
    assert database.log == ["<session>", "SELECT 1/0", "<close>"]
    assert capsys.readouterr().err == "ERROR:  division by zero\n"


def test_a_missing_file_is_noticed_before_spark_starts(database, capsys):
    assert cli.main(["sql", "-f", "nowhere.sql"]) == 1
    assert "nowhere.sql: no such file" in capsys.readouterr().err
    assert database.log == []


def test_statements_from_a_pipe(database, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 1;\n\\d\nFLUSH"))
    assert cli.main(["sql"]) == 0
    assert database.log == ["<session>", "SELECT 1", "SHOW VIEWS", "FLUSH", "<close>"]


def test_what_is_wrong_with_the_machine_is_said_in_a_sentence(monkeypatch, capsys):
    def connect(*_, **__):
        raise EnvironmentProblem("Spark needs Java", hint="install it")

    monkeypatch.setattr(headrace, "connect", connect, raising=False)
    assert cli.main(["sql", "-c", "SELECT 1"]) == 1
    assert capsys.readouterr().err == "ERROR:  Spark needs Java\nHINT:  install it\n"


@pytest.mark.parametrize(
    "arguments", [["sql", "--set", "x"], ["demo", "--rows", "0"], ["sql", "--format", "xml"], ["nonsense"]]
)
def test_wrong_usage(arguments, capsys):
    with pytest.raises(SystemExit) as exit:
        cli.main(arguments)
    assert exit.value.code == 2


def test_version(capsys):
    assert cli.main(["version"]) == 0
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines()] == ["headrace", "spark", "python", "java"]
