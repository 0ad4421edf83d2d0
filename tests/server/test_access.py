"""Passwords and encryption."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from argparse import Namespace

import psycopg
import pytest

from headrace.errors import InvalidParameterValue
from headrace.service import access_of
from headrace.serving.server.server import Server
from headrace.serving.server.startup import Access
from headrace.serving.wire.scram import Verifier


@pytest.fixture
def guarded(database, tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "1",
         "-subj", "/CN=localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    server = Server(database.engine, port=0, access=Access(password=Verifier.of("sesame"), tls=tls, tls_required=True))
    server.start()
    yield f"host=127.0.0.1 port={server.port} user=root dbname=dev"
    server.stop()


def test_the_right_password_over_tls(guarded):
    with psycopg.connect(f"{guarded} password=sesame sslmode=require") as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert connection.pgconn.ssl_in_use


def test_a_large_result_over_tls(guarded):
    with psycopg.connect(f"{guarded} password=sesame sslmode=require") as connection:
        rows = connection.execute("SELECT x, repeat('x', 100) FROM generate_series(1, 20000) s(x)").fetchall()
        assert len(rows) == 20_000


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("password=simsim sslmode=require", 'password authentication failed for user "root"'),
        ("password=sesame user=nobody sslmode=require", 'password authentication failed for user "nobody"'),
        ("password=sesame sslmode=disable", "only encrypted connections"),
    ],
)
def test_who_is_refused(guarded, more, message):
    with pytest.raises(psycopg.OperationalError, match=message):
        psycopg.connect(f"{guarded} {more}")


def test_other_machines_need_a_password():
    options = Namespace(
        host="0.0.0.0", user="root", password_file=None, trust=False, tls_cert=None, tls_key=None, require_tls=False
    )
    with pytest.raises(InvalidParameterValue, match="would let everybody in"):
        access_of(options)
    options.trust = True
    assert access_of(options).password is None
    options.require_tls = True
    with pytest.raises(InvalidParameterValue, match="would refuse everybody"):
        access_of(options)
