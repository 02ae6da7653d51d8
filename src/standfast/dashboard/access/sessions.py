"""Sessions: signed cookies that end, so that any process that has the same secret knows them.

Nothing is kept of a session but, of those who signed out, its id until it would have ended anyhow. That has limits:
who signs out at one of several processes is signed out of the others because the cookie goes, so a copy of it that
was stolen is good there until its end; and of more than `MOST_ENDED` the first are forgotten. Roles are not in the
cookie, but looked up at every request; `mark` is another when the password or token is by which they came.
"""

import hashlib
import hmac
import secrets
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64Error
from collections import OrderedDict
from collections.abc import Callable
from enum import StrEnum

import msgspec

from standfast.errors import ConfigurationError

SESSION_COOKIE = "standfast_session"
LONGEST = 12 * 3600.0
"""Seconds after which a session ends."""

IDLE = 3600.0
"""Seconds without a request after which it ends."""

RENEW = 300.0
"""Seconds after which its cookie is made anew."""

MOST_ENDED = 10_000
"""So many sessions of those who signed out are remembered."""

_SKEW = 60.0
"""Seconds by which the clocks of processes may differ."""
_LONGEST_COOKIE = 2048
_DAY = 86_400
_DIGEST = 32


class How(StrEnum):
    """By what somebody is known."""

    LINK = "link"
    TOKEN = "token"  # noqa: S105 - a word, no token
    PASSWORD = "password"  # noqa: S105 - likewise
    HOST = "host"
    """The host's own sign-in."""
    BEARER = "bearer"
    """A token in the header, for a program; there is no session."""


class Session(msgspec.Struct, frozen=True, array_like=True):
    """What the cookie says. Times are seconds since 1970."""

    id: str
    how: How
    name: str
    mark: str
    began_at: float
    seen_at: float


class Signer:
    """Signs what is given to browsers, and knows it again. Each purpose has a key of its own."""

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = secret or secrets.token_bytes(_DIGEST)

    def digest(self, purpose: str, text: bytes) -> bytes:
        """Return what only somebody who knows the secret can make of a text."""
        key = hmac.digest(self._secret, f"standfast dashboard {purpose}".encode(), "sha256")
        return hmac.digest(key, text, "sha256")

    def sign(self, purpose: str, text: bytes) -> str:
        """Return a text with its signature, fit for a cookie."""
        return urlsafe_b64encode(self.digest(purpose, text) + text).decode().rstrip("=")

    def read(self, purpose: str, signed: str) -> bytes | None:
        """Return the text that was signed; None if it was not, or not for this."""
        if len(signed) > _LONGEST_COOKIE:
            return None
        try:
            both = urlsafe_b64decode(signed.encode("ascii") + b"=" * (-len(signed) % 4))
        except (ValueError, NotBase64Error):
            return None
        digest, text = both[:_DIGEST], both[_DIGEST:]
        return text if hmac.compare_digest(digest, self.digest(purpose, text)) else None

    def mark(self, text: str) -> str:
        """Return a short mark of something secret, by which one can see that it is another, and nothing else."""
        return self.digest("mark", text.encode(errors="replace")).hex()[:16]


class Sessions:
    """Begins, reads and ends sessions."""

    def __init__(self, signer: Signer, clock: Callable[[], float] = time.time) -> None:
        self._signer = signer
        self._clock = clock
        self._lock = threading.Lock()
        self._ended: OrderedDict[str, float] = OrderedDict()

    def begin(self, how: How, name: str, mark: str) -> Session:
        """Return a new session, with an id that nobody knew before."""
        now = self._clock()
        return Session(secrets.token_urlsafe(24), how, name, mark, now, now)

    def write(self, session: Session) -> str:
        """Return the value of the cookie."""
        return self._signer.sign("session", msgspec.json.encode(session))

    def read(self, value: str) -> Session | None:
        """Return the session that a cookie stands for; None if it is forged, over, or was ended."""
        text = self._signer.read("session", value)
        if text is None:
            return None
        try:
            session = msgspec.json.decode(text, type=Session)
        except msgspec.MsgspecError:
            return None
        return session if self.goes_on(session) else None

    def goes_on(self, session: Session) -> bool:
        """Tell whether a session is not over yet."""
        now = self._clock()
        is_young = -_SKEW <= now - session.began_at < LONGEST and -_SKEW <= now - session.seen_at < IDLE
        return is_young and session.id not in self._ended

    def renewed(self, session: Session) -> Session | None:
        """Return the session as of now, where its cookie should be made anew."""
        now = self._clock()
        return msgspec.structs.replace(session, seen_at=now) if now - session.seen_at >= RENEW else None

    def end(self, session: Session) -> None:
        """End a session: its cookie is good for nothing from now on."""
        with self._lock:
            now = self._clock()
            self._ended[session.id] = session.began_at + LONGEST
            while self._ended and (len(self._ended) > MOST_ENDED or next(iter(self._ended.values())) <= now):
                self._ended.popitem(last=False)

    def csrf(self, session: Session) -> str:
        """Return what forms of this session carry."""
        return self._csrf(f"session {session.id}")

    def is_csrf(self, session: Session, given: str) -> bool:
        """Tell whether a form was made for this session."""
        return _same(given, self.csrf(session))

    def csrf_for_host(self, name: str) -> str:
        """Return what forms carry for somebody who is known by the host: good for this day and the next."""
        return self._csrf(f"host {self._today()} {name}")

    def is_csrf_for_host(self, name: str, given: str) -> bool:
        """Tell whether a form was made for this person, yesterday or today."""
        known = [_same(given, self._csrf(f"host {self._today() - ago} {name}")) for ago in (0, 1)]
        return any(known)

    def _today(self) -> int:
        return int(self._clock() // _DAY)

    def _csrf(self, text: str) -> str:
        return urlsafe_b64encode(self._signer.digest("csrf", text.encode(errors="replace"))).decode().rstrip("=")


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), known.encode())


def secret_from(text: str) -> bytes:
    """Return the secret that several processes share, from what they are given. Raises ConfigurationError."""
    if len(text) < _DIGEST:
        raise ConfigurationError(
            f"the secret must have {_DIGEST} characters or more: `openssl rand -hex {_DIGEST}`"
        )
    return hashlib.sha256(text.encode()).digest()


KNOWN_COOKIE = "standfast_known"
KNOWN_FOR = 90 * 86_400
"""Seconds for which a browser is known."""


class _Known(msgspec.Struct, frozen=True, array_like=True):
    id: str
    name: str
    until: float


class KnownBrowsers:
    """Marks browsers by a signed cookie, which says who signed in there and opens nothing by itself."""

    def __init__(self, signer: Signer, clock: Callable[[], float] = time.time) -> None:
        self._signer = signer
        self._clock = clock

    def write(self, name: str) -> str:
        """Return the value of the cookie for a browser in which this person has just signed in."""
        known = _Known(secrets.token_urlsafe(12), name, self._clock() + KNOWN_FOR)
        return self._signer.sign("known browser", msgspec.json.encode(known))

    def read(self, value: str, name: str) -> str | None:
        """Return the id of a browser in which this person has signed in before; None where it is none of theirs."""
        text = self._signer.read("known browser", value)
        if text is None:
            return None
        known = msgspec.json.decode(text, type=_Known)
        return known.id if known.name == name and self._clock() < known.until else None
