"""Figures in Prometheus' text format. Asking costs no Spark job: they are in memory, or the system or Java has them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headrace.engine.engine import Engine
from headrace.engine.spark import java_has_ended, java_heap, java_process_id
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

    def summary(name: str, text: str, recent: Sequence[float], seconds: float, count: int) -> None:
        last = sorted(recent)
        add(name, "summary", text, [({"quantile": q}, last[int(q * (len(last) - 1))]) for q in _QUANTILES if last])
        lines.extend((f"headrace_{name}_sum {seconds:.6f}", f"headrace_{name}_count {count}"))

    one("epochs_total", "counter", "Epochs since the start.", status["epochs"])
    one("epochs_failed_total", "counter", "Statements that failed in an epoch.", status["failed_epochs"])
    one("epoch", "gauge", "The newest committed epoch.", status["epoch"])
    one("commit_age_seconds", "gauge", "Since the newest commit.", round(_age(status["committed_at"]), 3))
    one(
        "lag_seconds", "gauge", "How long the oldest uncommitted write has waited; views lag no further.",
        round(status["lag"], 3),
    )  # fmt: skip
    one("queue_rows", "gauge", "Rows that wait for an epoch.", status["queued_rows"])
    summary(
        "epoch_seconds", "How long epochs took; quantiles are of the last 600.",
        [each / 1000 for each in status["recent_epoch_ms"]], status["epoch_seconds"], status["epochs"],
    )  # fmt: skip
    one("commits_total", "counter", "Versions of the warehouse that were committed.", status["commits"])
    one("rows_written_total", "counter", "Rows that statements inserted, updated and deleted.", status["rows_written"])
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
    one("compaction_seconds_total", "counter", "How long they took.", round(status["compaction_seconds"], 3))
    one("compaction_bytes_total", "counter", "Stored bytes that they read.", status["compaction_bytes"])
    one("compaction_running", "gauge", "Relations whose runs are being merged.", status["compacting"])
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
    timings = server.timings
    summary(
        "statement_seconds",
        "How long statements took, until their last row was sent; what is written together of a pipeline counts once."
        " Quantiles are of the last 600.",
        list(timings.recent), timings.seconds, timings.count,
    )  # fmt: skip
    one("connections_total", "counter", "Connections that were accepted.", server.accepted)
    one("connections_refused_total", "counter", "Connections that were refused.", server.refused)
    one("resident_bytes", "gauge", "Memory of this process, without Spark's.", _resident_bytes("self"))
    java = java_process_id()
    one("java_resident_bytes", "gauge", "Memory of Spark's Java process.", java and _resident_bytes(java))
    used, most = (None, None) if java_has_ended() else java_heap(engine.spark)
    one("java_heap_used_bytes", "gauge", "Its heap in use, and what can be collected of it.", used)
    one("java_heap_max_bytes", "gauge", "What its heap may grow to.", most)
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


def _resident_bytes(process: int | str) -> int | None:
    try:
        with open(f"/proc/{process}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None  # not Linux
