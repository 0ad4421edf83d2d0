"""Jars that tests of other languages' clients need, by their Maven coordinates: fetched once, checked, and kept.

Maven knows where to get them, and keeps them in its own repository; there is no network needed a second time. Who has
no Maven can put the jar into the folder of the environment variable ``HEADRACE_TEST_JARS``; a jar with all that it
needs into a folder ``artifact-version`` in there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>headrace</groupId><artifactId>jars</artifactId><version>1</version><dependencies>{}</dependencies></project>"""
PATIENCE = 300.0


def jar(coordinates: str, sha256: str, folder: Path) -> Path:
    """The jar ``group:artifact:version``, in the folder or in that of the environment; skips the test without it."""
    _, artifact, version = coordinates.split(":")
    name = f"{artifact}-{version}.jar"
    for place in (os.environ.get("HEADRACE_TEST_JARS"), folder):
        if place is not None and (found := Path(place) / name).is_file():
            return _checked(found, sha256)
    _maven(coordinates, f"{_PLUGIN}:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}")
    return _checked(folder / name, sha256)


def archive(coordinates: str, folder: Path) -> Path:
    """What ``group:artifact:version:type:classifier`` is, checked by Maven itself, against the sum beside it."""
    _, artifact, version, kind, classifier = coordinates.split(":")
    name = f"{artifact}-{version}-{classifier}.{kind}"
    given = Path(os.environ.get("HEADRACE_TEST_JARS", "")) / name
    if not given.is_file():
        _maven(coordinates, f"{_PLUGIN}:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}")
        given = folder / name
    return given


def jars(coordinates: Sequence[str], folder: Path, *, without: Sequence[str] = ()) -> list[Path]:
    """The jars ``group:artifact:version`` with all that they need, but what is left out (``group:artifact``). They are
    checked by Maven itself, against the sums beside them."""
    _, artifact, version = coordinates[0].split(":")
    given = Path(os.environ.get("HEADRACE_TEST_JARS", "")) / f"{artifact}-{version}"
    if given.is_dir():
        return sorted(given.glob("*.jar"))
    left_out = "".join(f"<exclusion>{_element(each)}</exclusion>" for each in without)
    needed = "".join(
        f"<dependency>{_element(each)}<exclusions>{left_out}</exclusions></dependency>" for each in coordinates
    )
    folder.mkdir(parents=True)
    pom = folder / "pom.xml"
    pom.write_text(_POM.format(needed))
    copy = (f"{_PLUGIN}:copy-dependencies", f"-DoutputDirectory={folder}", "-DincludeScope=runtime")
    _maven(coordinates[0], "-f", str(pom), *copy)
    return sorted(folder.glob("*.jar"))


def _element(coordinates: str) -> str:
    names = ("groupId", "artifactId", "version")
    return "".join(f"<{name}>{part}</{name}>" for name, part in zip(names, coordinates.split(":"), strict=False))


def _maven(wanted: str, *command: str) -> None:
    """Without the network, if it has all of it; skips the test if it cannot get it."""
    if shutil.which("mvn") is None:
        pytest.skip(f"{wanted} is needed: install Maven, or put it into $HEADRACE_TEST_JARS")
    for offline in (["-o"], []):
        try:
            done = subprocess.run(
                ["mvn", "-q", "-B", *command, *offline], capture_output=True, text=True, timeout=PATIENCE
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"Maven did not get {wanted} within {PATIENCE:.0f} seconds")
        if done.returncode == 0:
            return
    said = [line for line in done.stdout.splitlines() if "ERROR" in line]
    pytest.skip(f"Maven could not get {wanted} (is there a network?): {said[0] if said else done.stderr[-300:]}")


def _checked(path: Path, sha256: str) -> Path:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    assert found == sha256, f"{path} is not the file that was expected: its SHA-256 is {found}"
    return path
