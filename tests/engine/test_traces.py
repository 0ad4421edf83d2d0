"""Every trace of operators happens as it is written down (:mod:`tests.engine.trace_script`)."""

from __future__ import annotations

import pytest

import headrace
from tests.engine.trace_script import TRACES, run


@pytest.fixture(scope="module")
def database(spark, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("traces") / "warehouse")
    with headrace.connect(folder, spark=spark, parameters={"barrier_interval": "50ms"}) as found:
        yield found


@pytest.mark.parametrize("path", sorted(TRACES.glob("*.trace")), ids=lambda path: path.stem)
def test_trace(database, path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# "), "say first what it shows"
    assert run(database, text) == text, "if this is intended: make traces-update, and read the diff"
