"""WSGI: `bind(flask_app, app)`, or any callable of WSGI. The worker starts with the server, not with a request."""

import os
from functools import wraps
from typing import Any, TypeVar

from standfast.app import Standfast
from standfast.hosts.binding import host_for, leave_in_order, refuse_asgi, start_if_serving
from standfast.hosts.detection import reloads_here, switched
from standfast.hosts.host import Host

W = TypeVar("W")


def bind(web: W, app: Standfast | Host, **options: Any) -> W:
    """Have a worker for `app` live in each process that serves `web`; return `web`.

    `options` are those of `Host`; or give a host that you have made. With `required` it starts here and now:
    declare all tasks before.
    """
    host = host_for("bind", app, options)
    refuse_asgi(web)
    start_if_serving(host)
    if callable(getattr(web, "run", None)) and hasattr(web, "wsgi_app"):
        _start_with_run(web, host)
    return web


def _start_with_run(web: Any, host: Host) -> None:
    """Let Flask's own `app.run(…)` start the host, and stop it: in the process that serves, not in its reloader."""
    run = web.run

    @wraps(run)
    def run_with_host(*args: Any, **kwargs: Any) -> Any:
        if not _serves(web, args, kwargs):
            return run(*args, **kwargs)
        leave_in_order()
        with host:
            return run(*args, **kwargs)

    web.run = run_with_host


def _serves(web: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if os.environ.get("FLASK_RUN_FROM_CLI") == "true" or switched() is False:
        return False  # inside `flask run` a call of `run` does nothing
    debug = args[2] if len(args) > 2 else kwargs.get("debug")  # noqa: PLR2004 - run(host, port, debug, …)
    reload = kwargs.get("use_reloader", web.debug if debug is None else debug)
    return not reload or reloads_here(os.environ, "WERKZEUG_RUN_MAIN")
