"""The host's own sign-in, where the dashboard lives in an app that knows its people already."""

import inspect
import logging
from asyncio import to_thread
from collections.abc import Awaitable, Callable

from starlette.requests import Request

from standfast.dashboard.access.refusal import RefusedError
from standfast.dashboard.access.register import NOT_SAID
from standfast.dashboard.access.user import User, what_is_wrong

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
