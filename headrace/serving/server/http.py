"""What monitoring asks: is the server well (`/healthz`), and how is it doing (`/metrics`)?"""

from __future__ import annotations

import contextlib
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from headrace.engine.engine import Engine
from headrace.errors import HeadraceError
from headrace.serving.server.metrics import metrics
from headrace.serving.server.server import Server

REQUESTS = 16
"""At a time. More than a few only come from somebody who means no good; they are dropped."""
PATIENCE = 10.0
"""Seconds for one request and its answer."""


class _BoundedServer(ThreadingHTTPServer):
    """So many requests at a time, each for so long: HTTP's own timeout begins anew with every byte."""

    daemon_threads = True

    def __init__(self, bound: socket.socket, handler: type[BaseHTTPRequestHandler]):
        super().__init__(bound.getsockname()[:2], handler, bind_and_activate=False)
        self.socket.close()
        self.socket = bound
        self.server_activate()
        self._places = threading.BoundedSemaphore(REQUESTS)

    def process_request(self, request, client_address) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no more threads
            self._places.release()
            self.shutdown_request(request)

    def process_request_thread(self, request, client_address) -> None:
        cut = threading.Timer(PATIENCE, _cut, [request])
        cut.daemon = True
        cut.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            cut.cancel()
            self._places.release()

    def handle_error(self, request, client_address) -> None:
        pass  # who went away before the answer is nobody's concern


def _cut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


class MonitoringServer:
    def __init__(self, engine: Engine, server: Server, *, bound: socket.socket):
        self.stopping = False
        monitoring = self

        class Handler(BaseHTTPRequestHandler):
            server_version = "headrace"
            sys_version = ""

            def do_GET(self) -> None:
                path = urlsplit(self.path).path
                if path == "/healthz":
                    self._answer(*monitoring.health(engine), "text/plain; charset=utf-8")
                elif path == "/metrics":
                    self._answer(200, metrics(engine, server), "text/plain; version=0.0.4; charset=utf-8")
                else:
                    self._answer(404, "there are /healthz and /metrics\n", "text/plain; charset=utf-8")

            do_HEAD = do_GET

            def _answer(self, status: int, text: str, kind: str) -> None:
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass  # a probe every few seconds is not news

        self._server = _BoundedServer(bound, Handler)
        self.port = bound.getsockname()[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="headrace-http", daemon=True)

    def health(self, engine: Engine) -> tuple[int, str]:
        if self.stopping:
            return 503, "stopping\n"
        try:
            engine.coordinator.refuse_if_stopped()
        except HeadraceError as error:
            return 503, f"{error.message}\n"
        return 200, "ok\n"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
