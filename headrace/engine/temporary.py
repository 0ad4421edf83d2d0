"""Temporary tables: they are stored like others, and go with the session that made them.

A session does not outlive the engine. So those that a crash left behind go when the warehouse is opened again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from headrace.catalog import OF_SESSION, Relation
from headrace.engine.following import without
from headrace.state.manifest import Manifest


def temporary_name(name: str, session: int) -> str:
    """Under which a session's table is stored; several sessions may have one of the same name."""
    return f"{name}{OF_SESSION}{session}"


def is_of_session(relation: Relation, session: int) -> bool:
    return relation.temporary and relation.name == temporary_name(relation.label, session)


def without_temporary(state: Manifest, of: Callable[[Relation], bool] = lambda relation: True) -> Manifest:
    """Without the temporary tables, or those of them."""
    for relation in state.catalog:
        if relation.temporary and of(relation):
            catalog, _ = state.catalog.drop(relation)
            state = without(dataclasses.replace(state, catalog=catalog), relation.id)
    return state
