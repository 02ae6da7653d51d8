"""What a handler says through its context about steps and waits."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any, TypeVar, overload

from standfast.core.retries import Retries
from standfast.durable.attempt import Durable
from standfast.durable.plan import Options, plan_step
from standfast.spelling import options_of, written_as

R = TypeVar("R")


@written_as("ctx")
class LongHandler(ABC):
    """A context whose handler may be done in steps, and wait."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        written_as("ctx")(cls)

    @property
    @abstractmethod
    def _durable(self) -> Durable:
        """The steps and waits of the attempt."""

    @property
    @abstractmethod
    def log(self) -> "logging.LoggerAdapter[Any]":
        """The logger of the job."""

    @abstractmethod
    def raise_if_cancelled(self) -> None:
        """End the attempt here if it is to end."""

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
        options = Options(retry, timeout, version, tx)
        plan = plan_step(name, fn, args, kwargs, options, log=self.log, blocking=True)
        result: R = self._durable.step(self, plan)
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
        options = Options(retry, timeout, version, tx)
        plan = plan_step(name, fn, args, kwargs, options, log=self.log, blocking=False)
        return self._durable.astep(self, plan)

    def sleep_until(self, until: datetime | timedelta | float, /) -> None:
        """Go on at a time, or so many seconds from now: the handler ends here, and runs again from its top then.

        Meanwhile the job has no slot and nothing is charged. The time is fixed by the first run that comes here.
        What is done twice by that belongs into steps, which answer from the store.
        """
        self._durable.sleep_until(self, until)

    def asleep_until(self, until: datetime | timedelta | float, /) -> Coroutine[Any, Any, None]:
        """Go on at a time, as `sleep_until` does, from async code."""
        return self._durable.asleep_until(self, until)

    @options_of("ctx.wait_for")
    def wait_for(self, name: str, /, timeout: timedelta | float | None = None) -> Any:
        """Go on when a signal of this name has come (`app.signal`), and return what was sent with it.

        Unless it is there already, the handler ends here as with `sleep_until`, and runs again from its top when it
        comes. Signals of one name are taken in the order in which they were sent, each by one wait. Raises
        WaitTimeoutError when none has come within `timeout`, counted from the first run that came here.
        """
        return self._durable.wait_for(self, name, timeout)

    @options_of("ctx.await_for")
    def await_for(self, name: str, /, timeout: timedelta | float | None = None) -> Coroutine[Any, Any, Any]:
        """Wait for a signal, as `wait_for` does, from async code."""
        return self._durable.await_for(self, name, timeout)
