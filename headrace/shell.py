"""Runs SQL for a person: from a prompt, a file, a pipe or the command line.

:class:`Shell` is fed lines and runs whatever they complete; it knows neither where lines come from nor where output
goes. :func:`interact` is the prompt around it. Commands that begin with a backslash are psql's.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, nullcontext, suppress
from pathlib import Path
from typing import Any, Protocol, TextIO, runtime_checkable

from headrace.catalog import INDEX, MATERIALIZED_VIEW, TABLE, VIEW
from headrace.errors import HeadraceError
from headrace.notices import severity
from headrace.serving.output import FORMATS, Listing, write_table
from headrace.serving.progress import watching
from headrace.sql import statements as ast
from headrace.sql.parse import is_complete, parse, split
from headrace.types import quote_sql

PROMPT, CONTINUED = "headrace=> ", "headrace-> "


class Stop(Exception):
    """A script goes no further after its first error, which has been printed."""


class Quit(Exception):
    """\\q"""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while a statement ran, of which is known what became of it; the message says it."""


@runtime_checkable
class Talkative(Protocol):
    """A session that has something to say while a statement runs: one of a server."""

    on_notice: Callable[[str], None] | None


def describe_error(error: HeadraceError, text: str = "", *, where: str = "") -> str:
    """An error as psql prints it, with a caret under what it is about.

    >>> from headrace.errors import SqlSyntaxError
    >>> print(describe_error(SqlSyntaxError('syntax error at or near "FORM"', position=10), "SELECT * FORM t"))
    ERROR:  syntax error at or near "FORM"
    LINE 1: SELECT * FORM t
                     ^
    """
    lines = [f"{where}ERROR:  {error.message}"]
    if error.position is not None and 1 <= error.position <= len(text) + 1:
        before = text[: error.position - 1]
        number, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1)
        line = text.split("\n")[number - 1].replace("\t", " ")
        label = f"LINE {number}: "
        lines += [label + line, " " * (len(label) + column) + "^"]
    if error.hint:
        lines.append(f"HINT:  {error.hint}")
    return "\n".join(lines)


class Shell:
    def __init__(
        self,
        database: Any,
        *,
        output: str = "table",
        out: TextIO | None = None,
        err: TextIO | None = None,
        interactive: bool = False,
    ):
        self.database = database
        self.session = database.session()
        if isinstance(self.session, Talkative):
            self.session.on_notice = self._tell
        self.output = output
        self.out = sys.stdout if out is None else out
        self.err = sys.stderr if err is None else err
        self.interactive = interactive
        self.expand = False
        self.timing = False
        self._bars: Any = None
        """The console that shows how far something is"""

    # --- lines in ---------------------------------------------------------------------------------------------------

    def run_lines(self, lines: Iterable[str], *, name: str | None = None) -> None:
        """Runs each statement as soon as its last line is there, so that a pipe is followed live."""
        pending, first_line = "", 1
        for number, line in enumerate(lines, 1):
            if not pending.strip():
                pending, first_line = "", number
                if line.lstrip().startswith("\\"):
                    self.run(line, name=name, line=number)
                    continue
            pending += line
            # Only a line with a semicolon can end a statement; asking for each line of a long one would be quadratic.
            if ";" in line and is_complete(pending):
                self.run(pending, name=name, line=first_line)
                pending = ""
        self.run(pending, name=name, line=first_line)

    def run(self, text: str, *, name: str | None = None, line: int = 1) -> None:
        """Runs one backslash command, or any number of statements."""
        if text.lstrip().startswith("\\"):
            self._guard(lambda: self._command(text.strip()), "", name, line)
            return
        for statement, offset in self._statements(text, name, line):
            at_line = line + text.count("\n", 0, offset)
            self._guard(lambda statement=statement: self._execute(statement), statement, name, at_line)

    def _statements(self, text: str, name: str | None, line: int) -> Iterator[tuple[str, int]]:
        statements: list[str] = []
        self._guard(lambda: statements.extend(split(text)), text, name, line)
        offset = 0
        for statement in statements:
            offset = max(text.find(statement, offset), offset)
            yield statement, offset

    def _guard(self, action: Callable[[], None], text: str, name: str | None, line: int) -> None:
        try:
            action()
        except HeadraceError as error:
            self.out.flush()
            where = f"{name}:{line}: " if name else ""
            print(describe_error(error, text, where=where), file=self.err, flush=True)
            if not self.interactive:
                raise Stop from error
        self.out.flush()

    def _execute(self, statement: str) -> None:
        started = time.perf_counter()
        with closing(self._results(statement)) as results:  # whoever is interrupted while rows come wants no more
            for result in results:
                if (notice := getattr(result, "notice", None)) is not None:
                    self._tell(notice)
                if self.output == "table":
                    write_table(result, self.out, expand=self.expand, emphasis=self._bold)
                else:
                    FORMATS[self.output](result, self.out)
        if self.timing:
            print(f"Time: {(time.perf_counter() - started) * 1000:.1f} ms", file=self.out)

    def _tell(self, notice: str) -> None:
        if self._bars is not None and self.err.isatty():  # above the bars, which are drawn on the same screen
            self._bars.print(f"{severity(notice)}:  {notice}", markup=False, highlight=False, soft_wrap=True)
        else:
            print(f"{severity(notice)}:  {notice}", file=self.err, flush=True)

    def _results(self, text: str) -> Generator[Any]:
        """What a statement answers. While it fills something, or waits for that, a terminal shows how far it is."""
        waiting = _waits_for_jobs(text)
        if waiting is None:
            yield from self.session.execute(text)
        else:
            yield from self._awaited(text, waiting)

    def _awaited(self, text: str, waiting: ast.CreateMaterializedView | ast.CreateIndex | ast.Wait) -> list[Any]:
        shown = nullcontext()
        if self.out.isatty():
            from rich.console import Console

            self._bars = Console(file=self.out)
            shown = watching(lambda: self._jobs(waiting.name), self._bars)
        try:
            with shown:
                return list(self.session.execute(text))
        except KeyboardInterrupt:
            if isinstance(waiting, ast.Wait):
                raise Interrupted("interrupted; what is being filled goes on: see SHOW JOBS") from None
            kind = INDEX if isinstance(waiting, ast.CreateIndex) else MATERIALIZED_VIEW
            if any(each["name"] == waiting.name for each in self.database.status()["relations"]):
                raise Interrupted(f'interrupted too late: {kind} "{waiting.name}" exists') from None
            raise Interrupted(f'cancelled: {kind} "{waiting.name}" was not created') from None
        finally:
            self._bars = None

    def _jobs(self, name: str | None) -> list[Any]:
        return [job for job in self.database.jobs() if name in (None, job.name)]

    def _bold(self, line: str) -> str:
        return f"\x1b[1m{line}\x1b[0m" if self.interactive and self.out.isatty() else line

    # --- backslash commands -----------------------------------------------------------------------------------------

    def _command(self, text: str) -> None:
        word, _, argument = text.partition(" ")
        argument = argument.strip().rstrip(";").strip()
        if word == "\\d" and argument:
            self._execute(f"DESCRIBE {argument}")
        elif word in _LISTINGS:
            self._list(*_LISTINGS[word])
        elif word == "\\x":
            self.expand = not self.expand
            print(f"Expanded display is {'on' if self.expand else 'off'}.", file=self.out)
        elif word == "\\timing":
            self.timing = not self.timing
            print(f"Timing is {'on' if self.timing else 'off'}.", file=self.out)
        elif word == "\\i" and argument:
            try:
                with open(argument, encoding="utf-8") as lines:
                    self.run_lines(lines, name=argument)
            except OSError as error:
                raise HeadraceError(f"{argument}: {error.strerror}") from error
        elif word == "\\?":
            print(HELP, file=self.out)
        elif word == "\\q":
            raise Quit
        else:
            raise HeadraceError(f"invalid command {word}", hint="\\? lists the commands")

    def _list(self, title: str, *kinds: str) -> None:
        relations = [each for each in self.relations() if not kinds or each["kind"] in kinds]
        rows = [(quote_sql(each["name"]), each["kind"], each.get("rows")) for each in relations]
        if rows:
            kinds = {"Name": "varchar", "Kind": "varchar", "Rows": "bigint"}
            write_table(Listing(kinds, rows), self.out, expand=self.expand, emphasis=self._bold)
        else:
            print(f"There are no {title}.", file=self.out)

    def relations(self) -> list[dict[str, Any]]:
        # A plain view has no rows of its own, so the engine's status does not know it.
        views = [{"name": row[0], "kind": VIEW} for row in self.session.sql("SHOW VIEWS").rows()]
        return sorted([*self.database.status()["relations"], *views], key=lambda each: each["name"])


def _waits_for_jobs(text: str) -> ast.CreateMaterializedView | ast.CreateIndex | ast.Wait | None:
    """The statement, if it is one that may wait until something is filled."""
    if not text.lstrip()[:6].upper().startswith(("CREATE", "WAIT")):  # long inserts are not parsed twice
        return None
    try:
        (statement,) = parse(text)
    except (HeadraceError, ValueError):
        return None  # the session will say what is wrong with it
    return statement if isinstance(statement, (ast.CreateMaterializedView, ast.CreateIndex, ast.Wait)) else None


_LISTINGS = {
    "\\d": ("relations",),
    "\\dt": ("tables", TABLE),
    "\\dm": ("materialized views", MATERIALIZED_VIEW),
    "\\dv": ("views", VIEW),
}

HELP = """\
Statements end with a semicolon and may span lines. Ctrl-C drops what was typed, or gives up a CREATE that is filling
a view or an index; Ctrl-D quits.

  \\d             all relations, with their number of rows
  \\d NAME        the columns of one
  \\dt \\dm \\dv    tables, materialized views, views
  \\i FILE        run the statements of a file
  \\timing        print how long each statement takes
  \\x             print rows vertically
  \\q             quit

To begin with:

  CREATE TABLE orders (id INT PRIMARY KEY, item VARCHAR, price NUMERIC(10,2));
  CREATE MATERIALIZED VIEW cheap AS SELECT id, item FROM orders WHERE price < 10;
  INSERT INTO orders VALUES (1, 'tea', 4.50), (2, 'desk', 240);
  SELECT * FROM cheap;"""


# --- the prompt -----------------------------------------------------------------------------------------------------


def interact(shell: Shell, *, banner: str = "") -> None:
    """Prompts until the user quits. An error leaves the prompt as it was; a script would have stopped."""
    prompt = _prompt_session(shell)
    if banner:
        print(banner, file=shell.out)
    while True:
        try:
            text = prompt.prompt()
        except KeyboardInterrupt:  # drops the line, as every shell does
            continue
        except EOFError:
            return
        try:
            shell.run(text)
        except Interrupted as interrupted:
            print(interrupted, file=shell.err)
        except KeyboardInterrupt:
            print("interrupted; a statement that had reached the engine may still take effect", file=shell.err)
        except Quit:
            return


def finished(text: str) -> bool:
    """Whether Enter should run what was typed instead of starting another line."""
    stripped = text.strip()
    return not stripped or stripped.startswith("\\") or is_complete(text)


def history_path(environ: dict[str, str] | os._Environ[str] = os.environ) -> Path:
    state = environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "headrace" / "history"


def _prompt_session(shell: Shell):
    from prompt_toolkit import PromptSession
    from prompt_toolkit.filters import is_done
    from prompt_toolkit.history import FileHistory, InMemoryHistory
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import PostgresLexer

    keys = KeyBindings()

    @keys.add("enter", filter=~is_done)
    def _(event) -> None:
        if finished(event.current_buffer.text):
            event.current_buffer.validate_and_handle()
        else:
            event.current_buffer.insert_text("\n")

    history = InMemoryHistory()
    with suppress(OSError):  # a home that cannot be written to costs the history, not the shell
        path = history_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        history = FileHistory(str(path))
    return PromptSession(
        PROMPT,
        multiline=True,
        prompt_continuation=CONTINUED,
        key_bindings=keys,
        history=history,
        completer=_completer(shell),
        complete_while_typing=False,
        lexer=PygmentsLexer(PostgresLexer),
    )


KEYWORDS = tuple(
    """ALTER AND AS ASC BETWEEN BIGINT BOOLEAN BY BYTEA CANCEL CASCADE CASE CAST CHECK COMMENT COMPACT CONFLICT CREATE
    DATE DEFAULT DELETE DESC DESCRIBE DISTINCT DOUBLE DROP ELSE END EXISTS EXPLAIN FALSE FLUSH FROM GROUP HAVING IGNORE
    ILIKE IN INDEX INSERT INTEGER INTERVAL INTO IS JOB JOBS JSONB KEY LIKE LIMIT MATERIALIZED NOT NULL NUMERIC OFFSET ON
    ONLY OR ORDER OVERWRITE PARAMETERS PAUSE PRECISION PRIMARY RENAME RESNAPSHOT RESUME RETURNING SELECT SET SHOW
    SMALLINT SYSTEM TABLE TABLES THEN TIMESTAMP TIMESTAMPTZ TO TRUE UNION UPDATE VACUUM VALUES VARCHAR VIEW VIEWS WAIT
    WHEN WHERE WITH""".split()
)


def candidates(word: str, relations: Iterable[str]) -> list[str]:
    """What the word under the cursor could become: names first, because keywords are quicker to type than to choose.

    >>> candidates("ch", ["cheap", "orders"])
    ['cheap', 'CHECK']
    >>> candidates("se", [])
    ['SELECT', 'SET']
    """
    names = [name for name in relations if name.lower().startswith(word.lower())]
    return names + [keyword for keyword in KEYWORDS if word and keyword.startswith(word.upper())]


def _completer(shell: Shell):
    from prompt_toolkit.completion import Completer, Completion

    class SqlCompleter(Completer):
        def get_completions(self, document, complete_event):
            word = document.get_word_before_cursor(WORD=False)
            try:
                names = [quote_sql(each["name"]) for each in shell.relations()]
            except HeadraceError:  # the engine is gone; the next statement will say so
                names = []
            for text in candidates(word, names):
                yield Completion(text, start_position=-len(word))

    return SqlCompleter()
