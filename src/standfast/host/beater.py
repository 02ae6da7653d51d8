"""The beater itself: `python -m standfast.host.beater FD`, started by a host. It loads no code of the user's.

    hearing what to be ─► beating for the worker in the host ─► the host stops, or is gone ─► giving back ─► over

It is an ordinary supervisor whose child is the process that started it. Nobody but the host stops it: Ctrl-C, the
end of a terminal, and a service manager that ends all processes of a service at once, are for the host to heed.
"""

import asyncio
import logging
import signal
import socket
import sys
from contextlib import suppress
from random import Random

from standfast.clock import SystemClock
from standfast.errors import ConfigurationError, StandfastError, StoreError
from standfast.events import Events, WorkerReady, WorkerStopped, WorkerStopping
from standfast.host.adopted import LOOK_EVERY, AdoptingLauncher, HostProcess
from standfast.host.line import BeaterEnd
from standfast.host.messages import Alive, Begin, GaveUp, Left, Said, Stacks, StopAll, Taken
from standfast.host.metering import Metered
from standfast.host.relay import Relay, in_short
from standfast.incidents.desk import Desk
from standfast.incidents.filing import Filing
from standfast.incidents.keeping import Keeping
from standfast.supervisor.child import KILL_AFTER_GRACE
from standfast.supervisor.folder import Folder, private_folder
from standfast.supervisor.main import LAST_LINES, early_settings
from standfast.supervisor.memory import memory_at_hand
from standfast.supervisor.options import WorkerOptions
from standfast.supervisor.parting import Parting
from standfast.supervisor.plan import Plan, Ports
from standfast.supervisor.premises import surveyor_of
from standfast.supervisor.supervisor import Supervisor
from standfast.supervisor.witness import Witness
from standfast.watch.levels import Level
from standfast.watch.records import tell_in_records

ALIVE_EVERY = 1.0

TOLD_BY_HOST = (WorkerReady, WorkerStopping, WorkerStopped)
"""Of these the host has more to tell."""

SEEN_WITHIN = 1.0
"""Seconds after which a host that has hung up is asked for no more: its end would have been seen by now."""


def main() -> None:
    """Beat until the host has stopped or is gone, and all it had is given back."""
    end = socket.socket(fileno=int(sys.argv[1]))
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    parting = Parting()
    with private_folder() as folder:
        asyncio.run(_live(end, folder, parting))
    parting.leave()


async def _live(end: socket.socket, folder: Folder, parting: Parting) -> None:
    line = BeaterEnd(end)
    begin = await line.hear()
    if not isinstance(begin, Begin):
        return
    beater = Beater(begin, line, folder, parting)
    await beater.run()
    line.close()


class Beater:
    """A supervisor of one host."""

    def __init__(self, begin: Begin, line: BeaterEnd, folder: Folder, parting: Parting) -> None:
        self._line = line
        self._host = HostProcess(begin.host)
        self._stopping = False
        self._supervising: asyncio.Task[None] | None = None
        clock, events, early = SystemClock(), Events(), early_settings()
        self._grace = early.grace if begin.grace is None else begin.grace
        logging.basicConfig(handlers=[Relay(self._relay)], level=Level[begin.logs.level.upper()])
        self._narrator = tell_in_records(events, clock, TOLD_BY_HOST)
        self._desk = Desk(clock, early, filing=Filing(Keeping.of(early), clock))
        self._launcher = AdoptingLauncher(_options(begin), folder, self._host, line)
        metered = Metered.beginning(begin.metrics_dir, events)
        ports = Ports(
            self._launcher,
            metered.open_backend,
            clock,
            Random(),  # noqa: S311 - jitter
            events,
            Witness(clock, self._desk),
            close_backend=parting.close,
            memory=memory_at_hand,
            tally=metered.tally,
            surveyor=surveyor_of,
        )
        self._supervisor = Supervisor(Plan(1, begin.queues, hang_limit=early.hang_limit), ports)

    async def run(self) -> None:
        """Supervise the host to its end; say what makes that impossible, if something does."""
        beside = [asyncio.create_task(each()) for each in (self._hear, self._watch, self._say_alive)]
        self._supervising = asyncio.create_task(self._supervisor.run())
        try:
            await asyncio.wait([self._supervising])
            if not self._supervising.cancelled():
                self._supervising.result()
        except StandfastError as error:
            wrong = isinstance(error, ConfigurationError | StoreError)
            self._line.say(GaveUp(in_short(error), wrong))
        finally:
            for task in beside:
                task.cancel()
            self._narrator.finish()
            self._desk.close(LAST_LINES)

    def _stop(self) -> None:
        if not self._stopping:  # asked twice a supervisor hurries
            self._stopping = True
            self._supervisor.stop()

    async def _watch(self) -> None:
        await self._host.gone.wait()
        self._stopping = True
        self._supervisor.outlive_host()

    async def _say_alive(self) -> None:
        while True:
            self._line.say(Alive())
            self._narrator.tick()
            await asyncio.sleep(ALIVE_EVERY)

    async def _hear(self) -> None:
        while (word := await self._line.hear()) is not None:
            match word:
                case Taken(worker=worker):
                    self._launcher.taken(worker)
                case Left(worker=worker, error=error):
                    self._launcher.left(worker, error)
                case Stacks(text=text):
                    self._launcher.stacks_told(text)
                case StopAll():
                    self._stop()
                case Begin():
                    pass  # it is said once
        await self._outlive_line()

    async def _outlive_line(self) -> None:
        """Leave a host that lives and has hung up: nothing is given back, its code may run; its lease runs out."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SEEN_WITHIN):
                await self._host.gone.wait()
        if not self._host.gone.is_set():
            self._stop()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._grace + KILL_AFTER_GRACE + SEEN_WITHIN):
                    await self._until_gone()
            if not self._host.gone.is_set() and self._supervising is not None:
                self._supervising.cancel()

    async def _until_gone(self) -> None:
        """Wait for the end of the host; one that has let go of all lines may run another program by now."""
        while not self._host.gone.is_set():
            if self._launcher.hung_up:
                self._supervisor.drop_adopted()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY):
                    await self._host.gone.wait()

    def _relay(self, said: Said) -> bool:
        if self._line.gone or self._host.gone.is_set():
            return False
        self._line.say(said)
        return True


def _options(begin: Begin) -> WorkerOptions:
    return WorkerOptions(
        target=begin.target,
        drain=False,
        processes=1,
        concurrency=begin.concurrency,
        queues=begin.queues,
        grace=begin.grace,
        lease=begin.lease,
        app_dir=begin.app_dir,
        url=begin.url,
        logs=begin.logs,
        metrics_dir=begin.metrics_dir,
    )


if __name__ == "__main__":
    main()
