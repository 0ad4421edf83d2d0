"""Parameters: what their values may be, and how they are shown."""

from __future__ import annotations

import pytest

from headrace.config import PARAMETERS, find_parameter
from headrace.errors import InvalidParameterValue, UndefinedParameter


@pytest.mark.parametrize("parameter", PARAMETERS.values(), ids=lambda parameter: parameter.name)
def test_what_is_shown_can_be_set(parameter):
    assert parameter.parse(parameter.show(parameter.default)) == parameter.default
    assert parameter.description


@pytest.mark.parametrize(
    ("name", "text", "value", "shown"),
    [
        ("background_ddl", "ON", True, "true"),
        ("background_ddl", "false", False, "false"),
        ("streaming_parallelism", "4", 4, "4"),
        ("streaming_parallelism", "0", None, "adaptive"),
        ("streaming_parallelism", "ADAPTIVE", None, "adaptive"),
        ("streaming_parallelism", "default", None, "adaptive"),
        ("backfill_rate_limit", " 100 ", 100, "100"),
        ("backfill_rate_limit", "0", 0, "0"),
        ("backfill_rate_limit", "-1", None, "default"),
        ("backfill_rate_limit", "DEFAULT", None, "default"),
        ("backfill_pacing", "Adaptive", "adaptive", "adaptive"),
        ("backfill_pacing", "until_barrier", "until_barrier", "until_barrier"),
        ("backfill_pacing", "5000", 5000, "5000"),
        ("streaming_use_arrangement_backfill", "off", False, "false"),
    ],
)
def test_values(name, text, value, shown):
    parameter = find_parameter(name)
    assert parameter.parse(text) == value
    assert parameter.show(value) == shown
    assert not parameter.system


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("background_ddl", "perhaps", "true or false"),
        ("streaming_parallelism", "-1", "a whole number or ADAPTIVE"),
        ("streaming_parallelism", "1.5", "a whole number or ADAPTIVE"),
        ("streaming_parallelism", "", "a whole number or ADAPTIVE"),
        ("backfill_rate_limit", "-2", "rows per second or DEFAULT"),
        ("backfill_rate_limit", "fast", "rows per second or DEFAULT"),
        ("backfill_pacing", "0", "at least 1"),
        ("backfill_pacing", "never", "adaptive, until_barrier or a whole number"),
        ("streaming_use_arrangement_backfill", "2", "true or false"),
    ],
)
def test_values_that_are_refused(name, text, hint):
    with pytest.raises(InvalidParameterValue) as caught:
        find_parameter(name).parse(text)
    assert caught.value.message == f'invalid value for parameter "{name}": "{text}"'
    assert hint in caught.value.hint


def test_other_names():
    assert find_parameter("BACKGROUND_DDL").name == "background_ddl"
    assert find_parameter("STREAMING_RATE_LIMIT").name == "backfill_rate_limit"
    assert find_parameter("rw_implicit_flush").name == "implicit_flush"
    with pytest.raises(UndefinedParameter, match='unrecognized configuration parameter "nope"'):
        find_parameter("nope")
