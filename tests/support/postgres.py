"""A PostgreSQL server of the tests' own: the demo's, with other settings, and more that can be done to it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from headrace.demo.cdc.server import PrivateServer, binaries

__all__ = ["PASSWORD", "Postgres", "binaries"]

PASSWORD = "s3cret'\\pass"
SETTINGS = {
    "fsync": "off", "max_replication_slots": "10", "max_wal_senders": "10", "shared_buffers": "32MB",
    "log_min_messages": "error", "synchronous_commit": "local", "autovacuum": "off",
}  # fmt: skip


class Postgres(PrivateServer):
    def __init__(self, **settings: str):
        folder = Path(tempfile.mkdtemp(prefix="headrace-pg-", dir="/tmp"))
        super().__init__(folder, password=PASSWORD, settings=SETTINGS | settings)

    def give(self, name: str, content: bytes) -> None:
        """Puts a file into the server's folder, that only the server may read."""
        path = self.folder / "data" / name
        path.write_bytes(content)
        path.chmod(0o600)
        self._hand_over(path)

    def set(self, **settings: str) -> None:
        """From the next start on."""
        self._settings |= settings

    def run(self, sql: str, database: str = "postgres") -> list[tuple]:
        connection = self.connect(database)
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()
