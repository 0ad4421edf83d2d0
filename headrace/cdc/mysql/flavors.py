"""What MariaDB and MySQL do each in a way of their own."""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from headrace.cdc.mysql.gtids import Gtids, MariaDbGtids, MysqlGtids, owned
from headrace.cdc.mysql.positions import Place
from headrace.cdc.problems import SourceRefused

Ask = Callable[[str], list[tuple[str | None, ...]]]
"""A short question to the server: its answer's rows"""

VISIBLE_SECONDS, PATIENCE_SECONDS, POLL_SECONDS = 60, 0.02, 0.002
"""For so long is waited until what is in the log can be seen: if nothing can yet, and if something can; how often is
asked"""

NEW_UUID = (10, 11, 5)
"""From here on MariaDB's log says by itself how a UUID is stored."""


def flavor_of(version: str) -> Flavor:
    """By what a server says of itself when somebody connects.

    >>> flavor_of("5.5.5-10.11.19-MariaDB-0+deb12u1-log").shown, flavor_of("9.7.4-2").shown
    ('MariaDB 10.11.19', 'MySQL 9.7.4')
    """
    if "mariadb" in version.lower():
        return MariaDb(_version(version.removeprefix("5.5.5-")))  # old replicas want to see this first
    return Mysql(_version(version))


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)[:3]))


class Flavor(ABC):
    name: ClassVar[str]
    oldest: ClassVar[tuple[int, ...]]
    """The first version that can name columns in its log"""
    settings: ClassVar[str]
    """Of every connection"""
    log_settings: ClassVar[dict[str, str]]
    """Without which the log has not all that is needed"""
    right: ClassVar[str]
    """To see the log's files"""
    writes_transactions_whole: ClassVar[bool]
    """Whether nobody ever reads the beginning of a transaction of which the log has no end"""

    def __init__(self, version: tuple[int, ...]):
        self.version = version

    @property
    def shown(self) -> str:
        return f"{self.name} {'.'.join(map(str, self.version))}"

    @property
    def status(self) -> str:
        """The statement that says where the log is, and which schemas it has"""
        return "SHOW MASTER STATUS"

    @abstractmethod
    def parse(self, gtids: str) -> Gtids: ...

    @abstractmethod
    def visible(self, ask: Ask) -> Place:
        """A place of the log: all that lies before it can be seen. It is close to the end, and on one connection it
        never goes back."""

    @abstractmethod
    def end(self, ask: Ask) -> Place:
        """A place of the log: all that can be seen lies before it."""

    @abstractmethod
    def start(self, ask: Ask) -> tuple[Place, str]:
        """A place that is visible, and transactions that are in the log before it."""

    @abstractmethod
    def known(self, ask: Ask, place: Place) -> str:
        """Transactions that are in the log before a place, as far as that can be asked."""

    @abstractmethod
    def difference(self, ask: Ask, place: Place, known: str, uuid: str) -> str | None:
        """Whether this is the log that was read up to a place, with what it had before; else what there is instead."""

    @abstractmethod
    def uuid(self, ask: Ask) -> str:
        """Which server it is, if it has a name for that"""

    @abstractmethod
    def is_deaf_replica(self, ask: Ask) -> bool:
        """Whether it gets changes from another server and does not log them"""

    @abstractmethod
    def logs_cascades(self, ask: Ask) -> bool:
        """Whether the log has what foreign keys do to rows"""


class MariaDb(Flavor):
    name = "MariaDB"
    oldest = (10, 5)
    settings = "tx_isolation = 'REPEATABLE-READ', max_statement_time = 0"
    log_settings = {"binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL"}
    right = "BINLOG MONITOR"
    writes_transactions_whole = False

    def parse(self, gtids: str) -> MariaDbGtids:
        return MariaDbGtids.parse(gtids)

    def visible(self, ask: Ask) -> Place:
        """The server itself says which place of the log a snapshot is of: all before it can be seen, and no more."""
        ask("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        status = {str(name).lower(): str(value) for name, value in ask("SHOW STATUS LIKE 'binlog_snapshot_%'")}
        ask("COMMIT")
        return Place.parse(status["binlog_snapshot_file"], int(status["binlog_snapshot_position"]))

    def end(self, ask: Ask) -> Place:
        return self.visible(ask)

    def start(self, ask: Ask) -> tuple[Place, str]:
        place = self.visible(ask)
        return place, self.known(ask, place)

    def known(self, ask: Ask, place: Place) -> str:
        return self._before(ask, place) or ""

    def _before(self, ask: Ask, place: Place) -> str | None:
        """None: there is no such place."""
        found = ask(f"SELECT BINLOG_GTID_POS('{place.name}', {place.offset})")[0][0]
        return None if found is None else str(MariaDbGtids.parse(found))

    def difference(self, ask: Ask, place: Place, known: str, uuid: str) -> str | None:
        found = self._before(ask, place)
        return None if found == known else "no such place" if found is None else found or "nothing"

    def uuid(self, ask: Ask) -> str:
        return ""

    def is_deaf_replica(self, ask: Ask) -> bool:
        if ask("SELECT @@GLOBAL.log_slave_updates")[0][0] == "1":
            return False
        try:
            return bool(ask("SHOW ALL SLAVES STATUS"))
        except SourceRefused:  # it takes a right to see that; this is what a replica has got so far
            return bool(ask("SELECT @@GLOBAL.gtid_slave_pos")[0][0])

    def logs_cascades(self, ask: Ask) -> bool:
        return False


class Mysql(Flavor):
    name = "MySQL"
    oldest = (8, 0, 1)
    settings = "transaction_isolation = 'REPEATABLE-READ', max_execution_time = 0, information_schema_stats_expiry = 0"
    log_settings = {
        "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL",
        "binlog_row_value_options": "", "gtid_mode": "ON",
    }  # fmt: skip
    right = "REPLICATION CLIENT"
    writes_transactions_whole = True

    def __init__(self, version: tuple[int, ...]):
        super().__init__(version)
        self._visible: Place | None = None
        """What was found last"""
        self._awaited: tuple[Place, MysqlGtids] | None = None
        """The log's end at some time since, and whose commits were under way then"""

    @property
    def status(self) -> str:
        return "SHOW BINARY LOG STATUS" if self.version >= (8, 2) else "SHOW MASTER STATUS"

    def parse(self, gtids: str) -> MysqlGtids:
        return MysqlGtids.parse(gtids)

    def end(self, ask: Ask) -> Place:
        name, offset = ask(self.status)[0][:2]
        return Place.parse(str(name), int(str(offset)))

    def visible(self, ask: Ask) -> Place:
        """A transaction is given its number before it is in the log, and its connection owns this number until a SELECT
        can see what it did. So all of the log can be seen once nobody owns a number any more that was owned after its
        end was asked for."""
        begun = time.monotonic()
        while True:
            if self._awaited is None:
                end = self.end(ask)
                self._awaited = end, _owned(ask)
                under_way = self._awaited[1]
            else:
                end, before = self._awaited
                under_way = before.without(before.without(_owned(ask)))
            if not under_way:
                self._visible, self._awaited = end, None
                return end
            waited = time.monotonic() - begun
            if self._visible is not None and waited > PATIENCE_SECONDS:
                return self._visible
            if waited > VISIBLE_SECONDS:
                raise SourceRefused(
                    f"{self.name} has transactions that have had their numbers for a minute, and are not committed:"
                    f" {under_way}",
                    hint="of a session with SET gtid_next, or of a replica that applies something large, or commits"
                    " wait for a replica; it is tried again",
                )
            time.sleep(POLL_SECONDS)

    def start(self, ask: Ask) -> tuple[Place, str]:
        known = _executed(ask)  # before the place is asked for: they are in the log before it
        place = self.visible(ask)
        known.update(_previous(ask, place))
        return place, str(known)

    def known(self, ask: Ask, place: Place) -> str:
        """Only those of the files before."""
        return str(_previous(ask, place))

    def difference(self, ask: Ask, place: Place, known: str, uuid: str) -> str | None:
        """A server names itself, counts its transactions and says which ones came before each of its files."""
        if (other := self.uuid(ask)) != uuid:
            return f"the server {other}"
        executed, gtids = _executed(ask), MysqlGtids.parse(known)
        if not gtids <= executed:
            return f"executed only {executed or 'nothing'}"
        previous = _previous(ask, place)
        return _not_next(ask, place, gtids) if previous <= gtids else str(previous)

    def uuid(self, ask: Ask) -> str:
        return str(ask("SELECT @@GLOBAL.server_uuid")[0][0])

    def is_deaf_replica(self, ask: Ask) -> bool:
        updates, replicas = "log_replica_updates", "SHOW REPLICA STATUS"
        if self.version < (8, 0, 26):
            updates, replicas = "log_slave_updates", "SHOW SLAVE STATUS"
        return ask(f"SELECT @@GLOBAL.{updates}")[0][0] != "1" and bool(ask(replicas))

    def logs_cascades(self, ask: Ask) -> bool:
        return bool(ask("SHOW GLOBAL VARIABLES WHERE Variable_name = 'innodb_native_foreign_keys' AND Value = 'OFF'"))


def _executed(ask: Ask) -> MysqlGtids:
    return MysqlGtids.parse(ask("SELECT @@GLOBAL.gtid_executed")[0][0] or "")


def _owned(ask: Ask) -> MysqlGtids:
    return owned(ask("SELECT @@GLOBAL.gtid_owned")[0][0] or "")


def _not_next(ask: Ask, place: Place, known: MysqlGtids) -> str | None:
    """What is at a place instead of a transaction that is not known."""
    try:
        found = ask(f"SHOW BINLOG EVENTS IN '{place.name}' FROM {place.offset} LIMIT 1")
    except SourceRefused:
        return "no event"
    if not found or not (gtid := re.search(r"GTID_NEXT= '([^']+)'", found[0][5] or "")):
        return None
    return gtid[1] if MysqlGtids.parse(gtid[1]) <= known else None


def _previous(ask: Ask, place: Place) -> MysqlGtids:
    """The transactions of all files before one, which it begins with."""
    for _, _, kind, _, _, info in ask(f"SHOW BINLOG EVENTS IN '{place.name}' LIMIT 3"):
        if kind == "Previous_gtids":
            return MysqlGtids.parse(info or "")
    return MysqlGtids({})
