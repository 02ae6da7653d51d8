"""The checks that go by figures: how attempts end, and how late they begin. Pure."""

from collections.abc import Iterator
from datetime import timedelta

from standfast.alerts.breach import Breach, is_about
from standfast.alerts.looks import Looks
from standfast.core.alert import AlertRule
from standfast.figures.series import Figures, Series, sum_of
from standfast.words import counted, one_line, span

P95 = 0.95


def failure_rate(rule: AlertRule, looks: Looks) -> Iterator[Breach]:
    """Yield the tasks, or queues, of which too many attempts fail."""
    for name, words, row in _groups(rule, looks, by_queue=False):
        failed = row.failed + row.dead
        attempts = row.completed + failed
        share = failed / attempts if attempts else 0.0
        if attempts >= rule.at_least and share > (rule.above or 0.0):
            says = f"{words}: {share:.0%} of {counted(attempts, 'attempt')} failed in the last {_back(rule)}"
            jobs = max(row.dead, 1)  # of those that are tried again nobody knows how many jobs they are of
            yield Breach(rule, name, says, share, jobs)


def dead_letters(rule: AlertRule, looks: Looks) -> Iterator[Breach]:
    """Yield the tasks, or queues, of which jobs die."""
    for name, words, row in _groups(rule, looks, by_queue=False):
        if row.dead > (rule.above or 0.0):
            says = f"{words}: {counted(row.dead, 'death')} of jobs in the last {_back(rule)}"
            yield Breach(rule, name, says, float(row.dead), row.dead)


def start_lag(rule: AlertRule, looks: Looks) -> Iterator[Breach]:
    """Yield the queues, or tasks, of which jobs start late."""
    for name, words, row in _groups(rule, looks, by_queue=True):
        lag = row.lag_percentile(P95)
        if lag is not None and sum(row.lag) >= rule.at_least and lag.total_seconds() > (rule.above or 0.0):
            says = f"{words}: 5 % of the jobs of the last {_back(rule)} started {span(lag)} late or more"
            yield Breach(rule, name, says, lag.total_seconds(), sum(row.lag))


def _back(rule: AlertRule) -> str:
    return span(timedelta(seconds=rule.over))


def _groups(rule: AlertRule, looks: Looks, *, by_queue: bool) -> Iterator[tuple[str, str, Figures]]:
    """Yield what a rule is about, by task or by queue: its name, how it is called, and its figures."""
    assert looks.figures is not None
    by_queue = rule.task is None and (by_queue or rule.queue is not None)
    groups: dict[str, list[Figures]] = {}
    for row in _lately(rule, looks.figures):
        if is_about(rule, row.queue, row.task):
            groups.setdefault(row.queue if by_queue else row.task, []).append(row)
    for name, some in groups.items():
        if name:  # else it is what there was no room for
            words = f"{'queue' if by_queue else 'task'} {one_line(name)}"
            yield name, words, sum_of(some)


def _lately(rule: AlertRule, figures: Series) -> Iterator[Figures]:
    """Yield the figures of the minutes that a rule looks back."""
    since = figures.now - timedelta(seconds=rule.over) - figures.step
    return (row for point in figures.points if point.at > since for row in point.rows)
