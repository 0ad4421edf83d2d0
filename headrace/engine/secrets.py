"""Secrets: each value in a file of its own, under ``secrets/`` of the warehouse, that only its owner can read.

The manifest has names only. Manifests are read, copied and shown for many reasons; these files for one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import uuid
from typing import Any

from headrace.engine import feeds
from headrace.errors import CorruptWarehouse, DependentObjects, DuplicateRelation, UndefinedRelation
from headrace.notices import exists_already
from headrace.sql import statements as ast
from headrace.state.manifest import Manifest
from headrace.state.storage import LocalStorage, Storage

PREFIX = "secret:"
USED = "cdc_source:"


def names(state: Manifest) -> list[str]:
    return sorted(key.removeprefix(PREFIX) for key in state.offsets if key.startswith(PREFIX))


def value(storage: Storage, state: Manifest, name: str) -> str:
    if (path := state.offsets.get(PREFIX + name)) is None:
        raise UndefinedRelation(f'secret "{name}" does not exist', hint="CREATE SECRET name AS 'value'")
    try:
        return storage.read(path).decode()
    except FileNotFoundError:
        raise CorruptWarehouse(
            f'the value of secret "{name}" is gone: there is no {path}', hint="drop the secret and create it again"
        ) from None


class Secrets:
    def __init__(self, storage: Storage):
        self._storage = storage

    def create(self, statement: ast.CreateSecret) -> Any:
        def apply(state: Manifest, epoch: int) -> tuple[Manifest, Any]:
            if PREFIX + statement.name in state.offsets:
                if statement.if_not_exists:
                    return state, exists_already(f'secret "{statement.name}"', "42710")
                raise DuplicateRelation(f'secret "{statement.name}" already exists', hint="drop it first")
            path = f"secrets/{uuid.uuid4().hex}"
            self._write(path, statement.value.encode())
            return dataclasses.replace(state, offsets=state.offsets | {PREFIX + statement.name: path}), None

        return apply

    def _write(self, path: str, data: bytes) -> None:
        if isinstance(self._storage, LocalStorage):
            folder = os.path.join(self._storage.root, "secrets")
            os.makedirs(folder, mode=0o700, exist_ok=True)
            os.chmod(folder, 0o700)  # before there is anything in it
        self._storage.write(path, data)

    def drop(self, statement: ast.DropSecret) -> Any:
        def apply(state: Manifest, epoch: int) -> tuple[Manifest, Any]:
            offsets, gone, notices = dict(state.offsets), [], []
            for name in statement.names:
                if PREFIX + name not in offsets:
                    if not statement.if_exists:
                        raise UndefinedRelation(f'secret "{name}" does not exist')
                    notices.append(f'secret "{name}" does not exist, skipping')
                    continue
                for key, data in offsets.items():
                    if key.startswith(USED) and data["secret"] == name:
                        user = state.catalog.relations[int(key.removeprefix(USED))].name
                        raise DependentObjects(f'cannot drop secret "{name}" because source "{user}" uses it')
                for key, data in offsets.items():
                    if key.startswith(feeds.USERS) and name in data["secrets"].values():
                        user = state.catalog.relations[int(key.partition(":")[2])]
                        raise DependentObjects(f'cannot drop secret "{name}" because {user.kind} "{user.name}" uses it')
                gone.append(offsets.pop(PREFIX + name))
            changed = dataclasses.replace(state, offsets=offsets)
            return changed, (gone, "; ".join(notices) or None)

        return apply

    def forget(self, paths: list[str]) -> None:
        """Once a commit no longer names them."""
        with contextlib.suppress(Exception):
            self._storage.delete(paths)
