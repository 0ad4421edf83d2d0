"""Files of a real S3 server. The Spark of the other tests has no client for it, so there is one more, in a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.sources.conftest import ROOT
from tests.support.s3 import ACCESS_KEY, S3, SECRET_KEY

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For all JVMs, those of Python workers, too: what is to be read here is little, and compiling well takes longer"""

CHILD = Path(__file__).with_name("s3_child.py")


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    server = S3(bucket="logs")
    yield server
    server.remove()


@pytest.mark.slow
def test_objects_become_views(s3, tmp_path):
    (events := tmp_path / "events").mkdir()
    (settings := tmp_path / "conf").mkdir()
    (settings / "spark-defaults.conf").write_text(
        f"spark.jars {','.join(map(str, s3.client))}\nspark.eventLog.enabled true\n"
        f"spark.eventLog.dir {events.as_uri()}\nspark.eventLog.compress false\n"
    )
    warehouse = tmp_path / "warehouse"
    done = subprocess.run(
        [sys.executable, str(CHILD), str(ROOT), str(warehouse), s3.endpoint, ACCESS_KEY],
        env=os.environ | {"SPARK_CONF_DIR": str(settings), "JAVA_TOOL_OPTIONS": QUICK},
        input=SECRET_KEY, capture_output=True, text=True, timeout=250,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout.endswith("all is well\n")
    assert SECRET_KEY not in done.stdout + done.stderr
    for folder in (events, warehouse):
        for file in folder.rglob("*"):
            if file.is_file() and file.parent.name != "secrets":
                assert SECRET_KEY.encode() not in file.read_bytes(), f"{file} has the key in it"
