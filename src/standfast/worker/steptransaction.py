"""`ctx.step(…, tx=connection)`: the rows of a step and its memo in one transaction of the handler's own."""

from standfast.core.memo import Memo, Save
from standfast.errors import JobStateError
from standfast.worker.owntransaction import OwnTransaction


class StepTransaction(OwnTransaction):
    """One transaction that writes the memo of a step; the job goes on."""

    memo: Memo
    """What to write; it is set in the block."""

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
