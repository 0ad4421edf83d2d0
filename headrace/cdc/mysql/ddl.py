"""Statements in the log: what they do to a table that is followed.

Rows are logged as rows, but TRUNCATE, DROP, RENAME and ALTER as the text that somebody wrote. Each is one of: nothing
to do with the table, TRUNCATE, or the end of following it. ALTER TABLE is the end unless each of its clauses is known
to leave the columns that are followed alone: dropping a column and adding one of the same name looks, afterwards, as if
nothing had happened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from headrace.cdc.mysql.tables import SourceTable

TRUNCATED = "TRUNCATE"

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[ \t\n][^\n]*|\#[^\n]*|/\*(?![!M])(?:.|\n)*?\*/|/\*M?!\d*|\*/)
    |`(?P<back>(?:[^`]|``)*)`
    |"(?P<double>(?:[^"\\]|""|\\.)*)"
    |'(?P<single>(?:[^'\\]|''|\\.)*)'
    |(?P<word>[^\s`"'(),.;=*/]+)
    |(?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)

_ROWS_AS_TEXT = {"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "MERGE", "WITH", "CALL", "DO", "SELECT"}
"""With binlog_format = ROW, none of these is logged as text."""

_DDL = {"ALTER", "CREATE", "DROP", "RENAME", "TRUNCATE"}

_HARMLESS_OPTIONS = {
    "COMMENT", "AUTO_INCREMENT", "ROW_FORMAT", "ALGORITHM", "LOCK", "FORCE", "STATS_PERSISTENT", "STATS_AUTO_RECALC",
    "STATS_SAMPLE_PAGES", "KEY_BLOCK_SIZE", "AVG_ROW_LENGTH", "MAX_ROWS", "MIN_ROWS", "CHECKSUM", "ENABLE", "DISABLE",
    "PACK_KEYS", "PAGE_CHECKSUM", "TRANSACTIONAL", "ENCRYPTED", "ENCRYPTION_KEY_ID", "PAGE_COMPRESSED", "NOWAIT",
    "WAIT", "WITH", "WITHOUT", "DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION", "COMPRESSION", "TABLESPACE",
    "AUTOEXTEND_SIZE", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE", "SECONDARY_ENGINE_ATTRIBUTE",
}  # fmt: skip
"""Of a table; DEFAULT CHARACTER SET is that of columns to come"""

_SAME_ROWS = {
    "ORDER",
    "ANALYZE",
    "CHECK",
    "REPAIR",
    "OPTIMIZE",
    "REORGANIZE",
    "COALESCE",
    "REMOVE",
    "REBUILD",
    "PARTITION",
}
"""What happens to partitions, and leaves all rows in the table; DROP, TRUNCATE, EXCHANGE and CONVERT do not."""

_INDEXES = {"INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL"}


class Token(NamedTuple):
    text: str
    quoted: bool

    @property
    def word(self) -> str:
        return "" if self.quoted else self.text.upper()


def tokens(sql: str) -> list[Token]:
    return list(_tokens(sql))


def _tokens(sql: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(sql):
        if match["space"] is not None:
            continue
        if match["back"] is not None:
            yield Token(match["back"].replace("``", "`"), True)
        elif match["double"] is not None:
            yield Token(match["double"].replace('""', '"'), True)
        elif match["single"] is not None:
            yield Token(match["single"], True)
        else:
            yield Token(match["word"] or match["sign"], False)


def effect(sql: str, schema: str, table: SourceTable, *, doubtful: bool = False) -> str | None:
    """What a statement does to a table, in a session's schema: nothing (None), TRUNCATED, or what ends following it.

    Of a doubtful one, what is not ASCII may be something else, and a text may end elsewhere than it seems.
    """
    found = tokens(sql)
    words = [token.word for token in found]
    while words[:2] == ["SET", "STATEMENT"] and "FOR" in words:
        at = words.index("FOR") + 1
        found, words = found[at:], words[at:]
    if not words or "TEMPORARY" in words[:4]:
        return None
    first = words[0]
    if first in _ROWS_AS_TEXT:
        return f"{first} was logged as text, not as rows: a session has another binlog_format than ROW"
    named = any(table.is_called(*name) for name in _names(found, schema))
    if doubtful and first in _DDL and (named or not f"{table.schema}{table.name}".isascii()):
        return f"{first} … in a character set or SQL mode in which it cannot be read"
    if first == "TRUNCATE":
        at = 2 if words[1:2] == ["TABLE"] else 1
        return TRUNCATED if table.is_called(*_name(found, at, schema)) else None
    if first == "DROP" and words[1:2] in (["DATABASE"], ["SCHEMA"]):
        gone = next((token.text for token in found[2:] if token.word not in ("IF", "EXISTS")), "")
        return "its database was dropped" if table.is_called(gone, table.name) else None
    if not named:
        return None
    if first == "DROP":
        return "it was dropped" if words[1:2] in (["TABLE"], ["TABLES"]) else None
    if first == "RENAME":
        return "it was renamed, or another was renamed to its name"
    if first not in ("CREATE", "ALTER") or "TABLE" not in words[:5]:
        return None
    subject = _subject(found)
    mine = table.is_called(*_name(found, subject, schema))
    if first == "CREATE":
        return "it was created anew" if mine and "REPLACE" in words[:4] else None
    if mine:
        followed = {column.name.lower() for column in table.columns}
        return _altered(found[subject:], followed, logs_cascades=table.logs_cascades)
    if "EXCHANGE" in words:
        return "its rows were exchanged with those of a partition"
    return "another was renamed to its name" if "RENAME" in words else None


def _subject(found: list[Token]) -> int:
    """Where the name stands, behind TABLE."""
    place = next(number for number, token in enumerate(found) if token.word == "TABLE") + 1
    while place < len(found) and found[place].word in ("IF", "NOT", "EXISTS"):
        place += 1
    return place


def _name(found: list[Token], place: int, schema: str) -> tuple[str, str]:
    if place >= len(found):
        return schema, ""
    if _qualified(found, place):
        return found[place].text, found[place + 2].text
    return schema, found[place].text


def _qualified(found: list[Token], place: int) -> bool:
    return place + 2 < len(found) and found[place + 1].word == "."


def _names(found: list[Token], schema: str) -> Iterator[tuple[str, str]]:
    """All that could be the name of a table: each word, alone and with the one before the dot."""
    for place, token in enumerate(found):
        if place >= 2 and found[place - 1].word == ".":
            yield found[place - 2].text, token.text
        else:
            yield schema, token.text


def _altered(found: list[Token], followed: set[str], *, logs_cascades: bool) -> str | None:
    """From the table's name on."""
    for clause in _clauses(found[3 if _qualified(found, 0) else 1 :]):
        if not logs_cascades and _cascades(clause):
            return "ALTER TABLE has added a foreign key that changes rows without logging it"
        if (reason := _clause(clause, followed)) is not None:
            return reason
    return None


def _clauses(found: list[Token]) -> list[list[Token]]:
    """Separated by commas that are in no parentheses."""
    clauses: list[list[Token]] = [[]]
    depth = 0
    for token in found:
        depth += {"(": 1, ")": -1}.get(token.word, 0)
        if token.word == "," and depth == 0:
            clauses.append([])
        elif token.word != ";":
            clauses[-1].append(token)
    return [clause for clause in clauses if clause]


def _cascades(clause: list[Token]) -> bool:
    words = [token.word for token in clause]
    acts = "CASCADE" in words or ("SET" in words and ("NULL" in words or "DEFAULT" in words))
    return "REFERENCES" in words and acts


def _clause(clause: list[Token], followed: set[str]) -> str | None:
    words = [token.word for token in clause]
    first, second = words[0], words[1] if len(words) > 1 else ""
    shown = " ".join(words[:2]).strip()
    if first == "ADD":
        if second == "PRIMARY" or ("PRIMARY" in words and second in ("CONSTRAINT", "COLUMN")):
            return "ALTER TABLE has changed its primary key"
        return "ALTER TABLE has made it system-versioned" if second in ("SYSTEM", "PERIOD") else None
    if first == "DROP":
        if second in _INDEXES or second in ("CONSTRAINT", "FOREIGN", "CHECK"):
            return None
        if second in ("PRIMARY", "PARTITION", "SYSTEM", "PERIOD"):
            return f"ALTER TABLE … {shown} cannot be followed"
        return _touches(clause[1:], followed)
    if first in ("MODIFY", "CHANGE"):
        return _touches(clause[1:], followed)
    if first == "ALTER":  # a default, or the visibility of an index
        return None
    if first == "RENAME":
        if second in ("INDEX", "KEY"):
            return None
        return _touches(clause[2:], followed) if second == "COLUMN" else "it was renamed"
    if first == "ENGINE":
        return None if "INNODB" in (token.text.upper() for token in clause) else "it has another engine now"
    if words[:2] == ["WITH", "SYSTEM"]:
        return "ALTER TABLE has made it system-versioned"
    if first in _SAME_ROWS or first in _HARMLESS_OPTIONS:
        return None
    return f"ALTER TABLE … {shown} cannot be followed"


def _touches(clause: list[Token], followed: set[str]) -> str | None:
    """Of a clause about one column: behind COLUMN and IF EXISTS stands its name."""
    for token in clause:
        if token.word in ("COLUMN", "IF", "EXISTS"):
            continue
        return f'ALTER TABLE has changed column "{token.text}"' if token.text.lower() in followed else None
    return None
