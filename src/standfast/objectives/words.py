"""Objectives and how they stand, as people say it. Pure."""

from datetime import timedelta

from standfast.core.objective import Objective
from standfast.objectives.standing import Standing
from standfast.words import span

_DIGITS = 3


def percent(share: float, digits: int = _DIGITS) -> str:
    """Return a share: `99.5 %`. What is not all is never said to be."""
    shown = f"{100 * share:,.{digits}f}"
    if 0 < share < 1 and float(shown) in {0.0, 100.0}:
        least = 10.0**-digits
        return f"< {least:g} %" if share < 0.5 else f"> {100 - least:g} %"  # noqa: PLR2004
    return f"{shown.rstrip('0').rstrip('.')} %"


def promise(objective: Objective) -> str:
    """Return what an objective promises: `99.5 % of task send_mail start within 30 s, over 28 d`."""
    whose = f"task {objective.task}" if objective.task is not None else f"queue {objective.queue}"
    within = objective.start_within
    what = "succeed" if within is None else f"start within {span(timedelta(seconds=within))}"
    return f"{percent(objective.target)} of {whose} {what}, over {objective.over} d"


def budget(standing: Standing) -> str:
    """Return what is left of a budget: `62 %`, or by how much it is overdrawn."""
    left = standing.budget_left
    return percent(left, 1) if left >= 0 else f"overdrawn by {percent(-left, 1)}"


def share(standing: Standing) -> str:
    """Return what share was good, in percent."""
    return "" if standing.share is None else percent(standing.share)


def burn(rate: float) -> str:
    """Return a burn rate: `14.4×`."""
    return f"{rate:.1f}×" if rate < 100 else f"{rate:,.0f}×"  # noqa: PLR2004
