"""The jobs that people in a world want done."""

from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

import msgspec

from standfast.model.job import NewJob

KINDS = {
    "ok": 50, "flaky": 10, "fail": 3, "snooze": 5, "crash_once": 4, "poison": 2, "once": 8, "unknown": 2,
    "loop": 7, "count": 2, "order": 5,
}  # fmt: skip

LONG_KINDS = {"ok": 6, "flaky": 2, "snooze": 1, "crash_once": 2}
"""What happens in the midst of a long job."""

SIGNAL = "approved"


@dataclass(frozen=True, slots=True)
class Wish:
    """A job and what it is to do."""

    kind: str
    job: NewJob
    arguments: dict[str, Any]

    @property
    def signals(self) -> int:
        """How many signals it waits for."""
        return int(self.arguments.get("signals", 0))


def draw_wish(random: Random, job_id: str, kind: str, queue: str | None = None) -> Wish:
    """Return a job of a kind."""
    task, arguments = _work(random, kind)
    return make_wish(
        kind,
        job_id,
        task,
        arguments,
        priority=random.randint(0, 3),
        queue=queue or random.choice(("default", "mail")),
        delay=timedelta(seconds=random.choice((0, 0, 1, 6, 15))),
        max_attempts=1 if kind == "once" else 3 if kind == "fail" else 20,
    )


def make_wish(kind: str, job_id: str, task: str, arguments: dict[str, Any], **options: Any) -> Wish:
    """Return a job of a task."""
    payload = msgspec.json.encode({"v": 1, "args": arguments})
    return Wish(kind, NewJob(job_id, task, payload, **options), arguments)


def _work(random: Random, kind: str) -> tuple[str, dict[str, Any]]:
    midst = random.choices(list(LONG_KINDS), list(LONG_KINDS.values()))[0]
    match kind:
        case "loop":
            every = random.choice((1, 2, 5, 10))
            return kind, {"kind": midst, **_items(random), "every": every}
        case "count":
            return kind, {"kind": midst, **_items(random)}
        case "order":
            timeout = random.choice((None, None, 2.0, 10.0))
            signals, seconds = random.choice((1, 2)), random.choice((0.0, 0.1, 1.0))
            return kind, {"kind": midst, "signals": signals, "timeout": timeout, "seconds": seconds}
        case _:
            seconds = random.choice((0.0, 0.01, 0.1, 0.5, 2.0, random.uniform(0, 8)))
            return "unheard_of" if kind == "unknown" else "work", {"kind": kind, "seconds": seconds}


def _items(random: Random) -> dict[str, Any]:
    seconds = random.choice((0.02, 0.2, 0.6))
    return {"items": random.randint(3, 15), "seconds": seconds}
