"""Views on objects of an S3 server, in a Spark that was started with Hadoop's client for it.

python s3_child.py <where headrace is> <warehouse> <endpoint> <access key>, and the secret key as standard input
"""

from __future__ import annotations

import io
import sys

ENCODINGS = ("json", "parquet")


def main(warehouse: str, endpoint: str, access_key: str, secret_key: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    import pytest

    import headrace
    from headrace.engine.places import hadoop_storage
    from headrace.errors import HeadraceError
    from tests.support.waiting import eventually

    settings = {"fs.s3a.endpoint": endpoint, "fs.s3a.path.style.access": "true", "fs.s3a.endpoint.region": "us-east-1"}
    more = "".join(f", hadoop.{name} = '{value}'" for name, value in settings.items())

    def source(name: str, encode: str, secret: str) -> str:
        return (
            f"CREATE SOURCE {name} (id BIGINT) INCLUDE file WITH (connector = 'file', path = 's3a://logs/day=*/*.{encode}'"
            f", hadoop.fs.s3a.access.key = '{access_key}', hadoop.fs.s3a.secret.key = SECRET {secret}{more})"
            f" FORMAT PLAIN ENCODE {encode.upper()}"
        )

    def hold(files: int) -> None:
        for encode in ENCODINGS:
            query = f"SELECT id FROM v_{encode} ORDER BY id"
            eventually(lambda query=query: len(db.sql(query).rows()) >= 10 * files)
            assert db.sql(query).rows() == [(id,) for id in range(10 * files)]
            assert "equal" in str(db.sql(f"CHECK MATERIALIZED VIEW v_{encode}").rows())

    def lines(number: int, count: int = 10) -> bytes:
        return "".join(f'{{"id": {id}}}\n' for id in range(10 * number, 10 * number + count)).encode()

    def put(number: int) -> None:
        sink = io.BytesIO()
        pq.write_table(pa.table({"id": pa.array(range(10 * number, 10 * number + 10), pa.int64())}), sink)
        bucket.write(f"day={number}/a.json", lines(number))
        bucket.write(f"day={number}/a.parquet", sink.getvalue())

    db = headrace.connect(warehouse, master="local[1]", driver_memory="768m", parameters={"barrier_interval": "100ms"})
    keys = {"fs.s3a.access.key": access_key, "fs.s3a.secret.key": secret_key}
    bucket = hadoop_storage(db.engine.spark, "s3a://logs", settings | keys)
    put(0)
    put(1)
    db.sql(f"CREATE SECRET theirs AS '{secret_key}'; CREATE SECRET wrong AS 'n0t-it'")
    for encode in ENCODINGS:
        db.sql(source(f"s_{encode}", encode, "theirs"))
        db.sql(f"CREATE MATERIALIZED VIEW v_{encode} AS SELECT id, file FROM s_{encode}")  # what is there
        assert db.sql(f"SELECT count(*), min(file) FROM s_{encode}").rows() == [(20, f"day=0/a.{encode}")]
    put(2)  # what comes
    hold(files=3)
    # The same bucket, which others have open: keys are those of the source, and of nobody else.
    with pytest.raises(HeadraceError, match="cannot access s3a://logs"):
        db.sql(source("denied", "json", "wrong"))
    with pytest.raises(HeadraceError, match="must be a secret"):
        db.sql(source("shown", "json", "theirs").replace("SECRET theirs", "'abc'"))
    shown = [
        db.sql(text).rows() for text in ("SHOW SOURCES", "SHOW CREATE SOURCE s_json", "EXPLAIN SELECT * FROM s_json")
    ]
    assert secret_key not in str(shown)
    spark, gone = db.engine.spark, db.engine.committed.catalog.get("s_json").id
    db.engine.abandon()  # as a crash would
    put(3)
    bucket.write("day=4/a.json", lines(4, count=5))
    bucket.delete(["day=2/a.json"])  # it was read
    db = headrace.connect(warehouse, spark=spark, takeover=True, parameters={"barrier_interval": "100ms"})
    eventually(lambda: len(db.sql("SELECT id FROM v_json").rows()) == 45)
    assert db.engine.committed.catalog.get("s_json").id == gone
    bucket.write("day=4/a.json", lines(4))  # an object that is put again with more lines has grown
    eventually(lambda: len(db.sql("SELECT id FROM v_json").rows()) == 50)
    assert sorted(db.sql("SELECT id FROM v_json").rows()) == [(id,) for id in range(50)]
    eventually(lambda: sorted(db.sql("SELECT id FROM v_parquet").rows()) == [(id,) for id in range(40)])
    db.close()
    spark.stop()
    print("all is well")


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    main(*sys.argv[2:], sys.stdin.read())
