"""Fifty sessions mix DML and queries for a minute, over a table with a view, an aggregate and an index on it.

Every statement leaves the sum of all amounts as it was, so every SELECT can tell whether it saw one moment of the
table, of its views, and of both together. In the end the views are what their queries say, and the table holds what was
acknowledged.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections import Counter

import psycopg

SECONDS = float(os.environ.get("HEADRACE_SOAK_SECONDS", "60"))
SESSIONS, ACCOUNTS, BRANCHES, AMOUNT = 50, 40, 5, 1000
TOTAL = ACCOUNTS * AMOUNT


class Client:
    """A session of its own that does one thing again and again."""

    def __init__(self, number: int, table: str, connection: psycopg.Connection):
        self._random, self._number, self._table = random.Random(number), number, table
        self._connection = connection
        self._own: set[int] = set()
        """Rows that it inserted and did not delete again, as far as it was told"""

    def execute(self, sql: str, parameters: tuple = ()) -> psycopg.Cursor:
        return self._connection.execute(sql.format(t=self._table), parameters)

    # --- writes; none of them changes the sum -----------------------------------------------------------------------

    def transfer(self) -> None:
        giver, taker = self._random.sample(range(ACCOUNTS), 2)
        amount = self._random.randint(1, 50)
        sql = "UPDATE {t} SET n = n + CASE id WHEN %s THEN %s ELSE %s END WHERE id IN (%s, %s)"
        assert self.execute(sql, (giver, -amount, amount, giver, taker)).rowcount == 2

    def move(self) -> None:
        """An account to another branch: rows of the aggregate and of the index come and go."""
        account, branch = self._random.randrange(ACCOUNTS), self._random.randrange(BRANCHES)
        assert self.execute("UPDATE {t} SET branch = %s WHERE id = %s", (branch, account)).rowcount == 1

    def open_account(self) -> None:
        ids = [self._number * 1_000_000 + self._random.randrange(1_000_000) for _ in range(3)]
        values = [(id, id % (2 * BRANCHES), 0) for id in ids]
        with self._connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {self._table} VALUES (%s, %s, %s)", values)
        self._own.update(ids)

    def close_account(self) -> None:
        if self._own:
            id = self._own.pop()
            assert self.execute("DELETE FROM {t} WHERE id = %s RETURNING n", (id,)).fetchall() == [(0,)]

    # --- queries ----------------------------------------------------------------------------------------------------

    def sum_of_view(self) -> None:
        assert self.execute("SELECT sum(n) FROM {t}_rich").fetchone() == (TOTAL,)

    def sum_of_aggregate(self) -> None:
        (total, accounts, table), = self.execute(
            "SELECT sum(total), sum(accounts), (SELECT count(*) FROM {t}) FROM {t}_branches"
        )  # fmt: skip
        assert total == TOTAL and accounts == table, "the aggregate and its table are of one epoch"

    def one_branch(self) -> None:
        """Through the index, beside the aggregate, which says the same."""
        branch = self._random.randrange(BRANCHES)
        (found,) = self.execute(
            "SELECT coalesce(sum(n), 0), coalesce((SELECT total FROM {t}_branches WHERE branch = %s), 0) "
            "FROM {t} WHERE branch = %s",
            (branch, branch),
        )
        assert found[0] == found[1]

    def one_account(self) -> None:
        account = self._random.randrange(ACCOUNTS)
        assert self.execute("SELECT count(*) FROM {t} WHERE id = %s", (account,)).fetchone() == (1,)

    def catalog(self) -> None:
        found = self.execute("SELECT relkind FROM pg_class WHERE relname = '{t}_rich'").fetchall()
        assert found == [("m",)]


WORK = (
    Client.transfer, Client.sum_of_view, Client.move, Client.sum_of_aggregate, Client.open_account, Client.one_branch,
    Client.close_account, Client.one_account, Client.transfer, Client.catalog,
)  # fmt: skip


def test_fifty_sessions_for_a_minute(connect, table, dsn):
    setup = connect()
    setup.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, branch int, n int)")
    setup.execute(
        f"INSERT INTO {table} SELECT x, x % {BRANCHES}, {AMOUNT} FROM generate_series(0, {ACCOUNTS - 1}) s(x)"
    )
    rich = f"SELECT id, n FROM {table} WHERE n <> 0"
    setup.execute(f"CREATE MATERIALIZED VIEW {table}_rich AS {rich}")
    aggregate = f"SELECT branch, sum(n) AS total, count(*) AS accounts FROM {table} GROUP BY branch"
    setup.execute(f"CREATE MATERIALIZED VIEW {table}_branches AS {aggregate}")
    setup.execute(f"CREATE INDEX {table}_branch ON {table} (branch) INCLUDE (n)")
    deadline = time.monotonic() + SECONDS
    done: Counter[str] = Counter()
    failures: list[Exception] = []
    left: set[int] = set()

    def work(number: int) -> None:
        try:
            with psycopg.connect(dsn, autocommit=True) as connection:
                client = Client(number, table, connection)
                # each begins with another kind of work, and does all of them
                for each in itertools.islice(itertools.cycle(WORK), number, None):
                    if time.monotonic() > deadline or failures:
                        break
                    each(client)
                    done[each.__name__] += 1
                left.update(client._own)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, SESSIONS + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert min(done[each.__name__] for each in WORK) > 0, done
    for kind, name in (("MATERIALIZED VIEW", "rich"), ("MATERIALIZED VIEW", "branches"), ("INDEX", "branch")):
        (answer,) = setup.execute(f"CHECK {kind} {table}_{name}").fetchone()
        assert answer.startswith("equal, "), answer
    kept = setup.execute(f"SELECT id FROM {table}").fetchall()
    assert {id for (id,) in kept} == left | set(range(ACCOUNTS))
    for stored, query in (
        (f"{table}_branches", aggregate),
        (f"{table}_rich", f"SELECT id, n FROM {table} WHERE n <> 0"),
    ):
        assert sorted(setup.execute(f"SELECT * FROM {stored}")) == sorted(setup.execute(query))
