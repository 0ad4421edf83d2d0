"""What can go wrong between a source and us, whatever database it is."""

from __future__ import annotations

from headrace.errors import EnvironmentProblem, HeadraceError

AGAIN = "RESNAPSHOT TABLE reads it anew, if the columns are there; otherwise drop the table and create it again"
ALL_AGAIN = "drop the source and its tables, and create them again"


class SourceUnreachable(EnvironmentProblem):
    """The server does not answer, or not as it should; trying again may help."""

    sqlstate = "08006"
    retryable = True


class SourceRefused(HeadraceError):
    """The server answers, and what it is asked for cannot be had."""

    sqlstate = "55000"


class TableStopped(HeadraceError):
    """A table cannot follow its source any more; the others of the source go on."""

    sqlstate = "55000"


class SchemaChanged(TableStopped):
    """It could follow, with other columns than it has."""


class MalformedLog(HeadraceError):
    """The server sent what no version that is known sends."""

    sqlstate = "08P01"
