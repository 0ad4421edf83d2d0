"""Random queries in what SQLite does not have, or has in another way, over three small tables, and changes of these.

p (id, k, x, s, d, at, tags)    q (id, y, n, s, at)    b (a, s, d), without a primary key

What a query says is certain: wherever there is an order, rows that it leaves equal are the same.
"""

from __future__ import annotations

import random

INT, TEXT, FLOAT, TIME, NUMBER = "int", "text", "float", "time", "number"

TABLES = {
    "p": "id INT PRIMARY KEY, k INT, x INT, s VARCHAR, d DOUBLE PRECISION, at TIMESTAMP, tags INT[]",
    "q": "id INT PRIMARY KEY, y INT, n INT, s VARCHAR, at TIMESTAMP",
    "b": "a INT, s VARCHAR, d DOUBLE PRECISION",
}
KINDS = {
    "p": {"id": INT, "k": INT, "x": INT, "s": TEXT, "d": FLOAT, "at": TIME},
    "q": {"id": INT, "y": INT, "n": INT, "s": TEXT, "at": TIME},
    "b": {"a": INT, "s": TEXT, "d": FLOAT},
}
Columns = dict[str, str]
"""What can be named, and of which kind it is"""


class SparkQueries:
    def __init__(self, chance: random.Random):
        self._chance = chance
        self._aliases = 0

    def query(self) -> str:
        return self._query(2)[0]

    def _query(self, depth: int) -> tuple[str, Columns]:
        """A query, and its columns c0, c1, …"""
        makers = [self._grouped, self._grouped, self._grouping_sets, self._total, self._joined, self._set_operation,
                  self._beside, self._as_of, self._first_of_each, self._in_windows, self._expanded, self._numbered,
                  self._asked]  # fmt: skip
        return self._chance.choice(makers)(depth)

    def _select(self, items: list[tuple[str, str]], rest: str, first: str = "") -> tuple[str, Columns]:
        shown = ", ".join(f"{text} AS c{at}" for at, (text, _) in enumerate(items))
        return f"SELECT {first}{shown} {rest}", {f"c{at}": kind for at, (_, kind) in enumerate(items)}

    def _alias(self) -> str:
        self._aliases += 1
        return f"r{self._aliases}"

    def _source(self, depth: int) -> tuple[str, Columns]:
        alias = self._alias()
        if depth > 0 and self._chance.random() < 0.3:
            text, columns = self._query(depth - 1)
            source = f"({text}) AS {alias}"
        else:
            table = self._chance.choice([*TABLES])
            source, columns = f"{table} AS {alias}", KINDS[table]
        return source, {f"{alias}.{name}": kind for name, kind in columns.items()}

    def _sources(self, depth: int) -> tuple[str, Columns]:
        """One, or two that are joined by something of one kind."""
        source, columns = self._source(depth)
        if self._chance.random() < 0.4:
            other, more = self._source(depth - 1)
            if shared := [(one, two) for one in columns for two in more if columns[one] == more[two] != NUMBER]:
                kind = self._chance.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
                one, two = self._chance.choice(shared)
                source, columns = f"{source} {kind} {other} ON {one} = {two}", columns | more
        return source, columns

    def _of(self, columns: Columns, *kinds: str) -> str | None:
        found = [name for name, kind in columns.items() if kind in kinds]
        return self._chance.choice(found) if found else None

    def _value(self, columns: Columns) -> tuple[str, str]:
        name = self._chance.choice([*columns])
        kind = columns[name]
        more = {
            INT: [(f"{name} % 3", INT), (f"coalesce({name}, 0)", INT), (f"{name} + 1", INT)],
            TEXT: [(f"upper({name})", TEXT), (f"{name} || 'x'", TEXT), (f"length({name})", INT)],
            FLOAT: [(f"{name} * 2", FLOAT), (f"coalesce({name}, 1.5)", FLOAT)],
            TIME: [(f"date_trunc('hour', {name})", TIME), (f"{name} + INTERVAL '1 minute'", TIME)],
            NUMBER: [],
        }[kind]
        return self._chance.choice([(name, kind), (name, kind), *more])

    def _values(self, columns: Columns, most: int) -> list[tuple[str, str]]:
        return [self._value(columns) for _ in range(self._chance.randint(1, most))]

    def _condition(self, columns: Columns) -> str:
        name = self._chance.choice([*columns])
        other = self._of(columns, columns[name])
        return self._chance.choice(
            [f"{name} IS NOT NULL", f"{name} = {other}", f"({name} < {other} OR {name} IS NULL)",
             f"{name} IS DISTINCT FROM {other}"]
        )  # fmt: skip

    def _where(self, columns: Columns) -> str:
        return f" WHERE {self._condition(columns)}" if self._chance.random() < 0.3 else ""

    def _order(self, names: list[str]) -> str:
        """All of them, so that rows that tie are the same."""
        ways = ["", "DESC", "NULLS FIRST", "DESC NULLS LAST"]
        return ", ".join(f"{name} {self._chance.choice(ways)}" for name in self._chance.sample(names, len(names)))

    def _aggregate(self, columns: Columns) -> tuple[str, str]:
        name = self._chance.choice([*columns])
        kind = columns[name]
        calls = [("count(*)", INT), (f"count(DISTINCT {name})", INT), (f"min({name})", kind), (f"max({name})", kind),
                 (f"first_value({name} ORDER BY {self._order([*columns])})", kind),
                 (f"array_to_string(array_agg({name} ORDER BY {name}), ',')", TEXT)]  # fmt: skip
        if kind == TEXT:
            calls += [(f"string_agg({name}, ',' ORDER BY {name})", TEXT)] * 3
        if kind == INT:
            calls += [(f"avg({name})", NUMBER), (f"sum({name})", NUMBER), (f"stddev({name})", NUMBER),
                      (f"bit_xor({name}::bigint)", INT), (f"bool_or({name} > 1)::int", INT),
                      (f"percentile_cont(0.5) WITHIN GROUP (ORDER BY {name})", NUMBER),
                      (f"percentile_disc(0.3) WITHIN GROUP (ORDER BY {name})", INT)]  # fmt: skip
        if kind == FLOAT:
            calls += [(f"sum({name})", NUMBER), (f"avg({name})", NUMBER)]
        if kind in (FLOAT, TIME, NUMBER):  # as text there are two ways to write some of them
            calls = [each for each in calls if "array_to_string" not in each[0]]
        call, kind = self._chance.choice(calls)
        plain = "WITHIN" not in call and "first_value" not in call and "array" not in call
        if plain and self._chance.random() < 0.2:
            head, cast, tail = call.rpartition(")::")
            only = f"FILTER (WHERE {self._condition(columns)})"
            call = f"({head}) {only})::{tail}" if cast else f"{call} {only}"
        return call, kind

    def _aggregates(self, columns: Columns) -> list[tuple[str, str]]:
        return [self._aggregate(columns) for _ in range(self._chance.randint(1, 3))]

    def _grouped(self, depth: int) -> tuple[str, Columns]:
        source, columns = self._sources(depth)
        keys = self._values(columns, 2)
        having = " HAVING count(*) > 1" if self._chance.random() < 0.2 else ""
        groups = ", ".join(text for text, _ in keys)
        rest = f"FROM {source}{self._where(columns)} GROUP BY {groups}{having}"
        return self._select([*keys, *self._aggregates(columns)], rest)

    def _grouping_sets(self, depth: int) -> tuple[str, Columns]:
        source, columns = self._sources(depth)
        names = self._chance.sample([*columns], min(2, len(columns)))
        one, other = names[0], names[-1]
        sets = self._chance.choice(
            [f"GROUPING SETS (({one}), ({one}, {other}), ())", f"CUBE ({one}, {other})", f"ROLLUP ({one}, {other})",
             f"GROUPING SETS (({one}), ({other}))"]
        )  # fmt: skip
        items = [(one, columns[one]), (other, columns[other]), *self._aggregates(columns)]
        return self._select(items, f"FROM {source}{self._where(columns)} GROUP BY {sets}")

    def _total(self, depth: int) -> tuple[str, Columns]:
        source, columns = self._sources(depth)
        return self._select(self._aggregates(columns), f"FROM {source}{self._where(columns)}")

    def _joined(self, depth: int) -> tuple[str, Columns]:
        source, columns = self._sources(depth)
        distinct = "DISTINCT " if self._chance.random() < 0.3 else ""
        return self._select(self._values(columns, 3), f"FROM {source}{self._where(columns)}", distinct)

    def _set_operation(self, depth: int) -> tuple[str, Columns]:
        word = self._chance.choice(["UNION", "INTERSECT ALL", "EXCEPT ALL", "INTERSECT", "EXCEPT"])
        parts = []
        for _ in range(2):
            alias = self._alias()
            table = self._chance.choice([*TABLES])
            columns = {f"{alias}.{name}": kind for name, kind in KINDS[table].items()}
            items = [(self._of(columns, INT), INT), (self._of(columns, TEXT), TEXT)]
            parts.append(self._select(items, f"FROM {table} AS {alias}{self._where(columns)}")[0])
        return f"{parts[0]} {word} {parts[1]}", {"c0": INT, "c1": TEXT}

    def _beside(self, depth: int) -> tuple[str, Columns]:
        """LATERAL: the first rows of some that belong to a row, or what they are together."""
        source, columns = self._source(depth - 1)
        alias, inner = self._alias(), self._alias()
        table = self._chance.choice([*TABLES])
        theirs = {f"{inner}.{name}": kind for name, kind in KINDS[table].items()}
        mine = self._of(columns, INT, TEXT)
        if mine is None:
            return self._joined(depth)
        belongs = f"FROM {table} AS {inner} WHERE {self._of(theirs, columns[mine])} = {mine}"
        if self._chance.random() < 0.5:
            text, found = self._select(self._aggregates(theirs), belongs)
        else:
            text, found = self._select(self._values(theirs, 2), belongs)
            text += f" ORDER BY {self._order([*found])} LIMIT {self._chance.randint(1, 2)}"
        every = columns | {f"{alias}.{name}": kind for name, kind in found.items()}
        return self._select([*every.items()], f"FROM {source}, LATERAL ({text}) AS {alias}")

    def _as_of(self, depth: int) -> tuple[str, Columns]:
        source, columns = self._source(depth - 1)
        one, compared = self._of(columns, INT), self._of(columns, INT)
        if one is None:
            return self._joined(depth)
        alias, left = self._alias(), self._chance.choice(["", "LEFT "])
        by = self._chance.choice([f"{compared} * 5 >= {alias}.id", f"{alias}.id > {compared}"])
        items = [*columns.items(), (f"{alias}.id", INT), (f"{alias}.s", TEXT)]
        return self._select(items, f"FROM {source} ASOF {left}JOIN q AS {alias} ON {one} = {alias}.y AND {by}")

    def _first_of_each(self, depth: int) -> tuple[str, Columns]:
        source, columns = self._sources(depth)
        names = self._chance.sample([*columns], len(columns))
        if self._chance.random() < 0.5:
            order = f"{names[0]}, {self._order(names[1:])}" if names[1:] else names[0]
            items = [(name, columns[name]) for name in names]
            return self._select(items, f"FROM {source} ORDER BY {order}", f"DISTINCT ON ({names[0]}) ")
        text, found = self._select([(name, columns[name]) for name in names], f"FROM {source}{self._where(columns)}")
        return f"{text} ORDER BY {self._order([*found])} LIMIT {self._chance.randint(1, 4)}", found

    def _in_windows(self, depth: int) -> tuple[str, Columns]:
        """TUMBLE and HOP."""
        table, alias = self._chance.choice(["p", "q"]), self._alias()
        call = self._chance.choice(
            [
                f"TUMBLE({table}, at, INTERVAL '5 minutes')",
                f"HOP({table}, at, INTERVAL '3 minutes', INTERVAL '7 minutes')",
            ]
        )
        columns = {f"{alias}.{name}": kind for name, kind in KINDS[table].items()}
        bound = f"{alias}.{self._chance.choice(['window_start', 'window_end'])}"
        keys = [(bound, TIME), *(self._values(columns, 1) if self._chance.random() < 0.4 else [])]
        groups = ", ".join(text for text, _ in keys)
        rest = f"FROM {call} AS {alias}{self._where(columns)} GROUP BY {groups}"
        return self._select([*keys, *self._aggregates(columns)], rest)

    def _expanded(self, depth: int) -> tuple[str, Columns]:
        """Functions that return rows."""
        one, other = self._alias(), self._alias()
        items = [(f"{one}.id", INT), (f"{one}.s", TEXT), (f"{other}.g", INT)]
        call = self._chance.choice([f"unnest({one}.tags)", f"generate_series(1, {one}.x % 4)"])
        if self._chance.random() < 0.5:
            return self._select(items, f"FROM p AS {one}, {call} AS {other} (g)")
        if self._chance.random() < 0.5:
            return self._select([*items[:2], (call, INT)], f"FROM p AS {one}")
        text, columns = self._select(items, f"FROM p AS {one}, {call} AS {other} (g)")
        return self._select([("z.c2", INT), ("count(*)", INT)], f"FROM ({text}) AS z GROUP BY z.c2")

    def _numbered(self, depth: int) -> tuple[str, Columns]:
        source, columns = self._source(depth)
        order = self._order([*columns])
        parts = f"PARTITION BY {self._value(columns)[0]} " if self._chance.random() < 0.8 else ""
        name = self._chance.choice([*columns])
        call, kind = self._chance.choice(
            [("row_number()", INT), ("rank()", INT), ("dense_rank()", INT), ("ntile(2)", INT),
             (f"lag({name})", columns[name]), (f"lead({name})", columns[name]), ("count(*)", INT)]
        )  # fmt: skip
        items = [*columns.items(), (f"{call} OVER ({parts}ORDER BY {order})", kind)]
        return self._select(items, f"FROM {source}{self._where(columns)}")

    def _asked(self, depth: int) -> tuple[str, Columns]:
        source, columns = self._source(depth)
        inner, theirs = self._source(depth - 1)
        mine = self._of(columns, INT, TEXT)
        yours = mine and self._of(theirs, columns[mine])
        if not yours:
            return self._joined(depth)
        known = f"SELECT 1 FROM {inner} WHERE {yours} = {mine}"
        asked = self._chance.choice(
            [f"EXISTS ({known} AND {self._condition(theirs)})", f"NOT EXISTS ({known})",
             f"{mine} IN (SELECT {yours} FROM {inner})",
             f"(SELECT count(*) FROM {inner} WHERE {yours} = {mine}) > 1"]
        )  # fmt: skip
        return self._select(self._values(columns, 3), f"FROM {source} WHERE {asked}")


class Changes:
    """Random statements that change the tables, with values that are often the same."""

    def __init__(self, chance: random.Random):
        self._chance = chance

    def _row(self, table: str) -> str:
        pick = self._chance.choice

        def some(*values: object) -> object:
            return pick(["NULL", *values])

        number, text = some(*range(4)), some("'a'", "'b'", "'b c'")
        at = some(f"TIMESTAMP '2026-01-01 {pick(['00', '01'])}:{self._chance.randrange(20):02}:00'")
        of_float = some(0.5, 1.5, -2.0, "'NaN'")
        match table:
            case "p":
                tags = some("'{1,2}'", "'{2,2,3}'", "'{}'")
                row = [self._chance.randrange(40), number, some(*range(8)), text, of_float, at, tags]
            case "q":
                row = [self._chance.randrange(25), number, some(*range(6)), text, at]
            case _:
                row = [number, text, of_float]
        return f"({', '.join(map(str, row))})"

    def insert(self, table: str, count: int) -> str:
        return f"INSERT INTO {table} VALUES {', '.join(self._row(table) for _ in range(count))}"

    def statement(self) -> str:
        if self._chance.random() < 0.5:
            return self.insert(self._chance.choice([*TABLES]), self._chance.randint(1, 6))
        return self._chance.choice(
            ["UPDATE p SET k = k + 1, s = 'a' WHERE id % 3 = 0",
             "UPDATE p SET d = d + 1, at = at + INTERVAL '2 minutes'",
             "UPDATE p SET id = id + 100 WHERE id % 7 = 1 AND id < 100", "DELETE FROM p WHERE x > 4", "DELETE FROM p",
             "UPDATE q SET y = n WHERE id % 2 = 0", "UPDATE q SET s = NULL", "DELETE FROM q WHERE n < 2",
             "UPDATE b SET a = 1 WHERE s = 'a'", "DELETE FROM b WHERE a IS NULL"]
        )  # fmt: skip
