"""``headrace serve``: an engine that lives as long as the service, and its clients."""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import signal
import socket
import ssl
import threading
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from headrace import __version__
from headrace.database import Database
from headrace.engine.spark import java_has_ended, spark_gone
from headrace.errors import EnvironmentProblem, InvalidParameterValue
from headrace.serving.server.http import MonitoringServer
from headrace.serving.server.logs import write_logs
from headrace.serving.server.server import Server, bind
from headrace.serving.server.startup import Access
from headrace.serving.wire.scram import Verifier

log = logging.getLogger("headrace.server")

WATCH_SECONDS = 1.0
"""Between two looks whether Spark still lives: without it there is nothing to serve."""

PASSWORD_VARIABLE = "HEADRACE_PASSWORD"


def serve(options: Namespace, *, say: Callable[[str], None]) -> int:
    """Until it is told to stop. ``say`` gets the line that scripts wait for."""
    write_logs(options.log_format, options.log_level)
    access = access_of(options)
    began = time.monotonic()
    asked = threading.Event()
    # Before the engine, which would start Spark and take the warehouse for nothing.
    bound, monitored = _bind(options.host, options.port), None
    if options.http_port:
        monitored = _bind(options.host, options.http_port)
    log.info("headrace %s starts on %s", __version__, _without_secrets(options.warehouse))
    at_terminal = _has_terminal()
    hang_up = _hang_ups_ignored()
    with Database(
        options.warehouse,
        master=options.master,
        takeover=options.takeover,
        parameters=dict(options.set),
        driver_memory=options.driver_memory,
    ) as database:
        # After Spark has started, which brings a handler of its own.
        for number in (signal.SIGTERM, signal.SIGINT, *hang_up):
            signal.signal(number, lambda number, _: _stop_or_leave(number, asked))
        if hang_up and at_terminal and not _has_terminal():
            asked.set()  # it was closed while Spark started
        server = Server(database.engine, bound=bound, access=access, sessions=options.sessions)
        monitoring = None
        if monitored is not None:
            monitoring = MonitoringServer(database.engine, server, bound=monitored)
            monitoring.start()
        server.start()
        opened = database.engine.committed
        log.info(
            "ready after %.1f s: epoch %d, %d relations, %d jobs that go on",
            time.monotonic() - began, opened.epoch, len(opened.catalog.relations), len(database.engine.jobs.list()),
        )  # fmt: skip
        say(f"headrace is ready: psql -h {server.host} -p {server.port} -d dev -U {access.user}")
        while not asked.wait(WATCH_SECONDS) and not java_has_ended():
            pass
        log.info("stopping: no new clients; statements that run may end")
        began = time.monotonic()
        if monitoring is not None:
            monitoring.stopping = True
        server.stop()
        if monitoring is not None:
            monitoring.stop()
        if java_has_ended():
            raise spark_gone()
    log.info("stopped in %.1f s: all that was asked for is committed", time.monotonic() - began)
    return 0


def _stop_or_leave(number: int, asked: threading.Event) -> None:
    if number == signal.SIGHUP and asked.is_set():
        return  # a terminal that is closed may say so more than once
    if asked.is_set():
        os._exit(130)  # asked twice: whoever does that does not want to wait, and a crash loses nothing
    asked.set()


def _hang_ups_ignored() -> tuple[int, ...]:
    """Answers the signal of a terminal that is closed, if it is for us to handle; nohup has it ignored.

    All processes of the terminal get it, Java too, which would end at once and take the last epoch along. It does not
    if it begins with the signal ignored, so this one must have it ignored when it starts Spark.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return ()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return (signal.SIGHUP,)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _without_secrets(warehouse: str) -> str:
    """
    >>> _without_secrets("s3a://key:word@bucket/shop"), _without_secrets("shop")
    ('s3a://bucket/shop', 'shop')
    """
    return re.sub(r"(?<=://)[^/]*@", "", warehouse)


def _bind(host: str, port: int) -> socket.socket:
    try:
        return bind(host, port)
    except OSError as error:
        reason = error.strerror or error
        raise EnvironmentProblem(
            f"cannot listen on {host}:{port}: {reason}", hint="name another with --port or --http-port"
        ) from error


def access_of(options: Namespace) -> Access:
    password = os.environ.get(PASSWORD_VARIABLE)
    if options.password_file is not None:
        try:
            password = Path(options.password_file).read_text(encoding="utf-8").rstrip("\r\n")
        except OSError as error:
            raise EnvironmentProblem(f"{options.password_file} cannot be read: {error.strerror}") from error
    if password == "":
        raise InvalidParameterValue(
            "the password is empty", hint="clients do not send empty ones; for none at all leave it out"
        )
    if password is None and not options.trust and not _is_loopback(options.host):
        raise InvalidParameterValue(
            f"listening on {options.host} without a password would let everybody in",
            hint=f"give --password-file or ${PASSWORD_VARIABLE}; or --trust if that is what you want",
        )
    if (options.tls_cert is None) != (options.tls_key is None):
        raise InvalidParameterValue("--tls-cert and --tls-key belong together")
    if options.require_tls and options.tls_cert is None:
        raise InvalidParameterValue(
            "--require-tls without a certificate would refuse everybody", hint="give --tls-cert and --tls-key"
        )
    tls = None
    if options.tls_cert is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            tls.load_cert_chain(options.tls_cert, options.tls_key)
        except (OSError, ssl.SSLError) as error:
            raise EnvironmentProblem(f"the certificate cannot be used: {error}") from error
    return Access(
        user=options.user,
        password=None if password is None else Verifier.of(password),
        tls=tls,
        tls_required=options.require_tls,
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
