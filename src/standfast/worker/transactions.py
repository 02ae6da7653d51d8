"""Transactions of the handler's own with a fenced write of ours in it: both commit, or neither.

Our write runs under the transaction's write lock. So the rows are committed if and only if the claim was valid,
whatever process dies in between. A stale claim rolls back and raises LostClaimError.
"""

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self, TypeVar

from standfast.errors import ArgumentsError, JobStateError, LostClaimError, ResultEncodingError, StandfastError
from standfast.model.concurrency import await_to_end, run_without_loop
from standfast.model.job import Ending, Verdict
from standfast.model.memos import Memo, Save
from standfast.model.outcomes import Outcome
from standfast.model.states import Move
from standfast.stores.backend import AsyncJoined, Backend, Joined
from standfast.stores.verb import Verb
from standfast.worker.completer import Judge
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
        run_without_loop(self._joined.begin())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run_without_loop(self._end(error))

    async def __aenter__(self) -> Self:
        self._check()
        self._joined = self._backend.ajoin(self._connection)
        try:
            await await_to_end(self._joined.begin())
        except asyncio.CancelledError as error:
            await await_to_end(self._undo(error))
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await await_to_end(self._end(error))
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


class StepTransaction(OwnTransaction):
    """One transaction that writes the memo of a step; the job goes on."""

    memo: Memo  # what to write; it is set in the block

    def _check(self) -> None:
        if self._control.ending is not None:
            raise JobStateError(
                f"job {self._control.claim.job_id} is completed by its transaction: no step comes after"
            )
        super()._check()

    async def _conclude(self) -> None:
        # A step is written once in a claim, so that no other save of its memo can come before or after this one.
        save = Save(self._control.claim.ref, 1, (self.memo,))
        await self._write(self._backend.verbs.save(self._worker, [save]))
        await self._commit()


class JobTransaction(OwnTransaction):
    """One transaction that completes the job."""

    def __init__(self, backend: Backend, worker: str, control: Control, judge: Judge, connection: Any) -> None:
        super().__init__(backend, worker, control, connection)
        self._judge = judge
        self._result: Any = None

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
        self._judge.results.encode(value)  # what cannot be stored is refused here, where the handler sees it
        self._result = value

    def _check(self) -> None:
        job_id = self._control.claim.job_id
        if self._control.ending is not None:
            raise JobStateError(f"job {job_id} is completed by an earlier transaction: write all of it in that one")
        super()._check()

    async def _end(self, error: BaseException | None) -> None:
        await super()._end(error)
        if error is None:
            self._control.fault_point("transaction")

    async def _conclude(self) -> None:
        ending = self._judge.returned(self._result)
        if ending.move is not Move.COMPLETE and ending.failure is not None:
            raise ResultEncodingError(
                f"{ending.failure.message}; nothing was committed: set the transaction's `result`"
            )
        self._control.concluding = True  # from now on, that the claim is valid no more may be our own doing
        try:
            await self._finish(self._control.with_log(ending))
        except BaseException:
            self._control.concluding = False
            raise

    async def _finish(self, ending: Ending) -> None:
        notebook, verbs = self._control.opened, self._backend.verbs
        save = None if notebook is None else notebook.unwritten()
        if save is not None:  # here, for nothing else can write while this transaction has the lock, nor after it
            await self._joined.run(verbs.save(self._worker, [save]))
        await self._write(verbs.finish(self._worker, [ending]))
        await self._commit()
        self._control.fix(ending)
        if notebook is not None:
            notebook.written()
