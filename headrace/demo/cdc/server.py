"""A private PostgreSQL, on a free port of this machine, in a folder that goes away."""

from __future__ import annotations

import contextlib
import getpass
import glob
import os
import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from headrace.errors import EnvironmentProblem

PATIENCE = 60.0
SETTINGS = {"listen_addresses": "127.0.0.1", "wal_level": "logical", "shared_buffers": "128MB", "max_wal_size": "2GB"}


def programs() -> Path:
    """Where the newest server that is installed has its programs."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    places = glob.glob("/usr/lib/postgresql/*/bin/initdb") + glob.glob("/usr/pgsql-*/bin/initdb")
    if not places:
        raise EnvironmentProblem(
            "PostgreSQL's server is not installed", hint="install it, e.g. `apt install postgresql`, and try again"
        )
    return Path(max(places, key=lambda path: int("".join(filter(str.isdigit, path))))).parent


class PrivateServer:
    def __init__(self, folder: Path):
        self._programs = programs()
        self.folder = folder
        folder.mkdir()
        # The server refuses to run as root.
        self._as: dict[str, Any] = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
        self.owner = "postgres" if self._as else getpass.getuser()
        self.password = secrets.token_urlsafe(12)
        password_file = folder / "password"
        password_file.write_text(self.password)
        if self._as:
            for path in (folder, password_file):
                shutil.chown(path, "postgres", "postgres")
        self._process: subprocess.Popen | None = None
        self._call(
            "initdb", "-D", f"{folder}/data", "-U", self.owner, "--pwfile", str(password_file), "-A", "scram-sha-256",
            "--no-sync", "-E", "UTF8", "--locale", "C",
        )  # fmt: skip
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._start()

    def _call(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments], cwd=self.folder, capture_output=True, text=True, **self._as
        )
        if done.returncode:
            raise EnvironmentProblem(f"{program} failed: {(done.stderr or done.stdout).strip()[-500:]}")

    def _start(self) -> None:
        settings = SETTINGS | {"port": str(self.port), "unix_socket_directories": str(self.folder)}
        log = self.folder / "log"
        with log.open("wb") as written:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", f"{self.folder}/data",
                 *(f"--{name}={value}" for name, value in settings.items())],
                cwd=self.folder, stdout=written, stderr=written, **self._as,
            )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.connect().close()
                return
            except Exception:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise EnvironmentProblem(f"PostgreSQL did not start: {log.read_text()[-500:]}") from None
                time.sleep(0.05)

    def connect(self) -> Any:
        return connect(self.port, self.owner, self.password)

    def stop(self) -> None:
        if self._process is not None:
            with contextlib.suppress(EnvironmentProblem):
                self._call("pg_ctl", "-D", f"{self.folder}/data", "stop", "-w", "-m", "immediate")
            self._process.wait()
            self._process = None


def connect(port: int, user: str, password: str) -> Any:
    import psycopg2

    connection = psycopg2.connect(host="127.0.0.1", port=port, user=user, password=password, dbname="postgres")
    connection.autocommit = True
    return connection
