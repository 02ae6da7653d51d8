"""All that a store knows of one job: arguments, history, situation, what it wrote down, what went wrong near it.

Arguments are shown, and changed, without the code of the app. A payload is the envelope that the codec writes: what is
secret in it is never shown, and stays with the rest when something else is changed.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import msgspec

from standfast.durable.memo_view import MemoView, memo_view
from standfast.errors import ArgumentsError, JobNotFoundError
from standfast.model.display import short_id
from standfast.model.incidents import Incident
from standfast.model.job import Attempt, Job
from standfast.model.memos import is_suspended, signal_name
from standfast.model.phrases import Phrase
from standfast.model.records import Kind
from standfast.model.redaction import is_secret_name
from standfast.model.secrets import MASK
from standfast.model.states import State
from standfast.observe.catalogue import CatalogueView, read_catalogue
from standfast.observe.incidents import named_in, read_incidents
from standfast.observe.obstacles import Explanation, Windows
from standfast.observe.why import explain
from standfast.schedules.closed_hours import read_windows
from standfast.stores.contract import Store
from standfast.stores.values import Situation
from standfast.stores.verb import Verbs, procedure

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are no JSON, or not what was expected."""

MASKED = msgspec.Raw(msgspec.json.encode(MASK))  # what stands for a secret
Encoded = Mapping[str, msgspec.Raw]


class Envelope(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Arguments by name, the secret ones apart, and what it carries for tracing."""

    v: int = 0
    args: dict[str, msgspec.Raw]
    secret: dict[str, msgspec.Raw] = {}
    trace: dict[str, str] = {}


def read_envelope(payload: bytes) -> Envelope:
    """Return what a payload holds. Raises one of UNREADABLE."""
    return msgspec.json.decode(checked(payload), type=Envelope)


def shown(value: msgspec.Raw) -> msgspec.Raw:
    """Return an argument without what names inside it, such as `password`, call secret, as incidents do."""
    decoded = msgspec.json.decode(value)
    try:
        hidden = _without_secrets(decoded)
    except RecursionError:
        return MASKED
    return value if hidden == decoded else msgspec.Raw(msgspec.json.encode(hidden))


def _without_secrets(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_secrets(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: MASK if is_secret_name(name) and _says_something(each) else _without_secrets(each)
        for name, each in value.items()
    }


def _says_something(value: Any) -> bool:
    return value not in (None, "") and not isinstance(value, bool)


def _put_back(given: Any, stored: Any) -> Any:
    """Return a value with what was hidden in it when it was shown. Raises ArgumentsError if that is not known."""
    if isinstance(given, list):
        if not isinstance(stored, list) or len(stored) != len(given):
            stored = [None] * len(given)
        return [_put_back(one, other) for one, other in zip(given, stored, strict=True)]
    if not isinstance(given, dict):
        return given
    known = stored if isinstance(stored, dict) else {}
    put_back = {}
    for name, each in given.items():
        if each == MASK and is_secret_name(name):
            if name not in known:
                raise ArgumentsError(Phrase("refusal.mask", names=repr(name)))
            put_back[name] = known[name]
        else:
            put_back[name] = _put_back(each, known.get(name))
    return put_back


def has_secrets(payload: bytes) -> bool:
    """Tell whether a job has arguments that nobody is to see; so has one that cannot be read, for all we know."""
    try:
        return bool(msgspec.json.decode(payload, type=Envelope).secret)
    except UNREADABLE:
        return True


def checked(encoded: bytes) -> msgspec.Raw:
    """Return JSON as it was stored; decoding first proves that it is JSON."""
    msgspec.json.decode(encoded)
    return msgspec.Raw(encoded)


def changed_payload(payload: bytes, given: Encoded, *, whole: bool, secrets: Collection[str] = ()) -> bytes:
    """Return a payload with these arguments; secret ones that are not given, or given as their mask, stay.

    `whole`: what is not given, and not secret, is left out; else it stays too. `secrets` are names of which it is
    known that they are secret, though they may not have been given before. Raises ArgumentsError.
    """
    try:
        stored = read_envelope(payload)
    except UNREADABLE as error:
        raise ArgumentsError(f"the stored arguments cannot be read, and so not be changed: {error}") from error
    said = {
        name: value
        for name, value in given.items()
        if not (name in stored.secret and msgspec.json.decode(value) == MASK)
    }
    secret = stored.secret | {name: value for name, value in said.items() if name in {*stored.secret, *secrets}}
    open_ones = {name: _given(value, stored.args.get(name)) for name, value in said.items() if name not in secret}
    args = open_ones if whole else {**stored.args, **open_ones}
    return msgspec.json.encode(Envelope(v=stored.v, args=args, secret=secret, trace=stored.trace))


def encode_envelope(version: int, shown: Encoded) -> bytes:
    """Return arguments as they are stored, unchecked."""
    return msgspec.json.encode(Envelope(v=version, args=dict(shown)))


def _given(value: msgspec.Raw, stored: msgspec.Raw | None) -> msgspec.Raw:
    if msgspec.json.encode(MASK) not in bytes(value):
        return value
    known = None if stored is None else msgspec.json.decode(stored)
    return msgspec.Raw(msgspec.json.encode(_put_back(msgspec.json.decode(value), known)))


_LONGEST = 500  # characters of a shape; what makes errors differ is at their beginning
_KNOWN = 4096  # so many errors are known again: who looks at dead jobs looks at the same ones every few seconds
_DIFFERS = re.compile(
    r"""
    (?P<quoted>'[^'\n]*'|"[^"\n]*"|`[^`\n]*`)
    | (?P<url>\b[a-z][a-z0-9+.-]*://\S+)
    | (?P<path>(?<![\w.])(?:[A-Za-z]:)?(?:[\\/][\w.@+-]+)+[\\/]?)
    | (?P<id>\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b)
    | (?P<hex>\b0x[0-9a-f]+\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{6,}\b)
    | (?P<number>\d+(?:[.,:]\d+)*)
    """,
    re.VERBOSE | re.IGNORECASE,
)


def shape_of(error: str) -> str:
    """Return what an error has in common with others like it: `TypeName: no such file …`."""
    kind, colon, message = error.partition(":")
    told = f"{kind}{colon}" if colon else ""
    told += _DIFFERS.sub(lambda found: f"<{found.lastgroup}>", message if colon else error)
    return " ".join(told.split())[:_LONGEST]


@lru_cache(maxsize=_KNOWN)
def fingerprint(error: str | None) -> str | None:
    """Return a short name for all errors of this shape, the same on every machine; None without an error."""
    return None if not error else blake2b(shape_of(error).encode(errors="replace"), digest_size=6).hexdigest()


def waits_for(job: Job) -> Phrase | None:
    """Return what a job waits for that has given its slot back: a signal, or a time. None if it has not."""
    if job.state is not State.SCHEDULED or not is_suspended(job.reason):
        return None
    name = signal_name(job.reason)
    return Phrase("waits.time") if name is None else Phrase("waits.signal", name=name)


Errors = Mapping[str, Iterable[str | None]]  # by the ids of jobs, all that is told of their failures


def incidents_by_job(errors: Errors, incidents: Iterable[Incident]) -> Mapping[str, Sequence[Incident]]:
    """Return the incidents of each job, the newest first: those that name it, and those that its errors name."""
    ends = {job_id: {named_in(error) for error in each} for job_id, each in errors.items()}
    found: dict[str, list[Incident]] = {job_id: [] for job_id in errors}
    for incident in incidents:
        named_jobs = {job.job_id for job in incident.jobs}
        for job_id, involving in found.items():
            if job_id in named_jobs or short_id(incident.id) in ends[job_id]:
                involving.append(incident)
    return found


@dataclass(frozen=True, slots=True)
class JobDetails:
    """A job with its history and its situation."""

    situation: Situation
    attempts: tuple[Attempt, ...]
    windows: Windows
    written: MemoView
    """What it has written down and was sent. With secret arguments no values: they may be made of those."""
    incidents: tuple[Incident, ...]  # in which it was involved, the newest first
    forgotten: tuple[str, ...] = ()
    """The ends of the ids of incidents that its errors name, and that are not kept any more."""
    tasks: Mapping[str, str] = field(default_factory=dict)
    """The isolation of each task that apps have published, by name, where the answer depends on it."""

    @property
    def job(self) -> Job:
        """The job."""
        return self.situation.job

    @property
    def why(self) -> Explanation:
        """Why the job is where it is."""
        present = next((each for each in self.attempts if each.fence == self.job.fence), None)
        return explain(self.situation, present.started_at if present else None, self.windows, self.tasks)


@procedure
def read_job_details(verbs: Store, job_id: str) -> Verbs[JobDetails]:
    """Return all that the store knows of a job. Raises JobNotFoundError."""
    situation: Situation | None = yield verbs.situation(job_id)
    if situation is None:
        raise JobNotFoundError(f"there is no job {job_id}, or it was removed just now")
    history = yield verbs.history(job_id)
    errors = [situation.job.error, *(each.error for each in history)]
    kept = read_incidents((yield verbs.records(Kind.INCIDENT)))
    incidents = tuple(incidents_by_job({job_id: errors}, kept)[job_id])
    named = dict.fromkeys(filter(None, map(named_in, errors)))
    forgotten = tuple(end for end in named if end not in {short_id(each.id) for each in incidents})
    written = memo_view((yield verbs.memos(job_id)), values=not has_secrets(situation.job.payload))
    windows = read_windows((yield verbs.records(Kind.WINDOW)))
    tasks = {}
    if situation.job.state is State.BLOCKED or situation.job.cancel_requested:
        view: CatalogueView = yield from read_catalogue(verbs).steps
        tasks = {known.task.name: known.task.isolation for known in view.tasks}
    return JobDetails(situation, history, windows, written, incidents, forgotten, tasks)
