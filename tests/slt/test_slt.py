from __future__ import annotations

from pathlib import Path

import pytest

from tests.slt.runner import Client, Mode, connector, files, modes_of, run_file

# All files run plain, too: tests/server/test_slt_over_the_wire.py does that, through a server.
CASES = [
    pytest.param(path, mode, id=f"{path.stem}-{mode.name}")
    for path in files([])
    for mode in modes_of(path)
    if mode.name != "plain"
]


@pytest.mark.parametrize(("path", "mode"), CASES)
def test_slt(path: Path, mode: Mode, spark, tmp_path: Path):
    client = Client(connector(spark, tmp_path / "warehouse", mode), mode)
    try:
        run_file(path, client)
    finally:
        client.close()
