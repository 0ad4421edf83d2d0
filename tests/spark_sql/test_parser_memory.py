"""Spark's parser remembers what it has learned from queries: not without end."""

from __future__ import annotations

from headrace.engine.spark import SESSION_SETTINGS, own_session

THRESHOLD = "spark.sql.parser.parserDfaCacheFlushThreshold"


def test_what_the_parser_has_learned_is_bounded(spark):
    session = own_session(spark)
    learned = session._jvm.org.apache.spark.sql.catalyst.parser.AbstractParser.getDFACacheNumStates
    query = "SELECT max(x.a) FILTER (WHERE x.b) FROM VALUES (1, true) x(a, b) WHERE a > 1 OR NOT b"
    session.sql(query)
    assert 100 < learned() < int(SESSION_SETTINGS[THRESHOLD])
    session.conf.set(THRESHOLD, "10")
    session.sql(query)
    assert learned() <= 10
