"""What is known of a source: where its server is, what is set up there, and how far its log is applied. Durable."""

from __future__ import annotations

from dataclasses import dataclass, field

POSTGRES, MYSQL = "postgres-cdc", "mysql-cdc"


@dataclass(frozen=True, kw_only=True)
class SourceState:
    host: str
    port: int
    user: str
    database: str
    secret: str | None
    """The name of the password's"""
    sslmode: str
    sslrootcert: str | None
    sslcert: str | None = None
    sslkey: str | None = None
    connector: str = POSTGRES
    slot: str = ""
    publication: str = ""
    owned: bool = False
    """Whether the publication was made by us, and goes with the source"""
    lsn: int = 0
    """All that was committed before is in the tables; 0: nothing is set up on the server yet"""
    skip: int = 0
    """So many events of the transaction after it are, too"""
    server_id: int = 0
    """By which MariaDB and MySQL tell their replicas apart"""
    server_uuid: str = ""
    """By which MySQL tells itself from others"""
    log_base: str = ""
    """What the names of the files of its log begin with"""
    partitions: dict[str, dict[str, int]] = field(default_factory=dict)
    """Of partitioned tables of PostgreSQL, by number: the partitions that were there, and the files with their rows; 0:
    any, because the table was truncated since"""
    gtids: str = ""
    """Which transactions that log has before the position"""
