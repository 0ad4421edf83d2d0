"""What a warehouse holds, read from its newest manifest: no engine, no JVM, no lock.

So it answers at once, also while an engine is at work on the warehouse, and says what that engine has committed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from headrace.errors import EnvironmentProblem, Unsupported
from headrace.state.storage import LocalStorage, is_local
from headrace.state.store import ManifestStore


def read_status(warehouse: str) -> dict[str, Any]:
    if not is_local(warehouse):
        raise Unsupported(
            f"status of {warehouse} is not supported: it is not a local folder",
            hint="connect and call status() instead",
        )
    storage = LocalStorage(warehouse)
    folder = storage.root
    manifest = ManifestStore(storage).load()
    if manifest is None:
        raise EnvironmentProblem(
            f"there is no warehouse in {folder}", hint="headrace sql -w PATH creates one; or name another with -w"
        )
    return {
        "warehouse": folder,
        "epoch": manifest.epoch,
        "version": manifest.version,
        "committed_at": datetime.fromtimestamp(manifest.committed_at / 1e6, tz=UTC),
        "writer": f"process {manifest.writer.pid} on {manifest.writer.host}",
        "relations": [
            {
                "name": relation.name,
                "kind": relation.kind,
                "rows": sum(run.live_rows for run in runs) if relation.stored else None,
                "runs": len(runs) if relation.stored else None,
                "bytes": sum(run.bytes for run in runs) if relation.stored else None,
            }
            for relation in manifest.catalog
            if not relation.temporary
            for runs in [manifest.runs.get(relation.id, ())]
        ],
    }
