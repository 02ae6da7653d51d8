"""After a change its own browser is shown nothing older, by whichever process of a server answers: a cookie tells.

The process that changed something forgets what it has seen; others share what they saw a moment ago.
"""

import time
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

CHANGED_COOKIE = "standfast_changed"

CHANGED_FOR = 10
"""Seconds for which nothing that was seen before is shown: so old may be what several share."""


def mark_change(response: Response, prefix: str, *, secure: bool) -> None:
    """Let whoever answers this browser next know that it has changed something."""
    response.set_cookie(
        CHANGED_COOKIE, "1", CHANGED_FOR, path=prefix or "/", httponly=True, samesite="strict", secure=secure
    )


def has_changed(request: Request) -> bool:
    """Tell whether its browser has just changed something; while one watches, that passes."""
    if CHANGED_COOKIE not in request.cookies:
        return False
    now = time.monotonic()
    first = getattr(request.state, "standfast_changed_at", None)
    if first is None:
        first = request.state.standfast_changed_at = now
    return bool(now - first < CHANGED_FOR)


FLASH_COOKIE = "standfast_said"
LONGEST = 600
_SECONDS = 60


class FlashMessage(msgspec.Struct, frozen=True):
    """A sentence, and whether it is a bad one."""

    text: str
    bad: bool = False


def set_flash(response: Response, said: FlashMessage, prefix: str, *, secure: bool) -> None:
    """Let the next page say this."""
    short = FlashMessage(said.text[:LONGEST], said.bad)
    value = urlsafe_b64encode(msgspec.json.encode(short)).decode()
    response.set_cookie(
        FLASH_COOKIE, value, _SECONDS, path=prefix or "/", httponly=True, samesite="strict", secure=secure
    )


def read_flash(request: Request) -> FlashMessage | None:
    """Return what is to be said; nothing, where a cookie is not one of ours."""
    value = request.cookies.get(FLASH_COOKIE)
    if not value or len(value) > LONGEST * 8:
        return None
    try:
        return msgspec.json.decode(urlsafe_b64decode(value), type=FlashMessage)
    except (ValueError, msgspec.MsgspecError):
        return None


def clear_flash(response: Response, prefix: str) -> None:
    """Take the cookie away: it was said."""
    response.delete_cookie(FLASH_COOKIE, path=prefix or "/", httponly=True, samesite="strict")
