"""Bind a worker to a web app: it starts where, and as soon as, this process serves requests."""

import inspect
import logging
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from standfast.app import Standfast
from standfast.errors import ConfigurationError, StandfastError
from standfast.hosts.detection import Decision, Verdict, decide, frames_from, scene_here
from standfast.hosts.host import Host, HostState, has_host
from standfast.model.suggestions import refuse_unknown
from standfast.observe.logs.job_log import OUR_THREADS
from standfast.settings import HOST_VARIABLE

OPTIONS = tuple(name for name in inspect.signature(Host).parameters if name != "app")


def host_for(where: str, app: Standfast | Host, options: dict[str, Any]) -> Host:
    """Return the host that works for an app, or the one that is given. Raises ConfigurationError."""
    if isinstance(app, Host):
        if options:
            raise ConfigurationError(
                f"{where}: give {', '.join(options)} to Host(…) itself: this one is made already"
            )
        return app
    if not isinstance(app, Standfast):
        raise ConfigurationError(
            f"{where} works for a Standfast app, not for a {type(app).__name__}: write lifespan(app), or"
            " bind(web, app) with the web app first"
        )
    refuse_unknown(where, options, OPTIONS)
    return Host(app, **options)


def refuse_asgi(web: Any) -> None:
    """Raise ConfigurationError for an ASGI app where one of WSGI is bound: it would not hear its server stop."""
    if inspect.iscoroutinefunction(web) or inspect.iscoroutinefunction(
        inspect.getattr_static(type(web), "__call__", None)
    ):
        raise ConfigurationError(
            f"a {type(web).__name__} is an ASGI app: take bind or lifespan from standfast.hosts.asgi"
        )


def refuse_wsgi(web: Any) -> None:
    """Raise ConfigurationError for a WSGI app where one of ASGI is bound: no server would ever start its worker."""
    if callable(getattr(web, "wsgi_app", None)):
        raise ConfigurationError(f"a {type(web).__name__} is a WSGI app: take bind from standfast.hosts.wsgi")


# A module that binds is still being imported, and may declare tasks below that line. So the start waits, in a thread,
# until whoever imports it is done; inside gunicorn until its worker is up, which by then has given up its privileges.

log = logging.getLogger(__name__)

LOOK_EVERY = 0.02
SAID_AFTER = 4.0
"""Seconds after which it is said that a host does not work, as nobody knows whether it is to."""

NO_LIFESPAN = (
    "this server has not sent a lifespan (daphne never does): the worker starts without, and stops with its process"
)

SPAWNING = ("gunicorn.arbiter", "spawn_worker")
"""Where gunicorn forks a worker, and where that then lives."""

_bound: "weakref.WeakKeyDictionary[Standfast, Host]" = weakref.WeakKeyDictionary()
"""The hosts that start by themselves in this process."""

_after_fork: dict[Host, Callable[[], object]] = {}
"""What is to be done for a host in each worker that is forked from this process."""


def start_if_serving(host: Host, decision: Decision | None = None) -> Decision:
    """Have a host start by itself, if this process serves requests, or those that it forks; return the decision.

    Raises ConfigurationError where another host does so for the same app.
    """
    decision = decide(scene_here(2)) if decision is None else decision
    if decision.verdict in {Verdict.SERVES, Verdict.AFTER_FORK}:
        other = _bound.setdefault(host.app, host)
        if other is not host and other.state is not HostState.STOPPED:
            raise ConfigurationError(
                "this app is bound to a host already: bind it once in a process, or give each host its own app"
            )
        _bound[host.app] = host
    if decision.deaf:
        leave_in_order()
    match decision.verdict:
        case Verdict.SERVES if host.required:
            host.start()
        case Verdict.SERVES:
            start_soon(host)
        case Verdict.AFTER_FORK:
            _do_after_fork(host, partial(start_soon, host))
        case Verdict.NOT:
            log.debug("no job runs in this process: %s", decision.reason)
        case Verdict.UNKNOWN:
            _look_later(partial(_say_unknown, host, decision.reason))
    return decision


def expect_lifespan(host: Host, came: Callable[[], bool], *, alone: bool) -> None:
    """Start the worker some seconds after the import, with a warning, where a server never sends a lifespan.

    Where the user has a lifespan of their own, and so ours is not `alone`, an error is logged instead: that is not
    entered either, and handlers may need what it sets up.
    """
    scene = scene_here(3)
    decision = decide(scene)
    if not scene.server:
        return  # who starts a server in code of their own may take their time before that
    if decision.deaf:
        leave_in_order()
    look = partial(_without_lifespan, host, came, decision, alone=alone)
    match decision.verdict:
        case Verdict.SERVES | Verdict.UNKNOWN:
            _look_later(look)
        case Verdict.AFTER_FORK:
            _do_after_fork(host, partial(_look_later, look))


def leave_in_order() -> None:
    """Let SIGTERM end this process as Ctrl-C does, where nobody has said what it means: else no job is told."""
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def start_soon(host: Host) -> None:
    """Start a host as soon as those who call now have finished their imports, and gunicorn's worker is up."""
    until = _until_imported()
    threading.Thread(target=_start, args=(host, until), name=f"{OUR_THREADS}host-start", daemon=True).start()


def _start(host: Host, until: Callable[[], bool]) -> None:
    while not until():
        time.sleep(LOOK_EVERY)
    try:
        host.start()
    except StandfastError as error:
        log.error("no job runs in this process: %s", error)  # noqa: TRY400 - it names the remedy


def _until_imported() -> Callable[[], bool]:
    """Return what tells whether the modules that are being imported here are there, and the server is up."""
    specs, workers = [], []
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way
    names = frames_from(frame)
    at: Any = frame
    for name, function in names:
        if function == "<module>":
            specs.append(getattr(sys.modules.get(name), "__spec__", None))
        elif (name, function) == SPAWNING:
            workers.append(at.f_locals.get("worker"))
        at = at.f_back

    def done() -> bool:
        imported = not any(getattr(spec, "_initializing", False) for spec in specs)
        return imported and all(getattr(worker, "booted", True) for worker in workers)

    return done


def _do_after_fork(host: Host, then: Callable[[], object]) -> None:
    if not _after_fork:
        os.register_at_fork(after_in_child=_forked_by_gunicorn)
        _hook_uwsgi()
    _after_fork[host] = then


def _forked_by_gunicorn() -> None:
    """Start hosts in a new worker of gunicorn: its master forks for other things, too, and so do its workers."""
    module, function = frames_from(sys._getframe(1))[0]  # noqa: SLF001 - the documented way
    if (module, function) == SPAWNING:
        for then in _after_fork.values():
            then()
    elif module.startswith("gunicorn") and "dirty" not in function:
        for host in _after_fork:
            _look_later(partial(_say_unknown, host, f"gunicorn forked it by {function}, which is not known"))


def _hook_uwsgi() -> None:
    """Have uWSGI start hosts in its workers, after what it calls there already."""
    uwsgi = sys.modules.get("uwsgi")
    if uwsgi is None:
        return
    before = getattr(uwsgi, "post_fork_hook", None)

    def forked() -> None:
        if before is not None:
            before()
        if decide(scene_here()).verdict is Verdict.SERVES:
            for then in _after_fork.values():
                then()

    uwsgi.post_fork_hook = forked  # type: ignore[attr-defined]


def _look_later(look: Callable[[], object]) -> None:
    """Look a while after those who call now have finished their imports."""
    until = _until_imported()

    def wait() -> None:
        time.sleep(SAID_AFTER)
        while not until():
            time.sleep(LOOK_EVERY)
        look()

    threading.Thread(target=wait, name=f"{OUR_THREADS}host-look", daemon=True).start()


def _say_unknown(host: Host, reason: str) -> None:
    if host.state is HostState.NEW:
        log.warning(
            "no job runs in this process: %s; if it does, set %s=on or call Host.start(), else %s=off",
            reason,
            HOST_VARIABLE,
            HOST_VARIABLE,
        )


def _without_lifespan(host: Host, came: Callable[[], bool], decision: Decision, *, alone: bool) -> None:
    if came() or host.state is not HostState.NEW or has_host(host.app):
        return
    if decision.verdict is Verdict.UNKNOWN:
        _say_unknown(host, decision.reason)
    elif alone:
        log.warning(NO_LIFESPAN)
        start_if_serving(host, Decision(Verdict.SERVES, decision.reason))
    else:
        log.error(
            "no job runs in this process: its server sends no lifespan, so what your own lifespan sets up is not"
            " there; take a server that does, such as uvicorn or hypercorn, or call Host.start()"
        )
