"""Browsers in which somebody has signed in with a password before: others who guess do not lock these out."""

import secrets
import time
from collections.abc import Callable

import msgspec

from standfast.dashboard.access.sessions import Signer

COOKIE = "standfast_known"
LASTS = 90 * 86_400
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
        known = _Known(secrets.token_urlsafe(12), name, self._clock() + LASTS)
        return self._signer.sign("known browser", msgspec.json.encode(known))

    def read(self, value: str, name: str) -> str | None:
        """Return the id of a browser in which this person has signed in before; None where it is none of theirs."""
        text = self._signer.read("known browser", value)
        if text is None:
            return None
        known = msgspec.json.decode(text, type=_Known)
        return known.id if known.name == name and self._clock() < known.until else None
