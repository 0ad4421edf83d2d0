"""The project's SQL tests, all of them, through a server: rows, tags, types and errors. What is answered without Spark
is asked once more, of Spark; of queries, some are asked once more by the extended protocol."""

from __future__ import annotations

import random

import psycopg
import pytest
from psycopg.pq import DiagnosticField, ExecStatus

from headrace.errors import HeadraceError
from headrace.serving.server.server import Server
from headrace.serving.shows import SHOWN
from headrace.serving.wire.oids import type_of
from headrace.sql import statements as ast
from headrace.sql.parse import parse as statements
from tests.slt.runner import FOLDER, MODES, Answer, Mismatch, _letter, _shown, check, connector, files
from tests.slt.script import Record, parse
from tests.support.four_ways import drawn_seed

FILES = [path.stem for path in files([])]


EXTENDED = 0.25
"""Of how many of the queries, chosen by a seed that is printed, so that they take seconds and not half a minute."""


def ask(connection: psycopg.Connection, record: Record) -> Answer:
    return answer(connection.pgconn.exec_(record.sql.encode()))


def ask_extended(connection: psycopg.Connection, record: Record) -> Answer:
    """Parse, Bind, Describe, Execute."""
    return answer(connection.pgconn.exec_params(record.sql.encode(), None))


def only_reads(record: Record) -> bool:
    try:
        (statement,) = statements(record.sql)
    except (HeadraceError, ValueError):
        return False
    return isinstance(statement, (ast.Select, *SHOWN))


def answer(result: psycopg.pq.PGresult) -> Answer:
    if result.status == ExecStatus.FATAL_ERROR:

        def part(field: DiagnosticField) -> str | None:
            found = result.error_field(field)
            return None if found is None else found.decode()

        error = HeadraceError(part(DiagnosticField.MESSAGE_PRIMARY), hint=part(DiagnosticField.MESSAGE_HINT))
        error.sqlstate = part(DiagnosticField.SQLSTATE)
        return Answer(error=error)
    columns = range(result.nfields)
    rows = (
        ["\0" if (value := result.get_value(row, at)) is None else value.decode() for at in columns]
        for row in range(result.ntuples)
    )
    kinds = [type_of(result.ftype(at)) for at in columns]
    return Answer(
        tag=result.command_status.decode(),
        types="".join("T" if kind is None else _letter(kind.name) for kind in kinds),
        columns=tuple(result.fname(at).decode() for at in columns),
        rows=tuple(" ".join(map(_shown, row)) for row in rows),
    )


@pytest.mark.parametrize("name", FILES)
def test_slt(name, spark, tmp_path):
    seed = drawn_seed()
    chance = random.Random(f"{seed} {name}")
    print(f"HEADRACE_SEED={seed}")
    with connector(spark, tmp_path / "warehouse", MODES[0])() as database:
        server = Server(database.engine, port=0)
        server.start()
        mismatches = []
        with psycopg.connect(f"host=127.0.0.1 port={server.port} user=root dbname=dev", autocommit=True) as connection:
            for record in parse(FOLDER / f"{name}.slt"):
                if isinstance(record, Record):
                    before, way = database.engine.answered_without_spark, "simple protocol"
                    try:
                        check(record, ask(connection, record))
                        if database.engine.answered_without_spark > before:
                            way = "of Spark, which must say the same"
                            connection.execute("SET query_mode = distributed")
                            check(record, ask(connection, record))
                            connection.execute("SET query_mode = auto")
                        if only_reads(record) and chance.random() < EXTENDED:
                            way = "extended protocol"
                            check(record, ask_extended(connection, record))
                    except Mismatch as mismatch:
                        mismatches.append(f"{mismatch}\n({way})")
                    connection.execute("SET query_mode = auto")
        server.stop()
    assert not mismatches, "\n\n".join(mismatches)
