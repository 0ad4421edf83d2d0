"""The shell on a server: headrace sql --url."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from headrace import cli
from tests.support.terminal import read_until
from tests.support.waiting import eventually

SHELL = [sys.executable, "-m", "headrace.cli", "sql", "--url"]


@pytest.fixture
def url(server) -> str:
    return f"postgresql://root@127.0.0.1:{server.port}/dev"


def test_the_shell(url, capsys):
    values = "SELECT 1.50::numeric(4,2) AS n, '{1,NULL}'::int[] AS a, '{{1,2},{3,4}}'::int[] AS b"
    assert cli.main(["sql", "--url", url, "-c", values, "-c", "SHOW JOBS"]) == 0
    shown = capsys.readouterr().out
    assert " 1.50 | {1,NULL} | {{1,2},{3,4}}" in shown and "(0 rows)" in shown
    assert cli.main(["sql", "--url", url, "-c", values, "--format", "json"]) == 0
    assert capsys.readouterr().out == '{"n": 1.50, "a": [1, null], "b": [[1, 2], [3, 4]]}\n'
    assert cli.main(["sql", "--url", url, "-c", "SELECT * FROM nowhere"]) == 1
    assert 'relation "nowhere" does not exist' in capsys.readouterr().err
    assert cli.main(["sql", "--url", url, "-c", "DROP TABLE IF EXISTS nowhere"]) == 0
    assert capsys.readouterr().err == 'NOTICE:  table "nowhere" does not exist, skipping\n'


def test_what_it_refuses(url, capsys):
    assert cli.main(["sql", "--url", "postgresql://root:secret@127.0.0.1:1/dev", "-c", "SELECT 1"]) == 1
    told = capsys.readouterr().err
    assert "cannot connect to 127.0.0.1:1/dev" in told and "secret" not in told
    assert cli.main(["sql", "--url", url, "--takeover", "-c", "SELECT 1"]) == 1
    assert "a server has its engine already" in capsys.readouterr().err


@pytest.mark.parametrize("format", ["csv", "json"])
def test_rows_are_printed_as_they_come(server, url, format):
    """Who reads three of a million has three, and then nobody is busy any more."""
    command = [*SHELL, url, "--format", format, "-c", "SELECT x FROM generate_series(1, 1000000) s(x)"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert all(running.stdout.readline() for _ in range(3))
    running.stdout.close()
    assert (running.wait(timeout=60), running.stderr.read()) == (1, b"")
    running.stderr.close()
    eventually(lambda: not server.busy_sessions)


def test_a_terminal_shows_how_far_a_create_is_and_ctrl_c_ends_it(url, database, server, table, long_query, tmp_path):
    database.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY)")
    database.sql(f"INSERT INTO {table} VALUES (1), (2)")
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm", COLUMNS="200", PROMPT_TOOLKIT_NO_CPR="1", XDG_STATE_HOME=str(tmp_path))
        os.execv(SHELL[0], [*SHELL, url.replace("root@", "root:secret@")])

    seen = b""

    def answers(typed: bytes, wanted: str) -> str:
        nonlocal seen
        os.write(terminal, typed)
        seen = read_until(terminal, wanted.encode(), 60, b"" if typed else seen)
        found = wanted.encode() in seen
        assert found, f"{typed!r} is answered {seen[-1000:]!r}"
        return seen.decode()

    try:
        assert "secret" not in answers(b"", "helps, ")
        answers(b"SET backfill_rate_limit = 0;\r", "SET_VARIABLE")
        create = f"CREATE MATERIALIZED VIEW {table}_v AS SELECT id FROM {table};\r".encode()
        answers(create, "0/2 rows")
        answers(b"", f'NOTICE:  "{table}_v" is being filled')
        answers(b"\x03", f'cancelled: materialized view "{table}_v" was not created')
        assert f"{table}_v" not in [each["name"] for each in database.status()["relations"]]
        os.write(terminal, f"{long_query};\r".encode())
        eventually(lambda: server.busy_sessions)
        answers(b"\x03", "interrupted; ")
        eventually(lambda: not server.busy_sessions)
        answers(b"SELECT 41 + 1;\r", " 42\r\n")
        answers(f"\\d {table}\r".encode(), "primary key")
        os.write(terminal, b"\\q\r")
        assert os.waitpid(child, 0)[1] == 0
        child = 0
    finally:
        if child:
            os.kill(child, 9)
            os.waitpid(child, 0)
        os.close(terminal)
