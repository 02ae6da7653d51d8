"""Sign in by link, token or password, and out; failed attempts make the next one wait."""

import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus

from starlette.requests import Request

from standfast.admin.operation import User
from standfast.dashboard.access.caller import Caller, Code, Refusal, RefusedError, later
from standfast.dashboard.access.request import RequestPolicy, read_form
from standfast.dashboard.access.sessions import (
    KNOWN_COOKIE,
    KNOWN_FOR,
    SESSION_COOKIE,
    How,
    KnownBrowsers,
    Session,
    Sessions,
)
from standfast.dashboard.access.users import IdentityRegister, Known
from standfast.observe.health.access import RateLimiter, key_of


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody who was let in. `cookies` are Set-Cookie headers that the answer must carry.

    `csrf` goes into every form, `base` is the path under which browsers find us, "" at the top.
    """

    user: User
    how: How
    caller: Caller
    base: str
    csrf: str = ""
    cookies: tuple[str, ...] = ()
    session: Session | None = None


# Failures are counted for the peer and for the name, and both must be free. What comes while one has to wait is not
# even looked at and does not count: so nobody keeps a name locked for longer than `LONGEST_WAIT` at a time. A browser
# in which somebody has signed in before has a count of its own: others who guess at the name do not lock it out.

FREE = 5
"""Failures with one name that cost nothing: fingers slip."""

FREE_OF_PEERS = 20
"""Failures from one address that cost nothing: there may be many people behind it."""

LONGEST_WAIT = 300.0
"""Seconds that anybody has to wait, at most."""

FORGIVEN = 3600.0
"""Seconds without a failure after which all is forgotten."""

MOST_REMEMBERED = 10_000
"""Of more, those who failed longest ago are forgotten."""


@dataclass(frozen=True, slots=True)
class Count:
    """Whose failures are counted together: of a peer, of a name, or of a browser that is known."""

    whose: Hashable
    free: int = FREE


@dataclass(frozen=True, slots=True)
class _Failures:
    count: int
    last_at: float


def wait_after(failures: int, free: int = FREE) -> float:
    """Return how many seconds somebody has to wait after so many failures."""
    return 0.0 if failures < free else min(LONGEST_WAIT, 2.0 ** min(failures - free, 60))


class SignInThrottle:
    """Counts failures. Any thread may use it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: OrderedDict[Count, _Failures] = OrderedDict()

    def begin(self, whose: Sequence[Count]) -> float:
        """Return how many seconds one has to wait; if 0, count a failure, until one of those below.

        It is counted first: of many attempts at the same moment no more get through than one after the other.
        """
        with self._lock:
            now = self._clock()
            wait = max((self._wait(each, now) for each in whose), default=0.0)
            if wait <= 0:
                for each in whose:
                    self._failures[each] = _Failures(self._count(each, now) + 1, now)
                    self._failures.move_to_end(each)
                while len(self._failures) > MOST_REMEMBERED:
                    self._failures.popitem(last=False)
            return wait

    def forget(self, whose: Count) -> None:
        """Forget all failures: it was who they said."""
        with self._lock:
            self._failures.pop(whose, None)

    def take_back(self, whose: Sequence[Count]) -> None:
        """Take back the failure that `begin` has counted, and leave those before it."""
        with self._lock:
            for each in whose:
                failures = self._failures.get(each)
                if failures is not None:
                    self._failures[each] = _Failures(failures.count - 1, failures.last_at)

    def _wait(self, whose: Count, now: float) -> float:
        count = self._count(whose, now)
        return wait_after(count, whose.free) - (now - self._failures[whose].last_at) if count else 0.0

    def _count(self, whose: Count, now: float) -> int:
        failures = self._failures.get(whose)
        return 0 if failures is None or now - failures.last_at >= FORGIVEN else failures.count

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._failures)


LINK_SPAN = 600.0
"""Seconds for which a link can be used."""

MOST_LINKS = 8
"""So many can be used at a time; of more, the oldest are void."""

_BYTES = 32


class Links:
    """Makes links, and takes each of them once. They are known to this process alone. Any thread may use them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._ends: dict[str, float] = {}

    def make(self) -> str:
        """Return the secret part of a new link."""
        secret = secrets.token_urlsafe(_BYTES)
        with self._lock:
            self._ends[secret] = self._clock() + LINK_SPAN
            while len(self._ends) > MOST_LINKS:
                del self._ends[next(iter(self._ends))]
        return secret

    def use(self, given: str) -> bool:
        """Tell whether this is a link that can be used; it is the last time that it can."""
        with self._lock:
            now = self._clock()
            self._ends = {secret: end for secret, end in self._ends.items() if now < end}
            found = None
            for secret in self._ends:
                if hmac.compare_digest(secret.encode(), given.encode(errors="replace")):
                    found = secret
            if found is not None:
                del self._ends[found]
            return found is not None


RATE, BURST = 0.2, 10.0
"""Attempts a second from each address, and how many may come at once."""

_LONGEST_NAME = 64


class SigningIn:
    """Takes what people sign in with. Those who fail wait longer each time."""

    def __init__(
        self,
        approach: RequestPolicy,
        register: IdentityRegister,
        sessions: Sessions,
        known_browsers: KnownBrowsers,
        ticks: Callable[[], float],
    ) -> None:
        self.links = Links(ticks)
        self._policy = approach
        self._register = register
        self._sessions = sessions
        self._known_browsers = known_browsers
        self._guesses = SignInThrottle(ticks)
        self._attempts = RateLimiter(RATE, BURST, ticks)

    async def by_form(self, request: Request, caller: Caller) -> Identity:
        """Return who signs in by a form that was sent: with `token`, or with `name` and `password`."""
        self._policy.demand_origin(request, caller)
        form = await read_form(request)
        name = form.get("name")[: _LONGEST_NAME + 1]
        mark = self._policy.read_cookie(KNOWN_COOKIE, request, caller)
        browser = self._known_browsers.read(mark, name)
        if wait := self._attempts.take((key_of(caller.address), browser)):
            raise RefusedError(later(wait))
        if form.get("token"):
            return self._let_in(request, caller, How.TOKEN, self.known_token(form.get("token").strip(), caller))
        known = await self._known_password(name, form.get("password"), caller, browser)
        admitted = self._let_in(request, caller, How.PASSWORD, known)
        known_from_now = self._known_browsers.write(name)
        cookie = self._policy.cookie(KNOWN_COOKIE, known_from_now, caller, lasts=KNOWN_FOR)
        return replace(admitted, cookies=(*admitted.cookies, cookie))

    def by_link(self, request: Request, caller: Caller) -> Identity:
        """Return who comes by a link, `?once=…`. One that is only looked at ahead of time stays good."""
        is_ahead = any("prefetch" in request.headers.get(name, "").lower() for name in ("sec-purpose", "purpose"))
        known = self._register.by_link()
        if known is None or is_ahead or request.method != "GET":
            raise _wrong("a link is opened in a browser, and only where links are made")
        if not self.links.use(request.query_params.get("once", "")):
            raise _wrong("this link was used already, or is too old")
        return self._let_in(request, caller, How.LINK, known)

    def sign_out(self, admitted: Identity) -> tuple[str, ...]:
        """End the session of somebody whose write was admitted; return the cookies of the answer."""
        if admitted.session is not None:
            self._sessions.end(admitted.session)
        return (self._policy.cookie(SESSION_COOKIE, "", admitted.caller, lasts=0),)

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

    def _let_in(self, request: Request, caller: Caller, how: How, known: Known) -> Identity:
        """Begin a session, always a new one; the one before in this browser ends."""
        before = self._sessions.read(self._policy.read_cookie(SESSION_COOKIE, request, caller))
        if before is not None:
            self._sessions.end(before)
        session = self._sessions.begin(how, known.user.name, known.mark)
        cookies = (self._policy.cookie(SESSION_COOKIE, self._sessions.write(session), caller),)
        base = self._policy.base(caller)
        return Identity(known.user, how, caller, base, self._sessions.csrf(session), cookies, session)


def _peer(caller: Caller) -> Count:
    return Count(("peer", key_of(caller.address)), FREE_OF_PEERS)


def _wrong(says: str) -> RefusedError:
    return RefusedError(Refusal(HTTPStatus.UNAUTHORIZED, Code.WRONG, says))
