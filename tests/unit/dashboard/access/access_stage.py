"""What tests of the entrance have in common: requests without a server, and a clock that the test moves."""

from urllib.parse import urlencode

from starlette.requests import Request

from standfast.dashboard.access.authentication import Authenticator
from standfast.dashboard.access.caller import Refusal
from standfast.dashboard.access.sign_in import Identity

TOKEN = "t" * 32
ORIGIN = "http://127.0.0.1:8080"


class Time:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def request(
    method="GET",
    path="/",
    *,
    peer="127.0.0.1",
    headers=(),
    host="127.0.0.1:8080",
    form=None,
    body=b"",
    scheme="http",
):
    """Return a request as a server hands it on; headers are pairs, or a mapping."""
    given = list(headers.items() if isinstance(headers, dict) else headers)
    if host is not None:
        given.append(("host", host))
    if form is not None:
        body = urlencode(form).encode()
        given.append(("content-type", "application/x-www-form-urlencoded"))
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "scheme": scheme,
        "server": ("127.0.0.1", 8080),
        "client": None if peer is None else (peer, 5000),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given],
    }
    parts = [body[start : start + 65536] for start in range(0, len(body), 65536)] or [b""]

    async def receive():
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    return Request(scope, receive)


def entrance(time, **options):
    """Return an entrance on this time."""
    return Authenticator(clock=time, ticks=time, **options)


def jar(admitted):
    """Return the Cookie header of a browser that was given these cookies."""
    return "; ".join(each.partition(";")[0] for each in admitted.cookies)


def by_link(door, **more):
    """Return somebody who came by a new link."""
    return came(door.sign_in_by_link(request(path=f"/sign-in?once={door.new_link()}", **more)))


async def by_form(door, fields, headers=(), **more):
    """Return what comes of a form to sign in, sent by a page of ours."""
    return await door.sign_in(
        request("POST", "/sign-in", form=fields, headers=[("origin", ORIGIN), *headers], **more)
    )


def came(answer):
    """Return somebody who was let in."""
    assert isinstance(answer, Identity), answer
    return answer


def why(answer):
    """Return status and code of a refusal."""
    assert isinstance(answer, Refusal), answer
    return int(answer.status), str(answer.code)
