"""The Spark session that Headrace works on, and what its errors mean to a user.

A session of its own (``newSession``) shares the application with the user's session, if there is one, but not its
settings: PostgreSQL's semantics need ANSI mode, UTC and case-sensitive names, and the user's session keeps its own.
"""

from __future__ import annotations

import atexit
import io
import logging
import os
import re
import shutil
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import SparkSession

from headrace.engine.java import require_java
from headrace.errors import (
    CorruptWarehouse,
    DataError,
    DiskFull,
    DuplicateColumn,
    EnvironmentProblem,
    EpochFailed,
    HeadraceError,
    NotNullViolation,
    SparkGone,
    SparkJobCancelled,
    TypeMismatch,
    UndefinedColumn,
    Unsupported,
)
from headrace.sql.session import SPARK_SETTINGS
from headrace.state.files import RESTORE
from headrace.state.native import ONE_SPLIT_PER_TASK
from headrace.state.prepared import in_one_process

SESSION_SETTINGS = SPARK_SETTINGS | {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Runs are listed by the manifest; asking storage for them in a Spark job of its own would cost more than reading.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    # Of what a Python task is given; a batch is one row at least.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 << 20),
    # Epochs are small and their shapes known: re-planning at run time costs more than it saves.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.legacy.parquet.nanosAsLong": "false",
    # Spark's parser remembers how it has read every query that was different from all before, about 5 KB each time it
    # learns something: here about 100 MB of it. Then it begins anew.
    "spark.sql.parser.manageParserCaches": "true",
    "spark.sql.parser.parserDfaCacheFlushThreshold": "20000",
}


MEMORY_SETTINGS = {
    # A table that is broadcast, an aggregate or a sort takes a page at least, and keeps it until the garbage is
    # collected. Spark would make it up to 64 MiB; most of ours hold a few rows. A row that is larger gets its own.
    "spark.buffer.pageSize": "2m",
    # What Spark's web pages would tell of queries that have ended; there are none.
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
}
"""For a Spark application that is ours alone"""

SPARE_SLOTS = 2
_THREAD = threading.local()


def start_session(*, master: str | None = None, driver_memory: str | None = None) -> SparkSession:
    """A new Spark application for an embedded engine."""
    require_java(driver_memory=driver_memory)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    log_settings = Path(__file__).with_name("log4j2.properties").as_uri()
    builder = (
        SparkSession.builder.appName("headrace")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.scheduler.mode", "FAIR")
        .config("spark.driver.memory", driver_memory or "2g")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={log_settings}")
        .config("spark.sql.warehouse.dir", "/nonexistent/headrace-uses-no-spark-warehouse")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        # Over TCP every Python stage waits 40 ms for an acknowledgement that the other side delays.
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config(map=MEMORY_SETTINGS)
    )
    if master is None and not os.environ.get("SPARK_MASTER"):
        # A few slots more than processors: a short task of an epoch starts at once while chunks and merges fill the
        # others, and the operating system shares the processors out. Large work is cut for the processors there are.
        cores = len(os.sched_getaffinity(0))
        master = f"local[{cores + SPARE_SLOTS}]"
        builder = builder.config("spark.default.parallelism", str(cores))
    if master is not None:
        builder = builder.master(master)
    if master is not None and in_one_process(master):
        builder = builder.config("spark.python.daemon.module", "headrace.engine.daemon")
        builder = builder.config("spark.executorEnv.PYTHONPATH", str(Path(__file__).parents[2]))
    if master is None or not master.startswith("local"):
        # On a cluster the driver's address is Spark's to find.
        for setting in ("spark.driver.bindAddress", "spark.driver.host"):
            builder._options.pop(setting, None)
    with tempfile.TemporaryFile() as java_output:
        try:
            with _stderr_into(java_output.fileno()):
                return builder.getOrCreate()
        except Exception as error:
            java_output.seek(0)
            said = java_output.read().decode(errors="replace").strip().splitlines()
            causes = [line for line in said if re.search(r"(?:Exception|Error|error)\b.*: ", line)]
            reason = re.sub(r"^.*?(?:Exception|Error): ", "", causes[0]) if causes else _first_line(error)
            raise EnvironmentProblem(
                f"Spark did not start: {reason}", hint="check Java, memory and --master"
            ) from error


@contextmanager
def _stderr_into(descriptor: int) -> Iterator[None]:
    """What the JVM says on starting (it inherits our stderr) is for us to read, not for the user's terminal."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def own_session(spark: SparkSession) -> SparkSession:
    """A session with Headrace's settings on the user's application."""
    # Spark's Python side logs every error that it raises; we raise it too, to somebody who can act on it.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    ship_package(spark)
    return _session(spark, SESSION_SETTINGS)


def sorted_session(spark: SparkSession) -> SparkSession:
    """A session like :func:`own_session`'s whose scans keep the order of files, see :mod:`headrace.state.native`."""
    return _session(spark, SESSION_SETTINGS | ONE_SPLIT_PER_TASK)


def key_session(spark: SparkSession) -> SparkSession:
    """A session like :func:`own_session`'s for queries over a few rows that one task holds: nothing is shuffled or
    broadcast, so that a query can be planned once and run again (:mod:`headrace.engine.keyed`)."""
    session = _session(spark, SESSION_SETTINGS)
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    return session


def _session(spark: SparkSession, settings: dict[str, str]) -> SparkSession:
    session = spark.newSession()
    for name, value in settings.items():
        session.conf.set(name, value)
    parallelism = session.sparkContext.defaultParallelism
    session.conf.set("spark.sql.shuffle.partitions", str(max(2, parallelism)))
    return session


def use_pool(spark: SparkSession, name: str) -> None:
    """Puts this thread's jobs into a pool, so that epochs, queries and merges share the executors fairly."""
    context = spark.sparkContext
    if getattr(_THREAD, "pool", None) != (context, name):  # the JVM need not be told again
        context.setLocalProperty("spark.scheduler.pool", name)
        _THREAD.pool = (context, name)


def ship_package(spark: SparkSession) -> None:
    """Gives executors the code of our tasks, so that nothing of ours has to be installed there."""
    context = spark.sparkContext
    if getattr(context, "_headrace_shipped", False):
        return
    package = Path(__file__).parent.parent
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(package.rglob("*.py")):
            archive.write(path, path.relative_to(package.parent))
    folder = tempfile.mkdtemp(prefix="headrace-")
    file = Path(folder) / "headrace_tasks.zip"
    file.write_bytes(held.getvalue())
    context.addPyFile(str(file))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors may fetch it as long as we live
    context._headrace_shipped = True


@contextmanager
def spark_errors(doing: str) -> Iterator[None]:
    """Turns Spark's errors into Headrace's; ``doing`` completes "while …" where the reason is not the user's."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        raise translate_error(error, doing) from error


# PostgreSQL's words and SQLSTATEs for what Spark says in its own.
_DATA_MESSAGES = {
    "DIVIDE_BY_ZERO": ("division by zero", "22012"),
    "REMAINDER_BY_ZERO": ("division by zero", "22012"),
    "INTERVAL_DIVIDED_BY_ZERO": ("division by zero", "22012"),
    "ARITHMETIC_OVERFLOW": ("value out of range: overflow", "22003"),
    "BINARY_ARITHMETIC_OVERFLOW": ("value out of range: overflow", "22003"),
    "INTERVAL_ARITHMETIC_OVERFLOW": ("interval out of range", "22008"),
    "DATETIME_FIELD_OUT_OF_BOUNDS": ("date/time field value out of range", "22008"),
    "SCALAR_SUBQUERY_TOO_MANY_ROWS": ("more than one row returned by a subquery used as an expression", "21000"),
}

_RAISED = (
    ("null value in column", "23502"),
    ("cannot take square root", "2201F"),
    ("cannot take logarithm", "2201E"),
    ("input is out of range", "22003"),
    ("value out of range", "22003"),
    ("numeric field overflow", "22003"),
    ("numeric has no NaN", "22003"),
    ("invalid input syntax for type date", "22007"),
    ("invalid input syntax for type time", "22007"),
    ("date/time field value out of range", "22008"),
    ("time field value out of range", "22008"),
    ("invalid input syntax", "22P02"),
    ("invalid hexadecimal", "22023"),
    ("character number must be positive", "22023"),
    ("cannot get array length", "22023"),
    ("argument of jsonb_build_object", "22023"),
    ("field name must not be null", "22023"),
    ("null values cannot be formatted", "22004"),
    ("field position must not be zero", "22023"),
    ("negative substring length", "22011"),
    ("index out of valid range", "2202E"),
    ("invalid escape string", "22025"),
    ("LIKE pattern must not end", "22025"),
)
"""PostgreSQL's SQLSTATEs for what the translation itself raises: how it begins."""


def _raised(message: str) -> HeadraceError:
    code = next((code for start, code in _RAISED if message.startswith(start)), None)
    if code is None and re.search(r"is out of range for type [a-z ]+$", message):
        code = "22003"
    return NotNullViolation(message) if code == "23502" else DataError(message, sqlstate=code)


_DAMAGE = re.compile(r"FILE_NOT_EXIST|not a Parquet file|LZ4|[Cc]orrupt|Decoding|[Tt]hrift|[Mm]alformed")
"""What the causes of a failed read say if it is the file's fault and not the network's."""


def java_has_ended() -> bool:
    """Whether the Java process that Spark's driver runs in is no more: killed for its memory, say."""
    process = getattr(SparkContext._gateway, "proc", None)  # none if somebody else started it
    return process is not None and process.poll() is not None


def java_process_id() -> int | None:
    """None if somebody else started it, or it has ended."""
    process = getattr(SparkContext._gateway, "proc", None)
    return process.pid if process is not None and process.poll() is None else None


def java_heap(spark: SparkSession) -> tuple[int, int]:
    """Bytes of the driver's heap in use, and at most. Java is asked, and Spark has no part in it."""
    runtime = spark.sparkContext._jvm.java.lang.Runtime.getRuntime()
    return runtime.totalMemory() - runtime.freeMemory(), runtime.maxMemory()


def spark_gone() -> SparkGone:
    return SparkGone(
        "Spark's Java process has ended",
        hint="open the warehouse again: what was acknowledged is there; if its memory ran out, raise driver_memory",
    )


def stop_session(spark: SparkSession) -> None:
    try:
        spark.stop()
    except Exception:
        if not java_has_ended():
            raise
        # PySpark would go on calling it, in the next session too.
        if (server := spark.sparkContext._accumulatorServer) is not None:
            server.shutdown()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None


def translate_error(error: Exception, doing: str) -> HeadraceError:
    if java_has_ended():
        return spark_gone()
    # Whoever found the disk full, a task of ours or of Spark's: it is the last of a chain of causes.
    if "No space left on device" in f"{error}{getattr(error, '_stackTrace', '')}":
        return DiskFull("the disk is full: an epoch could not be written", hint="free some space; nothing was lost")
    if isinstance(error, OSError) and not isinstance(error, ConnectionError):  # what the driver did itself
        return EnvironmentProblem(f"the warehouse cannot be written: {error}")
    condition, state, message = _spark_condition(error)
    if condition is None or _is_python_worker(error):
        if (known := _python_worker_error(error)) is not None:
            return known
        if "Illegal sequence boundaries" in str(error):
            return DataError("step size cannot equal zero", sqlstate="22023")
        if "java.lang.ArithmeticException" in str(error):  # Java's own checks, of intervals and times mostly
            return DataError("value out of range: overflow", sqlstate="22003")
        return EpochFailed(f"{doing} failed: {_first_line(error)}")
    top = condition.split(".")[0]
    if top == "SPARK_JOB_CANCELLED":
        return SparkJobCancelled(f"{doing} failed: {message}")
    if top.startswith("UNRESOLVED_COLUMN") or top == "UNRESOLVED_FIELD":
        return UndefinedColumn(message)
    if top in ("UNRESOLVED_ROUTINE", "UNSUPPORTED_FEATURE", "UNSUPPORTED_DATATYPE"):
        name = re.search(r"routine `?([^`\s]+(?:`\.`[^`]+)*)`?", message)
        if top == "UNRESOLVED_ROUTINE" and name is not None:
            return Unsupported(f"function {name[1].replace('`', '').split('.')[-1]}() does not exist")
        return Unsupported(message)
    if top in ("COLUMN_ALREADY_EXISTS", "AMBIGUOUS_REFERENCE"):
        return DuplicateColumn(message)
    if top == "USER_RAISED_EXCEPTION":  # what our own SQL checks with raise_error()
        return _raised(message)
    if top == "CAST_INVALID_INPUT" and (bad_input := _invalid_input(message)) is not None:
        return bad_input
    if top == "CAST_OVERFLOW" and (target := re.search(r'cast to "([A-Z_]+)', message)) is not None:
        kind = _TYPE_NAMES.get(target[1], "numeric" if target[1] == "DECIMAL" else target[1].lower())
        return DataError(f"{kind} out of range", sqlstate="22003")
    if top in _DATA_MESSAGES:
        text, code = _DATA_MESSAGES[top]
        return DataError(text, sqlstate=code)
    if top == "PATH_NOT_FOUND":
        return CorruptWarehouse(message.replace("Path does not exist:", "a data file is missing:"), hint=RESTORE)
    if top == "FAILED_READ_FILE" and _DAMAGE.search(f"{condition} {error} {getattr(error, '_stackTrace', '')}"):
        return CorruptWarehouse(f"{doing} failed: {message}", hint=RESTORE)
    if condition.endswith("HIGHER_ORDER_FUNCTION"):
        return Unsupported(
            "a subquery inside a function over the elements of an array is not supported",
            hint="put the subquery into FROM",
        )
    if state == "0A000":
        return Unsupported(message)
    if state is not None and (state.startswith("22") or state.startswith("21")):
        return DataError(message, sqlstate=state)
    if state is not None and state.startswith("42"):
        return TypeMismatch(message)
    return EpochFailed(f"{doing} failed: {message}")


_TYPE_NAMES = {
    "BOOLEAN": "boolean", "SMALLINT": "smallint", "INT": "integer", "BIGINT": "bigint", "FLOAT": "real",
    "DOUBLE": "double precision", "DATE": "date", "TIMESTAMP": "timestamp with time zone", "TIMESTAMP_NTZ": "timestamp",
}  # fmt: skip


def _invalid_input(message: str) -> DataError | None:
    match = re.search(r"The value '(.*)' of the type \"STRING\" cannot be cast to \"([^\"]+)\"", message, re.DOTALL)
    if match is None:
        return None
    kind = _TYPE_NAMES.get(match[2], "numeric" if match[2].startswith("DECIMAL") else match[2].lower())
    code = "22007" if kind == "date" or kind.startswith("timestamp") else "22P02"
    return DataError(f'invalid input syntax for type {kind}: "{match[1]}"', sqlstate=code)


def _spark_condition(error: Exception) -> tuple[str | None, str | None, str]:
    """Spark's error condition, SQLSTATE and message without the decoration."""
    text = str(error)
    known = isinstance(error, PySparkException)
    condition = error.getCondition() if known else None
    state = error.getSqlState() if known else None
    if condition is None and (match := re.search(r"\[([A-Z][A-Z_]+(?:\.[A-Z_]+)*)\] ", text)):
        condition = match[1]
    if state is None and (match := re.search(r"SQLSTATE: ([0-9A-Z]{5})", text)):
        state = match[1]
    if condition is None:
        return None, None, ""
    message = text.partition(f"[{condition}] ")[2] or text
    message = re.split(r"\s*SQLSTATE: |\n== SQL|;\n|\n\s*at |\nCaused by", message)[0].strip()
    # What Spark advises is Spark's syntax, which a user of Headrace does not write.
    message = re.split(r" (?:Use [`']|To return NULL|If necessary|Correct the value)", message)[0].strip()
    return condition, state, message or condition


def _is_python_worker(error: Exception) -> bool:
    return isinstance(error, PythonException)


def _python_worker_error(error: Exception) -> HeadraceError | None:
    """An error that our own code raised inside a task."""
    text = str(error)
    if match := re.search(r"headrace\.errors\.CorruptWarehouse: ([^\n]*)", text):
        return CorruptWarehouse(match[1], hint=RESTORE)
    if match := re.search(r"headrace\.[\w.]+\.(BadEvent|FileGone|SourceUnreachable|SourceRefused): ([^\n]*)", text):
        return (DataError if match[1] in ("BadEvent", "FileGone") else EnvironmentProblem)(match[2])
    if match := re.search(r"(?:PermissionError|OSError): (\[Errno \d+\][^\n]*)", text):
        return EnvironmentProblem(f"the warehouse cannot be written: {match[1]}")
    if match := re.search(r"ModuleNotFoundError: ([^\n]*)", text):
        return EnvironmentProblem(
            f"the Python of Spark's executors is not the one that Headrace is installed in: {match[1]}",
            hint=f"set PYSPARK_PYTHON, here to {sys.executable}, before the Spark session is started",
        )
    return None


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    causes = re.findall(
        r"^(?:Caused by: )?([\w.]*(?:Exception|Error|Invalid|Operation): .+)$", text, flags=re.MULTILINE
    )
    return (causes[-1] if causes else text.splitlines()[0])[:500]
