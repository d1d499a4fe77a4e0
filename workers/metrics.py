"""What a worker counts, and the small server that Prometheus asks. All of it lives in the worker, none in its children.

A child is forked while the server's threads may hold locks of the registry: it must not touch the registry, and lets go
of the port at once, so that the port is free again when the worker is gone and the child still computes.
"""

import logging
import os
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import MetricsHandler

from workers.outcomes import Ending

log = logging.getLogger("gramian.worker")

CANCELLED = "cancelled"  # the worker ended the child itself, by order
OUTCOMES = (*(ending.name.lower() for ending in Ending), CANCELLED)

RUN_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600)
SILENCE_SECONDS = 10.0  # a client that asks nothing for so long is let go


class WorkerMetrics:
    """Counts of one worker process, from its start."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._started = Counter(
            "gramian_worker_jobs_started_total", "Messages taken, each in a child process.", registry=self.registry
        )
        self._finished = Counter(
            "gramian_worker_jobs_finished_total",
            "Child processes that ended, by outcome.",
            ["outcome"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "gramian_worker_run_seconds",
            "Seconds from the start of the child to its end, of those that had something to do.",
            buckets=RUN_SECONDS,
            registry=self.registry,
        )
        for outcome in OUTCOMES:
            self._finished.labels(outcome)  # a rate needs the zero that comes before the first one

    def started(self) -> None:
        self._started.inc()

    def finished(self, outcome: str, seconds: float) -> None:
        self._finished.labels(outcome).inc()
        if outcome != Ending.NOTHING_TO_DO.name.lower():
            self._seconds.observe(seconds)


class _Handler(MetricsHandler):
    timeout = SILENCE_SECONDS


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, host: str, port: int, registry: CollectorRegistry) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler.factory(registry))

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        log.debug("a client of /metrics went away", exc_info=True)


@contextmanager
def served(metrics: WorkerMetrics, host: str, port: int) -> Iterator[None]:
    """Answer GET requests with the metrics for as long as the block runs; port 0 takes a free one."""
    with _Server(host, port, metrics.registry) as server:
        os.register_at_fork(after_in_child=server.socket.close)
        thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        thread.start()
        shown = f"[{host}]" if ":" in host else host
        log.info("metrics on http://%s:%d/metrics", shown, server.server_address[1])
        try:
            yield
        finally:
            server.shutdown()
