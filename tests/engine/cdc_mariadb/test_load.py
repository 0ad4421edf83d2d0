"""Under load, while everything dies again and again: nothing is lost, and nothing is there twice.

What merges the log and the snapshot is the same for both servers, so each story is told on one of them; with
``HYPOTHESIS_PROFILE=thorough`` on both.
"""

from __future__ import annotations

import pytest

from tests.engine.cdc import stories
from tests.engine.cdc_mariadb.conftest import BOTH, servers
from tests.support.four_ways import THOROUGH

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@servers(*(BOTH if THOROUGH else ("mariadb",)))
def test_random_transactions_while_the_snapshot_is_read_and_everything_dies(spark, warehouse, followed):
    stories.random_transactions_while_everything_dies(spark, warehouse, followed, resnapshot=False)


@servers(*(BOTH if THOROUGH else ("mysql",)))
def test_a_process_killed_anywhere_goes_on(spark, warehouse, followed):
    stories.a_process_killed_anywhere(spark, warehouse, followed)
