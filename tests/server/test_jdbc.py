"""PostgreSQL's JDBC driver, which most tools written in Java use."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.maven import jar

DRIVER = "org.postgresql:postgresql:42.7.4"
SHA256 = "188976721ead8e8627eb6d8389d500dccc0c9bebd885268a3047180274a6031e"
PROGRAM = Path(__file__).with_name("JdbcClient.java")


@pytest.fixture(scope="module")
def driver(tmp_path_factory) -> Path:
    if shutil.which("javac") is None:
        pytest.skip("a JDK is needed: there is only a JRE")
    return jar(DRIVER, SHA256, tmp_path_factory.mktemp("jars"))


def row(id: int, name: str) -> str:
    return (
        f"{id}|{name}|{id}.25|{10_000_000_000 + id}|{id / 4}|{str(id % 2 == 0).lower()}|2026-01-0{id}|"
        f"2026-01-0{id}T12:30:15.123456|2026-01-0{id}T10:00Z|000{id}ff|[{id}, null, -{id}]|"
        f'[a,b, "q", null]|{{"id": {id}}}'
    )


@pytest.mark.usefixtures("spark_is_not_asked")
def test_jdbc(server, driver, table):
    url = f"jdbc:postgresql://127.0.0.1:{server.port}/dev?user=root"
    # The driver says where it is when it connects, and few machines are in UTC.
    command = ["java", "-Duser.timezone=Europe/Berlin", "-cp", str(driver), str(PROGRAM), url, table]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    facts = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert facts == [
        "batch: 20",
        "nulls: 1",
        "update: 2",
        "returned: 22 last",
        f"text: {row(1, 'n1')}",
        "text: 21|null|null|0|0.0|false|null|null|null|null|null|null|null",
        f"executed 1: {row(1, 'n1')}",
        f"executed 8: {row(8, 'n8')}",
        f"cursor: 22 rows, sum {sum(range(23))}",
        "zone: 2024-07-01 00:00:00+02|2024-07-01 00:00:00.0|2024-07-01|11:00",
        "product: PostgreSQL 13",
        f"table: {table}_name INDEX",
        f"table: {table}_pkey INDEX",
        f"table: {table}_cheap MATERIALIZED VIEW",
        f"table: {table} TABLE",
        "column: id int4 4 NO",
        "column: name varchar 12 YES",
        "column: price numeric 2 YES",
        "column: big int8 -5 YES",
        "column: ratio float8 8 YES",
        "column: yes bool -7 YES",
        "column: day date 91 YES",
        "column: at timestamp 93 YES",
        "column: moment timestamptz 93 YES",
        "column: bytes bytea -2 YES",
        "column: numbers _int4 2003 YES",
        "column: words _varchar 2003 YES",
        "column: document jsonb 1111 YES",
        f"key: id 1 {table}_pkey",
        f"index: {table}_pkey id false",
        f"index: {table}_name name true",
        "foreign keys: false",
        "exported keys: false",
        "row identifier: id",
        "schema: information_schema",
        "schema: pg_catalog",
        "schema: public",
        "schema: rw_catalog",
        "catalog: dev",
        "types: true",
        "functions: false",
        "procedures: false",
        "privileges: true",
        "keywords: true",
        "result: id int4 n false ",
        'error: 42703 ERROR: column "nothing" does not exist   Hint: there are: id, name, price, big, ratio, yes, day,'
        " at, moment, bytes, numbers, words, document   Position: 17",
        "error: 22012",
        "alive: true",
        *[
            "uuid: 00000000-0000-0002-ffff-fffffffffffe UUID [00000000-0000-0000-0000-000000000002, null]"
            " 02:30:15.000500 02:30:15 02:30:15.0005"
        ]
        * 2,
        "column: id uuid 1111",
        "column: ids _uuid 2003",
        "column: at time 92",
    ]
