"""One engine per warehouse.

On a local disk the operating system holds the lock and lets go of it when the process dies, however it dies, so a
second engine is refused at once. On other storage nothing is held: whoever opens last commits a manifest, and the
one before finds its own next version taken and stops (it is *fenced*). ``takeover`` asks for the latter on a local
disk too.
"""

from __future__ import annotations

import fcntl
import os
from typing import IO

from headrace.errors import StorageError, WarehouseInUse
from headrace.state.storage import LocalStorage, Storage


class WarehouseLock:
    def __init__(self, storage: Storage, *, takeover: bool):
        self._file: IO[str] | None = None
        if not isinstance(storage, LocalStorage):
            return
        folder = storage.root
        path = os.path.join(folder, "lock")
        try:
            os.makedirs(folder, exist_ok=True)
            self._file = open(path, "a+", encoding="utf-8")
        except OSError as error:
            raise StorageError(
                f"the warehouse {folder} cannot be written: {error.strerror}",
                hint="check the path and its permissions",
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            holder = self._file.read().strip() or "unknown"
            self._file.close()
            self._file = None
            if takeover:
                return
            raise WarehouseInUse(
                f"the warehouse {folder} is open in another engine (process {holder})",
                hint="close that one, read with headrace.read(), or take the warehouse over with takeover=True",
            ) from None
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
