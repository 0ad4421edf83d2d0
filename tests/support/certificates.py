"""Keys and certificates for servers and clients of the tests."""

from __future__ import annotations

import subprocess
from pathlib import Path


def certificate(folder: Path, name: str, authority: str | None, *more: str) -> None:
    """A key and a certificate for a name, signed by an authority, or by itself."""
    run = [
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
        "-keyout", f"{name}.key", "-out", f"{name}.crt", *more,
    ]  # fmt: skip
    if authority is not None:
        run += ["-CA", f"{authority}.crt", "-CAkey", f"{authority}.key"]
    subprocess.run(run, cwd=folder, check=True, capture_output=True)
    (folder / f"{name}.key").chmod(0o600)
