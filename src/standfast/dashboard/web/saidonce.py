"""What is said once, on the page after a form was sent: it travels in a cookie that the next page takes away."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

COOKIE = "standfast_said"
LONGEST = 600
_SECONDS = 60


class Said(msgspec.Struct, frozen=True):
    """A sentence, and whether it is a bad one."""

    text: str
    bad: bool = False


def say_once(response: Response, said: Said, prefix: str, *, secure: bool) -> None:
    """Let the next page say this."""
    short = Said(said.text[:LONGEST], said.bad)
    value = urlsafe_b64encode(msgspec.json.encode(short)).decode()
    response.set_cookie(
        COOKIE, value, _SECONDS, path=prefix or "/", httponly=True, samesite="strict", secure=secure
    )


def said_in(request: Request) -> Said | None:
    """Return what is to be said; nothing, where a cookie is not one of ours."""
    value = request.cookies.get(COOKIE)
    if not value or len(value) > LONGEST * 8:
        return None
    try:
        return msgspec.json.decode(urlsafe_b64decode(value), type=Said)
    except (ValueError, msgspec.MsgspecError):
        return None


def forget_said(response: Response, prefix: str) -> None:
    """Take the cookie away: it was said."""
    response.delete_cookie(COOKIE, path=prefix or "/", httponly=True, samesite="strict")
