"""A PostgreSQL server of the tests' own, on a free port, in a folder that goes away."""

from __future__ import annotations

import getpass
import glob
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

PASSWORD = "s3cret'\\pass"


def binaries() -> Path | None:
    """The newest that is installed."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    return Path(found[-1]).parent if found else None


class Postgres:
    def __init__(self, **settings: str):
        self._bin = binaries()
        # The server refuses to run as root.
        self._user = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
        self.folder = tempfile.mkdtemp(prefix="headrace-pg-", dir="/tmp")
        if self._user:
            shutil.chown(self.folder, "postgres", "postgres")
        self.owner = "postgres" if self._user else getpass.getuser()
        password = os.path.join(self.folder, "password")
        Path(password).write_text(PASSWORD)
        if self._user:
            shutil.chown(password, "postgres", "postgres")
        self._call(
            "initdb", "-D", f"{self.folder}/data", "-U", self.owner, "--pwfile", password, "-A", "scram-sha-256",
            "--no-sync", "-E", "UTF8", "--locale", "C.UTF-8",
        )  # fmt: skip
        self._settings = {
            "listen_addresses": "127.0.0.1", "unix_socket_directories": self.folder,
            "wal_level": "logical", "fsync": "off", "max_replication_slots": "10", "max_wal_senders": "10",
            "shared_buffers": "32MB", "log_min_messages": "error",
            "synchronous_commit": "local", "autovacuum": "off",
        } | settings  # fmt: skip
        self._process: subprocess.Popen | None = None
        for attempt in range(3):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
            try:
                self.start()
                return
            except AssertionError:  # somebody else may have taken the port in the meantime
                if attempt == 2:
                    raise

    def _call(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._bin / program, *arguments], check=True, cwd=self.folder, stdout=subprocess.DEVNULL, **self._user
        )

    def give(self, name: str, content: bytes) -> None:
        """Puts a file into the server's folder, that only the server may read."""
        path = Path(self.folder, "data", name)
        path.write_bytes(content)
        path.chmod(0o600)
        if self._user:
            shutil.chown(path, "postgres", "postgres")

    def set(self, **settings: str) -> None:
        """From the next start on."""
        self._settings |= settings

    def start(self) -> None:
        options = [f"--{name}={value}" for name, value in {"port": self.port, **self._settings}.items()]
        log = Path(self.folder, "log")
        with log.open("ab") as written:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", f"{self.folder}/data", *options],
                cwd=self.folder, stderr=written, **self._user,
            )  # fmt: skip
        deadline = time.monotonic() + 180
        while True:
            try:
                self.connect().close()
                return
            except Exception:
                alive = time.monotonic() < deadline and self._process.poll() is None
                assert alive, f"PostgreSQL did not start: {log.read_text()}"
                time.sleep(0.05)

    def stop(self, *, immediate: bool = False) -> None:
        if self._process is not None:
            self._call("pg_ctl", "-D", f"{self.folder}/data", "stop", "-w", "-m", "immediate" if immediate else "fast")
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        self.stop(immediate=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self, database: str = "postgres", **how: Any) -> Any:
        import psycopg2

        connection = psycopg2.connect(
            host="127.0.0.1",
            port=self.port,
            user=self.owner,
            password=PASSWORD,
            dbname=database,
            connect_timeout=10,
            **how,
        )
        if not how:  # a connection of replication has no transactions
            connection.autocommit = True
        return connection

    def run(self, sql: str, database: str = "postgres") -> list[tuple]:
        connection = self.connect(database)
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()
