"""COPY: many rows at once, without SQL for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from headrace.engine.engine import Engine
from headrace.engine.inserts import insert_arrow, writable_table
from headrace.engine.text_values import array_from_texts
from headrace.errors import HeadraceError, WrongObjectKind
from headrace.serving.render import python_columns, renderer
from headrace.serving.result import Result
from headrace.serving.server.budget import too_much_held
from headrace.serving.server.channel import Channel
from headrace.serving.server.portal import BLOCK_ROWS
from headrace.serving.wire import copy_binary, reader, writer
from headrace.serving.wire.copy_format import CopyOptions, lines_of, read_pieces
from headrace.sql import statements as ast
from headrace.sql.names import SCHEMA, NameInSchema
from headrace.sql.zoned import meant_in
from headrace.types import quote_sql

COPY_BYTES = 256 * 1024 * 1024
"""What one COPY may bring. It takes effect whole or not at all, so all of it is held."""


class CopyTooLarge(HeadraceError):
    sqlstate = "54000"


class CopyInterrupted(HeadraceError):
    sqlstate = "08P01"


class CopyFailed(HeadraceError):
    sqlstate = "57014"


def query_text(statement: ast.Copy) -> str:
    """What a COPY TO reads."""
    columns = ", ".join(map(quote_sql, statement.columns)) or "*"
    schema = f"{SCHEMA}." if isinstance(statement.table, NameInSchema) else ""
    return f"SELECT {columns} FROM {schema}{quote_sql(statement.table)}"


def copy_out(channel: Channel, result: Result, statement: ast.Copy, refuse_if_cancelled: Callable[[], None]) -> int:
    options = CopyOptions.of(statement.options)
    channel.send(writer.copy_response(b"H", len(result.columns), binary=options.binary))
    head = copy_binary.HEADER if options.binary else b""
    if options.header:
        channel.send(writer.copy_data(*lines_of([[name] for name in result.columns], options)))
    renderers = [renderer(kind, result.zone) for kind in result.types]
    count = 0
    for columns in _values(result):
        refuse_if_cancelled()
        count += len(columns[0])
        if options.binary:
            rows = copy_binary.tuples_of(columns, result.types)
            rows[0], head = head + rows[0], b""  # the header comes with the first row
        else:
            texts = [
                [None if value is None else to_text(value) for value in column]
                for column, to_text in zip(columns, renderers, strict=True)
            ]
            rows = lines_of(texts, options)
        channel.send(b"".join(map(writer.copy_data, rows)))
    if options.binary:
        channel.send(writer.copy_data(head + copy_binary.END))
    channel.send(writer.COPY_DONE)
    return count


def _values(result: Result) -> Iterator[list[list]]:
    for batch in result.batches():
        for start in range(0, batch.num_rows, BLOCK_ROWS):
            yield python_columns(batch.slice(start, BLOCK_ROWS))


def copy_in(channel: Channel, engine: Engine, statement: ast.Copy, refuse_if_cancelled: Callable[[], None]) -> int:
    relation = writable_table(engine.committed, statement.table, "copy to")
    names = statement.columns or tuple(column.name for column in relation.visible_columns if not column.generated)
    types = [relation.column(name).type for name in names]
    for name in statement.columns:
        if relation.column(name).generated:
            raise WrongObjectKind(f'column "{name}" is a generated column', hint="leave it out")
    options = CopyOptions.of(statement.options)
    channel.send(writer.copy_response(b"G", len(names), binary=options.binary))
    try:
        data = _receive(channel, refuse_if_cancelled)
        # Piece by piece: as Python's values the rows take many times what they took on the wire.
        if options.binary:
            pieces = copy_binary.pieces_of(data, types)
        else:
            pieces = read_pieces(data, len(names), options, names=names)
        tables, line = [], 2 if options.header else 1
        for columns in pieces:
            refuse_if_cancelled()
            with meant_in(statement.zone):
                arrays = [
                    array_from_texts(engine, name, texts, kind, first_line=line)
                    for name, texts, kind in zip(names, columns, types, strict=True)
                ]
            tables.append(pa.Table.from_arrays(arrays, names=list(names)))
            line += len(columns[0])
        refuse_if_cancelled()
        if not tables:
            return 0
        return engine.write(relation.id, insert_arrow(engine, relation, pa.concat_tables(tables))).count
    finally:
        channel.hold(0, "copy")


def _receive(channel: Channel, refuse_if_cancelled: Callable[[], None]) -> bytes:
    """Everything up to the end of the copy. The client has to be heard to the end even if it sends too much."""
    held, too_large, crowded = bytearray(), False, False
    while True:
        message = channel.message()
        refuse_if_cancelled()
        if isinstance(message, reader.CopyData):
            too_large = too_large or len(held) + len(message.data) > COPY_BYTES
            if not too_large and not crowded:
                held += message.data
                crowded = not channel.hold(len(held), "copy")
            if too_large or crowded:
                held.clear()
                channel.hold(0, "copy")
        elif isinstance(message, reader.CopyDone):
            break
        elif isinstance(message, reader.CopyFail):
            raise CopyFailed(f"COPY from stdin failed: {message.reason}")
        elif not isinstance(message, (reader.Flush, reader.Sync)):
            # As PostgreSQL: what is wrong, and then that the connection ends, as nobody knows where the data does.
            kind = f"0x{reader.code_of(message):02X}"
            channel.send(writer.error(CopyInterrupted(f"unexpected message type {kind} during COPY from stdin")))
            raise reader.ProtocolViolation("terminating connection because protocol synchronization was lost")
    if crowded:
        raise too_much_held()
    if too_large:
        raise CopyTooLarge(
            f"a COPY may bring at most {COPY_BYTES:,} bytes", hint="send the rows in several; nothing was written"
        )
    return bytes(held)
