"""Errors that say whose fault it is, what to do, and whether to retry.

Every error carries a SQLSTATE (so that a wire protocol can pass it on), an optional hint (what to do) and an
optional position (1-based character offset into the statement). All of them survive pickling, because some are
raised in Spark's Python workers.

>>> str(UndefinedRelation("relation \\"t\\" does not exist", hint="SHOW TABLES lists what there is"))
'relation "t" does not exist\\nHINT: SHOW TABLES lists what there is'
"""

from __future__ import annotations

import re
from typing import Any


class HeadraceError(Exception):
    """Base of all errors that Headrace raises on purpose."""

    sqlstate = "XX000"
    retryable = False
    of_statement = False
    """Whether a statement is to blame that shared an epoch with others, and with chunks of backfills."""

    def __init__(self, message: str, *, hint: str | None = None, position: int | None = None):
        self.message, self.hint = _as_written(message), _as_written(hint)
        super().__init__(self.message)
        self.position = position

    @property
    def for_log(self) -> str:
        """What may stand in a log: no values of rows."""
        return self.message

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nHINT: {self.hint}"

    def __reduce__(self):
        return _rebuild, (type(self), self.message, self.hint, self.position)


def _as_written(text: str | None) -> Any:
    """Whose a temporary table is stands in its name, behind a NUL, and is no news to anybody."""
    return re.sub(r"\0\d*", "", text) if text and "\0" in text else text


def _rebuild(cls: type[HeadraceError], message: str, hint: str | None, position: int | None) -> HeadraceError:
    return cls(message, hint=hint, position=position)


# --- the statement is wrong -------------------------------------------------------------------------------------


class SqlSyntaxError(HeadraceError):
    sqlstate = "42601"


class Unsupported(HeadraceError):
    """Understood, but not something Headrace does; the message names the construct."""

    sqlstate = "0A000"


class UndefinedRelation(HeadraceError):
    sqlstate = "42P01"


class UndefinedColumn(HeadraceError):
    sqlstate = "42703"


class AmbiguousColumn(UndefinedColumn):
    sqlstate = "42702"


class UndefinedCollation(HeadraceError):
    sqlstate = "42704"


class UndefinedParameter(HeadraceError):
    sqlstate = "42704"


class DuplicateRelation(HeadraceError):
    sqlstate = "42P07"


class DuplicateColumn(HeadraceError):
    sqlstate = "42701"


class DuplicateAlias(HeadraceError):
    sqlstate = "42712"


class UndefinedType(HeadraceError):
    sqlstate = "42704"


class UndefinedParameterNumber(HeadraceError):
    sqlstate = "42P02"


class InvalidColumnReference(HeadraceError):
    """A clause that speaks of the columns of a result, and means none of them."""

    sqlstate = "42P10"


class WrongObjectKind(HeadraceError):
    sqlstate = "42809"


class TypeMismatch(HeadraceError):
    sqlstate = "42804"


class CannotCast(TypeMismatch):
    """There is no cast between these types."""

    sqlstate = "42846"


class UndefinedFunction(TypeMismatch):
    """No function or operator of that name takes these types."""

    sqlstate = "42883"


class GroupingError(HeadraceError):
    sqlstate = "42803"


class WindowingError(HeadraceError):
    sqlstate = "42P20"


class InvalidDefinition(HeadraceError):
    sqlstate = "42P16"


class InvalidParameterValue(HeadraceError):
    sqlstate = "22023"


class DependentObjects(HeadraceError):
    sqlstate = "2BP01"


# --- the data is wrong ------------------------------------------------------------------------------------------


class _OfValues(HeadraceError):
    """The message may quote what rows hold."""

    @property
    def for_log(self) -> str:
        return f"{type(self).__name__} {self.sqlstate}"


class DataError(_OfValues):
    """A value cannot be what the statement asks for: division by zero, overflow, a bad cast."""

    sqlstate = "22000"

    def __init__(
        self, message: str, *, hint: str | None = None, position: int | None = None, sqlstate: str | None = None
    ):
        super().__init__(message, hint=hint, position=position)
        if sqlstate is not None:
            self.sqlstate = sqlstate

    def __reduce__(self):
        return _rebuild_data_error, (type(self), self.message, self.hint, self.position, self.sqlstate)


def _rebuild_data_error(cls, message, hint, position, sqlstate):
    return cls(message, hint=hint, position=position, sqlstate=sqlstate)


class NotNullViolation(_OfValues):
    sqlstate = "23502"


class UniqueViolation(_OfValues):
    sqlstate = "23505"


# --- the surroundings are wrong ---------------------------------------------------------------------------------


class EnvironmentProblem(HeadraceError):
    """Java, memory, disk or network: something outside Headrace must be fixed first."""

    sqlstate = "58000"


class SparkGone(EnvironmentProblem):
    """Spark's Java process has ended: nothing can be computed any more."""


class StorageError(EnvironmentProblem):
    sqlstate = "58030"
    retryable = True


class DiskFull(StorageError):
    sqlstate = "53100"
    retryable = False


class CorruptWarehouse(HeadraceError):
    sqlstate = "XX001"


class WarehouseInUse(HeadraceError):
    sqlstate = "55006"


class Fenced(HeadraceError):
    """Another engine has taken the warehouse over; this one can commit nothing more."""

    sqlstate = "57P02"


class EpochFailed(HeadraceError):
    """An epoch failed for a reason that is not the statement's; nothing of it is visible."""

    sqlstate = "58000"
    retryable = True


class SparkJobCancelled(EpochFailed):
    """Somebody cancelled Spark's jobs, the engine's too: Spark's own handler does when a program is interrupted."""


class JobFailed(HeadraceError):
    """A view could not be filled; the message says why."""

    sqlstate = "55000"


class ObjectNotReady(HeadraceError):
    """It is there, but not complete."""

    sqlstate = "55000"


class UndefinedJob(HeadraceError):
    sqlstate = "42704"


class JobCancelled(HeadraceError):
    sqlstate = "57014"


class EngineClosed(HeadraceError):
    sqlstate = "57P01"


class QueryCancelled(HeadraceError):
    sqlstate = "57014"


class FailedTransaction(HeadraceError):
    """After an error in a transaction, until it is ended."""

    sqlstate = "25P02"


class ReadOnlyTransaction(HeadraceError):
    """The client asked for a transaction that writes nothing."""

    sqlstate = "25006"


class NoActiveTransaction(HeadraceError):
    sqlstate = "25P01"
