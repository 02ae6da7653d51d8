"""Signing in, by link, token or password, and signing out. Each sign-in begins a session that was never there."""

from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus

from starlette.requests import Request

from standfast.dashboard.access.admitted import Admitted
from standfast.dashboard.access.approach import Approach
from standfast.dashboard.access.bodies import read_form
from standfast.dashboard.access.caller import Caller
from standfast.dashboard.access.guesses import FREE_OF_PEERS, Count, Guesses
from standfast.dashboard.access.known_browsers import COOKIE as KNOWN_COOKIE
from standfast.dashboard.access.known_browsers import LASTS, KnownBrowsers
from standfast.dashboard.access.links import Links
from standfast.dashboard.access.refusal import Code, Refusal, RefusedError, later
from standfast.dashboard.access.register import Known, Register
from standfast.dashboard.access.sessions import COOKIE, How, Sessions
from standfast.health.buckets import Buckets
from standfast.health.guard import key_of

RATE, BURST = 0.2, 10.0
"""Attempts a second from each address, and how many may come at once."""

_LONGEST_NAME = 64


class SigningIn:
    """Takes what people sign in with. Those who fail wait longer each time."""

    def __init__(
        self,
        approach: Approach,
        register: Register,
        sessions: Sessions,
        known_browsers: KnownBrowsers,
        ticks: Callable[[], float],
    ) -> None:
        self.links = Links(ticks)
        self._approach = approach
        self._register = register
        self._sessions = sessions
        self._known_browsers = known_browsers
        self._guesses = Guesses(ticks)
        self._attempts = Buckets(RATE, BURST, ticks)

    async def by_form(self, request: Request, caller: Caller) -> Admitted:
        """Return who signs in by a form that was sent: with `token`, or with `name` and `password`.

        Raises RefusedError.
        """
        self._approach.demand_origin(request, caller)
        form = await read_form(request)
        name = form.get("name")[: _LONGEST_NAME + 1]
        mark = self._approach.read_cookie(KNOWN_COOKIE, request, caller)
        browser = self._known_browsers.read(mark, name)
        if wait := self._attempts.take((key_of(caller.address), browser)):
            raise RefusedError(later(wait))
        if form.get("token"):
            return self._let_in(request, caller, How.TOKEN, self.known_token(form.get("token").strip(), caller))
        known = await self._known_password(name, form.get("password"), caller, browser)
        admitted = self._let_in(request, caller, How.PASSWORD, known)
        known_from_now = self._known_browsers.write(name)
        cookie = self._approach.cookie(KNOWN_COOKIE, known_from_now, caller, lasts=LASTS)
        return replace(admitted, cookies=(*admitted.cookies, cookie))

    def by_link(self, request: Request, caller: Caller) -> Admitted:
        """Return who comes by a link, `?once=…`. One that is only looked at ahead of time stays good.

        Raises RefusedError.
        """
        is_ahead = any("prefetch" in request.headers.get(name, "").lower() for name in ("sec-purpose", "purpose"))
        known = self._register.by_link()
        if known is None or is_ahead or request.method != "GET":
            raise _wrong("a link is opened in a browser, and only where links are made")
        if not self.links.use(request.query_params.get("once", "")):
            raise _wrong("this link was used already, or is too old")
        return self._let_in(request, caller, How.LINK, known)

    def sign_out(self, admitted: Admitted) -> tuple[str, ...]:
        """End the session of somebody whose write was admitted; return the cookies of the answer."""
        if admitted.session is not None:
            self._sessions.end(admitted.session)
        return (self._approach.cookie(COOKIE, "", admitted.caller, lasts=0),)

    def known_token(self, given: str, caller: Caller) -> Known:
        """Return whom a token stands for. Raises RefusedError.

        It is too long to be guessed: a right one is never made to wait for those who try.
        """
        known = self._register.by_token(given)
        if known is not None:
            return known
        wait = self._guesses.begin([_peer(caller)])
        raise RefusedError(later(wait)) if wait > 0 else _wrong("this is not the token")

    async def _known_password(self, name: str, password: str, caller: Caller, browser: str | None) -> Known:
        own = Count(("name", name)) if browser is None else Count(("browser", browser))
        peers = [_peer(caller)] if browser is None else []
        wait = self._guesses.begin([own, *peers])
        if wait > 0:
            raise RefusedError(later(wait))
        try:
            known = await self._register.by_password(name, password)
        except RefusedError:
            self._guesses.take_back([own, *peers])
            raise
        if known is None:
            raise _wrong("name or password are not right")
        self._guesses.forget(own)
        self._guesses.take_back(peers)
        return known

    def _let_in(self, request: Request, caller: Caller, how: How, known: Known) -> Admitted:
        """Begin a session, always a new one; the one before in this browser ends."""
        before = self._sessions.read(self._approach.read_cookie(COOKIE, request, caller))
        if before is not None:
            self._sessions.end(before)
        session = self._sessions.begin(how, known.user.name, known.mark)
        cookies = (self._approach.cookie(COOKIE, self._sessions.write(session), caller),)
        base = self._approach.base(caller)
        return Admitted(known.user, how, caller, base, self._sessions.csrf(session), cookies, session)


def _peer(caller: Caller) -> Count:
    return Count(("peer", key_of(caller.address)), FREE_OF_PEERS)


def _wrong(says: str) -> RefusedError:
    return RefusedError(Refusal(HTTPStatus.UNAUTHORIZED, Code.WRONG, says))
