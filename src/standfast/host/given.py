"""What a web app is bound to: an app with options, or a host that was made before; and what cannot be bound."""

import inspect
from typing import Any

from standfast.app import Standfast
from standfast.errors import ConfigurationError
from standfast.host.host import Host
from standfast.spelling import refuse_unknown

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
            f"a {type(web).__name__} is an ASGI app: take bind or lifespan from standfast.host.asgi"
        )


def refuse_wsgi(web: Any) -> None:
    """Raise ConfigurationError for a WSGI app where one of ASGI is bound: no server would ever start its worker."""
    if callable(getattr(web, "wsgi_app", None)):
        raise ConfigurationError(f"a {type(web).__name__} is a WSGI app: take bind from standfast.host.wsgi")
