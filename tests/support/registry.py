"""A registry of schemas of the tests' own: Apicurio's, by the interface that it shares with Confluent's.

In front of it there is a proxy, which asks for a password, as Apicurio by itself does not, and can be out of order.
"""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.maven import archive

SERVER = "io.apicurio:apicurio-registry-app:2.6.13.Final:tar.gz:all"
USER, PASSWORD = "reader", "s3cret-of-the-registry"
PATIENCE = 60.0


class SchemaRegistry:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="headrace-registry-"))
        try:
            with tarfile.open(archive(SERVER, self.folder / "archive")) as packed:
                # Python 3.11.3 and older take everything out of an archive as it is.
                packed.extractall(self.folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        except BaseException:  # a test that is skipped, too
            shutil.rmtree(self.folder)
            raise
        (run,) = self.folder.glob("*-runner.jar")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        self._log = self.folder / "log"
        with self._log.open("wb") as written:
            self._process = subprocess.Popen(
                [
                    "java", "-Xmx192m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dquarkus.http.port={port}",
                    "-Dquarkus.http.host=127.0.0.1", "-jar", str(run),
                ],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=written, stderr=written,
            )  # fmt: skip
        self.down = False
        self.asked: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self._ask("/subjects")
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"the registry did not start: {self._log.read_text()[-2000:]}") from None
                time.sleep(0.05)

    def remove(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def register(self, subject: str, schema: Any, *references: dict[str, Any]) -> int:
        """The number by which events name it."""
        body = {"schema": json.dumps(schema), "schemaType": "AVRO", "references": references}
        return self._ask(f"/subjects/{subject}/versions", body)["id"]

    def _ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)


def _handler(registry: SchemaRegistry) -> type[BaseHTTPRequestHandler]:
    expected = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.asked.append(self.path)
            if registry.down:
                return self._answer(503, b"")
            if self.headers.get("Authorization") != expected:
                return self._answer(401, b"")
            try:
                with urllib.request.urlopen(registry._url + self.path, timeout=PATIENCE) as answer:
                    self._answer(answer.status, answer.read())
            except urllib.error.HTTPError as problem:
                self._answer(problem.code, problem.read())

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    return Proxy
