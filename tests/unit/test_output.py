from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from headrace.serving.output import FORMATS, write_table
from headrace.types import SqlType, array_of

INTEGER, TEXT = SqlType("integer"), SqlType("varchar")


@dataclass
class Fake:
    tag: str = "SELECT"
    columns: list[str] = field(default_factory=list)
    types: list[SqlType] = field(default_factory=list)
    values: list[tuple] = field(default_factory=list)
    zone: str = "UTC"

    def rows(self):
        return self.values

    def stream(self):
        return self.values


ROWS = Fake(columns=["id", "note"], types=[INTEGER, TEXT], values=[(1, 'a "b", c'), (2, None), (3, "")])
COMMAND = Fake(tag="CREATE_TABLE")


def written(result: Fake, kind: str) -> str:
    out = io.StringIO()
    FORMATS[kind](result, out)
    return out.getvalue()


def test_table():
    assert written(ROWS, "table") == (' id |   note\n----+----------\n  1 | a "b", c\n  2 |\n  3 |\n(3 rows)\n\n')
    assert written(COMMAND, "table") == "CREATE_TABLE\n"


def test_table_emphasis_is_for_the_header():
    out = io.StringIO()
    write_table(ROWS, out, emphasis=lambda line: f"<{line}>")
    assert out.getvalue().startswith("< id |   note>\n----")


def test_expanded_table():
    out = io.StringIO()
    write_table(Fake(columns=["id"], types=[INTEGER], values=[(7,)]), out, expand=True)
    assert out.getvalue() == "-[ RECORD 1 ]+----------\nid | 7\n(1 row)\n\n"


def test_csv():
    assert written(ROWS, "csv") == 'id,note\n1,"a ""b"", c"\n2,\n3,\n'
    assert written(COMMAND, "csv") == ""


def test_json_is_one_object_per_line():
    lines = written(ROWS, "json").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"id": 1, "note": 'a "b", c'},
        {"id": 2, "note": None},
        {"id": 3, "note": ""},
    ]
    assert written(COMMAND, "json") == ""


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (True, SqlType("boolean"), True),
        (Decimal("1.50"), SqlType("numeric", precision=10, scale=2), 1.5),
        (2.5, SqlType("double precision"), 2.5),
        (float("nan"), SqlType("double precision"), "NaN"),
        ([1, None], array_of(INTEGER), [1, None]),
        ({"a": 1, "b": ["x"]}, SqlType("struct", fields=(("a", INTEGER), ("b", array_of(TEXT)))), {"a": 1, "b": ["x"]}),
        ((1, "x"), SqlType("struct", fields=(("a", INTEGER), ("b", TEXT))), {"a": 1, "b": "x"}),
        (datetime(2026, 1, 1, tzinfo=UTC), SqlType("timestamptz"), "2026-01-01T00:00:00+00:00"),
        (datetime(2026, 1, 1), SqlType("timestamp"), "2026-01-01T00:00:00"),
        ('{"a":[1,2]}', SqlType("jsonb"), {"a": [1, 2]}),
        (b"\x01", SqlType("bytea"), "\\x01"),
        ('"\n', TEXT, '"\n'),
    ],
)
def test_json_values(value, kind, expected):
    line = written(Fake(columns=["v"], types=[kind], values=[(value,)]), "json")
    assert json.loads(line) == {"v": expected}
