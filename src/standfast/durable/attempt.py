"""What of an attempt outlives it: its steps and its waits, for sync and async handlers."""

from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any

from standfast.awaiting import must_not_block, run_at_once
from standfast.durable.awaited import Awaited
from standfast.durable.gate import End, Gate
from standfast.durable.here import step_here
from standfast.durable.loops import Loops
from standfast.durable.pages import Pages
from standfast.durable.plan import Plan
from standfast.durable.port import Port
from standfast.durable.steps import Steps
from standfast.durable.waiting import Host, Waiting
from standfast.durable.waits import Waits
from standfast.durable.ways import Awaiting, Blocking
from standfast.errors import StepError

Time = datetime | timedelta | float


class Durable:
    """The steps and waits of one attempt."""

    def __init__(self, port: Port) -> None:
        self._port = port
        pages = Pages(lambda: port.notebook)
        self._gate = Gate()
        self.loops = Loops()
        """In which loops of `ctx.resume` the handler is."""
        self._steps = Steps(port, pages, self._gate, self.loops)
        self._waits = Waits(port, pages, self._gate, self.loops)
        self._awaited = Awaited()

    def step(self, host: Host, plan: Plan) -> Any:
        """Run a step, or return what it came to before."""
        way = self._blocking(host, f"ctx.step({plan.name!r}, …)", "astep")
        return run_at_once(self._steps.step(way, plan))

    def astep(self, host: Host, plan: Plan) -> Coroutine[Any, Any, Any]:
        """Run a step, or return what it came to before."""
        call = f"ctx.astep({plan.name!r}, …)"
        return self._awaited.add(call, self._steps.step(self._awaiting(host, call), plan))

    def sleep_until(self, host: Host, until: Time) -> None:
        """Go on at a time."""
        run_at_once(self._waits.sleep_until(self._blocking(host, "ctx.sleep_until(…)", "asleep_until"), until))

    def asleep_until(self, host: Host, until: Time) -> Coroutine[Any, Any, None]:
        """Go on at a time."""
        call = "ctx.asleep_until(…)"
        return self._awaited.add(call, self._waits.sleep_until(self._awaiting(host, call), until))

    def wait_for(self, host: Host, name: str, timeout: timedelta | float | None) -> Any:
        """Go on when a signal has come."""
        way = self._blocking(host, f"ctx.wait_for({name!r})", "await_for")
        return run_at_once(self._waits.wait_for(way, name, timeout))

    def await_for(self, host: Host, name: str, timeout: timedelta | float | None) -> Coroutine[Any, Any, Any]:
        """Go on when a signal has come."""
        call = f"ctx.await_for({name!r})"
        return self._awaited.add(call, self._waits.wait_for(self._awaiting(host, call), name, timeout))

    def forgotten(self) -> StepError | None:
        """Return the error of a call of the handler that it should have awaited."""
        return self._awaited.forgotten()

    @property
    def left_over(self) -> list[str]:
        """The steps that were done before and that this run did not ask for."""
        return self._steps.left_over

    @property
    def busy(self) -> bool:
        """Whether a step runs, of which the handler may know nothing any more."""
        return self._gate.busy

    @property
    def over(self) -> End | None:
        """Why this run of the handler cannot complete the job, if that is so."""
        return self._gate.over

    def _blocking(self, host: Host, call: str, instead: str) -> Blocking:
        _not_in_a_step(call)
        must_not_block(call, f"await ctx.{instead}(…)", StepError)
        return Blocking(self._waiting(host))

    def _awaiting(self, host: Host, call: str) -> Awaiting:
        _not_in_a_step(call)
        return Awaiting(self._waiting(host))

    def _waiting(self, host: Host) -> Waiting:
        return Waiting(host, lambda: self._port.notebook)


def _not_in_a_step(call: str) -> None:
    here = step_here.get()
    if here is not None:
        raise StepError(
            f"{call} is inside step {here.name!r}, which would be done again from its top: write it beside that"
        )
