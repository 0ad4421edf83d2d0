"""Runs .slt files against the engine in several modes, all of which must give the same answers.

python -m tests.slt.runner                     all files, all modes
python -m tests.slt.runner --update types      rewrites what types.slt expects with what the engine answers
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.serving.table import texts
from tests.slt.script import Record, modes, parse, render

FOLDER = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Mode:
    name: str
    crash: bool = False
    """After every statement that has changed anything the engine is abandoned and the warehouse opened again."""
    checkpoint_frequency: int = 1
    vectorized: bool = True


MODES = (
    Mode(name="plain"),
    Mode(name="crash", crash=True),
    Mode(name="frequency-5", checkpoint_frequency=5, vectorized=False),
    Mode(name="crash-frequency-5", crash=True, checkpoint_frequency=5),
)


class Mismatch(AssertionError):
    pass


class Client:
    """One session that outlives crashes, as a client does that reconnects and sets its variables again."""

    def __init__(self, connect: Callable[[], Any], mode: Mode):
        self._connect = connect
        self._mode = mode
        self._settings: list[str] = []
        self._open()

    def _open(self) -> None:
        self._database = self._connect()
        self._session = self._database.session()
        self._opened = self._database.status()["version"]

    @property
    def _changed(self) -> bool:
        return self._database.status()["version"] != self._opened

    def run(self, sql: str) -> Any:
        if self._mode.crash and self._changed:
            self._database.abandon()
            self._open()
            for setting in self._settings:
                self._session.sql(setting)
        result = self._session.sql(sql)
        if re.match(r"\s*set\b", sql, flags=re.IGNORECASE):
            self._settings.append(sql)
        return result

    def close(self) -> None:
        self._database.close()


@dataclass(frozen=True, kw_only=True)
class Answer:
    error: HeadraceError | None = None
    tag: str = ""
    types: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()

    @property
    def error_text(self) -> str:
        return f"{self.error.sqlstate}: {self.error}"


def ask(client: Client, record: Record) -> Answer:
    try:
        result = client.run(record.sql)
        # Inside, because a query may fail only when its rows are asked for.
        rows = tuple(
            " ".join(_shown(text) for text in row)
            for row in texts(result.types, result.rows(), null="\0", zone=result.zone)
        )
    except HeadraceError as error:
        return Answer(error=error)
    return Answer(
        tag=result.tag,
        types="".join(_letter(kind.name) for kind in result.types),
        columns=tuple(result.columns),
        rows=rows,
    )


def _shown(text: str) -> str:
    if text == "\0":  # no value of PostgreSQL's can hold this character
        return "NULL"
    return text.replace("\n", "\\n") if text else "(empty)"


def _letter(kind: str) -> str:
    if kind in ("smallint", "integer", "bigint"):
        return "I"
    return "R" if kind in ("numeric", "real", "double precision") else "T"


def check(record: Record, answer: Answer) -> None:
    """Raises a Mismatch that shows both sides."""
    if record.kind == "error":
        if answer.error is None:
            _fail(record, f"expected an error like {record.argument!r}, but it succeeded: {answer.tag}")
        if not re.search(record.argument, answer.error_text):
            _fail(record, f"expected an error like {record.argument!r}, got\n{answer.error_text}")
        return
    if answer.error is not None:
        _fail(record, f"failed: {answer.error_text}")
    if record.kind == "tag" and answer.tag != record.argument:
        _fail(record, f"expected the tag {record.argument}, got {answer.tag}")
    if record.kind == "count" and answer.tag.split()[-1] != record.argument:
        _fail(record, f"expected {record.argument} rows, got {answer.tag}")
    if record.kind == "query":
        _check_query(record, answer)


def _check_query(record: Record, answer: Answer) -> None:
    expected, got = list(record.expected), expectation(record, answer)
    if "rowsort" in record.options:
        expected = expected[: _header(record)] + sorted(expected[_header(record) :])
    if expected != got:
        diff = difflib.unified_diff(expected, got, "expected", "got", lineterm="")
        _fail(record, "answered other rows\n" + "\n".join(diff))
    matches = len(record.argument) == len(answer.types) and all(
        want in ("?", have) for want, have in zip(record.argument, answer.types, strict=True)
    )
    if not matches:
        _fail(record, f"expected the types {record.argument}, got {answer.types}")


def _header(record: Record) -> int:
    return 1 if "colnames" in record.options else 0


def expectation(record: Record, answer: Answer) -> list[str]:
    rows = sorted(answer.rows) if "rowsort" in record.options else list(answer.rows)
    return [" ".join(answer.columns)] * _header(record) + rows


def _fail(record: Record, why: str) -> None:
    raise Mismatch(f"{record.place}: {why}\n\n{record.sql}")


def updated(record: Record, answer: Answer) -> Record:
    """The record as it would have to be for this answer to be right."""
    if record.kind == "error" and answer.error is not None:
        if re.search(record.argument, answer.error_text):
            return record
        first_line = answer.error_text.split("\n")[0]
        return dataclasses.replace(record, argument=re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", first_line))
    if answer.error is not None:
        return updated(dataclasses.replace(record, kind="error", argument="^$", options=(), expected=()), answer)
    if record.kind == "error":
        return dataclasses.replace(record, kind="ok", argument="")
    if record.kind == "tag":
        return dataclasses.replace(record, argument=answer.tag)
    if record.kind == "count":
        return dataclasses.replace(record, argument=answer.tag.split()[-1])
    if record.kind == "query":
        keep = len(record.argument) == len(answer.types) and "?" in record.argument
        types = record.argument if keep else answer.types
        return dataclasses.replace(record, argument=types, expected=tuple(expectation(record, answer)))
    return record


def run_file(path: Path, client: Client) -> None:
    """Runs all of it, so that one run shows everything that is wrong."""
    mismatches = []
    for part in parse(path):
        if isinstance(part, Record):
            try:
                check(part, ask(client, part))
            except Mismatch as mismatch:
                mismatches.append(str(mismatch))
    if mismatches:
        raise Mismatch("\n\n".join(mismatches))


def update_file(path: Path, client: Client) -> bool:
    before = path.read_text(encoding="utf-8")
    after = render([part if isinstance(part, str) else updated(part, ask(client, part)) for part in parse(path)])
    path.write_text(after, encoding="utf-8")
    return before != after


def connector(spark: Any, warehouse: Path, mode: Mode) -> Callable[[], Any]:
    import headrace

    def connect() -> Any:
        parameters = {
            "barrier_interval": "50ms",
            "checkpoint_frequency": str(mode.checkpoint_frequency),
            "vectorized": str(mode.vectorized).lower(),
        }
        # They stay with the warehouse; given again they would undo what the file has set since.
        return headrace.connect(str(warehouse), spark=spark, parameters={} if warehouse.exists() else parameters)

    return connect


def modes_of(path: Path) -> list[Mode]:
    wanted = modes(path)
    return [mode for mode in MODES if wanted is None or mode.name in wanted]


def files(names: list[str]) -> list[Path]:
    return sorted(FOLDER.glob("*.slt")) if not names else [FOLDER / f"{Path(name).stem}.slt" for name in names]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.slt.runner")
    parser.add_argument("--update", action="store_true", help="rewrite what the files expect")
    parser.add_argument("--mode", choices=[mode.name for mode in MODES], help="only this mode")
    parser.add_argument("names", nargs="*", metavar="FILE", help="only these, e.g. types")
    options = parser.parse_args()

    from tests.support.spark import start_spark

    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        spark = start_spark(Path(scratch))
        for path in files(options.names):
            for mode in modes_of(path)[:1] if options.update else modes_of(path):
                if options.mode not in (None, mode.name):
                    continue
                client = Client(connector(spark, Path(scratch, path.stem, mode.name), mode), mode)
                try:
                    if options.update:
                        print(f"{path.name}: {'rewritten' if update_file(path, client) else 'unchanged'}")
                    else:
                        run_file(path, client)
                        print(f"{path.name} [{mode.name}]: ok")
                except Mismatch as mismatch:
                    failures += 1
                    print(f"{path.name} [{mode.name}]: FAILED\n{mismatch}", file=sys.stderr)
                finally:
                    client.close()
        spark.stop()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
