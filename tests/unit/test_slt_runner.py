"""The tester is tested: wrong answers must fail, and an update must make them right."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import DataError
from tests.slt.runner import Client, Mismatch, Mode, files, run_file, update_file
from tests.slt.script import Record, parse, render
from tests.support.fake_database import FakeDatabase, FakeResult, rows

CRASH = Mode(name="crash", crash=True)
SCRIPT = """\
# a comment

statement ok
CREATE TABLE t (a INT)

statement count 2
INSERT INTO t
VALUES (1), (2)

statement tag INSERT 0 2
INSERT INTO t
VALUES (1), (2)

query IT rowsort colnames
SELECT a, b FROM t
----
a b
1 (empty)
2 NULL

query R
SELECT 1.5
----
1.5

statement error 22012: division by zero
SELECT 1/0
"""


def database() -> FakeDatabase:
    return FakeDatabase(
        {
            "INSERT INTO t\nVALUES (1), (2)": FakeResult(tag="INSERT 0 2"),
            "SELECT a, b FROM t": rows(a=("integer", [2, 1]), b=("varchar", [None, ""])),
            "SELECT 1.5": rows(c=("double precision", [1.5])),
            "SELECT 1/0": DataError("division by zero", sqlstate="22012"),
        }
    )


def client(fake: FakeDatabase, mode: Mode | None = None) -> Client:
    return Client(lambda: fake, mode or Mode(name="plain"))


@pytest.fixture
def script(tmp_path: Path):
    def write(text: str = SCRIPT) -> Path:
        path = tmp_path / "a.slt"
        path.write_text(text)
        return path

    return write


def test_a_file_survives_reading_and_writing(script):
    assert render(parse(script())) == SCRIPT


@pytest.mark.parametrize("path", files([]), ids=lambda path: path.stem)
def test_every_file_can_be_read(path):
    assert render(parse(path)) == path.read_text()
    assert all(part.sql for part in parse(path) if isinstance(part, Record))


def test_right_answers_pass(script):
    run_file(script(), client(database()))


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("count 2", "count 3", "expected 3 rows, got INSERT 0 2"),
        ("tag INSERT 0 2", "tag INSERT", "expected the tag INSERT, got INSERT 0 2"),
        ("2 NULL", "2 null", "answered other rows"),
        ("1 (empty)\n", "", "answered other rows"),
        ("a b\n1", "a c\n1", "answered other rows"),
        ("query IT", "query TT", "expected the types TT, got IT"),
        ("query R", "query RR", "expected the types RR, got R"),
        ("22012: division", "22000: division", "expected an error like"),
        ("statement ok", "statement error .", "but it succeeded"),
        ("statement error 22012: division by zero", "statement ok", "failed: 22012: division by zero"),
    ],
)
def test_wrong_answers_fail_and_an_update_repairs_them(script, right, wrong, complaint):
    assert right in SCRIPT
    path = script(SCRIPT.replace(right, wrong, 1))
    with pytest.raises(Mismatch, match=complaint):
        run_file(path, client(database()))
    update_file(path, client(database()))
    run_file(path, client(database()))


def test_an_update_of_a_right_file_changes_nothing(script):
    path = script()
    assert update_file(path, client(database())) is False
    assert path.read_text() == SCRIPT


def test_crash_mode_reopens_after_changes_and_keeps_the_session_variables(script):
    fake = database()
    statements = ["SET x = 1", "INSERT 1", "INSERT 2", "SHOW x", "FLUSH"]
    run_file(script("\n".join(f"statement ok\n{each}\n" for each in statements)), client(fake, CRASH))
    again = ["<abandon>", "<session>", "SET x = 1"]
    assert fake.log == ["<session>", "SET x = 1", "INSERT 1", *again, "INSERT 2", *again, "SHOW x", "FLUSH"]


@pytest.mark.parametrize("text", ["statement maybe\nX\n", "query I sortrow\nX\n", "hash-threshold 8\n"])
def test_what_is_not_understood_is_refused(script, text):
    with pytest.raises(ValueError, match="a.slt:1"):
        parse(script(text))
