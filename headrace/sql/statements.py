"""What a statement can be, once parsed. The engine switches on these types and on nothing else.

Queries stay sqlglot expressions; :mod:`headrace.sql.bind` resolves their names against a catalog, and
:mod:`headrace.sql.translate` turns them into Spark SQL.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from headrace.types import SqlType


@dataclass(frozen=True, kw_only=True)
class ColumnSpec:
    name: str
    type: SqlType
    nullable: bool = True
    default: str | None = None
    generated: str | None = None


@dataclass(frozen=True, kw_only=True)
class Statement:
    sql: str
    """The text as the user wrote it, without the closing semicolon."""
    begins: int = field(default=0, repr=False, compare=False)
    """Where it begins in what was sent."""
    zone: str | None = field(default=None, repr=False, compare=False)
    """The time zone of the session that sent it, as Spark spells it; None: UTC."""


@dataclass(frozen=True, kw_only=True)
class CreateTable(Statement):
    name: str
    columns: tuple[ColumnSpec, ...]
    pk: tuple[str, ...] = ()
    if_not_exists: bool = False
    append_only: bool = False
    on_conflict: str = "overwrite"
    options: tuple[tuple[str, str], ...] = ()
    temporary: bool = False
    watermark: Watermark | None = None


@dataclass(frozen=True, kw_only=True)
class CreateTableFrom(Statement):
    """CREATE TABLE t (*) FROM source TABLE 'schema.table'"""

    name: str
    source: str
    table: str
    columns: tuple[ColumnSpec, ...] | None = None
    """None: (*), all that the other table has"""
    pk: tuple[str, ...] = ()
    if_not_exists: bool = False
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Include:
    """INCLUDE offset AS o: something about an event, as a column"""

    what: str
    """partition, offset, timestamp, key, header, file"""
    name: str
    header: str | None = None
    """INCLUDE header 'name': the value of this one"""


@dataclass(frozen=True, kw_only=True)
class Watermark:
    """WATERMARK FOR at AS at - INTERVAL '5 seconds'"""

    column: str
    expression: str


@dataclass(frozen=True, kw_only=True)
class CreateSource(Statement):
    name: str
    options: tuple[tuple[str, str], ...] = ()
    secrets: tuple[tuple[str, str], ...] = ()
    """Options whose value is a secret, by its name"""
    if_not_exists: bool = False
    columns: tuple[ColumnSpec, ...] | None = None
    """None: none were given; another database's tables have their own"""
    include: tuple[Include, ...] = ()
    watermark: Watermark | None = None
    format: str | None = None
    """plain, as in FORMAT PLAIN ENCODE JSON"""
    encode: str | None = None
    encode_options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class CreateTableOfEvents(CreateSource):
    """CREATE TABLE t (…) WITH (connector = 'kafka', …) FORMAT UPSERT ENCODE JSON: events are changes of its rows"""

    pk: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CreateSecret(Statement):
    """Its text does not hold the value."""

    name: str
    value: str = field(repr=False)
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class DropSecret(Statement):
    names: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class CreateTableAs(Statement):
    """CREATE TABLE t AS SELECT …"""

    name: str
    query: exp.Expression
    column_names: tuple[str, ...] = ()
    if_not_exists: bool = False
    append_only: bool = False
    options: tuple[tuple[str, str], ...] = ()
    temporary: bool = False


@dataclass(frozen=True, kw_only=True)
class CreateMaterializedView(Statement):
    name: str
    query: exp.Expression
    column_names: tuple[str, ...] = ()
    if_not_exists: bool = False
    options: tuple[tuple[str, str], ...] = ()
    on_window_close: bool = False
    """EMIT ON WINDOW CLOSE"""


@dataclass(frozen=True, kw_only=True)
class CreateView(Statement):
    name: str
    query: exp.Expression
    column_names: tuple[str, ...] = ()
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True, kw_only=True)
class IndexKey:
    """A column that an index is sorted by. The parser has filled in the default: NULLs last in ASC, first in DESC."""

    name: str
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, kw_only=True)
class CreateIndex(Statement):
    name: str
    table: str
    """A table or a materialized view"""
    keys: tuple[IndexKey, ...]
    """No column twice: only its first mention sorts anything"""
    include: tuple[str, ...] | None = None
    """The other columns that it holds, without those of the key; None: all of the table"""
    distributed_by: tuple[str, ...] = ()
    """The first columns of the key, as many as given; empty: not said (RisingWave takes the first column)"""
    if_not_exists: bool = False
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Drop(Statement):
    kind: str
    """A kind of headrace.catalog: table, view, materialized view, index, source."""
    names: tuple[str, ...]
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, kw_only=True)
class Insert(Statement):
    table: str
    columns: tuple[str, ...] = ()
    """As written; empty means all visible columns in order (a shorter VALUES row fills the rest with defaults)."""
    rows: tuple[tuple[exp.Expression, ...], ...] | None = None
    """INSERT … VALUES: one tuple of expressions per row; exp.Var(this="DEFAULT") asks for the default."""
    query: exp.Expression | None = None
    """INSERT … SELECT"""
    returning: tuple[exp.Expression, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Update(Statement):
    table: str
    alias: str | None = None
    assignments: tuple[tuple[str, exp.Expression], ...]
    where: exp.Expression | None = None
    returning: tuple[exp.Expression, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Delete(Statement):
    table: str
    alias: str | None = None
    where: exp.Expression | None = None
    returning: tuple[exp.Expression, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Truncate(Delete):
    """TRUNCATE TABLE name: all rows"""


@dataclass(frozen=True, kw_only=True)
class Select(Statement):
    """Any query: SELECT, VALUES, WITH …, UNION …"""

    query: exp.Expression


@dataclass(frozen=True, kw_only=True)
class Flush(Statement):
    pass


@dataclass(frozen=True, kw_only=True)
class Refresh(Statement):
    """REFRESH MATERIALIZED VIEW name: it is up to date"""

    name: str


@dataclass(frozen=True, kw_only=True)
class Vacuum(Statement):
    pass


@dataclass(frozen=True, kw_only=True)
class Compact(Statement):
    """COMPACT [relation]: merge its runs now instead of in the background."""

    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Show(Statement):
    what: str
    """tables, sources, views, materialized views, indexes, secrets, parameters (also SHOW ALL)"""
    like: str | None = None


@dataclass(frozen=True, kw_only=True)
class ShowIndexes(Statement):
    """SHOW INDEXES FROM table: the indexes of one relation, with their columns."""

    table: str
    like: str | None = None


@dataclass(frozen=True, kw_only=True)
class ShowJobs(Statement):
    """SHOW JOBS: all of them; SHOW JOB id: one; SHOW JOB id POSITIONS: how far it is, vnode by vnode."""

    id: int | None = None
    positions: bool = False
    """Only with an id"""
    like: str | None = None
    """Of what is filled, its name"""


@dataclass(frozen=True, kw_only=True)
class ShowCreate(Statement):
    kind: str | None
    name: str


@dataclass(frozen=True, kw_only=True)
class ShowParameter(Statement):
    name: str


@dataclass(frozen=True, kw_only=True)
class SetParameter(Statement):
    name: str
    value: str | None
    """None: DEFAULT"""
    system: bool = False
    """ALTER SYSTEM SET: for the warehouse, durable; otherwise for the session"""
    local: bool = False
    """SET LOCAL: until the transaction ends"""


@dataclass(frozen=True, kw_only=True)
class Describe(Statement):
    name: str


@dataclass(frozen=True, kw_only=True)
class Explain(Statement):
    statement: Statement
    analyze: bool = False


@dataclass(frozen=True, kw_only=True)
class Rename(Statement):
    """ALTER <kind> name RENAME TO new_name"""

    kind: str
    name: str
    new_name: str


@dataclass(frozen=True, kw_only=True)
class Comment(Statement):
    kind: str
    """a relation kind, or column"""
    name: str
    column: str | None = None
    text: str | None = None


# --- jobs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Wait(Statement):
    """WAIT [relation]: until it has been filled, or until no job is left."""

    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class CancelJobs(Statement):
    ids: tuple[int, ...]
    """In the order written, none twice"""


@dataclass(frozen=True, kw_only=True)
class Pause(Statement):
    """PAUSE JOB id; without a job, the whole engine."""

    job_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class Resume(Statement):
    """RESUME JOB id; without a job, the whole engine."""

    job_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class Resnapshot(Statement):
    """RESNAPSHOT TABLE name: reads a table of a source anew, in place."""

    name: str


@dataclass(frozen=True, kw_only=True)
class SetParallelism(Statement):
    """ALTER <kind> name SET PARALLELISM = n"""

    kind: str
    """table, materialized view, index"""
    name: str
    parallelism: int | None
    """None: ADAPTIVE, also written DEFAULT or 0"""


@dataclass(frozen=True, kw_only=True)
class SetBackfillRateLimit(Statement):
    """ALTER <kind> name SET BACKFILL_RATE_LIMIT = n"""

    kind: str
    """table, materialized view, index, source"""
    name: str
    limit: int | None
    """Rows per second; 0 pauses; None: no limit, written DEFAULT or -1"""


@dataclass(frozen=True, kw_only=True)
class Check(Statement):
    """CHECK <kind> name: compare what is stored with what its definition gives."""

    kind: str
    """materialized view, index"""
    name: str


# --- what clients say about themselves ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Begin(Statement):
    """BEGIN, START TRANSACTION"""

    read_only: bool | None = None
    """None: as the session says"""


@dataclass(frozen=True, kw_only=True)
class Commit(Statement):
    """COMMIT, END"""

    chain: bool = False


@dataclass(frozen=True, kw_only=True)
class Rollback(Statement):
    """ROLLBACK, ABORT"""

    chain: bool = False


@dataclass(frozen=True, kw_only=True)
class Savepoint(Statement):
    """SAVEPOINT name, RELEASE SAVEPOINT name"""


@dataclass(frozen=True, kw_only=True)
class RollbackTo(Statement):
    """ROLLBACK TO SAVEPOINT name"""


@dataclass(frozen=True, kw_only=True)
class SetTransaction(Statement):
    """SET TRANSACTION …, SET SESSION CHARACTERISTICS AS TRANSACTION …"""

    read_only: bool | None = None
    session: bool = False


@dataclass(frozen=True, kw_only=True)
class ResetAll(Statement):
    pass


@dataclass(frozen=True, kw_only=True)
class DeclareCursor(Statement):
    name: str
    query: exp.Expression
    hold: bool = False


@dataclass(frozen=True, kw_only=True)
class FetchCursor(Statement):
    name: str
    count: int | None
    """None: all"""
    move: bool = False
    """MOVE: the rows are passed over"""


@dataclass(frozen=True, kw_only=True)
class CloseCursor(Statement):
    name: str | None
    """None: ALL"""


@dataclass(frozen=True, kw_only=True)
class Prepare(Statement):
    """PREPARE name (types) AS statement"""

    name: str
    types: tuple[SqlType, ...]
    text: str
    """The statement, with $1 and so on"""
    start: int
    """Where it begins in the text that was sent"""


@dataclass(frozen=True, kw_only=True)
class Execute(Statement):
    """EXECUTE name (values)"""

    name: str
    values: tuple[exp.Expression, ...]
    texts: tuple[str, ...]
    """The values as they were written"""


@dataclass(frozen=True, kw_only=True)
class Deallocate(Statement):
    name: str | None
    """A prepared statement; None: ALL"""


@dataclass(frozen=True, kw_only=True)
class Discard(Statement):
    """DISCARD ALL: variables, cursors and prepared statements"""


@dataclass(frozen=True, kw_only=True)
class Unlisten(Statement):
    """UNLISTEN: nothing is ever notified, so there is nothing to stop"""


@dataclass(frozen=True, kw_only=True)
class Copy(Statement):
    """COPY … FROM STDIN, COPY … TO STDOUT"""

    table: str | None
    columns: tuple[str, ...] = ()
    query: exp.Expression | None = None
    """COPY (query) TO STDOUT"""
    into: bool
    """FROM STDIN"""
    options: tuple[tuple[str, str], ...] = ()
