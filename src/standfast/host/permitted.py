"""Whether a worker may live in this process at all, whoever asks for it."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from standfast.errors import ConfigurationError
from standfast.settings import HOST_VARIABLE

_OUR_PROCESSES = ("standfast.child", "standfast.host.beater")


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
