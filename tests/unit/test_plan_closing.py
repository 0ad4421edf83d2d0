"""Which columns of a query close with a watermark, and when."""

from __future__ import annotations

import pytest

from headrace.catalog import MATERIALIZED_VIEW, SOURCE, TABLE, Catalog, Column, KeyColumn, Lateness, Relation
from headrace.plan.closing import closings, emitting_on_close
from headrace.plan.cut import cut
from headrace.plan.finished import finished, is_complete
from headrace.plan.temporal import only_grows
from headrace.sql.bind import bind_query
from headrace.sql.dialect import parse_query
from headrace.types import SqlType

COLUMNS = tuple(Column(name=name, type=SqlType(kind)) for name, kind in
                (("id", "bigint"), ("k", "integer"), ("at", "timestamp")))  # fmt: skip
MINUTE = 60_000_000


def relation(id: int, name: str, kind: str = TABLE, **more) -> Relation:
    key = {"pk": (KeyColumn(name="id"),), "distribution": ("id",), "append_only": True}
    return Relation(id=id, name=name, kind=kind, **({"columns": COLUMNS} | key | more))


@pytest.fixture
def catalog() -> Catalog:
    late = Lateness(column="at", delay=0)
    found = Catalog()
    for each in (
        relation(1, "t", lateness=late),
        relation(2, "u", lateness=late),
        relation(3, "plain", append_only=False),
        relation(4, "s", SOURCE, lateness=late),
        relation(5, "on_t", MATERIALIZED_VIEW, query='SELECT "t"."id", "t"."k", "t"."at" FROM "public"."t" AS "t"'),
        relation(6, "on_s", MATERIALIZED_VIEW, query='SELECT "s"."id", "s"."k", "s"."at" FROM "public"."s" AS "s"'),
    ):
        depends = {"depends_on": (each.id - 4 if each.id == 5 else 4,)} if each.kind == MATERIALIZED_VIEW else {}
        found = found.add(each.replace(**depends))
    return found


WINDOWS = "TUMBLE({}, at, INTERVAL '10 minutes')"


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT at, k FROM t", {"at": (1, {1})}),
        ("SELECT at + INTERVAL '1 minute' AS later FROM t", {"later": (1 - MINUTE, {1})}),
        ("SELECT date_trunc('hour', at) AS h FROM t", {"h": (60 * MINUTE, {1})}),
        ("SELECT date_trunc('month', at) AS m FROM t", {}),
        ("SELECT (at + INTERVAL '1 minute')::timestamptz AS z, at::date AS d FROM t", {"z": (1 - MINUTE, {1})}),
        (f"SELECT window_start, window_end FROM {WINDOWS.format('t')} GROUP BY 1, 2",
         {"window_start": (10 * MINUTE, {1}), "window_end": (0, {1})}),
        (f"SELECT window_start, max(window_end) AS e FROM {WINDOWS.format('t')} GROUP BY 1",
         {"window_start": (10 * MINUTE, {1})}),
        ("SELECT window_start, window_end FROM HOP(t, at, INTERVAL '5 minutes', INTERVAL '12 minutes')",
         {"window_start": (12 * MINUTE, {1}), "window_end": (0, {1})}),
        ("SELECT at FROM t UNION ALL SELECT at FROM u", {"at": (1, {1, 2})}),
        ("SELECT at FROM t EXCEPT SELECT at FROM plain", {}),
        ("SELECT t.at, u.at AS a FROM t JOIN u ON t.at = u.at AND t.k = u.k", {"at": (1, {1, 2}), "a": (1, {1, 2})}),
        ("SELECT t.at, u.at AS other FROM t LEFT JOIN u ON t.at = u.at", {"at": (1, {1, 2})}),
        ("SELECT t.at FROM t JOIN plain ON t.k = plain.k", {}),
        ("SELECT t.at FROM t JOIN plain FOR SYSTEM_TIME AS OF PROCTIME() AS p ON t.k = p.k", {"at": (1, {1})}),
        ("SELECT at, k, rank() OVER (PARTITION BY at ORDER BY k) AS r FROM t", {"at": (1, {1})}),
        ("SELECT at, k, rank() OVER (PARTITION BY k ORDER BY at) AS r FROM t", {}),
        ("SELECT DISTINCT at FROM t", {"at": (1, {1})}),
        ("SELECT DISTINCT ON (k) k, at FROM t ORDER BY k", {}),
        ("SELECT at, count(*) FROM t GROUP BY ROLLUP (at)", {}),
        ("SELECT at FROM t WHERE k > (SELECT count(*) FROM u)", {}),
        ("SELECT at, (SELECT count(*) FROM plain) AS c FROM t", {}),
        ("SELECT at, count(*) FILTER (WHERE k IN (SELECT k FROM plain)) AS c FROM t GROUP BY at", {}),
        ("SELECT at, k + (SELECT max(k) FROM plain) AS x FROM t GROUP BY at, k + (SELECT max(k) FROM plain)", {}),
        ("SELECT t.at FROM t JOIN u ON t.at = u.at AND t.k IN (SELECT k FROM plain)", {}),
        ("SELECT at, rank() OVER (PARTITION BY at ORDER BY (SELECT max(k) FROM plain)) AS r FROM t", {}),
        ("SELECT at FROM t WHERE at > now()", {}),
        ("SELECT max(at) AS at FROM t", {}),
        ("WITH x (a) AS (SELECT at FROM t) SELECT a FROM x", {"a": (1, {1})}),
        ("SELECT at FROM on_t", {"at": (1, {1})}),
        ("SELECT at FROM s", {"at": (1, {4})}),
        ("SELECT at FROM on_s", {}),
    ],
)  # fmt: skip
def test_columns_that_close(catalog, query, wanted):
    found = closings(bind_query(parse_query(query), catalog).expression, catalog)
    assert {name: (each.after, set(each.watermarks)) for name, each in found.items()} == wanted


def test_all_watermarks_must_have_passed(catalog):
    query = "SELECT at, count(*) AS c FROM (SELECT at FROM t UNION ALL SELECT at FROM u) AS q GROUP BY at ORDER BY at"
    found = bind_query(emitting_on_close(bind_query(parse_query(query), catalog), catalog), catalog)
    assert found.output == ("at", "c")
    assert all(f"_hr_watermark({id})" in found.text() for id in (1, 2))


def internal_tables(catalog: Catalog, query: str, *, emits: bool = True) -> dict[str, tuple | None]:
    """What of each internal table of a view may go, by what the table is; and the catalog with the view."""
    bound = bind_query(parse_query(query), catalog)
    if emits:
        bound = bind_query(emitting_on_close(bound, catalog), catalog)
    last, arrangements = cut(bound, catalog, "v", bound.output)
    with_view = arrangements.catalog.add(arrangements.keyed(last).replace(name="v", kind=MATERIALIZED_VIEW))
    found = {}
    for each in arrangements.made:
        said = finished(each, with_view)
        assert is_complete(each, with_view)
        being_filled = with_view.update(with_view.get("v").replace(creating=True))
        assert not is_complete(each, being_filled) and finished(each, being_filled) == said
        what = each.name.removeprefix("__internal_v_").partition("_")[2]
        found.setdefault(what, []).append(said and (said[0], said[1].after, set(said[1].watermarks)))
    return found


def test_what_nobody_needs_when_windows_have_closed(catalog):
    grouped = f"SELECT window_end, {{}} FROM {WINDOWS.format('t')} GROUP BY window_end"
    end = ("window_end", 0, {1})
    rows = grouped.format("bool_and(k > 1) AS m")
    assert internal_tables(catalog, rows) == {"arrangement": [end, end], "aggregate": [end]}
    # A maximum of rows that only come needs none of them.
    assert internal_tables(catalog, grouped.format("max(k) AS m")) == {
        "arrangement": [end], "aggregate": [("group_0", 0, {1})]
    }  # fmt: skip
    assert internal_tables(catalog, "SELECT at, k FROM t") == {"arrangement": [("moment_0", 0, {1})]}
    # One side's watermark has passed, the other's has not: rows are looked up for those that may still come there.
    joined = (
        f"SELECT a.window_end, a.c, b.k FROM ({grouped.format('count(*) AS c')}) AS a JOIN {WINDOWS.format('u')} AS b"
    )
    found = internal_tables(catalog, f"{joined} ON a.window_end = b.window_end")
    assert found["aggregate"] == [("group_0", 0, {1})]  # who arranges its rows needs no more than their changes
    assert all(each == ("window_end", 0, {1, 2}) for each in found["arrangement"])
    # Not if the rows are looked up by something that does not close, or come and go with all that there is.
    assert internal_tables(catalog, "SELECT k, bool_and(at > '2026-01-01') AS m FROM t GROUP BY k", emits=False) == {
        "arrangement": [None]
    }
    beside = "SELECT t.at, plain.k FROM t JOIN plain FOR SYSTEM_TIME AS OF PROCTIME() ON t.k = plain.k"
    assert None in internal_tables(catalog, beside)["arrangement"]


def test_what_only_grows(catalog):
    growing = {each.name for each in catalog if only_grows(each, catalog)}
    assert growing == {"t", "u", "s", "on_t", "on_s"}
