"""A verb: one thing a store can do, written once and free of I/O.

A store's method returns a `Verb`: a generator that yields statements, receives their answers and returns what
the caller wants. It never begins or commits. A driver, sync or async, runs it inside one transaction; so both
share every line, and the same verb can run on a user's own connection.
"""

from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial, wraps
from inspect import GEN_CREATED, getgeneratorstate
from operator import attrgetter
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import msgspec

from standfast.errors import ConfigurationError
from standfast.model.concurrency import run_without_loop
from standfast.model.job import Ending, JobAction, NewJob, OnConflict, Verdict
from standfast.model.records import Change
from standfast.model.states import RETURNS

T = TypeVar("T")
S = TypeVar("S")
P = ParamSpec("P")


class Access(Enum):
    """What kind of transaction a verb needs."""

    READ = "read"
    WRITE = "write"
    BEAT = "beat"
    """Writes heartbeats only, reads anything: must not wait for a writer of jobs."""


class Tone(Enum):
    """What the bell may say, each to those who listen for it."""

    WORK = "work"
    """A job may be due: for idle workers."""
    RESULT = "result"
    """A job may have ended or be further on: for those who wait for jobs."""


class Query(msgspec.Struct, frozen=True):
    """A statement whose answer is its rows."""

    sql: str
    params: Sequence[Any] = ()


class Command(msgspec.Struct, frozen=True):
    """A statement whose answer is how many rows it changed."""

    sql: str
    params: Sequence[Any] = ()


class Bulk(msgspec.Struct, frozen=True):
    """One statement run for many parameter rows; its answer is how many rows it changed in all."""

    sql: str
    rows: Sequence[Sequence[Any]]


class Script(msgspec.Struct, frozen=True):
    """A named script that the server runs in one step, with its arguments; its answer is what it returns."""

    name: str
    args: Sequence[Any] = ()


class Together(msgspec.Struct, frozen=True):
    """Statements of which none needs the answer of another: sent at once where that saves a round trip.

    Its answer is the list of theirs. They run in this order.
    """

    statements: Sequence[Query | Command]


class Last(msgspec.Struct, frozen=True):
    """A statement after which its verb yields no other: sent with the commit, or as a transaction by itself."""

    statement: Query | Command | Together


class Try(msgspec.Struct, frozen=True):
    """A first statement that is a transaction by itself: committed when answered. Its verb may go on in another.

    Where the verb runs in a transaction of the user's own, it is a part of that, unless it is to be `apart`.
    """

    statement: Query
    apart: bool = False


Statement = Query | Command | Bulk | Script | Together | Last | Try
Steps = Generator[Statement, Any, T]


def follow(steps: Steps[T], answer: Callable[[Statement], Any]) -> T:
    """Feed a verb the answers to its statements until it returns."""
    try:
        statement = next(steps)
        while True:
            statement = steps.send(answer(statement))
    except StopIteration as stop:
        told: T = stop.value
        return told
    finally:
        steps.close()


async def afollow(steps: Steps[T], answer: Callable[[Statement], Awaitable[Any]]) -> T:
    """Do the same where to answer is to await."""
    try:
        statement = next(steps)
        while True:
            statement = steps.send(await answer(statement))
    except StopIteration as stop:
        told: T = stop.value
        return told
    finally:
        steps.close()


class Verb(msgspec.Struct, Generic[T]):
    """One call of a verb, ready to be run once by a driver.

    `wakes` says that it may make a job due, so that idle workers must hear the bell after its commit. `tells` says
    that it may end a job or move its progress, so that those who wait for jobs must hear. `brings` is for those who
    count: the jobs that `enqueue` is to bring, and the changes of `change_records` if jobs come of them. `again`
    gives its steps anew, for a driver whose connection broke. `once`: it must not be sent again if the first try
    may have been committed, because the second answer would differ.
    """

    name: str
    access: Access
    steps: Steps[T]
    wakes: bool = False
    tells: bool = False
    brings: Sequence[Any] = ()
    again: Callable[[], Steps[T]] | None = None
    once: bool = False

    @property
    def tones(self) -> tuple[Tone, ...]:
        """How to ring after its commit."""
        return _TONES[self.wakes, self.tells]


_TONES = {
    (False, False): (),
    (True, False): (Tone.WORK,),
    (False, True): (Tone.RESULT,),
    (True, True): (Tone.WORK, Tone.RESULT),
}


def verb(
    access: Access, *, wakes: bool = False, tells: bool = False, once: bool = False
) -> Callable[[Callable[Concatenate[S, P], Steps[T]]], Callable[Concatenate[S, P], Verb[T]]]:
    """Make a generator method return a `Verb` of its own name."""

    def decorate(steps: Callable[Concatenate[S, P], Steps[T]]) -> Callable[Concatenate[S, P], Verb[T]]:
        @wraps(steps)
        def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Verb[T]:
            again = partial(steps, self, *args, **kwargs)
            return Verb(steps.__name__, access, again(), wakes, tells, (), again, once)

        return call

    return decorate


# A procedure: several verbs in a row, where each depends on the answers before it. As free of I/O as they are.
#
# Each verb is a transaction of its own; what must happen together is one verb.

Verbs = Generator[Verb[Any], Any, T]


@dataclass(slots=True)
class Procedure(Generic[T]):
    """One procedure, ready to be run once."""

    steps: Verbs[T]


def procedure(steps: Callable[P, Verbs[T]]) -> Callable[P, Procedure[T]]:
    """Make a generator of verbs return a `Procedure`."""

    @wraps(steps)
    def call(*args: P.args, **kwargs: P.kwargs) -> Procedure[T]:
        return Procedure(steps(*args, **kwargs))

    return call


def _fresh(procedure: Procedure[T]) -> Verbs[T]:
    if getgeneratorstate(procedure.steps) != GEN_CREATED:
        raise ConfigurationError("this was run already, and can be run once: ask for it anew each time")
    return procedure.steps


async def arun_procedure(run: Callable[[Verb[Any]], Awaitable[Any]], procedure: Procedure[T]) -> T:
    """Run the verbs of a procedure."""
    steps = _fresh(procedure)
    try:
        verb = next(steps)
        while True:
            try:
                answer = await run(verb)
            except Exception as error:  # noqa: BLE001 - the procedure may know what to do about it
                verb = steps.throw(error)
            else:
                verb = steps.send(answer)
    except StopIteration as stop:
        told: T = stop.value
        return told
    finally:
        steps.close()


def run_procedure(run: Callable[[Verb[Any]], Any], procedure: Procedure[T]) -> T:
    """Do the same, blocking."""

    async def at_once(verb: Verb[Any]) -> Any:
        return run(verb)

    return run_without_loop(arun_procedure(at_once, procedure))


# Verbs that wake workers, or tell of jobs, or not: it depends on what is asked, and on what came of it. Pure.

Finished = tuple[tuple[Verdict, ...], bool]
"""The verdicts on endings, and whether a job is free now that waited for one of these ends."""

_ON_CONFLICT = attrgetter("on_conflict")
_MOVE = attrgetter("move")


def enqueuing(jobs: Sequence[NewJob], steps: Callable[[], Steps[Mapping[str, str]]]) -> Verb[Mapping[str, str]]:
    """Return the verb `enqueue`: jobs that it may end, as others take their place, are told of."""
    tells = OnConflict.REPLACE in map(_ON_CONFLICT, jobs)
    return Verb("enqueue", Access.WRITE, steps(), wakes=True, tells=tells, brings=jobs, again=steps)


def known_before(jobs: Sequence[NewJob]) -> dict[str, str]:
    """Return what an enqueue that accepted nothing answers: of a single job that its id was known already."""
    return {jobs[0].id: jobs[0].id} if len(jobs) == 1 else {}


def changing_jobs(action: JobAction, instead: NewJob | None, steps: Callable[[], Steps[T]]) -> Verb[T]:
    """Return the verb `change_jobs`: jobs that are due again wake workers, jobs that it may end are told of."""
    ends = action in {JobAction.CANCEL, JobAction.DISCARD}
    wakes = not ends or instead is not None
    return Verb("change_jobs", Access.WRITE, steps(), wakes, tells=ends, again=steps, once=True)


def judged(verb: Verb[S], judge: Callable[[S], T]) -> Verb[T]:
    """Return a verb whose answer is made of that of another: what `judge` raises rolls it back."""

    def steps(inner: Steps[S]) -> Steps[T]:
        return judge((yield from inner))

    again = verb.again
    anew = None if again is None else lambda: steps(again())
    return Verb(verb.name, verb.access, steps(verb.steps), verb.wakes, verb.tells, verb.brings, anew, verb.once)


def finishing(endings: Sequence[Ending], steps: Callable[[], Steps[Finished]]) -> Verb[tuple[Verdict, ...]]:
    """Return the verb `finish`: jobs that come back, or were waiting for the end of another, wake workers."""

    def finish() -> "Steps[tuple[Verdict, ...]]":  # as text: to make the type would take longer, each time
        verdicts, frees = yield from steps()
        finishing_verb.wakes |= frees
        return verdicts

    wakes = not RETURNS.isdisjoint(map(_MOVE, endings))
    finishing_verb = Verb("finish", Access.WRITE, finish(), wakes, tells=True, again=finish)
    return finishing_verb


def changing(changes: Sequence[Change], steps: Callable[[], Steps[tuple[bool, ...]]]) -> Verb[tuple[bool, ...]]:
    """Return the verb `change_records`: jobs that come of it wake workers, jobs that it may end are told of.

    Of many who come to fire a schedule one does. The others, whose changes are refused, disturb nobody.
    """

    def change_all() -> Steps[tuple[bool, ...]]:
        made = yield from steps()
        if not any(made):
            changing_verb.wakes = changing_verb.tells = False
        return made

    replaces = any(OnConflict.REPLACE in map(_ON_CONFLICT, change.jobs) for change in changes)
    wakes = any(change.jobs for change in changes)
    tells = replaces or any(change.cancels or change.withdraws for change in changes)
    brings = changes if wakes else ()
    changing_verb = Verb("change_records", Access.WRITE, change_all(), wakes, tells, brings, again=change_all)
    return changing_verb


def check_changes(changes: Sequence[Change]) -> None:
    """Refuse what no caller may ask for. Raises ValueError."""
    if len({(change.kind, change.name) for change in changes}) < len(changes):
        raise ValueError("two changes of one call are of the same record: make them one after the other")
    for change in changes:
        if any(job.on_conflict is OnConflict.RAISE for job in change.jobs):
            raise ValueError(
                f"a job of the change of {change.kind} {change.name!r} says on_conflict=raise, but no key can undo"
                " a change: say return or replace"
            )


# Long lists in pieces that one statement can take.


def in_bites(things: Sequence[T], sizes: Sequence[int], most: int) -> Iterator[list[T]]:
    """Yield things in their order, in lists of at most so much together; what is larger by itself comes alone."""
    bite: list[T] = []
    total = 0
    for thing, size in zip(things, sizes, strict=True):
        if bite and total + size > most:
            yield bite
            bite, total = [], 0
        bite.append(thing)
        total += size
    if bite:
        yield bite
