"""Notices: what a statement tells beside its result, and what PostgreSQL's protocol calls it.

A notice is its text, so whoever only shows it need not know of this module.

>>> exists_already('relation "t"'), exists_already('relation "t"').sqlstate
('relation "t" already exists, skipping', '42P07')
>>> warning("there is no transaction in progress", "25P01").severity
'WARNING'
>>> severity("any text")
'NOTICE'
"""

from __future__ import annotations


class Notice(str):
    severity: str
    sqlstate: str

    def __new__(cls, text: str, *, severity: str = "NOTICE", sqlstate: str = "00000") -> Notice:
        notice = super().__new__(cls, text)
        notice.severity, notice.sqlstate = severity, sqlstate
        return notice


def exists_already(what: str, sqlstate: str = "42P07") -> Notice:
    """Of CREATE … IF NOT EXISTS; 42P07 is that of relations."""
    return Notice(f"{what} already exists, skipping", sqlstate=sqlstate)


def warning(text: str, sqlstate: str) -> Notice:
    return Notice(text, severity="WARNING", sqlstate=sqlstate)


def severity(text: str) -> str:
    return getattr(text, "severity", "NOTICE")


def sqlstate(text: str) -> str:
    return getattr(text, "sqlstate", "00000")
