"""Where numbers begin in base 10,000, as Spark sees it: the same as for a constant, which Python looks at."""

from __future__ import annotations

import pytest

from headrace.sql.decimals import _first_digit, _first_digit_of_constant, quotient_decimals
from headrace.sql.typed import Typed
from headrace.types import SqlType

LARGEST = {"smallint": 2**15 - 1, "integer": 2**31 - 1, "bigint": 2**63 - 1}


def edges(precision: int, scale: int) -> list[str]:
    """Numbers with so many digits, around all powers of ten and their doubles."""
    whole = {max(0, times * 10**power + more) for power in range(precision) for times in (1, 2) for more in (-1, 0, 1)}
    whole |= {0, 10**precision - 1, int("1234567890" * 4) // 10 ** (40 - precision)}
    texts = [str(each).zfill(scale + 1) for each in sorted(whole) if each < 10**precision]
    return [f"{text[:-scale]}.{text[-scale:]}" for text in texts] if scale else texts


@pytest.mark.parametrize(
    "kind",
    [
        *map(SqlType, ("smallint", "integer", "bigint", "numeric")),
        *(
            SqlType("numeric", precision=precision, scale=scale)
            for precision, scale in [(1, 0), (5, 5), (12, 2), (18, 0), (18, 17), (19, 0), (22, 3), (38, 0), (38, 2)]
            + [(38, 10), (38, 20), (38, 37), (38, 38), (30, 11)]
        ),
    ],
    ids=str,
)
def test_first_digits(spark, kind):
    if kind.name in LARGEST:
        numbers = [text for text in edges(19, 0) if int(text) <= LARGEST[kind.name]]
        negative = [*numbers, str(LARGEST[kind.name] + 1)]
    else:
        numbers = negative = edges(kind.precision or 38, 10 if kind.scale is None else kind.scale)
    rows = [
        (text, _first_digit_of_constant(text.removeprefix("-"))) for text in [*numbers, *(f"-{n}" for n in negative)]
    ]
    spark.createDataFrame(rows, "n STRING, expected INT").createOrReplaceTempView("edges")
    found = spark.sql(
        f"SELECT n, expected, {_first_digit(Typed('x', kind))} AS found"
        f" FROM (SELECT n, expected, CAST(n AS {kind.spark}) AS x FROM edges)"
    )
    assert found.where("NOT found <=> expected").collect() == []


def test_quotients_of_numbers_that_have_one_place_only(spark):
    """They have no CASE around them. PostgreSQL says 0.20000000000000000000, 1.4285714285714286 and so on."""
    small = SqlType("numeric", precision=4, scale=0)
    ten, x = Typed("10", SqlType("integer")), Typed("x", small)
    decimals = f"{quotient_decimals(ten, x)}, {quotient_decimals(x, ten)}, {quotient_decimals(x, x)}"
    numbers = f"SELECT CAST(n AS {small.spark}) AS x FROM VALUES (50), (7), (10) AS t(n)"
    rows = spark.sql(f"SELECT {decimals} FROM ({numbers})")
    assert [tuple(row) for row in rows.collect()] == [(20, 16, 20), (16, 20, 20), (20, 20, 20)]
