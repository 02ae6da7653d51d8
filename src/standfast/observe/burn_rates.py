"""How objectives stand: what was good and bad, what is left of the budget, and how fast it is being spent.

A *budget* is how much may go wrong: with a target of 99 % one job in a hundred. A *burn rate* is how many times
faster than that things go wrong: at 1 the budget is gone when the days of the objective are over, at 28 in one of
28 days.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from standfast.model.alerts import Objective
from standfast.model.display import span
from standfast.observe.figures.counts import Row
from standfast.observe.figures.histogram import ends_at
from standfast.observe.figures.series import Figures, Series, read_figures
from standfast.stores.contract import Store, ask_time
from standfast.stores.verb import Verbs, procedure

WINDOWS: Mapping[str, timedelta] = {
    "5m": timedelta(minutes=5),
    "30m": timedelta(minutes=30),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
}
"""The last so long, of which burn rates are told."""

_HOUR = timedelta(hours=1)
_BURNING = max(WINDOWS.values()) - timedelta(minutes=1)
"""How far back figures are read for burn rates: a little less than minutes are kept for."""

_Whose = tuple[str | None, str | None]  # a task or a queue, by its name; the other is None


class Standing(msgspec.Struct, frozen=True):
    """How one objective stands. `burns` has the burn rate of each of WINDOWS."""

    objective: Objective
    good: int = 0
    bad: int = 0
    burns: Mapping[str, float] = {}

    @property
    def share(self) -> float | None:
        """What share was good; None where there was nothing."""
        total = self.good + self.bad
        return self.good / total if total else None

    @property
    def budget_left(self) -> float:
        """What is left of the budget: 1 where nothing was bad, 0 where it is spent, less where it is overdrawn."""
        allowed = (1 - self.objective.target) * (self.good + self.bad)
        return round(1 - self.bad / allowed, 9) if allowed else 1.0  # 1 - 0.9 is not quite 0.1

    @property
    def is_kept(self) -> bool:
        """Whether the objective is kept so far."""
        return self.budget_left >= 0

    @property
    def fast(self) -> float:
        """How fast the budget burns now: what the last 5 minutes and the last hour agree on."""
        return min(self.burns.get("5m", 0.0), self.burns.get("1h", 0.0))

    @property
    def slow(self) -> float:
        """How fast it burns steadily: what the last 30 minutes and the last 6 hours agree on."""
        return min(self.burns.get("30m", 0.0), self.burns.get("6h", 0.0))


@procedure
def read_standings(verbs: Store, objectives: Sequence[Objective]) -> Verbs[tuple[Standing, ...]]:
    """Return how objectives stand, in their order. It reads an hour's page for each hour of the longest of them."""
    if not objectives:
        return ()
    looked = yield ask_time(verbs)
    longest = timedelta(days=max(each.over for each in objectives))
    only = _about(objectives)
    long = _Told((yield from read_figures(verbs, looked.now - longest, step=_HOUR, only=only).steps))
    short = _Told((yield from read_figures(verbs, looked.now - _BURNING, only=only).steps))
    return tuple(_standing(each, long, short) for each in objectives)


@procedure
def read_burns(verbs: Store, objectives: Sequence[Objective]) -> Verbs[Mapping[str, tuple[float, float]]]:
    """Return how fast the budgets burn, fast and slow, by the names of their objectives. It reads six hours."""
    if not objectives:
        return {}
    looked = yield ask_time(verbs)
    only = _about(objectives)
    short = _Told((yield from read_figures(verbs, looked.now - _BURNING, only=only).steps))
    found = (Standing(each, burns=_burns(each, short)) for each in objectives)
    return {each.objective.name: (each.fast, each.slow) for each in found}


def _about(objectives: Sequence[Objective]) -> Callable[[Row], bool]:
    """Return what tells whether a row is of a task or a queue that any of them is about."""
    tasks, queues = {each.task for each in objectives}, {each.queue for each in objectives}
    return lambda row: row.task in tasks or row.queue in queues


class _Told:
    """What a series tells of each task and each queue, found by their names: there may be many of both."""

    def __init__(self, series: Series) -> None:
        self._now, self._step = series.now, series.step
        self._rows: dict[_Whose, list[tuple[datetime, Figures]]] = {}
        for point in series.points:
            for row in point.rows:
                for whose in ((row.task, None), (None, row.queue)):
                    self._rows.setdefault(whose, []).append((point.at, row))

    def count(self, objective: Objective, span: timedelta) -> tuple[int, int]:
        """Return how many were good and bad in what overlaps with the last so long."""
        begin = self._now - span - self._step
        rows = self._rows.get((objective.task, objective.queue), ())
        counts = [_count(objective, row) for at, row in rows if at > begin]
        return sum(good for good, _ in counts), sum(bad for _, bad in counts)


def _count(objective: Objective, row: Figures) -> tuple[int, int]:
    """Return how many of a row were good and bad.

    Of a start that is to be in time every start counts. Rows tell lateness by buckets: those that lie within the
    bound as a whole are good, and the one that the bound lies in is not, unless the longest of its row is within.
    Of success the ends of jobs count: completed ones are good, dead ones bad; attempts that are tried again and
    what was cancelled are neither.
    """
    if objective.start_within is None:
        return row.completed, row.dead
    if timedelta() < row.longest_lag <= timedelta(seconds=objective.start_within):
        return sum(row.lag), 0
    within = objective.start_within * 1000
    in_time = sum(count for bucket, count in enumerate(row.lag[:-1]) if ends_at(bucket) <= within)
    return in_time, sum(row.lag) - in_time


def _standing(objective: Objective, long: _Told, short: _Told) -> Standing:
    good, bad = long.count(objective, timedelta(days=objective.over))
    return Standing(objective, good, bad, _burns(objective, short))


def _burns(objective: Objective, short: _Told) -> Mapping[str, float]:
    counts = {name: short.count(objective, span) for name, span in WINDOWS.items()}
    return {
        name: bad / (good + bad) / (1 - objective.target) if bad else 0.0 for name, (good, bad) in counts.items()
    }


def percent(share: float, digits: int = 3) -> str:
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


def budget(left: float) -> str:
    """Return what is left of a budget: `62 %`, or by how much it is overdrawn."""
    return percent(left, 1) if left >= 0 else f"overdrawn by {percent(-left, 1)}"


def burn(rate: float) -> str:
    """Return a burn rate: `14.4×`."""
    return f"{rate:.1f}×" if rate < 100 else f"{rate:,.0f}×"  # noqa: PLR2004
