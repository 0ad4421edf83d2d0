"""Imports point one way, and only the modules that run Spark import it.

Both tables below are the architecture: a new module finds its place here, or does not fit.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# From the bottom up. A module may import its own layer and those below it; the longest matching name decides.
LAYERS = (
    ("headrace.errors", "headrace.notices", "headrace.failpoints"),
    (
        "headrace.types",
        "headrace.intervals",
        "headrace.uuids",
        "headrace.times",
        "headrace.arrow_values",
        "headrace.zones",
        "headrace.decimals",
    ),
    ("headrace.catalog", "headrace.config"),
    # Text of values: needs types only, and everybody above may print.
    ("headrace.serving.render", "headrace.serving.table", "headrace.serving.output"),
    ("headrace.sql",),
    ("headrace.plan",),
    ("headrace.state",),
    ("headrace.backfill",),
    ("headrace.cdc", "headrace.sources"),
    ("headrace.operators",),
    ("headrace.engine",),
    ("headrace.serving",),
    ("headrace.database",),
    ("headrace.service", "headrace.remote"),
    ("headrace.shell",),
    ("headrace.demo",),
    ("headrace.cli",),
)

# The only modules that import pyspark. Everything else runs, and is tested, without a JVM.
SPARK = (
    "headrace.state.prepared",
    "headrace.state.writer",
    "headrace.state.hadoop_files",
    "headrace.state.native",
    "headrace.state.scan",
    "headrace.state.lookup",
    "headrace.state.first_rows",
    "headrace.operators",
    "headrace.engine",
)

# The front door: it knows all layers, but loads them when they are first used.
FRONT_DOOR = ("headrace", "headrace.__main__")


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted((ROOT / "headrace").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def imports(path: Path, module: str) -> set[str]:
    """Everything that the file imports, also inside functions; `from a import b` may mean the module a.b."""
    found = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    # What only the type checker sees is not imported.
    unseen = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in unseen:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} uses a relative import; name the module in full"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def within(module: str, name: str) -> bool:
    return module == name or module.startswith(f"{name}.")


def layer(module: str) -> int:
    matches = [(len(name), number) for number, names in enumerate(LAYERS) for name in names if within(module, name)]
    assert matches, f"{module} has no layer: add it to LAYERS"
    return max(matches)[1]


MODULES = {name: path for name, path in modules().items() if name not in FRONT_DOOR}


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module):
    for imported in imports(MODULES[module], module):
        if within(imported, "headrace") and imported.split(".")[1:2] != ["__version__"]:
            if imported == "headrace":  # the front door itself: what a user imports
                assert layer(module) >= layer("headrace.shell"), f"{module} imports the package it is part of"
                continue
            assert layer(imported) <= layer(module), f"{module} imports {imported}, which is above it"


@pytest.mark.parametrize("module", MODULES)
def test_spark_is_imported_only_where_it_runs(module):
    if not any(within(module, allowed) for allowed in SPARK):
        heavy = {name for name in imports(MODULES[module], module) if name.split(".")[0] in ("pyspark", "py4j")}
        assert not heavy, f"{module} imports {heavy}; only modules in SPARK may"


def test_the_pure_modules_load_without_spark():
    """Not even indirectly, and not through the package itself."""
    pure = [
        name
        for name in MODULES
        if layer(name) <= layer("headrace.cdc") and not any(within(name, allowed) for allowed in SPARK)
    ]
    pure += ["headrace", "headrace.cli", "headrace.shell", "headrace.engine.java"]
    present = [name for name in pure if name in modules()]
    script = "import importlib, sys\n" + "".join(f"importlib.import_module({name!r})\n" for name in present)
    script += "assert 'pyspark' not in sys.modules, 'pyspark was imported'\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
