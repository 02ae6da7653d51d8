"""The doorway: every request passes it. Who is not let in gets no further; every answer leaves with our headers.

static files ─► whoever may reach us      sign-in, sign-out ─► here      all else ─► whoever is signed in
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from html import escape
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response

from holdfast.dashboard.access.bodies import read_form
from holdfast.dashboard.access.entrance import Entrance
from holdfast.dashboard.access.headers import HEADERS, STATIC_HEADERS
from holdfast.dashboard.access.paths import local_path
from holdfast.dashboard.access.refusal import Code, Refusal
from holdfast.dashboard.access.sessions import How
from holdfast.dashboard.web.signing import sign_in_page
from holdfast.dashboard.web.site import texts_for

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Message, Receive, Send], Awaitable[None]]

ADMITTED = "holdfast.admitted"
"""Who was let in, in the scope of a request."""

STATIC, API = "/static/", "/api/"
SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"


class Doorway:
    """Lets requests through to the pages and the API."""

    def __init__(self, inside: Asgi, entrance: Entrance) -> None:
        self._inside = inside
        self._entrance = entrance

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
        caller = self._entrance.look_at(request)
        if isinstance(caller, Refusal):
            await _refused(request, caller, scope["path"], "")(scope, receive, _with(send, HEADERS))
            return
        base = self._entrance.base(caller)
        path = _below(scope["path"], base)
        is_static = path.startswith(STATIC) and request.method in {"GET", "HEAD"}
        refusal = self._entrance.refuse_often(caller) if is_static or _is_look(request, path) else None
        if refusal is not None:
            await _refused(request, refusal, path, base)(scope, receive, _with(send, HEADERS))
        elif is_static:
            await self._inside({**scope, "root_path": base}, receive, _with(send, HEADERS, found=STATIC_HEADERS))
        elif path in {SIGN_IN, SIGN_OUT}:
            answer = await self._at_the_door(request, path, base)
            await answer(scope, receive, _with(send, HEADERS))
        else:
            await self._let_in(request, path, base, send)

    async def _let_in(self, request: Request, path: str, base: str, send: Send) -> None:
        scope, receive = request.scope, request.receive
        admitted = await self._entrance.admit(request)
        if isinstance(admitted, Refusal):
            answer = _refused(request, admitted, path, base)
            await answer(scope, receive, _with(send, HEADERS))
            return
        if base and scope["path"] == base and request.method in {"GET", "HEAD"}:
            await _go(f"{base}/", admitted.cookies)(scope, receive, _with(send, HEADERS))
            return
        inner = {**scope, "root_path": base, "scheme": admitted.caller.scheme, ADMITTED: admitted}
        await self._inside(inner, receive, _with(send, HEADERS, admitted.cookies))

    # -- coming and going ------------------------------------------------------------------------------------

    async def _at_the_door(self, request: Request, path: str, base: str) -> Response:
        if request.method not in {"GET", "HEAD", "POST"}:
            return PlainTextResponse("GET or POST\n", HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET, POST"})
        if path == SIGN_OUT:
            return await self._sign_out(request, base)
        if request.method == "POST":
            return await self._sign_in(request, base)
        if "once" in request.query_params:
            found = self._entrance.sign_in_by_link(request)
            if isinstance(found, Refusal):
                return self._page(request, base, found)
            return _after_link(f"{base}/", found.cookies)
        return self._page(request, base)

    async def _sign_in(self, request: Request, base: str) -> Response:
        found = await self._entrance.sign_in(request)
        if isinstance(found, Refusal):
            return self._page(request, base, found)
        return _go(local_path((await read_form(request)).get("next"), base), found.cookies)

    async def _sign_out(self, request: Request, base: str) -> Response:
        admitted = await self._entrance.admit(request)
        if isinstance(admitted, Refusal):
            return _refused(request, admitted, SIGN_OUT, base)
        if request.method != "POST":
            return _go(f"{base}/", ())
        return _go(f"{base}{SIGN_IN}", self._entrance.sign_out(admitted))

    def _page(self, request: Request, base: str, refusal: Refusal | None = None) -> Response:
        texts, ways = texts_for(request), self._entrance.ways
        text = sign_in_page(
            texts,
            base,
            users=How.PASSWORD in ways,
            token=How.TOKEN in ways,
            next=local_path(request.query_params.get("next"), base),
            problem=None if refusal is None else texts.say(f"refused.{refusal.code}"),
        )
        status, headers = (HTTPStatus.OK, ()) if refusal is None else (refusal.status, refusal.headers)
        return HTMLResponse(text, status, dict(headers))


def _below(path: str, base: str) -> str:
    """Return what of a path is below our own place."""
    inside = base and (path == base or path.startswith(f"{base}/"))
    return (path[len(base) :] or "/") if inside else path


def _is_look(request: Request, path: str) -> bool:
    """Tell whether somebody looks at the page to sign in: what they send there is counted with the attempts."""
    return path == SIGN_IN and request.method != "POST"


def _go(to: str, cookies: tuple[str, ...]) -> Response:
    response = RedirectResponse(to, HTTPStatus.SEE_OTHER)
    for cookie in cookies:
        response.headers.append("set-cookie", cookie)
    return response


def _after_link(to: str, cookies: tuple[str, ...]) -> Response:
    """Go on by ourselves: a browser that came from elsewhere would not bring its new cookie along a redirection."""
    to = escape(to)
    response = HTMLResponse(f'<!doctype html><title>…</title><meta http-equiv="refresh" content="0;url={to}">')
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
    send: Send,
    headers: Mapping[str, str],
    cookies: tuple[str, ...] = (),
    found: Mapping[str, str] | None = None,
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
