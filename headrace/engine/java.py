"""Finds the Java that Spark is going to start, and says in one sentence what is wrong with it.

Spark's own launcher fails with a stack trace, or hangs, when Java is missing, too old, or cannot get its memory. This
asks the same binary first: ``java -Xmx… -version`` answers in about 50 ms, and answers all three questions at once.

    require_java(driver_memory="1g")
    → Java(path='/usr/bin/java', version='17.0.15', major=17)
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import EnvironmentProblem

OLDEST = 17
INSTALL = "install OpenJDK 17, e.g. `apt install openjdk-17-jre-headless`, or set JAVA_HOME to where it is"
LEAST = 512
"""MiB; Spark asks for 450 of what the Java VM leaves it."""
MEMORY_SETTING = "spark.driver.memory"
_MEBIBYTES = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}
_WANT_OF_MEMORY = re.compile(r"allocate|reserve|memory|heap|mmap", re.IGNORECASE)
_PATIENCE = 30.0  # seconds; a cold container may take several


@dataclass(frozen=True, kw_only=True)
class Java:
    path: str
    version: str
    major: int


def require_java(
    *, driver_memory: str | None = None, environ: Mapping[str, str] = os.environ, machine_mib: int | None = None
) -> Java:
    """The Java that Spark will use, known to be new enough and able to reserve the driver's memory."""
    path = _find(environ)
    mib = None if driver_memory is None else mebibytes(driver_memory)
    if mib is not None and mib < LEAST:
        raise EnvironmentProblem(
            f"{MEMORY_SETTING} = {driver_memory} is too little, Spark does not start with it",
            hint=f"give it {LEAST}m or more",
        )
    failure, said = _ask(path, mib)
    if failure and mib is not None:
        # Was it the memory, or does this Java not run at all?
        without_memory, said_without = _ask(path, None)
        if not without_memory:
            raise _too_much_memory(driver_memory, f"the Java VM says: {failure}")
        failure, said = without_memory, said_without
    if failure and _WANT_OF_MEMORY.search(failure):
        raise EnvironmentProblem(
            f"Java cannot start, there is too little memory for it: {failure}",
            hint="raise the limit of this process: `ulimit -v`, or that of its container",
        )
    if failure:
        raise EnvironmentProblem(f"{path} is not a working Java: {failure}", hint=INSTALL)
    java = _understand(path, said)
    if java.major < OLDEST:
        raise EnvironmentProblem(
            f"Spark needs Java {OLDEST} or newer, but {_origin(path, environ)} is version {java.version}", hint=INSTALL
        )
    # Java reserves address space without looking at what is there, so this must be asked apart.
    machine_mib = machine_mib if machine_mib is not None else machine_mebibytes()
    if mib is not None and machine_mib is not None and mib > machine_mib:
        raise _too_much_memory(driver_memory, f"this machine has {machine_mib} MiB")
    return java


def mebibytes(size: str) -> int:
    """Spark's notation of a size; a bare number means MiB.

    >>> mebibytes("2g"), mebibytes("512mb"), mebibytes("800")
    (2048, 512, 800)
    """
    match = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)b?\s*", size.lower())
    if match is None:
        raise EnvironmentProblem(f"{MEMORY_SETTING} = {size!r} is not a size", hint="write it like 512m or 2g")
    return int(int(match[1]) * _MEBIBYTES[match[2] or "m"])


def machine_mebibytes(cgroup_limit: Path = Path("/sys/fs/cgroup/memory.max")) -> int | None:
    """What this process may use at most: the machine's memory, or less in a container."""
    sizes = []
    try:
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError):
        pass
    try:
        sizes.append(int(cgroup_limit.read_text()))
    except (ValueError, OSError):  # no cgroups, or "max"
        pass
    return min(sizes) // 2**20 if sizes else None


def _find(environ: Mapping[str, str]) -> str:
    # JAVA_HOME first and alone if it is set, because that is what Spark's launcher does.
    if home := environ.get("JAVA_HOME"):
        path = os.path.join(home, "bin", "java")
        if not os.access(path, os.X_OK):
            raise EnvironmentProblem(
                f"JAVA_HOME is {home}, but there is no {path}",
                hint=f"set JAVA_HOME to a Java {OLDEST} or newer, or unset it to use the one on PATH",
            )
        return path
    path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if path is None:
        raise EnvironmentProblem(f"Spark needs Java {OLDEST} or newer, and there is none on PATH", hint=INSTALL)
    return path


def _origin(path: str, environ: Mapping[str, str]) -> str:
    return f"{path} (from JAVA_HOME)" if environ.get("JAVA_HOME") else f"{path} (the first on PATH)"


def _ask(path: str, mib: int | None) -> tuple[str | None, str]:
    """What went wrong, if anything did, and everything that Java printed."""
    command = [path, *([f"-Xmx{mib}m"] if mib is not None else []), "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"it did not answer within {_PATIENCE:.0f} seconds", ""
    except OSError as error:
        return error.strerror or str(error), ""
    said = done.stderr + done.stdout
    if done.returncode == 0:
        return None, said
    # A VM that dies of want of memory speaks in comments.
    lines = [line.strip("# \t") for line in said.splitlines() if line.strip("# \t")]
    # The first line is only a heading; the second says what happened.
    telling = next((line for line in lines if not line.startswith(("Error occurred during", "Picked up "))), None)
    return telling or f"it exited with status {done.returncode}", said


def _understand(path: str, said: str) -> Java:
    match = re.search(r'version "([^"]+)"', said)
    numbers = [int(number) for number in re.findall(r"\d+", match[1])] if match else []
    if not numbers:
        raise EnvironmentProblem(f"{path} does not say which version of Java it is", hint=INSTALL)
    # Up to version 8, Java called itself 1.8.
    major = numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
    return Java(path=path, version=match[1], major=major)


def _too_much_memory(asked: str, why: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"Spark's driver cannot get its {asked} of memory: {why}", hint=f"lower {MEMORY_SETTING}, which is {asked}"
    )
