"""Data files through Hadoop's FileSystem: HDFS, object stores, and whatever else Spark's classpath knows.

Spark's Python workers cannot call the JVM of their executor, so a worker that needs Hadoop starts one of its own, in
its process (JPype), with Spark's jars, the executor's Hadoop settings and those of the session. It lives as long as
the worker, which Spark keeps for the next task: the second it takes to start is paid once per worker, and its memory
is bounded by WORKER_HEAP.
"""

from __future__ import annotations

import errno
import glob
import io
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import EnvironmentProblem

WORKER_HEAP = "256m"
"""Java's heap in a Python worker: file system clients and their buffers live there, rows do not."""

WRITE_BYTES = 4 << 20

FILE_SYSTEMS = 16
"""Clients of file systems that a worker keeps, with their connections"""

_starting = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class HadoopFiles:
    root: str
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """The session's Hadoop settings that are not Hadoop's defaults. Keys and passwords may be among them."""
    class_path: tuple[str, ...] = ()

    @contextmanager
    def open_input(self, path: str) -> Iterator[io.RawIOBase]:
        java = _java(self.class_path)
        where = self._path(java, path)
        with _python_errors(java, where):
            system = _file_system(where, self.settings)
            stream = system.open(where)
            size = system.getFileStatus(where).getLen()
        try:
            yield JavaInput(stream, size)
        finally:
            stream.close()

    @contextmanager
    def open_output(self, path: str) -> Iterator[io.RawIOBase]:
        java = _java(self.class_path)
        where = self._path(java, path)
        with _python_errors(java, where):
            stream = _file_system(where, self.settings).create(where, True)
        output = JavaOutput(stream)
        try:
            with io.BufferedWriter(output, WRITE_BYTES) as buffered:
                yield buffered
                buffered.flush()
                with _python_errors(java, where):
                    stream.hflush()
        finally:
            with _python_errors(java, where):
                stream.close()

    def open_scratch(self, path: str) -> AbstractContextManager[io.RawIOBase]:
        return self.open_output(path)

    def make_durable(self, path: str) -> None:
        """Nothing to do: what Hadoop has closed is as durable as the file system makes it."""

    def _path(self, java: Any, path: str) -> Any:
        return java.JClass("org.apache.hadoop.fs.Path")(f"{self.root}/{path}")


class JavaInput(io.RawIOBase):
    """A Hadoop input stream as a Python file: one from JPype or from py4j, which look the same from here."""

    def __init__(self, stream: Any, size: int):
        self._stream, self._size, self._at = stream, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def read(self, count: int | None = -1) -> bytes:
        left = max(0, self._size - self._at)
        count = left if count is None or count < 0 else min(count, left)
        if count == 0:
            return b""
        if self._stream.getPos() != self._at:
            self._stream.seek(self._at)
        data = bytes(self._stream.readNBytes(count))
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class JavaOutput(io.RawIOBase):
    def __init__(self, stream: Any):
        self._stream, self._at = stream, 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: Any) -> int:
        self._stream.write(bytes(data))
        self._at += len(data)
        return len(data)


def require_bridge() -> None:
    """Says what is missing when the warehouse is opened, rather than when the first task fails."""
    try:
        import jpype  # noqa: F401
    except ImportError as error:
        raise EnvironmentProblem(
            "a warehouse that is not on a local path needs the package jpype1",
            hint='install it here and for the executors\' Python: pip install "headrace[hadoop]"',
        ) from error


def _java(class_path: tuple[str, ...]) -> Any:
    require_bridge()
    import jpype

    with _starting:
        if not jpype.isJVMStarted():
            jpype.startJVM(
                f"-Xmx{WORKER_HEAP}",
                "-XX:+UseSerialGC",
                "-Dlog4j2.level=ERROR",
                classpath=[*_spark_jars(), *class_path],
                convertStrings=True,
            )
    return jpype


def _spark_jars() -> list[str]:
    from pyspark import SparkFiles
    from pyspark.find_spark_home import _find_spark_home

    folders = [os.path.join(_find_spark_home(), "jars")]
    try:
        folders.append(SparkFiles.getRootDirectory())  # what --jars and spark.jars.packages brought
    except (AttributeError, AssertionError):  # no Spark in this process
        pass
    jars = [jar for folder in folders for jar in sorted(glob.glob(f"{folder}/*.jar"))]
    settings = [os.environ[name] for name in ("HADOOP_CONF_DIR",) if os.environ.get(name)]
    return [*settings, *jars]


_file_systems: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}
"""Hadoop would keep one for each place, whatever the settings: who came second would read with the first one's keys."""


def _file_system(where: Any, settings: tuple[tuple[str, str], ...]) -> Any:
    import jpype

    place = where.toUri()
    known = (f"{place.getScheme()}://{place.getAuthority()}", settings)
    with _starting:
        if known not in _file_systems:
            while len(_file_systems) >= FILE_SYSTEMS:
                _file_systems.pop(next(iter(_file_systems))).close()
            conf = jpype.JClass("org.apache.hadoop.conf.Configuration")()
            for name, value in settings:
                conf.set(name, value)
            _file_systems[known] = jpype.JClass("org.apache.hadoop.fs.FileSystem").newInstance(place, conf)
        return _file_systems[known]


@contextmanager
def _python_errors(java: Any, where: Any) -> Iterator[None]:
    try:
        yield
    except java.JException as problem:
        kind = str(problem.getClass().getName())
        message = f"{where}: {str(problem.getMessage() or kind).splitlines()[0]}"
        if kind.endswith("FileNotFoundException"):
            raise FileNotFoundError(errno.ENOENT, message) from None
        raise OSError(errno.EIO, message) from None
