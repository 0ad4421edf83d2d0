"""Random queries over three small tables, in SQL that SQLite understands as well, and random rows for them.

t (id, k, x, s)    u (id, y, n)    w (a, b), without a primary key
"""

from __future__ import annotations

import os
import random

TABLES = {"t": ("id", "k", "x", "s"), "u": ("id", "y", "n"), "w": ("a", "b")}
NUMBERS = {"t": ("id", "k", "x"), "u": ("id", "y", "n"), "w": ("a", "b")}


def how_many(usual: int) -> int:
    """How many queries a test draws: ``HEADRACE_QUERIES=1000`` looks further than a run of all tests does."""
    return int(os.environ.get("HEADRACE_QUERIES") or usual)


def random_rows(chance: random.Random, table: str, count: int) -> list[tuple]:
    def value(most: int = 4) -> int | None:
        return chance.choice([None, *range(most)])

    ids = chance.sample(range(1000), count)
    return [
        {
            "t": (id, value(), value(7), chance.choice([None, "a", "b", "c"])),
            "u": (id, value(), value(6)),
            "w": (value(), value()),
        }[table]
        for id in ids
    ]


class Queries:
    def __init__(self, chance: random.Random):
        self._chance = chance
        self._aliases = 0

    def query(self, depth: int = 2) -> str:
        """A query with columns c0, c1, … all of them numbers."""
        return self._one_of(
            depth, [self._joined, self._grouped, self._grouped, self._distinct, self._set_operation, self._windowed,
                    self._asked, self._asked, self._mapped, self._total, self._top, self._top_of_each, self._named,
                    self._shares, self._framed],
        )  # fmt: skip

    def _one_of(self, depth: int, makers: list) -> str:
        return self._chance.choice(makers)(depth)

    def _source(self, depth: int) -> tuple[str, str, list[str]]:
        """Something for FROM: its text, its alias, its columns that are numbers."""
        self._aliases += 1
        alias = f"q{self._aliases}"
        if depth > 0 and self._chance.random() < 0.4:
            text = self.query(depth - 1)
            return f"({text}) AS {alias}", alias, [f"c{at}" for at in range(self._width)]
        table = self._chance.choice([*TABLES])
        return f"{table} AS {alias}", alias, list(NUMBERS[table])

    def _columns(self, items: list[str]) -> str:
        self._width = len(items)
        return ", ".join(f"{item} AS c{at}" for at, item in enumerate(items))

    def _number(self, columns: list[str]) -> str:
        column = self._chance.choice(columns)
        return self._chance.choice([column, column, column, f"{column} + 1", f"{column} % 2", f"coalesce({column}, 0)"])

    def _numbers(self, columns: list[str], most: int = 3) -> list[str]:
        return [self._number(columns) for _ in range(self._chance.randint(1, most))]

    def _condition(self, columns: list[str]) -> str:
        one, other = self._chance.choice(columns), self._chance.choice(columns)
        return self._chance.choice(
            [f"{one} > 1", f"{one} < 3", f"{one} IS NULL", f"{one} IS NOT NULL", f"{one} = {other}",
             f"{one} <> {other}", f"({one} > 2 OR {other} = 1)", f"NOT ({one} = 1 OR {other} > 2)",
             f"{one} BETWEEN 1 AND 2", f"{one} NOT IN (1, 3)", f"{one} IS NOT DISTINCT FROM {other}",
             f"CASE WHEN {one} = 1 THEN {other} ELSE {one} END > 1",
             f"(({one} = 1 AND {other} > 0) OR ({one} = 1 AND {other} IS NULL))"]
        )  # fmt: skip

    def _where(self, columns: list[str]) -> str:
        return f" WHERE {self._condition(columns)}" if self._chance.random() < 0.4 else ""

    def _joins(self, depth: int) -> tuple[str, list[str]]:
        text, alias, names = self._source(depth)
        columns = [f"{alias}.{name}" for name in names]
        for _ in range(self._chance.choice([0, 1, 1, 2])):
            other, alias, names = self._source(depth)
            more = [f"{alias}.{name}" for name in names]
            if self._chance.random() < 0.05:
                text += f" CROSS JOIN {other}"
                columns += more
                continue
            kind = self._chance.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
            compared = "<" if kind in ("JOIN", "LEFT JOIN") and self._chance.random() < 0.1 else "="
            on = f"{self._chance.choice(columns)} {compared} {self._chance.choice(more)}"
            if self._chance.random() < 0.3 and kind != "FULL JOIN":
                on += f" AND {self._condition([self._chance.choice(columns), self._chance.choice(more)])}"
            text += f" {kind} {other} ON {on}"
            columns += more
        return text, columns

    def _joined(self, depth: int) -> str:
        source, columns = self._joins(depth - 1)
        return f"SELECT {self._columns(self._numbers(columns))} FROM {source}{self._where(columns)}"

    def _mapped(self, depth: int) -> str:
        source, alias, names = self._source(depth)
        columns = [f"{alias}.{name}" for name in names]
        return f"SELECT {self._columns(self._numbers(columns))} FROM {source}{self._where(columns)}"

    def _aggregate(self, columns: list[str]) -> str:
        column = self._number(columns)
        call = self._chance.choice(["count(*)", f"count({column})", f"sum({column})", f"min({column})",
                                    f"max({column})", f"count(DISTINCT {column})",
                                    f"sum(DISTINCT {column})"])  # fmt: skip
        if self._chance.random() < 0.2:
            call += f" FILTER (WHERE {self._condition(columns)})"
        return call

    def _grouped(self, depth: int) -> str:
        source, columns = self._joins(depth - 1)
        keys = self._numbers(columns, 2)
        shown = [key for key in keys if self._chance.random() < 0.8]
        items = shown + [self._aggregate(columns) for _ in range(self._chance.randint(0 if shown else 1, 2))]
        having = f" HAVING {self._aggregate(columns)} > 1" if self._chance.random() < 0.2 else ""
        if self._chance.random() < 0.15:
            source_of_value, alias, names = self._source(0)
            theirs = [f"{alias}.{name}" for name in names]
            value, own = self._aggregate(theirs), ""
            if keys[0] in columns:  # of the group itself
                value, own = f"max({self._chance.choice(theirs)})", f" WHERE {self._chance.choice(theirs)} = {keys[0]}"
            having = f" HAVING {self._aggregate(columns)} >= (SELECT {value} FROM {source_of_value}{own})"
        where = self._where(columns)
        return f"SELECT {self._columns(items)} FROM {source}{where} GROUP BY {', '.join(keys)}{having}"

    def _total(self, depth: int) -> str:
        source, columns = self._joins(depth - 1)
        items = [self._aggregate(columns) for _ in range(self._chance.randint(1, 2))]
        having = f" HAVING {self._aggregate(columns)} > 2" if self._chance.random() < 0.2 else ""
        return f"SELECT {self._columns(items)} FROM {source}{self._where(columns)}{having}"

    def _distinct(self, depth: int) -> str:
        source, columns = self._joins(depth - 1)
        return f"SELECT DISTINCT {self._columns(self._numbers(columns))} FROM {source}{self._where(columns)}"

    def _set_operation(self, depth: int) -> str:
        word = self._chance.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT"])
        parts = []
        for _ in range(2):
            source, alias, names = self._source(depth - 1)
            columns = [f"{alias}.{name}" for name in names]
            items = [self._number(columns), self._number(columns)]
            parts.append(f"SELECT {self._columns(items)} FROM {source}{self._where(columns)}")
        return f"SELECT c0, c1 FROM ({parts[0]} {word} {parts[1]}) AS q"

    def _windowed(self, depth: int) -> str:
        source, alias, names = self._source(depth - 1)
        columns = [f"{alias}.{name}" for name in names]
        partition = self._number(columns)
        call = self._chance.choice(
            ["count(*)", f"sum({self._chance.choice(columns)})", f"max({self._number(columns)})"]
        )
        items = [*self._numbers(columns, 2), f"{call} OVER (PARTITION BY {partition})"]
        return f"SELECT {self._columns(items)} FROM {source}{self._where(columns)}"

    def _framed(self, depth: int) -> str:
        """Windows in an order that leaves nothing open but rows that are the same."""
        source, alias, names = self._source(depth - 1)
        columns = [f"{alias}.{name}" for name in names]
        call = self._chance.choice(
            ["count(*)", *(f"{name}({self._chance.choice(columns)})" for name in ("sum", "max"))]
        )
        frame = self._chance.choice(
            ["", "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
             "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"]
        )  # fmt: skip
        if self._chance.random() < 0.3:
            call, frame = self._chance.choice(["row_number()", "rank()", f"lag({self._chance.choice(columns)})"]), ""
        window = f"PARTITION BY {self._number(columns)} ORDER BY {self._order(columns)} {frame}"
        items = [*columns, f"{call} OVER ({window})"]
        return f"SELECT {self._columns(items)} FROM {source}{self._where(columns)}"

    def _shares(self, depth: int) -> str:
        """A window over aggregates."""
        source, columns = self._joins(depth - 1)
        one, other = self._chance.choice(columns), self._chance.choice(columns)
        call = self._chance.choice(["count(*)", f"sum({self._chance.choice(columns)})"])
        items = [one, call, f"sum({call}) OVER (PARTITION BY {other})"]
        return f"SELECT {self._columns(items)} FROM {source}{self._where(columns)} GROUP BY {one}, {other}"

    def _named(self, depth: int) -> str:
        """A CTE, maybe with the name of one around it, that is read once or twice."""
        name, inner = self._chance.choice(["c", "d"]), self.query(depth - 1) if depth > 0 else self._mapped(0)
        names = [f"c{at}" for at in range(self._width)]
        other, alias, more = self._source(depth - 1)
        if self._chance.random() < 0.5:
            other, alias, more = f"{name} AS again", "again", names
        columns = [f"first.{each}" for each in names] + [f"{alias}.{each}" for each in more]
        on = f"first.{self._chance.choice(names)} = {alias}.{self._chance.choice(more)}"
        shown = self._columns(self._numbers(columns))
        return f"WITH {name} AS ({inner}) SELECT {shown} FROM {name} AS first JOIN {other} ON {on}"

    def _order(self, columns: list[str]) -> str:
        """All columns, so that rows that tie are the same."""
        chosen = self._chance.sample(columns, len(columns))
        ways = ["NULLS LAST", "NULLS FIRST", "DESC NULLS LAST", "DESC NULLS FIRST"]
        return ", ".join(f"{column} {self._chance.choice(ways)}" for column in chosen)

    def _top(self, depth: int) -> str:
        inner = self.query(depth - 1) if depth > 0 else self._mapped(0)
        columns = [f"c{at}" for at in range(self._width)]
        offset = self._chance.choice(["", "", " OFFSET 1", " OFFSET 3"])
        limit = self._chance.choice([1, 2, 5])
        return f"SELECT {', '.join(columns)} FROM ({inner}) AS q ORDER BY {self._order(columns)} LIMIT {limit}{offset}"

    def _top_of_each(self, depth: int) -> str:
        source, alias, names = self._source(depth - 1)
        columns = [f"{alias}.{name}" for name in names]
        keys, values = self._numbers(columns, 2), self._numbers(columns, 2)
        number = f"row_number() OVER (PARTITION BY {', '.join(keys)} ORDER BY {self._order(values)})"
        items = [f"{each} AS c{at}" for at, each in enumerate([*keys, *values])]
        inner = f"SELECT {', '.join(items)}, {number} AS n FROM {source}{self._where(columns)}"
        self._width = len(items)
        shown = ", ".join(f"c{at}" for at in range(self._width))
        return f"SELECT {shown} FROM ({inner}) AS q WHERE n {self._chance.choice(['= 1', '<= 2', '< 4'])}"

    def _asked(self, depth: int) -> str:
        source, columns = self._joins(depth - 1)
        inner, alias, names = self._source(depth - 1)
        theirs = [f"{alias}.{name}" for name in names]
        mine, other = self._chance.choice(columns), self._chance.choice(theirs)
        also = f" AND {self._condition([self._chance.choice(columns), *theirs])}" if self._chance.random() < 0.4 else ""
        if self._chance.random() < 0.1:  # a name that means something else inside
            hidden = mine.split(".")[0]
            also += f" AND {self._chance.choice(theirs)} IN (SELECT {hidden}.x FROM t AS {hidden})"
        others = f"{self._chance.choice(columns)}, {self._chance.choice(columns)}"
        pair = f"{other}, {self._chance.choice(theirs)}"
        asked = self._chance.choice(
            [
                f"EXISTS (SELECT 1 FROM {inner} WHERE {other} = {mine}{also})",
                f"NOT EXISTS (SELECT 1 FROM {inner} WHERE {other} = {mine}{also})",
                f"{mine} IN (SELECT {other} FROM {inner}{self._where(theirs)})",
                f"{mine} NOT IN (SELECT {other} FROM {inner}{self._where(theirs)})",
                f"{self._chance.choice(columns)} >= (SELECT max({self._chance.choice(theirs)}) FROM {inner}"
                f" WHERE {other} = {mine})",
                f"{mine} {self._chance.choice(['<', '>=', '='])} (SELECT {self._aggregate(theirs)} FROM {inner})",
                f"{self._chance.choice(columns)} IN (SELECT {self._chance.choice(theirs)} FROM {inner}"
                f" WHERE {other} = {mine}{also})",
                f"({others}) IN (SELECT {pair} FROM {inner}{self._where(theirs)})",
                f"{mine} >= (SELECT count(*) / (1 + count({other})) FROM {inner})",
            ]
        )
        return f"SELECT {self._columns(self._numbers(columns))} FROM {source} WHERE {asked}"
