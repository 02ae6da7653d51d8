"""The contract of a store: its verbs, and what each promises.

The values that they take and return are in values.py.

Rules that hold for every verb:
- it is one atomic step: all of it happened, or nothing;
- repeating it with the same arguments succeeds and changes nothing more, but for `claim`, which gives other jobs
  each time, and `change_jobs`, which refuses to retry or discard a job that is dead no more;
- time is the store's own; `run_at` and lease ages are never judged by a caller's clock;
- a write of a claim (finish, start, progress, save) carries (worker, job, fence) and is refused as STALE, changing
  nothing, unless that very claim is the job's valid one;
- a verb says before it is run whether it *wakes* workers, because jobs may have come or come back, and whether it
  *tells* of an end to those who wait for one (`stores/verb.py`): drivers ring by that. What turns out while it runs
  may add to it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from standfast.model.crash import Death
from standfast.model.job import (
    Attempt,
    Cancellation,
    ClaimRef,
    Ending,
    Glance,
    Job,
    JobAction,
    NewJob,
    Progress,
    Verdict,
)
from standfast.model.memos import Memo, Save
from standfast.model.records import Change, Fire, Kind, Record
from standfast.model.states import State
from standfast.stores.refusals import not_changed
from standfast.stores.values import (
    BeatAnswer,
    ClaimAnswer,
    ClaimRequest,
    DueRecords,
    JobFilter,
    JobOutcome,
    JobPage,
    LeaseClock,
    Queue,
    QueueAges,
    Situation,
    Worker,
    WorkerBeat,
    WorkerInfo,
)
from standfast.stores.verb import Verb, judged


class Store(Protocol):
    """The verbs."""

    @property
    def lease_clock(self) -> LeaseClock:
        """By which clock this store measures leases."""
        ...

    # -- clients ---------------------------------------------------------------------------------------------

    def enqueue(self, jobs: Sequence[NewJob]) -> Verb[Mapping[str, str]]:
        """Accept jobs. A job whose id is known already is left as it is, whatever its key.

        A key is taken by the job that was last accepted with it while that job is unfinished, and after its
        completion for its own `keep_key`; a dead or cancelled job frees it. Where the key of a job is taken,
        `on_conflict` decides:

        RETURN: it is not stored.
        REPLACE: a waiting job ends as cancelled(replaced), and the new one is accepted. Of a claimed one the new
        job is accepted as blocked(replacing) `after` it, and runs when it has ended; if it has not started, or
        would have to be tried again, it is given up as cancelled(replaced) instead (see `finish`). A completed
        one, whose key is still kept, cannot be replaced: as RETURN.
        RAISE: KeyTakenError, and nothing of this call is stored.

        Several jobs of one call with one key meet each other in their order. Returns the ids of those that were
        not stored, each with the id of the job that has its key; and of a call with one job whose id is known
        already this id, with itself.
        """
        ...

    def glance(self, job_ids: Sequence[str]) -> Verb[Mapping[str, Glance]]:
        """Return the states of jobs; those that do not exist are left out."""
        ...

    def get(self, job_id: str) -> Verb[Job | None]:
        """Return the job, or None."""
        ...

    def list_jobs(self, which: JobFilter, span: int | None = None) -> Verb[JobPage]:
        """Return one page of jobs, newest id first; with a `span`, after a look at no more than some so many.

        A span is for what no index leads to, such as a rare task: without one, all jobs that are not wanted are
        passed over. Which jobs are looked at is the store's own affair: all of them, or only those of a state, a
        tag, a key. From page to page by `next` every wanted job is found, once.
        """
        ...

    def history(self, job_id: str) -> Verb[tuple[Attempt, ...]]:
        """Return every claim of the job by fence, the present one included.

        Of more than HISTORY_FIRST + HISTORY_LAST claims the ones between are folded: there is one Attempt for each
        way to end, which says how many ended so. A store keeps no more of them, but for a few that are not folded
        yet. A finish is accepted again while its claim is not folded, and crashes of folded claims count.
        """
        ...

    def memos(self, job_id: str) -> Verb[tuple[Memo, ...]]:
        """Return what a job has written down and was sent, by name; nothing of a job that does not exist."""
        ...

    def signal(self, job_id: str, name: str, token: str, body: bytes) -> Verb[bool]:
        """Send a signal to a job that is not final: write its memo, unless there is one with this token.

        A job that is scheduled because it waits for a signal of this name becomes ready, due now, and its reason is
        forgotten; one whose time has come already keeps its place. Returns False, and writes nothing, where the job
        is final. Raises JobNotFoundError, and JobStateError where the job was sent MEMOS_LIMIT others.
        """
        ...

    def change_jobs(
        self,
        action: JobAction,
        job_ids: Sequence[str],
        run_at: datetime | None = None,
        instead: NewJob | None = None,
    ) -> Verb[Mapping[str, JobOutcome]]:
        """Retry, cancel, discard or reschedule jobs, each only in the states of ACTS_ON; return what became of each.

        Of several jobs some may be left as they are and left out: those that somebody else changes at this moment,
        those whose key another job has or would get back, and any that could not be changed. Ask for these one by
        one: one job is waited for, and always answered for.

        RETRY: a dead job is ready, due now, with attempt and crashes 0; its error and a wish to cancel it are
        forgotten, the fence stays, a suspect stays one. It takes its key again: refused where another job has it
        now. A scheduled job is due now.
        CANCEL: a waiting job is cancelled now; a claimed one is asked for. A job that is blocked(replacing) gives
        its key, and their future, back to the one it waits for, if that is unfinished.
        DISCARD: a dead job ends as cancelled(discarded). With `instead`, of one job, another is accepted in its
        place, as `enqueue` does: both or, where it raises KeyTakenError, neither. So of many who decide about a
        dead job at the same time one does.
        RESCHEDULE: a job is due at `run_at`, which may be past; all else of it stays. Refused for a job that is
        suspended (`model.memos`).
        """
        ...

    def pause(self, queue: str) -> Verb[None]:
        """Let nothing of the queue be claimed or, if claimed but not started, start."""
        ...

    def resume(self, queue: str) -> Verb[None]:
        """Undo `pause`."""
        ...

    def queues(self) -> Verb[tuple[Queue, ...]]:
        """Return every queue that holds jobs or is paused, by name. Costs no more with many finished jobs."""
        ...

    def workers(self) -> Verb[tuple[Worker, ...]]:
        """Return the registered workers, oldest first."""
        ...

    def queue_ages(self) -> Verb[QueueAges]:
        """Return each queue with due jobs that nobody has claimed, and those that wait as blocked(no_worker).

        Costs no more with many jobs than with few: of many blocked jobs of one task and payload version, it is
        enough to look at the first UNKNOWN_LOOKED_AT of an index.
        """
        ...

    def situation(self, job_id: str) -> Verb[Situation | None]:
        """Return what there is to know about why a job does not run, or None without such a job."""
        ...

    def unsettled(self, queues: tuple[str, ...] | None) -> Verb[int]:
        """Return how many jobs of these queues a drain still waits for.

        These are ready (in queues not paused), held, running, or scheduled after an earlier claim; not those that
        are suspended (`core.memo`).
        """
        ...

    # -- records ---------------------------------------------------------------------------------------------

    def records(self, kind: Kind, names: Sequence[str] | None = None) -> Verb[tuple[Record, ...]]:
        """Return all records of a kind, or those of the given names that exist, by name."""
        ...

    def due_records(self, kind: Kind, ahead: timedelta, limit: int) -> Verb[DueRecords]:
        """Return at most `limit` records of a kind that are due at the store's now + `ahead`."""
        ...

    def change_records(self, changes: Sequence[Change]) -> Verb[tuple[bool, ...]]:
        """Make changes; tell for each whether it was made.

        One is made if the record has the version `seen`, or does not exist and 0 was seen, and then with all that
        comes of it; else nothing of it happens. With `after`, the record must have been made by the change with
        that token. True as well for one that was made before with the same token and was not followed by another;
        and for forgetting what does not exist, which nothing comes of. One that forgets writes no fires. Of one
        that is made, what it ends comes before the jobs that it brings. Raises, and makes none: ValueError if two
        are of the same record or a job's `on_conflict` is RAISE, JobStateError if one that is to be made withdraws
        what a worker has.
        """
        ...

    def fires(self, schedule: str | None, limit: int, before: datetime | None = None) -> Verb[tuple[Fire, ...]]:
        """Return fires of one schedule or of all, the latest planned first; `before` starts the next page.

        Those of one time go by schedule and cause, downward. A page does not end between them: there may be more
        than `limit`. Of each schedule the latest FIRES_KEPT by their planned time are kept, at least.
        """
        ...

    # -- workers ---------------------------------------------------------------------------------------------

    def claim(self, request: ClaimRequest) -> Verb[ClaimAnswer]:
        """Give jobs to a worker that is registered, and not buried yet: fence + 1, state held.

        Due jobs go by priority, then run_at, then order of arrival, queue by queue in the order asked for.
        Paused queues give nothing. A job that waits for a signal is not given ahead of its time: in a worker's hand
        it would not hear the signal. Raises WorkerBuriedError where the worker is not registered (any more).
        """
        ...

    def start(self, worker: str, started: Sequence[tuple[ClaimRef, datetime]]) -> Verb[tuple[Verdict, ...]]:
        """Mark claims as running since the given times, fenced."""
        ...

    def progress(self, worker: str, reports: Sequence[tuple[ClaimRef, Progress]]) -> Verb[tuple[Verdict, ...]]:
        """Record progress, fenced."""
        ...

    def save(self, worker: str, saves: Sequence[Save]) -> Verb[tuple[Verdict, ...]]:
        """Write memos down, fenced, each save of its own; one that says nothing new is accepted all the same."""
        ...

    def finish(self, worker: str, endings: Sequence[Ending]) -> Verb[tuple[Verdict, ...]]:
        """End claims, fenced. An ending recorded before by this worker for this fence is accepted again.

        A job that has a replacement waits no more: every return of it (RETRY, SNOOZE, RELEASE, BLOCK) ends it as
        cancelled(replaced).

        A SNOOZE may have a reason of `core.memo`, which the job keeps while it is scheduled. One that waits for a
        signal of which there is a memo that is not taken waits no longer: it is ready, due now, without a reason.

        Whenever a job ends, here or by burial or reconciling, the one that is blocked(replacing) after it
        waits for its time as any other.
        """
        ...

    # -- supervisors -----------------------------------------------------------------------------------------

    def register(self, worker: WorkerInfo) -> Verb[None]:
        """Make the worker known and alive from now on; who is buried stays so, however late this call arrives."""
        ...

    def beat(self, beats: Sequence[WorkerBeat]) -> Verb[BeatAnswer]:
        """Renew leases: refused to a condemned or unregistered worker, granted to any other, however late.

        What a refused beat tells is not kept.
        """
        ...

    def reconcile(self, beat: WorkerBeat) -> Verb[tuple[ClaimRef, ...]]:
        """Release the worker's claims of calls up to `closed_call` that it does not name; return them."""
        ...

    def condemn(self, workers: frozenset[str]) -> Verb[frozenset[str]]:
        """Mark those dead whose lease has run out *now*, atomically against their beats.

        Return the marked ones, those marked before included.
        """
        ...

    def forget_results(self, limit: int) -> Verb[int]:
        """Forget at most `limit` results whose time is over, for good; return how many. Views hide them before."""
        ...

    def forget_jobs(self, age: timedelta, limit: int) -> Verb[int]:
        """Forget at most `limit` jobs that completed or were cancelled `age` ago or before; return how many.

        With a job go its result, history, memos and tags, and its key. One whose key is kept for longer stays as
        long; a dead one until a person decides, or `forget_dead`. A store may look at a part of its jobs only, and
        at another the next time.
        """
        ...

    def forget_dead(self, keep: timedelta | int, limit: int) -> Verb[int]:
        """Forget at most `limit` dead jobs, by their ids the oldest first; return how many.

        `keep` is a span: those that died so long ago or before; or how many stay, the newest by their ids. With a
        job goes what goes with it in `forget_jobs`. Where it is a span, a store may look at a part of its dead jobs
        only, and at another the next time.
        """
        ...

    def bury(self, worker: str, death: Death) -> Verb[tuple[ClaimRef, ...]]:
        """Remove the worker and give back all its claims as `crash.aftermath` says; return them.

        After it, no claim or beat of that worker is accepted. Burying an unknown worker gives nothing back; a
        vanished one is buried only if it is condemned.
        """
        ...


def change_job(
    verbs: Store, action: JobAction, job_id: str, run_at: datetime | None = None, instead: NewJob | None = None
) -> Verb[JobOutcome]:
    """Return `change_jobs` of one job, which raises JobNotFoundError, JobStateError or KeyTakenError if refused.

    A wish to cancel that comes too late is no error.
    """

    def judge(outcomes: Mapping[str, JobOutcome]) -> JobOutcome:
        outcome = outcomes[job_id]
        if not outcome.changed and (action is not JobAction.CANCEL or outcome.state is None):
            raise not_changed(action, job_id, outcome)
        return outcome

    return judged(verbs.change_jobs(action, [job_id], run_at, instead), judge)


def cancel_job(verbs: Store, job_id: str) -> Verb[Cancellation]:
    """Return the verb that cancels one job. Raises JobNotFoundError."""
    return judged(change_job(verbs, JobAction.CANCEL, job_id), lambda outcome: outcome.cancellation)


def count_states(verbs: Store) -> Verb[Mapping[State, int]]:
    """Return the look at the queues that counts the jobs in each state, zeros included."""

    def add_up(queues: tuple[Queue, ...]) -> Mapping[State, int]:
        return {state: sum(queue.states.get(state, 0) for queue in queues) for state in State}

    return judged(verbs.queues(), add_up)


def ask_time(verbs: Store) -> Verb[DueRecords]:
    """Return the read that tells the store's time and else nothing."""
    return verbs.due_records(Kind.SCHEDULE, timedelta(), 0)
