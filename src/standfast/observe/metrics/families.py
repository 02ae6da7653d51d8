"""All metrics: their names, kinds, labels and meanings. `docs/howto/metrics.md` has the same as a table."""

import math
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from itertools import accumulate

import msgspec


class Type(StrEnum):
    """What a family is, as Prometheus has it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Family(msgspec.Struct, frozen=True):
    """A metric: all samples of one name. `fleet`: it is about the whole store, the same whoever is asked."""

    name: str
    type: Type
    help: str
    labels: tuple[str, ...] = ()
    fleet: bool = False


class Sample(msgspec.Struct, frozen=True):
    """One number. `labels` are the values of those that its family has, and `more` is what a histogram adds.

    `suffix` is what a histogram puts behind the name: `_bucket`, `_sum` or `_count`.
    """

    family: str
    labels: tuple[str, ...]
    value: float
    suffix: str = ""
    more: tuple[tuple[str, str], ...] = ()


FAMILIES: dict[str, Family] = {}
"""All of them by name, in the order in which they are told."""


def _family(kind: Type, name: str, words: str, *labels: str, fleet: bool = False) -> Family:
    FAMILIES[name] = Family(name, kind, words, labels, fleet)
    return FAMILIES[name]


_counter, _histogram = partial(_family, Type.COUNTER), partial(_family, Type.HISTOGRAM)
_gauge = partial(_family, Type.GAUGE, fleet=True)

_JOB = ("queue", "task")

ATTEMPTS = _counter(
    "standfast_attempts_total", "Attempts that ended, by how; a retry is one that is tried again.", *_JOB, "outcome"
)
RUN_SECONDS = _histogram("standfast_job_run_seconds", "For how long handlers ran, in each attempt.", *_JOB)
LAG_SECONDS = _histogram("standfast_job_start_lag_seconds", "How long after their time attempts began.", *_JOB)
ENQUEUED = _counter(
    "standfast_jobs_enqueued_total",
    "Jobs that workers and schedules have enqueued; those of other processes are not known here.",
    *_JOB,
)
CLAIMS_LOST = _counter(
    "standfast_claims_lost_total",
    "Attempts whose outcome was refused, as their lease was over or the store could not take it.",
    *_JOB,
)
CALL_SECONDS = _histogram(
    "standfast_store_call_seconds", "For how long calls of the store took, failed ones included.", "verb"
)
CALLS_FAILED = _counter("standfast_store_errors_total", "Calls of the store that failed.", "verb")
STALE_WRITES = _counter(
    "standfast_stale_writes_total", "Writes that the store refused, as their claim was not valid any more.", "verb"
)
WORKER_EVENTS = _counter(
    "standfast_worker_events_total",
    "What became of workers: ready, recycled, stopped, crashed, hung, drained, or lost their lease.",
    "event",
)
LOOP_BLOCKED = _counter("standfast_loop_blocked_total", "How often code blocked an event loop.")
LOOP_BLOCKED_SECONDS = _counter("standfast_loop_blocked_seconds_total", "For how long code blocked an event loop.")
OUTAGES = _counter("standfast_store_outages_total", "How often the store went away, as each process has seen it.")
BUILD = _gauge("standfast_build_info", "The release that is running; always 1.", "version", fleet=False)

STORE_UP = _gauge("standfast_store_up", "Whether the store answers: 1 or 0.")
LOOK_SECONDS = _gauge("standfast_store_look_seconds", "For how long the store took to tell all that follows.")
JOBS = _gauge("standfast_jobs", "Jobs in the store.", "queue", "state")
OLDEST_DUE = _gauge(
    "standfast_queue_oldest_due_seconds",
    "For how long the oldest due job of a queue has waited, unclaimed; also for a worker that knows its task.",
    "queue",
)
PAUSED = _gauge("standfast_queue_paused", "1 for each queue that is paused.", "queue")
WORKERS = _gauge("standfast_workers", "Registered workers, live ones and those whose lease is over.", "state")
WORKER_LAG = _gauge(
    "standfast_worker_loop_lag_seconds", "By how much the event loop of a worker was late.", "worker"
)
WORKER_MEMORY = _gauge("standfast_worker_memory_bytes", "Resident memory of a worker's process.", "worker")
WORKER_RUNNING = _gauge("standfast_worker_running", "Jobs that a worker runs.", "worker")
WORKER_SLOTS = _gauge("standfast_worker_slots", "Jobs that a worker may run at a time.", "worker")
WORKER_BEAT = _gauge("standfast_worker_beat_age_seconds", "Time since the last beat of a worker.", "worker")
SCHEDULES_OVERDUE = _gauge(
    "standfast_schedules_overdue", "Schedules that should have fired ten seconds ago, or before; 100 at most."
)
GOAL_TARGET = _gauge("standfast_objective_target", "The share that is to be good, of each objective.", "objective")
GOAL_GOOD = _gauge("standfast_objective_good", "Jobs within the days of an objective that kept it.", "objective")
GOAL_BAD = _gauge("standfast_objective_bad", "Jobs within the days of an objective that missed it.", "objective")
GOAL_BUDGET = _gauge(
    "standfast_objective_budget_left",
    "What is left of the budget for errors: 1 all of it, 0 nothing, less where it is overdrawn.",
    "objective",
)
GOAL_BURN = _gauge(
    "standfast_objective_burn_rate",
    "How many times too fast the budget for errors was spent in the last 5m, 30m, 1h and 6h.",
    "objective",
    "window",
)


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_IN_LABEL = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_IN_HELP = str.maketrans({"\\": "\\\\", "\n": "\\n"})


def histogram(
    family: Family, labels: tuple[str, ...], ends: Sequence[float], counts: Sequence[int], total: float
) -> Iterator[Sample]:
    """Yield the samples of a histogram: `counts` are of single buckets, the last of which has no end."""
    sums = list(accumulate(counts))
    for end, number in zip((*ends, math.inf), sums, strict=True):
        yield Sample(family.name, labels, number, "_bucket", (("le", _number(end)),))
    yield Sample(family.name, labels, total, "_sum")
    yield Sample(family.name, labels, sums[-1], "_count")


def written(samples: Iterable[Sample]) -> str:
    """Return samples as text, each family once, in the order in which they are declared."""
    by_family: dict[str, list[Sample]] = {name: [] for name in FAMILIES}
    for sample in samples:
        by_family[sample.family].append(sample)
    lines: list[str] = []
    for name, own in by_family.items():
        if own:
            family = FAMILIES[name]
            lines += (f"# HELP {name} {family.help.translate(_IN_HELP)}", f"# TYPE {name} {family.type}")
            lines += (_line(family, sample) for sample in own)
    return "".join(f"{line}\n" for line in lines)


def _line(family: Family, sample: Sample) -> str:
    pairs = (*zip(family.labels, sample.labels, strict=True), *sample.more)
    labels = ",".join(f'{name}="{value.translate(_IN_LABEL)}"' for name, value in pairs)
    return f"{sample.family}{sample.suffix}{f'{{{labels}}}' if labels else ''} {_number(sample.value)}"


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
