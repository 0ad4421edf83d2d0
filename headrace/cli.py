"""The command line: ``headrace sql``, ``serve``, ``demo``, ``demo-cdc``, ``demo-kafka``, ``status``, ``vacuum`` …

Parsing arguments must be instant, so everything heavy is imported by the command that needs it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError

EXAMPLES = """\
examples:
  headrace demo                                watch views fill on a live table, survive a kill -9, be verified
  headrace sql                                 an SQL prompt on ./warehouse; \\? helps, \\q quits
  headrace sql -c 'SHOW TABLES'                run one statement
  headrace sql -f setup.sql -f load.sql        run files; stops at the first error with exit status 1
  headrace sql --format csv -c 'SELECT * FROM cheap' > cheap.csv
  headrace serve                               a server for psql, drivers and BI tools, on port 4566
  headrace status -w shop                      what is in the folder shop, also while an engine runs on it

The warehouse is the folder that holds everything: --warehouse, or $HEADRACE_WAREHOUSE, or ./warehouse."""

SQL_EXAMPLES = """\
Without -c and -f, statements come from the prompt, or from a pipe as soon as each is complete:

  headrace sql -c "CREATE TABLE orders (id INT PRIMARY KEY, item VARCHAR, price NUMERIC(10,2))"
  headrace sql -c "CREATE MATERIALIZED VIEW cheap AS SELECT id, item FROM orders WHERE price < 10"
  echo "INSERT INTO orders VALUES (1, 'tea', 4.50), (2, 'desk', 240)" | headrace sql
  headrace sql -c "SELECT * FROM cheap" --format json
  headrace sql --url postgresql://root@localhost:4566/dev -c "SELECT * FROM cheap"

A password for --url is better kept out of the command line: libpq takes it from $PGPASSWORD or ~/.pgpass, too."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    try:
        return options.run(options)
    except HeadraceError as error:
        print(_describe(error), file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader has seen enough (`| head`). Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt as interrupt:
        if str(interrupt):  # what became of the statement
            print(interrupt, file=sys.stderr)
        return 130


def build_parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="headrace",
        description="Tables and views in SQL, kept up to date on Spark as their inputs change.",
        epilog=EXAMPLES,
        formatter_class=raw,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    parser.set_defaults(run=lambda options: parser.print_help() or 0)

    def command(name: str, run, summary: str, **more: Any) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".", **more)
        added.set_defaults(run=run)
        return added

    sql = command(
        "sql", run_sql, "run SQL: at a prompt, from files, from a pipe", epilog=SQL_EXAMPLES, formatter_class=raw
    )
    _add_warehouse(sql)
    _add_engine(sql)
    sql.add_argument("--url", help="use this server, and no engine here: postgresql://root@localhost:4566/dev")
    sql.add_argument("-c", "--command", dest="inputs", action=_Input, metavar="SQL", help="run this; may be repeated")
    sql.add_argument("-f", "--file", dest="inputs", action=_Input, metavar="FILE", help="run this file; - is stdin")
    sql.add_argument("--format", choices=("table", "csv", "json"), default="table", help="how rows are printed")
    sql.add_argument("--timing", action="store_true", help="print how long each statement takes")

    _add_serve(command)

    demo = command(
        "demo", run_demo, "see it work: views filled on a live table, a kill -9, and a proof that all is right"
    )
    # For about a minute on two slow cores.
    demo.add_argument("--rows", type=_rows, default=240_000, metavar="N", help="of the table (default: %(default)s)")
    demo.add_argument("--keep", action="store_true", help="keep the demo's warehouse and say where it is")

    demo_cdc = command(
        "demo-cdc", run_demo_cdc, "see a table of a live PostgreSQL become one here, through a kill -9, and be compared"
    )
    demo_cdc.add_argument(
        "--rows", type=_rows, default=1_500_000, metavar="N", help="of the table (default: %(default)s)"
    )
    demo_cdc.add_argument("--keep", action="store_true", help="keep the demo's warehouse and say where it is")

    demo_kafka = command(
        "demo-kafka",
        run_demo_kafka,
        "see views come on a live Kafka topic, through a kill -9, every offset counted",
    )
    demo_kafka.add_argument(
        "--rows", type=_rows, default=400_000, metavar="N", help="of the topic, at first (default: %(default)s)"
    )
    demo_kafka.add_argument("--keep", action="store_true", help="keep the demo's warehouse and say where it is")

    status = command("status", run_status, "show what a warehouse holds, without starting an engine")
    _add_warehouse(status)
    status.add_argument("--format", choices=("table", "csv", "json"), default="table", help="how rows are printed")

    vacuum = command("vacuum", run_vacuum, "delete files that no retained version of the warehouse needs")
    _add_warehouse(vacuum)
    _add_engine(vacuum)

    command("version", run_version, "print the versions of Headrace, Spark, Python and Java")
    return parser


SERVE_EXAMPLES = """\
  headrace serve -w shop
  psql -h localhost -p 4566 -d dev -U root

It listens on this machine only, and believes whoever connects, unless told otherwise. $HEADRACE_PASSWORD sets a
password too. SIGTERM, Ctrl-C or closing the terminal stops it: statements that run may end, and everything is
committed."""


def _add_serve(command) -> None:
    raw = argparse.RawDescriptionHelpFormatter
    serve = command(
        "serve",
        run_serve,
        "run a server that speaks PostgreSQL's protocol",
        epilog=SERVE_EXAMPLES,
        formatter_class=raw,
    )
    _add_warehouse(serve)
    _add_engine(serve)
    serve.add_argument("--driver-memory", metavar="SIZE", help="memory of Spark's driver, e.g. 4g (default: 2g)")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve.add_argument("--port", type=int, default=4566, help="port for clients (default: %(default)s)")
    serve.add_argument(
        "--http-port", type=int, default=4567, help="port of /healthz and /metrics (default: %(default)s; 0: none)"
    )
    serve.add_argument(
        "--sessions", type=int, default=100, metavar="N", help="clients at a time (default: %(default)s)"
    )
    serve.add_argument("--user", default="root", help="the user that may connect (default: %(default)s)")
    serve.add_argument("--password-file", metavar="FILE", help="its password")
    serve.add_argument("--trust", action="store_true", help="no password, although other machines can connect")
    serve.add_argument("--tls-cert", metavar="FILE", help="certificate, PEM")
    serve.add_argument("--tls-key", metavar="FILE", help="its key, PEM")
    serve.add_argument("--require-tls", action="store_true", help="refuse connections that are not encrypted")
    serve.add_argument("--log-format", choices=("text", "json"), default="text", help="of the lines on standard error")
    serve.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default="info",
        help="which lines there are (default: %(default)s)",
    )  # fmt: skip


def _add_warehouse(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-w",
        "--warehouse",
        metavar="PATH",
        default=os.environ.get("HEADRACE_WAREHOUSE", "warehouse"),
        help="folder or URI (default: %(default)s)",
    )


def _add_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", metavar="URL", help="Spark master, e.g. local[4] or spark://host:7077")
    parser.add_argument("--takeover", action="store_true", help="take the warehouse from an engine that still holds it")
    parser.add_argument(
        "--set", action="append", type=_assignment, default=[], metavar="NAME=VALUE", help="e.g. barrier_interval=200ms"
    )


class _Input(argparse.Action):
    """-c and -f fill one list, because they run in the order in which they were given."""

    def __call__(self, parser, namespace, values, option_string=None):
        kind = "file" if option_string in ("-f", "--file") else "command"
        setattr(namespace, self.dest, [*(getattr(namespace, self.dest) or []), (kind, values)])


def _rows(text: str) -> int:
    if (number := int(text)) < 1000:
        raise argparse.ArgumentTypeError("must be at least 1000")
    return number


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value.strip()


def _describe(error: HeadraceError) -> str:
    from headrace.shell import describe_error

    return describe_error(error)


# --- commands -------------------------------------------------------------------------------------------------------


@contextmanager
def open_database(options: argparse.Namespace):
    """The engine. Starting Spark takes seconds, and a person should know what they wait for."""
    import headrace

    if getattr(options, "url", None):
        given = {"master": options.master, "takeover": options.takeover, "parameters": dict(options.set)}
        with headrace.connect(options.url, **given) as database:
            yield database
        return
    with _waiting("starting Spark …"):
        database = headrace.connect(
            options.warehouse, master=options.master, takeover=options.takeover, parameters=dict(options.set)
        )
    # Spark's handler cancels every running job, the engine's own too; Ctrl-C should only stop what the user waits for.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with database:
        yield database


def _waiting(text: str):
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(text)


def run_sql(options: argparse.Namespace) -> int:
    from headrace.shell import Quit, Shell, Stop, interact

    inputs = options.inputs or ([] if sys.stdin.isatty() else [("file", "-")])
    for kind, value in inputs:
        if kind == "file" and value != "-" and not Path(value).is_file():  # before seconds are spent on Spark
            print(f"headrace: {value}: no such file", file=sys.stderr)
            return 1
    with open_database(options) as database:
        shell = Shell(database, output=options.format, interactive=not inputs)
        shell.timing = options.timing
        try:
            for kind, value in inputs:
                if kind == "command":
                    shell.run(value)
                elif value == "-":
                    shell.run_lines(sys.stdin)
                else:
                    with open(value, encoding="utf-8") as lines:
                        shell.run_lines(lines, name=value)
            if not inputs:
                place = database.place if options.url else options.warehouse
                interact(shell, banner=f"Headrace on {place}. \\? helps, \\q quits.")
        except Stop:
            return 1
        except Quit:
            pass
    return 0


def run_serve(options: argparse.Namespace) -> int:
    from headrace.service import serve

    return serve(options, say=lambda line: print(line, flush=True))


def _played(run: Callable[..., int], options: argparse.Namespace) -> int:
    """A demo starts processes, which are not to outlive it when its terminal is closed, or it is told to end."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    return run(rows=options.rows, keep=options.keep)


def _leave(number: int, _: Any) -> None:
    raise SystemExit(128 + number)


def run_demo(options: argparse.Namespace) -> int:
    from headrace.demo import run

    return _played(run, options)


def run_demo_cdc(options: argparse.Namespace) -> int:
    from headrace.demo.cdc import run

    return _played(run, options)


def run_demo_kafka(options: argparse.Namespace) -> int:
    from headrace.demo.kafka import run

    return _played(run, options)


def run_status(options: argparse.Namespace) -> int:
    from headrace.serving.output import FORMATS, Listing
    from headrace.serving.status import read_status

    status = read_status(options.warehouse)
    if options.format == "table":
        age = datetime.now(UTC) - status["committed_at"]
        print(f"{status['warehouse']}: epoch {status['epoch']}, version {status['version']}")
        print(f"committed {age.total_seconds():,.0f} s ago by {status['writer']}\n")
    rows = [tuple(each.values()) for each in status["relations"]]
    kinds = {"name": "varchar", "kind": "varchar", "rows": "bigint", "runs": "bigint", "bytes": "bigint"}
    FORMATS[options.format](Listing(kinds, rows), sys.stdout)
    return 0


def run_vacuum(options: argparse.Namespace) -> int:
    from headrace.shell import Shell, Stop

    with open_database(options) as database:
        try:
            Shell(database).run("VACUUM")
        except Stop:
            return 1
    return 0


def run_version(options: argparse.Namespace) -> int:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    import headrace
    from headrace.engine import java

    def installed(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "not installed"

    print(f"headrace {headrace.__version__}")
    print(f"spark    {installed('pyspark')}")
    print(f"python   {platform.python_version()} ({sys.executable})")
    try:
        found = java.require_java()
        print(f"java     {found.version} ({found.path})")
    except HeadraceError as error:
        print(f"java     {error.message}; {error.hint}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
