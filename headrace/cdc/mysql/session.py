"""Connections to a MariaDB or MySQL server, and results as the bytes that it sends.

PyMySQL connects: it knows how to authenticate and to encrypt. Results are read here, from its buffered socket, because
they can be large, and because values are wanted as they are stored. Every connection has the same settings, so that a
value has the same text whoever reads it.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from headrace.cdc.mysql.flavors import flavor_of
from headrace.cdc.mysql.results import BATCH_ROWS, Packets, read_packets
from headrace.cdc.problems import SourceRefused, SourceUnreachable
from headrace.errors import EnvironmentProblem

_SETTINGS = (
    "SET NAMES utf8mb4, character_set_results = NULL, time_zone = '+00:00', sql_mode = '', sql_select_limit = DEFAULT,"
    " autocommit = 1, net_write_timeout = 3600, lock_wait_timeout = {}, sql_big_selects = 1, {}"
)
"""No character set for results: texts come as they are stored. No mode: '0000-00-00' is a value like others."""

_QUERY = 3
_LOST = {1053, 1077, 1079, 1152, 1159, 1161, 1158, 1160, 1927, 4031, 2003, 2006, 2013, 2014}
"""Numbers of errors that say that the connection is gone, or goes"""

_CANNOT = "cannot connect to MySQL or MariaDB at"

LOCK_SECONDS = 10
"""Who waits for a table that somebody else keeps, to change its columns, gives up: it is asked for again later, and
meanwhile others go on"""

MODES = ("disabled", "preferred", "required", "verify_ca", "verify_identity")


def driver() -> Any:
    try:
        import pymysql
    except ImportError:
        raise EnvironmentProblem(
            "the driver for MySQL and MariaDB is not installed", hint="pip install 'headrace[mysql]'"
        ) from None
    return pymysql


@dataclass(frozen=True, kw_only=True)
class Address:
    host: str
    port: int
    user: str
    database: str
    password: str | None = field(default=None, repr=False)
    sslmode: str = "preferred"
    sslrootcert: str | None = None
    sslcert: str | None = None
    sslkey: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.database}"

    def session(self, *, read_timeout: float | None = None) -> Session:
        pymysql = driver()
        try:
            with self.errors(_CANNOT):
                connection = pymysql.connect(
                    host=self.host, port=self.port, user=self.user, password=self.password or "", charset="utf8mb4",
                    connect_timeout=10, read_timeout=read_timeout, write_timeout=60, autocommit=None,
                    **self._encryption(),
                )  # fmt: skip
        except OSError as problem:
            raise SourceUnreachable(f"{_CANNOT} {self}: {self._said(problem)}") from None
        except RuntimeError as problem:
            if "cryptography" not in str(problem):
                raise
            # MySQL has sent a key to encrypt the password with, and the driver has no library for that.
            raise SourceUnreachable(
                f'{_CANNOT} {self}: it takes the password of user "{self.user}" only on an encrypted connection',
                hint="leave ssl.mode away, or set it to preferred",
            ) from None
        _keep_alive(connection._sock)
        session = Session(self, connection)
        try:
            session.rows(_SETTINGS.format(LOCK_SECONDS, session.flavor.settings))
        except BaseException:
            session.close()
            raise
        return session

    def _encryption(self) -> dict[str, Any]:
        if self.sslmode == "disabled":
            return {"ssl_disabled": True}
        if self.sslmode == "preferred" and self.sslcert is None:
            return {}
        verified = self.sslmode in ("verify_ca", "verify_identity")
        return {
            # Without any of these, the driver would go on unencrypted if the server cannot do better.
            "ssl_ca": self.sslrootcert, "ssl_cert": self.sslcert, "ssl_key": self.sslkey, "ssl_verify_cert": verified,
            "ssl_verify_identity": self.sslmode == "verify_identity",
            "ssl": None if verified else {"verify_mode": "none"},
        }  # fmt: skip

    def _said(self, problem: Exception) -> str:
        said = " ".join(str(problem.args[-1] if problem.args else problem).split())
        return said.replace(self.password, "***") if self.password else said

    @contextlib.contextmanager
    def errors(self, what: str) -> Iterator[None]:
        pymysql = driver()
        try:
            yield
        except pymysql.err.MySQLError as problem:
            number = problem.args[0] if problem.args and isinstance(problem.args[0], int) else 0
            lost = isinstance(problem, pymysql.err.InterfaceError) or number in _LOST
            kind = SourceUnreachable if lost or what == _CANNOT else SourceRefused
            raise kind(f"{what} {self}: {self._said(problem) or 'the connection is closed'}") from None
        except OSError as problem:
            raise SourceUnreachable(f"{what} {self}: {self._said(problem)}") from None


def _keep_alive(sock: socket.socket) -> None:
    """A server that vanishes without a word is noticed, be it in minutes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Session:
    """One connection. Values are bytes, or None for NULL."""

    def __init__(self, address: Address, connection: Any):
        self.address = address
        self._connection = connection
        self.flavor = flavor_of(connection.get_server_info())
        self.collations: list[int] = []
        """Of the columns of the last result"""

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.close()

    def interrupt(self) -> None:
        """From another thread: whoever reads from it finds that it is closed."""
        with contextlib.suppress(Exception):
            self._connection._sock.shutdown(socket.SHUT_RDWR)

    def errors(self) -> contextlib.AbstractContextManager[None]:
        return self.address.errors(f"{self.flavor.name} at")

    def rows(self, sql: str) -> list[tuple[bytes | None, ...]]:
        """A small result."""
        found: list[tuple[bytes | None, ...]] = []
        for packets in self.packets(sql):
            found.extend(zip(*packets.values(len(self.collations)), strict=True))
        return found

    def packets(self, sql: str, batch_rows: int = BATCH_ROWS) -> Iterator[Packets]:
        """A result, so many rows at a time at most. It must be read to its end, or the session closed."""
        with self.errors():
            self.collations = self._begin(sql)
            if self.collations:
                yield from read_packets(self._connection._rfile.read1, driver().err.raise_mysql_exception, batch_rows)

    def _begin(self, sql: str) -> list[int]:
        """Sends a statement; the collations of the columns that come back, by number."""
        connection = self._connection
        connection._execute_command(_QUERY, sql)
        first = connection._read_packet()
        if first.is_ok_packet():
            return []
        # At the end of each description: number of bytes of the rest, collation, length, type, flags, digits, nothing
        described = [
            int.from_bytes(connection._read_packet()._data[-12:-10], "little")
            for _ in range(first.read_length_encoded_integer())
        ]
        connection._read_packet()  # the end of them
        return described

    # --- the log -----------------------------------------------------------------------------------------------

    def command(self, number: int, payload: bytes) -> None:
        self._connection._execute_command(number, payload)

    def packet(self) -> bytes:
        """The next one; what the server complains about is raised."""
        return self._connection._read_packet()._data
