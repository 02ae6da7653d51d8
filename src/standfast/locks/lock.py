"""Locks and semaphores as code uses them: `with app.lock("nightly"):`, or `async with`.

    free ─► acquiring ─► held ─► released
                          └────► lost ─► told at the end of the block, or when asked

One object is one wish for a place, at one time: two who want the same lock make two objects.
"""

from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self

from standfast.awaiting import must_not_block, run_at_once
from standfast.errors import LockLostError, LockStateError, LockTimeoutError
from standfast.locks.holding import Holding
from standfast.locks.problems import read_timeout
from standfast.locks.ways import Awaiting, Blocking, House, Ways
from standfast.policy import Seconds


class Flavour(Protocol):
    """By which means a lock is held."""

    async def wait(self, ways: Ways, timeout: float | None) -> Holding | None:
        """Wait for a place and have it kept; None where none was to be had in time."""
        ...

    async def give_back(self, ways: Ways, holding: Holding) -> bool:
        """Let others have it; tell whether it was held until now."""
        ...


class Lock:
    """A lock, or one place of a semaphore, that can be held by `with` or `async with`, again and again.

    `token` is greater than any that the lock gave before: hand it to what is protected, and let that refuse a
    lesser one than it has seen. The lock is renewed for as long as this process can; `lost` is True once it could
    not be, before anybody else can have it.
    """

    def __init__(self, house: House, name: str, flavour: Flavour, timeout: float | None) -> None:
        self._house = house
        self._name = name
        self._flavour = flavour
        self._timeout = timeout
        self._holding: Holding | None = None
        self._busy = dict[str, object]()
        """The call that acquires or holds it: one entry at most, which is added and removed in one step."""
        self._when_lost: list[Callable[[], object]] = []
        self._block: _Block | None = None

    def __repr__(self) -> str:
        how = "held" if self.held else "lost" if self.lost else "not held"
        return f"<{type(self).__name__} {self._name!r}, {how}>"

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def held(self) -> bool:
        """True while it is held, and not lost. A process that was forked from the holder does not hold it."""
        holding = self._holding
        return holding is not None and holding.is_ours and not holding.lost

    @property
    def lost(self) -> bool:
        """True once it was held and may be another's by now, until it is released."""
        holding = self._holding
        return holding is not None and holding.is_ours and holding.lost

    @property
    def token(self) -> int:
        """The fencing token of this time that it is held. Raises LockStateError while it is not."""
        return self._own().token

    def raise_if_lost(self) -> None:
        """Raise LockLostError if it is lost: ask before what only the holder may do."""
        if self.lost:
            raise self._lost()

    def when_lost(self, act: Callable[[], object]) -> None:
        """Have something called, in a thread of ours, whenever it is lost while it is held; it must be quick."""
        self._when_lost.append(act)
        if self._holding is not None:
            self._holding.when_lost(act)

    # -- having it -----------------------------------------------------------------------------------------------

    def acquire(self, timeout: Seconds | None = None) -> bool:
        """Wait until it is held; tell whether it is. With a timeout, so many seconds at most; 0 tries once.

        Raises StoreError where the store is away, and LockStateError where this object holds it already, or where
        it would keep an event loop waiting.
        """
        call = object()
        try:
            return self._acquire_here(timeout, call)
        except BaseException:
            self._withdraw(call)
            raise

    async def aacquire(self, timeout: Seconds | None = None) -> bool:
        """Do as `acquire` does, without blocking the event loop. Cancelled, it ends when the store has answered."""
        call = object()
        try:
            return await self._acquire(Awaiting(self._house.backend), read_timeout(timeout), call)
        except BaseException:
            self._withdraw(call)
            raise

    def release(self) -> None:
        """Let others have it at once. Raises LockLostError where it was lost, LockStateError where it is not held.

        Where the store is away, that is made good for as long as it is held there; nobody has to wait longer.
        """
        run_at_once(self._release(Blocking(self._house.backend)))

    async def arelease(self) -> None:
        """Do as `release` does, without blocking the event loop."""
        await self._release(Awaiting(self._house.backend))

    def _acquire_here(self, timeout: Seconds | None, call: object) -> bool:
        if timeout != 0:
            must_not_block(
                f"waiting for lock {self._name!r}", "async with, or await lock.aacquire()", LockStateError
            )
        return run_at_once(self._acquire(Blocking(self._house.backend), read_timeout(timeout), call))

    async def _acquire(self, ways: Ways, timeout: float | None, call: object) -> bool:
        """Acquire it for a call. If this is interrupted, its caller has to `_withdraw` the call."""
        if self._busy.setdefault("call", call) is not call:
            raise LockStateError(
                f"this object is acquiring lock {self._name!r} already, or holds it: one object holds a lock once;"
                " make another for another thread or task"
            )
        self._holding = holding = await self._flavour.wait(ways, timeout)
        if holding is None:
            self._busy.clear()
            return False
        for act in self._when_lost:
            holding.when_lost(act)
        return True

    async def _release(self, ways: Ways) -> None:
        holding = self._own()
        try:
            self._holding = None
            self._busy.clear()
            self._house.keepers().let_go(holding)
            was_held = await self._flavour.give_back(ways, holding)
        except BaseException:
            self._house.keepers().abandon(holding)
            raise
        if not was_held:
            raise self._lost()

    def _withdraw(self, call: object) -> None:
        """Give up what an interrupted call has taken: its caller does not know of it."""
        if self._busy.get("call") is call:
            holding, self._holding = self._holding, None
            self._busy.clear()
            if holding is not None and holding.is_ours:
                self._house.keepers().abandon(holding)

    def _own(self) -> Holding:
        holding = self._holding
        if holding is None:
            raise LockStateError(f"lock {self._name!r} is not held by this object: acquire it first, once")
        if not holding.is_ours:
            raise LockStateError(
                f"lock {self._name!r} is held by the process that this one was forked from, and can be used only"
                " there: acquire it here, by an object of its own"
            )
        return holding

    def _lost(self) -> LockLostError:
        return LockLostError(
            f"lock {self._name!r} was lost: it could not be renewed in time, or somebody released it;"
            " another may hold it. What was written under it is safe only where its token was checked"
        )

    # -- blocks --------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        call = object()
        try:
            acquired = self._acquire_here(self._timeout, call)
            if acquired:
                self._own().belongs_to(self)
        except BaseException:
            self._withdraw(call)
            raise
        if not acquired:
            raise self._not_in_time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        holding = self._holding
        try:
            if not self._forked():
                self.release()
        except LockLostError as lost:
            if error is None:
                raise
            error.add_note(str(lost))
        except BaseException:
            self._leave(holding)
            raise

    async def __aenter__(self) -> Self:
        call = object()
        try:
            acquired = await self._acquire(Awaiting(self._house.backend), read_timeout(self._timeout), call)
            if acquired:
                self._block = _Block()
                self._own().belongs_to(self)
                self._own().when_lost(self._block.lost)
        except BaseException:
            self._withdraw(call)
            raise
        if not acquired:
            raise self._not_in_time()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        holding, was_cancelled = self._holding, False
        try:
            if self._forked():
                return
            block, self._block = self._block, None
            was_cancelled = block is not None and block.left(error)
            await self.arelease()
        except LockLostError as lost:
            if error is None or was_cancelled:
                raise lost from None
            error.add_note(str(lost))
        except BaseException:
            self._leave(holding)
            raise

    def _leave(self, holding: Holding | None) -> None:
        """Give back the lock of a block whose end was interrupted before that."""
        if holding is not None and self._holding is holding:
            self._withdraw(self._busy.get("call"))

    def _forked(self) -> bool:
        """Tell whether this is not the process that holds it: to leave the block there gives nothing back."""
        return self._holding is not None and not self._holding.is_ours

    def _not_in_time(self) -> LockTimeoutError:
        return LockTimeoutError(
            f"lock {self._name!r} was not free within {self._timeout or 0:g} s; `standfast locks list` shows"
            " who holds it"
        )


class _Block:
    """The block of an `async with`: it is cancelled when its lock is lost."""

    def __init__(self) -> None:
        import asyncio  # noqa: PLC0415 - a fifth of what it takes to import us, and here it is loaded already

        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = asyncio.current_task()
        self._cancelled = False

    def lost(self) -> None:
        """Cancel the block, from any thread."""
        with suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._cancelled = True
            self._task.cancel()

    def left(self, error: BaseException | None) -> bool:
        """Tell whether the block ended because it was cancelled by us, and by nobody else."""
        import asyncio  # noqa: PLC0415 - it is loaded already

        task, self._task = self._task, None
        if task is None or not self._cancelled:
            return False
        others = task.uncancel()
        return isinstance(error, asyncio.CancelledError) and not others
