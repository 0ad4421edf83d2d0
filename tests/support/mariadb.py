"""A MariaDB server of the tests' own, on a free port, in a folder that goes away."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

PASSWORD = "s3cret'\\pass"
USER = "headrace"


def binaries() -> tuple[str, str] | None:
    """The server, and what makes its folder."""
    paths = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    server, install = shutil.which("mariadbd", path=paths), shutil.which("mariadb-install-db", path=paths)
    return (server, install) if server and install else None


class MariaDb:
    def __init__(self, **settings: str):
        found = binaries()
        assert found is not None
        self._server, install = found
        # The server refuses to run as root.
        self._user = {"user": "mysql", "group": "mysql"} if os.getuid() == 0 else {}
        self.folder = tempfile.mkdtemp(prefix="headrace-mdb-", dir="/tmp")
        if self._user:
            shutil.chown(self.folder, "mysql", "mysql")
        # Those of root's temporary files that it inherits would not be its own to write.
        self._environment = os.environ | {"TMPDIR": self.folder}
        subprocess.run(
            [
                install, "--no-defaults", f"--datadir={self.folder}/data", "--auth-root-authentication-method=normal",
                "--skip-test-db", "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0",
            ],
            check=True, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self._environment,
            **self._user,
        )  # fmt: skip
        self._settings = {
            "log-bin": "mysql-bin", "server-id": "1", "binlog-format": "ROW", "binlog-row-metadata": "FULL",
            "innodb-buffer-pool-size": "32M", "innodb-flush-log-at-trx-commit": "2", "performance-schema": "OFF",
            "bind-address": "127.0.0.1", "character-set-server": "utf8mb4", "sql-mode": "",
        } | settings  # fmt: skip
        self._process: subprocess.Popen | None = None
        for attempt in range(3):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
            try:
                self.start()
                break
            except AssertionError:  # somebody else may have taken the port in the meantime
                if attempt == 2:
                    raise
        quoted = PASSWORD.replace("\\", "\\\\").replace("'", "\\'")
        self.run(f"CREATE USER {USER}@'%' IDENTIFIED BY '{quoted}'")
        self.run(f"GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {USER}@'%'")
        self.run(f"GRANT SELECT ON shop.* TO {USER}@'%'")
        self.run("CREATE DATABASE shop")

    def start(self, **settings: str) -> None:
        options = [f"--{name}={value}" for name, value in (self._settings | settings).items()]
        log = Path(self.folder, "log")
        with log.open("ab") as written:
            self._process = subprocess.Popen(
                [
                    self._server, "--no-defaults", f"--datadir={self.folder}/data", f"--port={self.port}",
                    f"--socket={self.folder}/socket", f"--pid-file={self.folder}/pid", "--skip-name-resolve", *options,
                ],
                cwd=self.folder, stdout=written, stderr=written, env=self._environment, **self._user,
            )  # fmt: skip
        deadline = time.monotonic() + 180
        while True:
            try:
                self.connect(None).close()
                return
            except Exception:
                alive = time.monotonic() < deadline and self._process.poll() is None
                assert alive, f"MariaDB did not start: {log.read_text(errors='replace')}"
                time.sleep(0.05)

    def give(self, name: str, data: bytes) -> str:
        """A file in its folder; answers where it is."""
        path = Path(self.folder, name)
        path.write_bytes(data)
        path.chmod(0o600)
        if self._user:
            shutil.chown(path, "mysql", "mysql")
        return str(path)

    def stop(self, *, immediate: bool = False) -> None:
        if self._process is not None:
            self._process.kill() if immediate else self._process.terminate()
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        self.stop(immediate=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self, database: str | None = "shop") -> Any:
        """As root."""
        import pymysql

        return pymysql.connect(
            unix_socket=f"{self.folder}/socket", user="root", database=database, charset="utf8mb4", autocommit=True
        )

    def run(self, *statements: str) -> list[tuple]:
        """One after the other, on a connection of their own; the rows of the last."""
        connection = self.connect("shop" if statements[-1] != "CREATE DATABASE shop" and self._has_shop() else None)
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return list(cursor.fetchall()) if cursor.description else []
        finally:
            connection.close()

    def _has_shop(self) -> bool:
        return Path(self.folder, "data", "shop").is_dir()
