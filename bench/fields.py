"""Who competes on which store, in what, and what is aimed at."""

from dataclasses import dataclass

ONE_BY_ONE, BULK, DRAIN, DRAIN_TWO = "enqueue one by one", "enqueue in bulk", "drain, 1 worker", "drain, 2 workers"
THREADS, ORDERED = "drain, plain functions", "drain, ordered ids"
PUT_ASIDE = "drain what was put aside"
PICKUP, DELAYED = "pickup latency", "lateness of delayed jobs"

OURS, FLOOR = "standfast", "floor"
PURE_PYTHON = ("huey", "dramatiq", "taskiq", "saq", "pgqueuer", "procrastinate")

FUNCTIONS = {
    ONE_BY_ONE: "one_by_one",
    BULK: "in_bulk",
    DRAIN: "drain",
    DRAIN_TWO: "drain_two",
    THREADS: "drain_threads",
    ORDERED: "drain_ordered",
    PUT_ASIDE: "drain_put_aside",
    PICKUP: "pickup",
    DELAYED: "delayed",
}
RATES = (ONE_BY_ONE, BULK, DRAIN, DRAIN_TWO, THREADS, ORDERED, PUT_ASIDE)
ALL = (ONE_BY_ONE, BULK, DRAIN, DRAIN_TWO, PICKUP, DELAYED)
WITHOUT_BULK = (ONE_BY_ONE, DRAIN, DRAIN_TWO, PICKUP, DELAYED)

FEWER_ONE_BY_ONE = 1 / 20
"""Which part of the jobs are enqueued one by one: that takes its time."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One who competes. `share` is which part of the jobs it is given to drain: the slow ones take their time."""

    name: str
    module: str
    disciplines: tuple[str, ...]
    share: float = 1.0

    @property
    def is_peer(self) -> bool:
        """Whether it is neither ours nor the floor."""
        return self.name not in {OURS, FLOOR}

    def jobs(self, discipline: str, jobs: int) -> int:
        """Return how many jobs it is given."""
        part = FEWER_ONE_BY_ONE if discipline == ONE_BY_ONE else self.share
        return max(20, int(jobs * part))


@dataclass(frozen=True, slots=True)
class Aim:
    """Our rate divided by that of others, the best of them, should be so much; a latency should be below theirs."""

    discipline: str
    beside: tuple[str, ...]
    ratio: float


@dataclass(frozen=True, slots=True)
class Field:
    """All who compete on one store, and the aims."""

    store: str
    contenders: tuple[Contender, ...]
    aims: tuple[Aim, ...]


SQLITE = Field(
    "sqlite",
    (
        Contender(FLOOR, "floor_sqlite", (ONE_BY_ONE, BULK, DRAIN, ORDERED)),
        Contender(OURS, "ours", (*ALL, THREADS, PUT_ASIDE)),
        Contender("huey", "peer_huey", WITHOUT_BULK, 1 / 10),
    ),
    (
        Aim(ONE_BY_ONE, (FLOOR,), 0.8),
        Aim(BULK, (FLOOR,), 0.6),
        Aim(DRAIN, (FLOOR,), 0.5),
        Aim(DRAIN, ("huey",), 6.0),
        Aim(PICKUP, ("huey",), 1.0),
    ),
)

POSTGRES = Field(
    "postgres",
    (
        Contender(FLOOR, "floor_postgres", (ONE_BY_ONE, BULK, DRAIN)),
        Contender(OURS, "ours", (*ALL, THREADS, PUT_ASIDE)),
        Contender("pgqueuer", "peer_pgqueuer", ALL, 1 / 2),
        Contender("procrastinate", "peer_procrastinate", ALL, 1 / 30),
        Contender("huey", "peer_huey", WITHOUT_BULK, 1 / 30),
    ),
    (
        Aim(ONE_BY_ONE, (FLOOR,), 0.9),
        Aim(ONE_BY_ONE, PURE_PYTHON, 1.0),
        Aim(BULK, (FLOOR,), 0.6),
        Aim(BULK, PURE_PYTHON, 1.0),
        Aim(DRAIN, (FLOOR,), 0.6),
        Aim(DRAIN, PURE_PYTHON, 1.5),
        Aim(PICKUP, PURE_PYTHON, 1.0),
        Aim(DELAYED, PURE_PYTHON, 1.0),
    ),
)

REDIS = Field(
    "redis",
    (
        Contender(FLOOR, "floor_redis", (ONE_BY_ONE, BULK, DRAIN)),
        Contender(OURS, "ours", (*ALL, THREADS, PUT_ASIDE)),
        Contender("huey", "peer_huey", WITHOUT_BULK, 1 / 10),
        Contender("dramatiq", "peer_dramatiq", WITHOUT_BULK, 1 / 10),
        Contender("taskiq", "peer_taskiq", (ONE_BY_ONE, DRAIN, DRAIN_TWO, PICKUP), 1 / 10),
        Contender("saq", "peer_saq", WITHOUT_BULK, 1 / 20),
        Contender("chasquimq", "peer_chasquimq", ALL),
    ),
    (
        Aim(ONE_BY_ONE, (FLOOR,), 0.6),
        Aim(ONE_BY_ONE, (*PURE_PYTHON, "chasquimq"), 1.0),
        Aim(BULK, (FLOOR,), 0.6),
        Aim(BULK, ("chasquimq",), 1.0),
        Aim(DRAIN, (FLOOR,), 0.6),
        Aim(DRAIN, PURE_PYTHON, 6.0),
        Aim(DRAIN, ("chasquimq",), 1.0),
        Aim(PICKUP, (*PURE_PYTHON, "chasquimq"), 1.0),
        Aim(DELAYED, (*PURE_PYTHON, "chasquimq"), 1.0),
    ),
)

FIELDS = {field.store: field for field in (SQLITE, POSTGRES, REDIS)}
