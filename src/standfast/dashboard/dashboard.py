"""`Dashboard`: an ASGI app and a WSGI app to mount in your own."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from standfast.admin.executor import Admin, OperationContext, Shown
from standfast.admin.operation import User
from standfast.admin.registry import BY_NAME
from standfast.dashboard.access.authentication import Auth, Authenticator
from standfast.dashboard.access.sessions import How
from standfast.dashboard.access.sign_in import Identity
from standfast.dashboard.api import routes as api_routes
from standfast.dashboard.serving.middleware import ADMITTED, AccessMiddleware, SignInAudit
from standfast.dashboard.serving.wsgi_bridge import WsgiBridge
from standfast.dashboard.web.cookies import has_changed
from standfast.dashboard.web.routes import nowhere
from standfast.dashboard.web.routes import routes as page_routes
from standfast.dashboard.web.site import Site
from standfast.errors import ConfigurationError
from standfast.model.suggestions import options_of

USER = "standfast.user"
"""Under this key a host may say in the scope, or in WSGI's environment, who sends a request."""


class Dashboard:
    """The dashboard of an app: mount `dashboard.asgi` or `dashboard.wsgi` in your own.

    People come in by `auth`, which tells who sends a request (`auth(request) -> User | None`, sync or async), or by
    a `users` file, or with a `token` or one of several `tokens`, each for a `User`. One of them must be given. With
    `read_only` nobody changes anything. `networks` and `hosts` are who may reach it and by which names, None for
    any, as the host lets through; `trusted_proxies` are those whose X-Forwarded headers count. Several processes
    that serve the same people share a `secret`. `secure` says that browsers come by https where requests do not
    show it. `links` is given the path of a link by which one person comes in, once, within ten minutes, whenever
    somebody asks for one on the page to sign in: it shows it where only who may come in can read it.
    """

    @options_of("Dashboard")
    def __init__(
        self,
        app: Shown,
        *,
        auth: Auth | None = None,
        users: str | Path | None = None,
        token: str | None = None,
        tokens: Mapping[str, User] | None = None,
        networks: Sequence[str] | None = None,
        hosts: Sequence[str] | None = None,
        trusted_proxies: Sequence[str] = (),
        secret: str | None = None,
        secure: bool | None = None,
        read_only: bool = False,
        prefix: str = "",
        links: Callable[[str], None] | None = None,
    ) -> None:
        if auth is None and users is None and not token and not tokens and links is None:
            raise ConfigurationError(
                "Dashboard needs to know who may come in: give auth=…, users=… or token=…"
                " (`openssl rand -hex 32` makes one); nobody comes in unknown"
            )
        self._authenticator = Authenticator(
            token=token,
            tokens=tokens,
            users=None if users is None else Path(users),
            auth=auth,
            networks=networks,
            hosts=hosts,
            trusted_proxies=trusted_proxies,
            one_time=links is not None,
            secret=secret,
            secure=secure,
            prefix=prefix,
        )
        self._admin = Admin(app, read_only=read_only)
        site = Site(
            BY_NAME,
            self._context_for("page"),
            csrf_of=lambda request: _admitted(request).csrf,
            still_in=self._still_in,
            may_sign_out=lambda request: _admitted(request).how not in {How.HOST, How.BEARER},
        )
        inside = Starlette(
            routes=[*api_routes(self._context_for("api")), *page_routes(site)],
            exception_handlers={HTTPStatus.NOT_FOUND: _nowhere(site)},
        )
        inside.router.redirect_slashes = False  # it would lead to where a proxy does not have us
        print_link = None if links is None else lambda after: links(self.new_link(after))
        self._middleware = AccessMiddleware(
            inside, self._authenticator, SignInAudit(self._admin.write_down), print_link
        )
        self._bridge = WsgiBridge(self._middleware, (USER,))

    def new_link(self, after: str = "") -> str:
        """Return the path of a link by which one person comes in, once, within ten minutes."""
        wanted = f"&{urlencode({'next': after})}" if after else ""
        return f"/sign-in?once={self._authenticator.new_link()}{wanted}"

    @property
    def asgi(self) -> AccessMiddleware:
        """The dashboard as an ASGI app."""
        return self._middleware

    @property
    def wsgi(self) -> WsgiBridge:
        """The dashboard as a WSGI app. Pages refresh themselves there, as WSGI knows no answers that go on."""
        return self._bridge

    def _context_for(self, by: str) -> Callable[[Request], OperationContext]:
        return lambda request: self._admin.desk(_admitted(request).user, by, fresh=has_changed(request))

    async def _still_in(self, request: Request) -> bool:
        return await self._authenticator.still(_admitted(request), request)


def _nowhere(site: Site) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Return what answers where there is nothing: a page for who was let in, and few words for strangers."""
    with_page = nowhere(site)

    async def answering(request: Request, error: Exception) -> Response:
        if ADMITTED not in request.scope:  # a static file, which everybody may ask for
            return PlainTextResponse("not there\n", HTTPStatus.NOT_FOUND)
        return await with_page(request, error)

    return answering


def _admitted(request: Request) -> Identity:
    admitted: Identity = request.scope[ADMITTED]
    return admitted
