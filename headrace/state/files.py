"""Opening a warehouse's files from Python, on the driver or inside a Spark task.

Local paths go straight to the operating system and are fsynced before they are named in a manifest; other schemes
go through Arrow's file systems.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from headrace.errors import CorruptWarehouse

RESTORE = "restore it from a backup; older epochs may be whole, see SET query_epoch"


def local_path(uri: str) -> str | None:
    """The path of a ``file:`` URI (as Hadoop writes it: nothing is percent-encoded) or plain path; else None."""
    if uri.startswith("file:"):
        rest = uri.removeprefix("file:")
        return rest.removeprefix("//") if rest.startswith("//") else rest
    return None if urlparse(uri).scheme else uri


@contextmanager
def open_output(uri: str) -> Iterator[Any]:
    """A binary file to write. It is complete and durable when the block ends without an error."""
    path = local_path(uri)
    if path is None:
        system, inner = _arrow_filesystem(uri)
        with system.open_output_stream(inner) as stream:
            yield stream
        return
    try:
        stream = open(path, "wb")
    except FileNotFoundError:
        folder = os.path.dirname(path)
        os.makedirs(folder, exist_ok=True)
        for above in (os.path.dirname(folder), os.path.dirname(os.path.dirname(folder))):
            sync_folder(above)  # a new folder is durable once the one above it says so
        stream = open(path, "wb")
    with stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
    sync_folder(os.path.dirname(path))  # the file's name is durable only then


def sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_input(uri: str) -> Any:
    path = local_path(uri)
    if path is not None:
        return pafs.LocalFileSystem().open_input_file(path)
    system, inner = _arrow_filesystem(uri)
    return system.open_input_file(inner)


@contextmanager
def open_parquet(uri: str) -> Iterator[pq.ParquetFile]:
    """A file of a run. What is wrong with it is said with its name."""
    try:
        with open_input(uri) as source:
            yield pq.ParquetFile(source)
    except (FileNotFoundError, pa.ArrowInvalid) as error:
        raise CorruptWarehouse(f"the data file {uri} cannot be read: {error}", hint=RESTORE) from error


def _arrow_filesystem(uri: str) -> tuple[pafs.FileSystem, str]:
    # Spark says s3a, the rest of the world s3.
    return pafs.FileSystem.from_uri("s3" + uri[3:] if uri.startswith("s3a:") else uri)
