"""The job in log records that other libraries write: the fields that our own log adds by itself.

For `structlog`, put `add_job_fields` among its processors. For a handler of the standard library's logging that is
yours, add the filter `JobFields`. Both work in coroutines, threads and processes of handlers, and do nothing
elsewhere.
"""

import logging
import sys
import traceback
from collections.abc import MutableMapping
from typing import Any

from standfast.codec import Scrub
from standfast.worker.logtail import logged_here, mark

__all__ = ["JobFields", "add_job_fields", "job_fields"]


def job_fields() -> dict[str, Any]:
    """Return job_id, task, queue and attempt of the job whose handler asks, with tracing also trace_id and span_id.

    Nothing where the code that asks is of no job.
    """
    attempt = logged_here()
    return {} if attempt is None else mark(attempt)


def add_job_fields(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:  # noqa: ARG001 - as structlog calls it
    """Add the fields of the job to an event of structlog, beside those that it has, and take its secrets out."""
    attempt = logged_here()
    if attempt is None:
        return event
    if attempt.scrub:
        if (trace := _trace(event.pop("exc_info", None))) is not None:
            event["exception"] = trace  # a text, as what renders one later would show secrets, and even locals
        for name, value in event.items():
            event[name] = _clean(value, attempt.scrub)
    for name, value in mark(attempt).items():
        event.setdefault(name, value)
    return event


class JobFields(logging.Filter):
    """Adds the fields of the job to the records of a handler: `handler.addFilter(JobFields())`."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through, with its job if it has one."""
        for name, value in job_fields().items():
            record.__dict__.setdefault(name, value)
        return True


def _trace(given: Any) -> str | None:
    """Return the traceback that a call of structlog asks for by its `exc_info`: an error, or the one at hand."""
    if not given:
        return None
    error = given[1] if isinstance(given, tuple) else given
    if not isinstance(error, BaseException):
        error = sys.exc_info()[1]
    return None if error is None else "".join(traceback.format_exception(error)).rstrip()


def _clean(value: Any, scrub: Scrub) -> Any:
    if isinstance(value, str):
        return scrub.text(value)
    if isinstance(value, int | float | None):
        return value
    try:
        shown = repr(value)
    except Exception:  # noqa: BLE001 - whoever logs is not to suffer for it
        return f"<{type(value).__name__}>"
    return value if (cleaned := scrub.text(shown)) == shown else cleaned
