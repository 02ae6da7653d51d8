"""The stay of a worker in this process, from a start to a stop: its beater, kept alive, and its lives.

    beater starts ─► it sends a line: a life begins ─► … ─► stop: lives end, then the beater
          ▲                                                  │
          └──── it is gone: its lives end as lost ◄──────────┘  (unless something is wrong that trying mends not)

One thread has the beater and hears it. All threads are daemons: none keeps the process.
"""

import faulthandler
import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from standfast.app import Standfast
from standfast.durable.here import attempt_here
from standfast.errors import ConfigurationError
from standfast.events import BeaterLost, HostReady, HostStopped
from standfast.host.life import Life
from standfast.host.messages import (
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
)
from standfast.host.presence import Presence
from standfast.host.relay import write
from standfast.settings import URL_VARIABLE
from standfast.worker.logtail import OUR_THREADS
from standfast.worker.worker import FLUSH_LIMIT, LAST_WORDS

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
SETTLED_AFTER = 60.0
"""Seconds after which the end of a beater is a new trouble, and no more of the one before."""

SILENCE = 30.0
"""Seconds without a word after which a beater is looked at twice, and then replaced."""

GIVEN_BACK_WITHIN = 5.0
"""Seconds for the beater to give back what is left, and to end."""


class Stay:
    """One worker, or one after the other, in this process. `tick` is called about every second."""

    def __init__(self, app: Standfast, begin: Begin, tick: Callable[[], None], *, whole: bool = False) -> None:
        self._app = app
        self._begin = begin
        self._tick = tick
        self.presence = Presence(whole=whole)
        self._changing = threading.Condition()
        self._lives: dict[str, Life] = {}
        self._line: HostEnd | None = None
        self._beater: subprocess.Popen[bytes] | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{OUR_THREADS}host", daemon=True)
        self.stopping = threading.Event()
        self.ready = threading.Event()
        self.settled = threading.Event()
        """Set while it works, or once it never will again."""
        self.failure: ConfigurationError | None = None

    @property
    def beater_pid(self) -> int | None:
        """The number of the process that beats, while there is one."""
        return None if self._beater is None else self._beater.pid

    def start(self) -> None:
        """Begin, in a thread."""
        self._thread.start()
        self.presence.begin()

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
        self.presence.end()
        self._app.events.emit(HostStopped(left))

    def runs_this(self) -> bool:
        """Tell whether the present code is a handler that runs here."""
        attempt = attempt_here.get()
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
            command = [interpreter(), "-P", "-m", "standfast.host.beater", str(theirs.fileno())]
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

        def over(life: Life, error: str) -> None:
            line.say(Left(life.worker, error))
            with self._changing:
                del self._lives[life.worker]
                if not self._lives:
                    self._not_ready()
                self._changing.notify_all()

        life = Life(self._app, worker, self.presence, self.beater_pid or 0, ready=self._works, over=over)
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
