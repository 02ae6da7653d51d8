"""A worker inside a host: hooks of the process, lives in threads of their own, and the beater that beats for them."""

import asyncio
import faulthandler
import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import IO, Any

from standfast.app import Standfast
from standfast.durable.lockkeeper import Holding, Kept
from standfast.durable.runtime import current_attempt
from standfast.errors import ConfigurationError, StandfastError
from standfast.events import BeaterLost, HostReady, HostStopped, HostStopping, StopStage
from standfast.hosts.bootstrap import RuntimePlace, WorkerRuntime, folder_here
from standfast.hosts.ipc import (
    Adopt,
    Alive,
    AskStacks,
    Begin,
    FromBeater,
    GaveUp,
    HostEnd,
    Left,
    Said,
    Stacks,
    StopAll,
    Taken,
    write,
)
from standfast.observe.logs.job_log import OUR_THREADS, Logged, keep_log_tails_quietly, logged_here
from standfast.settings import URL_VARIABLE
from standfast.stores.url import public_name
from standfast.worker.excepthooks import hear_loop, hear_threads, install_excepthooks
from standfast.worker.locks import SupervisedLocks
from standfast.worker.messages import Configure, Failed, SocketChannel
from standfast.worker.ports import Alarm, finest_alarm
from standfast.worker.storecalls import StoreCloser
from standfast.worker.unhandled import UnhandledErrors
from standfast.worker.worker import FLUSH_LIMIT, LAST_WORDS, Worker


class ProcessHooks:
    """The hooks of a host. `unhandled` is who hears: that of the latest life; if `whole`, also what no handler did."""

    def __init__(self, *, whole: bool = False) -> None:
        self._whole = whole
        self.unhandled: UnhandledErrors | None = None
        self._hooks = ExitStack()
        self._stacks: IO[str] | None = None
        self._others = False

    def begin(self) -> None:
        """Set the hooks."""
        self._others = faulthandler.is_enabled()
        self._hooks.callback(
            install_excepthooks(self.heard) if self._whole else hear_threads(self.heard, of_attempts=True)
        )
        self._hooks.callback(keep_log_tails_quietly())

    def hear_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hear of an event loop of the host's own, if it asks for that."""
        if self._whole:
            self._hooks.callback(hear_loop(self.heard, loop))

    def write_stacks(self, to: Path) -> None:
        """Have the stacks of all threads written there on a fatal signal, unless they are written elsewhere."""
        if not self._others:
            former, self._stacks = self._stacks, to.open("w")
            faulthandler.enable(file=self._stacks, all_threads=True)
            if former is not None:
                former.close()

    def heard(self, *told: Any, **more: Any) -> bool:
        """Hear of an exception as `UnhandledErrors` does; tell whether it will be told."""
        unhandled = self.unhandled
        return unhandled is not None and unhandled.heard(*told, **more)

    def end(self) -> None:
        """Put the hooks back."""
        self._hooks.close()
        if self._stacks is not None:
            faulthandler.disable()
            self._stacks.close()
            self._stacks = None


# Each life has a thread of its own, so a handler that blocks one event loop does not keep the next life from
# beginning.

log = logging.getLogger(__name__)


@dataclass(eq=False)
class WorkerThread:
    """One worker incarnation in this process. `over` hears its end, in its thread, and what it failed of."""

    app: Standfast
    worker: str
    hooks: ProcessHooks
    beater_pid: int
    _: KW_ONLY
    ready: Callable[[HostReady], None]
    over: Callable[["WorkerThread", str], None]

    def __post_init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._working: Worker | None = None
        self._asked: float | None = None
        self._files: tuple[socket.socket, int] | None = None

    @property
    def running(self) -> int:
        """How many handlers run."""
        return 0 if self._working is None else self._working.running

    def runs(self, attempt: Logged) -> bool:
        """Tell whether this attempt is one of those that run here."""
        return self._working is not None and self._working.runs(attempt)

    def begin(self, line: int, folder_lock: int) -> None:
        """Begin on this line; the lock keeps the folder of its notes for as long as it lives."""
        self._files = socket.socket(fileno=line), folder_lock
        threading.Thread(target=self._run, name=f"{OUR_THREADS}host-{self.worker}", daemon=True).start()

    def retire(self, grace: float) -> None:
        """Stop, from any thread; a life that has not begun to work stops as soon as it does."""
        self._asked = grace
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it is over
                loop.call_soon_threadsafe(self._heed_stop)

    def forget(self) -> None:
        """Let go of it in a forked process, where its thread is not."""
        if self._files is not None:
            line, lock = self._files
            line.close()
            os.close(lock)

    def _run(self) -> None:
        assert self._files is not None
        line, lock = self._files
        error = ""
        try:
            asyncio.run(self._live(line))
        except BaseException as failure:  # a thread that ends says so, and the beater begins another
            error = f"{type(failure).__name__}: {failure}"
            log.exception("the worker inside this process failed; another is begun")
        finally:
            if self._working is not None:
                self._working.outlive_threads()
            self._files = None
            line.close()
            os.close(lock)
            self.over(self, error)

    async def _live(self, line: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        channel, alarms = await SocketChannel.over(line), OwnAlarms()
        try:
            configure = await channel.receive()
            if not isinstance(configure, Configure):
                return
            self.hooks.write_stacks(Path(configure.dump))
            place = RuntimePlace(folder_here(), stays=True, locks=AttemptLocks, alarms=alarms, staged=self._staged)
            try:
                life = await WorkerRuntime.begin(self.app, configure, channel, place)
            except StandfastError as error:
                channel.send(Failed(str(error), "".join(traceback.format_exception(error))))
                await channel.receive()  # the beater answers when it has heard
                return
            await self._work(life)
        finally:
            alarms.close()
            channel.close()

    async def _work(self, life: WorkerRuntime) -> None:
        self.hooks.unhandled = life.worker.unhandled
        hear_loop(life.worker.unhandled.heard, asyncio.get_running_loop())
        adaptive = self.app.limits.adaptive
        if adaptive is not None and not adaptive.watches:
            adaptive.watch_loop(asyncio.get_running_loop())  # it shares the interpreter with the requests
        beginning = asyncio.create_task(self._begin_work(life))
        try:
            await life.run()
        finally:
            beginning.cancel()
            StoreCloser().close(life.backend)
            if life.meter is not None:
                life.meter.close()

    async def _begin_work(self, life: WorkerRuntime) -> None:
        self._working = life.worker
        self._heed_stop()
        await life.worker.renewed()
        settings, tasks = life.settings, len(self.app.tasks)
        store = public_name(settings.url)
        self.ready(HostReady(self.worker, os.getpid(), tasks, settings.concurrency, store, self.beater_pid))

    def _heed_stop(self) -> None:
        if self._working is not None and self._asked is not None:
            self._working.retire(self._asked)

    def _staged(self, stage: StopStage, running: int) -> None:
        self.app.events.emit(HostStopping(self.worker, os.getpid(), stage, running))


class OwnAlarms:
    """Makes alarms, and closes them all when a life is over: its process goes on."""

    def __init__(self) -> None:
        self._made: list[Alarm] = []

    def __call__(self, go_off: Callable[[], None]) -> Alarm:
        """Return the most exact alarm there is."""
        alarm = finest_alarm(go_off)
        self._made.append(alarm)
        return alarm

    def close(self) -> None:
        """Let none go off any more."""
        for alarm in self._made:
            alarm.close()


class AttemptLocks(SupervisedLocks):
    """Has the beater keep the locks of handlers alone: those of requests are needed when this life is over."""

    def keep(self, holding: Holding) -> Kept | None:
        """Have a place kept, if a handler holds it."""
        return None if logged_here() is None else super().keep(holding)


#     beater starts ─► it sends a line: a life begins ─► … ─► stop: lives end, then the beater
# A beater that is gone is replaced, and its lives end as lost. One thread hears it; all threads are daemons.

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
SETTLED_AFTER = 60.0  # seconds after which the end of a beater is a new trouble, and no more of the one before
SILENCE = 30.0  # seconds without a word after which a beater is looked at twice, and then replaced
GIVEN_BACK_WITHIN = 5.0  # seconds for the beater to give back what is left, and to end


class EmbeddedWorker:
    """One worker, or one after the other, in this process. `tick` is called about every second."""

    def __init__(self, app: Standfast, begin: Begin, tick: Callable[[], None], *, whole: bool = False) -> None:
        self._app = app
        self._begin = begin
        self._tick = tick
        self.hooks = ProcessHooks(whole=whole)
        self._changing = threading.Condition()
        self._lives: dict[str, WorkerThread] = {}
        self._line: HostEnd | None = None
        self._beater: subprocess.Popen[bytes] | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{OUR_THREADS}host", daemon=True)
        self.stopping = threading.Event()
        self.ready = threading.Event()
        self.settled = threading.Event()  # set while it works, or once it never will again
        self.failure: ConfigurationError | None = None

    @property
    def beater_pid(self) -> int | None:
        """The number of the process that beats, while there is one."""
        return None if self._beater is None else self._beater.pid

    def start(self) -> None:
        """Begin, in a thread."""
        self._thread.start()
        self.hooks.begin()

    def stop(self, grace: float) -> None:
        """Stop within the grace and a little more; what still runs then is given back once this process is gone."""
        self.stopping.set()
        self.settled.set()
        ends_at = time.monotonic() + grace + LAST_WORDS + FLUSH_LIMIT
        with self._changing:
            lives = list(self._lives.values())
            if self._line is not None:
                self._line.say(StopAll())
        for life in lives:
            life.retire(grace)
        with self._changing:
            self._changing.wait_for(lambda: not self._lives, ends_at - time.monotonic())
            left = sum(life.running for life in self._lives.values())
        if not left and self._thread.is_alive():
            self._over.wait(max(ends_at - time.monotonic(), GIVEN_BACK_WITHIN))
        self.hooks.end()
        self._app.events.emit(HostStopped(left))

    def runs_this(self) -> bool:
        """Tell whether the present code is a handler that runs here."""
        attempt = current_attempt.get()
        if attempt is None:
            return False
        with self._changing:
            return any(life.runs(attempt) for life in self._lives.values())

    def forget(self) -> None:
        """Let go of all in a forked process: it is the parent's."""
        if self._line is not None:
            self._line.close()
        for life in self._lives.values():
            life.forget()

    # -- the beater --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = FIRST_PAUSE
        try:
            while not self.stopping.is_set() and self.failure is None:
                begun = time.monotonic()
                reason = self._with_beater()
                if self.stopping.is_set() or self.failure is not None:
                    break
                if time.monotonic() - begun >= SETTLED_AFTER:
                    pause = FIRST_PAUSE
                self._app.events.emit(BeaterLost(reason, pause))
                self.stopping.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        except Exception as error:
            log.exception("the host of the worker inside this process failed: no job runs here any more")
            self.failure = ConfigurationError(f"the host failed: {error!r}")
        finally:
            self._over.set()
            self._not_ready()
            self.settled.set()

    def _with_beater(self) -> str:
        """Have a beater until it ends; return why it did."""
        ours, theirs = socket.socketpair()
        with theirs:
            # -P: it looks where this process looks, and not first of all in the folder that it happens to be in.
            command = [interpreter(), "-P", "-m", "standfast.hosts.beater", str(theirs.fileno())]
            environment = {**os.environ, URL_VARIABLE: self._begin.url, "PYTHONPATH": import_path()}
            try:
                beater = subprocess.Popen(  # noqa: S603 - our own interpreter
                    command,
                    pass_fds=[theirs.fileno()],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                return str(error)
        line, self._beater = HostEnd(ours, SILENCE), beater
        line.say(self._begin)
        with self._changing:
            self._line = line
            if self.stopping.is_set():
                line.say(StopAll())
        try:
            why = self._hear(line)
        finally:
            with self._changing:
                self._line = None
            line.close()
            self._not_ready()
        self._beater, status = None, _reaped(beater, at_once=bool(why))
        return why or f"it ended with status {status}"

    def _hear(self, line: HostEnd) -> str:
        """Heed what the beater says until it says no more; return why it has to be ended, if it has to."""
        silent = False
        while True:
            try:
                word = line.hear()
            except TimeoutError:
                if silent:
                    return f"it said nothing for {2 * SILENCE:g} s"
                silent = True  # this process may have stood still itself
                continue
            if word is None:
                return ""
            silent = False
            self._heed(line, word)

    def _heed(self, line: HostEnd, word: FromBeater) -> None:
        match word:
            case Adopt(worker=worker):
                self._adopt(line, worker)
            case AskStacks():
                line.say(Stacks(_stacks()))
            case Said():
                write(word)
            case GaveUp(reason=reason, wrong=wrong):
                log.error("no job runs in this process: %s", reason)
                if wrong:
                    self.failure = ConfigurationError(reason)
            case Alive():
                self._tick()

    # -- lives -------------------------------------------------------------------------------------------------

    def _adopt(self, line: HostEnd, worker: str) -> None:
        end, lock = line.files(2)

        def over(life: WorkerThread, error: str) -> None:
            line.say(Left(life.worker, error))
            with self._changing:
                del self._lives[life.worker]
                if not self._lives:
                    self._not_ready()
                self._changing.notify_all()

        life = WorkerThread(self._app, worker, self.hooks, self.beater_pid or 0, ready=self._works, over=over)
        with self._changing:
            self._lives[worker] = life
        life.begin(end, lock)
        line.say(Taken(worker))

    def _works(self, ready: HostReady) -> None:
        self._app.events.emit(ready)
        self.ready.set()
        self.settled.set()

    def _not_ready(self) -> None:
        with self._changing:
            self.ready.clear()
            if not (self.stopping.is_set() or self._over.is_set()):
                self.settled.clear()


def import_path() -> str:
    """Return where this process looks for modules: a server may have been told of folders that no other knows."""
    return os.pathsep.join(str(Path(folder).absolute()) for folder in sys.path)


def interpreter() -> str:
    """Return the Python of this process: where it is inside a web server's own binary, that of its environment."""
    if "python" in Path(sys.executable or "").name or "pypy" in Path(sys.executable or "").name:
        return sys.executable
    found = Path(sys.prefix) / "bin" / "python3"
    if not found.exists():
        raise ConfigurationError(f"there is no Python to start a beater with: {found} does not exist")
    return str(found)


def _reaped(beater: "subprocess.Popen[bytes]", *, at_once: bool) -> int:
    """Return the status of a beater that has said its last word; one that does not end is killed."""
    try:
        return beater.wait(0 if at_once else GIVEN_BACK_WITHIN)
    except subprocess.TimeoutExpired:
        beater.kill()
        return beater.wait()


def _stacks() -> str:
    """Return where all threads of this process are."""
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read().decode(errors="replace")
