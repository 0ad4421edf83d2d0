"""A server in place of an engine: what an engine in this process offers, asked over the wire.

with headrace.connect("postgresql://root@localhost:4566/dev") as db:
    db.sql("SELECT * FROM t").show()
"""
