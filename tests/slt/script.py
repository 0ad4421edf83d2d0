"""The text of an .slt file: records in, records out.

    statement ok                    runs
    statement tag CREATE_TABLE      runs, and its command tag is this
    statement count 2               runs, and touches two rows
    statement error <regex>         fails; the regex is searched in `SQLSTATE: message` and the hint after it
    query IT rowsort colnames       answers the rows after ----

The types are one letter per column: I for integers, R for numeric and floats, T for everything else, ? for any.
``rowsort`` sorts both sides as text, for answers without ORDER BY. ``colnames`` puts the column names first.
Values of a row are parted by one blank; NULL is ``NULL``, the empty string ``(empty)``, a line break ``\\n``.
A record ends at an empty line. A comment ``# modes: plain`` keeps a file that changes nothing out of the other modes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SEPARATOR = "----"
OPTIONS = ("rowsort", "nosort", "colnames")


@dataclass(frozen=True, kw_only=True)
class Record:
    path: Path
    line: int
    kind: str
    """ok, tag, count, error or query"""
    argument: str = ""
    """what tag, count and error expect; a query's types"""
    options: tuple[str, ...] = ()
    sql: str
    expected: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        return f"{self.path.name}:{self.line}"

    @property
    def head(self) -> str:
        if self.kind == "query":
            return " ".join(["query", self.argument, *self.options])
        return " ".join(["statement", self.kind, *([self.argument] if self.argument else [])])

    def text(self) -> str:
        lines = [self.head, self.sql]
        if self.kind == "query":
            lines += [SEPARATOR, *self.expected]
        return "\n".join(lines)


def parse(path: Path) -> list[Record | str]:
    """Records, with the comments and empty lines between them kept as text."""
    lines = path.read_text(encoding="utf-8").split("\n")
    parts: list[Record | str] = []
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith("#"):
            parts.append(lines[at])
            at += 1
            continue
        end = next((number for number in range(at, len(lines)) if not lines[number].strip()), len(lines))
        parts.append(_record(path, at + 1, lines[at:end]))
        at = end
    return parts


def modes(path: Path) -> list[str] | None:
    """The modes that the file asks for; None for all."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# modes:"):
            return line.removeprefix("# modes:").split()
    return None


def render(parts: list[Record | str]) -> str:
    return "\n".join(part if isinstance(part, str) else part.text() for part in parts)


def _record(path: Path, line: int, lines: list[str]) -> Record:
    word, _, rest = lines[0].partition(" ")
    body = lines[1:]
    if word == "statement":
        kind, _, argument = rest.strip().partition(" ")
        if kind not in ("ok", "tag", "count", "error"):
            raise ValueError(f"{path}:{line}: statement {kind!r} is not ok, tag, count or error")
        return Record(path=path, line=line, kind=kind, argument=argument.strip(), sql="\n".join(body))
    if word == "query":
        types, *options = rest.split()
        if unknown := set(options) - set(OPTIONS):
            raise ValueError(f"{path}:{line}: unknown {', '.join(sorted(unknown))}")
        split = body.index(SEPARATOR) if SEPARATOR in body else len(body)
        return Record(
            path=path, line=line, kind="query", argument=types, options=tuple(options),
            sql="\n".join(body[:split]), expected=tuple(body[split + 1 :]),
        )  # fmt: skip
    raise ValueError(f"{path}:{line}: expected statement or query, not {word!r}")
