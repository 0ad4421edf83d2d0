"""Which connectors there are."""

from __future__ import annotations

from headrace.sources import datagen, files, kafka, nexmark
from headrace.sources.connector import Connector

CONNECTORS: dict[str, Connector] = {
    "datagen": datagen.CONNECTOR,
    "file": files.CONNECTOR,
    "kafka": kafka.CONNECTOR,
    "nexmark": nexmark.CONNECTOR,
}
