"""Prepared statements and portals, without an engine."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from headrace.catalog import Catalog
from headrace.serving.result import Result
from headrace.serving.server.parameters import without_positions
from headrace.serving.server.prepared import Bound, ChangedResult, PreparedStatements
from headrace.serving.wire import reader, writer
from headrace.sql.parse import parse
from headrace.types import SqlType

INTEGER, BIGINT, TEXT = SqlType("integer"), SqlType("bigint"), SqlType("varchar")


def rows(*types: SqlType) -> Result:
    names = [f"c{at}" for at, _ in enumerate(types)]
    table = pa.table({name: pa.array([], kind.arrow) for name, kind in zip(names, types, strict=True)})
    return Result("SELECT", columns=names, types=types, table=table)


def test_what_was_sent_before_comes_before_what_is_run_to_be_described():
    done = []
    session = SimpleNamespace(
        meant=lambda statement: statement,
        describe=lambda statement: None,
        perform=lambda statement: done.append(statement.sql) or rows(TEXT),
    )
    prepared = PreparedStatements(session)
    prepared.before_running = lambda: done.append("settled")
    prepared.parse(reader.Parse("", "SHOW JOBS", ()), Catalog())
    prepared.describe(reader.Describe("S", ""))
    assert done == ["settled", "SHOW JOBS"]


@pytest.mark.parametrize("types", [(INTEGER,), (INTEGER, TEXT, TEXT), (INTEGER, SqlType("date"))])
def test_a_relation_that_was_made_anew_with_other_columns(types):
    told = [("id", INTEGER), ("name", TEXT)]
    bound = Bound(statement=None, formats=(), positions=without_positions, columns=told)
    prepared = PreparedStatements(SimpleNamespace())
    with pytest.raises(ChangedResult) as caught:
        prepared.open(bound, rows(*types))
    assert (caught.value.sqlstate, caught.value.message) == ("0A000", "cached plan must not change result type")
    prepared.open(bound, rows(BIGINT, TEXT))


def test_a_write_is_refused_before_it_writes_other_columns():
    prepared = PreparedStatements(SimpleNamespace(describe=lambda statement: [("id", TEXT)]))
    (statement,) = parse("DELETE FROM t RETURNING id")
    bound = Bound(statement=statement, formats=(), positions=without_positions, columns=[("id", INTEGER)])
    with pytest.raises(ChangedResult):
        prepared.refuse_if_changed(bound)


def test_a_move_answers_no_rows():
    prepared = PreparedStatements(SimpleNamespace())
    prepared.declare("c", rows(INTEGER))
    for sql, described in (("MOVE 1 FROM c", writer.NO_DATA[:1]), ("FETCH 1 FROM c", b"T")):
        (statement,) = parse(sql)
        prepared.portals["p"] = Bound(statement=statement, formats=(), positions=without_positions)
        assert prepared.describe(reader.Describe("P", "p"))[:1] == described
