"""One engine per warehouse.

On a local disk the operating system holds the lock and lets go of it when the process dies, however it dies, so a
second engine is refused at once. On other storage nothing is held: whoever opens last commits a manifest, and the
one before finds its own next version taken and stops (it is *fenced*). ``takeover`` asks for the latter on a local
disk too; what the old engine then still holds is the lock on a file that is no longer there (:meth:`secure`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from typing import IO

from headrace.errors import StorageError, WarehouseInUse
from headrace.state.storage import TEMPORARY, LocalStorage, Storage, storage_error


class WarehouseLock:
    def __init__(self, storage: Storage, *, takeover: bool):
        self._file: IO[str] | None = None
        self._path: str | None = None
        if not isinstance(storage, LocalStorage):
            return
        folder = storage.root
        self._path = os.path.join(folder, "lock")
        try:
            os.makedirs(folder, exist_ok=True)
            file, held = self._try()
        except OSError as error:
            raise StorageError(
                f"the warehouse {folder} cannot be written: {error.strerror}",
                hint=storage_error(folder, error).hint or "check the path and its permissions",
            ) from error
        if held:
            self._keep(file)
            return
        with file:
            file.seek(0)
            holder = file.read().strip() or "unknown"
        if not takeover:
            raise WarehouseInUse(
                f"the warehouse {folder} is open in another engine (process {holder})",
                hint="close that one, read with headrace.read(), or take the warehouse over with takeover=True",
            )

    @property
    def held(self) -> bool:
        """Whether no other engine can have the warehouse open."""
        return self._file is not None

    def secure(self) -> None:
        """Called once the engine before is fenced: its lock gives way to a new one, so that others are refused.

        Not earlier: if we could not open the warehouse, it would go on without a lock.
        """
        if self._file is not None or self._path is None:
            return
        folder, name = os.path.split(self._path)
        temporary = os.path.join(folder, f".{name}.{uuid.uuid4().hex}{TEMPORARY}")
        try:
            file = open(temporary, "a+", encoding="utf-8")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.replace(temporary, self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise storage_error(self._path, error) from error
        self._keep(file)

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _try(self) -> tuple[IO[str], bool]:
        """The lock file, and whether it is ours now."""
        while True:
            file = open(self._path, "a+", encoding="utf-8")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return file, False
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), os.stat(self._path)):
                    return file, True
            file.close()  # another engine has put a new one in its place meanwhile

    def _keep(self, file: IO[str]) -> None:
        self._file = file
        # Who has it is a help to whoever is refused; the lock holds without, on a full disk say.
        with contextlib.suppress(OSError):
            os.ftruncate(file.fileno(), 0)
            os.write(file.fileno(), str(os.getpid()).encode())  # not into a buffer, which closing would try to write
