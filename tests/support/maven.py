"""Jars that tests of other languages' clients need, by their Maven coordinates: fetched once, checked, and kept.

Maven knows where to get them, and keeps them in its own repository; there is no network needed a second time. Who has
no Maven can put the jar into the folder of the environment variable ``HEADRACE_TEST_JARS``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
PATIENCE = 300.0


def jar(coordinates: str, sha256: str, folder: Path) -> Path:
    """The jar ``group:artifact:version``, in the folder or in that of the environment; skips the test without it."""
    _, artifact, version = coordinates.split(":")
    name = f"{artifact}-{version}.jar"
    for place in (os.environ.get("HEADRACE_TEST_JARS"), folder):
        if place is not None and (found := Path(place) / name).is_file():
            return _checked(found, sha256)
    if shutil.which("mvn") is None:
        pytest.skip(f"{name} is needed: install Maven, or put it into $HEADRACE_TEST_JARS")
    command = ["mvn", "-q", "-B", _COPY, f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}"]
    for offline in (["-o"], []):
        try:
            done = subprocess.run([*command, *offline], capture_output=True, text=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            pytest.skip(f"Maven did not get {coordinates} within {PATIENCE:.0f} seconds")
        if done.returncode == 0:
            return _checked(folder / name, sha256)
    said = [line for line in done.stdout.splitlines() if "ERROR" in line]
    pytest.skip(f"Maven could not get {coordinates} (is there a network?): {said[0] if said else done.stderr[-300:]}")


def _checked(path: Path, sha256: str) -> Path:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    assert found == sha256, f"{path} is not the file that was expected: its SHA-256 is {found}"
    return path
