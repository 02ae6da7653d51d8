"""Attack: the dashboard inside another app, below a path, behind a proxy, by ASGI and by WSGI."""

import io
import time
from urllib.parse import urlencode
from wsgiref.util import setup_testing_defaults

import httpx
import pytest
from siege import PASSWORD, QUICK, TOKEN

from dashboard_stage import Stage, open_stage
from standfast.dashboard import Dashboard, Role, User
from standfast.dashboard.access.caller import POLICY, cookie_name
from standfast.dashboard.access.sessions import (
    IDLE,
    LONGEST,
    SESSION_COOKIE,
    How,
    Session,
    Sessions,
    Signer,
    secret_from,
)
from standfast.dashboard.access.users import add_user
from standfast.settings import read_settings

KEY = "k" * 40
DATABASE = "postgresql://ada:the-password-of-the-database@db.example/jobs"
ORIGIN = "https://jobs.example"


@pytest.fixture
def stage():
    with open_stage() as stage:
        loaded = read_settings({"url": DATABASE}, environment={})
        stage.settings, stage.settings_from = loaded.settings, loaded.where
        yield stage


def browser(stage, app, *, peer="10.0.0.1", root="", **headers):
    """Return what asks the app on the loop of the stage, as a proxy at this address hands it on."""
    transport = httpx.ASGITransport(app, client=(peer, 9), root_path=root)
    client = httpx.AsyncClient(transport=transport, base_url="http://jobs.example", headers=headers)

    def ask(method, path, **more):
        return stage.wait(client.request(method, path, **more))

    ask.cookies = client.cookies
    return ask


def cookies_of(answer):
    return answer.headers.get_list("set-cookie")


def test_a_session_that_is_over_is_none(stage):
    """Too old, idle for too long, or from the future; signed with the right secret all the same."""
    app = Dashboard(stage, token=TOKEN, secret=KEY, links=True).asgi
    signer, now, name = Signer(secret_from(KEY)), time.time(), cookie_name(SESSION_COOKIE, "80", "")

    def status(began_at, seen_at):
        session = Session("i", How.LINK, "owner", "", began_at, seen_at)
        ask = browser(stage, app, cookie=f"{name}={Sessions(signer).write(session)}")
        return ask("GET", "/api/v1/overview").status_code

    assert status(now, now) == 200
    assert status(now - LONGEST - 1, now) == 401
    assert status(now - IDLE - 1, now - IDLE - 1) == 401
    assert status(now + 3600, now + 3600) == 401
    assert status(now, float("1e308")) == 401


def test_behind_a_proxy_below_a_path(stage, tmp_path):
    """Cookies are for that path and for https alone; redirections stay there; strangers set neither."""
    add_user(tmp_path / "users", "ada", Role.ADMIN, PASSWORD, hasher=QUICK)
    app = Dashboard(stage, users=tmp_path / "users", trusted_proxies=["10.0.0.1/32"]).asgi
    proxied = {"x-forwarded-proto": "https", "x-forwarded-prefix": "/ops", "x-forwarded-for": "203.0.113.9"}
    ask = browser(stage, app, origin=ORIGIN, **proxied)
    signed = ask("POST", "/sign-in", data={"name": "ada", "password": PASSWORD})
    assert signed.headers["location"] == "/ops/"
    assert all("; Path=/ops; HttpOnly; SameSite=Strict; Secure" in each for each in cookies_of(signed))
    session = signed.headers["set-cookie"].partition(";")[0]
    inside = browser(stage, app, origin=ORIGIN, cookie=session, **proxied)
    page = inside("GET", "/queues").text
    csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
    assert csrf
    for form in ({"operation": "/do/queues.pause", "name": "mail"}, {"operation": "/lang", "lang": "en"}):
        path = form.pop("operation")
        done = inside("POST", path, data={**form, "csrf": csrf, "back": "/jobs"})
        assert done.headers["location"] == "/ops/jobs"
        cookies = cookies_of(done)
        assert cookies
        for cookie in cookies:
            assert {"Path=/ops", "HttpOnly", "Secure", "SameSite=strict"} <= set(cookie.split("; "))
    assert inside("GET", "/jobs/").status_code == 404
    outside = browser(stage, app, peer="203.0.113.9", origin="http://jobs.example", **proxied)
    answer = outside("POST", "/sign-in", data={"name": "ada", "password": PASSWORD})
    assert answer.headers["location"] == "/"
    assert not [each for each in cookies_of(answer) if "Secure" in each or "/ops" in each]


def test_mounted_below_a_path_it_is_closed_there_and_nowhere_else(stage):
    """No spelling of the path leads around the entrance."""
    app = Dashboard(stage, token=TOKEN).asgi
    ask = browser(stage, app, root="/ops")
    for path in (
        "/ops",
        "/ops/",
        "/ops/jobs",
        "/ops/static/../jobs",
        "/ops//jobs",
        "/ops/ops/jobs",
        "/OPS/jobs",
        "/jobs",
    ):
        assert ask("GET", path).status_code == 401, path
        assert "Queues" not in ask("GET", path).text
    allowed = browser(stage, app, root="/ops", authorization=f"Bearer {TOKEN}")
    assert allowed("GET", "/ops/jobs").status_code == 200
    assert allowed("GET", "/ops/static/static/x").status_code == 404


def test_a_stranger_at_the_same_address_does_not_keep_those_out_who_are_in(stage):
    """However often they ask, for whatever everybody sees."""
    app = Dashboard(stage, token=TOKEN).asgi
    stranger, insider = browser(stage, app), browser(stage, app, authorization=f"Bearer {TOKEN}")
    for path in ("/static/x", "/sign-in", "/jobs"):
        assert 429 in {stranger("GET", path).status_code for _ in range(400)}, path
    assert insider("GET", "/api/v1/overview").status_code == 200


def test_who_leaves_the_host_watches_no_more(stage):
    """The host is asked again while somebody watches, if not at every look."""
    known = [User("ada")]
    dashboard = Dashboard(stage, auth=lambda _request: known[0])
    entrance = dashboard._authenticator
    ticks = [0.0]
    entrance._ticks = lambda: ticks[0]
    seen = []

    async def watched():
        from starlette.requests import Request  # noqa: PLC0415 - beside what uses it

        headers = [(b"host", b"x")]
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": headers}
        request = Request({**scope, "scheme": "http", "client": ("10.0.0.1", 1)})
        admitted = await entrance.admit(request)
        seen.append(await entrance.still(admitted, request))
        known[0] = None
        seen.append(await entrance.still(admitted, request))
        ticks[0] = 31.0
        seen.append(await entrance.still(admitted, request))

    stage.wait(watched())
    assert seen == [True, True, False]


def test_the_password_of_the_database_is_not_told(stage):
    ask = browser(stage, Dashboard(stage, token=TOKEN).asgi, authorization=f"Bearer {TOKEN}")
    for path in ("/settings", "/api/v1/settings"):
        answer = ask("GET", path)
        assert "db.example" in answer.text
        assert "the-password-of-the-database" not in answer.text


class Wsgi:
    """A server that speaks WSGI, and hands on whatever it is given."""

    def __init__(self, app) -> None:
        self._app = app

    def __call__(self, method="GET", path="/", body=b"", query="", **environ):
        asked = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query, "REMOTE_ADDR": "10.0.0.1"}
        asked |= {"wsgi.input": io.BytesIO(body), "SCRIPT_NAME": "/ops", "HTTP_HOST": "jobs.example", **environ}
        setup_testing_defaults(asked)
        told = []
        whole = b"".join(self._app(asked, lambda status, headers: told.extend((int(status[:3]), dict(headers)))))
        return told[0], {name.lower(): value for name, value in told[1].items()}, whole


def test_by_wsgi_all_of_it_holds(stage: Stage):
    """The entrance, the headers, the limits; lengths and addresses that are none break nothing."""
    ask = Wsgi(Dashboard(stage, token=TOKEN).wsgi)
    bearer = {"HTTP_AUTHORIZATION": f"Bearer {TOKEN}"}
    assert ask(path="/jobs")[0] == 401
    assert ask(path="/jobs", **bearer)[0] == 200
    for length, refused in (("-1", 400), ("x", 400), ("²", 400), ("9" * 30, 400), (str((1 << 21) + 1), 413)):
        status, headers, _ = ask("POST", "/do/queues.pause", b"x" * 20, CONTENT_LENGTH=length, **bearer)
        assert status == refused, length
        assert headers["content-security-policy"] == POLICY
    for query in ("\xff\xfe=\xff", "%ff=%00", "a" * 9000):
        assert ask(path="/jobs", query=query, **bearer)[0] == 200
        assert ask(path="/api/v1/nix", query=query, **bearer)[0] == 404
        assert ask(path="/jobs", query=query, HTTP_ACCEPT="text/html")[0] == 303
    assert ask(path="/jobs/\xff", **bearer)[0] == 404
    body = urlencode({"token": TOKEN}).encode()
    form = {"CONTENT_TYPE": "application/x-www-form-urlencoded", "CONTENT_LENGTH": str(len(body))}
    assert ask("POST", "/sign-in", body, HTTP_ORIGIN="https://evil.example", **form)[0] == 403
    status, headers, _ = ask("POST", "/sign-in", body, HTTP_ORIGIN="http://jobs.example", **form)
    assert (status, headers["location"]) == (303, "/ops/")
    assert "Path=/ops;" in headers["set-cookie"]
    cookie = headers["set-cookie"].partition(";")[0]
    assert (
        ask("POST", "/do/queues.pause", body, HTTP_COOKIE=cookie, HTTP_ORIGIN="http://jobs.example", **form)[0]
        == 403
    )
