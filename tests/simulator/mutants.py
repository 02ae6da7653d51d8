"""Ways to break the protocol, each of which the simulator must notice: a checker that finds nothing proves nothing.

A mutant replaces one method of the shipped code for as long as its `with` block lasts. The first eleven are those
that the design names; a simulator that lets any of them live is a defect.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from functools import wraps
from itertools import count
from typing import Any

from msgspec.structs import replace

from simulator.bell import WorldBell
from simulator.long_mutants import LONG_MUTANTS
from simulator.replacing import replaced
from standfast.model import crash
from standfast.model.job import Claim, Ending, NewJob, Verdict
from standfast.model.states import MOVES, Move
from standfast.stores.memory import claim as claim_verbs
from standfast.stores.memory import supervise
from standfast.stores.memory.claim import ClaimVerbs
from standfast.stores.memory.client import ClientVerbs
from standfast.stores.memory.rows import JobRow, WorkerRow, verb
from standfast.stores.memory.supervise import SupervisionVerbs
from standfast.stores.values import BeatAnswer, ClaimAnswer, ClaimRequest
from standfast.stores.verb import Access
from standfast.supervisor import children as crew
from standfast.supervisor.heartbeat import Heartbeat
from standfast.worker import claimer
from standfast.worker.claimer import PollPlanner
from standfast.worker.control import Control, StopReason
from standfast.worker.lease import Lease
from standfast.worker.messages import Revoke
from standfast.worker.progress import Reporter
from standfast.worker.storecalls import Timekeeper
from standfast.worker.worker import Worker


def reused_fence() -> AbstractContextManager[None]:
    """A claim after a release gets the fence of the claim before it."""
    give_to: Callable[..., Claim] = JobRow.give_to

    @wraps(give_to)
    def broken(self: JobRow, worker: str, call: int) -> Claim:
        if self.fence and self.claims[-1].how == Move.RELEASE:
            self.fence -= 1
        return give_to(self, worker, call)

    return replaced(JobRow, "give_to", broken)


def unfenced_finish() -> AbstractContextManager[None]:
    """A finish goes by the job's id alone."""

    def broken(self: ClaimVerbs, worker: str, ending: Ending) -> tuple[Verdict, bool]:
        row = self._jobs[ending.ref.job_id]
        if row.claims and not row.was_finished(worker, ending.ref):
            claim_verbs._end(row, ending, self._clock.now())
        return Verdict.ACCEPTED, False

    return replaced(ClaimVerbs, "_end", broken)


def lost_claim_reply() -> AbstractContextManager[None]:
    """A claim whose reply was lost is never asked about."""
    return replaced(SupervisionVerbs, "_unnamed", lambda _self, _beat: [])


def claim_during_burial() -> AbstractContextManager[None]:
    """A claim does not ask whether its worker is still registered."""
    claim = ClaimVerbs.__dict__["claim"].__wrapped__

    @verb(Access.WRITE)
    def broken(self: ClaimVerbs, request: ClaimRequest) -> ClaimAnswer:
        ghost = request.worker not in self._workers
        if ghost:
            self._workers[request.worker] = next(iter(self._workers.values()), None)  # type: ignore[assignment]
        try:
            answer: ClaimAnswer = claim(self, request)
        finally:
            if ghost:
                del self._workers[request.worker]
        return answer

    broken.__name__ = "claim"
    return replaced(ClaimVerbs, "claim", broken)


def mass_burial() -> AbstractContextManager[None]:
    """Anyone may bury at once, also right after an outage."""
    return replaced(Heartbeat, "_may_bury", lambda _self, _sent_at: True)


def start_after_lost_lease() -> AbstractContextManager[None]:
    """A job starts whatever the lease says."""
    return replaced(Lease, "fresh", property(lambda self: not self.buried))


def release_burns_attempt() -> AbstractContextManager[None]:
    """Giving a job back counts as a failure."""
    moves = dict(MOVES)
    moves[Move.RELEASE] = replace(moves[Move.RELEASE], charges=True)
    return replaced(claim_verbs, "MOVES", moves)


def unrung_bell() -> AbstractContextManager[None]:
    """Commits wake nobody."""
    return replaced(WorldBell, "ring", lambda _self, _tone: None)


def innocents_charged() -> AbstractContextManager[None]:
    """Whatever a dead process held pays for the crash, started or not."""
    aftermath = crash.aftermath

    def broken(death: crash.Death, orphans: list[crash.Orphan]) -> list[crash.Aftermath]:
        return aftermath(replace(death, started=frozenset(orphan.ref for orphan in orphans)), orphans)

    return replaced(supervise, "aftermath", broken)


def repeated_finish() -> AbstractContextManager[None]:
    """A finish that was recorded is not recognised when it comes again."""
    return replaced(JobRow, "was_finished", lambda _self, _worker, _ref: False)


def beat_during_burial() -> AbstractContextManager[None]:
    """Burial trusts the age that was read earlier, not the age now."""

    @verb(Access.BEAT)
    def broken(self: SupervisionVerbs, workers: frozenset[str]) -> frozenset[str]:
        asked = [row for name, row in self._workers.items() if name in workers]
        for row in asked:
            row.condemned = True
        return frozenset(row.info.id for row in asked)

    broken.__name__ = "condemn"
    return replaced(SupervisionVerbs, "condemn", broken)


def resurrection() -> AbstractContextManager[None]:
    """A registration that arrives late brings a buried worker back."""

    @verb(Access.WRITE)
    def broken(self: SupervisionVerbs, worker: Any) -> None:
        self._workers.setdefault(worker.id, WorkerRow(worker, self._clock.now(), self._clock.boot()))

    broken.__name__ = "register"
    return replaced(SupervisionVerbs, "register", broken)


def deaf_to_burial() -> AbstractContextManager[None]:
    """A supervisor whose beat is refused tells its child nothing and goes on."""
    pass_on = Heartbeat._pass_on

    def broken(self: Heartbeat, child: Any, answer: BeatAnswer, sent_at: float) -> None:
        pass_on(self, child, replace(answer, accepted=answer.accepted | {child.worker}), sent_at)

    return replaced(Heartbeat, "_pass_on", broken)


def counted_on() -> AbstractContextManager[None]:
    """What was left before somebody else's turn is left to it, though who has just gone or died takes none."""
    return replaced(PollPlanner, "_be_sure", lambda _self, _now, _next_due_at: None)


def suspects_together() -> AbstractContextManager[None]:
    """A child for suspects takes as many as it has places for."""
    return replaced(claimer, "group_limit", lambda _: 1000)


def unhalved_group() -> AbstractContextManager[None]:
    """A group that dies runs together again."""
    return replaced(crash, "halved", lambda together: together)


def hosts_together() -> AbstractContextManager[None]:
    """Groups that may take their host down run side by side on it."""
    return replaced(crew, "is_of_host", lambda _: False)


def neighbours_charged() -> AbstractContextManager[None]:
    """Each of several that ran in a dead process is charged as if it had been alone there."""
    crashed = crash._crashed
    return replaced(crash, "_crashed", lambda orphan, _: crashed(orphan, 1))


def unmoved_alarm() -> AbstractContextManager[None]:
    """The store's time is learned, and the alarm for the next job goes off by what was thought before."""
    ask = Timekeeper._ask

    async def broken(self: Timekeeper) -> None:
        self._learned = lambda: None
        await ask(self)

    return replaced(Timekeeper, "_ask", broken)


def start_of_a_paused_job() -> AbstractContextManager[None]:
    """A job that is being marked as running starts, though its worker has heard that its queue is paused."""
    revoke = Worker._revoke

    def broken(self: Worker, message: Revoke) -> None:
        marked = {control: control.why for control in self._slots.running() if not control.started_boot}
        revoke(self, message)
        for control, why in marked.items():
            control.why = why if control.why is StopReason.STOP else control.why

    return replaced(Worker, "_revoke", broken)


def lost_after_burial() -> AbstractContextManager[None]:
    """A supervisor takes the refused beat of a child that it has just buried for the word of others."""
    beat = Heartbeat._beat

    async def broken(self: Heartbeat) -> float:
        children, now = self.children, self.children()
        self.children = lambda: now
        try:
            return await beat(self)
        finally:
            self.children = children

    return replaced(Heartbeat, "_beat", broken)


def charged_for_the_store() -> AbstractContextManager[None]:
    """A job whose mark the store refuses has failed, though it never began."""

    async def broken(self: Reporter, control: Control) -> bool:
        started = [(control.claim.ref, self.clock.now())]
        verdicts = await self.calls.until_answered(lambda: self.calls.verbs.start(self.worker, started))
        control.marked = True
        return verdicts[0] is Verdict.ACCEPTED

    return replaced(Reporter, "mark", broken)


def acknowledged_before_committed() -> AbstractContextManager[None]:
    """An enqueue is answered, and committed seconds later."""
    enqueue = ClientVerbs._enqueue

    def broken(self: ClientVerbs, jobs: Sequence[NewJob]) -> Mapping[str, str]:
        known = self._jobs.copy()
        taken = enqueue(self, jobs)
        late = {job.id: self._jobs.pop(job.id) for job in jobs if job.id not in known}
        asyncio.get_running_loop().call_later(5, self._jobs.update, late)
        return taken

    return replaced(ClientVerbs, "_enqueue", broken)


def claim_rolled_back() -> AbstractContextManager[None]:
    """A claim is told, and every third job of it is as it was before."""
    give_to, times = JobRow.give_to, count(1)

    @wraps(give_to)
    def broken(self: JobRow, worker: str, call: int) -> Claim:
        before = copy(self)
        before.claims = list(self.claims)
        claim = give_to(self, worker, call)
        if next(times) % 3 == 0:
            for name in self.__slots__:
                setattr(self, name, getattr(before, name))
        return claim

    return replaced(JobRow, "give_to", broken)


MUTANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "reused-fence": reused_fence,
    "unfenced-finish": unfenced_finish,
    "lost-claim-reply": lost_claim_reply,
    "claim-during-burial": claim_during_burial,
    "mass-burial": mass_burial,
    "start-after-lost-lease": start_after_lost_lease,
    "release-burns-attempt": release_burns_attempt,
    "unrung-bell": unrung_bell,
    "innocents-charged": innocents_charged,
    "repeated-finish": repeated_finish,
    "beat-during-burial": beat_during_burial,
    "resurrection": resurrection,
    "deaf-to-burial": deaf_to_burial,
    "counted-on": counted_on,
    "suspects-together": suspects_together,
    "unhalved-group": unhalved_group,
    "neighbours-charged": neighbours_charged,
    "hosts-together": hosts_together,
    "unmoved-alarm": unmoved_alarm,
    "start-of-a-paused-job": start_of_a_paused_job,
    "lost-after-burial": lost_after_burial,
    "charged-for-the-store": charged_for_the_store,
    "acknowledged-before-committed": acknowledged_before_committed,
    "claim-rolled-back": claim_rolled_back,
    **LONG_MUTANTS,
}
