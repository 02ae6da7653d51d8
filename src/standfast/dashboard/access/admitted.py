"""Somebody who was let in, and by what."""

from dataclasses import dataclass

from standfast.dashboard.access.caller import Caller
from standfast.dashboard.access.sessions import How, Session
from standfast.dashboard.access.user import User


@dataclass(frozen=True, slots=True)
class Admitted:
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
