"""What nobody is to see: which options must be secrets, and who is told a password. No JVM."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headrace.engine.event_sources import CONFIDENTIAL
from headrace.sources.registry import Registry


@pytest.mark.parametrize(
    ("option", "confidential"),
    [
        ("properties.sasl.password", True), ("properties.ssl.key.password", True), ("properties.ssl.key.pem", True),
        ("properties.sasl.oauthbearer.assertion.private.key.passphrase", True),
        ("properties.sasl.oauthbearer.assertion.private.key.pem", True),
        ("properties.sasl.oauthbearer.assertion.private.key.file", False), ("properties.ssl.key.location", False),
        ("hadoop.fs.s3a.secret.key", True), ("hadoop.fs.s3a.session.token", True),
        ("hadoop.fs.s3a.encryption.key", True), ("hadoop.fs.s3a.server-side-encryption.key", True),
        ("hadoop.fs.s3a.bucket.logs.encryption.key", True), ("hadoop.fs.s3a.encryption.algorithm", False),
        ("hadoop.fs.s3a.access.key", False), ("hadoop.fs.gs.auth.service.account.private.key", True),
        ("hadoop.fs.gs.auth.service.account.private.key.id", False), ("hadoop.fs.azure.account.key.a.net", True),
        ("hadoop.fs.azure.sas.container.a.net", True), ("hadoop.fs.azure.sas.fixed.token.a.net", True),
        ("hadoop.fs.azure.sas.token.provider.type.a.net", False),
        ("hadoop.fs.azure.account.oauth2.refresh.token.a.net", True),
        ("hadoop.fs.azure.account.oauth2.refresh.token.endpoint", False),
    ],
)  # fmt: skip
def test_options_that_must_be_secrets(option, confidential):
    assert bool(CONFIDENTIAL.search(option)) == confidential


@pytest.fixture
def servers() -> Iterator[tuple[str, dict[str, str | None]]]:
    """A registry that refers all to somebody else, and the passwords that the two were told, by path."""
    told: dict[str, str | None] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told[self.path] = self.headers["Authorization"]
            if self.path.startswith("/here"):
                self.send_response(302)
                self.send_header("Location", f"http://localhost:{self.server.server_address[1]}/there")
                self.end_headers()
            else:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"[]")

        def log_message(self, *_) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/here", told
    server.shutdown()
    server.server_close()


def test_only_the_registry_is_told_its_password(servers):
    url, told = servers
    assert Registry(url=url, user="u", password="p").ask("/subjects") == []
    assert told == {"/here/subjects": "Basic dTpw", "/there": None}
