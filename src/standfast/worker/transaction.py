"""`ctx.transaction(connection)`: a handler's own rows and the completion of its job in one transaction.

Its end completes the job: after the commit the outcome is fixed.
"""

from typing import Any

from standfast.core.job import Ending
from standfast.core.outcome import Outcome
from standfast.core.states import Move
from standfast.errors import ArgumentsError, JobStateError, ResultEncodingError
from standfast.store.backend import Backend
from standfast.worker.control import Control
from standfast.worker.judge import Judge
from standfast.worker.owntransaction import OwnTransaction


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
