"""Storage through Hadoop's file systems: HDFS and whatever else Spark's classpath knows.

Everything goes through the JVM that Spark has started (``jvm`` is py4j's view of it, ``hadoop_conf`` the session's
configuration), with its credentials and mounts. Tasks, which cannot reach that JVM, open data files through
:mod:`headrace.state.hadoop_files`.

``write_new`` must let one of several rivals win. How depends on where the file lies:

* An object store that says that it can create an object only if there is none (S3A does) is asked to.
* Hadoop's local files, also those that a ``viewfs:`` mount leads to, are linked: the operating system makes one link of
  a name. Their rename will not do. It looks whether there is such a file, and then replaces what has come since.
* All else is renamed with ``FileContext.rename``, which unlike ``FileSystem.rename`` refuses to replace a file. Whether
  of two renames only one can win is the file system's promise: HDFS gives it.
"""

from __future__ import annotations

import contextlib
import uuid
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from typing import Any

from headrace.errors import DiskFull, StorageError
from headrace.state.hadoop_files import HadoopFiles, JavaInput
from headrace.state.storage import TEMPORARY, Entry

CREATE_ONCE = "fs.option.create.conditional.overwrite"
"""Hadoop's name for creating an object only if it is not there; also for the capability to do so."""


class HadoopStorage:
    def __init__(
        self, root_uri: str, jvm: Any, hadoop_conf: Any, class_path: tuple[str, ...] = (), *, own: bool = False
    ):
        """``own``: with a client of its own. Others share Hadoop's, which has the settings of who came first."""
        self.root = root_uri.rstrip("/")
        self._jvm = jvm
        self._conf = hadoop_conf
        self._own = own
        with _translated(root_uri):
            where = self._path("")
            if own:
                self._files = jvm.org.apache.hadoop.fs.FileSystem.newInstance(where.toUri(), hadoop_conf)
            else:
                self._files = where.getFileSystem(hadoop_conf)
            self._creates_once = self._files.hasPathCapability(self._path(""), CREATE_ONCE)
        self._statuses = _Statuses(jvm, hadoop_conf)
        self.files = HadoopFiles(root=self.root, settings=_settings(jvm, hadoop_conf), class_path=class_path)

    def read(self, path: str) -> bytes:
        with _translated(self.uri(path)):
            stream = self._files.open(self._path(path))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def write(self, path: str, data: bytes) -> None:
        self._put(path, data, overwrite=True)

    def write_new(self, path: str, data: bytes) -> bool:
        return self._put(path, data, overwrite=False)

    def list(self, directory: str) -> list[Entry]:
        return sorted(self._entries(directory, recursive=False))

    def walk(self, directory: str) -> Iterator[Entry]:
        yield from self._entries(directory, recursive=True)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with _translated(self.uri(path)):
                self._files.delete(self._path(path), True)

    def exists(self, path: str) -> bool:
        with _translated(self.uri(path)):
            return self._exists(path)

    def _exists(self, path: str) -> bool:
        return self._files.exists(self._path(path))

    def make_dirs(self, directory: str) -> None:
        with _translated(self.uri(directory)):
            self._files.mkdirs(self._path(directory))

    @contextlib.contextmanager
    def open_input(self, path: str) -> Iterator[JavaInput]:
        with _translated(self.uri(path)):
            where = self._path(path)
            stream = self._files.open(where)
            try:
                yield JavaInput(stream, self._files.getFileStatus(where).getLen())
            finally:
                stream.close()

    def probe(self) -> None:
        # Not exists(): an object store has a root whoever asks.
        with contextlib.suppress(FileNotFoundError), _translated(self.root):
            self._files.listStatusIterator(self._path("")).hasNext()

    def close(self) -> None:
        if self._own:
            self._files.close()

    def uri(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.uri(path) or "/")

    def _put(self, path: str, data: bytes, *, overwrite: bool) -> bool:
        directory, slash, name = path.rpartition("/")
        temporary = f"{directory}{slash}.{name}.{uuid.uuid4().hex}{TEMPORARY}"
        with _translated(self.uri(path)):
            if not overwrite and self._exists(path):
                return False
            if self._creates_once:
                return self._create(path, data, overwrite=overwrite)
            try:
                stream = self._files.create(self._path(temporary), False)
                try:
                    stream.write(data)
                    stream.hsync()
                finally:
                    stream.close()
                local = None if overwrite else self._local(temporary)
                if local is not None:
                    return self._link(local, path)
                return self._rename(temporary, path, overwrite=overwrite)
            finally:
                with contextlib.suppress(Exception):
                    self._files.delete(self._path(temporary), False)

    def _create(self, path: str, data: bytes, *, overwrite: bool) -> bool:
        """On an object store, which shows an object when it is complete: the condition is judged on closing."""
        builder = self._files.createFile(self._path(path)).overwrite(overwrite)
        if not overwrite:
            builder = builder.must(CREATE_ONCE, "true")
        stream = builder.build()
        stream.write(data)
        try:
            stream.close()
        except Exception:
            if not overwrite and self._exists(path):
                return False
            raise
        return True

    def _local(self, path: str) -> Any:
        """Where a file lies on this machine's disk, or None if it does not, as a path of Java's."""
        where = self._files.resolvePath(self._path(path)).toUri()  # through the mounts of viewfs
        return self._jvm.java.io.File(where.getPath()).toPath() if where.getScheme() == "file" else None

    def _link(self, temporary: Any, path: str) -> bool:
        # In the folder of the temporary file, which is that of the path: the mounts are behind us.
        target = temporary.resolveSibling(path.rpartition("/")[2])
        try:
            self._jvm.java.nio.file.Files.createLink(target, temporary)
        except Exception as problem:
            if "FileAlreadyExistsException" in _java_class(problem):
                return False
            raise
        return True

    def _rename(self, source: str, target: str, *, overwrite: bool) -> bool:
        options = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        option = options.OVERWRITE if overwrite else options.NONE
        # A Java varargs parameter is an array, which py4j makes from the class of its elements.
        array = self._jvm.java.lang.reflect.Array.newInstance(option.getDeclaringClass(), 1)
        self._jvm.java.lang.reflect.Array.set(array, 0, option)
        source_path, target_path = self._path(source), self._path(target)
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(source_path.toUri(), self._conf)
        try:
            context.rename(source_path, target_path, array)
        except Exception as problem:
            if "FileAlreadyExistsException" in _java_class(problem):
                return False
            raise
        return True

    def _entries(self, directory: str, *, recursive: bool) -> Iterator[Entry]:
        # Folder by folder: one that is deleted meanwhile has no files, and must not end the listing of the others.
        pending = [directory]
        while pending:
            here = pending.pop()
            with _translated(self.uri(here)):
                try:
                    found = self._statuses.of(self._files.listStatusIterator(self._path(here)))
                except Exception as problem:
                    if "FileNotFoundException" in _java_class(problem):
                        continue
                    raise
                for folder, entry in found:
                    path = f"{here}/{entry.name}" if here else entry.name
                    if not folder:
                        yield entry._replace(name=path) if recursive else entry
                    elif recursive:
                        pending.append(path)


class _Statuses:
    """What Hadoop says of the files of a folder, in a dozen calls of Java, however many there are.

    To ask each file for its name, size and time is six calls for each: of 100,000 that took half a minute, each time.
    Here Java itself goes through a list, by functions that are made of the methods' handles, and prints it.
    """

    def __init__(self, jvm: Any, conf: Any):
        self._jvm = jvm
        status, path = (conf.getClassByName(f"org.apache.hadoop.fs.{name}") for name in ("FileStatus", "Path"))
        self._name = (self._function(conf, status, "getPath", path), self._function(conf, path, "getName", "String"))
        self._size = (self._function(conf, status, "getLen", "Long"),)
        self._time = (self._function(conf, status, "getModificationTime", "Long"),)
        self._folder = (self._function(conf, status, "isDirectory", "Boolean"),)

    def _function(self, conf: Any, of: Any, method: str, returns: Any) -> Any:
        java = self._jvm.java.lang
        if isinstance(returns, str):
            returns = conf.getClassByName("java.lang.String") if returns == "String" else getattr(java, returns).TYPE
        kind = java.invoke.MethodType.methodType(returns)
        handle = java.invoke.MethodHandles.publicLookup().findVirtual(of, method, kind)
        function = conf.getClassByName("java.util.function.UnaryOperator")
        return java.invoke.MethodHandleProxies.asInterfaceInstance(function, handle)

    def of(self, iterator: Any) -> Iterator[tuple[bool, Entry]]:
        """Of each, whether it is a folder, and what it is."""
        found = self._jvm.org.apache.hadoop.util.functional.RemoteIterators.toList(iterator)
        if found.isEmpty():
            return iter(())
        # No name has a slash in it.
        names = self._jvm.java.lang.String.join("/", self._mapped(found, self._name)).split("/")
        folders, sizes, times = (
            self._mapped(found, each).toString()[1:-1].split(", ") for each in (self._folder, self._size, self._time)
        )
        return (
            (folder == "true", Entry(name, int(size), int(time) / 1000))
            for name, folder, size, time in zip(names, folders, sizes, times, strict=True)
        )

    def _mapped(self, found: Any, functions: Iterable[Any]) -> Any:
        mapped = self._jvm.java.util.ArrayList(found)
        for each in functions:
            mapped.replaceAll(each)
        return mapped


def _settings(jvm: Any, conf: Any) -> tuple[tuple[str, str], ...]:
    """What differs from Hadoop's defaults, in one call: asking for thousands of settings one by one takes seconds."""
    text = jvm.java.io.StringWriter()
    conf.writeXml(text)
    found = []
    for entry in ElementTree.fromstring(text.toString()).iter("property"):
        sources = [source.text or "" for source in entry.iter("source")]
        if not all(source.endswith("-default.xml") for source in sources):
            name = entry.findtext("name") or ""
            value = conf.get(name)  # as it is meant, with variables replaced
            if value is not None:
                found.append((name, value))
    return tuple(sorted(found))


def _java_class(problem: Exception) -> str:
    thrown = getattr(problem, "java_exception", None)
    return "" if thrown is None else thrown.getClass().getName()


@contextlib.contextmanager
def _translated(path: str) -> Iterator[None]:
    """Java's errors in our words. Not by class: py4j need not be importable here."""
    try:
        yield
    except Exception as problem:
        kind = _java_class(problem)
        if not kind:
            raise
        if kind.endswith("FileNotFoundException"):
            raise FileNotFoundError(path) from problem
        message = (problem.java_exception.getMessage() or kind).splitlines()[0]
        error, hint = StorageError, None
        if "AccessControl" in kind or "AccessDenied" in kind:
            hint = "let the user that runs Headrace read and write the warehouse"
        elif "NoSpace" in kind or "QuotaExceeded" in kind or "No space left" in message:
            error = DiskFull
            hint = "free some space; what is committed is safe, and the engine goes on by itself"
        elif "UnsupportedFileSystem" in kind:
            hint = "add the file system's jars to spark.jars"
        raise error(f"cannot access {path}: {message}", hint=hint) from problem
