from __future__ import annotations

from pathlib import Path

import pytest

from tests.slt.runner import MODES, Client, Mode, connector, files, run_file


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("path", files([]), ids=lambda path: path.stem)
def test_slt(path: Path, mode: Mode, spark, tmp_path: Path):
    client = Client(connector(spark, tmp_path / "warehouse", mode), mode)
    try:
        run_file(path, client)
    finally:
        client.close()
