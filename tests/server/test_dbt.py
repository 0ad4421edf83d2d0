"""dbt with its postgres adapter, the real one: a project of all kinds of models, run twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = {
    "dbt_project.yml": """
name: shop
version: "1.0"
profile: shop
flags: {send_anonymous_usage_stats: false}
seeds: {shop: {+column_types: {at: timestamp}}}
""",
    "seeds/shop_raw_orders.csv": """order_no,customer,amount,at
1,ann,10.50,2026-01-01 10:00:00
2,bob,20.00,2026-01-02 11:00:00
3,ann,5.25,2026-01-03 12:00:00
""",
    "models/shop_orders.sql": """{{ config(materialized='table') }}
select order_no, customer, cast(amount as numeric(10, 2)) as amount, at from {{ ref('shop_raw_orders') }}
""",
    "models/shop_big_orders.sql": """{{ config(materialized='view') }}
select order_no, customer from {{ ref('shop_orders') }} where amount >= 10
""",
    "models/shop_by_customer.sql": """{{ config(materialized='materialized_view') }}
select customer, count(*) as orders, sum(amount) as total from {{ ref('shop_orders') }} group by customer
""",
    # a row that has changed takes the place of the one before: delete and insert, by way of a temporary table
    "models/shop_history.sql": """{{ config(materialized='incremental', unique_key='order_no') }}
select order_no, amount, at, {{ 'true' if is_incremental() else 'false' }} as added_later from {{ ref('shop_orders') }}
{% if is_incremental() %} where at >= (select max(at) from {{ this }}) {% endif %}
""",
    "models/shop_log.sql": """{{ config(materialized='incremental') }}
select order_no, '{{ invocation_id }}' as run from {{ ref('shop_orders') }}
""",
    "models/schema.yml": """
models:
  - name: shop_orders
    columns:
      - {name: order_no, data_tests: [unique, not_null]}
      - {name: customer, data_tests: [{accepted_values: {arguments: {values: [ann, bob, eve]}}}]}
""",
}
PROFILE = """
shop:
  target: dev
  outputs:
    dev: {{type: postgres, host: 127.0.0.1, port: {port}, user: root, password: "", dbname: dev, schema: public}}
"""


@pytest.fixture
def project(tmp_path, server) -> Path:
    for name, text in PROJECT.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "profiles.yml").write_text(PROFILE.format(port=server.port))
    return tmp_path


def dbt(project: Path, *arguments: str) -> dict[str, str]:
    """What came of each node."""
    command = [sys.executable, "-c", "from dbt.cli.main import cli; cli()", *arguments, "--no-partial-parse"]
    environment = os.environ | {"DBT_PROFILES_DIR": str(project), "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    results = json.loads((project / "target" / "run_results.json").read_text())["results"]
    return {result["unique_id"].split(".")[2]: result["status"] for result in results}


def test_a_project_is_built_twice(database, connect, project):
    """All that a project has: seeds, models and tests; the second time incremental models only add to what is there."""
    connection = connect()
    built = dbt(project, "build")
    assert {status for status in built.values()} <= {"success", "pass"} and len(built) == 9
    assert connection.execute("SELECT * FROM shop_by_customer ORDER BY 1").fetchall()[0][:2] == ("ann", 2)
    seed = project / "seeds" / "shop_raw_orders.csv"
    seed.write_text(seed.read_text().replace("5.25", "6.25") + "4,eve,99.00,2026-01-04 13:00:00\n")
    dbt(project, "build")
    history = connection.execute("SELECT order_no, amount::text, added_later FROM shop_history ORDER BY 1").fetchall()
    assert history == [(1, "10.50", False), (2, "20.00", False), (3, "6.25", True), (4, "99.00", True)]
    assert connection.execute("SELECT count(*), count(DISTINCT run) FROM shop_log").fetchone() == (7, 2)
    assert connection.execute("SELECT count(*) FROM shop_big_orders").fetchone() == (3,)
    assert connection.execute("SELECT orders FROM shop_by_customer WHERE customer = 'eve'").fetchone() == (1,)
    assert not [each.name for each in database.engine.committed.catalog if each.temporary or "__dbt" in each.name]
