"""Opening a warehouse from Python.

db = headrace.connect("warehouse/")
db.sql("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR)")
db.sql("SELECT * FROM t").show()
db.close()
"""

from __future__ import annotations

import errno
import os
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.engine.arrivals import Arrivals
from headrace.engine.changes import SMALL_ROWS
from headrace.engine.engine import Engine, as_of
from headrace.engine.inserts import writable_table
from headrace.engine.lock import WarehouseLock
from headrace.engine.places import hadoop_storage
from headrace.engine.plans import refuse_unfinished_relation
from headrace.engine.relations import RelationFrames
from headrace.engine.spark import own_session, spark_errors, start_session, stop_session
from headrace.errors import CorruptWarehouse, StorageError, WrongObjectKind
from headrace.serving.jobs import JobHandle, find_job, running_jobs
from headrace.serving.result import Result
from headrace.serving.session import Session
from headrace.state.hadoop_files import require_bridge
from headrace.state.manifest import Manifest
from headrace.state.storage import LocalStorage, is_local, storage_error
from headrace.state.store import ManifestStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Database:
    def __init__(
        self,
        warehouse: str | os.PathLike,
        *,
        spark: SparkSession | None = None,
        master: str | None = None,
        takeover: bool = False,
        parameters: dict[str, str] | None = None,
        driver_memory: str | None = None,
    ):
        storage = _local_storage(os.fspath(warehouse))
        lock = None
        if storage is not None:
            # Said before Spark is started, which takes seconds.
            _check_writable(storage)
            lock = WarehouseLock(storage, takeover=takeover)
        self._owns_spark = spark is None
        self._spark = spark
        try:
            if self._owns_spark:
                self._spark = start_session(master=master, driver_memory=driver_memory)
            if storage is None:
                require_bridge()
                storage = hadoop_storage(self._spark, os.fspath(warehouse))
            lock = lock or WarehouseLock(storage, takeover=takeover)
            self.engine = Engine(self._spark, storage, lock=lock, parameters=parameters)
        except BaseException:
            if lock is not None:
                lock.release()
            self._stop_spark()
            raise
        self._session = Session(self.engine)

    def sql(self, text: str) -> Result:
        return self._session.sql(text)

    def session(self) -> Session:
        """A session with variables of its own."""
        return Session(self.engine)

    def insert(self, table: str, rows: pa.Table) -> int:
        """Adds Arrow rows to a table, without SQL; columns go by name, missing ones get their default."""
        relation = writable_table(self.engine.committed, table, "insert into")
        with Arrivals(self.engine, relation) as arrivals:
            for start in range(0, rows.num_rows, SMALL_ROWS):
                arrivals.add(rows.slice(start, SMALL_ROWS))
            return self.engine.write(relation.id, arrivals.change).count

    def jobs(self) -> list[JobHandle]:
        """The views and indexes that are being filled now."""
        return running_jobs(self.engine)

    def job(self, name_or_id: str | int) -> JobHandle:
        """The job of a view or an index, by its name or number; one that is filled already has the state "done"."""
        return find_job(self.engine, name_or_id)

    def status(self) -> dict[str, Any]:
        return self.engine.status()

    def close(self) -> None:
        try:
            self.engine.close()
        finally:
            self._stop_spark()

    def abandon(self) -> None:
        """Lets go of the warehouse as a crash would."""
        self.engine.abandon()
        self._stop_spark()

    def _stop_spark(self) -> None:
        # A session that the user brought is the user's to stop.
        if self._owns_spark and self._spark is not None:
            stop_session(self._spark)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def read(
    warehouse: str | os.PathLike, name: str, *, epoch: int | None = None, spark: SparkSession | None = None
) -> DataFrame:
    """A relation of a warehouse as of its last committed epoch, or of a retained one, for any Spark application.

    Takes no lock and needs no engine; it may be running, here or elsewhere. The frame reads files that stay for the
    warehouse's retention.
    """
    spark = spark or start_session()
    storage = _local_storage(os.fspath(warehouse)) or hadoop_storage(spark, os.fspath(warehouse))
    store = ManifestStore(storage)
    frames = RelationFrames(own_session(spark), storage.uri(""))
    for _ in range(READS):
        newest = store.load()
        if newest is None:
            raise StorageError(f"there is no warehouse at {os.fspath(warehouse)}", hint="check the path")
        manifest = newest if epoch is None else as_of(store, newest, epoch)
        try:
            with spark_errors(f'reading "{name}"'):
                return _relation_frame(frames, manifest, name)
        except CorruptWarehouse as error:
            problem = error
            if store.load() == newest:
                break  # nobody has vacuumed meanwhile: what is missing is missing
    raise problem


READS = 5
"""Attempts to find the files of an epoch while an engine vacuums the oldest ones."""


def _relation_frame(frames: RelationFrames, manifest: Manifest, name: str) -> DataFrame:
    relation = manifest.catalog.get(name)
    refuse_unfinished_relation(relation)
    if not relation.stored:
        raise WrongObjectKind(f'"{name}" is a {relation.kind}, which holds no rows of its own')
    frame = frames.frame(relation, manifest.runs.get(relation.id, ()))
    return frame.select(*(frame[f"`{column.name}`"] for column in relation.visible_columns))


def _local_storage(warehouse: str) -> LocalStorage | None:
    return LocalStorage(warehouse) if is_local(warehouse) else None


def _check_writable(storage: LocalStorage) -> None:
    folder = storage.root
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"the warehouse {folder} cannot be made: {error.strerror}",
            hint=storage_error(folder, error).hint or "check the path and its permissions",
        ) from error
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        raise storage_error(folder, OSError(errno.EROFS, os.strerror(errno.EROFS)))
    if not os.access(folder, os.W_OK):
        raise StorageError(f"the warehouse {folder} cannot be written", hint="check its permissions")
