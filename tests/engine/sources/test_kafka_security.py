"""A broker that speaks TLS, and asks who one is."""

from __future__ import annotations

import pytest

from headrace.cdc.problems import SourceRefused
from headrace.sources import kafka
from tests.engine.sources.conftest import NEEDS_KAFKA, holds, send, source
from tests.support.certificates import certificate
from tests.support.kafka import PASSWORD, USER

pytestmark = NEEDS_KAFKA


def secure(broker, topic: str, name: str = "s", *, secret: str, authority: str | None = None) -> str:
    options = {
        "properties.security.protocol": "SASL_SSL", "properties.sasl.mechanism": "SCRAM-SHA-512",
        "properties.sasl.username": USER, "properties.ssl.ca.location": authority or str(broker.authority),
    }  # fmt: skip
    plain = source(broker, topic, name).replace(broker.servers, broker.listeners["SECURE"])
    more = "".join(f", {key} = '{value}'" for key, value in options.items())
    return plain.replace(") FORMAT", f"{more}, properties.sasl.password = SECRET {secret}) FORMAT")


def test_who_has_the_password_reads_and_nobody_sees_it(db, broker):
    broker.let_in(USER, PASSWORD)
    topic = broker.topic()
    send(broker, topic, range(20))
    db.sql(f"CREATE SECRET password AS '{PASSWORD}'")
    db.sql(secure(broker, topic, secret="password"))
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT p, o FROM s")
    send(broker, topic, range(20, 30))
    holds(db, "m", [(0, at) for at in range(30)])
    shown = [*db.sql("SHOW CREATE SOURCE s").rows(), *db.sql("SHOW SOURCES").rows(), *db.sql("DESCRIBE s").rows()]
    assert PASSWORD not in str(shown) and "SECRET password" in str(shown)
    assert PASSWORD not in str(db.engine.committed.offsets)


def test_who_has_another_is_refused_and_so_is_a_stranger(db, broker, tmp_path, monkeypatch):
    monkeypatch.setattr(kafka, "ASK_SECONDS", 2.0)
    broker.let_in(USER, PASSWORD)
    topic = broker.topic()
    db.sql("CREATE SECRET wrong AS 'n0t-it'")
    with pytest.raises(SourceRefused, match="refuse the connection: .*[Aa]uthentication") as refused:
        db.sql(secure(broker, topic, secret="wrong"))
    assert "n0t-it" not in str(refused.value)
    db.sql(f"CREATE SECRET password AS '{PASSWORD}'")
    stranger = tmp_path / "stranger.crt"
    certificate(tmp_path, "stranger", None)
    with pytest.raises(SourceRefused, match="refuse the connection: .*certificate"):
        db.sql(secure(broker, topic, secret="password", authority=str(stranger)))
    assert not db.sql("SHOW SOURCES").rows()
