"""All metrics: their names, kinds, labels and meanings. `docs/howto/metrics.md` has the same as a table."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
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


_JOB = ("queue", "task")

ATTEMPTS = Family(
    "standfast_attempts_total",
    Type.COUNTER,
    "Attempts that ended, by how; a retry is one that is tried again.",
    (*_JOB, "outcome"),
)
RUN_SECONDS = Family(
    "standfast_job_run_seconds", Type.HISTOGRAM, "For how long handlers ran, in each attempt.", _JOB
)
LAG_SECONDS = Family(
    "standfast_job_start_lag_seconds", Type.HISTOGRAM, "How long after their time attempts began.", _JOB
)
ENQUEUED = Family(
    "standfast_jobs_enqueued_total",
    Type.COUNTER,
    "Jobs that workers and schedules have enqueued; those of other processes are not known here.",
    _JOB,
)
CLAIMS_LOST = Family(
    "standfast_claims_lost_total",
    Type.COUNTER,
    "Attempts whose outcome was refused, as their lease was over or the store could not take it.",
    _JOB,
)
CALL_SECONDS = Family(
    "standfast_store_call_seconds",
    Type.HISTOGRAM,
    "For how long calls of the store took, failed ones included.",
    ("verb",),
)
CALLS_FAILED = Family("standfast_store_errors_total", Type.COUNTER, "Calls of the store that failed.", ("verb",))
STALE_WRITES = Family(
    "standfast_stale_writes_total",
    Type.COUNTER,
    "Writes that the store refused, as their claim was not valid any more.",
    ("verb",),
)
WORKER_EVENTS = Family(
    "standfast_worker_events_total",
    Type.COUNTER,
    "What became of workers: ready, recycled, stopped, crashed, hung, drained, or lost their lease.",
    ("event",),
)
LOOP_BLOCKED = Family("standfast_loop_blocked_total", Type.COUNTER, "How often code blocked an event loop.")
LOOP_BLOCKED_SECONDS = Family(
    "standfast_loop_blocked_seconds_total", Type.COUNTER, "For how long code blocked an event loop."
)
OUTAGES = Family(
    "standfast_store_outages_total", Type.COUNTER, "How often the store went away, as each process has seen it."
)
BUILD = Family("standfast_build_info", Type.GAUGE, "The release that is running; always 1.", ("version",))

STORE_UP = Family("standfast_store_up", Type.GAUGE, "Whether the store answers: 1 or 0.", fleet=True)
LOOK_SECONDS = Family(
    "standfast_store_look_seconds", Type.GAUGE, "For how long the store took to tell all that follows.", fleet=True
)
JOBS = Family("standfast_jobs", Type.GAUGE, "Jobs in the store.", ("queue", "state"), fleet=True)
OLDEST_DUE = Family(
    "standfast_queue_oldest_due_seconds",
    Type.GAUGE,
    "For how long the oldest due job of a queue has waited, unclaimed; also for a worker that knows its task.",
    ("queue",),
    fleet=True,
)
PAUSED = Family("standfast_queue_paused", Type.GAUGE, "1 for each queue that is paused.", ("queue",), fleet=True)
WORKERS = Family(
    "standfast_workers",
    Type.GAUGE,
    "Registered workers, live ones and those whose lease is over.",
    ("state",),
    fleet=True,
)
WORKER_LAG = Family(
    "standfast_worker_loop_lag_seconds",
    Type.GAUGE,
    "By how much the event loop of a worker was late.",
    ("worker",),
    fleet=True,
)
WORKER_MEMORY = Family(
    "standfast_worker_memory_bytes", Type.GAUGE, "Resident memory of a worker's process.", ("worker",), fleet=True
)
WORKER_RUNNING = Family("standfast_worker_running", Type.GAUGE, "Jobs that a worker runs.", ("worker",), fleet=True)
WORKER_SLOTS = Family(
    "standfast_worker_slots", Type.GAUGE, "Jobs that a worker may run at a time.", ("worker",), fleet=True
)
WORKER_BEAT = Family(
    "standfast_worker_beat_age_seconds",
    Type.GAUGE,
    "Time since the last beat of a worker.",
    ("worker",),
    fleet=True,
)
SCHEDULES_OVERDUE = Family(
    "standfast_schedules_overdue",
    Type.GAUGE,
    "Schedules that should have fired ten seconds ago, or before; 100 at most.",
    fleet=True,
)

_GOAL = ("objective",)

GOAL_TARGET = Family(
    "standfast_objective_target", Type.GAUGE, "The share that is to be good, of each objective.", _GOAL, fleet=True
)
GOAL_GOOD = Family(
    "standfast_objective_good", Type.GAUGE, "Jobs within the days of an objective that kept it.", _GOAL, fleet=True
)
GOAL_BAD = Family(
    "standfast_objective_bad", Type.GAUGE, "Jobs within the days of an objective that missed it.", _GOAL, fleet=True
)
GOAL_BUDGET = Family(
    "standfast_objective_budget_left",
    Type.GAUGE,
    "What is left of the budget for errors: 1 all of it, 0 nothing, less where it is overdrawn.",
    _GOAL,
    fleet=True,
)
GOAL_BURN = Family(
    "standfast_objective_burn_rate",
    Type.GAUGE,
    "How many times too fast the budget for errors was spent in the last 5m, 30m, 1h and 6h.",
    (*_GOAL, "window"),
    fleet=True,
)

FAMILIES: Mapping[str, Family] = {
    each.name: each
    for each in (
        *(ATTEMPTS, RUN_SECONDS, LAG_SECONDS, ENQUEUED, CLAIMS_LOST, CALL_SECONDS, CALLS_FAILED, STALE_WRITES),
        *(WORKER_EVENTS, LOOP_BLOCKED, LOOP_BLOCKED_SECONDS, OUTAGES, BUILD),
        *(STORE_UP, LOOK_SECONDS, JOBS, OLDEST_DUE, PAUSED, WORKERS),
        *(WORKER_LAG, WORKER_MEMORY, WORKER_RUNNING, WORKER_SLOTS, WORKER_BEAT, SCHEDULES_OVERDUE),
        *(GOAL_TARGET, GOAL_GOOD, GOAL_BAD, GOAL_BUDGET, GOAL_BURN),
    )
}
"""All of them by name, in the order in which they are told."""


# Samples as the text that Prometheus reads (format 0.0.4). Pure.

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
