"""A private PostgreSQL, on a free port of this machine, in a folder that goes away. The demo's, and the tests'."""

from __future__ import annotations

import getpass
import glob
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from headrace.cdc.postgres.server import driver
from headrace.errors import EnvironmentProblem

PATIENCE = 180.0
ATTEMPTS = 3
"""Somebody else may take a port between finding it and starting there."""

SETTINGS = {"listen_addresses": "127.0.0.1", "wal_level": "logical", "shared_buffers": "128MB", "max_wal_size": "2GB"}


def binaries() -> Path | None:
    """Where the newest server that is installed has its programs."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    places = glob.glob("/usr/lib/postgresql/*/bin/initdb") + glob.glob("/usr/pgsql-*/bin/initdb")
    return Path(max(places, key=lambda path: int("".join(filter(str.isdigit, path))))).parent if places else None


def closed_folder(folder: Path) -> Path | None:
    """The first of those on the way to a folder that others than its owner may not enter."""
    return next((each for each in reversed(folder.absolute().parents) if not each.stat().st_mode & 0o001), None)


class PrivateServer:
    def __init__(self, folder: Path, *, password: str | None = None, settings: dict[str, str] | None = None):
        programs = binaries()
        if programs is None:
            raise EnvironmentProblem(
                "PostgreSQL's server is not installed", hint="install it, e.g. `apt install postgresql`, and try again"
            )
        driver()  # its absence would look like a server that does not answer
        self._programs = programs
        self.folder = folder
        self.password = password or secrets.token_urlsafe(12)
        # The server refuses to run as root.
        self._as: dict[str, Any] = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
        self.owner = "postgres" if self._as else getpass.getuser()
        if self._as:
            self._check_user()
        self._process: subprocess.Popen | None = None
        self._settings = SETTINGS | (settings or {}) | {"unix_socket_directories": str(folder)}
        if self._as and (closed := closed_folder(folder)) is not None:
            raise EnvironmentProblem(
                f"PostgreSQL's server does not run as root, and its user postgres may not enter {closed}",
                hint="set TMPDIR to a folder that others may enter, such as /tmp, or be another user",
            )
        folder.mkdir(exist_ok=True)
        self._hand_over(folder)
        password_file = folder / "password"
        password_file.write_text(self.password)
        self._hand_over(password_file)
        self._call(
            "initdb", "-D", f"{folder}/data", "-U", self.owner, "--pwfile", str(password_file), "-A", "scram-sha-256",
            "--no-sync", "-E", "UTF8", "--locale", "C.UTF-8",
        )  # fmt: skip
        try:
            self._start_on_a_free_port()
        except BaseException:  # Ctrl-C, too: nobody else would stop it
            self.remove()
            raise

    def _start_on_a_free_port(self) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
            try:
                self.start()
                return
            except EnvironmentProblem:
                if attempt == ATTEMPTS:
                    raise

    def _check_user(self) -> None:
        try:
            pwd.getpwnam(self.owner)
        except KeyError:
            raise EnvironmentProblem(
                "PostgreSQL's server does not run as root, and there is no user postgres to run it",
                hint="be another user, or install PostgreSQL as a package, which adds the user",
            ) from None

    def _hand_over(self, path: Path) -> None:
        if self._as:
            shutil.chown(path, "postgres", "postgres")

    def _call(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments], cwd=self.folder, capture_output=True, text=True, **self._as
        )
        if done.returncode:
            raise EnvironmentProblem(f"{program} failed: {(done.stderr or done.stdout).strip()[-500:]}")

    def start(self) -> None:
        log = self.folder / "log"
        options = {"port": str(self.port)} | self._settings
        with log.open("ab") as written:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", f"{self.folder}/data",
                 *(f"--{name}={value}" for name, value in options.items())],
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

    def stop(self, *, immediate: bool = False) -> None:
        if self._process is not None:
            self._call("pg_ctl", "-D", f"{self.folder}/data", "stop", "-w", "-m", "immediate" if immediate else "fast")
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        try:
            self.stop(immediate=True)
        except EnvironmentProblem:  # it has not come so far that it could be stopped in order
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self, database: str = "postgres", **how: Any) -> Any:
        return connect(self.port, self.owner, self.password, database, **how)


def connect(port: int, user: str, password: str, database: str = "postgres", **how: Any) -> Any:
    connection = driver().connect(
        host="127.0.0.1", port=port, user=user, password=password, dbname=database, connect_timeout=10, **how
    )
    if not how:  # a connection of replication has no transactions
        connection.autocommit = True
    return connection
