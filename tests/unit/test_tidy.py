"""Taste that can be checked."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "headrace").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

LONGEST = 600
# These talk to a person at a terminal; everything else returns values, raises errors or logs.
MAY_PRINT = {"headrace/cli.py", "headrace/shell.py"}
# A result prints itself when asked to.
MAY_PRINT_IN = {"show"}
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|Users|root|work|mnt)/\w+")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tracked_text_files() -> list[Path]:
    """Everything that a clone would hold, committed or about to be."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [path for name in done.stdout.splitlines() if (path := ROOT / name).is_file() and _is_text(path)]


def _is_text(path: Path) -> bool:
    return b"\0" not in path.read_bytes()[:8192]


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_files_are_short(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LONGEST, f"{name_of(path)} has {lines} lines; does it still hold one idea?"


@pytest.mark.parametrize("path", SOURCES + TESTS, ids=name_of)
def test_todos_say_what(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := re.search(r"#\s*(TODO|FIXME|XXX)\b[:\s]*(.*)", line):
            assert len(match[2].split()) >= 3, f"{name_of(path)}:{number}: say what is to be done"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_the_library_does_not_print(path):
    if name_of(path) in MAY_PRINT:
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    allowed = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name in MAY_PRINT_IN
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            assert id(node) in allowed, f"{name_of(path)}:{node.lineno}: return it, raise it or log it"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_modules_say_what_they_are(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if tree.body:
        assert ast.get_docstring(tree), f"{name_of(path)} has no docstring: tell the idea in a sentence"


def test_no_paths_of_one_machine():
    for path in tracked_text_files():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = MACHINE_PATH.search(line)
            assert found is None, f"{name_of(path)}:{number}: {found[0]} exists on one machine only"
