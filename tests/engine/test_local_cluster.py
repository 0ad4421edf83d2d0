"""Executors that are processes of their own: nothing may rely on being where the driver is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_executors_of_their_own(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    events, settings = tmp_path / "events", tmp_path / "settings"
    events.mkdir()
    settings.mkdir()
    (settings / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.compress false\nspark.eventLog.dir {events.as_uri()}\n"
        "spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["SPARK_CONF_DIR"] = str(settings)
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("cluster_child.py")), str(ROOT), str(tmp_path / "warehouse")],
        cwd=elsewhere,
        env=environment,
        capture_output=True,
        text=True,
        timeout=550,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout.endswith("all is well\n")
    # What goes into a prepared job are rows, and Spark logs the properties that they travel in.
    logged = "".join(file.read_text() for file in events.rglob("*") if file.is_file())
    inputs = re.findall(r'"headrace\.secret\.\w+":"([^"]*)"', logged)
    assert inputs and all(value.endswith("(redacted)") for value in inputs)
    assert "s3cret" not in logged and "s3cret" not in done.stdout + done.stderr
