"""Servers of MariaDB and of MySQL of the tests' own, on free ports, in folders that go away."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

PASSWORD = "s3cret'\\pass"
USER = "headrace"


class MariaDb:
    name = "MariaDB"
    rights = "REPLICATION SLAVE, BINLOG MONITOR"
    reset = "RESET MASTER"
    settings = {
        "log-bin": "mysql-bin", "server-id": "1", "binlog-format": "ROW", "binlog-row-metadata": "FULL",
        "innodb-buffer-pool-size": "32M", "innodb-flush-log-at-trx-commit": "2", "performance-schema": "OFF",
        "bind-address": "127.0.0.1", "character-set-server": "utf8mb4", "sql-mode": "",
        "group-concat-max-len": "1000000",
    }  # fmt: skip

    @staticmethod
    def binaries() -> list[str] | None:
        """The server, and what makes its folder."""
        paths = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
        found = [shutil.which(name, path=paths) for name in ("mariadbd", "mariadb-install-db")]
        return found if all(found) else None

    def __init__(self, **settings: str):
        found = self.binaries()
        assert found is not None
        self._binaries = found
        # The server refuses to run as root.
        self._user = self._whom()
        self.folder = tempfile.mkdtemp(prefix="headrace-mdb-", dir="/tmp")
        if self._user:
            shutil.chown(self.folder, "mysql", "mysql")
        # Those of root's temporary files that it inherits would not be its own to write.
        self._environment = os.environ | {"TMPDIR": self.folder}
        self._run_once(*self._initializing())
        self._settings = self.settings | settings
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
        self.run(f"GRANT {self.rights} ON *.* TO {USER}@'%'")
        self.run(f"GRANT SELECT ON shop.* TO {USER}@'%'")
        self.run("CREATE DATABASE shop")

    def _whom(self) -> dict[str, str]:
        return {"user": "mysql", "group": "mysql"} if os.getuid() == 0 else {}

    def _initializing(self) -> list[str]:
        return [
            self._binaries[1], "--no-defaults", f"--datadir={self.folder}/data", "--skip-test-db",
            "--auth-root-authentication-method=normal", "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0",
        ]  # fmt: skip

    @property
    def _where(self) -> list[str]:
        """Where the rest of the server is, if it does not know"""
        return []

    def _run_once(self, *command: str) -> None:
        subprocess.run(
            command, check=True, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=self._environment, **self._user,
        )  # fmt: skip

    def start(self, **settings: str) -> None:
        options = [f"--{name}={value}" for name, value in (self._settings | settings).items()]
        log = Path(self.folder, "log")
        with log.open("ab") as written:
            self._process = subprocess.Popen(
                [
                    self._binaries[0], "--no-defaults", f"--datadir={self.folder}/data", f"--port={self.port}",
                    f"--socket={self.folder}/socket", f"--pid-file={self.folder}/pid", "--skip-name-resolve",
                    *self._where, *options,
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
                assert alive, f"{self.name} did not start: {log.read_text(errors='replace')}"
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
                    cursor.execute(self.spoken(statement))
                return list(cursor.fetchall()) if cursor.description else []
        finally:
            connection.close()

    def _has_shop(self) -> bool:
        return Path(self.folder, "data", "shop").is_dir()

    def compress_log(self, compressed: bool) -> None:
        self.run(f"SET GLOBAL log_bin_compress = {int(compressed)}", "SET GLOBAL log_bin_compress_min_len = 10")

    def spoken(self, statement: str) -> str:
        """As this server understands it"""
        return statement

    def log_end(self) -> tuple[str, int]:
        """The file, and the byte in it"""
        name, offset, *_ = self.run("SHOW MASTER STATUS")[0]
        return name, offset

    def hold_commits(self, held: bool) -> None:
        """Commits are in the log, and sent to replicas, and no SELECT sees them: until a replica has answered, of which
        there is none."""
        prefix = "SET GLOBAL rpl_semi_sync_master"
        if held:
            self.run(
                f"{prefix}_wait_point = 'AFTER_SYNC'", f"{prefix}_timeout = 600000", f"{prefix}_wait_no_slave = ON"
            )
        self.run(f"{prefix}_enabled = {'ON' if held else 'OFF'}")


class MySql(MariaDb):
    name = "MySQL"
    rights = "REPLICATION SLAVE, REPLICATION CLIENT"
    reset = "RESET BINARY LOGS AND GTIDS"
    settings = MariaDb.settings | {
        "gtid-mode": "ON", "enforce-gtid-consistency": "ON", "mysqlx": "OFF", "secure-file-priv": "",
        "cte-max-recursion-depth": "1000000", "sync-binlog": "0",
    }  # fmt: skip

    @staticmethod
    def binaries() -> list[str] | None:
        """As tools/mysql has put it there"""
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "headrace", "mysql")
        return [str(home / "mysqld")] if (home / "mysqld").exists() else None

    def _whom(self) -> dict[str, str]:
        return {}  # it is root's, and nobody else can read it

    @property
    def _where(self) -> list[str]:
        root = Path(self._binaries[0]).parent / "root" / "usr"
        return [
            f"--basedir={root}", f"--lc-messages-dir={root}/share/mysql", f"--plugin-dir={root}/lib/mysql/plugin",
            f"--character-sets-dir={root}/share/mysql/charsets", *(["--user=root"] if os.getuid() == 0 else []),
        ]  # fmt: skip

    def _initializing(self) -> list[str]:
        return [
            self._binaries[0], "--no-defaults", f"--datadir={self.folder}/data", "--initialize-insecure", *self._where
        ]  # fmt: skip

    def compress_log(self, compressed: bool) -> None:
        self.run(f"SET GLOBAL binlog_transaction_compression = {int(compressed)}")

    def spoken(self, statement: str) -> str:
        return re.sub(
            r"\bseq_(\d+)_to_(\d+)\b",
            r"(WITH RECURSIVE n (seq) AS (SELECT \1 UNION ALL SELECT seq + 1 FROM n WHERE seq < \2) SELECT * FROM n) s",
            statement,
        )

    def log_end(self) -> tuple[str, int]:
        name, offset, *_ = self.run("SHOW BINARY LOG STATUS")[0]
        return name, offset

    def hold_commits(self, held: bool) -> None:
        prefix = "SET GLOBAL rpl_semi_sync_source"
        if not self.run("SHOW VARIABLES LIKE 'rpl_semi_sync_source_enabled'"):
            self.run("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
        if held:
            self.run(
                f"{prefix}_wait_point = 'AFTER_SYNC'", f"{prefix}_timeout = 600000", f"{prefix}_wait_no_replica = ON"
            )
        self.run(f"{prefix}_enabled = {'ON' if held else 'OFF'}")
