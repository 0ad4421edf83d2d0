"""Java is played by shell scripts that answer as real ones do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.engine import java
from headrace.errors import EnvironmentProblem

OPENJDK_17 = "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2"
NO_HEAP = """
case "$1" in -Xmx*)
  echo "Error occurred during initialization of VM" >&2
  echo "Could not reserve enough space for 4194304KB object heap" >&2
  exit 1;;
esac
"""


@pytest.fixture
def fake(tmp_path: Path):
    """Writes a java that runs the script, and returns the environment in which it is the one to find."""

    def write(script: str, *, by: str = "PATH") -> dict[str, str]:
        binary = tmp_path / "jdk" / "bin" / "java"
        binary.parent.mkdir(parents=True)
        binary.write_text(f"#!/bin/sh\n{script}\n")
        binary.chmod(0o755)
        if by == "JAVA_HOME":
            return {"JAVA_HOME": str(binary.parent.parent), "PATH": os.defpath}
        return {"PATH": str(binary.parent)}

    return write


def problem(**arguments) -> EnvironmentProblem:
    with pytest.raises(EnvironmentProblem) as caught:
        java.require_java(**arguments)
    return caught.value


@pytest.mark.parametrize("by", ["PATH", "JAVA_HOME"])
def test_found(fake, by):
    environ = fake(OPENJDK_17, by=by)
    found = java.require_java(driver_memory="1g", environ=environ, machine_mib=4096)
    assert (found.version, found.major) == ("17.0.15", 17)
    assert found.path.endswith("jdk/bin/java")


@pytest.mark.parametrize(("version", "major"), [("1.8.0_402", 8), ("11.0.2", 11)])
def test_too_old(fake, version, major):
    error = problem(environ=fake(f"echo 'java version \"{version}\"' >&2"))
    assert f"is version {version}" in error.message
    assert "jdk/bin/java (the first on PATH)" in error.message
    assert "openjdk-17-jre-headless" in error.hint


def test_too_old_in_java_home(fake):
    error = problem(environ=fake("echo 'openjdk version \"11.0.2\"' >&2", by="JAVA_HOME"))
    assert "jdk/bin/java (from JAVA_HOME) is version 11.0.2" in error.message


@pytest.mark.parametrize(("version", "major"), [("17", 17), ("21-ea", 21), ("25.0.1", 25)])
def test_new_enough(fake, version, major):
    assert java.require_java(environ=fake(f"echo 'openjdk version \"{version}\" 2026-01-01' >&2")).major == major


def test_none(tmp_path):
    error = problem(environ={"PATH": str(tmp_path)})
    assert error.message == "Spark needs Java 17 or newer, and there is none on PATH"
    assert "apt install openjdk-17-jre-headless" in error.hint and "JAVA_HOME" in error.hint


def test_java_home_without_java(fake, tmp_path):
    environ = fake(OPENJDK_17) | {"JAVA_HOME": str(tmp_path / "nowhere")}
    error = problem(environ=environ)
    # The good one on PATH does not help: Spark would not look there.
    assert f"JAVA_HOME is {tmp_path / 'nowhere'}, but there is no" in error.message
    assert "unset it" in error.hint


def test_a_stub_that_only_advertises(fake):
    error = problem(environ=fake("echo 'Unable to locate a Java Runtime.' >&2; exit 1"), driver_memory="1g")
    assert "is not a working Java: Unable to locate a Java Runtime." in error.message


def test_not_executable_format(fake):
    environ = fake(OPENJDK_17)
    Path(environ["PATH"], "java").write_bytes(b"\x00\x01")
    assert "is not a working Java" in problem(environ=environ).message


def test_no_version_in_the_answer(fake):
    assert "does not say which version" in problem(environ=fake("echo hello")).message


def test_the_vm_cannot_reserve_the_heap(fake):
    error = problem(environ=fake(NO_HEAP + OPENJDK_17), driver_memory="4g")
    assert error.message == (
        "Spark's driver cannot get its 4g of memory: the Java VM says: "
        "Could not reserve enough space for 4194304KB object heap"
    )
    assert error.hint == "lower spark.driver.memory, which is 4g"


def test_more_memory_than_the_machine_has(fake):
    error = problem(environ=fake(OPENJDK_17), driver_memory="64g", machine_mib=16_000)
    assert error.message == "Spark's driver cannot get its 64g of memory: this machine has 16000 MiB"
    assert "spark.driver.memory" in error.hint


def test_the_heap_is_really_asked_for(fake, tmp_path):
    environ = fake(f'echo "$@" > {tmp_path}/arguments; {OPENJDK_17}')
    java.require_java(environ=environ, driver_memory="2g", machine_mib=4096)
    assert (tmp_path / "arguments").read_text() == "-Xmx2048m -version\n"


def test_not_a_size(fake):
    assert "'lots' is not a size" in problem(environ=fake(OPENJDK_17), driver_memory="lots").message


def test_container_limit(tmp_path):
    limit = tmp_path / "memory.max"
    limit.write_text("536870912\n")
    assert java.machine_mebibytes(limit) == 512
    limit.write_text("max\n")
    assert java.machine_mebibytes(limit) == java.machine_mebibytes(tmp_path / "absent")


@pytest.mark.parametrize("before", ["", "#\n# "])
def test_no_memory_for_java_itself(fake, before):
    """It is there and new enough: to install it would not help."""
    said = "Could not allocate compressed class space: 1073741824 bytes"
    error = problem(environ=fake(f"echo '{before}{said}' >&2; exit 1"))
    assert error.message == f"Java cannot start, there is too little memory for it: {said}"
    assert "ulimit -v" in error.hint


def test_less_memory_than_spark_needs(fake):
    environ = fake(OPENJDK_17)
    error = problem(environ=environ, driver_memory="16m")
    assert error.message == "spark.driver.memory = 16m is too little, Spark does not start with it"
    assert error.hint == "give it 512m or more"
    java.require_java(environ=environ, driver_memory="512m", machine_mib=4096)
