"""The middleware around pages and API: it authenticates each request, and writes sign-ins to the audit."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response

from standfast.admin.audit_trail import OTHERS, RepeatSampler, is_told
from standfast.dashboard.access.authentication import Authenticator
from standfast.dashboard.access.caller import (
    HEADERS,
    STATIC_HEADERS,
    Caller,
    Code,
    Refusal,
    RefusedError,
    local_path,
)
from standfast.dashboard.access.request import read_form
from standfast.dashboard.access.sessions import How
from standfast.dashboard.access.sign_in import Identity
from standfast.dashboard.serving.wsgi_bridge import STREAMS
from standfast.dashboard.web.render import sign_in_page
from standfast.dashboard.web.site import texts_for
from standfast.errors import StandfastError
from standfast.observe.health.access import key_of

AUDIT_SIGN_IN, AUDIT_SIGN_OUT = "access.sign_in", "access.sign_out"

NOBODY = "(unknown)"
"""Who is refused: a name that was typed may be somebody's password."""

_TOLD = frozenset({Code.WRONG, Code.TOO_MANY, Code.AUTH})
_ELSEWHERE = "elsewhere"

log = logging.getLogger(__name__)

Write = Callable[..., Awaitable[None]]
"""Writes an entry down: who, what, and the other fields of an `Entry` by name."""


class SignInAudit:
    """Writes sign-ins, sign-outs and some refusals to the audit. A store that is away keeps nobody out."""

    def __init__(self, write: Write, ticks: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._refused = RepeatSampler(ticks)

    async def came(self, admitted: Identity) -> None:
        """Somebody has signed in."""
        asked = {"how": str(admitted.how), "from": str(admitted.caller.address)}
        await self._told(admitted.user.name, AUDIT_SIGN_IN, asked)

    async def went(self, admitted: Identity) -> None:
        """Somebody has signed out."""
        await self._told(admitted.user.name, AUDIT_SIGN_OUT, {"from": str(admitted.caller.address)})

    async def refused(self, caller: Caller, refusal: Refusal) -> None:
        """Somebody was not let in with what they had; those who had nothing are no news."""
        if refusal.code not in _TOLD:
            return
        whose, times = self._refused.count(key_of(caller.address))
        if is_told(times):
            asked = {"from": _ELSEWHERE if whose == OTHERS else str(caller.address), "times": str(times)}
            await self._told(NOBODY, AUDIT_SIGN_IN, asked, refusal.says)

    async def _told(self, who: str, what: str, asked: dict[str, str], error: str | None = None) -> None:
        try:
            await self._write(who, what, asked=asked, error=error)
        except StandfastError as trouble:
            log.warning("%s of %s is not in the audit trail: %s", what, who, trouble)


# static files ─► whoever may reach us      sign-in, sign-out ─► here      all else ─► whoever is signed in

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Message, Receive, Send], Awaitable[None]]

ADMITTED = "standfast.admitted"
"""Who was let in, in the scope of a request."""

STATIC, API, LIVE = "/static/", "/api/", "/live"
SIGN_IN, SIGN_OUT, NEW_LINK = "/sign-in", "/sign-out", "/sign-in/link"


class AccessMiddleware:
    """Lets requests through to the pages and the API.

    `print_link` shows a link where only its owner sees it; it is given to which page that leads, "" for the first.
    """

    def __init__(
        self,
        inside: Asgi,
        authenticator: Authenticator,
        audit: SignInAudit,
        print_link: Callable[[str], None] | None = None,
    ) -> None:
        self._inside = inside
        self._authenticator = authenticator
        self._audit = audit
        self._print_link = print_link

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request; what is no request of HTTP is refused."""
        if scope["type"] == "lifespan":
            await self._inside(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        caller = self._authenticator.look_at(request)
        path = _below(scope["path"], str(scope.get("root_path", "")).rstrip("/"))
        if isinstance(caller, Refusal):
            await _refused(request, caller, path, "")(scope, receive, _with(send, HEADERS))
            return
        prefix = self._authenticator.prefix
        if not f"{path}/".startswith(f"{prefix}/"):
            words = PlainTextResponse(f"the dashboard is below {prefix}/\n", HTTPStatus.NOT_FOUND)
            await words(scope, receive, _with(send, HEADERS))
            return
        visit = _Visit(request, caller, self._authenticator.base(caller), _below(path, prefix))
        is_static = visit.path.startswith(STATIC) and request.method in {"GET", "HEAD"}
        refusal = self._authenticator.refuse_often(caller) if is_static or _is_look(visit) else None
        if refusal is not None:
            await _refused(request, refusal, visit.path, visit.base)(scope, receive, _with(send, HEADERS))
        elif is_static:
            await self._inside(visit.scope(), receive, _with(send, HEADERS, found=STATIC_HEADERS))
        elif visit.path in {SIGN_IN, SIGN_OUT, NEW_LINK}:
            answer = await self._at_the_door(visit)
            await answer(scope, receive, _with(send, HEADERS))
        else:
            await self._let_in(visit, send)

    async def _let_in(self, visit: "_Visit", send: Send) -> None:
        scope, receive = visit.request.scope, visit.request.receive
        admitted = await self._authenticator.admit(visit.request)
        if isinstance(admitted, Refusal):
            await self._audit.refused(visit.caller, admitted)
            answer = _refused(visit.request, admitted, visit.path, visit.base)
            await answer(scope, receive, _with(send, HEADERS))
        elif visit.path == LIVE and not scope.get(STREAMS, True):
            words = PlainTextResponse("no live updates here: ask for /frame\n", HTTPStatus.NOT_IMPLEMENTED)
            await words(scope, receive, _with(send, HEADERS, admitted.cookies))
        elif visit.is_bare and visit.request.method in {"GET", "HEAD"}:
            await _go(f"{visit.base}/", admitted.cookies)(scope, receive, _with(send, HEADERS))
        else:
            inner = {**visit.scope(), "scheme": visit.caller.scheme, ADMITTED: admitted}
            await self._inside(inner, receive, _with(send, HEADERS, admitted.cookies))

    async def _at_the_door(self, visit: "_Visit") -> Response:
        if visit.request.method not in {"GET", "HEAD", "POST"}:
            return PlainTextResponse("GET or POST\n", HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET, POST"})
        if visit.path == SIGN_OUT:
            return await self._sign_out(visit)
        if visit.path == NEW_LINK:
            return await self._new_link(visit)
        if visit.request.method == "POST":
            return await self._sign_in(visit)
        if "once" in visit.request.query_params:
            return await self._by_link(visit)
        return self._page(visit)

    async def _sign_in(self, visit: "_Visit") -> Response:
        found = await self._authenticator.sign_in(visit.request)
        if isinstance(found, Refusal):
            return await self._kept_out(visit, found)
        await self._audit.came(found)
        return _go(local_path((await read_form(visit.request)).get("next"), visit.base), found.cookies)

    async def _by_link(self, visit: "_Visit") -> Response:
        found = self._authenticator.sign_in_by_link(visit.request)
        if isinstance(found, Refusal):
            return await self._kept_out(visit, found)
        await self._audit.came(found)
        return _after_link(local_path(visit.request.query_params.get("next"), visit.base), found.cookies)

    async def _new_link(self, visit: "_Visit") -> Response:
        """Print a link where the dashboard was started: the browser that asks learns nothing of it."""
        asks, typed = self._authenticator.may_ask_for_link(visit.request), await _typed(visit.request)
        if isinstance(asks, Refusal):
            return self._page(visit, asks, typed)
        wanted = local_path(typed.get("next"), visit.base)
        after = "" if wanted == f"{visit.base}/" else wanted
        if self._print_link is not None:
            self._print_link(after)
        query = urlencode({"printed": "1"} | ({"next": after} if after else {}))
        return _go(f"{visit.base}{SIGN_IN}?{query}", ())

    async def _sign_out(self, visit: "_Visit") -> Response:
        admitted = await self._authenticator.admit(visit.request)
        if isinstance(admitted, Refusal):
            return _refused(visit.request, admitted, SIGN_OUT, visit.base)
        if visit.request.method != "POST":
            return _go(f"{visit.base}/", ())
        cookies = self._authenticator.sign_out(admitted)
        await self._audit.went(admitted)
        return _go(f"{visit.base}{SIGN_IN}", cookies)

    async def _kept_out(self, visit: "_Visit", refusal: Refusal) -> Response:
        await self._audit.refused(visit.caller, refusal)
        return self._page(visit, refusal, await _typed(visit.request))

    def _page(
        self, visit: "_Visit", refusal: Refusal | None = None, typed: Mapping[str, str] = MappingProxyType({})
    ) -> Response:
        """Return the page to sign in; what was `typed` there before is kept, but for what is secret."""
        texts, ways, query = texts_for(visit.request), self._authenticator.ways, visit.request.query_params
        text = sign_in_page(
            texts,
            visit.base,
            users=How.PASSWORD in ways,
            token=How.TOKEN in ways,
            link=How.LINK in ways and self._print_link is not None,
            printed="printed" in query,
            next=local_path(typed.get("next") or query.get("next"), visit.base),
            name=typed.get("name", ""),
            problem=None if refusal is None else texts.say(_problem(refusal, typed)),
        )
        status, headers = (HTTPStatus.OK, ()) if refusal is None else (refusal.status, refusal.headers)
        return HTMLResponse(text, status, dict(headers))


@dataclass(frozen=True, slots=True)
class _Visit:
    """A request, where it comes from, where its browser finds us, and what it wants below that."""

    request: Request
    caller: Caller
    base: str
    path: str

    @property
    def is_bare(self) -> bool:
        """Whether the slash is missing after the place where we are."""
        return bool(self.base) and not self.request.scope["path"].endswith("/") and self.path == "/"

    def scope(self) -> Message:
        """Return the scope as the browser sees it: a proxy may have cut off some of the path."""
        return {**self.request.scope, "root_path": self.base, "path": f"{self.base}{self.path}"}


async def _typed(request: Request) -> Mapping[str, str]:
    """Return what somebody has typed to sign in; nothing where that cannot be read, or they came by a link."""
    try:
        return dict(await read_form(request)) if request.method == "POST" else {}
    except RefusedError:
        return {}


def _problem(refusal: Refusal, typed: Mapping[str, str]) -> str:
    """Return the name of the text that says why somebody did not come in."""
    if refusal.code is Code.WRONG and typed:
        return "refused.wrong_token" if typed.get("token") else "refused.wrong_password"
    return f"refused.{refusal.code}"


def _below(path: str, place: str) -> str:
    """Return what of a path is below a place, all of it where it is not there."""
    is_there = f"{path}/".startswith(f"{place}/")
    return (path[len(place) :] or "/") if is_there else path


def _is_look(visit: "_Visit") -> bool:
    """Tell whether somebody looks at the page to sign in: what they send there is counted with the attempts."""
    return visit.path == SIGN_IN and visit.request.method != "POST"


def _go(to: str, cookies: tuple[str, ...]) -> Response:
    response = RedirectResponse(to, HTTPStatus.SEE_OTHER)
    for cookie in cookies:
        response.headers.append("set-cookie", cookie)
    return response


def _after_link(to: str, cookies: tuple[str, ...]) -> Response:
    """Go on by ourselves: a browser that came from elsewhere would not bring its new cookie along a redirection."""
    to = escape(to)
    nothing = '<!doctype html><title>…</title><link rel="icon" href="data:,">'
    response = HTMLResponse(f'{nothing}<meta http-equiv="refresh" content="0;url={to}">')
    for cookie in cookies:
        response.headers.append("set-cookie", cookie)
    return response


def _refused(request: Request, refusal: Refusal, path: str, base: str) -> Response:
    """Return the answer to somebody who is not let in: a program is told why, a browser is led to the sign-in."""
    if path.startswith(API):
        says = {"code": refusal.code, "message": refusal.says, "status": refusal.status.value}
        return JSONResponse({"error": says}, refusal.status, dict(refusal.headers))
    wants_page = request.method == "GET" and "text/html" in request.headers.get("accept", "")
    if refusal.code is Code.SIGN_IN and wants_page:
        query = request.scope["query_string"].decode("latin-1")
        query = f"?{query}" if query else ""
        after = urlencode({"next": f"{base}{path}{query}"}) if path != "/" else ""
        return _go(f"{base}{SIGN_IN}{'?' if after else ''}{after}", ())
    words = texts_for(request).say(f"refused.{refusal.code}") if wants_page else refusal.says
    return PlainTextResponse(f"{words}\n", refusal.status, dict(refusal.headers))


def _with(
    send: Send, headers: Mapping[str, str], cookies: tuple[str, ...] = (), found: Mapping[str, str] | None = None
) -> Send:
    """Return a way to send on which every answer gets our headers, and the cookies that it must carry.

    `found` are those of what is there, in place of the others.
    """

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            told = MutableHeaders(raw=message.setdefault("headers", []))
            is_there = found is not None and message["status"] == HTTPStatus.OK
            for name, value in (found if found is not None and is_there else headers).items():
                told[name] = value
            for cookie in cookies:
                told.append("set-cookie", cookie)
        await send(message)

    return sent
