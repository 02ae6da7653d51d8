"""All that one process has open: connections for jobs, one for beats, and threads for async callers.

Beats have a crew of their own, thread and connection, so that however busy the others are no lease runs out.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar

import psycopg

from standfast.errors import StoreError
from standfast.stores.postgres.connect import OLDEST_SERVER, Pool, open_wire
from standfast.stores.postgres.migrate import migrate
from standfast.stores.postgres.notify import Sound
from standfast.stores.postgres.readiness import OverdueError
from standfast.stores.postgres.statements import LongerError, arun_steps, load_statements, run_steps
from standfast.stores.postgres.transactions import Home
from standfast.stores.postgres.translate import reworded, translated
from standfast.stores.postgres.url import Address
from standfast.stores.postgres.wire import Call, ForgottenError, LostError, Wire
from standfast.stores.refusals import in_doubt
from standfast.stores.threads import Threads, in_a_thread
from standfast.stores.verb import Access, Statement, Tone, Verb

T = TypeVar("T")

KEPT = 2
"""So many connections for jobs no event loop gets, as it gives nothing back while somebody blocks it."""

THREADS = 8
"""Calls of async code that wait for a connection at once."""

_WATCHES = sys.platform != "win32"
"""Whether event loops can watch descriptors."""


class _Course:
    """One call of a verb, and how far it has come.

    At its end it translates the error, and says if the verb may be committed, or rings for tones of the answer.
    """

    __slots__ = ("_engine", "_rung", "_verb", "in_doubt")

    def __init__(self, engine: "Engine", verb: Verb[Any], in_doubt: bool = False) -> None:
        self._engine = engine
        self._verb = verb
        self.in_doubt = in_doubt
        """Whether it may be done, though no answer came."""
        self._rung: tuple[Tone, ...] = ()
        """The tones whose ring was sent with its commit."""

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """End."""
        if error is not None:
            self._fail(error)
            return
        for tone in self._verb.tones:
            if tone not in self._rung:
                self._engine.ring(tone)

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, LostError | OverdueError):
            self.in_doubt |= error.may_be_done
        ours = self._engine.reworded(error)
        try:
            if isinstance(ours, StoreError) and self.in_doubt and self._verb.access is Access.WRITE:
                raise in_doubt(ours) from ours.__cause__
            if ours is not error:
                raise ours
        finally:
            del ours  # which would keep this frame, and be kept by it

    def rings(self) -> Sequence[Call]:
        """Return the calls that ring, to be sent with the commit."""
        self._rung = self._verb.tones
        return self._engine.rings[self._rung]

    def begin_again(self, lost: LostError) -> bool:
        """Let the verb begin anew after its connection broke; tell whether it may be committed already.

        Raises LostError again if the verb must not be repeated.
        """
        self.in_doubt |= lost.may_be_done
        if self._verb.again is None or (self.in_doubt and self._verb.once):
            raise lost
        self._verb.steps = self._verb.again()
        self._rung = self._verb.tones  # this try brought nothing to ring for
        return self.in_doubt


@dataclass(frozen=True, slots=True)
class _Crew:
    pool: Pool
    threads: Threads


class Engine:
    """The connections of one process. Making one opens nothing; the first verb does."""

    def __init__(
        self, address: Address, timeout: float, sounds: Mapping[Tone, Sound], forget: Callable[[], None]
    ) -> None:
        self._address = address
        self._timeout = timeout
        self._sounds = sounds
        self._forget = forget
        self.rings: Mapping[tuple[Tone, ...], Sequence[Call]]
        self.rings = {tones: [sounds[tone].ring for tone in tones] for tones in _COMBINATIONS}
        self._preparing = threading.RLock()
        self._prepared = False
        self._jobs = self._pool(address.pool_size, KEPT)
        jobs = _Crew(self._jobs, self._threads(THREADS, "jobs"))
        beats = _Crew(self._pool(1), self._threads(1, "beats"))
        self._errands = self._threads(1, "bell")
        self._crews = {Access.READ: jobs, Access.WRITE: jobs, Access.BEAT: beats}
        self.home = Home(
            address=address,
            statements=load_statements(address.schema),
            channels={tone: sound.channel for tone, sound in sounds.items()},
            prepare=self.prepare,
            is_prepared=lambda: self._prepared,
            run=self.run,
        )
        """What the joined transactions of this process share."""

    def run(self, verb: Verb[T]) -> T:
        """Run the verb in the caller's own thread."""
        return self._run(verb, time.monotonic() + self._timeout)

    async def arun(self, verb: Verb[T]) -> T:
        """Run the verb on the event loop, as long as nothing has to be waited for but the server's answers.

        To wait for a connection, or to open one, takes a thread. So does a transaction of several messages, which
        must not stay open while somebody blocks the loop, and so do loops that cannot watch descriptors.
        """
        until = time.monotonic() + self._timeout
        crew = self._crews[verb.access]
        doubt: bool | None = None
        with ExitStack() as loan:
            wire = loan.enter_context(crew.pool.lend_at_once()) if _WATCHES else None
            if wire is not None:
                try:
                    with _Course(self, verb) as course:
                        try:
                            return await arun_steps(wire, verb.steps, until, course.rings)
                        except LostError as lost:
                            doubt = course.begin_again(lost)
                except LongerError as longer:
                    begun, kept = longer.statement, loan.pop_all()
                    go_on = partial(self._go_on, verb, until, begun, wire, kept)
                    return await in_a_thread(crew.threads, go_on, unbegun=kept.close)
        if doubt is None:
            return await in_a_thread(crew.threads, partial(self._run, verb, until))
        return await in_a_thread(crew.threads, partial(self._run_again, verb, until, doubt))

    def ring(self, tone: Tone) -> None:
        """Ring soon, in a thread. It raises nothing, as the call that rings is committed by then."""
        with suppress(StoreError, RuntimeError):  # it is closed, or the system has no thread left
            self._errands.do(partial(self._ring, tone))

    def listen(self, sound: Sound) -> asyncio.Future[Wire]:
        """Open a connection that hears a tone, in a thread. Who gets it closes it."""
        return asyncio.ensure_future(in_a_thread(self._errands, partial(self._listen, sound), Wire.close))

    def prepare(self) -> None:
        """Make the schema ready; cheap where nothing is to be done."""
        if self._prepared:
            return
        until = time.monotonic() + self._timeout
        with translated(self._address, self._timeout), self._jobs.lend(until):
            pass  # to connect is all

    def connect(self, until: float) -> Wire:
        """Open a connection; the first of a process makes the schema ready. The caller closes it."""
        self._forget()  # another server may answer now
        wire = open_wire(self._address, self._timeout, until)
        if self._prepared:
            return wire
        pooled, wire.pooled = wire.pooled, True  # what is asked once is not prepared
        try:
            self._make_ready(wire, until)
        except BaseException:
            wire.close()
            raise
        wire.pooled = pooled
        return wire

    def close(self) -> None:
        """Wait for what runs, then let go of threads and connections."""
        crews = (self._crews[Access.WRITE], self._crews[Access.BEAT])
        for threads in (*(crew.threads for crew in crews), self._errands):
            threads.close()
        for crew in crews:
            crew.pool.close()

    def _run(self, verb: Verb[T], until: float) -> T:
        """Run a verb. If its connection breaks, run it once more on another."""
        with _Course(self, verb) as course:
            _refuse_late(until)
            try:
                return self._try(verb, until, course)
            except LostError as lost:
                course.begin_again(lost)
            return self._try(verb, until, course)

    def _run_again(self, verb: Verb[T], until: float, doubt: bool) -> T:
        """Run a verb whose connection broke on the event loop; `doubt`: it may be done already."""
        with _Course(self, verb, doubt) as course:
            _refuse_late(until)
            return self._try(verb, until, course)

    def _try(self, verb: Verb[T], until: float, course: _Course) -> T:
        with self._crews[verb.access].pool.lend(until) as wire:
            try:
                return run_steps(wire, verb.steps, until, course.rings)
            except ForgottenError as forgotten:
                course.begin_again(forgotten)
            return run_steps(wire, verb.steps, until, course.rings)

    def _go_on(self, verb: Verb[T], until: float, begun: Statement, wire: Wire, loan: ExitStack) -> T:
        """Run the rest of a verb, and give its connection back."""
        with _Course(self, verb) as course:
            try:
                with loan:
                    _refuse_late(until)
                    return run_steps(wire, verb.steps, until, course.rings, begun)
            except LostError as lost:
                course.begin_again(lost)
            return self._try(verb, until, course)

    def reworded(self, error: BaseException) -> BaseException:
        """Return what a verb raises for an error. If that is of the store, forget what was known of the server."""
        ours = error
        if isinstance(error, OverdueError | psycopg.Error):
            ours = reworded(error, self._address, self._timeout)
        if isinstance(ours, StoreError):
            self._forget()
        return ours

    def _ring(self, tone: Tone) -> None:
        until = time.monotonic() + self._timeout
        with suppress(StoreError), translated(self._address, self._timeout), self._jobs.lend(until) as wire:
            wire.ask([self._sounds[tone].ring], until)

    def _listen(self, sound: Sound) -> Wire:
        until = time.monotonic() + self._timeout
        with translated(self._address, self._timeout):
            wire = self.connect(until)
            try:
                wire.ask([sound.listen], until)
            except BaseException:
                wire.close()
                raise
        return wire

    def _pool(self, size: int, kept: int = 0) -> Pool:
        return Pool(self._address.name, size, self.connect, kept)

    def _threads(self, count: int, crew: str) -> Threads:
        name = self._address.name
        return Threads(
            count, f"standfast-postgres-{crew}", lambda: StoreError(f"{name} was closed: open a new store")
        )

    def _make_ready(self, wire: Wire, until: float) -> None:
        try:
            if not self._preparing.acquire(timeout=max(until - time.monotonic(), 0)):
                raise OverdueError
            if not self._prepared:
                _refuse_old(wire, self._address)
                migrate(wire, self._address, until)
                self._prepared = True
        finally:
            with suppress(RuntimeError):  # it is not ours; an exception may come between having it and knowing so
                self._preparing.release()


_COMBINATIONS: tuple[tuple[Tone, ...], ...] = ((), (Tone.WORK,), (Tone.RESULT,), (Tone.WORK, Tone.RESULT))


def _refuse_late(until: float) -> None:
    """Begin nothing that waited for a thread for as long as it may take in all."""
    if time.monotonic() >= until:
        raise OverdueError


def _refuse_old(wire: Wire, address: Address) -> None:
    if wire.server_version < OLDEST_SERVER:
        raise StoreError(f"{address.name} is PostgreSQL {wire.server_version}: use {OLDEST_SERVER} or newer")
