"""Arrow rows to a table of a server, by COPY: a piece at a time, and written whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.catalog import TABLE, Column, Relation
from headrace.serving.render import python_columns, renderer
from headrace.serving.wire.copy_format import CopyOptions, lines_of
from headrace.sql.arriving import converted, refuse_unless_writable, target_columns
from headrace.sql.datatypes import sql_type
from headrace.sql.dialect import parse_expression
from headrace.sql.names import TEMPORARY_SCHEMA
from headrace.sql.text import quoted_string
from headrace.types import quote_sql

if TYPE_CHECKING:
    from headrace.remote.session import RemoteSession

PIECE_ROWS = 2_048
PIECE_BYTES = 1024 * 1024
"""Of Arrow's, that become text at once; one row at least"""


def insert(session: RemoteSession, table: str, rows: pa.Table) -> int:
    relation = _relation(session, table)
    refuse_unless_writable(relation, "insert into")
    columns = target_columns(relation, rows.column_names)
    pieces = copy_pieces(rows, columns)
    if not rows.num_rows:
        return 0
    names = ", ".join(quote_sql(column.name) for column in columns)
    return session.copy_in(f"COPY {quote_sql(table)} ({names}) FROM STDIN", pieces)


def copy_pieces(rows: pa.Table, columns: Sequence[Column]) -> Iterator[bytes]:
    """Rows as COPY's text, some at a time."""
    renderers, options = [renderer(column.type) for column in columns], CopyOptions()
    for piece in _slices(rows):
        converted_piece = pa.Table.from_arrays(
            [converted(piece[column.name], column) for column in columns], names=piece.column_names
        )
        texts = [
            [None if value is None else to_text(value) for value in values]
            for values, to_text in zip(python_columns(converted_piece), renderers, strict=True)
        ]
        yield b"".join(lines_of(texts, options))


def _slices(rows: pa.Table) -> Iterator[pa.Table]:
    start = 0
    while start < rows.num_rows:
        piece = rows.slice(start, PIECE_ROWS)
        while piece.num_rows > 1 and piece.nbytes > PIECE_BYTES:
            piece = piece.slice(0, piece.num_rows // 2)
        yield piece
        start += piece.num_rows


def _relation(session: RemoteSession, name: str) -> Relation:
    """What the server's catalog says of it."""
    found = session.ask(_COLUMNS.format(name=quoted_string(name))).rows()
    found = [row for row in found if row[-1] == found[0][-1]]  # a temporary table hides another of its name
    if not found:
        session.ask(f"DESCRIBE {quote_sql(name)}")  # the server says what it says of names that there are not
    columns = tuple(
        Column(
            name=column,
            type=sql_type(parse_expression(f"CAST(NULL AS {kind})").to),
            hidden=hidden,
            generated="…" if generated else None,
        )
        for column, kind, hidden, generated, *_ in found
    )
    return Relation(id=0, name=name, kind=found[0][-2] if found else TABLE, columns=columns)


_COLUMNS = f"""\
SELECT c.name, c.data_type, c.is_hidden, c.is_generated, r.relation_type, r.id
FROM rw_catalog.rw_columns c JOIN rw_catalog.rw_relations r ON c.relation_id = r.id
JOIN rw_catalog.rw_schemas s ON r.schema_id = s.id WHERE r.name = {{name}}
ORDER BY s.name <> '{TEMPORARY_SCHEMA}', c.position"""
