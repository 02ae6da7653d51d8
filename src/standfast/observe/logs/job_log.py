"""What handlers log: its end is kept with each attempt, and the end of all of it for each process.

One handler on the root logger hears every record that its logger lets through. A context variable tells in which
attempt it was made: coroutines have it by themselves, and a handler's thread gets a copy. A thread that a handler
starts has it only in newer Pythons, so it is noted who started it (`note_starters`). An attempt that logs nothing, and
starts no thread, has no tail: it is made with the first record.

Secrets are taken out earlier, where records are made: a logger may have handlers of its own, or pass nothing on to the
root. What a call gives as `extra` joins its record only after that, so the handler looks once more.

For `structlog`, put `add_job_fields` among its processors. For a handler of your own, add the filter `JobFields`.
"""

import functools
import logging
import mmap
import os
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from struct import Struct
from typing import Any, Protocol

from msgspec.structs import replace

from standfast.durable.runtime import current_attempt
from standfast.model.job import Claim
from standfast.model.secrets import NO_SECRETS, Scrub, trace_of
from standfast.model.tracing import AttemptTrace

__all__ = ["JobFields", "add_job_fields", "job_fields"]

MESSAGE_LIMIT = 10_000  # characters kept of a message: its beginning says most
MOST_LINES = 50
MOST_CHARACTERS = 8_000
LONGEST_LINE = 2_000  # characters kept of one line
TRACE_LINES = 8  # lines kept of an exception in a record: the last ones say most
OUR_THREADS = "standfast-"  # how the names of our own threads begin: they work for one attempt after the other
_STARTER = "_standfast_started_by"


def text_of(words: object, scrub: Scrub = NO_SECRETS) -> str:
    """Return what a handler said: no secret, never too long or unreadable, also where saying it fails."""
    try:
        text = scrub.text(str(words))
    except BaseException:  # noqa: BLE001 - the handler's own class decides what it raises
        return "it cannot say what it is: its __str__ raises"
    return legible(text if len(text) <= MESSAGE_LIMIT else f"{text[:MESSAGE_LIMIT]}…")


def legible(text: str) -> str:
    """Escape what some store cannot hold: lone surrogates, as in undecodable file names, and zero bytes."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


Make = Callable[..., logging.LogRecord]


class LogTail:
    """The last lines of one attempt, written from any thread."""

    def __init__(self, scrub: Scrub) -> None:
        self.scrub = scrub
        self._lines: deque[str] = deque(maxlen=MOST_LINES)

    def add(self, record: logging.LogRecord) -> None:
        """Keep a record, made readable; whatever it holds, this does not fail."""
        self.keep(lines_of(record, self.scrub))

    def keep(self, lines: Sequence[str]) -> None:
        """Keep lines that are readable and without secrets."""
        self._lines.extend(lines)

    @property
    def text(self) -> str:
        """The lines, the oldest left out where they are too long together."""
        lines, length = list(self._lines), -1
        kept: list[str] = []
        while lines and (length := length + len(lines[-1]) + 1) <= MOST_CHARACTERS:
            kept.append(lines.pop())
        return "\n".join(reversed(kept))


def lines_of(record: logging.LogRecord, scrub: Scrub) -> list[str]:
    """Return a record as lines without secrets; whatever it holds, this does not fail."""
    at = f"{datetime.fromtimestamp(record.created, UTC).astimezone():%H:%M:%S.%f}"[:-3]
    message = _message(record, scrub)
    if trace := trace_of(record):
        message = "\n".join([message, *trace.splitlines()[-TRACE_LINES:]])
    text = scrub.text(f"{at} {record.levelname} {record.name}: {message}")
    return [legible(_short(line)) for line in text.splitlines()[-MOST_LINES:]]


class Logged(Protocol):
    """An attempt, as far as its log is concerned."""

    claim: Claim
    log: LogTail | None
    scrub: Scrub
    trace: AttemptTrace | None


@dataclass(slots=True)
class Starter:
    """An attempt as a thread that it has started knows it, also after its end: without its arguments."""

    claim: Claim
    log: LogTail | None
    scrub: Scrub
    trace: AttemptTrace | None


def _tail_of(attempt: Logged) -> LogTail:
    if attempt.log is None:
        attempt.log = LogTail(attempt.scrub)
    return attempt.log


def starter_noted(thread: threading.Thread | None) -> Starter | None:
    """Return the attempt that has started a thread."""
    starter = getattr(thread, _STARTER, None)
    return starter if isinstance(starter, Starter) else None


def logged_here() -> Logged | None:
    """Return the attempt that the present code belongs to: its context tells, or else who started its thread."""
    here: Logged | None = current_attempt.get()
    return here or starter_noted(threading.current_thread())


def note_starters() -> Callable[[], None]:
    """Note from now on which attempt starts a thread; return what ends it. Who asks twice has it once."""
    start = threading.Thread.start
    if getattr(start, _STARTER, False):
        return lambda: None

    @functools.wraps(start)
    def start_noted(thread: threading.Thread) -> None:
        with suppress(Exception):  # whoever starts a thread is not to suffer for it
            if not thread.name.startswith(OUR_THREADS) and (starter := _starter_here()) is not None:
                setattr(thread, _STARTER, starter)
        start(thread)

    setattr(start_noted, _STARTER, True)
    threading.Thread.start = start_noted  # type: ignore[method-assign, assignment]

    def end() -> None:
        if threading.Thread.start is start_noted:  # else somebody else's is around it, and stays
            threading.Thread.start = start  # type: ignore[method-assign]

    return end


def _starter_here() -> Starter | None:
    attempt: Logged | None = current_attempt.get()
    if attempt is None:
        return starter_noted(threading.current_thread())
    claim = replace(attempt.claim, payload=b"", metadata={})
    return Starter(claim, _tail_of(attempt), attempt.scrub, attempt.trace)


def mark(attempt: Logged) -> dict[str, Any]:
    """Return what tells in a log to which attempt a line belongs, and where in its trace."""
    claim = attempt.claim
    fields = {"job_id": claim.job_id, "task": claim.task, "queue": claim.queue, "attempt": claim.attempt + 1}
    return fields if attempt.trace is None else {**fields, **attempt.trace.ids()}


class TailHandler(logging.Handler):
    """Hears records; those of an attempt are marked with its job and added to its tail."""

    def handle(self, record: logging.LogRecord) -> bool:
        """Take a record, or leave it at once where it is of no attempt."""
        return logged_here() is not None and super().handle(record)

    def emit(self, record: logging.LogRecord) -> None:
        """Add the record to the tail of its attempt."""
        attempt = logged_here()
        if attempt is None:
            return
        for name, value in mark(attempt).items():
            record.__dict__.setdefault(name, value)
        tail = _tail_of(attempt)
        tail.add(record)
        tail.scrub.record(record)  # for the handlers after this one


def keep_log_tails(root: logging.Logger) -> Callable[[], None]:
    """Hear what reaches this logger, and make every record of an attempt without its secrets; return what ends it.

    The other handlers hear records after this one: they may want to say which job it is about.
    """
    tails, made_before = TailHandler(), logging.getLogRecordFactory()
    root.handlers.insert(0, tails)
    forget = _make_records(_without_secrets(made_before), made_before)

    def end() -> None:
        root.removeHandler(tails)
        forget()

    return end


def keep_log_tails_quietly() -> Callable[[], None]:
    """Do the same where the root logger is another's: records are kept as they are made. Return what ends it."""
    made_before = logging.getLogRecordFactory()
    make_clean = _without_secrets(made_before)

    def make(*args: Any, **more: Any) -> logging.LogRecord:
        record = make_clean(*args, **more)
        attempt = logged_here()
        if attempt is not None:
            _tail_of(attempt).add(record)
        return record

    return _make_records(make, made_before)


def _make_records(make: Make, made_before: Make) -> Callable[[], None]:
    logging.setLogRecordFactory(make)
    forget_starters = note_starters()

    def end() -> None:
        forget_starters()
        if logging.getLogRecordFactory() is make:  # else somebody else's is around it, and stays
            logging.setLogRecordFactory(made_before)

    return end


def _without_secrets(made_before: Make) -> Make:
    def make(*args: Any, **more: Any) -> logging.LogRecord:
        record = made_before(*args, **more)
        attempt = logged_here()
        if attempt is not None and attempt.scrub:
            attempt.scrub.record(record)
        return record

    return make


def _short(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"


def _message(record: logging.LogRecord, scrub: Scrub) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - arguments that do not fit are told of by the other handlers
        return text_of(record.msg, scrub)


ROOM = 64 * 1024  # bytes that are kept
MOST_RING_LINES = 200  # lines that are read of it
_WRITTEN = Struct("=Q")


class LogRing(logging.Handler):
    """Hears every record that reaches its logger, and keeps the last ones in a file for the supervisor.

    The file has a fixed size and is mapped into memory: a line is copied into it, over the oldest, without a system
    call, and belongs to the kernel at once. The file opens with how many bytes were ever written. That number grows
    last, so a death in the middle of a line costs that line; the reader leaves out the line that the newest one cut.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._pid = os.getpid()
        self._written = 0
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, bytes(_WRITTEN.size + ROOM))  # now, while a full disk is an ordinary error
            self._map = mmap.mmap(file, 0)
        finally:
            os.close(file)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record; whatever it holds, this does not fail."""
        if os.getpid() != self._pid:  # a fork shares the file, and would write over what we write
            return
        attempt = logged_here()
        lines = lines_of(record, NO_SECRETS if attempt is None else attempt.scrub)
        whose = "" if attempt is None else f"[{attempt.claim.task} {attempt.claim.job_id}] "
        self._write("".join(f"{whose}{line}\n" for line in lines).encode(errors="replace")[-ROOM:])

    def _write(self, data: bytes) -> None:
        start = self._written % ROOM
        first = data[: ROOM - start]
        begin = _WRITTEN.size + start
        self._map[begin : begin + len(first)] = first
        rest = data[len(first) :]
        self._map[_WRITTEN.size : _WRITTEN.size + len(rest)] = rest
        self._written += len(data)
        self._map[: _WRITTEN.size] = _WRITTEN.pack(self._written)


def keep_log_ring(path: Path, root: logging.Logger) -> None:
    """Keep the end of what reaches this logger in a file, for good.

    Only after the user's own set-up: `logging.basicConfig` does nothing to a logger that has a handler.
    """
    root.addHandler(LogRing(path))


def read_ring(path: Path) -> str:
    """Return the last lines of the log of a process, dead or alive; nothing where there are none."""
    try:
        data = path.read_bytes()
    except OSError:
        return ""
    if len(data) < _WRITTEN.size + ROOM:
        return ""
    [written] = _WRITTEN.unpack_from(data)
    ring = data[_WRITTEN.size :]
    if written <= ROOM:
        text = ring[:written]
    else:
        _, _, text = (ring[written % ROOM :] + ring[: written % ROOM]).partition(b"\n")
    return "\n".join(text.decode(errors="replace").splitlines()[-MOST_RING_LINES:])


def job_fields() -> dict[str, Any]:
    """Return what tells of the job whose handler asks: job_id, task, queue, attempt, and ids of its trace."""
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
