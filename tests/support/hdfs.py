"""An HDFS of the tests' own: a namenode and a datanode in one process, on free ports, in a folder that goes away."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pyspark

from tests.support.maven import jar

# Spark brings Hadoop's clients; these are of the same version, and what their small cluster itself needs.
JARS = {
    "org.apache.hadoop:hadoop-client-minicluster:3.5.0": (
        "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c"
    ),
    "org.junit.jupiter:junit-jupiter-api:5.11.4": "ab83ef9e51ac4597d59d26b4b58812129550e2f579a404c8af7d09f5ce5b4293",
    "org.junit.platform:junit-platform-commons:1.11.4": (
        "9edd969b0d0670c54105bc91ae79bd1c6f503e12115faba82073b84c86bbc334"
    ),
    "org.opentest4j:opentest4j:1.3.0": "48e2df636cab6563ced64dcdff8abb2355627cb236ef0bf37598682ddf742f1b",
}
PATIENCE = 180.0


class Hdfs:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="headrace-hdfs-"))
        try:
            jars = [str(jar(coordinates, sha256, self.folder)) for coordinates, sha256 in JARS.items()]
        except BaseException:  # a test that is skipped, too
            shutil.rmtree(self.folder)
            raise
        details, log = self.folder / "details.json", self.folder / "log"
        classes = ":".join([*jars, str(Path(pyspark.__file__).parent / "jars" / "*")])
        with log.open("wb") as written:
            self._process = subprocess.Popen(
                [
                    "java", "-Xmx256m", "-XX:TieredStopAtLevel=1", f"-Dtest.build.data={self.folder}/data",
                    "-cp", classes, "org.apache.hadoop.mapreduce.MiniHadoopClusterManager", "-nomr", "-format",
                    "-writeDetails", str(details),
                ],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=written, stderr=written,
            )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        while not (details.exists() and details.read_text().endswith("}")):
            alive = time.monotonic() < deadline and self._process.poll() is None
            assert alive, f"HDFS did not start: {log.read_text()[-2000:]}"
            time.sleep(0.1)
        self.url = f"hdfs://127.0.0.1:{json.loads(details.read_text())['namenode_port']}"

    def remove(self) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
