"""A host: the process of a web server, or of anything else, in which a worker runs jobs besides."""

import asyncio
import atexit
import logging
import os
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import Context, copy_context
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Self

from standfast.app import Standfast
from standfast.errors import ConfigurationError, StandfastError
from standfast.hosts.detection import in_our_own_process, refuse_greenlets, switched
from standfast.hosts.embedded import EmbeddedWorker
from standfast.hosts.exit_threads import start_spare_threads, use_spare_threads
from standfast.hosts.ipc import Begin
from standfast.hosts.metrics import count_here
from standfast.model.clock import SystemClock
from standfast.model.policy import Isolation
from standfast.model.validation import Seconds, as_seconds
from standfast.observe.logs.attach import log_events_as_records
from standfast.observe.logs.job_log import OUR_THREADS
from standfast.observe.logs.narrator import Narrator
from standfast.settings import Loaded
from standfast.stores.url import absolute_url
from standfast.worker.options import ServedQueues, read_queues


class SwitchInterval:
    """Shortens the turns of this process, and gives back what was there, unless somebody has set them since."""

    def __init__(self) -> None:
        self._before: float | None = None
        self._ours: float | None = None

    def begin(self, seconds: float | None) -> None:
        """Let a turn last no longer than this; None leaves it as it is, and so does one that is shorter already."""
        if seconds is None or self._ours is not None or sys.getswitchinterval() <= seconds:
            return
        self._before = sys.getswitchinterval()
        sys.setswitchinterval(seconds)
        self._ours = sys.getswitchinterval()

    def end(self) -> None:
        """Give back what was there before."""
        before, ours = self._before, self._ours
        self._before = self._ours = None
        if before is not None and sys.getswitchinterval() == ours:
            sys.setswitchinterval(before)


@dataclass(frozen=True, slots=True)
class Target:
    """MODULE:APP and where MODULE is looked for first; no name where nobody else could load it."""

    name: str
    app_dir: str = "."


def find_target(
    app: Standfast, given: str | None = None, modules: Mapping[str, ModuleType] | None = None
) -> Target:
    """Return how to load an app: as given, or from the module that has it, the one with most of its tasks first.

    The script that runs has no such name: to load it is to run it again. Raises ConfigurationError where a task of
    the app needs a process of its own, and nobody knows what to load there.
    """
    loaded = sys.modules if modules is None else modules
    if given is not None:
        module, colon, name = given.partition(":")
        if not (module and colon and name):
            raise ConfigurationError(f"target={given!r} is not MODULE:APP; write e.g. target='shop.jobs:app'")
        if module not in loaded and not _is_there(module):
            raise ConfigurationError(
                f"target={given!r}: there is no module {module!r}; write it as an import in this process would"
            )
        return Target(given, _folder_of(module, loaded.get(module)))
    homes = [task.fn.__module__ for task in app.tasks.values()]
    found = sorted(_places(app, loaded), key=lambda place: -homes.count(place[0]))
    if found:
        module, name = found[0]
        return Target(f"{module}:{name}", _folder_of(module, loaded[module]))
    isolated = [task.name for task in app.tasks.values() if task.policy.isolation is Isolation.PROCESS]
    if isolated:
        raise ConfigurationError(
            f"task {isolated[0]!r} runs in a process of its own, and what to load there is not known: define the"
            " app at the top of a module, or give target='MODULE:APP'"
        )
    return Target("")


def _is_there(module: str) -> bool:
    """Tell whether a module could be imported here. The packages that it is in are."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _places(app: Standfast, modules: Mapping[str, ModuleType]) -> Iterator[tuple[str, str]]:
    """Yield in which modules an app is, and under which name: the last imported first, others import from it."""
    for module_name, module in reversed(list(modules.items())):
        if module_name == "__main__" or not isinstance(module, ModuleType):
            continue
        for name, value in list(vars(module).items()):
            if value is app and not name.startswith("_"):
                yield module_name, name


def _folder_of(module_name: str, module: ModuleType | None) -> str:
    """Return the folder from which a module is imported by its name."""
    file = getattr(module, "__file__", None)
    if file is None:
        return str(Path.cwd())
    path = Path(file).absolute()
    depth = module_name.count(".") + (path.name == "__init__.py")
    return str(path.parents[depth])


# new ─► starting ─► working ◄─► starting (its beater was lost) ─► stopping ─► stopped ─► starting; or failed, or off

log = logging.getLogger(__name__)


class HostState(StrEnum):
    """How a host is doing."""

    NEW = "new"
    STARTING = "starting"
    WORKING = "working"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    OFF = "off"


class Host:
    """A worker for `app` inside this process, in threads of its own, beside what the process does otherwise.

    concurrency, queues (as in `mail=3,reports`), lease and grace are as of `standfast worker`; target is
    MODULE:APP, by which another process loads the app where a job needs one, and is found out unless it is
    given. With `required`, `start` returns when the worker is ready, and raises an error if it cannot be within
    `start_within` seconds; otherwise it returns at once, and what goes wrong is in the log. With
    `stray_exceptions` also those are incidents that nobody heard in this process though no job is behind them:
    in its threads and its event loop.
    """

    _embedded: EmbeddedWorker | None
    _changing: AbstractContextManager[bool]

    def __init__(
        self,
        app: Standfast,
        *,
        concurrency: int | None = None,
        queues: str | None = None,
        grace: Seconds | None = None,
        lease: Seconds | None = None,
        target: str | None = None,
        required: bool = False,
        start_within: Seconds = 30,
        stray_exceptions: bool = False,
    ) -> None:
        if not isinstance(app, Standfast):
            raise ConfigurationError(f"a host works for a Standfast app, not for a {type(app).__name__}")
        self.app = app
        self.required = required
        self._stray_exceptions = stray_exceptions
        self._start_within = float(as_seconds(start_within))
        self._target = target
        self._queues = None if queues is None else read_named(queues)
        self._given = {"concurrency": concurrency, "grace": as_seconds(grace), "lease": as_seconds(lease)}
        self._settings = Loaded(app.settings, app.settings_from).overridden(**self._given).settings
        self._off = False
        self._begin_anew()
        _ALL.add(self)

    @property
    def state(self) -> HostState:
        """How it is doing."""
        embedded = self._embedded
        if embedded is None:
            if self._off:
                return HostState.OFF
            return HostState.STOPPED if self._was_stopped else HostState.NEW
        if embedded.stopping.is_set():
            return HostState.STOPPING
        if embedded.failure is not None:
            return HostState.FAILED
        return HostState.WORKING if embedded.ready.is_set() else HostState.STARTING

    @property
    def beater_pid(self) -> int | None:
        """The number of the process that beats for the worker, while there is one."""
        return None if self._embedded is None else self._embedded.beater_pid

    def ready(self, timeout: Seconds | None = None) -> bool:
        """Wait until the worker is ready, but no longer than this; tell whether it is."""
        embedded = self._embedded
        if embedded is not None:
            embedded.settled.wait(as_seconds(timeout))
        return self.state is HostState.WORKING

    def start(self) -> None:
        """Begin to work, if it does not yet. Raises ConfigurationError where it never can.

        In a process of Standfast's own, which has imported your module, and where STANDFAST_HOST is `off`, it stays
        off.
        """
        with self._changing:  # who starts while another stops waits for it
            if self._embedded is not None:
                return
            if switched() is False or in_our_own_process():
                self._off = True
                log.debug("the host stays off in this process")
                return
            other = _RUNNING.get(id(self.app))
            if other is not None and other is not self:
                raise ConfigurationError(
                    "this app has a host in this process already: bind it once, or stop the other host first"
                )
            refuse_greenlets()
            begin = self._begin()
            count_here(self.app, begin.metrics_dir)
            embedded = EmbeddedWorker(self.app, begin, _narrator_of(self.app).tick, whole=self._stray_exceptions)
            _stop_at_exit()
            # Noted before its start: SIGTERM may end this process during it, and then stops what is noted.
            self._embedded, self._off, self._was_stopped = embedded, False, False
            _RUNNING[id(self.app)] = self
            embedded.start()
            self.app.background.open()
            adaptive = self.app.limits.adaptive
            self._switch_interval.begin(None if adaptive is None else adaptive.turn)
        if self.required:
            self._demand(embedded)

    def hear_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """With `stray_exceptions`, hear of tasks and callbacks of this event loop, too, until the next stop."""
        if (embedded := self._embedded) is not None:
            embedded.hooks.hear_loop(loop)

    def stop(self, grace: Seconds | None = None) -> None:
        """Stop: take nothing more, tell running jobs, wait for them, give back what is unfinished. Bounded.

        Work of `app.background` is told at the same time, and has as long.
        `grace` may be shorter than that of the host. Who calls while another does waits for it; afterwards it
        returns at once. Handlers that do not end are given back when their process is gone. A signal handler may
        call it, also in the middle of a stop. A job that stops the host which runs it does not wait for itself: it
        returns at once, and is told like any other.
        """
        if (embedded := self._embedded) is not None and embedded.runs_this():
            _stopping(self, grace)
            return
        with self._changing:
            embedded = self._embedded
            if embedded is None:
                return
            given = as_seconds(grace)
            allowed = self._settings.grace if given is None else min(given, self._settings.grace)
            here = copy_context()  # work in the background that stops its host does not wait for itself
            close = partial(here.run, self.app.background.close, allowed)
            beside = threading.Thread(target=close, name=f"{OUR_THREADS}host-stop", daemon=True)
            beside.start()
            embedded.stop(allowed)
            beside.join()
            if self._embedded is embedded:
                self._switch_interval.end()
                self._embedded, self._was_stopped = None, True
                _RUNNING.pop(id(self.app), None)

    async def astart(self) -> None:
        """Begin to work without blocking the event loop."""
        await asyncio.to_thread(self.start)

    async def astop(self, grace: Seconds | None = None) -> None:
        """Stop without blocking the event loop."""
        await asyncio.to_thread(self.stop, grace)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await self.astart()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.astop()

    def _begin(self) -> Begin:
        target, settings = find_target(self.app, self._target), self._settings
        return Begin(
            host=os.getpid(),
            target=target.name,
            app_dir=target.app_dir,
            url=absolute_url(settings.url),
            concurrency=self._given["concurrency"],
            queues=self._queues,
            lease=self._given["lease"],
            grace=self._given["grace"],
            metrics_dir=None if settings.metrics_dir is None else str(Path(settings.metrics_dir).absolute()),
        )

    def _demand(self, embedded: EmbeddedWorker) -> None:
        """Wait until it works, or raise the error that says why it does not."""
        embedded.settled.wait(self._start_within)
        if embedded.ready.is_set():
            return
        failure = embedded.failure or StandfastError(
            f"the worker inside this process was not ready within {self._start_within:g} s: see the log"
        )
        self.stop(0)
        raise failure

    def _forget(self) -> None:
        """Be as new in a forked process: what runs belongs to the parent."""
        if self._embedded is not None:
            self._embedded.forget()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._embedded = None
        self._switch_interval = SwitchInterval()
        self._was_stopped = False
        self._changing = threading.RLock()  # a signal handler may stop it in the middle of a stop


def read_named(queues: str) -> ServedQueues:
    """Return the queues that a text names, by weight."""
    return ServedQueues.by_weight(read_queues(queues, 'queues="critical=6,mail=3"'))


# -- one for each process --------------------------------------------------------------------------------------

_RUNNING: dict[int, Host] = {}  # the hosts that run in this process, by the identity of their apps


def has_host(app: Standfast) -> bool:
    """Tell whether a host of this app runs in this process."""
    return id(app) in _RUNNING


_ALL: "weakref.WeakSet[Host]" = weakref.WeakSet()
"""All hosts of this process: a fork may come while one that is not among those starts or stops."""

_NARRATORS: "weakref.WeakKeyDictionary[Standfast, Narrator]" = weakref.WeakKeyDictionary()
_at_exit: list[int] = []


def _narrator_of(app: Standfast) -> Narrator:
    """Return who tells of the events of an app in the host's log: one, however often the host starts."""
    narrator = _NARRATORS.get(app)
    if narrator is None:
        narrator = _NARRATORS[app] = log_events_as_records(app.events, SystemClock())
    return narrator


def _stop_at_exit() -> None:
    """Have all hosts stopped when the interpreter ends, before it ends the thread pools that stores work with."""
    if os.getpid() in _at_exit:
        return
    start_spare_threads()
    register = getattr(threading, "_register_atexit", atexit.register)
    try:
        import concurrent.futures.thread  # noqa: F401, PLC0415 - what is registered later is called earlier

        register(_stop_all)
    except RuntimeError as error:  # nobody would stop it
        raise StandfastError("this process is about to end, and no worker begins in it now") from error
    _at_exit[:] = [os.getpid()]


def _stop_all() -> None:
    """Stop them at the same time: one grace is what a server allows for all."""
    use_spare_threads()
    for stopping in [_stopping(host) for host in list(_RUNNING.values())]:
        stopping.join()


def _stopping(host: Host, grace: Seconds | None = None) -> threading.Thread:
    """Stop a host in a thread, where the present code is not known, and return that."""
    stopping = threading.Thread(
        target=Context().run, args=(host.stop, grace), name=f"{OUR_THREADS}host-stop", daemon=True
    )
    stopping.start()
    return stopping


def _forget_all() -> None:
    _RUNNING.clear()
    for host in list(_ALL):
        host._forget()  # noqa: SLF001 - of the same module


os.register_at_fork(after_in_child=_forget_all)
