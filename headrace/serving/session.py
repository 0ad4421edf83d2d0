"""A session: its variables, and what each statement does."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from headrace.catalog import MATERIALIZED_VIEW, SOURCE, Relation, shown_name
from headrace.config import PARAMETERS, find_parameter, show_switch
from headrace.engine import inserts
from headrace.engine.changes import Change, InsertFrame, InsertRows, Outcome
from headrace.engine.check import check
from headrace.engine.coordinator import Mutate, Mutation, Write
from headrace.engine.definitions import Definitions
from headrace.engine.engine import Engine
from headrace.engine.loops import interrupt_when_cancelled
from headrace.engine.plans import query_frame
from headrace.engine.spark import spark_errors, use_pool
from headrace.engine.streams import KeptRows, cancel_tagged, tag_thread
from headrace.errors import InvalidParameterValue, Unsupported
from headrace.notices import warning
from headrace.serving.asked import Asked
from headrace.serving.pg_catalog.relations import Context
from headrace.serving.pg_catalog.rewrite import resolve
from headrace.serving.result import Result
from headrace.serving.shows import SHOWN, show
from headrace.serving.temporary import TemporaryTables
from headrace.serving.transaction import IDLE, OF_TRANSACTION, Transaction, changes_something, refuse_read_only
from headrace.serving.variables import Variables
from headrace.serving.waiting import Waiting
from headrace.sql import statements as ast
from headrace.sql.bind import bind_query, bind_returning
from headrace.sql.parse import parse, point_at
from headrace.sql.translate import to_spark, type_of
from headrace.state.manifest import Manifest
from headrace.types import SqlType, quote_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TEXT, BIGINT = SqlType("varchar"), SqlType("bigint")

IN_ONE_EPOCH = "rows are computed and written in one epoch, which other writes wait for; cancelling leaves none"
"""For who waits for an INSERT … SELECT or a CREATE TABLE AS"""
_WRITES = (ast.Insert, ast.Update, ast.Delete)
_numbers = itertools.count(1)


class Session:
    """Statements of one client, one after the other. Only :meth:`cancel` may be called from another thread."""

    def __init__(
        self,
        engine: Engine,
        *,
        on_notice: Callable[[str], None] | None = None,
        while_waiting: Callable[[], None] | None = None,
    ):
        """``while_waiting``: called again and again while a statement waits for others; raises if nobody is there."""
        self._engine = engine
        self.variables = Variables()
        self._definitions = Definitions(engine)
        self._waiting = Waiting(engine.coordinator, on_notice or (lambda text: None), while_waiting or (lambda: None))
        number = next(_numbers)
        self._tag = f"headrace-session-{number}"
        self._temporary = TemporaryTables(number)
        self._transaction = Transaction()
        self.user, self.process = "root", 0

    def sql(self, text: str) -> Result:
        """Runs all statements and answers the last one's result."""
        results = deque(self.execute(text), maxlen=1)
        return results[0] if results else Result("EMPTY")

    def execute(self, text: str) -> Iterator[Result]:
        """Runs the statements one after the other; an error stops them, and what was done before stays done."""
        self.begin_statement()
        for statement in parse(text):
            yield self.perform(statement)

    def perform(self, statement: ast.Statement) -> Result:
        self.refuse_if_impossible(statement)
        try:
            statement = self.meant(statement)
            result = self.run(statement)
        except BaseException as error:
            point_at(error, statement)
            self.fail()
            raise
        self._temporary.performed(statement)
        result.zone = self.variables.zone
        if isinstance(statement, _WRITES):
            self.wrote()
        return result

    def meant(self, statement: ast.Statement) -> ast.Statement:
        """The statement with the names of the session's temporary tables as they are stored, and its time zone."""
        statement = self._temporary.meant(statement)
        zone = self.variables.zone
        return statement if zone == "UTC" else dataclasses.replace(statement, zone=zone)

    def close(self) -> None:
        """Its temporary tables go; it may be used again."""
        self._temporary.drop(self._engine.coordinator)

    def refuse_if_impossible(self, statement: ast.Statement) -> None:
        self._engine.coordinator.refuse_if_closed()
        self._transaction.refuse_if_failed(statement)
        if self._read_only and changes_something(statement) and not self._temporary.writes_only_there(statement):
            refuse_read_only(statement)

    def fail(self) -> None:
        """A statement failed, perhaps before it could be run, or while its rows were fetched."""
        self._transaction.fail()

    def wrote(self) -> None:
        """What a ROLLBACK would have to undo, and does not."""
        self._transaction.wrote = True

    # --- interruption ------------------------------------------------------------------------------------------

    def own_thread(self) -> None:
        """Called once by a thread that serves this session alone: its Spark jobs can then be cancelled."""
        tag_thread(self._engine.spark, self._tag)
        interrupt_when_cancelled(self._engine.spark)
        use_pool(self._engine.spark, "queries")

    def begin_statement(self) -> None:
        self._waiting.cancelled.clear()  # whoever was cancelled before, the next statement is not

    def cancel(self) -> None:
        """Stops the query that is running, the wait for a job, and what the epoch loop does for a statement."""
        self._waiting.cancelled.set()
        cancel_tagged(self._engine.spark, self._tag)

    @property
    def cancelled(self) -> bool:
        return self._waiting.cancelled.is_set()

    def refuse_if_cancelled(self) -> None:
        self._waiting.refuse_if_cancelled()

    @functools.singledispatchmethod
    def run(self, statement: ast.Statement) -> Result:
        if (shown := show(statement, self._engine, self.shown)) is not None:
            return self._rows("DESCRIBE" if isinstance(statement, ast.Describe) else "SHOW", *shown)
        words = re.match(r"\w*", statement.sql)[0].upper()
        raise Unsupported(f"{words} is not supported here", hint="connect to a server: headrace serve")

    # --- queries -----------------------------------------------------------------------------------------------

    @run.register
    def _select(self, statement: ast.Select) -> Result:
        asked = self._asked(statement, running=True)
        small = asked.small(self._engine, self.variables)
        if (known := asked.result(small, later=lambda: self._frame(asked)[0])) is not None:
            return known
        frame, types = self._frame(asked)
        return Result.of_frame(
            frame, types, streams=self._engine.streams, given=asked.given,
            while_waiting=self._waiting.refuse_if_unwanted,
        )  # fmt: skip

    def describe(self, statement: ast.Statement) -> list[tuple[str, SqlType]] | None:
        """The columns of the rows that the statement would answer; None if only running it can tell."""
        statement = self.meant(statement)
        if isinstance(statement, ast.Select):
            query = statement.query
        elif isinstance(statement, _WRITES):
            if not statement.returning:
                return []
            table = exp.Table(this=exp.to_identifier(statement.table, quoted=True))
            alias = getattr(statement, "alias", None) or shown_name(statement.table)
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
            query = exp.Select(expressions=[each.copy() for each in statement.returning]).from_(table)
        elif isinstance(statement, (*SHOWN, ast.Explain, ast.Check)):
            return None
        else:
            return []
        bound = self._asked(ast.Select(sql=statement.sql, query=query, zone=statement.zone)).bound
        return list(zip(bound.output, (kind or TEXT for kind in bound.types), strict=True))

    def _asked(self, statement: ast.Select, *, running: bool = False) -> Asked:
        """As of the epoch that it, or the session, asks for."""
        state = self._engine.snapshot(self.variables.value("query_epoch"))
        system = resolve(statement.query, self._context(state, running=running))
        meant = {"functions": self._engine.functions, "zone": statement.zone}
        bound = bind_query(system.query, system.catalog, **meant)
        if bound.as_of is not None:
            state = self._engine.snapshot(self._engine.epoch_of(bound.as_of, self.variables.zone))
            bound = bind_query(statement.query, state.catalog, **meant)
        elif system.tables:
            state = dataclasses.replace(state, catalog=system.catalog)
        about_system = system.query is not statement.query
        return Asked(bound=bound, state=state, tables=system.tables, about_system=about_system)

    def _frame(self, asked: Asked, notes: list[str] | None = None) -> tuple[DataFrame, list[SqlType]]:
        return query_frame(
            self._engine, asked.state, asked.bound, use_indexes=self._use_indexes, notes=notes, given=asked.tables,
            may_be_cancelled=True, printed=notes is None,
        )  # fmt: skip

    def _context(self, state: Manifest, *, running: bool) -> Context:
        """What queries that speak of the system are answered from."""
        settings = {name: self.shown(name) for name in PARAMETERS}
        return Context(
            state=state, user=self.user, process=self.process, settings=settings, jobs=self._engine.jobs.list,
            owns=self._temporary.owns,
            assign=self._assign if running else None,
        )  # fmt: skip

    def _assign(self, name: str, value: str) -> None:
        self._set(ast.SetParameter(sql=f"SET {name}", name=name, value=value))

    @property
    def _use_indexes(self) -> bool:
        return self.variables.value("enable_index_selection")

    @run.register
    def _explain(self, statement: ast.Explain) -> Result:
        if statement.analyze:
            raise Unsupported("EXPLAIN ANALYZE is not supported yet", hint="EXPLAIN shows the plan")
        inner, state = dataclasses.replace(statement.statement, zone=statement.zone), self._engine.committed
        if isinstance(inner, (ast.CreateMaterializedView, ast.CreateIndex)):
            with spark_errors("EXPLAIN"):
                text = self._definitions.explain(inner, state, self.variables.all())
        elif isinstance(inner, ast.Select):
            notes: list[str] = []
            asked = self._asked(inner)
            frame, _ = self._frame(asked, notes)
            notes = notes if (small := asked.small(self._engine, self.variables)) is None else [small.describe()]
            with spark_errors("EXPLAIN"):
                mode = frame.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
                text = "\n".join([*notes, frame._jdf.queryExecution().explainString(mode)])
        else:
            raise Unsupported(
                f"EXPLAIN of {type(inner).__name__} is not supported",
                hint="EXPLAIN a query, CREATE MATERIALIZED VIEW or CREATE INDEX",
            )
        return self._rows("EXPLAIN", [("QUERY PLAN", TEXT)], [(line,) for line in text.rstrip().splitlines()])

    # --- writes ------------------------------------------------------------------------------------------------

    @run.register
    def _insert(self, statement: ast.Insert) -> Result:
        relation = inserts.writable_table(self._engine.committed, statement.table, "insert into")
        returning = self._returning(statement, relation)
        if statement.rows is not None:
            change = inserts.insert_values(self._engine, relation, statement)
        else:
            change = inserts.insert_query(self._engine, relation, statement, use_indexes=self._use_indexes)
        return self._write("INSERT 0", relation, change, returning)

    def plain_insert(self, statement: ast.Insert, *, constants_only: bool = False) -> tuple[Relation, pa.Table] | None:
        """The rows of an INSERT that may be written together with those of others; None if it must run alone.

        With ``constants_only`` also if its values have to be evaluated.
        """
        if statement.rows is None or statement.returning:
            return None
        self.refuse_if_impossible(statement)
        statement = self.meant(statement)
        relation = inserts.writable_table(self._engine.committed, statement.table, "insert into")
        if relation.on_conflict == "ignore":
            return None  # how many rows it takes is known only when it has run
        if constants_only:
            change = inserts.insert_constants(relation, statement)
        else:
            change = inserts.insert_values(self._engine, relation, statement)
        return None if change is None else (relation, change.rows)

    def write_rows(self, relation: Relation, rows: pa.Table) -> None:
        self._waiting.answer(Write(table_id=relation.id, change=InsertRows(rows=rows)))
        self.wrote()

    @run.register
    def _update(self, statement: ast.Update) -> Result:
        relation = inserts.writable_table(self._engine.committed, statement.table, "update")
        returning = self._returning(statement, relation)
        change = inserts.update(self._engine, relation, statement, use_indexes=self._use_indexes)
        return self._write("UPDATE", relation, change, returning)

    @run.register
    def _delete(self, statement: ast.Delete) -> Result:
        relation = inserts.writable_table(self._engine.committed, statement.table, "delete from")
        returning = self._returning(statement, relation)
        change = inserts.delete(self._engine, relation, statement, use_indexes=self._use_indexes)
        return self._write("DELETE", relation, change, returning)

    @run.register
    def _truncate(self, statement: ast.Truncate) -> Result:
        self._delete(statement)
        return Result("TRUNCATE TABLE")

    def _returning(self, statement: ast.Insert | ast.Update | ast.Delete, relation: Relation) -> list[tuple[str, Any]]:
        """Bound before anything is written: a mistake in it must not come after the fact."""
        return bind_returning(
            statement.returning,
            relation.columns,
            relation.label,
            alias=getattr(statement, "alias", None),
            functions=self._engine.functions,
            zone=statement.zone,
        )

    def _write(self, tag: str, relation: Relation, change: Change, returning: list[tuple[str, Any]]) -> Result:
        def returned(outcome: Outcome) -> pa.Table | KeptRows:
            with spark_errors("RETURNING"):
                frame = self._engine.written_rows(relation, outcome).selectExpr(*expressions)
                return self._engine.streams.computed(frame) if outcome.rows is None else frame.toArrow()

        expressions = [
            f"{to_spark(expression.unalias(), qualified=False)} AS {quote_spark(name)}"
            for name, expression in returning
        ]
        write = Write(table_id=relation.id, change=change, returned=returned if returning else None)
        write.cancellable = not isinstance(change, InsertRows)
        outcome = self._waiting.answer(write, notice=IN_ONE_EPOCH if isinstance(change, InsertFrame) else None)
        columns = [name for name, _ in returning]
        types = [type_of(expression.unalias()) or TEXT for _, expression in returning]
        return Result(
            f"{tag} {outcome.count}", columns=columns, types=types, table=outcome.returned, spark=self._engine.spark
        )

    @run.register
    def _flush(self, statement: ast.Flush) -> Result:
        self._waiting.answer(Mutation(apply=lambda state, epoch: (state, epoch), describe="FLUSH"))
        return Result("FLUSH")

    @run.register
    def _refresh(self, statement: ast.Refresh) -> Result:
        view = self._engine.committed.catalog.get(statement.name, MATERIALIZED_VIEW)
        result = Result("REFRESH_MATERIALIZED_VIEW")
        result.notice = f'there is nothing to refresh: "{view.name}" is always up to date'
        return result

    @run.register
    def _vacuum(self, statement: ast.Vacuum) -> Result:
        self._engine.maintenance.vacuum()
        return Result("VACUUM")

    @run.register
    def _compact(self, statement: ast.Compact) -> Result:
        catalog = self._engine.committed.catalog
        relations = [catalog.get(statement.name)] if statement.name else [each for each in catalog if each.stored]
        for relation in relations:
            self._engine.maintenance.compact(relation.id)
        return Result("COMPACT")

    # --- definitions -------------------------------------------------------------------------------------------

    def _mutate(self, apply: Mutate, tag: str, what: str, *, notice: str | None = None) -> Result:
        mutation = Mutation(apply=apply, describe=what, cancellable=notice is not None)
        answer = self._waiting.answer(mutation, notice=notice)
        if isinstance(answer, Outcome):
            return Result(f"SELECT {answer.count}")
        result = Result(tag)
        result.notice = answer if isinstance(answer, str) else None
        return result

    @run.register
    def _create_table(self, statement: ast.CreateTable) -> Result:
        return self._mutate(self._definitions.create_table(statement), "CREATE_TABLE", statement.name)

    @run.register
    def _create_table_as(self, statement: ast.CreateTableAs) -> Result:
        apply = self._definitions.create_table_as(statement)
        return self._mutate(apply, "CREATE_TABLE", statement.name, notice=IN_ONE_EPOCH)

    @run.register
    def _create_table_from(self, statement: ast.CreateTableFrom) -> Result:
        result = Result("CREATE_TABLE")
        result.notice = self._engine.sources.create_table(statement)
        return result

    @run.register
    def _create_table_of_events(self, statement: ast.CreateTableOfEvents) -> Result:
        result = Result("CREATE_TABLE")
        result.notice = self._engine.event_sources.create_table(statement)
        return result

    @run.register
    def _create_source(self, statement: ast.CreateSource) -> Result:
        result = Result("CREATE_SOURCE")
        result.notice = self._engine.sources.create_source(statement)
        return result

    @run.register
    def _create_secret(self, statement: ast.CreateSecret) -> Result:
        return self._mutate(self._engine.secrets.create(statement), "CREATE_SECRET", statement.name)

    @run.register
    def _drop_secret(self, statement: ast.DropSecret) -> Result:
        names = ", ".join(statement.names)
        gone, notice = self._engine.coordinator.mutate(self._engine.secrets.drop(statement), names)
        self._engine.secrets.forget(gone)
        result = Result("DROP_SECRET")
        result.notice = notice
        return result

    @run.register
    def _create_view(self, statement: ast.CreateView) -> Result:
        return self._mutate(self._definitions.create_view(statement), "CREATE_VIEW", statement.name)

    @run.register
    def _create_materialized_view(self, statement: ast.CreateMaterializedView) -> Result:
        apply = self._definitions.create_materialized_view(statement, self.variables.all())
        return self._fill(apply, "CREATE_MATERIALIZED_VIEW", statement.name)

    @run.register
    def _create_index(self, statement: ast.CreateIndex) -> Result:
        apply = self._definitions.create_index(statement, self.variables.all())
        return self._fill(apply, "CREATE_INDEX", statement.name)

    def _fill(self, apply: Mutate, tag: str, what: str) -> Result:
        def take_back(answer: Any) -> None:
            if isinstance(answer, Relation):
                self._engine.jobs.cancel((answer.id,))

        answer = self._waiting.answer(Mutation(apply=apply, describe=what), too_late=take_back)
        result = Result(tag)
        if isinstance(answer, Relation):
            if self.variables.value("background_ddl"):
                result.notice = f"it is filled in the background, as job {answer.id}: see SHOW JOBS"
            else:
                told = (
                    f'"{answer.name}" is being filled, as job {answer.id}: SHOW JOBS in another session shows how far'
                )
                self._engine.jobs.wait_or_remove(answer, patience=lambda each: self._waiting.patiently(each, told))
        elif isinstance(answer, str):
            result.notice = answer
        return result

    # --- jobs --------------------------------------------------------------------------------------------------

    @run.register
    def _wait(self, statement: ast.Wait) -> Result:
        self._engine.jobs.wait(statement.name, patience=self._waiting.patiently)
        return Result("WAIT")

    @run.register
    def _cancel(self, statement: ast.CancelJobs) -> Result:
        cancelled = self._engine.jobs.cancel(statement.ids)
        return self._rows("CANCEL_JOBS", [("Id", BIGINT)], [(id,) for id in cancelled])

    @run.register
    def _pause_or_resume(self, statement: ast.Pause | ast.Resume) -> Result:
        return self._set_paused(statement.job_id, isinstance(statement, ast.Pause))

    def _set_paused(self, job_id: int | None, paused: bool) -> Result:
        tag = "PAUSE" if paused else "RESUME"
        if job_id is not None:
            self._engine.jobs.pause(job_id, paused=paused)
            return Result(tag)
        setting = ast.SetParameter(sql=tag, name="paused", value=str(paused).lower(), system=True)
        return self._mutate(self._definitions.set_system(setting), tag, "paused")

    @run.register
    def _resnapshot(self, statement: ast.Resnapshot) -> Result:
        result = Result("RESNAPSHOT_TABLE")
        result.notice = self._engine.sources.resnapshot(statement.name)
        return result

    @run.register
    def _set_parallelism(self, statement: ast.SetParallelism) -> Result:
        self._engine.jobs.set_parallelism(statement)
        return Result(f"ALTER_{statement.kind.upper().replace(' ', '_')}")

    @run.register
    def _set_rate_limit(self, statement: ast.SetBackfillRateLimit) -> Result:
        result = Result(f"ALTER_{statement.kind.upper().replace(' ', '_')}")
        result.notice = self._engine.jobs.set_rate_limit(statement)
        return result

    @run.register
    def _check(self, statement: ast.Check) -> Result:
        relation = self._engine.committed.catalog.get(statement.name, statement.kind)
        columns, rows = check(self._engine, relation)
        return self._rows("CHECK", columns, rows)

    @run.register
    def _drop(self, statement: ast.Drop) -> Result:
        tag = f"DROP_{statement.kind.upper().replace(' ', '_')}"
        before = self._engine.committed
        notices = self._engine.sources.before_drop(statement)
        result = self._dropped(statement, tag)
        self._engine.sources.dropped(before)
        result.notice = "; ".join([*notices, *([result.notice] if result.notice else [])]) or None
        return result

    def _dropped(self, statement: ast.Drop, tag: str) -> Result:
        apply, what = self._definitions.drop(statement), ", ".join(statement.names)
        named = (self._engine.committed.catalog.find(name) for name in statement.names)
        if statement.kind != SOURCE and not any(each is not None and each.follows for each in named):
            return self._mutate(apply, tag, what)
        result = Result(tag)  # a server has been told of it, or will be: there is no way back, whoever waits
        result.notice = self._engine.coordinator.mutate(apply, what)
        return result

    @run.register
    def _rename(self, statement: ast.Rename) -> Result:
        tag = f"ALTER_{statement.kind.upper().replace(' ', '_')}"
        return self._mutate(self._definitions.rename(statement), tag, statement.name)

    @run.register
    def _comment(self, statement: ast.Comment) -> Result:
        return self._mutate(self._definitions.comment(statement), "COMMENT", statement.name)

    # --- parameters --------------------------------------------------------------------------------------------

    @run.register
    def _set(self, statement: ast.SetParameter) -> Result:
        if statement.system:
            return self._mutate(self._definitions.set_system(statement), "ALTER_SYSTEM", statement.name)
        parameter = find_parameter(statement.name)
        if parameter.system:
            raise InvalidParameterValue(
                f'"{parameter.name}" belongs to the warehouse', hint=f"use ALTER SYSTEM SET {parameter.name} = …"
            )
        result = Result("SET_VARIABLE")
        if parameter.name == "transaction_read_only":  # ends with the transaction
            self._transaction.set_read_only(None if statement.value is None else parameter.parse(statement.value))
        elif statement.local and self.status == IDLE:
            result.notice = warning("SET LOCAL can only be used in transaction blocks", "25P01")
        else:
            self.variables.set(parameter.name, statement.value, local=statement.local)
        return result

    def start_with(self, name: str, value: str) -> None:
        """What the client asks for as it connects, and RESET returns to."""
        parameter = find_parameter(name)
        if parameter.system or parameter.name == "transaction_read_only":
            self._set(ast.SetParameter(sql=f"SET {name}", name=name, value=value))
        else:
            self.variables.start_with(parameter.name, value)

    @run.register
    def _reset_all(self, statement: ast.ResetAll) -> Result:
        self.variables.reset()
        return Result("RESET")

    # --- transactions ------------------------------------------------------------------------------------------

    @run.register
    def _of_transaction(self, statement: OF_TRANSACTION) -> Result:
        if isinstance(statement, ast.SetTransaction) and statement.session:
            if statement.read_only is not None:
                self.variables.set("default_transaction_read_only", show_switch(statement.read_only))
            return Result("SET")
        result = self._transaction.run(statement)
        if self.status == IDLE:
            self.variables.end_transaction()
        return result

    @run.register
    def _accepted(self, statement: ast.Unlisten) -> Result:
        return Result("UNLISTEN")

    @property
    def status(self) -> str:
        """Of the transaction, as the protocol tells it."""
        return self._transaction.status

    @property
    def _read_only(self) -> bool:
        asked = self._transaction.read_only
        return self.variables.value("default_transaction_read_only") if asked is None else asked

    def shown(self, name: str) -> str:
        """A parameter as SHOW prints it."""
        parameter = find_parameter(name)
        if parameter.name == "transaction_read_only":
            return parameter.show(self._read_only)
        value = self._engine.parameter(parameter.name) if parameter.system else self.variables.value(parameter.name)
        return parameter.show(value)

    def _rows(self, tag: str, columns: list[tuple[str, SqlType]], rows: list[tuple]) -> Result:
        return Result.of_rows(tag, columns, rows, self._engine.spark)
