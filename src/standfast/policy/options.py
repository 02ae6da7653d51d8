"""The options of one enqueue."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from standfast.core.job import OnConflict, OnLate
from standfast.policy.policy import DEFAULT
from standfast.policy.problems import (
    id_problems,
    key_problems,
    late_problems,
    metadata_problems,
    patience_problems,
    refuse_any,
    routing_problems,
    tag_problems,
    time_problems,
)
from standfast.policy.reading import OnConflictWord, OnLateWord, Seconds, as_seconds, as_span, as_tags


@dataclass(frozen=True, slots=True)
class Options:
    """How one job differs from the policy of its task; None means as the policy says. `tx` is the caller's own."""

    delay: timedelta = timedelta()
    run_at: datetime | None = None
    priority: int | None = None
    queue: str | None = None
    max_attempts: int | None = None
    job_id: str | None = None
    key: str | None = None
    on_conflict: OnConflict = OnConflict.RETURN
    keep_key: timedelta = timedelta()
    start_within: timedelta | None = None
    on_late: OnLate | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    retry_for: float | None = None
    tx: Any = None


def declare_options(
    *,
    delay: Seconds | None = None,
    at: datetime | None = None,
    priority: int | None = None,
    queue: str | None = None,
    max_attempts: int | None = None,
    job_id: str | None = None,
    key: str | None = None,
    on_conflict: OnConflictWord = "return",
    keep_key: Seconds | None = None,
    start_within: Seconds | None = None,
    on_late: OnLateWord | None = None,
    tags: Iterable[str] = (),
    metadata: Mapping[str, str] | None = None,
    retry_for: Seconds | None = None,
    tx: Any = None,
) -> Options:
    """Return checked options. Raises ConfigurationError that names everything wrong with them."""
    problems = [
        *time_problems(delay, at),
        *routing_problems(
            DEFAULT.queue if queue is None else queue,
            DEFAULT.priority if priority is None else priority,
            DEFAULT.max_attempts if max_attempts is None else max_attempts,
        ),
        *id_problems(job_id),
        *key_problems(key, on_conflict, keep_key),
        *late_problems(as_span(start_within), "run" if on_late is None else on_late),
        *tag_problems(as_tags(tags)),
        *metadata_problems(metadata),
        *patience_problems(retry_for, tx),
    ]
    refuse_any(problems)
    seconds = as_seconds(delay) or 0.0
    return Options(
        delay=timedelta(seconds=seconds),
        run_at=None if at is None else at.astimezone(UTC),
        priority=priority,
        queue=queue,
        max_attempts=max_attempts,
        job_id=job_id,
        key=key,
        on_conflict=OnConflict(on_conflict),
        keep_key=as_span(keep_key) or timedelta(),
        start_within=as_span(start_within),
        on_late=None if on_late is None else OnLate(on_late),
        tags=as_tags(tags),
        metadata=dict(metadata or {}),
        retry_for=as_seconds(retry_for),
        tx=tx,
    )
