"""Attack: to come in. Without a cookie, with one that is forged, by guessing, by a page of another site."""

import json
import re
import select
from base64 import urlsafe_b64encode
from itertools import count

import httpx
import pytest
from poison import POISON, SECRET, poison
from siege import PASSWORD, TOKEN, besieged, csrf_of, told

from standfast.admin.registry import OPERATIONS
from standfast.dashboard.access.caller import cookie_name
from standfast.dashboard.access.sessions import KNOWN_COOKIE as KNOWN
from standfast.dashboard.web.pages import PAGES


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("siege")


@pytest.fixture(scope="module")
def siege(folder):
    poison(folder)
    with besieged(folder) as siege:
        yield siege
    log = told(folder)
    assert "Traceback" not in log
    assert not [secret for secret in (TOKEN, PASSWORD, SECRET) if secret in log]


def all_paths():
    """Return every address there is, with something for what it names."""
    pages = [re.sub(r"{[^}]+}", "x", page.path) for page in PAGES]
    api = [f"/api/v1{re.sub(r'{[^}]+}', 'x', operation.path)}" for operation in OPERATIONS]
    return [
        *pages,
        *api,
        "/api/v1/openapi.json",
        "/live",
        "/frame?at=/jobs",
        "/find?text=x",
        "/jobs/export",
        "/nix",
    ]


def is_kept_out(answer):
    """Tell whether an answer tells nothing of what is inside."""
    assert answer.status_code in {401, 429} or answer.headers["location"].startswith("/sign-in"), answer.url
    return not any(text in answer.text for text in ("x-task", "csrf", "openapi", "plain"))


def test_without_a_cookie_there_is_nothing_to_see_and_nothing_to_do(siege):
    """Neither for browsers nor for programs, nor live."""
    for path in all_paths():
        client = siege.client()
        assert is_kept_out(client.get(path, headers={"accept": "text/html"}))
        assert client.get(path).status_code == 401
        assert client.head(path).status_code == 401
        for method in ("POST", "OPTIONS"):
            assert client.request(method, path).status_code in {401, 405}
    for operation in OPERATIONS:
        assert siege.client().post(f"/do/{operation.name}", data={"id": "x"}).status_code == 401


def forged(cookie):
    """Yield what somebody makes of a cookie who does not know the secret."""
    for place in (0, 5, 43, 44, 60, len(cookie) // 2, len(cookie) - 1):
        yield f"{cookie[:place]}{'A' if cookie[place] != 'A' else 'B'}{cookie[place + 1 :]}"
    yield from (cookie[:-4], cookie[1:], cookie + "AAAA", cookie.lower(), cookie[::-1], "", "x" * 3000, "%00", "é")
    yield urlsafe_b64encode(b"\0" * 32 + json.dumps(["x", "link", "owner", "", 0, 9e12]).encode()).decode()


def test_a_cookie_that_was_altered_is_none(siege):
    """Nor is one that was signed for something else, though by the same secret."""
    signed = siege.signed_in()
    assert signed.get("/api/v1/overview").status_code == 200
    cookie, known = signed.cookies[siege.session], signed.cookies[cookie_name(KNOWN, str(siege.port), "")]
    for value in (*forged(cookie), known):
        header = {"cookie": f"{siege.session}={value}".encode()}
        assert siege.client().get("/api/v1/overview", headers=header).status_code == 401, value


def test_a_session_that_was_planted_is_not_the_one_after_signing_in(siege):
    """Who makes somebody sign in with the attacker's cookie has no share in what comes of it."""
    planted = siege.signed_in("vera").cookies[siege.session]
    victim = siege.client(cookies={siege.session: planted}, headers={"origin": siege.origin})
    answer = victim.post("/sign-in", data={"name": "ada", "password": PASSWORD})
    made = answer.cookies[siege.session]
    assert made != planted
    assert siege.client(cookies={siege.session: planted}).get("/api/v1/overview").status_code == 401
    assert siege.client(cookies={siege.session: made}).get("/api/v1/overview").status_code == 200


@pytest.fixture
def linked(siege, folder):
    """Give a dashboard for who can read where it was started, and a link of it."""
    del siege  # it has the store filled
    with besieged(folder, is_known=False) as linked:
        yield linked, re.search(r"http://\S+", linked.process.stdout.readline())[0]


def test_where_people_are_known_otherwise_there_are_no_links(siege):
    """Nobody makes one that others find where its output is kept."""
    client = siege.client(headers={"origin": siege.origin})
    assert "/sign-in/link" not in client.get("/sign-in").text
    assert client.post("/sign-in/link").status_code == 401
    ready, _, _ = select.select([siege.process.stdout], [], [], 0)
    assert not ready, "nothing was printed"


def test_a_link_opens_once_and_for_who_opens_it(linked, folder):
    """Mail scanners and browsers that look ahead do not use it up."""
    siege, link = linked
    path = link.removeprefix(siege.url)
    for headers in ({"sec-purpose": "prefetch"}, {"purpose": "prefetch"}, {"sec-purpose": "prefetch;prerender"}):
        assert siege.client().get(path, headers=headers).status_code == 401
    assert siege.client().head(path).status_code == 401
    assert siege.client().post(path, headers={"origin": siege.origin}).status_code == 415
    first, second = siege.client(), siege.client()
    opened = first.get(path, headers={"sec-fetch-site": "cross-site"})
    assert opened.status_code == 200
    assert "once=" not in opened.text
    assert first.get("/api/v1/overview").status_code == 200
    assert second.get(path).status_code == 401
    assert siege.session not in second.cookies
    assert siege.client().get("/sign-in?once=").status_code == 401
    assert link.partition("=")[2] not in told(folder)


FOREIGN = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1"},
    {"origin": "http://127.0.0.1:1"},
    {"origin": "http://localhost.evil.example"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "none"},
    {"sec-fetch-site": "cross-site", "origin": "ours"},
    {"sec-fetch-site": "same-origin", "origin": "https://evil.example"},
    {},
]


def test_no_other_site_writes_with_the_cookie_of_somebody(siege):
    """Whatever it says of itself, and also if it had the token of the form; nor without, nor with another's."""
    client = siege.signed_in()
    csrf, others = csrf_of(client), csrf_of(siege.signed_in("otto"))
    del client.headers["origin"]

    def tried(path, headers, token):
        headers = {name: siege.origin if value == "ours" else value for name, value in headers.items()}
        if path.startswith("/api"):
            return client.post(path, json={}, headers={**headers, "x-csrf-token": token})
        field = {"/lang": {"lang": "zh-Hant"}, "/sign-out": {}}.get(path, {"name": "kept"})
        return client.post(path, data={**field, "csrf": token}, headers=headers)

    paths = ("/do/queues.pause", "/api/v1/queues/kept/pause", "/lang", "/sign-out")
    for path in paths:
        for headers in FOREIGN:
            assert tried(path, headers, csrf).status_code == 403, (path, headers)
        for token in ("", others, csrf[:-1], csrf + "x", csrf.swapcase()):
            assert tried(path, {"origin": "ours"}, token).status_code == 403, (path, token)
    assert client.get("/api/v1/queues/kept").status_code == 404, "nothing was paused"
    as_text = {"origin": siege.origin, "content-type": "text/plain"}
    assert client.post(paths[0], content=f"name=kept&csrf={csrf}", headers=as_text).status_code == 403
    assert client.get(f"/do/queues.pause?name=mail&csrf={csrf}").status_code == 405
    assert tried(paths[0], {"origin": "ours"}, csrf).status_code == 303
    assert client.get("/api/v1/queues/kept").json()["paused_at"]


def test_nobody_is_signed_in_by_another_site(siege):
    for said in FOREIGN:
        headers = {name: siege.origin if value == "ours" else value for name, value in said.items()}
        client = siege.client()
        answer = client.post("/sign-in", data={"token": TOKEN}, headers=headers)
        assert (answer.status_code, siege.session in client.cookies) == (403, False), headers


ELSEWHERE = (
    "//evil.example",
    "/\\evil.example",
    "https://evil.example",
    "https:evil.example",
    "javascript:alert(1)",
    "\\\\evil.example",
    "/%0d%0aset-cookie:x=y",
    "/\t/evil.example",
    "/x\r\nlocation: https://evil.example",
    " //evil.example",
    "/..//evil.example",
    "////evil.example",
)


def test_nobody_is_sent_elsewhere(siege):
    """After signing in, after a form, after choosing a language."""
    client = siege.signed_in()
    csrf = csrf_of(client)
    for place in ELSEWHERE:
        page = siege.client().get("/sign-in", params={"next": place})
        assert "evil" not in re.search(r'name="next" value="([^"]*)"', page.text)[1]
        form = {"token": TOKEN, "next": place}
        answers = [siege.client().post("/sign-in", data=form, headers={"origin": siege.origin})]
        answers.append(client.post("/lang", data={"lang": "en", "back": place, "csrf": csrf}))
        answers.append(client.post("/do/queues.pause", data={"name": "mail", "back": place, "csrf": csrf}))
        for answer in answers:
            assert answer.status_code == 303
            to = httpx.URL(siege.url).join(answer.headers["location"])
            assert (to.host, to.port) == ("127.0.0.1", siege.port), (place, answer.headers["location"])
            assert not answer.headers["location"].startswith("//")
            assert "x" not in answer.cookies
    lang = siege.client().get("/sign-in", params={"lang": '"><script>'})
    assert "<script>" not in lang.text.replace('<script src="', "")


def test_hundreds_of_guesses_open_nothing_and_the_true_ones_come_in_afterwards(siege):
    """By password and by token, from one address and from many."""
    known = siege.signed_in("gus")
    one = siege.client(headers={"origin": siege.origin})
    statuses = set()
    wait = 0
    for number in count():
        if number >= 40 and wait >= 3:  # whom a wait is about to let in again proves nothing
            break
        statuses.add(one.post("/sign-in", data={"name": "gus", "password": f"guess {number}"}).status_code)
        many = siege.client(headers={"origin": siege.origin})
        guessed = many.post("/sign-in", data={"name": "gus", "password": f"guess {number}"})
        wait = int(guessed.headers.get("retry-after", 0))
        statuses.add(guessed.status_code)
        statuses.add(many.post("/sign-in", data={"token": f"{TOKEN[:-4]}{number:04}"}).status_code)
        statuses.add(many.get("/api/v1/overview", headers={"authorization": f"Bearer {number:032}"}).status_code)
    assert statuses == {401, 429}
    assert (
        siege.client(headers={"origin": siege.origin})
        .post("/sign-in", data={"name": "gus", "password": PASSWORD})
        .headers["retry-after"]
    )
    assert known.post("/sign-in", data={"name": "gus", "password": PASSWORD}).status_code == 303
    assert siege.program().get("/api/v1/overview").status_code == 200
    siege.signed_in("otto")


def test_live_updates_end_with_the_session(siege):
    """And are for nobody without one."""
    assert siege.client().get("/live?at=/").status_code == 401
    client = siege.signed_in("vera")
    csrf = csrf_of(client)
    with client.stream("GET", "/live?at=/jobs") as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: frame"
        assert any("x-task" in line for line in lines if line.startswith("data: ") and POISON["task"] not in line)
        other = siege.client(cookies=dict(client.cookies), headers={"origin": siege.origin})
        assert other.post("/sign-out", data={"csrf": csrf}).status_code == 303
        assert "event: end" in list(lines)
    assert siege.client(cookies=dict(client.cookies)).get("/live?at=/").status_code == 401
