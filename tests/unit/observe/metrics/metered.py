"""Attempts that have ended, as meters count them."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from standfast.model.job import Claim, ClaimRef, Ending
from standfast.model.states import Move
from standfast.observe.metrics.families import written
from standfast.observe.metrics.totals import samples_of

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@dataclass
class Ended:
    claim: Claim
    ending: Ending
    seconds: float


def ended(task="send", queue="mail", move=Move.COMPLETE, seconds=0.5, late=0.002):
    ref = ClaimRef("job", 1)
    claim = Claim(ref, task, 1, b"", queue, 0, NOW, 0, 0, 3)
    return Ended(claim, Ending(ref, move, started_at=NOW + timedelta(seconds=late)), seconds)


def told(totals):
    return written(samples_of(totals.sums())).splitlines()
