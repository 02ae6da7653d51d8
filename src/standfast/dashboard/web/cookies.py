"""Cookies of the pages: a message for the next page, and a mark that this browser has just changed something.

After a change its browser is shown nothing older, whichever process answers: others share what they read before.
"""

import time
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

CHANGED_COOKIE = "standfast_changed"

CHANGED_FOR = 10
"""Seconds for which nothing that was seen before is shown: so old may be what several share."""


def set_cookie(request: Request, response: Response, name: str, value: str, *, lasts: int, prefix: str) -> None:
    """Set a cookie for the pages below the prefix alone, for so many seconds."""
    secure = request.url.scheme == "https"
    response.set_cookie(name, value, lasts, path=prefix or "/", httponly=True, samesite="strict", secure=secure)


def mark_change(request: Request, response: Response, prefix: str) -> None:
    """Let whoever answers this browser next know that it has changed something."""
    set_cookie(request, response, CHANGED_COOKIE, "1", lasts=CHANGED_FOR, prefix=prefix)


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


def set_flash(request: Request, response: Response, said: FlashMessage, prefix: str) -> None:
    """Let the next page say this."""
    short = FlashMessage(said.text[:LONGEST], said.bad)
    value = urlsafe_b64encode(msgspec.json.encode(short)).decode()
    set_cookie(request, response, FLASH_COOKIE, value, lasts=_SECONDS, prefix=prefix)


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
