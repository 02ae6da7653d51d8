"""Reports exceptions that no attempt and no caller could catch, with the attempt behind them where that is known.

Code of an attempt finds it in a context variable; for a thread of a handler it is noted who started it. Such a thread
may outlive its attempt.
"""

import asyncio
import gc
import hashlib
import logging
import os
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Final

import msgspec
from msgspec.structs import replace

from standfast.durable.runtime import current_attempt
from standfast.errors import PayloadError
from standfast.model.clock import Clock
from standfast.model.display import counted, one_line, short_id
from standfast.model.incidents import InvolvedJob, Trouble
from standfast.model.job import UNREADABLE, Claim
from standfast.model.secrets import NO_SECRETS, Scrub
from standfast.observe.logs.job_log import Logged, legible, starter_noted
from standfast.worker.control import Control
from standfast.worker.messages import Noticed


class ErrorSource(msgspec.Struct, frozen=True):
    """The attempt that something belongs to, and what takes its secrets out of a text."""

    job: InvolvedJob
    scrub: Scrub


def attempt_of(attempt: Logged | None) -> ErrorSource | None:
    """Return an attempt in few words: what is kept of it must not keep its arguments."""
    if attempt is None:
        return None
    claim = attempt.claim
    return ErrorSource(InvolvedJob(claim.job_id, claim.fence, claim.task, claim.attempt + 1), attempt.scrub)


def attempt_behind(thing: object) -> ErrorSource | None:
    """Return the attempt in whose context a task or a callback of the event loop runs."""
    get_context = getattr(thing, "get_context", None)
    if get_context is not None:
        context = get_context()
    elif isinstance(thing, asyncio.Task | asyncio.Handle):
        # Python 3.11 has no word for it; but what a thing refers to can be asked for.
        context = next((each for each in gc.get_referents(thing) if isinstance(each, Context)), None)
    else:
        context = None
    return None if context is None else attempt_of(context.get(current_attempt))


def starter_of(thread: threading.Thread | None) -> ErrorSource | None:
    """Return the attempt that has started a thread."""
    return attempt_of(starter_noted(thread))


# The first error of a kind is sent as it comes, the others are counted and sent together every `EVERY` seconds.
# Kinds beyond the limit count as `OTHERS`. Pure; its owner has the lock.

EVERY = 5.0  # seconds between two messages about one kind
SHORTEST_NAP = 0.1  # seconds between two looks: sums of times are not exact
FORGET_AFTER = 60.0  # seconds of quiet after which a kind is a new one
MOST_KINDS = 100
MOST_JOBS = 20  # jobs that are named of one kind
MOST_AT_ONCE = 20  # messages about all kinds together in the time of `EVERY`
OTHERS: Final = "others"


@dataclass(slots=True)
class ErrorGroup:
    """What there is of one kind: how its first was described, and how many were not told yet, by whose jobs."""

    noticed: Noticed
    count: int = 1
    told_at: float = float("-inf")
    jobs: dict[InvolvedJob, None] = field(default_factory=dict)


class ErrorGroups:
    """Counts by kind."""

    def __init__(self, boot: Callable[[], float]) -> None:
        self._boot = boot
        self._piles: dict[Hashable, ErrorGroup] = {}
        self._sent_at: deque[float] = deque(maxlen=MOST_AT_ONCE)

    def find(self, kind: Hashable) -> ErrorGroup | None:
        """Return the pile of a kind, if there is one already."""
        return self._piles.get(kind)

    @property
    def full(self) -> bool:
        """Whether no further kind can be known: it is one of the `OTHERS`."""
        return len(self._piles) >= MOST_KINDS

    def begin(self, kind: Hashable, noticed: Noticed) -> None:
        """Take in the first of a kind."""
        self._piles[kind] = ErrorGroup(noticed, jobs=dict.fromkeys(noticed.jobs))

    def due(self) -> list[ErrorGroup]:
        """Return what may be told now; from here on it counts as told, so its numbers are handed out with it."""
        now = self._boot()
        told = []
        for kind, pile in list(self._piles.items()):
            if not pile.count:
                if now - pile.told_at >= FORGET_AFTER:
                    del self._piles[kind]
            elif now - pile.told_at >= EVERY and self._may_send(now):
                told.append(ErrorGroup(pile.noticed, pile.count, now, pile.jobs))
                pile.count, pile.told_at, pile.jobs = 0, now, {}
        return told

    def rest(self) -> list[ErrorGroup]:
        """Return all that was not told yet, and forget it."""
        piles, self._piles = self._piles, {}
        return [pile for pile in piles.values() if pile.count]

    @property
    def next_in(self) -> float | None:
        """In how many seconds something is to be told; None where nothing waits."""
        waiting = [pile.told_at for pile in self._piles.values() if pile.count]
        if not waiting:
            return None
        free_at = self._sent_at[0] if len(self._sent_at) == MOST_AT_ONCE else float("-inf")
        return max(max(min(waiting), free_at) + EVERY - self._boot(), SHORTEST_NAP)

    def _may_send(self, now: float) -> bool:
        if len(self._sent_at) == MOST_AT_ONCE and now - self._sent_at[0] < EVERY:
            return False
        self._sent_at.append(now)
        return True


# Errors come from any thread and in any state of the process, a hundred thousand in a row, or after the event loop.
# So they are only counted where they are raised, and the first of a kind is described; the event loop does the
# rest.

log = logging.getLogger(__name__)
INNERMOST = 3  # lines of a traceback by which two of a kind are known
LONGEST_TRACE = 32_000  # characters kept of a traceback: its end says most
LONGEST_SUMMARY = 300
MOST_RUNNING = 10  # jobs that are named which ran beside it
Lines = tuple[tuple[str, int], ...]

ShowLocals = Callable[[Mapping[str, object], Scrub], Mapping[str, str]]
"""Makes texts of local variables, without what is secret."""

_OTHERS = Noticed(
    Trouble.EXCEPTION,
    "exceptions of more different kinds than are told apart, raised where nobody could hear them",
    OTHERS,
)


class UnhandledErrors:
    """Hears of exceptions, in any thread, and tells of them. Made inside a running event loop."""

    def __init__(
        self, send: Callable[[Noticed], None], clock: Clock, running: Callable[[], Sequence[Control]]
    ) -> None:
        self._send = send
        self._running = running
        self._loop = asyncio.get_running_loop()
        self._process = os.getpid()
        self._piles = ErrorGroups(clock.boot)
        self._counting = threading.Lock()
        self._busy = threading.local()
        self._waking = False
        self._gone = False
        self.show_locals: ShowLocals | None = None
        """What shows the local variables of what was raised, where they are wanted."""

    def heard(
        self,
        error: BaseException,
        about: Callable[[], Mapping[str, str]],
        whose: Callable[[], ErrorSource | None],
        *,
        lines: Lines | None = None,
        trace: Callable[[], str] | None = None,
        scrub: Scrub = NO_SECRETS,
    ) -> bool:
        """Hear of an exception; tell whether it will be told. Never raises, nor waits for anything.

        `about` is what is known of it by name, `where` first; it is asked for only where it is told. `lines` and
        `trace` are for what has no traceback of its own; `scrub` takes out secrets that no attempt has.
        """
        try:
            with self._alone_in_thread() as alone:
                # A process that a handler has forked has this from us, and no event loop of its own.
                if not alone or os.getpid() != self._process:
                    return False
                kind = type(error), lines or _innermost(error.__traceback__)
                with self._counting:
                    known = self._counted(kind, whose)
                if not known:
                    noticed = self._describe(error, kind[1], about(), whose(), trace, also=scrub)
                    with self._counting:
                        if not self._counted(kind, whose):  # another thread may have been quicker
                            self._piles.begin(kind, noticed)
                return self._wake()
        except Exception as failure:  # noqa: BLE001 - there is nobody left to hear it
            _last_resort(f"an exception could not be told: {failure!r}")
            return False

    def failed(self, loop: str, error: BaseException, then: str) -> None:
        """Hear that a loop of the worker's own has failed, and what is done about it."""
        self.heard(error, lambda: {"where": f"the {loop}, a loop of the worker's own", "then": then}, _nobody)

    def unreadable(self, claim: Claim, problem: str) -> None:
        """Report a job that the store cannot read."""
        error = PayloadError(f"{UNREADABLE}: {problem}; it is dead, others go on")
        job = InvolvedJob(claim.job_id, claim.fence, claim.task)
        self.heard(error, lambda: {"where": "a claim of the store"}, lambda: ErrorSource(job, NO_SECRETS))

    def tell_all(self) -> None:
        """Tell what was only counted so far, on the event loop: the process is about to end."""
        with self._alone_in_thread(), self._counting:
            told = self._piles.rest()
        self._tell(told)

    # -- where it is raised --------------------------------------------------------------------------------------

    @contextmanager
    def _alone_in_thread(self) -> Iterator[bool]:
        """Tell whether this thread is not in here already: a collector may run anything in the middle of this."""
        alone = not getattr(self._busy, "here", False)
        self._busy.here = True
        try:
            yield alone
        finally:
            self._busy.here = not alone

    def _counted(self, kind: tuple[type, Lines], whose: Callable[[], ErrorSource | None]) -> bool:
        """Count one more of a kind, if it is known or cannot be known any more."""
        pile = self._piles.find(kind)
        if pile is None and self._piles.full:
            pile = self._piles.find(OTHERS)
            if pile is None:
                self._piles.begin(OTHERS, _OTHERS)
                return True
        if pile is None:
            return False
        pile.count += 1
        if len(pile.jobs) < MOST_JOBS and (found := whose()) is not None:
            pile.jobs[found.job] = None
        return True

    def _describe(
        self,
        error: BaseException,
        lines: Lines,
        about: Mapping[str, str],
        whose: ErrorSource | None,
        trace: Callable[[], str] | None,
        *,
        also: Scrub,
    ) -> Noticed:
        running = self._running()
        scrubs = [also, *(control.scrub for control in running if control.scrub)]
        if whose is not None and whose.scrub:
            scrubs.append(whose.scrub)

        def clean(text: str) -> str:
            for scrub in scrubs:
                text = scrub.text(text)
            return legible(text)

        text = "".join(traceback.format_exception(error)) if trace is None else trace()
        if self.show_locals is not None:
            text = _locals_of(error.__traceback__, self.show_locals, whose.scrub if whose else NO_SECRETS) + text
        said = clean("".join(traceback.format_exception_only(error)))
        job = None if whose is None else whose.job
        whom = "" if job is None else f" ({job.task} {short_id(job.job_id)})"
        return Noticed(
            Trouble.EXCEPTION,
            f"{one_line(said, LONGEST_SUMMARY)} in {clean(about['where'])}{whom}",
            _fingerprint(type(error), lines),
            parts={"traceback": clean(text)[-LONGEST_TRACE:], "context": clean(_context(about, job, running))},
            jobs=() if job is None else (job,),
        )

    def _wake(self) -> bool:
        """Have it told on the event loop; tell whether there still is one."""
        with self._counting:
            waking, self._waking = self._waking, True
        if not waking:
            try:
                self._loop.call_soon_threadsafe(self._look)
            except RuntimeError:
                self._gone = True
                _last_resort("the event loop is gone: what nobody can hear is told here at most, from now on")
        return not self._gone

    # -- on the event loop ---------------------------------------------------------------------------------------

    def _look(self) -> None:
        with self._alone_in_thread(), self._counting:
            told, again_in = self._piles.due(), self._piles.next_in
            self._waking = again_in is not None
        if again_in is not None:
            self._loop.call_later(again_in, self._look)
        self._tell(told)

    def _tell(self, told: Iterable[ErrorGroup]) -> None:
        for pile in told:
            noticed = replace(pile.noticed, count=pile.count, jobs=tuple(pile.jobs))
            _log(noticed)
            self._send(noticed)


def _nobody() -> None:
    """Return no attempt: it is a matter of the worker's own."""


def _log(noticed: Noticed) -> None:
    """Say it in the log, as a record of the job that it belongs to."""
    job = noticed.jobs[0] if len(noticed.jobs) == 1 else None
    if not log.isEnabledFor(logging.ERROR):
        return
    more = f" ({noticed.count:,} times)" if noticed.count > 1 else ""
    record = log.makeRecord(
        log.name,
        logging.ERROR,
        "",
        0,
        "nobody could hear this: %s%s",
        (noticed.summary, more),
        None,
        extra=None if job is None else {"job_id": job.job_id, "task": job.task, "attempt": job.attempt},
    )
    record.exc_text = noticed.parts.get("traceback")
    log.handle(record)


def _innermost(trace: TracebackType | None) -> Lines:
    last: deque[tuple[str, int]] = deque(maxlen=INNERMOST)
    while trace is not None:
        last.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return tuple(last)


def lines_from(frame: FrameType | None) -> Lines:
    """Return the innermost lines of a stack."""
    found: list[tuple[str, int]] = []
    while frame is not None and len(found) < INNERMOST:
        found.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(reversed(found))


def _fingerprint(kind: type[BaseException], lines: Lines) -> str:
    """Return what is the same for the same trouble, in every process and whatever the values are."""
    words = [f"{kind.__module__}.{kind.__qualname__}", *(f"{file}:{line}" for file, line in lines)]
    return hashlib.sha256("\n".join(words).encode(errors="replace")).hexdigest()[:16]


def _context(about: Mapping[str, str], job: InvolvedJob | None, running: Sequence[Control]) -> str:
    known = {**about, "thread": threading.current_thread().name}
    if job is None:
        known["job"] = "not known"
    else:
        goes_on = any(control.claim.ref == (job.job_id, job.fence) for control in running)
        over = "" if goes_on else ", which has ended since"
        known["job"] = f"{job.job_id} ({job.task}, attempt {job.attempt}){over}"
    beside = [f"{each.claim.job_id} ({each.claim.task})" for each in running[:MOST_RUNNING]]
    others = len(running) - len(beside)
    listed = ", ".join([*beside, *([counted(others, "other")] if others else [])])
    known["running in this process"] = listed or "nothing"
    return "\n".join(f"{name}: {value}" for name, value in known.items())


def _locals_of(trace: TracebackType | None, show: ShowLocals, scrub: Scrub) -> str:
    """Return the locals of the innermost frames, as far as they may be shown."""
    texts = []
    for frame in [frame for frame, _ in traceback.walk_tb(trace)][-INNERMOST:]:
        shown = "".join(f"  {name} = {value}\n" for name, value in show(dict(frame.f_locals), scrub).items())
        texts.append(f"Locals of {frame.f_code.co_name} ({frame.f_code.co_filename}):\n{shown}\n")
    return "".join(texts)


def _last_resort(words: str) -> None:
    """Say something where no log may work any more."""
    with suppress(Exception):
        stream = sys.__stderr__
        if stream is not None:
            stream.write(f"standfast: {words}\n")
            stream.flush()
