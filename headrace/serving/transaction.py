"""What clients call a transaction: which statements it lets pass, and what its end tells.

Nothing is ever undone, see :data:`NO_TRANSACTIONS`. Two things are as in PostgreSQL all the same, as clients rely on
them: after an error nothing runs until the transaction is ended, and one that is READ ONLY writes nothing.
"""

from __future__ import annotations

import re

from headrace.errors import FailedTransaction, NoActiveTransaction, ReadOnlyTransaction
from headrace.notices import warning
from headrace.serving.result import Result
from headrace.serving.shows import SHOWN
from headrace.sql import statements as ast

IDLE, IN_TRANSACTION, FAILED = "I", "T", "E"
NO_TRANSACTIONS = "there are no transactions: every statement takes effect by itself"

OF_TRANSACTION = ast.Begin | ast.Commit | ast.Rollback | ast.Savepoint | ast.RollbackTo | ast.SetTransaction
_ENDS = (ast.Commit, ast.Rollback, ast.RollbackTo)
_CHANGE_NOTHING = (
    ast.Select, *SHOWN, ast.Explain, ast.Check, ast.ResetAll, ast.Wait, ast.Flush, ast.Vacuum, ast.Compact,
    ast.Begin, ast.Commit, ast.Rollback, ast.Savepoint, ast.RollbackTo, ast.SetTransaction,
    ast.DeclareCursor, ast.FetchCursor, ast.CloseCursor, ast.Prepare, ast.Execute, ast.Deallocate, ast.Discard,
    ast.Unlisten,
)  # fmt: skip
"""All others do, so that one that is new is refused rather than let through."""


def changes_something(statement: ast.Statement) -> bool:
    if isinstance(statement, ast.Copy):
        return statement.into
    if isinstance(statement, ast.SetParameter):
        return statement.system
    return not isinstance(statement, _CHANGE_NOTHING)


def refuse_read_only(statement: ast.Statement) -> None:
    command = type(statement).__name__ if isinstance(statement, (ast.Insert, ast.Update, ast.Delete)) else None
    command = command or re.match(r"\w*", statement.sql)[0]
    raise ReadOnlyTransaction(f"cannot execute {command.upper()} in a read-only transaction")


class Transaction:
    """Of one session, one after the other.

    >>> transaction = Transaction()
    >>> transaction.run(ast.Begin(sql="BEGIN READ ONLY", read_only=True)).notice == NO_TRANSACTIONS
    True
    >>> transaction.status, transaction.read_only
    ('T', True)
    >>> transaction.run(ast.Commit(sql="COMMIT")).notice, transaction.status, transaction.read_only
    (None, 'I', None)
    """

    def __init__(self) -> None:
        self.status = IDLE
        self.wrote = False
        self.read_only: bool | None = None
        """None: as the session's other transactions"""
        self._told = False

    def refuse_if_failed(self, statement: ast.Statement) -> None:
        if self.status == FAILED and not isinstance(statement, _ENDS):
            raise FailedTransaction(
                "current transaction is aborted, commands ignored until end of transaction block", hint="say ROLLBACK"
            )

    def fail(self) -> None:
        if self.status == IN_TRANSACTION:
            self.status = FAILED

    def run(self, statement: OF_TRANSACTION) -> Result:
        if isinstance(statement, ast.Begin):
            return self._begin(statement)
        if isinstance(statement, (ast.Commit, ast.Rollback)):
            return self._end(statement)
        if isinstance(statement, ast.RollbackTo):
            return self._rollback_to()
        if isinstance(statement, ast.SetTransaction):
            return self._set(statement.read_only)
        return Result(statement.sql.split()[0].upper())

    def _begin(self, statement: ast.Begin) -> Result:
        result = Result("BEGIN")
        if self.status != IDLE:
            result.notice = warning("there is already a transaction in progress", "25001")
        else:
            self.wrote, self.read_only = False, None
            if not self._told:
                # Once: drivers begin a transaction before every statement.
                result.notice, self._told = NO_TRANSACTIONS, True
        self.status = IN_TRANSACTION
        if statement.read_only is not None:
            self.read_only = statement.read_only
        return result

    def _end(self, statement: ast.Commit | ast.Rollback) -> Result:
        asked = "COMMIT" if isinstance(statement, ast.Commit) else "ROLLBACK"
        if statement.chain and self.status == IDLE:
            raise NoActiveTransaction(f"{asked} AND CHAIN can only be used in transaction blocks")
        result = Result("ROLLBACK" if self.status == FAILED else asked)
        if self.status == IDLE:
            result.notice = warning("there is no transaction in progress", "25P01")
        elif asked == "ROLLBACK" and self.wrote:
            result.notice = f"nothing is undone: {NO_TRANSACTIONS}"
        self.wrote = False
        if statement.chain:
            self.status = IN_TRANSACTION
        else:
            self.status, self.read_only = IDLE, None
        return result

    def _rollback_to(self) -> Result:
        result = Result("ROLLBACK")
        if self.status != IDLE:
            self.status = IN_TRANSACTION
            result.notice = f"nothing is undone: {NO_TRANSACTIONS}" if self.wrote else None
        return result

    def _set(self, read_only: bool | None) -> Result:
        result = Result("SET")
        if not self.set_read_only(read_only):
            result.notice = warning("SET TRANSACTION can only be used in transaction blocks", "25P01")
        return result

    def set_read_only(self, read_only: bool | None) -> bool:
        """Whether there is a transaction that it could be said of."""
        if self.status == IDLE:
            return False
        if read_only is not None:
            self.read_only = read_only
        return True
