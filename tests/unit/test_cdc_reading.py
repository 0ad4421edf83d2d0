"""CSV of PostgreSQL's COPY, as columns."""

from __future__ import annotations

import io
import re

import pytest

from headrace.catalog import KeyColumn
from headrace.cdc.postgres.copying import FILLER
from headrace.cdc.postgres.reading import _block_columns, _columns
from headrace.cdc.postgres.tables import SourceColumn, SourceTable
from headrace.cdc.postgres.types import SourceType
from headrace.errors import DataError
from headrace.state.layout import Layout
from headrace.types import SqlType

LAYOUT = Layout(
    relation_id=1,
    columns=(
        ("id", SqlType("integer")), ("n", SqlType("bigint")), ("t", SqlType("varchar")),
        ("p", SqlType("numeric", precision=6, scale=2)),
    ),
    pk=(KeyColumn(name="id"),),
    distribution=("id",),
)  # fmt: skip


def read(text: str) -> list[dict]:
    """By way of a file, and by blocks."""
    rows = [row for table in _columns(io.BytesIO(text.encode()), LAYOUT) for row in table.to_pylist()]
    assert rows == _block_columns(memoryview(block(text)), LAYOUT).to_pylist()
    return rows


def block(text: str) -> bytes:
    return b"".join(FILLER + line.encode() + b"\n" for line in re.findall(r'(?:"(?:[^"]|"")*"|[^"\n])+', text))


def test_null_has_no_quotes_and_an_empty_text_has():
    found = read('1,,"",\n2,-9223372036854775808,,1.50\n3,7,"a ""b"", c\nd",\n')
    assert [(row["n"], row["t"], None if row["p"] is None else str(row["p"])) for row in found] == [
        (None, "", None), (-(2**63), None, "1.50"), (7, 'a "b", c\nd', None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('1,2,"a",1.5\n99999999999,2,"b",1\n', 'column "id": "99999999999" is not a value of type integer'),
        ('1,2,"a",1.555\n', 'column "p": "1.555" is not a value of type numeric'),
    ],
)
def test_what_does_not_fit_is_named(text, message):
    with pytest.raises(DataError, match=message):
        read(text)
    with pytest.raises(DataError, match=message):
        _block_columns(memoryview(block(text)), LAYOUT)


def test_only_texts_are_quoted_whatever_is_in_them():
    def column(name: str, kind: str, schema: str = "pg_catalog") -> SourceColumn:
        return SourceColumn(name=name, type=SourceType(name=kind, schema=schema, text=kind))

    columns = (column("id", "int4"), column('a"b', "text"), column("m", "numeric", "public"), column("d", "date"))
    table = SourceTable(schema="s", name="t", key=("id",), columns=columns)
    assert table.copied("SELECT 1") == 'COPY (SELECT 1) TO STDOUT (FORMAT csv, FORCE_QUOTE ("a""b", "m"))'
    assert SourceTable(schema="s", name="t", key=("id",), columns=columns[:1]).copied("q") == (
        "COPY (q) TO STDOUT (FORMAT csv)"
    )
