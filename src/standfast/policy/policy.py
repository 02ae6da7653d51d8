"""The policy of a task."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from standfast.core.backoff import Backoff, Exponential
from standfast.core.job import OnLate
from standfast.policy.isolation import Isolation, isolation_problems
from standfast.policy.problems import (
    MAX_DELAY,
    late_problems,
    refuse_any,
    routing_problems,
    span_problems,
    tag_problems,
)
from standfast.policy.reading import (
    ExceptionTypes,
    IsolationWord,
    OnLateWord,
    Seconds,
    as_backoff,
    as_bytes,
    as_seconds,
    as_span,
    as_tags,
    as_types,
    as_word,
    is_finite,
    is_int,
)


@dataclass(frozen=True, slots=True)
class Policy:
    """How the jobs of a task are run.

    `timeout` is in seconds. `discard_on` wins over `retry_on`; with `retry_on` None every other exception is
    retried, else those outside it are not and the job is dead at once. `version` is that of the payload: raise it
    when the parameters change so that older workers leave newer jobs alone. `start_within`: the first start should
    come so soon after a job's time, else `on_late` decides. `keep_result`: for how long a result is kept.
    `isolation`: whether handlers run in a process of their own, where `memory` is how many bytes one may take.
    """

    queue: str = "default"
    priority: int = 0
    max_attempts: int = 5
    backoff: Backoff = field(default_factory=Exponential)
    timeout: float | None = None
    retry_on: tuple[type[BaseException], ...] | None = None
    discard_on: tuple[type[BaseException], ...] = ()
    version: int = 1
    start_within: timedelta | None = None
    on_late: OnLate = OnLate.RUN
    tags: tuple[str, ...] = ()
    keep_result: timedelta | None = None
    isolation: Isolation = Isolation.NONE
    memory: int | None = None

    def __post_init__(self) -> None:
        refuse_any(self._problems())

    def _problems(self) -> Iterator[str]:
        yield from routing_problems(self.queue, self.priority, self.max_attempts)
        if isinstance(self.backoff, type) or not callable(getattr(self.backoff, "delay", None)):
            yield f"backoff must be a number of seconds or such as Exponential(base=1), not {self.backoff!r}"
        if self.timeout is not None and not (is_finite(self.timeout) and self.timeout > 0):
            yield f"timeout must be a number of seconds above 0, or None for no limit, not {self.timeout!r}"
        elif self.timeout is not None and self.timeout > MAX_DELAY.total_seconds():
            yield f"timeout must be at most a hundred years, or None for no limit, not {self.timeout!r}"
        for name, types in (("retry_on", self.retry_on or ()), ("discard_on", self.discard_on)):
            if not all(isinstance(each, type) and issubclass(each, BaseException) for each in types):
                yield f"{name} must be an exception type or a tuple of them, not {types!r}"
        if self.retry_on == ():
            yield "retry_on names no exception type; leave it out to retry all, or give max_attempts=1 for none"
        if not is_int(self.version) or self.version < 1:
            yield f"version must be an integer, 1 or more, not {self.version!r}"
        yield from late_problems(self.start_within, self.on_late)
        yield from tag_problems(self.tags)
        yield from span_problems("keep_result", self.keep_result)
        yield from isolation_problems(self.isolation, self.memory)


DEFAULT = Policy()
"""How the jobs of a task are run about which nothing was declared."""


def declare_policy(
    *,
    queue: str = "default",
    priority: int = 0,
    max_attempts: int = 5,
    backoff: Backoff | Seconds | None = None,
    timeout: Seconds | None = None,
    retry_on: ExceptionTypes | None = None,
    discard_on: ExceptionTypes = (),
    version: int = 1,
    start_within: Seconds | None = None,
    on_late: OnLateWord = "run",
    tags: Iterable[str] = (),
    keep_result: Seconds | None = None,
    isolation: IsolationWord = "none",
    memory: int | str | None = None,
) -> Policy:
    """Return the policy that a declaration means.

    A number as `backoff` is a constant wait of so many seconds; `memory` is a number of bytes, or such as "512MB".
    """
    return Policy(
        queue=queue,
        priority=priority,
        max_attempts=max_attempts,
        backoff=as_backoff(backoff),
        timeout=as_seconds(timeout),
        retry_on=None if retry_on is None else as_types(retry_on),
        discard_on=as_types(discard_on),
        version=version,
        start_within=as_span(start_within),
        on_late=as_word(OnLate, on_late),
        tags=as_tags(tags),
        keep_result=as_span(keep_result),
        isolation=as_word(Isolation, isolation),
        memory=as_bytes(memory),
    )
