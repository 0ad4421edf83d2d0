"""Intervals as PostgreSQL reads, prints and compares them."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DataError
from headrace.intervals import Interval, from_arrow, parse_interval
from headrace.types import SqlType

HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("text", "months", "days", "micros"),
    [
        ("1 day", 0, 1, 0), ("1 day 2 hours", 0, 1, 2 * HOUR), ("26 hours", 0, 0, 26 * HOUR), ("1 month", 1, 0, 0),
        ("1 year 2 mons -3 days", 14, -3, 0), ("2 weeks", 0, 14, 0), ("1.5 weeks", 0, 10, 12 * HOUR),
        ("01:02:03.5", 0, 0, 3_723_500_000), ("-01:00", 0, 0, -HOUR), ("1 day ago", 0, -1, 0),
        ("@ 1 mon 2 days ago", -1, -2, 0), ("1.5 hours", 0, 0, HOUR * 3 // 2), ("0.5 months", 0, 15, 0),
        ("0.75 days", 0, 0, 18 * HOUR), ("0.7 years", 8, 0, 0), ("P1Y2M3DT4H5M6S", 14, 3, 14_706_000_000),
        ("P1.5M", 1, 15, 0), ("P0001-02-03T04:05:06", 14, 3, 14_706_000_000), ("5", 0, 0, 5_000_000),
        ("100 ms", 0, 0, 100_000), ("3 centuries", 3600, 0, 0), ("1-2", 14, 0, 0), ("-1-2", -14, 0, 0),
        ("3 04:05:06", 0, 3, 14_706_000_000), ("1h30m", 0, 0, HOUR * 3 // 2), ("12:30.5", 0, 0, 750_500_000),
        ("1 second 500 milliseconds", 0, 0, 1_500_000), ("-1 day +02:00", 0, -1, 2 * HOUR),
    ],
)  # fmt: skip
def test_reading(text, months, days, micros):
    assert parse_interval(text) == Interval(months, days, micros)


@pytest.mark.parametrize("text", ["", "x", "1 fortnight", "1 day 2 days", "1 2", "day", "1 quarter", "P", "1:2:3:4"])
def test_what_is_no_interval(text):
    with pytest.raises(DataError) as caught:
        parse_interval(text)
    assert (caught.value.message, caught.value.sqlstate) == (
        f'invalid input syntax for type interval: "{text}"',
        "22007",
    )


def test_what_is_too_long():
    with pytest.raises(DataError, match="out of range") as caught:
        parse_interval("300000 years")
    assert caught.value.sqlstate == "22015"


@given(st.builds(Interval, st.integers(-9999, 9999), st.integers(-(2**24), 2**24), st.integers(-(2**60), 2**60)))
def test_what_is_printed_and_stored_is_the_same_again(value):
    assert parse_interval(str(value)) == value
    assert Interval.of(value.stored) == value


@pytest.mark.parametrize(
    ("values", "kind", "shown"),
    [
        (
            [timedelta(days=1, hours=2), None, timedelta(hours=-26)],
            pa.duration("us"),
            "1 day 02:00:00,-1 days -02:00:00",
        ),
        ([timedelta(0), None], pa.duration("s"), "00:00:00"),
        ([pa.MonthDayNano([1, -2, 3_000_000_000])], pa.month_day_nano_interval(), "1 mon -2 days +00:00:03"),
    ],
)
def test_intervals_of_arrow(values, kind, shown):
    found = from_arrow(pa.chunked_array([pa.array(values, kind)]))
    assert found.type == SqlType("interval").arrow
    assert ",".join(str(Interval.of(each)) for each in found.to_pylist() if each is not None) == shown
    assert [each is None for each in found.to_pylist()] == [each is None for each in values]


def test_length():
    assert Interval(1, 0, 0).length == Interval(0, 30, 0).length == Interval(0, 29, 24 * HOUR).length
