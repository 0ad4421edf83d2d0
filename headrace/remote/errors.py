"""What a server says is wrong, as the error that an engine in this process would have raised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import errors
from headrace.errors import EnvironmentProblem, HeadraceError

if TYPE_CHECKING:
    import psycopg

CONNECTION_LOST = "08006"


class RemoteError(HeadraceError):
    """What the server said, and no other class stands for."""


class ConnectionLost(EnvironmentProblem):
    sqlstate = CONNECTION_LOST
    retryable = True


def told(error: psycopg.Error, *, positions: bool = True) -> HeadraceError:
    """Without ``positions`` if it points into a text that the user has not written."""
    diagnosis = error.diag
    if error.sqlstate is None:
        return ConnectionLost(f"the connection to the server is lost: {str(error).strip()}")
    kind = _class_of(diagnosis.source_function, error.sqlstate)
    position = diagnosis.statement_position if positions else None
    found = kind(
        diagnosis.message_primary or str(error).strip(),
        hint=diagnosis.message_hint,
        position=None if position is None else int(position),
    )
    found.sqlstate = error.sqlstate
    return found


def _class_of(name: str | None, sqlstate: str) -> type[HeadraceError]:
    """By its name, which the server sends where PostgreSQL names one of its functions; else by the SQLSTATE, if only
    one class has it."""
    known = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, HeadraceError)]
    for kind in known:
        if kind.__name__ == name and kind is not HeadraceError:
            return kind
    of_state = [kind for kind in known if kind.sqlstate == sqlstate and kind is not HeadraceError]
    return of_state[0] if len(of_state) == 1 else RemoteError
