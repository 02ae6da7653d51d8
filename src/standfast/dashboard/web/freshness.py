"""After a change its own browser is shown nothing older, by whichever process of a server answers: a cookie tells.

The process that changed something forgets what it has seen; others share what they saw a moment ago.
"""

import time

from starlette.requests import Request
from starlette.responses import Response

COOKIE = "standfast_changed"

LASTS = 10
"""Seconds for which nothing that was seen before is shown: so old may be what several share."""


def mark_change(response: Response, prefix: str, *, secure: bool) -> None:
    """Let whoever answers this browser next know that it has changed something."""
    response.set_cookie(COOKIE, "1", LASTS, path=prefix or "/", httponly=True, samesite="strict", secure=secure)


def has_changed(request: Request) -> bool:
    """Tell whether its browser has just changed something; while one watches, that passes."""
    if COOKIE not in request.cookies:
        return False
    now = time.monotonic()
    first = getattr(request.state, "standfast_changed_at", None)
    if first is None:
        first = request.state.standfast_changed_at = now
    return bool(now - first < LASTS)
