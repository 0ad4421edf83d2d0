"""The documents are true: what they name exists, what they show runs, and what they say it answers is what it answers.

Blocks of a document, by what stands behind the three backticks:

    sql            runs, in order, on a fresh database per document
    sql refused    every statement fails, with the error that the comment below it names
    text output    what the last statement of the sql block before answers, as the shell prints it
    text error     the message of the last statement of the refused block before
    python         runs (README), in an empty folder
    sh             commands of this repository, which must parse
    text           anything else
"""

from __future__ import annotations

import ast
import io
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

import headrace
from headrace import cli, shell
from headrace.config import PARAMETERS
from headrace.serving.output import write_table
from headrace.sql.parse import parse, split
from headrace.types import DEFAULT_PRECISION, DEFAULT_SCALE, SqlType
from tests.unit.test_layers import LAYERS

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
ALL_TEXTS = [*DOCUMENTS, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
SOURCES = sorted(path for folder in ("headrace", "bench") for path in (ROOT / folder).rglob("*.py"))

each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())


@dataclass(frozen=True, kw_only=True)
class Block:
    kind: str
    text: str
    line: int


def blocks(path: Path, *kinds: str) -> list[Block]:
    found = []
    for match in re.finditer(r"^```(.*)\n((?:.*\n)*?)```$", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
        line = path.read_text(encoding="utf-8")[: match.start()].count("\n") + 1
        found.append(Block(kind=match[1].strip(), text=match[2], line=line))
    return [block for block in found if not kinds or block.kind in kinds]


def prose(path: Path) -> str:
    """The text without fenced and indented blocks."""
    text = re.sub(r"^```.*\n(?:.*\n)*?```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return re.sub(r"^ {4}.*$", "", text, flags=re.MULTILINE)


def quoted(path: Path) -> list[str]:
    """What stands in backticks."""
    # In one order everywhere: two workers must collect the same tests.
    return list(dict.fromkeys(re.sub(r"\s+", " ", each) for each in re.findall(r"`([^`]+)`", prose(path))))


# --- what the code has ------------------------------------------------------------------------------------------


def _defined(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    names: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names[node.name] = node
        elif isinstance(node, ast.Assign):
            names |= {
                name.id: node for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)
            }
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names[node.target.id] = node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name: node for alias in node.names}
    return names


MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): _defined(
        ast.parse(path.read_text(encoding="utf-8")).body
    )
    for path in SOURCES
}
CLASSES = {
    name: set(_defined(node.body)) | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    for names in MODULES.values()
    for name, node in names.items()
    if isinstance(node, ast.ClassDef)
}


def constants() -> dict[str, list[int]]:
    """The integers that modules define by name; two modules may use one name."""
    found: dict[str, list[int]] = {}
    for names in MODULES.values():
        for name, node in names.items():
            if name.isupper() and isinstance(node, ast.Assign):
                try:
                    value = eval(compile(ast.Expression(node.value), "constant", "eval"), {"__builtins__": {}})
                except (NameError, TypeError):
                    continue
                if isinstance(value, int):
                    found.setdefault(name, []).append(value)
    return found


def dotted_name_exists(name: str) -> bool:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        if module in MODULES or any(each.startswith(module + ".") for each in MODULES):
            rest = parts[length:]
            names = MODULES.get(module, {})
            return not rest or (rest[0] in names and (len(rest) == 1 or rest[1] in CLASSES.get(rest[0], ())))
    return False


# --- names ------------------------------------------------------------------------------------------------------


@each_document
def test_paths_exist(path):
    folders = {each.name for each in ROOT.iterdir() if each.is_dir()}
    for name in quoted(path):
        if not re.fullmatch(r"[\w./-]+", name):
            continue
        first, slash, _ = name.partition("/")
        is_file = name.endswith((".py", ".md", ".slt", ".toml", ".properties"))
        if (slash and first in folders and first != ".venv") or is_file:
            found = (ROOT / name).exists() or (not slash and any(ROOT.glob(f"headrace/**/{name}")))
            assert found, f"{path.name}: there is no {name}"


@each_document
def test_names_of_the_code_exist(path):
    everything = "\n".join(each.read_text(encoding="utf-8") for each in [*SOURCES, ROOT / "Makefile"])
    for name in quoted(path):
        bare = re.sub(r"\(.*", "", name)
        if re.fullmatch(r"(headrace|bench)(\.\w+)+", bare) and not bare.endswith((".py", ".log", ".md")):
            assert dotted_name_exists(bare), f"{path.name}: the code has no {bare}"
        elif match := re.fullmatch(r"([A-Z]\w*[a-z]\w*)\.(\w+)", bare):
            assert match[2] in CLASSES.get(match[1], ()), f"{path.name}: the code has no {bare}"
        elif re.fullmatch(r"_?[A-Z]+[a-z]+[A-Z]\w*", name) or re.fullmatch(r"[A-Z]+(_[A-Z]+)+", name):
            known = re.search(rf"\b{name}\b", everything) or name in FOREIGN or name in COMMAND_TAGS
            assert known, f"{path.name}: {name} is not in the code"
        elif re.fullmatch(r"_?[a-z]+(_[a-z]+)+", name):
            assert re.search(rf"\b{name}\b", everything), f"{path.name}: {name} is not in the code"


FOREIGN = {"DataFrame", "FileSystem", "TIMESTAMP_NTZ"}
COMMAND_TAGS = {"CREATE_TABLE"}


@each_document
def test_numbers_of_the_code(path):
    """`NAME` = 1,000 or 64 MiB"""
    known = constants()
    for name, number, unit in re.findall(r"`([A-Z_]+)` = ([\d,]+)( MiB)?", prose(path)):
        value = int(number.replace(",", "")) << (20 if unit else 0)
        assert value in known.get(name, ()), f"{path.name}: {name} is {known.get(name)}"


@pytest.mark.parametrize("path", ALL_TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_resolve(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        found = (path.parent / file).resolve() if file else path
        assert found.exists(), f"{path.name}: {target} leads nowhere"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", found.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in map(_anchor, headings), f"{path.name}: {target} leads nowhere"


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_the_layers_are_the_layers():
    """ARCHITECTURE.md names them in the order of test_layers.py."""
    rows = re.findall(r"^\| (`headrace\..*?) \|", (ROOT / "ARCHITECTURE.md").read_text("utf-8"), flags=re.MULTILINE)
    documented = [tuple(re.findall(r"`([\w.]+)`", row)) for row in rows]
    existing = [tuple(name for name in names if dotted_name_exists(name)) for names in LAYERS]
    assert documented == existing


def test_every_module_is_on_the_map():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    serving = ("serving/wire", "serving/server", "serving/pg_catalog")
    for folder in ("sql", "plan", "state", "backfill", "sources", "operators", "engine", *serving):
        for path in sorted((ROOT / "headrace" / folder).glob("[a-z]*.py")):
            assert re.search(rf"[`/]{path.name}`", text), f"ARCHITECTURE.md does not name {folder}/{path.name}"


# --- reference --------------------------------------------------------------------------------------------------

REFERENCE = ROOT / "docs" / "sql.md"


def test_every_parameter_is_documented():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*)$", REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE))
    for parameter in PARAMETERS.values():
        assert parameter.name in rows, f"docs/sql.md does not have the parameter {parameter.name}"
        default, how = (cell.strip(" `") for cell in rows[parameter.name].split("|")[:2])
        assert default == (parameter.show(parameter.default) or "empty")
        assert how == ("ALTER SYSTEM SET" if parameter.system else "SET")


def test_every_type_is_documented():
    from headrace.types import _SPARK

    text = REFERENCE.read_text(encoding="utf-8")
    for name in (*_SPARK, "numeric"):
        row = re.search(rf"^\| `{name}` \|.*$", text, flags=re.MULTILINE)
        assert row is not None, f"docs/sql.md does not have the type {name}"
        assert f"| `{SqlType(name).spark}` |" in row[0]
    assert f"numeric({DEFAULT_PRECISION},{DEFAULT_SCALE})" in text


def test_every_function_is_documented():
    from headrace.sql.aggregates import _AGGREGATES, _WINDOW_FUNCTIONS, ORDERED_SETS
    from headrace.sql.functions import _HANDLERS
    from headrace.sql.sets import _NAMES as SETS
    from headrace.sql.signatures import SIGNATURES

    text = REFERENCE.read_text(encoding="utf-8")
    section = text[text.index("### Functions") : text.index("### Functions of Spark")]
    documented = set(re.findall(r"`([a-z_0-9]+)`", section))
    not_for_users = {"_array_or_empty", "_rows_from", "_hr_watermark", "_hr_length", "_hr_row"}
    known = {*_AGGREGATES, *_WINDOW_FUNCTIONS, *_HANDLERS, *SIGNATURES, *SETS, *ORDERED_SETS} - not_for_users
    assert documented == known | {"grouping", "jsonb"}


# --- commands ---------------------------------------------------------------------------------------------------


def commands() -> list[tuple[str, str]]:
    found = [
        (path.name, line)
        for path in DOCUMENTS
        for block in blocks(path, "sh")
        for line in block.text.splitlines()
        if line
    ]
    for name, text in (
        ("cli.EXAMPLES", cli.EXAMPLES),
        ("cli.SQL_EXAMPLES", cli.SQL_EXAMPLES),
        ("cli.SERVE_EXAMPLES", cli.SERVE_EXAMPLES),
    ):
        found += [(name, line) for line in text.splitlines() if re.match(r"\s+(headrace|echo) ", line)]
    for path in ALL_TEXTS:
        found += [(path.name, each) for each in quoted(path) if re.match(r"(make|headrace|python -m) ", each)]
    return found


@pytest.mark.parametrize(("source", "line"), commands())
def test_commands_parse(source, line):
    line = re.split(r"\s{4,}|\s>\s", line.strip())[0]  # what is explained beside it; a redirection
    words = shlex.split(line.split(" | ")[-1])
    if words[0] == "headrace":
        options = cli.build_parser().parse_args(words[1:])
        for kind, text in getattr(options, "inputs", None) or []:
            if kind == "command":
                parse(text)
    elif words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert words[1] in targets, f"{source}: make has no {words[1]}"
    else:
        assert words[:2] == ["python", "-m"] and dotted_name_exists(words[2]), f"{source}: {line}"


def test_the_shells_help_parses():
    _, _, statements = shell.HELP.partition("To begin with:")
    assert len(parse(statements)) == 4


@each_document
def test_all_shown_sql_parses(path):
    for block in blocks(path, "sql"):
        assert parse(block.text), f"{path.name}:{block.line}"
    known = {"sql", "sql refused", "text", "text output", "text error", "python", "sh"}
    assert {block.kind for block in blocks(path)} <= known


# --- running ----------------------------------------------------------------------------------------------------


def _shown(result) -> str:
    out = io.StringIO()
    write_table(result, out)
    return out.getvalue()


def _same(shown: str, expected: str) -> bool:
    return [line.rstrip() for line in shown.splitlines()] == [line.rstrip() for line in expected.splitlines()]


@pytest.mark.parametrize("name", ["README.md", "docs/tour.md", "docs/sql.md"])
def test_sql_runs(name, db):
    path, result, error = ROOT / name, None, None
    for block in blocks(path, "sql", "sql refused", "text output", "text error"):
        place = f"{name}:{block.line}"
        if block.kind == "sql":
            for statement in split(block.text):
                try:
                    result = db.sql(statement)
                    if result.columns:
                        result.rows()
                except headrace.HeadraceError as failure:
                    pytest.fail(f"{place}: {statement}\n{failure}")
        elif block.kind == "sql refused":
            for statement, expected in refusals(block.text):
                error = refusal(db, statement)
                assert expected in ("", f"{error.sqlstate}: {error.message}"), f"{place}: {statement}\n{error}"
        elif block.kind == "text output":
            shown = _shown(result)
            assert _same(shown, block.text), f"{place}: it answers\n{shown}"
        else:
            assert block.text.strip() == error.message, place


def refusals(text: str) -> list[tuple[str, str]]:
    """Statements, and the error in the comment below each; where there is none, a block "text error" has its message.

    >>> refusals("SELECT x;\\n-- 42703: no x\\nSELECT\\n  y;\\n")
    [('SELECT x', '42703: no x'), ('SELECT\\n  y', '')]
    """
    found = re.findall(r"((?:(?!-- ).*\n)+?)(?:-- (.*)\n|(?<=;\n)(?!-- ))", text)
    return [(statement.strip().removesuffix(";"), error) for statement, error in found]


def refusal(db, statement: str) -> headrace.HeadraceError:
    with pytest.raises(headrace.HeadraceError) as caught:
        db.sql(statement).rows()
    return caught.value


# --- what views can have ----------------------------------------------------------------------------------------


def table(path: Path, heading: str) -> list[list[str]]:
    """The rows of the table below a line of headings, without their backticks."""
    _, _, below = path.read_text(encoding="utf-8").partition(f"\n{heading}\n")
    rows = re.match(r"(\|.*\n)+", below)[0].splitlines()[1:]
    return [[cell.strip().strip("`").replace("\\|", "|") for cell in row[1:-1].split(" | ")] for row in rows]


FOLLOWED = table(REFERENCE, "| Construct | Example | Rule |")
ANEW = table(REFERENCE, "| Construct | Example | Rule, an error with `refresh = 'incremental'` |")
REFUSED = table(REFERENCE, "| Refused | Example | Error |")


def _rules(lines: list[str]) -> str:
    """Of the operators that are not linear, without the names of keys."""
    found = [re.sub(r" \[.*?\]", "", each) for each in re.findall(r"incremental: (.*) }", "\n".join(lines))]
    return "; ".join(dict.fromkeys(each for each in found if each != "linear")) or "linear"


def _sorted(rows: list[tuple]) -> list[str]:
    """Floats may have been added up in another order."""
    return sorted(repr([f"{each:.9g}" if isinstance(each, float) else each for each in row]) for row in rows)


def test_what_views_can_have(db):
    """Each example is followed by the rule that stands beside it, and says afterwards what its query says."""
    (schema,) = (block for block in blocks(REFERENCE, "sql") if "CREATE TABLE log " in block.text)
    for statement in split(schema.text):
        db.sql(statement)
    examples = {f"v{at}": row for at, row in enumerate([*FOLLOWED, *ANEW])}
    for name, (_, query, rule) in examples.items():
        told = _rules([line for (line,) in db.sql(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {query}").rows()])
        assert told == rule, query
        followed = f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'incremental') AS {query}"
        if [_, query, rule] in FOLLOWED:
            db.sql(followed)
        else:
            assert "can only be computed anew as a whole" in refusal(db, followed).message, query
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    db.sql("INSERT INTO u SELECT n, n % 4, n % 5 FROM generate_series(1, 8) AS g (n)")
    ago = "now() - n * n * INTERVAL '1 minute'"
    db.sql(f"INSERT INTO t SELECT n, n % 5, n % 4, 'a b' || n % 2, {ago} FROM generate_series(1, 12) AS g (n)")
    times = "TIMESTAMP '2026-01-01' + n * INTERVAL '1 minute'"
    db.sql(f"INSERT INTO log SELECT n % 5, n, {times} FROM generate_series(1, 12) AS g (n)")
    for name, (_, query, _) in examples.items():
        if query.endswith("EMIT ON WINDOW CLOSE"):  # which is not for queries
            assert db.sql(f"CHECK MATERIALIZED VIEW {name}").rows()[0][0].startswith("equal"), query
            continue
        shown, asked = (_sorted(db.sql(each).rows()) for each in (f"SELECT * FROM {name}", query))
        assert shown == asked and shown, query


def test_what_views_cannot_have(db):
    (schema,) = (block for block in blocks(REFERENCE, "sql") if "CREATE TABLE log " in block.text)
    for statement in split(schema.text):
        db.sql(statement)
    for _, query, expected in REFUSED:
        error = refusal(db, f"CREATE MATERIALIZED VIEW v AS {query}")
        assert f"{error.sqlstate}: {error.message}" == expected, query


def test_the_tours_epochs_and_files_are_what_it_says(db, warehouse):
    """The values of the worked example: vnodes, weights, bounds, versions."""
    import pyarrow.parquet as pq

    from headrace.state.manifest import decode

    tour = blocks(ROOT / "docs" / "tour.md", "sql")
    for block in tour[:2]:
        for statement in split(block.text)[: 3 if block is tour[0] else 1]:
            db.sql(statement)
    change = decode((Path(warehouse) / "manifest/000000000005.json").read_bytes(), "000000000005.json")
    assert (change.version, change.epoch, sorted(change.runs)) == (5, 4, [1, 2])
    shown = {}
    for relation_id, added in change.runs.items():
        ((place, run),) = added.add
        (file,) = run.files
        rows = pq.ParquetFile(Path(warehouse) / file.path).read().to_pylist()
        shown[relation_id] = [tuple(map(str, row.values())) for row in rows]
        assert (place, file.low.hex(), file.high.hex()) == (1, "00290080000001", "002f0080000003")
        assert (file.rows, file.groups, file.retractions) == (len(rows), 1, 1)
    assert shown == {
        1: [
            ("1", "tea", "4.50", "41", "4", "-1"),
            ("1", "tea", "12.00", "41", "4", "1"),
            ("3", "pen", "1.20", "47", "4", "1"),
        ],
        2: [("1", "TEA", "41", "4", "-1"), ("3", "PEN", "47", "4", "1")],
    }
    text = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    for rows in shown.values():
        for row in rows:
            assert re.search(r"^ +" + r" +".join(map(re.escape, row)) + "$", text, flags=re.MULTILINE), row


def test_python_of_the_readme_runs(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    connect, read = headrace.connect, headrace.read
    monkeypatch.setattr(headrace, "connect", lambda warehouse, **more: connect(warehouse, spark=spark, **more))
    monkeypatch.setattr(headrace, "read", lambda warehouse, name, **more: read(warehouse, name, spark=spark, **more))
    for block in blocks(ROOT / "README.md", "python"):
        exec(compile(block.text, f"README.md:{block.line}", "exec"), {"__name__": "readme"})
