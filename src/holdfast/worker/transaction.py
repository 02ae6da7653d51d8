"""`ctx.transaction(connection)`: a handler's own rows and the completion of its job in one transaction.

    begin ─► the handler writes ─► fenced finish ─► commit ─► the outcome is fixed
                    │                   │              └─► roll back, and raise what was raised
                    │                   └─► stale: roll back, LostClaimError
                    └─► it raises: roll back, and the exception goes on

The finish runs under the write lock of the transaction. So the rows are committed if and only if the claim was
valid and the job is completed, whatever process dies in between.
"""

import asyncio
from types import TracebackType
from typing import Any, Self, TypeVar

from holdfast.codec import encode_result
from holdfast.core.job import Ending, Verdict
from holdfast.core.outcome import Outcome
from holdfast.errors import ArgumentsError, JobStateError, LostClaimError
from holdfast.store.awaiting import run_at_once, to_its_end
from holdfast.store.backend import AsyncJoined, Backend, Joined
from holdfast.store.verb import Verb
from holdfast.worker.control import Control
from holdfast.worker.judge import Judge

T = TypeVar("T")


class JobTransaction:
    """One transaction that completes the job: for `with` on a sync connection, for `async with` on an async one."""

    def __init__(self, backend: Backend, worker: str, control: Control, judge: Judge, connection: Any) -> None:
        self._backend = backend
        self._worker = worker
        self._control = control
        self._judge = judge
        self._connection = connection
        self._result: Any = None
        self._joined: AsyncJoined

    @property
    def result(self) -> Any:
        """What the job results in; None unless it is set."""
        return self._result

    @result.setter
    def result(self, value: Any) -> None:
        if isinstance(value, Outcome):
            raise ArgumentsError(
                f"a transaction completes its job, and {type(value).__name__} is another outcome: raise it, which"
                " rolls back, or return it without a transaction"
            )
        encode_result(value)  # what cannot be stored is refused here, where the handler sees it
        self._result = value

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
        await to_its_end(self._end(error))

    def _check(self) -> None:
        job_id = self._control.claim.job_id
        if self._control.ending is not None:
            raise JobStateError(f"job {job_id} is completed by an earlier transaction: write all of it in that one")
        if self._control.taken:
            raise LostClaimError(f"job {job_id} was lost to another worker; end the handler")

    async def _end(self, error: BaseException | None) -> None:
        if error is not None:
            await self._undo(error)
            return
        self._control.concluding = True  # from now on, that the claim is valid no more may be our own doing
        try:
            await self._finish(self._control.with_log(self._judge.returned(self._result)))
        except BaseException as failure:
            self._control.concluding = False
            await self._undo(failure)
            raise
        self._control.fault_point("transaction")

    async def _finish(self, ending: Ending) -> None:
        [verdict] = await self._joined.run(self._backend.verbs.finish(self._worker, [ending]))
        if verdict is Verdict.STALE:
            raise LostClaimError(
                f"job {ending.ref.job_id} was lost to another worker; what the transaction wrote is undone"
            )
        await self._joined.commit()
        self._control.fix(ending)

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
