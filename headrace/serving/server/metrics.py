"""Figures in Prometheus' text format. All of them are in memory already: asking costs no Spark job."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.engine.engine import Engine
from headrace.serving.server.server import Server

_QUANTILES = (0.5, 0.95, 0.99)


def metrics(engine: Engine, server: Server) -> str:
    status, jobs = engine.status(), engine.jobs.list()
    lines: list[str] = []

    def add(name: str, kind: str, text: str, values: Iterable[tuple[Mapping[str, Any], float | None]]) -> None:
        lines.extend((f"# HELP headrace_{name} {text}", f"# TYPE headrace_{name} {kind}"))
        lines.extend(
            f"headrace_{name}{_labels(labels)} {value:g}"
            if isinstance(value, float)
            else f"headrace_{name}{_labels(labels)} {value}"
            for labels, value in values
            if value is not None
        )

    def one(name: str, kind: str, text: str, value: float | None) -> None:
        add(name, kind, text, [({}, value)])

    one("epochs_total", "counter", "Epochs since the start.", status["epochs"])
    one("epochs_failed_total", "counter", "Statements that failed in an epoch.", status["failed_epochs"])
    one("epoch", "gauge", "The newest committed epoch.", status["epoch"])
    one("commit_age_seconds", "gauge", "Since the newest commit.", round(_age(status["committed_at"]), 3))
    one(
        "lag_seconds", "gauge", "How long the oldest uncommitted write has waited; views lag no further.",
        round(status["lag"], 3),
    )  # fmt: skip
    one("queue_rows", "gauge", "Rows that wait for an epoch.", status["queued_rows"])
    recent = sorted(status["recent_epoch_ms"])
    add(
        "epoch_seconds", "gauge", "How long the last epochs took, by quantile.",
        [({"quantile": q}, recent[min(len(recent) - 1, int(q * len(recent)))] / 1000) for q in _QUANTILES if recent],
    )  # fmt: skip
    for field, text in (("rows", "Rows of a relation."), ("bytes", "Stored bytes."), ("runs", "Runs of its state.")):
        add(
            f"relation_{field}", "gauge", text,
            [({"relation": each["name"], "kind": each["kind"]}, each[field]) for each in status["relations"]],
        )  # fmt: skip
    one(
        "computed_anew_total", "counter", "Views and internal tables computed anew because much had changed.",
        status["computed_anew"],
    )  # fmt: skip
    one(
        "queries_without_spark_total", "counter", "Queries that read few rows, answered by the driver itself.",
        status["answered_without_spark"],
    )  # fmt: skip
    one("compactions_total", "counter", "Merges of runs since the start.", status["compactions"])
    one("jobs", "gauge", "Relations that are being filled.", len(jobs))
    for field, text in (
        ("rows_read", "Existing rows that a job has read."),
        ("rows_total", "Existing rows that a job has to read."),
        ("rows_per_second", "How fast it reads."),
    ):
        add(
            f"backfill_{field}", "gauge", text,
            [({"relation": job["name"], "state": job["state"]}, job[field]) for job in jobs],
        )  # fmt: skip
    add(
        "backfill_rows_left", "gauge", "Existing rows that a relation lags behind its inputs.",
        [({"relation": job["name"], "state": job["state"]}, job["rows_total"] - job["rows_read"]) for job in jobs],
    )  # fmt: skip
    sources = engine.sources.status()
    for field, text in (
        ("source_lag_bytes", "How much of a source's log is not in its tables yet."),
        ("source_lag_seconds", "How old what is in its tables is."),
        ("source_lag_rows", "Events of a source that its views do not have yet."),
        ("source_rows_per_second", "How many of them come to its views, lately."),
        ("source_skipped", "Events that were left out because they could not be read."),
        ("source_lost", "Events that were removed before they were read."),
    ):
        values = [({"source": each["name"]}, each[field.removeprefix("source_")]) for each in sources]
        add(field, "gauge", text, values)
    add(
        "source_up", "gauge", "Whether a source is followed without trouble.",
        [({"source": each["name"]}, int(each["error"] is None)) for each in sources],
    )  # fmt: skip
    one("sessions", "gauge", "Clients that are connected.", server.sessions)
    one("sessions_busy", "gauge", "Clients whose statement is running.", server.busy_sessions)
    one("statements_total", "counter", "Statements of clients.", server.statements)
    one("connections_total", "counter", "Connections that were accepted.", server.accepted)
    one("connections_refused_total", "counter", "Connections that were refused.", server.refused)
    one("resident_bytes", "gauge", "Memory of this process, without Spark's.", _resident_bytes())
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, Any]) -> str:
    """
    >>> _labels({"relation": "orders"})
    '{relation="orders"}'
    """
    if not labels:
        return ""
    escaped = (
        (name, str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
        for name, value in labels.items()
    )
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped) + "}"


def _age(committed_at: int) -> float:
    return time.time() - committed_at / 1e6


def _resident_bytes() -> int | None:
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None  # not Linux
