"""headrace demo-cdc: it runs to its end, and where it cannot it says why, in a sentence."""

from __future__ import annotations

import functools
import io
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import headrace
from headrace import cli
from headrace.demo.cdc import engine, server, story
from headrace.demo.cdc.writers import HISTORY, TABLE
from headrace.errors import EnvironmentProblem, Fenced
from tests.engine.cdc_postgres.conftest import NEEDS_POSTGRES
from tests.engine.conftest import PROMPT
from tests.support.postgres import PASSWORD, Postgres
from tests.support.waiting import PATIENCE, eventually

pytestmark = NEEDS_POSTGRES


def played(rows: int) -> tuple[int, str]:
    out = io.StringIO()
    return story.run(rows=rows, console=Console(file=out, width=200)), out.getvalue()


@pytest.fixture
def folders(monkeypatch) -> list[Path]:
    """Those that the demo makes; none may be left."""
    made: list[Path] = []
    make = story.tempfile.mkdtemp

    def remember(**how: Any) -> str:
        made.append(Path(make(dir="/tmp", **how)))
        return str(made[-1])

    monkeypatch.setattr(story.tempfile, "mkdtemp", remember)
    return made


@pytest.mark.slow
def test_it_runs_to_its_end(folders, monkeypatch):
    monkeypatch.setattr(story, "ALONE_SECONDS", 0.2)
    status, told = played(30_000)
    assert status == 0, told
    assert "kill -9" in told and told.count("✔") == 3 and "✘" not in told
    assert "large: equal, " in told and told.endswith("Nothing is lost, and nothing is there twice.\n")
    assert folders and not any(folder.exists() for folder in folders)


def test_a_server_that_is_not_installed(folders, monkeypatch, capsys):
    monkeypatch.setattr(server, "binaries", lambda: None)
    assert cli.main(["demo-cdc", "--rows", "1000"]) == 1
    error = capsys.readouterr().err
    assert "PostgreSQL's server is not installed" in error and "apt install postgresql" in error
    assert "Traceback" not in error and not any(folder.exists() for folder in folders)


def test_a_folder_that_the_server_may_not_enter(tmp_path):
    """As root's own TMPDIR, say."""
    (tmp_path / "private" / "inner").mkdir(parents=True)
    (tmp_path / "private").chmod(0o700)
    assert server.closed_folder(tmp_path / "private" / "inner" / "server") in {tmp_path / "private", *tmp_path.parents}
    if os.getuid() == 0 and server.binaries() is not None:
        with pytest.raises(EnvironmentProblem, match="may not enter"):
            server.PrivateServer(tmp_path / "private" / "inner" / "server")


def test_a_driver_that_is_not_installed(folders, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    assert cli.main(["demo-cdc", "--rows", "1000"]) == 1
    error = capsys.readouterr().err
    assert "the driver for PostgreSQL is not installed" in error and "headrace[postgres]" in error
    assert "Traceback" not in error and not any(folder.exists() for folder in folders)


def test_a_server_that_dies(folders, monkeypatch):
    """An engine would wait for it, and report that it does, for ever."""
    servers: list[server.PrivateServer] = []

    class Remembered(server.PrivateServer):
        def __init__(self, *arguments: Any):
            super().__init__(*arguments)
            servers.append(self)

    class WaitingEngine:
        def __init__(self, *arguments: str, scratch: Path):
            servers[0].stop(immediate=True)

        def expect(self, patience: float) -> dict[str, Any]:
            return {"is": "status", "epoch": 1, "look": {"state": "running"}}

        def kill(self) -> None: ...

    monkeypatch.setattr(story, "PrivateServer", Remembered)
    monkeypatch.setattr(story, "Process", WaitingEngine)
    monkeypatch.setattr(story, "ALONE_SECONDS", 0.2)
    status, told = played(100)
    assert status == 1 and "Traceback" not in told
    assert told.splitlines()[-1].startswith("✘ PostgreSQL's clients cannot go on: "), told
    assert folders and not any(folder.exists() for folder in folders)


def test_ctrl_c_while_the_server_starts(monkeypatch):
    started: list[subprocess.Popen] = []
    popen = subprocess.Popen

    def remember(command, **how):
        process = popen(command, **how)
        if Path(command[0]).name == "postgres":
            started.append(process)
        return process

    def interrupted(*where: Any, **how: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(server.subprocess, "Popen", remember)
    monkeypatch.setattr(server, "connect", interrupted)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        with pytest.raises(KeyboardInterrupt):
            server.PrivateServer(Path(folder, "postgres"))
        assert not Path(folder, "postgres").exists()
    (process,) = started
    assert process.returncode is not None


def test_a_second_engine(spark, tmp_path, monkeypatch):
    """The first could commit nothing more, so it ends, and says what happened."""
    shop = Postgres()
    try:
        shop.run(TABLE)
        shop.run(HISTORY.format(rows=100))
        (tmp_path / "password").write_text(PASSWORD)
        warehouse = str(tmp_path / "warehouse")
        told: list[str] = []
        monkeypatch.setattr(engine, "say", lambda kind, **fields: told.append(kind))
        connect = functools.partial(headrace.connect, spark=spark, parameters=PROMPT)
        monkeypatch.setattr(engine.headrace, "connect", connect)
        ended: list[BaseException] = []

        def first() -> None:
            try:
                engine.main(warehouse, str(tmp_path), str(shop.port), shop.owner, "1000")
            except BaseException as error:
                ended.append(error)

        thread = threading.Thread(target=first, daemon=True)
        thread.start()
        eventually(lambda: "filled" in told or ended)
        assert not ended
        with connect(warehouse, takeover=True) as second:
            second.sql("CREATE TABLE mine (id INT)")
            thread.join(PATIENCE)
            (error,) = ended
            assert isinstance(error, Fenced) and "has taken over the warehouse" in error.message
            second.sql("DROP SOURCE shop CASCADE")
    finally:
        shop.remove()
