"""What every test can ask for: one Spark session per worker, a fresh warehouse, a database on it.

Tests in ``tests/unit``, ``tests/backfill`` and ``tests/sources`` never start a JVM; all others are marked ``spark``.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.spark import start_spark

# Examples are random; a failure prints the blob that replays it.
settings.register_profile(
    "default", print_blob=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=100
)
settings.register_profile("quick", settings.get_profile("default"), max_examples=20)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Of every JVM that a test starts, in processes of its own, too, beside what whoever started the tests has asked for.
# The optimizing compiler, and collecting garbage in parallel, take more of two processors than they give back: two
# workers got through 104 rounds of small statements in the time in which they got through 55 without these options.
FRUGAL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
if FRUGAL not in os.environ.get("SPARK_SUBMIT_OPTS", ""):
    os.environ["SPARK_SUBMIT_OPTS"] = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {FRUGAL}".strip()


def _new_seed() -> int:
    """By hand, another one in each run. In CI, another one for each state of the code: what it says of a change can be
    had again, and is about the change."""
    if os.environ.get("CI"):
        asked = ["git", "rev-parse", "HEAD:headrace"]
        found = subprocess.run(asked, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return int(found.stdout, 16) % 1_000_000
    return random.SystemRandom().randrange(1_000_000)


# Of everything random. Workers inherit it, so one line says what to ask for to have the
# same again; it is drawn into while tests run, because all workers must collect the same ones.
DRAWN = os.environ.setdefault("HEADRACE_DRAWN", str(_new_seed()))

HERE = Path(__file__).parent
WITHOUT_JVM = (HERE / "unit", HERE / "backfill", HERE / "sources", HERE.parent / "headrace")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """What hypothesis draws is known by the same number, where that is asked for or has to be had again."""
    asked = os.environ.get("HEADRACE_SEED") or (DRAWN if os.environ.get("CI") else None)
    if asked is not None and config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = asked


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    for item in items:
        if not any(item.path.is_relative_to(folder) for folder in WITHOUT_JVM):
            item.add_marker(pytest.mark.spark)
    yield
    for item in items:
        _tell_the_group(item)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"HEADRACE_SEED={os.environ.get('HEADRACE_SEED') or DRAWN} draws the same again")


def _tell_the_group(item: pytest.Item) -> None:
    """Puts the mark xdist_group into the id of a test, from which the scheduler knows it.

    pytest-xdist 3.8 writes it to ``_nodeid``, where pytest 9.2 no longer has the id. Without it every worker starts the
    servers of all groups.
    """
    grouped = getattr(item, "_nodeid", item.nodeid)
    if item.nodeid != grouped:
        item._id = type(item._id).parse(grouped)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    session = start_spark(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    return str(tmp_path / "warehouse")


@pytest.fixture
def db(spark, warehouse: str) -> Iterator:
    import headrace

    with headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "100ms"}) as database:
        yield database
