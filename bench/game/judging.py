"""Whether the rules were kept, from the ledger and the store's history. Pure.

A job starts once. It starts again only if the claim under which it had started was lost: its instance was killed,
the store has written down that the worker was gone, and that was before the second start.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

from game.evidence import Evidence, Held, Played, Run, Stint
from game.rules import MAX_DELAY

LOST = frozenset({"vanished", "crashed", "suspected"})
"""How the claims of a worker that died are ended."""

FINEST = 1e-6
"""Seconds: the finest time that a store keeps."""

TICK = 0.001
"""Seconds by which times that different processes wrote down may disagree."""


class Judgement(msgspec.Struct, frozen=True):
    """What came of the jobs; each list has their numbers."""

    jobs: int
    unfinished: tuple[int, ...]
    early: tuple[int, ...]
    late: tuple[int, ...]
    restarted: tuple[int, ...]
    """Those that started again because a kill had caught them, and rightly so."""
    doubled: tuple[int, ...]
    """Those that started again without such an excuse, were claimed by two at once, or never rightly ended."""

    @property
    def keeps_the_rules(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.unfinished or self.early or self.late or self.doubled)


def judge(evidence: Evidence) -> Judgement:
    """Hold what happened against the rules."""
    runs: dict[int, list[Run]] = defaultdict(list)
    for run in evidence.runs:
        runs[run.job].append(run)
    killed = {stint.instance: stint for stint in evidence.stints if stint.killed}
    wrong = {
        "unfinished": [job for job in evidence.jobs if not job.completed],
        "early": [job for job in evidence.jobs if any(run.start < job.run_at - FINEST for run in runs[job.number])],
        "late": [job for job in evidence.jobs if is_late(job, runs[job.number])],
        "restarted": [],
        "doubled": [],
    }
    for job in evidence.jobs:
        if not _rightly_run(job, runs[job.number], killed):
            wrong["doubled"].append(job)
        elif len(runs[job.number]) > 1:
            wrong["restarted"].append(job)
    numbers = {name: tuple(job.number for job in jobs) for name, jobs in wrong.items()}
    return Judgement(jobs=len(evidence.jobs), **numbers)


def executed_at(runs: Sequence[Run]) -> float | None:
    """Return when the last run of a job had done its work, the ExecuteAt of the rules; None if it has not."""
    return runs[-1].end if runs else None


def is_late(job: Played, runs: Sequence[Run]) -> bool:
    """Tell whether a job had run more than 30 s after its time."""
    ended = executed_at(runs)
    return ended is not None and ended - job.run_at > MAX_DELAY


def _rightly_run(job: Played, runs: Sequence[Run], killed: Mapping[str, Stint]) -> bool:
    """Tell whether a job never had two valid claims and ran no more often than it had to."""
    if not job.completed:
        return len(runs) <= 1  # it is told as unfinished
    if not runs or runs[-1].end is None:
        return False
    claims = {claim.fence: claim for claim in job.claims}
    return (
        _one_at_a_time(job.claims)
        and (not claims or runs[-1].fence == job.claims[-1].fence)
        and all(_excused(earlier, later, claims, killed) for earlier, later in pairwise(runs))
    )


def _one_at_a_time(claims: Sequence[Held]) -> bool:
    """Tell whether each claim ended before the next began, and the last one alone completed the job."""
    return all(
        earlier.fence < later.fence
        and earlier.ended_at is not None
        and earlier.how != "complete"
        and (later.started_at is None or earlier.ended_at <= later.started_at + TICK)
        for earlier, later in pairwise(claims)
    )


def _excused(earlier: Run, later: Run, claims: Mapping[int, Held], killed: Mapping[str, Stint]) -> bool:
    stint, claim = killed.get(earlier.instance), claims.get(earlier.fence)
    if stint is None or claim is None or claim.ended_at is None:
        return False
    return (
        claim.how in LOST
        and earlier.fence < later.fence
        and (earlier.end is None or earlier.end <= later.start)
        and stint.ended_at <= later.start
        and claim.ended_at <= later.start + TICK
    )
