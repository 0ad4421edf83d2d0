"""COPY: many rows at once, without SQL for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from threading import BoundedSemaphore

import pyarrow as pa

from headrace.catalog import Relation
from headrace.engine.arrivals import Arrivals
from headrace.engine.engine import Engine
from headrace.engine.inserts import writable_table
from headrace.engine.text_values import array_from_texts
from headrace.errors import HeadraceError, InvalidColumnReference
from headrace.serving.render import python_columns, renderer
from headrace.serving.result import Result
from headrace.serving.server.channel import Channel
from headrace.serving.server.portal import BLOCK_ROWS
from headrace.serving.server.spool import Spool
from headrace.serving.wire import copy_binary, reader, writer
from headrace.serving.wire.copy_format import CopyOptions, lines_of, read_pieces
from headrace.sql import statements as ast
from headrace.sql.names import SCHEMA, NameInSchema
from headrace.sql.zoned import meant_in
from headrace.state.cuts import RESULTS
from headrace.state.storage import LocalStorage
from headrace.types import quote_sql

LARGE_AT_ONCE = 4
"""COPYs of more than a little that become values and are written; others wait, with what they brought on disk."""
LOOKS_EVERY = 0.2
"""Seconds, whether one that waits was cancelled"""
_turns = BoundedSemaphore(LARGE_AT_ONCE)


class CopyInterrupted(HeadraceError):
    sqlstate = "08P01"


class CopyFailed(HeadraceError):
    sqlstate = "57014"


def query_text(statement: ast.Copy, relation: Relation | None) -> str:
    """What a COPY TO reads: as in PostgreSQL, what a COPY FROM takes, which generated columns are not."""
    names = statement.columns
    if relation is not None and any(column.generated for column in relation.columns):
        names = _names(statement, relation)
    columns = ", ".join(map(quote_sql, names)) or "*"
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
    names = _names(statement, relation)
    types = [relation.column(name).type for name in names]
    options = CopyOptions.of(statement.options)
    channel.send(writer.copy_response(b"G", len(names), binary=options.binary))
    with _spool(engine) as spool, Arrivals(engine, relation) as arrivals:
        for data in _messages(channel, refuse_if_cancelled):
            spool.write(data)
        data = spool.content()
        with nullcontext() if isinstance(data, bytes) else _turn(refuse_if_cancelled):
            # Piece by piece: as Python's values the rows take many times what they took on the wire.
            if options.binary:
                pieces = copy_binary.pieces_of(data, types)
            else:
                pieces = read_pieces(data, len(names), options, names=names)
            line = 2 if options.header else 1
            for columns in pieces:
                refuse_if_cancelled()
                with meant_in(statement.zone):
                    arrays = [
                        array_from_texts(engine, name, texts, kind, first_line=line)
                        for name, texts, kind in zip(names, columns, types, strict=True)
                    ]
                arrivals.add(pa.Table.from_arrays(arrays, names=list(names)))
                line += len(columns[0])
            refuse_if_cancelled()
            return engine.write(relation.id, arrivals.change).count if line > 1 + options.header else 0


def _names(statement: ast.Copy, relation: Relation) -> tuple[str, ...]:
    generated = {column.name for column in relation.columns if column.generated}
    for name in statement.columns:
        if name in generated:
            raise InvalidColumnReference(f'column "{name}" is a generated column', hint="leave it out")
    return statement.columns or tuple(each.name for each in relation.visible_columns if not each.generated)


@contextmanager
def _turn(refuse_if_cancelled: Callable[[], None]) -> Iterator[None]:
    """What becomes values takes memory, and processors that it shares with all other clients."""
    while not _turns.acquire(timeout=LOOKS_EVERY):
        refuse_if_cancelled()
    try:
        yield
    finally:
        _turns.release()


def _spool(engine: Engine) -> Spool:
    """In the warehouse if it is on this machine: there is room for what will be written anyway."""
    if not isinstance(engine.storage, LocalStorage):
        return Spool()
    engine.storage.make_dirs(RESULTS)
    return Spool(f"{engine.storage.root}/{RESULTS}")


def _messages(channel: Channel, refuse_if_cancelled: Callable[[], None]) -> Iterator[bytes]:
    while True:
        message = channel.message()
        refuse_if_cancelled()
        if isinstance(message, reader.CopyData):
            yield message.data
        elif isinstance(message, reader.CopyDone):
            return
        elif isinstance(message, reader.CopyFail):
            raise CopyFailed(f"COPY from stdin failed: {message.reason}")
        elif not isinstance(message, (reader.Flush, reader.Sync)):
            # As PostgreSQL: what is wrong, and then that the connection ends, as nobody knows where the data does.
            kind = f"0x{reader.code_of(message):02X}"
            channel.send(writer.error(CopyInterrupted(f"unexpected message type {kind} during COPY from stdin")))
            raise reader.ProtocolViolation("terminating connection because protocol synchronization was lost")
