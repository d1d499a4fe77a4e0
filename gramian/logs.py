"""Where log lines go, and what every one of them carries: standard logging in, one line an event out.

Modules log as usual, `logging.getLogger("gramian.…")`. Ids come from context variables: what was bound with
`structlog.contextvars.bind_contextvars` stands on every line that is written in that context: `request_id` in a
request, `analysis_id` and `attempt` as well in a job.
"""

import logging
import sys
import threading
from types import TracebackType
from typing import Literal

import structlog
from stamina.instrumentation import RetryDetails, set_on_retry_hooks
from structlog.stdlib import ProcessorFormatter
from structlog.types import EventDict, Processor, WrappedLogger

log = logging.getLogger("gramian")

#: The only values of `extra` that are written: libraries put arguments and addresses there, with secrets in them.
EXTRA = ("method", "route", "status", "seconds", "analysis_id")


def configure(level: str, form: Literal["text", "json"]) -> None:
    """Send the lines of this process, and its uncaught errors, to standard error.

    `level` is for our own loggers. Libraries are heard from WARNING on, whatever it is: below that they tell of
    addresses and headers.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=[
                structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.processors.CallsiteParameterAdder([structlog.processors.CallsiteParameter.PROCESS]),
                structlog.contextvars.merge_contextvars,
                structlog.stdlib.ExtraAdder(allow=EXTRA),
            ],
            processors=[ProcessorFormatter.remove_processors_meta, *_rendering(form)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[level]))
    log.setLevel(level)
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda args: _uncaught(args.exc_type, args.exc_value, args.exc_traceback)
    set_on_retry_hooks([_tell_of_retry])


def _rendering(form: Literal["text", "json"]) -> list[Processor]:
    if form == "json":
        return [
            structlog.processors.format_exc_info,  # the trace becomes a value: one line an event
            structlog.processors.EventRenamer("message"),
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ]
    console = structlog.dev.ConsoleRenderer(
        colors=False,
        timestamp_key="time",
        pad_event_to=0,
        pad_level=False,
        exception_formatter=structlog.dev.plain_traceback,
    )
    return [_on_one_line, console]


def _on_one_line(logger: WrappedLogger, name: str, event: EventDict) -> EventDict:  # noqa: ARG001
    """A message may quote a file that somebody uploaded: a newline in it must not look like another event."""
    event["event"] = "\\n".join(str(event["event"]).splitlines())
    return event


def _uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt | SystemExit):
        log.critical("uncaught error", exc_info=(kind, error, trace) if error else None)


def _tell_of_retry(details: RetryDetails) -> None:
    """Only what cannot be secret: not the arguments, and of the error its type."""
    cause = type(details.caused_by).__name__
    log.warning("%s failed (%s), trying again in %.1f s", details.name, cause, details.wait_for)
