"""Authenticate requests: by session, by token, or by the sign-in of the app around the dashboard."""

import inspect
import logging
import time
from asyncio import to_thread
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path

from starlette.requests import Request

from standfast.admin.operation import Role, User, what_is_wrong
from standfast.dashboard.access.caller import BEARER, SAFE_METHODS, Caller, Code, Refusal, RefusedError, later
from standfast.dashboard.access.credentials import TOKEN_USER, Tokens
from standfast.dashboard.access.request import FORM, RequestPolicy, kind_of, read_form
from standfast.dashboard.access.sessions import SESSION_COOKIE, How, KnownBrowsers, Sessions, Signer, secret_from
from standfast.dashboard.access.sign_in import Identity, SigningIn
from standfast.dashboard.access.users import NOT_SAID, IdentityRegister, UserFile
from standfast.errors import ConfigurationError
from standfast.observe.health.access import LOOPBACK, RateLimiter, key_of

Auth = Callable[[Request], User | Awaitable[User | None] | None]
"""Says who sent a request, None if nobody is signed in. A function that blocks is called in a thread."""

_log = logging.getLogger(__name__)


async def ask_host(auth: Auth, request: Request) -> User | None:
    """Return whom the host knows. Raises RefusedError where it fails, or returns something else."""
    try:
        user = await _asked(auth, request)
    except Exception as error:
        _log.exception("the host's auth failed")
        raise RefusedError(NOT_SAID) from error
    if user is None:
        return None
    if not isinstance(user, User):
        _log.error("the host's auth must return a User or None, and returned a %s", type(user).__qualname__)
        raise RefusedError(NOT_SAID)
    if wrong := what_is_wrong(user):
        _log.error("the host's auth returned a User that is none: %s", wrong)
        raise RefusedError(NOT_SAID)
    return user


async def _asked(auth: Auth, request: Request) -> object:
    is_async = inspect.iscoroutinefunction(auth) or inspect.iscoroutinefunction(type(auth).__call__)
    found = auth(request) if is_async else await to_thread(auth, request)
    return await found if inspect.isawaitable(found) else found


#     where from ─► by which name ─► who ─► how often ─► a write: from our own pages? with the token of the form?
#
# Closed unless told otherwise: this machine only, and only who signed in. Belongs to one event loop.

LINK_USER = User("owner", Role.ADMIN)
"""Who comes by a link: somebody who can read the terminal."""

CSRF_HEADER = "x-csrf-token"
CSRF_FIELD = "csrf"

RATE, BURST = 20.0, 200.0
"""Requests a second of each who is signed in, from one address; and how many may come at once."""

STRANGERS_RATE, STRANGERS_BURST = 5.0, 50.0
"""Likewise of all who are not."""

LINKS_RATE, LINKS_BURST = 0.05, 3.0
"""Links a second that are printed because somebody asks for one, whoever asks; and how many at once."""

ASK_AGAIN = 30.0
"""Seconds after which the host is asked anew about somebody who watches."""


class Authenticator:
    """Lets in who may come in.

    `token` is for an admin, `tokens` say whom each stands for, `users` is the user file, `auth` the host's own
    sign-in, in place of ours. `networks` may reach us, by the names in `hosts` (and by this machine's own, from
    itself); None for either means any. `trusted_proxies` are networks whose X-Forwarded headers are read.
    `one_time` allows links. `secret` is shared by several processes that serve the same people. `secure` says that
    browsers come by https, where requests do not show it. `prefix` is the path under which we are mounted.
    """

    def __init__(
        self,
        *,
        token: str | None = None,
        tokens: Mapping[str, User] | None = None,
        users: Path | None = None,
        auth: Auth | None = None,
        networks: Sequence[str] | None = LOOPBACK,
        hosts: Sequence[str] | None = (),
        trusted_proxies: Sequence[str] = (),
        one_time: bool = True,
        secret: str | None = None,
        secure: bool | None = None,
        prefix: str = "",
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        given = dict(tokens or {}) | ({} if token is None else {token: TOKEN_USER})
        signer = Signer(None if secret is None else secret_from(secret))
        if users is not None and auth is not None:
            raise ConfigurationError("users or auth: people are known by our user file, or by the host")
        self._auth = auth
        self._has_tokens = bool(given)
        self._policy = RequestPolicy(
            networks=networks, hosts=hosts, trusted_proxies=trusted_proxies, secure=secure, prefix=prefix
        )
        file = None if users is None else UserFile(users)
        self._register = IdentityRegister(signer, Tokens(given), file, LINK_USER if one_time else None)
        self._sessions = Sessions(signer, clock)
        self._signing_in = SigningIn(
            self._policy, self._register, self._sessions, KnownBrowsers(signer, clock), ticks
        )
        self._insiders = RateLimiter(RATE, BURST, ticks)
        self._strangers = RateLimiter(STRANGERS_RATE, STRANGERS_BURST, ticks)
        self._links_asked = RateLimiter(LINKS_RATE, LINKS_BURST, ticks)
        self._passers = RateLimiter(RATE, BURST, ticks)
        self._ticks = ticks

    @property
    def ways(self) -> frozenset[How]:
        """By what people can sign in here; none where the host does it."""
        return frozenset() if self._auth is not None else self._register.ways

    def new_link(self) -> str:
        """Return what a new link has after `?once=`."""
        return self._signing_in.links.make()

    @property
    def prefix(self) -> str:
        """The path below which requests come, after those of hosts and proxies; "" at the top."""
        return self._policy.prefix

    def base(self, caller: Caller) -> str:
        """Return the path under which their browser finds us, "" at the top."""
        return self._policy.base(caller)

    def look_at(self, request: Request) -> Caller | Refusal:
        """Return where a request comes from, or why it is not answered at all."""
        try:
            return self._policy.look_at(request)
        except RefusedError as refused:
            return refused.refusal

    def refuse_often(self, caller: Caller) -> Refusal | None:
        """Return the refusal of who asks too often for what everybody sees: static files, the page to sign in.

        Who is signed in does not share that patience: no stranger at the same address uses it up.
        """
        wait = self._passers.take(key_of(caller.address))
        return later(wait) if wait else None

    async def admit(self, request: Request) -> Identity | Refusal:
        """Return who sent a request, or why it is refused. Of one that writes, that it is meant, too.

        The form of a write is read here if its token is in it; `read_form` gives it again.
        """
        try:
            caller = self._policy.look_at(request)
            admitted = await self._who(request, caller)
            if admitted is None:
                self._slow_down(caller)
                return self._nobody()
            if wait := self._insiders.take((key_of(caller.address), admitted.user.name)):
                return later(wait)
            if request.method not in SAFE_METHODS:
                await self._demand_meant(request, admitted)
        except RefusedError as refused:
            return refused.refusal
        return admitted

    async def sign_in(self, request: Request) -> Identity | Refusal:
        """Return who signs in by the form that was sent: with `token`, or with `name` and `password`."""
        try:
            caller = self._policy.look_at(request)
            if self._auth is not None or request.method != "POST":
                return self._nobody()
            return await self._signing_in.by_form(request, caller)
        except RefusedError as refused:
            return refused.refusal

    def sign_in_by_link(self, request: Request) -> Identity | Refusal:
        """Return who comes by a link, `?once=…`. One that is only looked at ahead of time stays good."""
        try:
            caller = self._policy.look_at(request)
            self._slow_down(caller)
            return self._nobody() if self._auth is not None else self._signing_in.by_link(request, caller)
        except RefusedError as refused:
            return refused.refusal

    def may_ask_for_link(self, request: Request) -> Caller | Refusal:
        """Return who asks, by a form of ours, that a new link is printed, or why that is refused."""
        try:
            caller = self._policy.look_at(request)
            self._slow_down(caller)
            if How.LINK not in self.ways or request.method != "POST":
                return self._nobody()
            self._policy.demand_origin(request, caller)
        except RefusedError as refused:
            return refused.refusal
        wait = self._links_asked.take("")
        return later(wait) if wait else caller

    def sign_out(self, admitted: Identity) -> tuple[str, ...]:
        """End the session of somebody whose write was admitted; return the cookies of the answer."""
        return self._signing_in.sign_out(admitted)

    async def still(self, admitted: Identity, request: Request) -> bool:
        """Tell whether somebody would still be let in with what they came with: for answers that take long."""
        session = admitted.session
        if session is None:
            return admitted.how is not How.HOST or await self._is_still_known(admitted, request)
        try:
            return self._sessions.goes_on(session) and self._register.by_session(session) == admitted.user
        except RefusedError:
            return False

    def close(self) -> None:
        """Let go of what hashes passwords."""
        self._register.close()

    async def _is_still_known(self, admitted: Identity, request: Request) -> bool:
        """Tell whether the host still knows somebody, by its answer of a moment ago."""
        now = self._ticks()
        asked_at = getattr(request.state, "standfast_asked_at", None)
        if asked_at is not None and now - asked_at < ASK_AGAIN:
            return True
        request.state.standfast_asked_at = now
        try:
            return asked_at is None or (await self._host_knows(request)) == admitted.user
        except RefusedError:
            return False

    async def _host_knows(self, request: Request) -> User | None:
        return None if self._auth is None else await ask_host(self._auth, request)

    async def _who(self, request: Request, caller: Caller) -> Identity | None:
        bearer = _bearer(request)
        if bearer is not None and self._is_ours(bearer):
            user = self._signing_in.known_token(bearer, caller).user
            return Identity(user, How.BEARER, caller, self.base(caller))
        if self._auth is None:
            return self._by_cookie(request, caller)
        found = await ask_host(self._auth, request)
        if found is None:
            return None
        return Identity(found, How.HOST, caller, self.base(caller), self._sessions.csrf_for_host(found.name))

    def _is_ours(self, bearer: str) -> bool:
        """Tell whether a token is for us to judge: the host may have tokens of its own."""
        return self._auth is None or self._register.by_token(bearer) is not None

    def _by_cookie(self, request: Request, caller: Caller) -> Identity | None:
        session = self._sessions.read(self._policy.read_cookie(SESSION_COOKIE, request, caller))
        user = None if session is None else self._register.by_session(session)
        if session is None or user is None:
            return None
        renewed = self._sessions.renewed(session)
        cookies = (
            () if renewed is None else (self._policy.cookie(SESSION_COOKIE, self._sessions.write(renewed), caller),)
        )
        csrf = self._sessions.csrf(session)
        return Identity(user, session.how, caller, self.base(caller), csrf, cookies, renewed or session)

    def _nobody(self) -> Refusal:
        headers = (BEARER,) if self._has_tokens else ()
        return Refusal(HTTPStatus.UNAUTHORIZED, Code.SIGN_IN, "sign in first", headers)

    def _slow_down(self, caller: Caller) -> None:
        if wait := self._strangers.take(key_of(caller.address)):
            raise RefusedError(later(wait))

    async def _demand_meant(self, request: Request, admitted: Identity) -> None:
        """Raise RefusedError unless a write comes from our own pages. A program's token is proof enough."""
        by_program = admitted.how is How.BEARER
        self._policy.demand_origin(request, admitted.caller, needs_proof=not by_program)
        if by_program:
            return
        given = request.headers.get(CSRF_HEADER)
        if given is None:
            given = (await read_form(request)).get(CSRF_FIELD) if kind_of(request) == FORM else ""
        if not self._is_csrf(admitted, given):
            says = "the token of the form is missing or of another session: load the page again"
            raise RefusedError(Refusal(HTTPStatus.FORBIDDEN, Code.CSRF, says))

    def _is_csrf(self, admitted: Identity, given: str) -> bool:
        if admitted.session is None:
            return self._sessions.is_csrf_for_host(admitted.user.name, given)
        return self._sessions.is_csrf(admitted.session, given)


def _bearer(request: Request) -> str | None:
    """Return the token that a program sends; None where there is none, or more than one header."""
    given = request.headers.getlist("authorization")
    scheme, _, token = given[0].strip().partition(" ") if len(given) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" else None
