"""Records that structlog hands to the standard library's logging: the message is a mapping, yet to be rendered."""

import sys
import traceback
from collections.abc import Mapping
from logging import LogRecord
from typing import Any

_OWN = ("_logger", "_name", "_from_structlog", "_record")
"""What the bridge puts beside it, for the formatter of its own."""


def structured_in(record: LogRecord) -> Mapping[str, Any] | None:
    """Return the mapping of such a record. One with secrets is a text by now."""
    said: object = record.msg
    return said if isinstance(said, dict) and "event" in said and not record.args else None


def unpack(structured: Mapping[str, Any], record: LogRecord, held: dict[str, Any]) -> tuple[str, str]:
    """Put what a mapping has beside its event among the fields; return the event, and its traceback or "".

    A field of the record, such as the job that it is of, goes before one of the mapping.
    """
    for name in _OWN:
        held.pop(name, None)
    said = {str(name): value for name, value in structured.items() if name not in _OWN}
    event, trace = said.pop("event"), _trace(said.pop("exc_info", record.exc_info))
    held.update({name: value for name, value in said.items() if name not in held})
    return str(event), trace


def _trace(given: Any) -> str:
    error = given[1] if isinstance(given, tuple) else sys.exc_info()[1] if given is True else given
    return "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else ""
