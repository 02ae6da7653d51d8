"""A transaction of the handler's own, with a fenced write of ours in it: both commit, or neither.

    begin ─► the handler writes ─► our fenced write ─► commit
                    │                   │               └─► roll back, and raise what was raised
                    │                   └─► stale: roll back, LostClaimError
                    └─► it raises: roll back, and the exception goes on

Our write runs under the write lock of the transaction. So the rows are committed if and only if the claim was
valid, whatever process dies in between.
"""

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self, TypeVar

from standfast.awaiting import run_at_once, to_its_end
from standfast.core.job import Verdict
from standfast.errors import LostClaimError, StandfastError
from standfast.store.backend import AsyncJoined, Backend, Joined
from standfast.store.verb import Verb
from standfast.worker.control import Control

T = TypeVar("T")


class OwnTransaction(ABC):
    """One transaction: for `with` on a sync connection, for `async with` on an async one."""

    def __init__(self, backend: Backend, worker: str, control: Control, connection: Any) -> None:
        self._backend = backend
        self._worker = worker
        self._control = control
        self._connection = connection
        self._joined: AsyncJoined
        self._is_committing = False
        self._is_committed = False

    def __enter__(self) -> Self:
        self._check()
        self._joined = _AtOnce(self._backend.join(self._connection))
        run_at_once(self._joined.begin())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run_at_once(self._end(error))

    async def __aenter__(self) -> Self:
        self._check()
        self._joined = self._backend.ajoin(self._connection)
        try:
            await to_its_end(self._joined.begin())
        except asyncio.CancelledError as error:
            await to_its_end(self._undo(error))
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await to_its_end(self._end(error))
        except asyncio.CancelledError as cancelled:
            if self._is_committed:
                cancelled.add_note("it came too late: the transaction is committed")
            raise

    def _check(self) -> None:
        """Refuse to begin where it cannot end well."""
        if self._control.taken:
            raise LostClaimError(f"job {self._control.claim.job_id} was lost to another worker; end the handler")

    async def _end(self, error: BaseException | None) -> None:
        if error is not None:
            await self._undo(error)
            return
        try:
            await self._conclude()
        except BaseException as failure:
            if self._is_committing and not isinstance(failure, StandfastError):
                failure.add_note("it came amid the commit: the transaction may be committed")
            await self._undo(failure)
            raise

    @abstractmethod
    async def _conclude(self) -> None:
        """Write what is ours, and commit."""

    async def _write(self, verb: Verb[tuple[Verdict, ...]]) -> None:
        """Run a fenced write in the transaction. Raises LostClaimError where it is refused."""
        [verdict] = await self._joined.run(verb)
        if verdict is Verdict.STALE:
            raise LostClaimError(
                f"job {self._control.claim.job_id} was lost to another worker; what the transaction wrote is undone"
            )

    async def _commit(self) -> None:
        self._is_committing = True
        await self._joined.commit()
        self._is_committed = True

    async def _undo(self, error: BaseException) -> None:
        """Roll back because of an error, which is what counts whether this succeeds or not."""
        try:
            await self._joined.rollback()
        except Exception as failure:  # noqa: BLE001 - the connection is of no use any more, whatever it is
            error.add_note(f"the rollback failed too: {failure}")


class _AtOnce:
    """A sync transaction in the shape of an async one, which never waits: one code serves both."""

    def __init__(self, joined: Joined) -> None:
        self._joined = joined

    async def run(self, verb: Verb[T]) -> T:
        return self._joined.run(verb)

    async def begin(self) -> None:
        self._joined.begin()

    async def commit(self) -> None:
        self._joined.commit()

    async def rollback(self) -> None:
        self._joined.rollback()
