"""What a transaction lets pass, and how it ends."""

from __future__ import annotations

import pytest

from headrace.errors import FailedTransaction, NoActiveTransaction
from headrace.notices import severity, sqlstate
from headrace.serving.transaction import NO_TRANSACTIONS, Transaction, changes_something
from headrace.sql.parse import parse


def run(transaction: Transaction, text: str) -> list[tuple[str, str | None]]:
    results = [transaction.run(statement) for statement in parse(text)]
    return [(result.tag, result.notice and result.notice.split(":")[0]) for result in results]


def test_read_only_ends_with_its_transaction():
    transaction = Transaction()
    run(transaction, "BEGIN READ ONLY")
    assert transaction.read_only is True
    run(transaction, "COMMIT AND CHAIN")
    assert (transaction.status, transaction.read_only) == ("T", True)
    run(transaction, "ROLLBACK")
    assert (transaction.status, transaction.read_only) == ("I", None)
    assert run(transaction, "SET TRANSACTION READ ONLY")[0][1] is not None and transaction.read_only is None
    run(transaction, "BEGIN; SET TRANSACTION READ ONLY; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
    assert transaction.read_only is True
    with pytest.raises(NoActiveTransaction):
        run(Transaction(), "COMMIT AND CHAIN")


def test_only_the_end_is_let_through_after_an_error():
    transaction = Transaction()
    run(transaction, "BEGIN")
    transaction.fail()
    for statement in parse("COPY t FROM STDIN; FETCH c; MOVE c; CLOSE c; PREPARE p AS SELECT 1; DEALLOCATE p; BEGIN"):
        with pytest.raises(FailedTransaction):
            transaction.refuse_if_failed(statement)
    for statement in parse("COMMIT; ROLLBACK; ROLLBACK TO s"):
        transaction.refuse_if_failed(statement)
    assert run(transaction, "COMMIT") == [("ROLLBACK", None)]


def test_warnings_as_postgresql_has_them():
    transaction = Transaction()
    told = [transaction.run(each).notice for each in parse("COMMIT; ROLLBACK; SET TRANSACTION READ ONLY; BEGIN; BEGIN")]
    assert [(str(each), severity(each), sqlstate(each)) for each in told] == [
        ("there is no transaction in progress", "WARNING", "25P01"),
        ("there is no transaction in progress", "WARNING", "25P01"),
        ("SET TRANSACTION can only be used in transaction blocks", "WARNING", "25P01"),
        (NO_TRANSACTIONS, "NOTICE", "00000"),
        ("there is already a transaction in progress", "WARNING", "25001"),
    ]


def test_a_rollback_after_writes_says_that_nothing_is_undone():
    transaction = Transaction()
    run(transaction, "BEGIN")
    transaction.wrote = True
    assert run(transaction, "ROLLBACK; BEGIN; ROLLBACK") == [
        ("ROLLBACK", "nothing is undone"), ("BEGIN", None), ("ROLLBACK", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "changes"),
    [
        ("INSERT INTO t VALUES (1)", True),
        ("TRUNCATE t", True),
        ("COPY t FROM STDIN", True),
        ("COPY t TO STDOUT", False),
        ("CREATE TABLE t (id int)", True),
        ("DROP TABLE t", True),
        ("ALTER SYSTEM SET retention = '1h'", True),
        ("SET jit = off", False),
        ("SHOW ALL", False),
        ("SELECT 1", False),
        ("EXPLAIN SELECT 1", False),
        ("DECLARE c CURSOR FOR SELECT 1", False),
        ("EXECUTE p", False),
    ],
)
def test_what_changes_something(sql, changes):
    (statement,) = parse(sql)
    assert changes_something(statement) is changes
