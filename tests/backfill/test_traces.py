"""Every trace happens as it is written down, also where a document shows it."""

from __future__ import annotations

import re

import pytest

from tests.backfill.script import TRACES, main, run

FILES = sorted(TRACES.glob("*.trace"))
CHAPTER = TRACES.parents[2] / "docs" / "design" / "backfill.md"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_trace(path):
    text = path.read_text(encoding="utf-8")
    assert run(text) == text, "if this is intended: make traces-update, and read the diff"
    assert text.startswith("# "), "say first what it shows"


def test_nothing_needs_an_update():
    said = []
    assert main(update=False, write=said.append) == 0 and not said


def test_the_chapter_shows_traces_as_they_are():
    golden = {path.read_text(encoding="utf-8") for path in FILES}
    shown = re.findall(r"^```text\n(.*?)^```$", CHAPTER.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    traces = [text for text in shown if "!barrier" in text]
    assert len(traces) >= 2 and golden.issuperset(traces), "copy them from tests/backfill/traces again"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("!barrier 2\n", "the epoch that is open is 1"),
        ("what\n", "what is this"),
        ("!table t\n!chunk t 1\n", "t is not a view"),
    ],
)
def test_a_mistake_is_said_with_its_line(text, problem):
    with pytest.raises(AssertionError, match=rf"line \d, .*{problem}"):
        run(text)
