"""What monitoring asks: is the server well (`/healthz`), and how is it doing (`/metrics`)?"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from headrace.engine.engine import Engine
from headrace.errors import HeadraceError
from headrace.serving.server.metrics import metrics
from headrace.serving.server.server import Server


class MonitoringServer:
    def __init__(self, engine: Engine, server: Server, *, host: str, port: int):
        self.stopping = False
        monitoring = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10  # whoever sends half a request does not keep a thread
            server_version = "headrace"
            sys_version = ""

            def do_GET(self) -> None:
                if self.path == "/healthz":
                    self._answer(*monitoring.health(engine), "text/plain; charset=utf-8")
                elif self.path == "/metrics":
                    self._answer(200, metrics(engine, server), "text/plain; version=0.0.4; charset=utf-8")
                else:
                    self._answer(404, "there are /healthz and /metrics\n", "text/plain; charset=utf-8")

            def _answer(self, status: int, text: str, kind: str) -> None:
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass  # a probe every few seconds is not news

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
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
