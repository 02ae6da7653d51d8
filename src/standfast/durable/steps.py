"""Steps: what was done is not done again.

Which parts of a handler's run may go on at the same time: steps may, a wait is alone, nothing follows the end.

A run is over when it is suspended, or when its steps were found not to fit. Whatever the handler makes of that, no
step and no wait of it begins then, and it cannot complete the job.
"""

import inspect
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any, NamedTuple, TypeVar, get_type_hints

from standfast.durable.memo_cache import MemoCache, check_room, encode_step, read_step
from standfast.durable.resume import LoopStack
from standfast.durable.runtime import Port, RunningStep, StepRunner
from standfast.errors import ConfigurationError, LostClaimError, PayloadError, StepChangedError, StepError
from standfast.model.backoff import ONCE, Retries
from standfast.model.codec import decode_result, form_of, stored_type
from standfast.model.memos import Memo, step_memo, step_name
from standfast.model.outcomes import Interrupted, Suspended
from standfast.model.suggestions import hint
from standfast.model.validation import as_seconds, is_finite, is_int

End = StepError | Suspended

E = TypeVar("E", StepError, Suspended)


class RunGuard:
    """The way into the steps and waits of one run, for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps = set[object]()
        self._waiting: object = None
        self.over: End | None = None

    @property
    def busy(self) -> bool:
        """Whether a step runs."""
        return bool(self._steps)

    def end(self, why: E) -> E:
        """Remember why this run cannot go on; the first reason stays."""
        self.over = self.over or why
        return why

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Let a step run."""
        step = object()
        try:
            with self._lock:
                self._check()
                if self._waiting is not None:
                    raise self.end(
                        StepError(
                            f"step {name!r} begins beside a wait, which ends the handler: await one, then the other"
                        )
                    )
                self._steps.add(step)
            yield
        finally:
            self._steps.discard(step)

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Let the only wait begin that there is at a time."""
        wait = object()
        try:
            with self._lock:
                self._check()
                if self._waiting is not None:
                    raise self.end(
                        StepError(
                            "two waits at a time: a job waits for one thing, so write one after the other, or let"
                            " all who answer send the same signal"
                        )
                    )
                if self._steps:
                    raise self.end(
                        StepError(
                            "a wait ends the handler, and a step of it still runs: await all steps, then wait"
                        )
                    )
                self._waiting = wait
            yield
        except Suspended as suspended:
            self.end(suspended)
            raise
        finally:
            if self._waiting is wait:
                self._waiting = None

    def _check(self) -> None:
        if self.over is not None:
            raise self.over


_LONGEST_NAME = 128

Log = logging.LoggerAdapter[logging.Logger]
"""The logger of the job, which keeps its secrets."""


class StepOptions(NamedTuple):
    """What a step takes itself, and does not pass on to its function."""

    retry: Retries | int | None
    timeout: timedelta | float | None
    version: int
    tx: Any


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One step: what it does, how often it is tried, and how long it may take."""

    name: str
    call: partial[Any]
    result_type: Any
    retries: Retries
    timeout: float | None
    version: int
    tx: Any
    log: Log

    def read(self, result: bytes) -> Any:
        """Return a stored result as what the function says that it returns."""
        try:
            return decode_result(result, self.result_type)
        except PayloadError as error:
            raise StepError(
                f"step {self.name!r} is done and its result is kept, but does not fit the function's return"
                f" annotation: {error.__cause__}; correct the annotation, and retry the job"
            ) from error


def plan_step(
    name: str,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    options: StepOptions,
    *,
    log: Log,
    blocking: bool,
) -> StepPlan:
    """Return a step, checked. Raises StepError that names what is wrong with it."""
    retry, timeout, version, tx = options
    if not (isinstance(name, str) and 1 <= len(name) <= _LONGEST_NAME and name.isprintable()):
        raise StepError(f"a step's name must be 1 to {_LONGEST_NAME} printable characters, not {name!r:.80}")
    if not callable(fn):
        raise StepError(
            f"step {name!r} must have a function, not {type(fn).__name__}: give it uncalled, and its arguments"
            f" after it, as in ctx.step({name!r}, charge, order)"
        )
    if blocking and inspect.iscoroutinefunction(fn):
        raise StepError(f"step {name!r} is async: write `await ctx.astep({name!r}, …)` in an async handler")
    seconds = as_seconds(timeout)
    if seconds is not None and not (is_finite(seconds) and seconds > 0):
        raise StepError(f"timeout of step {name!r} must be a timedelta or seconds above 0, not {timeout!r}")
    if not is_int(version) or version < 1:
        raise StepError(f"version of step {name!r} must be an integer, 1 or more, not {version!r}")
    return StepPlan(
        name, partial(fn, *args, **kwargs), _result_type(fn), _retries(name, retry), seconds, version, tx, log
    )


def note_misspelt(plan: StepPlan, error: Exception) -> None:
    """Note on an error which option may have been meant: what a step does not know went to its function."""
    for name in plan.call.keywords:
        if isinstance(error, TypeError) and f"unexpected keyword argument {name!r}" in str(error):
            error.add_note(
                f"if {name} was meant for the step, not for its function: {hint(name, StepOptions._fields)}"
            )


def _retries(name: str, retry: Retries | int | None) -> Retries:
    if retry is None:
        return ONCE
    if isinstance(retry, Retries):
        return retry
    try:
        return Retries(retry)
    except ConfigurationError:
        raise StepError(
            f"retry of step {name!r} must be how often it is tried, or such as Retries(3, Exponential()), not"
            f" {retry!r}"
        ) from None


def _result_type(fn: Callable[..., Any]) -> Any:
    """Return what a function says that it returns; Any where it says nothing that can be read."""
    inner = fn
    while isinstance(inner, partial):
        inner = inner.func
    try:
        hints = get_type_hints(inner if inspect.isroutine(inner) else type(inner).__call__)
        return form_of(stored_type(hints.get("return", Any)))
    except (NameError, TypeError):
        return Any


NAP = 0.05
"""Seconds until a wait between two tries looks again whether the attempt is to end."""

FOR_GOOD = (StepError, LostClaimError, ConfigurationError)
"""What would be the same the next time."""


async def _pause(way: StepRunner, seconds: float, port: Port) -> None:
    """Wait, unless the attempt is to end: then it ends here."""
    left = seconds
    while True:
        if port.cancelled:
            raise Interrupted
        if left <= 0:
            return
        await way.nap(min(left, NAP))
        left -= NAP


#     asked ─► done before? ─► its stored result
#                │ no: does what was done fit the code? ─► StepChangedError
#                └─► runs (tries, waits, tries again) ─► its result is written ─► and returned
#
# Its memo has the version and the result. A process that dies between the end of the function and the confirmation of
# the memo leaves a step that runs again; with `tx` there is no such moment.

YIELDS = 10
"""How often those who run beside an unknown step are let go on, so that they can ask for their own."""

SHOWN = 5
"""Steps that an error names."""

LOOKS, LOOK_EVERY = 20, 0.01
"""How often, after that, and with how many seconds between."""


class Steps:
    """The steps of one attempt."""

    def __init__(self, port: Port, pages: MemoCache, gate: RunGuard, loops: LoopStack) -> None:
        self._port = port
        self._pages = pages
        self._gate = gate
        self._loops = loops
        self._lock = threading.Lock()
        self._asked: set[str] = set()
        self._done_before: frozenset[str] = frozenset()

    async def step(self, way: StepRunner, plan: StepPlan) -> Any:
        """Run a step, or return what it came to before."""
        with self._gate.step(plan.name):
            self._ask(plan.name)
            memos = await self._pages.known(way)
            self._done_before = self._done_before or _expected(memos)
            memo = memos.get(step_memo(plan.name))
            if memo is not None:
                return self._replayed(plan, memo)
            await self._look_around(way, plan.name)
            check_room(memos, step_memo(plan.name))
            return await self._run(way, plan)

    @property
    def left_over(self) -> list[str]:
        """The steps that were done before, loops left aside, and that this run did not ask for."""
        return sorted(self._done_before - self._asked)

    def _ask(self, name: str) -> None:
        with self._lock:
            if name in self._asked:
                raise self._gate.end(
                    StepError(
                        f"step {name!r} is there twice in one run, and its result is stored by its name: give each"
                        f" its own, such as f'{name}-{{number}}' in a loop; to try it again, use retry="
                    )
                )
            self._asked.add(name)

    def _replayed(self, plan: StepPlan, memo: bytes) -> Any:
        done = read_step(plan.name, memo)
        if done.version != plan.version:
            raise self._gate.end(
                StepChangedError(
                    f"step {plan.name!r} was done by version {done.version} of it, and the code has version"
                    f" {plan.version}: deploy code that can go on from version {done.version}, and retry the job,"
                    " or enqueue it anew to do all of it"
                )
            )
        return plan.read(bytes(done.result))

    async def _look_around(self, way: StepRunner, name: str) -> None:
        """Refuse a step that was not done while others were that nobody asked for: it may be one of them, renamed.

        Steps that run beside it may just not have come to ask, so they are given the time for it.
        """
        for look in range(YIELDS + LOOKS):
            if not self.left_over:
                return
            await way.nap(0 if look < YIELDS else LOOK_EVERY)
        if left := self.left_over:
            raise self._gate.end(
                StepChangedError(
                    f"the job has done {_shown(left)}, and this code comes first to step {name!r}: if that is a new"
                    " name, give the old one back; if it is a new step, put it after those that were done. Nothing"
                    " was run: deploy that, and retry the job"
                )
            )

    async def _run(self, way: StepRunner, plan: StepPlan) -> Any:
        trace = self._port.trace
        with nullcontext() if trace is None else trace.step(plan.name, self._port.scrub):
            body = await self._tried(way, plan)
        self._pages.note(Memo(step_memo(plan.name), body))
        way.settle()
        return plan.read(bytes(read_step(plan.name, body).result))

    async def _tried(self, way: StepRunner, plan: StepPlan) -> bytes:
        """Return what a step is remembered by, after as many tries as it takes and may have, within this run."""
        port, memo, body = self._port, step_memo(plan.name), None
        for tries in count(1):
            try:
                if plan.tx is not None:
                    return await self._with_rows(way, plan)
                if body is None:  # else the function has run, and only the write of its result was interrupted
                    value = await way.run(RunningStep(plan.name, plan.timeout), plan.call)
                    body = self._encoded(plan, value, "What it did is done: retrying the job does it again")
                await self._pages.write(way, Memo(memo, body))
            except FOR_GOOD:
                raise
            except Exception as error:
                note_misspelt(plan, error)
                if port.cancelled and isinstance(error.__cause__, Interrupted):  # not its timeout: all is to end
                    raise Interrupted from error
                wait = plan.retries.wait_after(tries, error, port.random)
                if wait is None:
                    raise
                if plan.tx is not None and (found := (await self._pages.fresh(way)).get(memo)) is not None:
                    return found  # it had committed, and only the answer was lost
                plan.log.warning(
                    "step %r failed on try %d of %d, and is tried again in %.3g s: %s: %s",
                    plan.name,
                    tries,
                    plan.retries.attempts,
                    wait.total_seconds(),
                    type(error).__name__,
                    error,
                )
            else:
                return body
            await _pause(way, wait.total_seconds() if port.takes_pauses else 0.0, port)
        raise AssertionError("counting ends nowhere")

    async def _with_rows(self, way: StepRunner, plan: StepPlan) -> bytes:
        transaction = self._port.saving(plan.tx)
        async with way.within(transaction):
            value = await way.run(RunningStep(plan.name, plan.timeout), plan.call)
            body = self._encoded(plan, value, "What it wrote in its transaction is undone")
            transaction.memo = Memo(step_memo(plan.name), body)
        return body

    def _encoded(self, plan: StepPlan, value: Any, so: str) -> bytes:
        try:
            return encode_step(plan.name, plan.version, value, in_loop=bool(self._loops.place))
        except StepError as error:
            raise self._gate.end(StepError(f"{error}. {so}")) from error


def _shown(names: Sequence[str]) -> str:
    """Return steps by name, the first of them if there are many."""
    more = len(names) - SHOWN
    steps = "step" if len(names) == 1 else "steps"
    return f"{steps} {', '.join(map(repr, names[:SHOWN]))}" + (f" and {more} more" if more > 0 else "")


def _expected(memos: Mapping[str, bytes]) -> frozenset[str]:
    """Return the steps that were done and that a run asks for again: not those of items that loops leave out."""
    names = ((memo, step_name(memo)) for memo in memos)
    return frozenset(name for memo, name in names if name and not read_step(name, memos[memo]).in_loop)
