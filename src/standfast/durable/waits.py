"""`ctx.sleep_until` and `ctx.wait_for`: the handler ends, its job waits without a slot and runs again from its top.

    comes here ─► its wait is over? ─► goes on
                    │ no: a signal is there, or its time has come? ─► that is written, and it goes on
                    └─► until when is written, once ─► Suspended

The so manieth wait of one name in a run is the same wait in every run; in a loop of `ctx.resume`, of which a later
run leaves out what is done, the so manieth in its item.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from standfast.durable.memo_cache import How, MemoCache, Wait, check_room, read_wait
from standfast.durable.resume import LoopStack
from standfast.durable.runtime import Port, StepRunner
from standfast.durable.steps import RunGuard
from standfast.errors import StepError, WaitTimeoutError
from standfast.model.codec import decode_result
from standfast.model.memos import FOR_EVER, SLEEPING, Memo, signal_prefix, signal_problems, signal_reason, wait_memo
from standfast.model.outcomes import Suspended
from standfast.model.validation import MAX_DELAY, as_seconds, is_finite


class Waits:
    """The waits of one attempt."""

    def __init__(self, port: Port, pages: MemoCache, gate: RunGuard, loops: LoopStack) -> None:
        self._port = port
        self._pages = pages
        self._gate = gate
        self._loops = loops
        self._counts: Counter[tuple[str, str]] = Counter()

    async def sleep_until(self, way: StepRunner, until: datetime | timedelta | float) -> None:
        """Go on at a time."""
        asked = _read_time(until, self._port.now())
        with self._one(SLEEPING) as memo:
            memos = await self._pages.known(way)
            wait = await self._begun(way, memos, memo, asked)
            if (left := self._left(wait)) > timedelta():
                raise Suspended(left, SLEEPING)

    async def wait_for(self, way: StepRunner, name: str, timeout: timedelta | float | None) -> Any:
        """Go on when a signal has come."""
        for problem in signal_problems(name):
            raise StepError(problem)
        asked = None if timeout is None else _read_timeout(name, timeout)
        with self._one(name) as memo:
            memos = await self._pages.known(way)
            wait = read_wait(name, memos[memo]) if memo in memos else None
            if wait is None or wait.how is None:
                wait = await self._come(way, name, memo, wait, asked)
        if wait.how is How.TIMEOUT:
            raise WaitTimeoutError(
                f"no signal {name!r} came to job {self._port.claim.job_id} in the time given to it"
            )
        return decode_result(bytes(wait.data))

    async def _come(
        self, way: StepRunner, name: str, memo: str, wait: Wait | None, asked: timedelta | None
    ) -> Wait:
        """Return how a wait ended: its signal is there now, or its time is over. Else the attempt ends here."""
        memos, prefix = await self._pages.fresh(way), signal_prefix(name)
        signals = (each for each, body in memos.items() if each.startswith(prefix) and body)
        if (signal := min(signals, default=None)) is not None:  # the earliest that nobody has taken
            wait = Wait(how=How.SIGNAL, data=msgspec.Raw(memos[signal]))
            await self._pages.write(way, Memo(memo, msgspec.json.encode(wait)), Memo(signal, b""))
            return wait
        if wait is None:
            wait = await self._begun(way, memos, memo, asked)
        left = self._left(wait)
        if left > timedelta():
            raise Suspended(left, signal_reason(name))
        wait = Wait(wait.until, How.TIMEOUT)
        await self._pages.write(way, Memo(memo, msgspec.json.encode(wait)))
        return wait

    async def _begun(
        self, way: StepRunner, memos: Mapping[str, bytes], memo: str, asked: datetime | timedelta | None
    ) -> Wait:
        """Return a wait as its first arrival fixed it, which may be this one."""
        if memo in memos:
            return read_wait(memo, memos[memo])
        check_room(memos, memo)
        wait = Wait(self._port.now() + asked if isinstance(asked, timedelta) else asked)
        await self._pages.write(way, Memo(memo, msgspec.json.encode(wait)))
        return wait

    def _left(self, wait: Wait) -> timedelta:
        return FOR_EVER if wait.until is None else wait.until - self._port.now()

    @contextmanager
    def _one(self, name: str) -> Iterator[str]:
        """Begin the next wait of a name; give the name of its memo."""
        with self._gate.wait():
            place = self._loops.place
            self._counts[name, place] += 1
            yield wait_memo(name, self._counts[name, place], place)


def _read_time(until: Any, now: datetime) -> datetime | timedelta:
    if isinstance(until, datetime):
        if until.utcoffset() is None:
            raise StepError(
                f"sleep_until must have a time zone, and {until.isoformat()} has none; add one, e.g."
                " until.replace(tzinfo=UTC)"
            )
        if until - now <= MAX_DELAY:  # a time beyond the calendar could not be read again
            return max(until, now - MAX_DELAY).astimezone(UTC)
    elif is_finite(seconds := as_seconds(until)) and 0 <= seconds <= MAX_DELAY.total_seconds():
        return timedelta(seconds=seconds)
    raise StepError(
        f"sleep_until takes a datetime, a timedelta or seconds, from 0 to a hundred years, not {until!r}"
    )


def _read_timeout(name: str, timeout: Any) -> timedelta:
    seconds = as_seconds(timeout)
    if not (is_finite(seconds) and 0 <= seconds <= MAX_DELAY.total_seconds()):
        raise StepError(
            f"timeout of the wait for {name!r} must be a timedelta or seconds, from 0 to a hundred years, or None"
            f" to wait for ever, not {timeout!r}"
        )
    return timedelta(seconds=seconds)
