"""Whether this process serves requests, so that a worker may live in it."""

import multiprocessing
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import FrameType

from standfast.errors import ConfigurationError
from standfast.settings import HOST_VARIABLE

_OUR_PROCESSES = ("standfast.hosts.child", "standfast.hosts.subprocess", "standfast.hosts.beater")


def switched(environ: Mapping[str, str] | None = None) -> bool | None:
    """Return what STANDFAST_HOST says; None where it says nothing."""
    said = (os.environ if environ is None else environ).get(HOST_VARIABLE, "").strip().lower()
    if said in {"", "auto"}:
        return None
    if said in {"on", "1", "true", "yes"}:
        return True
    if said in {"off", "0", "false", "no"}:
        return False
    raise ConfigurationError(f"{HOST_VARIABLE} is {said!r}; it takes `on` or `off`")


def in_our_own_process(main: str | None = None, argv: Sequence[str] | None = None) -> bool:
    """Tell whether this is a process of Standfast's own, by what runs in it: they import users' modules, too."""
    if main is None:
        spec = getattr(sys.modules.get("__main__"), "__spec__", None)
        main = getattr(spec, "name", "") or ""
    typed = getattr(sys, "argv", ()) if argv is None else argv
    return main.startswith(_OUR_PROCESSES) or (bool(typed) and Path(typed[0]).name == "standfast")


def refuse_greenlets(modules: Mapping[str, object] | None = None) -> None:
    """Raise ConfigurationError where threads are none: a handler would hold up requests, and requests handlers."""
    monkey = (sys.modules if modules is None else modules).get("gevent.monkey")
    if monkey is not None and getattr(monkey, "is_module_patched", lambda _: False)("threading"):
        raise ConfigurationError(
            "gevent has replaced Python's threads, and a worker needs real ones: run `standfast worker` beside this"
            " process, or take gunicorn's gthread workers"
        )


# A worker lives in processes that serve requests, and in no others. Server frames may show that a process serves,
# never that it does not, because their names change between releases: for that it takes the command line, the
# environment, or how the process was started. What is looked at is a `Scene`, so all this can be tested without a
# server.


class Verdict(Enum):
    """What becomes of a host that is bound to a web app."""

    SERVES = "serves"
    AFTER_FORK = "after a fork"
    NOT = "not"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict, and what it was reached by. `deaf`: the server leaves SIGTERM to Python, which ends at once."""

    verdict: Verdict
    reason: str
    deaf: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """What can be seen of this process: who called, as (module, function), what was typed, what is loaded."""

    frames: Sequence[tuple[str, str]] = ()
    argv: Sequence[str] = ()
    main: str = ""
    modules: Collection[str] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    interactive: bool = False
    uwsgi_worker: int | None = None
    """The number of this worker inside uWSGI: 0 in its master, -1 in a mule or a spooler; None elsewhere."""
    spawned: bool = False
    """Whether Python's `multiprocessing` started this process, as it does for workers of uvicorn and hypercorn."""

    def called_by(self, module: str, *functions: str) -> bool:
        """Tell whether one of these functions, or any, of a module or package called."""
        return any(
            (name == module or name.startswith(f"{module}.")) and (not functions or function in functions)
            for name, function in self.frames
        )

    @property
    def program(self) -> str:
        """What was started: the name of the script, or of the package that was run as one."""
        if self.main:
            return self.main.removesuffix(".__main__")
        return Path(self.argv[0]).name if self.argv else ""

    def option(self, *names: str) -> str | None:
        """Return what follows one of these options on the command line, "" where that is all; None without it."""
        for word, following in zip(self.argv, [*self.argv[1:], ""], strict=False):
            name, equals, value = word.partition("=")
            if name in names:
                return value if equals else following
        return None

    @property
    def server(self) -> str:
        """The web server by which this is called, or whose program this is; "" where none is known."""
        packages = {name.partition(".")[0] for name, _ in self.frames} | {self.program.partition("-")[0]}
        return next((name for name in SERVERS if name in packages), "")


SERVERS = ("gunicorn", "uvicorn", "hypercorn", "daphne", "waitress")


def decide(scene: Scene) -> Decision:
    """Return what becomes of a host in this process, as far as that can be seen."""
    for look in (_said, _ours, _tested, _gunicorn, _uwsgi, _mod_wsgi, _servers, _django, _flask, _shell):
        decision = look(scene)
        if decision is not None:
            return decision
    of = f" of {scene.server}" if scene.server else ""
    return Decision(Verdict.UNKNOWN, f"it is not known whether this process{of} serves requests")


def decide_for_server(scene: Scene) -> Decision:
    """Return what becomes of a host whose server has just said that it serves: it works, but in a test."""
    for look in (_said, _ours, _tested):
        decision = look(scene)
        if decision is not None:
            return decision
    return Decision(Verdict.SERVES, "the server has said so")


def scene_here(depth: int = 1) -> Scene:
    """Look at this process, from where this is called."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return Scene(
        frames=tuple(frames_from(sys._getframe(depth))),  # noqa: SLF001 - the documented way
        argv=tuple(getattr(sys, "argv", ())),
        main=getattr(spec, "name", "") or "",
        modules=frozenset(sys.modules),
        environ=dict(os.environ),
        interactive=hasattr(sys, "ps1") or bool(sys.flags.interactive),
        uwsgi_worker=_uwsgi_worker(),
        spawned=multiprocessing.parent_process() is not None,
    )


def frames_from(frame: FrameType | None) -> list[tuple[str, str]]:
    """Return module and function of a frame and all that called it, the innermost first."""
    found = []
    while frame is not None:
        found.append((str(frame.f_globals.get("__name__", "")), frame.f_code.co_name))
        frame = frame.f_back
    return found


def reloads_here(environ: Mapping[str, str], variable: str) -> bool:
    """Tell whether this is the process that a reloader keeps starting anew, rather than the reloader."""
    return environ.get(variable) == "true"


# -- one look at a time, in this order -------------------------------------------------------------------------


def _said(scene: Scene) -> Decision | None:
    said = switched(scene.environ)
    if said is None:
        return None
    return (
        Decision(Verdict.SERVES, "STANDFAST_HOST is on") if said else Decision(Verdict.NOT, "STANDFAST_HOST is off")
    )


def _ours(scene: Scene) -> Decision | None:
    if in_our_own_process(scene.main, scene.argv):
        return Decision(Verdict.NOT, "this is a process of Standfast's own")
    return None


def _tested(scene: Scene) -> Decision | None:
    if "PYTEST_CURRENT_TEST" in scene.environ or scene.program in {"pytest", "py.test", "unittest"}:
        return Decision(Verdict.NOT, "this is a test; STANDFAST_HOST=on overrides")
    return None


def _gunicorn(scene: Scene) -> Decision | None:
    if not scene.called_by("gunicorn"):
        return None
    if scene.called_by("gunicorn.dirty"):
        return Decision(Verdict.NOT, "this is a dirty worker of gunicorn, which serves no requests")
    if scene.called_by("gunicorn.workers") or scene.called_by("gunicorn.arbiter", "spawn_worker"):
        return Decision(Verdict.SERVES, "this is a worker of gunicorn")
    if {"--check-config", "--print-config"} & set(scene.argv):
        return Decision(Verdict.NOT, "gunicorn only looks at its configuration")
    return Decision(Verdict.AFTER_FORK, "this is gunicorn's master: its workers are forked from it")


def _uwsgi(scene: Scene) -> Decision | None:
    match scene.uwsgi_worker:
        case None:
            return None
        case 0:
            return Decision(Verdict.AFTER_FORK, "this is uWSGI's master: its workers are forked from it")
        case -1:
            return Decision(Verdict.NOT, "this process of uWSGI serves no requests")
        case _:
            return Decision(Verdict.SERVES, "this is a worker of uWSGI")


def _mod_wsgi(scene: Scene) -> Decision | None:
    return Decision(Verdict.SERVES, "this is mod_wsgi") if "mod_wsgi" in scene.modules else None


def _servers(scene: Scene) -> Decision | None:
    if scene.called_by("uvicorn"):
        return _uvicorn(scene)
    if scene.called_by("hypercorn"):
        return _hypercorn(scene)
    if scene.called_by("daphne.cli") or scene.program == "daphne":
        return Decision(Verdict.SERVES, "this is daphne, which sends no lifespan")
    if scene.called_by("waitress.runner") or scene.program in {"waitress", "waitress-serve"}:
        return Decision(Verdict.SERVES, "this is waitress", deaf=True)
    return None


def _uvicorn(scene: Scene) -> Decision | None:
    serves = Decision(Verdict.SERVES, "this is uvicorn", deaf=scene.option("--lifespan") == "off")
    if scene.spawned or scene.called_by("uvicorn.server"):
        return serves
    if scene.option("--reload") is not None or scene.option("--workers") not in {None, "1"}:
        return Decision(Verdict.NOT, "this is uvicorn, which has others serve")
    if scene.called_by("uvicorn.config", "load", "load_app"):
        return serves
    return None


def _hypercorn(scene: Scene) -> Decision | None:
    if scene.spawned or scene.called_by("hypercorn.asyncio") or scene.called_by("hypercorn.trio"):
        return Decision(Verdict.SERVES, "this is a worker of hypercorn")
    if scene.option("-w", "--workers") != "0" and scene.option("-c", "--config") is None:
        return Decision(Verdict.NOT, "this is hypercorn, which has others serve")
    return None


def _django(scene: Scene) -> Decision | None:
    if not scene.called_by("django.core.management"):
        return None
    command = scene.argv[1] if len(scene.argv) > 1 else ""
    if command != "runserver" and "runserver" in command:
        return Decision(Verdict.UNKNOWN, f"it is not known whether this process of {command!r} serves requests")
    if command != "runserver":
        return Decision(Verdict.NOT, f"this is the management command {command!r}")
    if "--noreload" in scene.argv or reloads_here(scene.environ, "RUN_MAIN"):
        return Decision(Verdict.SERVES, "this is `runserver`", deaf=True)
    return Decision(Verdict.NOT, "this is the reloader of `runserver`")


def _flask(scene: Scene) -> Decision | None:
    if not scene.called_by("flask.cli"):
        return None
    command, rest = _flask_command(scene.argv)
    if command != "run":
        return Decision(Verdict.NOT, f"this is the command {command!r} of Flask")
    debug = "--debug" in scene.argv or scene.environ.get("FLASK_DEBUG", "").lower() not in {"", "0", "false", "no"}
    reload = "--reload" in rest or (debug and "--no-reload" not in rest and "--no-debug" not in scene.argv)
    if reload and not reloads_here(scene.environ, "WERKZEUG_RUN_MAIN"):
        return Decision(Verdict.NOT, "this is the reloader of `flask run`")
    return Decision(Verdict.SERVES, "this is `flask run`", deaf=True)


_FLASK_VALUES = {"-A", "--app", "-e", "--env-file"}  # options of `flask` that are followed by a value


def _flask_command(argv: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the command of `flask`, and what follows it."""
    words = iter(enumerate(argv[1:], start=2))
    for index, word in words:
        if word in _FLASK_VALUES:
            next(words, None)
        elif not word.startswith("-"):
            return word, argv[index:]
    return "", ()


def _shell(scene: Scene) -> Decision | None:
    return Decision(Verdict.NOT, "this is a shell") if scene.interactive else None


def _uwsgi_worker() -> int | None:
    uwsgi = sys.modules.get("uwsgi")
    if uwsgi is None:
        return None
    if getattr(uwsgi, "mule_id", lambda: 0)() or getattr(uwsgi, "i_am_the_spooler", lambda: False)():
        return -1
    return int(uwsgi.worker_id())
