"""`ctx.step`: a named piece of a handler that is done once per job, and answers from the store after that.

    asked ─► done before? ─► its stored result
               │ no: does what was done fit the code? ─► StepChangedError
               └─► runs (tries, waits, tries again) ─► its result is written ─► and returned

Its memo has the version and the result. A process that dies between the end of the function and the confirmation of
the memo leaves a step that runs again; with `tx` there is no such moment.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from standfast.core.memo import Memo, step_memo, step_name
from standfast.durable.gate import Gate
from standfast.durable.loops import Loops
from standfast.durable.pages import Pages, check_room
from standfast.durable.plan import Plan
from standfast.durable.port import Port
from standfast.durable.stored import encode_step, read_step
from standfast.durable.trying import tried
from standfast.durable.ways import Way
from standfast.errors import StepChangedError, StepError

YIELDS = 10
"""How often those who run beside an unknown step are let go on, so that they can ask for their own."""

SHOWN = 5
"""Steps that an error names."""

LOOKS, LOOK_EVERY = 20, 0.01
"""How often, after that, and with how many seconds between."""


class Steps:
    """The steps of one attempt."""

    def __init__(self, port: Port, pages: Pages, gate: Gate, loops: Loops) -> None:
        self._port = port
        self._pages = pages
        self._gate = gate
        self._loops = loops
        self._lock = threading.Lock()
        self._asked: set[str] = set()
        self._done_before: frozenset[str] = frozenset()

    async def step(self, way: Way, plan: Plan) -> Any:
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

    def _replayed(self, plan: Plan, memo: bytes) -> Any:
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

    async def _look_around(self, way: Way, name: str) -> None:
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

    async def _run(self, way: Way, plan: Plan) -> Any:
        trace = self._port.trace
        with nullcontext() if trace is None else trace.step(plan.name, self._port.scrub):
            body = await tried(way, plan, self._port, self._attempt_of(plan), self._recorded(plan))
        self._pages.note(Memo(step_memo(plan.name), body))
        way.settle()
        return plan.read(bytes(read_step(plan.name, body).result))

    def _attempt_of(self, plan: Plan) -> Callable[[Way], Any]:
        """Return what runs the function once and has its result written."""
        body: bytes | None = None

        async def alone(way: Way) -> bytes:
            nonlocal body
            if body is None:  # else the function has run, and only the write of its result was interrupted
                value = await way.run(plan.here(), plan.call)
                body = self._encoded(plan, value, "What it did is done: retrying the job does it again")
            await self._pages.write(way, Memo(step_memo(plan.name), body))
            return body

        async def with_rows(way: Way) -> bytes:
            transaction = self._port.saving(plan.tx)
            async with way.within(transaction):
                value = await way.run(plan.here(), plan.call)
                body = self._encoded(plan, value, "What it wrote in its transaction is undone")
                transaction.memo = Memo(step_memo(plan.name), body)
            return body

        return alone if plan.tx is None else with_rows

    def _encoded(self, plan: Plan, value: Any, so: str) -> bytes:
        try:
            return encode_step(plan.name, plan.version, value, in_loop=bool(self._loops.place))
        except StepError as error:
            raise self._gate.end(StepError(f"{error}. {so}")) from error

    def _recorded(self, plan: Plan) -> Callable[[Way], Any]:
        """Return what tells whether the store has the result of a try that failed: it may have committed."""

        async def nowhere(_: Way) -> bytes | None:
            return None

        async def look(way: Way) -> bytes | None:
            memos: Mapping[str, bytes] = await self._pages.fresh(way)
            return memos.get(step_memo(plan.name))

        return nowhere if plan.tx is None else look


def _shown(names: Sequence[str]) -> str:
    """Return steps by name, the first of them if there are many."""
    more = len(names) - SHOWN
    steps = "step" if len(names) == 1 else "steps"
    return f"{steps} {', '.join(map(repr, names[:SHOWN]))}" + (f" and {more} more" if more > 0 else "")


def _expected(memos: Mapping[str, bytes]) -> frozenset[str]:
    """Return the steps that were done and that a run asks for again: not those of items that loops leave out."""
    names = ((memo, step_name(memo)) for memo in memos)
    return frozenset(name for memo, name in names if name and not read_step(name, memos[memo]).in_loop)
