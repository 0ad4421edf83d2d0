"""An S3 of the tests' own: S3Proxy, a server of its protocol that checks signatures, over a folder that goes away.

It is not Amazon's. What it shows is that our side speaks the protocol: through Hadoop's own client, with keys.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.support.maven import jars

SERVER = ("org.gaul:s3proxy:4.1.0", "com.fasterxml.jackson.core:jackson-annotations:2.22")
CLIENT = (
    # Of the Hadoop that Spark brings, and of the AWS SDK that it was built with: two modules and what they need,
    # 19 MB in all, in place of one jar with all of Amazon's services.
    "org.apache.hadoop:hadoop-aws:3.5.0",
    "software.amazon.awssdk:s3-transfer-manager:2.35.4",
    "software.amazon.awssdk:sts:2.35.4",
)
LEFT_OUT = ("software.amazon.awssdk:bundle", "io.netty:*", "org.slf4j:*", "commons-logging:*")
"""The large one, and what Spark has itself"""

ACCESS_KEY, SECRET_KEY = "reader", "s3cret-of-the-bucket"
PATIENCE = 60.0


class S3:
    def __init__(self, bucket: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="headrace-s3-"))
        try:
            self.client = jars(CLIENT, self.folder / "client", without=LEFT_OUT)
            server = jars(SERVER, self.folder / "server")
        except BaseException:  # a test that is skipped, too
            shutil.rmtree(self.folder)
            raise
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
        (self.folder / "data" / bucket).mkdir(parents=True)
        settings = self.folder / "s3proxy.conf"
        settings.write_text(
            f"s3proxy.endpoint={self.endpoint}\ns3proxy.authorization=aws-v2-or-v4\ns3proxy.identity={ACCESS_KEY}\n"
            f"s3proxy.credential={SECRET_KEY}\njclouds.provider=filesystem-nio2\njclouds.identity=x\n"
            f"jclouds.credential=x\njclouds.filesystem.basedir={self.folder}/data\n"
        )
        self._log = self.folder / "log"
        with self._log.open("wb") as written:
            self._process = subprocess.Popen(
                [
                    "java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
                    "-cp", ":".join(map(str, server)), "org.gaul.s3proxy.Main", "--properties", str(settings),
                ],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=written, stderr=written,
            )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            alive = time.monotonic() < deadline and self._process.poll() is None
            assert alive, f"S3Proxy did not start: {self._log.read_text()[-2000:]}"
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(self.endpoint, timeout=5)
        except urllib.error.HTTPError as refused:
            return refused.code == 403  # who brings no signature
        except OSError:
            return False
        return True

    def remove(self) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
