"""Executors that are processes of their own: nothing may rely on being where the driver is."""

from __future__ import annotations

import os
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
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
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
