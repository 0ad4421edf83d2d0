"""headrace demo-kafka runs to its end, and leaves nothing."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headrace.demo.kafka import story
from tests.engine.sources.conftest import NEEDS_KAFKA

pytestmark = NEEDS_KAFKA


@pytest.mark.slow
@pytest.mark.timeout(600)  # Spark is started twice
def test_it_runs_to_its_end(monkeypatch):
    made: list[Path] = []
    make = story.tempfile.mkdtemp

    def remember(**how: Any) -> str:
        made.append(Path(make(dir="/tmp", **how)))  # Spark's sockets want a short path
        return str(made[-1])

    monkeypatch.setattr(story.tempfile, "mkdtemp", remember)
    told = io.StringIO()
    status = story.run(rows=20_000, console=Console(file=told, width=200))
    assert status == 0, told.getvalue()
    assert "kill -9" in told.getvalue() and told.getvalue().count("✔") == 4 and "✘" not in told.getvalue()
    assert made and not any(folder.exists() for folder in made)
