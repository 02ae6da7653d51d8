"""What the children of a supervisor say, and what comes of it."""

import logging
import os
from collections.abc import Callable

from standfast.core.incident import InvolvedJob
from standfast.core.job import ClaimRef
from standfast.errors import ConfigurationError, StandfastError, StoreError
from standfast.events import WorkerReady
from standfast.store.open import public_name
from standfast.supervisor.child import Child, Phase
from standfast.supervisor.crew import Crew
from standfast.supervisor.link import Link
from standfast.supervisor.plan import Plan, Ports
from standfast.supervisor.wards import Wards
from standfast.worker.messages import (
    Disowned,
    Failed,
    Hello,
    Holds,
    Killed,
    LetsGo,
    Message,
    Noticed,
    Pictured,
    Pulse,
    Retired,
    Stuck,
    Unfit,
)

log = logging.getLogger(__name__)


class Reception:
    """Hears the children. `arrived` learns of each that is registered, and is told of the first of them."""

    def __init__(
        self,
        plan: Plan,
        ports: Ports,
        crew: Crew,
        *,
        supervisor: str,
        open_link: Callable[[Hello], Link],
        arrived: Callable[[Link, Hello, bool], None],
        give_up: Callable[[StandfastError], None],
    ) -> None:
        self._plan = plan
        self._ports = ports
        self._crew = crew
        self._supervisor = supervisor
        self._open_link = open_link
        self._arrived = arrived
        self._give_up = give_up

    async def hear(self, child: Child) -> None:
        """Listen to a child until it says no more."""
        while (message := await child.process.channel.receive()) is not None:
            child.pulse_at = self._ports.clock.boot()
            if self._ports.witness is not None:
                self._ports.witness.heard(child, message)
            await self._heed(child, message)

    async def _heed(self, child: Child, message: Message) -> None:
        match message:
            case Hello():
                await self._greet(child, message)
            case Pulse():
                self._feel(child, message)
            case Stuck() | Unfit():
                self._let_go(child, message)
            case Failed():
                self._take_no(child, message)
            case Disowned(jobs=jobs):
                self._part_with(child, jobs)
            case Retired(worked=worked):
                child.retired, child.worked = True, worked
            case Pictured() | Killed():
                child.answered(message)
            case Holds() | LetsGo() if self._crew.link is not None:
                self._keep(self._crew.link.wards, child, message)
            case Noticed():
                pass  # the witness has heard it
            case _:
                log.warning("unexpected word from a child: %s", type(message).__name__)

    def _keep(self, wards: Wards, child: Child, word: Holds | LetsGo) -> None:
        if isinstance(word, Holds):
            wards.take(child.worker, word)
        else:
            wards.let_go(word.holder)

    def _feel(self, child: Child, pulse: Pulse) -> None:
        child.unanswered_for, child.polled_at = pulse.unanswered_for, pulse.polled_at
        child.ended_attempts, child.lag, child.waiting = pulse.ended, pulse.lag, pulse.waiting
        if pulse.beat_now and self._crew.link is not None:
            self._crew.link.heart.beat_now()

    def _let_go(self, child: Child, word: Stuck | Unfit) -> None:
        """Replace a child that cannot go on; where a job cannot be stopped, that one is to blame."""
        if isinstance(word, Stuck):
            child.stuck.add(ClaimRef(word.job_id, word.fence))
        child.verdict = word.reason
        self._crew.ask_to_leave(child)

    def _part_with(self, child: Child, jobs: tuple[InvolvedJob, ...]) -> None:
        """Part with a child that the store does not know any more; it may hear so before its supervisor does."""
        child.had = jobs
        child.disowned.set()
        if self._crew.link is not None:
            self._crew.link.heart.part_with(child)

    def _take_no(self, child: Child, failed: Failed) -> None:
        """Heed that a child cannot start: before any other could, nor will the next one."""
        child.verdict, child.failed = failed.reason, True
        if self._ports.watch is not None:
            log.error("%s; waiting for the next change", failed.reason)
        elif self._crew.link is None:
            error = ConfigurationError(failed.reason)
            error.add_note(f"In the child process:\n{failed.trace}")
            self._give_up(error)
        child.kill()

    async def _greet(self, child: Child, hello: Hello) -> None:
        """Make a child known to the store, which the first of them brings us to, and begin to beat for it."""
        settings, queues = hello.settings, self._plan.queue_names
        child.greeted = True
        try:
            link = self._crew.link
            if link is None:
                link = self._crew.link = self._open_link(hello)
            elif (settings.url, settings.namespace) != (link.settings.url, link.settings.namespace):
                child.verdict = (
                    "its app names another store than before: restart `standfast worker`, a reload cannot do it"
                )
                child.kill()
                return
            first = await link.register(child, settings, supervisor=self._supervisor, queues=queues)
        except (StoreError, ConfigurationError) as error:  # some of what is wrong with a URL only the server knows
            self._give_up(error)
            return
        child.pulse_at = self._ports.clock.boot()  # what it said meanwhile is heard from now on
        self._crew.windows, self._crew.early_deaths = hello.windows, 0
        if child.phase is Phase.STARTING:
            child.phase = Phase.WORKING
        self._arrived(link, hello, first)
        link.heart.beat_now()
        self._ports.events.emit(
            WorkerReady(
                child.worker,
                child.process.pid,
                hello.tasks,
                settings.concurrency,
                store=public_name(settings.url),
                queues=queues,
                weights=None if self._plan.queues is None else self._plan.queues.weights,
                supervisor_pid=os.getpid(),
            )
        )
