"""What clients ask for about jobs that are there: cancel, requeue, discard; and about queues: pause."""

from typing import Any

from holdfast.core.job import Cancellation
from holdfast.core.states import State
from holdfast.errors import JobNotFoundError, JobStateError
from holdfast.store.redis.enqueue_verbs import key_taken
from holdfast.store.verb import Access, Script, Steps, verb


class ClientVerbs:
    """The writes of clients."""

    @verb(Access.WRITE, tells=True)
    def cancel(self, job_id: str) -> Steps[Cancellation]:
        """Cancel a waiting job now; ask for it where it is claimed; too late where it is final."""
        outcome = yield from _ask("cancel", job_id)
        return Cancellation(outcome.decode())

    @verb(Access.WRITE, wakes=True)
    def requeue(self, job_id: str) -> Steps[None]:
        """Make a dead job ready with attempt and crashes 0, or a scheduled one due now. The fence stays."""
        state, *holder = yield from _ask("requeue", job_id)
        if holder:
            raise key_taken(holder, f"cancel it or wait for its end before job {job_id} is requeued")
        was = state.decode()
        if was not in {State.DEAD, State.SCHEDULED}:
            raise JobStateError(
                f"job {job_id} is {was}: only a dead job can be requeued, and a scheduled one be made due now"
            )

    @verb(Access.WRITE, tells=True)
    def discard(self, job_id: str) -> Steps[None]:
        """End a dead job as cancelled(discarded)."""
        state = yield from _ask("discard", job_id)
        if state.decode() != State.DEAD:
            raise JobStateError(
                f"job {job_id} is {state.decode()}: only a dead job can be discarded; cancel any other"
            )

    @verb(Access.WRITE)
    def pause(self, queue: str) -> Steps[None]:
        """Let nothing of the queue be claimed or, if claimed but not started, start."""
        yield Script("pause", (queue,))

    @verb(Access.WRITE, wakes=True)
    def resume(self, queue: str) -> Steps[None]:
        """Undo `pause`."""
        yield Script("resume", (queue,))


def _ask(name: str, job_id: str) -> Steps[Any]:
    reply = yield Script(name, (job_id,))
    if reply is None:
        raise JobNotFoundError(f"there is no job {job_id}: check the id and the store's URL")
    return reply
