"""Tests that share a server run in one worker: pytest's and pytest-xdist's versions must agree on where an id is."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("together")
@pytest.mark.parametrize("parameter", ["a", "b"])
def test_the_scheduler_sees_the_group_of_a_test(request, parameter):
    suffix = "@together" if request.config.getoption("loadgroup", default=False) else ""
    assert request.node.nodeid.endswith(f"::test_the_scheduler_sees_the_group_of_a_test[{parameter}]{suffix}")
