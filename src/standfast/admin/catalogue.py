"""What an app publishes of itself: its tasks, queues, gates and settings. Pure."""

import inspect
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import takewhile
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from standfast.app import Standfast
from standfast.errors import ConfigurationError
from standfast.model.backoff import Backoff, Constant, Exponential, Linear
from standfast.model.codec import ENCODER, UNENCODABLE
from standfast.model.display import one_line, span, standfast_version
from standfast.model.phrases import Phrase
from standfast.model.redaction import is_secret_name, looks_random, redact_text
from standfast.observe.catalogue import Bound, Catalogue, GateEntry, Parameter, QueueEntry, SettingEntry, TaskEntry
from standfast.schedules.closed_hours import About
from standfast.schedules.declarations import release_of
from standfast.schedules.description import describe_window
from standfast.schedules.limits import Limit
from standfast.settings import Loaded
from standfast.stores.url import public_name
from standfast.task import Task

_WORDS = {Any: "any", inspect.Parameter.empty: "any", None: "None", NoneType: "None", ...: "..."}


def type_words(annotation: Any) -> str:
    """Return an annotation as people write it: `list[str] | None`."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_words(inside[0])
    if origin in (Union, UnionType):
        return " | ".join(map(type_words, inside))
    if origin is Literal:
        return " | ".join(map(repr, inside))
    if origin is not None and inside:
        return f"{_name(origin)}[{', '.join(map(type_words, inside))}]"
    return _name(annotation)


def _name(annotation: Any) -> str:
    try:
        if annotation in _WORDS:
            return _WORDS[annotation]
    except TypeError:  # it cannot be looked up
        return str(annotation)
    name = getattr(annotation, "__name__", None)
    return name if isinstance(name, str) else str(annotation).removeprefix("typing.")


LONGEST_DOC = 200
LONGEST_DEFAULT = 1000
_FIRST_WAITS = (1, 2, 3)
_CENTURY = 36_500 * 86_400.0


def catalogue_of(app: Standfast, loaded: Loaded, target: str, host: str, now: datetime) -> Catalogue:
    """Return what an app says of itself, with the settings of the worker that publishes it. Nothing in it is secret.

    An app that was given no name has that of its `target`.
    """
    settings = loaded.settings
    return Catalogue(
        app=settings.name or target,
        release=settings.release or release_of(app.declarations, app.windows),
        published_at=now,
        host=host,
        standfast=standfast_version(),
        tasks=tuple(_task(app, app.tasks[name]) for name in sorted(app.tasks)),
        queues=tuple(_queues(app)),
        gates=tuple(GateEntry(name, _bound(limit)) for name, limit in sorted(app.limits.gates.items())),
        settings=tuple(_settings(loaded)),
        objectives=app.watching.objectives,
    )


def backoff_words(backoff: Backoff) -> str:
    """Return how long the waits between attempts are, apart from what chance adds."""
    match backoff:
        case Constant(base=base):
            return str(Phrase("backoff.same", wait=_seconds(base)))
        case Linear(base=base, max_delay=longest):
            return _growing((base * attempt for attempt in _FIRST_WAITS), longest)
        case Exponential(base=base, factor=factor, max_delay=longest):
            return _growing((base * factor**attempt for attempt in _FIRST_WAITS), longest)
    return str(Phrase("backoff.own", name=type(backoff).__name__))


def _growing(waits: Iterable[float], longest: float) -> str:
    shown = []
    with suppress(OverflowError):  # a wait beyond all numbers is longer than the longest
        shown += [_seconds(wait) for wait in takewhile(lambda wait: wait < longest, waits)]
    if not shown:
        return str(Phrase("backoff.same", wait=_seconds(longest)))
    told = ", ".join(shown)
    if math.isinf(longest):
        return str(Phrase("backoff.growing", waits=told))
    return str(Phrase("backoff.growing_to", waits=told, longest=_seconds(longest)))


def _seconds(number: float) -> str:
    return span(timedelta(seconds=min(number, _CENTURY)))


def _task(app: Standfast, task: Task[..., Any]) -> TaskEntry:
    policy, limits = task.policy, app.limits
    limit = limits.tasks.get(task.name)
    return TaskEntry(
        name=task.name,
        version=policy.version,
        queue=policy.queue,
        priority=policy.priority,
        max_attempts=policy.max_attempts,
        timeout=policy.timeout,
        backoff=backoff_words(policy.backoff),
        retry_on=None if policy.retry_on is None else _names(policy.retry_on),
        discard_on=_names(policy.discard_on),
        start_within=_in_seconds(policy.start_within),
        on_late=policy.on_late.value,
        keep_result=_in_seconds(policy.keep_result),
        isolation=policy.isolation.value,
        memory=policy.memory,
        tags=policy.tags,
        doc=one_line(next(iter(inspect.cleandoc(task.fn.__doc__ or "").splitlines()), ""), LONGEST_DOC),
        parameters=tuple(_parameters(task)),
        schedules=tuple(sorted(each.name for each in app.declarations if each.job.task == task.name)),
        limit=None if limit is None else _bound(limit),
        gates=limits.gates_of.get(task.name, ()),
        windows=_windows(app).get((About.TASK, task.name), ()),
    )


def _parameters(task: Task[..., Any]) -> Iterator[Parameter]:
    known = task.arguments
    try:
        context, secrets = known.context_parameter, known.secrets
    except ConfigurationError:  # an annotation means nothing: nobody can enqueue it either
        return
    hints = get_type_hints(task.fn, include_extras=True)
    for name, each in inspect.signature(task.fn).parameters.items():
        if name == context:
            continue
        required, secret = each.default is each.empty, name in secrets
        default = None if required or secret else _as_json(name, each.default)
        yield Parameter(name, type_words(hints.get(name, each.empty)), required, default, secret)


def _as_json(name: str, value: Any) -> str | None:
    """Return a default as JSON. One that looks like a secret, though nobody says that it is one, is left out."""
    try:
        text = ENCODER.encode(value).decode()
    except UNENCODABLE:
        return None
    looks_secret = is_secret_name(name) or redact_text(text) != text or looks_random(text.strip('"'))
    hidden = looks_secret and value is not None and value != ""
    return None if hidden or len(text) > LONGEST_DEFAULT else text


def _queues(app: Standfast) -> Iterator[QueueEntry]:
    limits, windows = app.limits.queues, _windows(app)
    names = {task.policy.queue for task in app.tasks.values()} | limits.keys()
    names |= {name for about, name in windows if about is About.QUEUE}
    for name in sorted(names):
        limit = limits.get(name)
        yield QueueEntry(name, None if limit is None else _bound(limit), windows.get((About.QUEUE, name), ()))


def _windows(app: Standfast) -> Mapping[tuple[About, str], tuple[str, ...]]:
    return {
        (hours.about, hours.name): tuple(str(describe_window(each)) for each in hours.windows)
        for hours in app.windows
    }


def _bound(limit: Limit) -> Bound:
    peaks = (Phrase("limit.peak", most=number, window=describe_window(window)) for window, number in limit.peaks)
    return Bound(limit.most, tuple(map(str, peaks)))


def _settings(loaded: Loaded) -> Iterator[SettingEntry]:
    """Yield the settings without what a URL may hide."""
    for name, value in msgspec.structs.asdict(loaded.settings).items():
        shown = public_name(value) if name == "url" else redact_text(value) if isinstance(value, str) else value
        yield SettingEntry(name, shown, loaded.where[name])


def _names(types: Iterable[type[BaseException]]) -> tuple[str, ...]:
    return tuple(each.__name__ for each in types)


def _in_seconds(length: timedelta | None) -> float | None:
    return None if length is None else length.total_seconds()
