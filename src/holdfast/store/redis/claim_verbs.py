"""How a worker comes by jobs: one script, which chooses as `ClaimRequest` says."""

from holdfast.core.job import KnownTask
from holdfast.store.protocol import ClaimAnswer, ClaimRequest
from holdfast.store.redis.packing import pack
from holdfast.store.redis.rows import to_claims, to_time
from holdfast.store.refusals import buried_worker
from holdfast.store.times import from_micros, span_to_micros
from holdfast.store.verb import Access, Script, Steps, verb


class ClaimVerbs:
    """The verb that gives jobs to workers."""

    @verb(Access.WRITE)
    def claim(self, request: ClaimRequest) -> Steps[ClaimAnswer]:
        """Give jobs to a registered, living worker: fence + 1, state held."""
        reply = yield Script(
            "claim",
            (
                request.worker,
                request.call,
                request.limit,
                int(request.alone),
                "" if request.max_wait is None else span_to_micros(request.max_wait),
                span_to_micros(request.look_ahead),
                request.ahead_limit,
                pack(
                    (
                        request.queues,
                        request.shares,
                        [_known(task) for task in request.adopt],
                        request.closed or None,
                        request.closed_tasks or None,
                    )
                ),
            ),
        )
        if reply is None:
            raise buried_worker(request.worker)
        now, next_due_at, texts, lives = reply
        return ClaimAnswer(
            to_claims(texts, lives), from_micros(int(now)), None if next_due_at is None else to_time(next_due_at)
        )


def _known(task: KnownTask) -> tuple[str, int]:
    return (task.name, task.version)
