"""Steps, waits, cursors, loops and files: what a handler asks of its context, and one attempt of it."""

import asyncio
import logging
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from datetime import datetime, timedelta
from functools import cached_property
from inspect import CORO_CREATED, getcoroutinestate
from pathlib import Path
from typing import Any, TypeVar, overload

from standfast.durable.cursor import Cursor, OnVersionWord
from standfast.durable.files import FileStore, SavedFile, Source, StoredFile, check_name, file_memo, files_among
from standfast.durable.memo_cache import MemoCache
from standfast.durable.resume import LoopStack, Resume, plan_resume
from standfast.durable.runtime import AsyncRunner, BlockingRunner, Port, StepRunner, Waiting, current_step
from standfast.durable.steps import End, RunGuard, StepOptions, Steps, plan_step
from standfast.durable.waits import Waits
from standfast.errors import ArgumentsError, StepError
from standfast.model.backoff import Retries
from standfast.model.concurrency import refuse_in_event_loop, run_without_loop
from standfast.model.job import ClaimRef
from standfast.model.memos import MEMOS_LIMIT, Memo
from standfast.model.suggestions import options_of, written_as

T = TypeVar("T")

Work = Coroutine[Any, Any, T]

_OURS = str(Path(__file__).resolve().parents[1])


class UnawaitedCalls:
    """The calls of one run that are to be awaited: of one that nobody awaits nothing is done. Used from any thread."""

    def __init__(self) -> None:
        self._calls: list[tuple[Coroutine[Any, Any, Any], str]] = []

    def add(self, call: str, coroutine: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Remember a call and the line of the handler that made it; return what is to be awaited."""
        self._calls.append((coroutine, f"{call} in {_users_line()}"))
        return coroutine

    def forgotten(self) -> StepError | None:
        """Return the error of the first call that nobody awaited; one that was cancelled before it began was."""
        left = [(each, call) for each, call in self._calls if getcoroutinestate(each) == CORO_CREATED]
        for each, _ in left:
            each.close()  # the error says more than Python's warning would
        if not left:
            return None
        return StepError(
            f"{left[0][1]}, was not awaited, and nothing of it was done: write `await` before it, and retry the job"
        )


def _users_line() -> str:
    frame = sys._getframe(1)  # noqa: SLF001 - a whole traceback would cost every step more
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}, line {frame.f_lineno}"


class DurableAttempt:
    """What of one attempt outlives it: its steps, its waits, its cursor, and the loops that it resumes."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.memos = MemoCache(port)
        self.loops = LoopStack()
        """In which loops of `ctx.resume` the handler is."""
        self._gate = RunGuard()
        self.steps = Steps(port, self.memos, self._gate, self.loops)
        self.waits = Waits(port, self.memos, self._gate, self.loops)
        self._awaited = UnawaitedCalls()

    def block(self, waiting: Waiting, call: str, instead: str, work: Callable[[StepRunner], Work[T]]) -> T:
        """Do this in the thread of a sync handler. `call` is what the handler wrote, and `instead` its async form."""
        _not_in_a_step(call)
        refuse_in_event_loop(call, f"await ctx.{instead}(…)", StepError)
        return run_without_loop(work(BlockingRunner(waiting)))

    def begin(self, waiting: Waiting, call: str, work: Callable[[StepRunner], Work[T]]) -> Work[T]:
        """Return what an async handler is to await."""
        _not_in_a_step(call)
        return self._awaited.add(call, work(AsyncRunner(waiting)))

    def forgotten(self) -> StepError | None:
        """Return the error of a call of the handler that it should have awaited."""
        return self._awaited.forgotten()

    @property
    def left_over(self) -> list[str]:
        """The steps that were done before and that this run did not ask for."""
        return self.steps.left_over

    @property
    def busy(self) -> bool:
        """Whether a step runs, of which the handler may know nothing any more."""
        return self._gate.busy

    @property
    def over(self) -> End | None:
        """Why this run of the handler cannot complete the job, if that is so."""
        return self._gate.over


def _not_in_a_step(call: str) -> None:
    here = current_step.get()
    if here is not None:
        raise StepError(
            f"{call} is inside step {here.name!r}, which would be done again from its top: write it beside that"
        )


# `ctx.save_file` and `ctx.files`: the bytes go to the shelf, and then a memo to the store.
#
# A file goes when the store is known to have a later one of its name, or to have forgotten the job. That its memo was
# refused is no reason: an earlier try to write it may have been accepted, and only its answer lost.


class JobFiles:
    """The files of one attempt. Every member may be used from any thread."""

    def __init__(self, waiting: Waiting, memos: MemoCache, shelf: FileStore, ref: ClaimRef) -> None:
        self._waiting = waiting
        self._memos = memos
        self._shelf = shelf
        self._ref = ref
        self._writing = threading.Lock()
        self._saved: dict[str, StoredFile] = {}

    def save(self, name: str, source: Source) -> SavedFile:
        """Save a file; when this returns, the store knows of it."""
        refuse_in_event_loop("ctx.save_file()", "await ctx.asave_file()", ArgumentsError)
        kept = self._put(name, source)
        before, answer = self._write(kept)
        self._waiting.answer(answer)
        return self._settled(kept, before)

    async def asave(self, name: str, source: Source) -> SavedFile:
        """Save a file without blocking the event loop."""
        kept = await asyncio.to_thread(self._put, name, source)
        before, answer = self._write(kept)
        await self._waiting.await_answer(answer)
        return await asyncio.to_thread(self._settled, kept, before)

    def all(self) -> Mapping[str, SavedFile]:
        """Return the files of the job, those of earlier attempts included."""
        if not self._memos.is_read:
            refuse_in_event_loop("ctx.files", "await ctx.afiles()", ArgumentsError)
        return self._known(self._memos.get(self._waiting))

    async def aall(self) -> Mapping[str, SavedFile]:
        """Return the files of the job without blocking the event loop."""
        return self._known(await self._memos.aget(self._waiting))

    def _put(self, name: str, source: Source) -> StoredFile:
        if check_name(name) not in self._saved and len(self._saved) >= MEMOS_LIMIT:
            raise ArgumentsError(
                f"a job keeps at most {MEMOS_LIMIT:,} files: put several into one, as in an archive"
            )
        return self._shelf.put(self._ref, name, source)

    def _write(self, kept: StoredFile) -> "tuple[StoredFile | None, Future[None]]":
        """Have the store told of a file; return which one of this attempt it takes the place of."""
        with self._writing:  # two threads may save one name: the last one to come here counts
            before = self._saved.get(kept.name)
            answer = self._waiting.port.notebook.write(file_memo(kept))
            self._saved[kept.name] = kept
        return before, answer

    def _settled(self, kept: StoredFile, before: StoredFile | None) -> SavedFile:
        if before is not None:
            self._shelf.drop(before)
        self._shelf.drop_earlier(self._ref, kept)
        return self._shelf.find(kept)

    def _known(self, memos: Mapping[str, bytes]) -> Mapping[str, SavedFile]:
        kept = {**files_among(Memo(name, body) for name, body in memos.items()), **self._saved}
        return {name: self._shelf.find(kept[name]) for name in sorted(kept)}


R = TypeVar("R")


@written_as("ctx")
class DurableContext(ABC):
    """A context whose handler may be done in steps, wait, and go on where an earlier attempt was."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        written_as("ctx")(cls)

    @property
    @abstractmethod
    def _durable(self) -> DurableAttempt:
        """The steps and waits of the attempt."""

    @property
    @abstractmethod
    def log(self) -> "logging.LoggerAdapter[Any]":
        """The logger of the job."""

    @abstractmethod
    def raise_if_cancelled(self) -> None:
        """End the attempt here if it is to end."""

    @cached_property
    def _waiting(self) -> Waiting:
        return Waiting(self, self._durable.port)

    @cached_property
    def _cursor(self) -> Cursor:
        return Cursor(self._waiting, self._durable.memos)

    @property
    def cursor(self) -> Cursor:
        """A value of your own that later attempts of the job find again: `load` it, `save` it."""
        return self._cursor

    @options_of("ctx.resume")
    def resume(
        self,
        items: Iterable[T] | AsyncIterable[T],
        *,
        key: Callable[[T], Any] | None = None,
        every: int = 100,
        seconds: timedelta | float = 5.0,
        version: int = 1,
        name: str = "items",
        on_version: OnVersionWord = "raise",
    ) -> Resume[T]:
        """Loop over items, and in a later attempt go on after the last one that was done: `for`, or `async for`.

        An item is done when the loop asks for the next; one in which it is left, by an exception or `break`, is
        not. How far it is is saved every so many items or seconds, without waiting for it: after a crash at most
        `every` items are done again. When the job is cancelled, times out or its worker stops, the loop ends
        between two items, and none is done twice.

        The place is found by counting, so the items must be the same in the same order; with `key`, it is after the
        item whose key was saved. Give another `version` when the items come to mean something else: a place that
        was saved under another one raises CursorError, or with `on_version="restart"` the loop begins anew. A
        handler with several such loops gives each a `name`.
        """
        plan = plan_resume(
            items, key, every=every, seconds=seconds, version=version, name=name, on_version=on_version
        )
        self._durable.loops.add(name)
        return Resume(items, plan, self._waiting, self._durable.memos, self._durable.loops)

    def step(
        self,
        name: str,
        fn: Callable[..., R],
        /,
        *args: Any,
        retry: Retries | int | None = None,
        timeout: timedelta | float | None = None,
        version: int = 1,
        tx: Any = None,
        **kwargs: Any,
    ) -> R:
        """Run `fn(*args, **kwargs)` as a step: once it is done, later runs of the job get its result and skip it.

        The result is in the store before this returns. It is stored as JSON, and comes back as what `fn` says it
        returns, in this run too. A process that dies inside a step leaves open whether its effect happened, and the
        step runs again: give `ctx.idempotency_key`, which each step has of its own, to whom it concerns. With `tx`,
        a connection of your own to the store's database, the step's rows and its result commit together.

        `retry`: how often `fn` is tried, in this run, after 2, 4, 8 … seconds, each up to one longer, unless
        a Retries has others; what it raises last is raised. `timeout`: `fn` cannot be interrupted; `ctx.cancelled`
        turns True inside of it, and if it raises after that, this raises TimeoutError. Raise `version` when what
        `fn` does has changed so that a result of before does not stand for it.

        Raises StepChangedError, before `fn` runs, where the steps that were done do not fit those of the code, and
        StepError for what cannot be a step; the job is dead then. For async code there is `astep`.
        """
        options = StepOptions(retry, timeout, version, tx)
        plan = plan_step(name, fn, args, kwargs, options, log=self.log, blocking=True)
        steps, call = self._durable.steps, f"ctx.step({name!r}, …)"
        result: R = self._durable.block(self._waiting, call, "astep", lambda way: steps.step(way, plan))
        return result

    @overload
    def astep(
        self,
        name: str,
        fn: Callable[..., Awaitable[R]],
        /,
        *args: Any,
        retry: Retries | int | None = None,
        timeout: timedelta | float | None = None,
        version: int = 1,
        tx: Any = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, R]: ...

    @overload
    def astep(
        self,
        name: str,
        fn: Callable[..., R],
        /,
        *args: Any,
        retry: Retries | int | None = None,
        timeout: timedelta | float | None = None,
        version: int = 1,
        tx: Any = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, R]: ...

    def astep(
        self,
        name: str,
        fn: Callable[..., Any],
        /,
        *args: Any,
        retry: Retries | int | None = None,
        timeout: timedelta | float | None = None,
        version: int = 1,
        tx: Any = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Run a step as `step` does, from async code; a plain function runs in a thread.

        A coroutine is cancelled at its `timeout`. Steps may run at the same time, as with `asyncio.gather`.
        """
        options = StepOptions(retry, timeout, version, tx)
        plan = plan_step(name, fn, args, kwargs, options, log=self.log, blocking=False)
        steps, call = self._durable.steps, f"ctx.astep({name!r}, …)"
        return self._durable.begin(self._waiting, call, lambda way: steps.step(way, plan))

    def sleep_until(self, until: datetime | timedelta | float, /) -> None:
        """Go on at a time, or so many seconds from now: the handler ends here, and runs again from its top then.

        Meanwhile the job has no slot and nothing is charged. The time is fixed by the first run that comes here.
        What is done twice by that belongs into steps, which answer from the store.
        """
        waits, call = self._durable.waits, "ctx.sleep_until(…)"
        self._durable.block(self._waiting, call, "asleep_until", lambda way: waits.sleep_until(way, until))

    def asleep_until(self, until: datetime | timedelta | float, /) -> Coroutine[Any, Any, None]:
        """Go on at a time, as `sleep_until` does, from async code."""
        waits = self._durable.waits
        return self._durable.begin(self._waiting, "ctx.asleep_until(…)", lambda way: waits.sleep_until(way, until))

    @options_of("ctx.wait_for")
    def wait_for(self, name: str, /, timeout: timedelta | float | None = None) -> Any:
        """Go on when a signal of this name has come (`app.signal`), and return what was sent with it.

        Unless it is there already, the handler ends here as with `sleep_until`, and runs again from its top when it
        comes. Signals of one name are taken in the order in which they were sent, each by one wait. Raises
        WaitTimeoutError when none has come within `timeout`, counted from the first run that came here.
        """
        waits, call = self._durable.waits, f"ctx.wait_for({name!r})"
        return self._durable.block(self._waiting, call, "await_for", lambda way: waits.wait_for(way, name, timeout))

    @options_of("ctx.await_for")
    def await_for(self, name: str, /, timeout: timedelta | float | None = None) -> Coroutine[Any, Any, Any]:
        """Wait for a signal, as `wait_for` does, from async code."""
        waits, call = self._durable.waits, f"ctx.await_for({name!r})"
        return self._durable.begin(self._waiting, call, lambda way: waits.wait_for(way, name, timeout))
