"""What the API counts, and what it asks the database when Prometheus asks."""

import logging
from collections.abc import Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Metric,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from gramian.analyses import Status
from gramian.queues import PRIORITIES
from gramian.storage.backlog import backlogs

log = logging.getLogger("gramian.service")

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class ServiceMetrics:
    """Counts of one application, from its start. Labels take few values: no ids, no paths, no words of a caller."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._accepted = Counter(
            "gramian_analyses_accepted_total", "New analyses.", ["kind", "priority"], registry=self.registry
        )
        self._deduplicated = Counter(
            "gramian_analyses_deduplicated_total",
            "Questions that an analysis answered which was there already.",
            ["kind", "priority"],
            registry=self.registry,
        )
        self._requests = Counter(
            "gramian_http_requests_total", "Requests.", ["method", "route", "status"], registry=self.registry
        )
        self._request_seconds = Histogram(
            "gramian_http_request_seconds",
            "Seconds from a request to the start of its answer.",
            ["method", "route"],
            buckets=REQUEST_SECONDS,
            registry=self.registry,
        )

    def count_question(self, kind: str, priority: str, *, is_new: bool) -> None:
        (self._accepted if is_new else self._deduplicated).labels(kind, priority).inc()

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        method = method if method in METHODS else "other"
        self._requests.labels(method, route, status).inc()
        self._request_seconds.labels(method, route).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class Backlog(Collector):
    """Gauges of what waits and runs in the database, which all processes share."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterable[Metric]:
        try:
            found = {(item.status, item.priority): item for item in backlogs(self._engine)}
        except SQLAlchemyError as error:  # the counts of this process are worth having all the same
            log.warning("metrics: the database did not answer (%s)", type(error).__name__)
            return
        analyses = GaugeMetricFamily(
            "gramian_analyses", "Unfinished analyses in the database.", labels=["status", "priority"]
        )
        age = GaugeMetricFamily(
            "gramian_queue_age_seconds",
            "Seconds for which the analysis that waits longest has been due; 0 if none waits.",
            labels=["priority"],
        )
        for priority in PRIORITIES:
            for status in (Status.QUEUED, Status.RUNNING):
                item = found.get((status, priority))
                analyses.add_metric([status, priority], item.analyses if item else 0)
            waiting = found.get((Status.QUEUED, priority))
            age.add_metric([priority], (waiting.oldest_seconds or 0.0) if waiting else 0.0)
        yield analyses
        yield age
