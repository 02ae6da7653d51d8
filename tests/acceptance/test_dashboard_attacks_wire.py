"""Attack: requests as no browser sends them. Odd paths, hosts, methods and bodies; every answer is guarded."""

import re
import socket
from contextlib import suppress

import pytest
from poison import poison
from siege import TOKEN, besieged, csrf_of, told

from standfast.dashboard.access.request import LARGEST_BODY, MOST_FIELDS
from standfast.dashboard.api import LONGEST_BODY

BEARER = f"Authorization: Bearer {TOKEN}"
ALWAYS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("siege")


@pytest.fixture(scope="module")
def siege(folder):
    poison(folder)
    with besieged(folder) as siege:
        yield siege
    assert "Traceback" not in told(folder)


def status(answer: bytes) -> int:
    return int(re.match(rb"HTTP/1\.1 (\d+)", answer)[1])


def asked(siege, target, *more, method="GET", host=None):
    """Return the answer to a request for just this target, by somebody who may see everything."""
    host = f"127.0.0.1:{siege.port}" if host is None else host
    return siege.raw(f"{method} {target} HTTP/1.1", f"Host: {host}", BEARER, "Connection: close", *more)


def test_no_path_leads_out(siege):
    """Static files are those we know, and what is not there is not there: no file, no error, no redirection."""
    tricks = (
        "/static/../site.py",
        "/static/..%2f..%2fsite.py",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/static/....//....//etc/passwd",
        "/static/..\\..\\site.py",
        "/static//etc/passwd",
        "/static/%00",
        "/static/dashboard.js",
        "/static/dashboard.css%00.js",
        "//static/../jobs",
        "/jobs/..%2f..%2fsettings",
        "/jobs/%00",
        "/jobs/%ff%fe",
        "/jobs/x%0d%0aset-cookie:%20a=b",
        "/jobs/\\..\\",
        "/queues/..",
        "/api/v1/jobs/%2e%2e%2fsettings",
        "/api/v1/../../settings",
        "/api/v1//jobs",
        "/api/v1/jobs/%00",
        "/live/../jobs",
        "/do/queues.pause",
        "/" + "a" * 8000,
        "/%",
        "/%zz",
        "/;/jobs",
        "/jobs;x=y",
        "/jobs%2f",
        "/.git/config",
    )
    for target in tricks:
        answer = asked(siege, target)
        assert status(answer) in {404, 405, 422}, (target, answer[:200])
        assert b"root:" not in answer
        assert b"set-cookie" not in answer.partition(b"\r\n\r\n")[0].lower()
        assert b"immutable" not in answer, target


def test_what_is_asked_to_be_watched_is_a_page_of_ours(siege):
    """Whatever it is, it is answered with a page, if only to say that there is none."""
    client = siege.program()
    for at in (
        "//[x",
        "//evil.example/jobs",
        "http://[",
        "/jobs/%00",
        "?",
        "x",
        "/\\",
        "/jobs?limit=x",
        "/" * 9000,
    ):
        answer = client.get("/frame", params={"at": at})
        assert answer.status_code == 200, at
        assert "<main" in answer.text
    with client.stream("GET", "/live", params={"at": "//[x"}) as stream:
        assert next(stream.iter_lines()) == "event: frame"


def test_only_by_our_own_names(siege):
    """A name that a foreign name server leads here is none of ours; nor are two names, or none."""
    port = siege.port
    foreign = ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}")
    for host in (*foreign, "[", "[::1", "a@127.0.0.1", ""):
        for target in ("/", "/static/x", "/sign-in", "/api/v1/overview", "/live"):
            answer = asked(siege, target, host=host)
            assert status(answer) in {400, 421}, (host, target, answer[:100])
    two = asked(siege, "/", "Host: evil.example")
    assert status(two) == 400
    none = siege.raw("GET / HTTP/1.1", BEARER, "Connection: close")
    assert status(none) == 400
    absolute = asked(siege, "http://evil.example/jobs")
    assert status(absolute) in {400, 404, 421}
    for header in ("X-Forwarded-Host: evil.example", "Forwarded: host=evil.example", "X-Original-URL: /settings"):
        page = asked(siege, "/jobs/nix", header)
        assert status(page) == 404
        assert b"evil.example" not in page
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", "LOCALHOST", "[::1]"):
        assert status(asked(siege, "/api/v1/overview", host=host)) == 200


def test_what_strangers_say_of_proxies_is_not_heard(siege):
    """No address, no scheme and no prefix is taken from a header that nobody vouches for."""
    said = ("X-Forwarded-For: 10.1.2.3", "X-Forwarded-Prefix: /evil", "X-Forwarded-Proto: https")
    page = asked(siege, "/", *said)
    assert status(page) == 200
    assert b"/evil" not in page
    client = siege.client(headers={"origin": siege.origin, **dict(each.split(": ") for each in said)})
    answer = client.post("/sign-in", data={"token": TOKEN})
    assert "Secure" not in answer.headers["set-cookie"]
    assert "Path=/;" in answer.headers["set-cookie"]


def test_odd_methods_do_nothing(siege):
    for method in ("TRACE", "TRACK", "CONNECT", "PROPFIND", "DELETE", "PUT", "PATCH", "QUERY", "FOO", "get"):
        for target in ("/jobs", "/api/v1/jobs", "/static/x", "/sign-in", "/sign-out", "/live", "/nix"):
            answer = asked(siege, target, method=method)
            assert status(answer) in {400, 404, 405}, (method, target, answer[:80])
            assert TOKEN.encode() not in answer
    for target in ("/", "/jobs", "/api/v1/jobs", "/sign-in"):
        head = asked(siege, target, method="HEAD")
        assert status(head) == 200
        assert head.endswith(b"\r\n\r\n")


def test_every_kind_of_answer_is_guarded(siege):
    """Pages, errors, refusals, redirections, files, streams, JSON, what is not there and what is not allowed."""
    client, stranger = siege.signed_in(), siege.client()
    script = re.search(r'src="(/static/dashboard[^"]+)"', client.get("/").text)[1]
    answers = [
        client.get(path) for path in ("/", "/jobs/nix", "/nix", "/static/nix", "/api/v1/jobs", "/api/v1/nix")
    ]
    answers += [client.get(path) for path in ("/jobs/export?format=csv", "/find?text=x", "/jobs/", script)]
    answers += [client.post(path) for path in ("/jobs", "/do/nix", "/api/v1/jobs", "/nix")]
    answers += [stranger.get("/"), stranger.get("/", headers={"accept": "text/html"}), stranger.get("/sign-in")]
    answers += [stranger.get("/api/v1/jobs"), stranger.get("/", headers={"host": "evil.example"})]
    answers += [stranger.post("/sign-in", data={"token": "x" * 20}), stranger.request("DELETE", "/sign-in")]
    with client.stream("GET", "/live?at=/") as stream:
        answers.append(stream)
    seen = {answer.status_code for answer in answers}
    assert seen >= {200, 303, 401, 403, 404, 405, 421}
    for answer in answers:
        kept = {name: answer.headers.get(name) for name in ALWAYS}
        assert kept == ALWAYS, answer.url
        is_file = str(answer.url).endswith(script)
        assert answer.headers["cache-control"] == ("public, max-age=31536000, immutable" if is_file else "no-store")
        assert "server" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers


def test_bodies_that_are_too_much_are_refused(siege):
    """Too large, too many fields, too deep; told in advance, or as they come."""
    client = siege.signed_in()
    csrf, form = csrf_of(client), {"content-type": "application/x-www-form-urlencoded"}
    large = b"csrf=" + csrf.encode() + b"&name=" + b"x" * LARGEST_BODY
    assert client.post("/do/queues.pause", content=large, headers=form).status_code == 413
    assert client.post("/do/queues.pause", content=iter([large]), headers=form).status_code == 413
    many = "&".join(f"a{number}=1" for number in range(MOST_FIELDS)) + f"&csrf={csrf}"
    assert client.post("/do/queues.pause", content=many, headers=form).status_code == 413
    assert client.post("/sign-in", content=large, headers=form).status_code == 413
    by_script = {**form, "accept": "application/json"}
    twice = f"csrf={csrf}&name=a&name=b"
    assert client.post("/do/queues.pause", content=twice, headers=by_script).status_code == 422
    program, path, as_json = siege.program(), "/api/v1/jobs/x/signal", {"content-type": "application/json"}
    for body, expected in (
        (b"[" * 200_000, 422),
        (b'{"name":"x","data":' + b"[" * 5000 + b"]" * 5000 + b"}", 422),
        (b'{"name":"x","data":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}", 422),
        (b'{"name":' + b"9" * 100_000 + b"}", 422),
        (b'{"name":"x","data":1e99999}', 422),
        (b'{"name":"\\ud800"}', 422),
        (b'{"name":"x","data":NaN}', 422),
        (b'{"name":"x","name":"y","id":"z"}', 422),
        (b'"' + b"x" * (LONGEST_BODY + 1), 413),
    ):
        answer = program.post(path, content=body, headers=as_json)
        assert answer.status_code == expected, (body[:40], answer.text)
        assert answer.json()["error"]["status"] == expected
    deep = f"csrf={csrf}&id=x&name=x&data=" + "[" * 50_000
    assert client.post("/do/jobs.signal", content=deep, headers=by_script).status_code == 422


def test_requests_that_say_two_things_are_refused(siege):
    """Else a proxy before us could read another request than we do."""
    for more in (
        ("Content-Length: 5", "Content-Length: 6"),
        ("Content-Length: -1",),
        ("Transfer-Encoding: chunked, chunked",),
        ("Content-Length: 2", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Content-Length: 0"),
        (b"X\x00: y",),
    ):
        answer = asked(siege, "/api/v1/queues/kept/pause", *more, method="POST")
        assert status(answer) in {400, 431, 501}, (more, answer[:80])
    smuggled = f"POST /api/v1/queues/kept/pause HTTP/1.1\r\nHost: 127.0.0.1:{siege.port}\r\n{BEARER}\r\n\r\n"
    answer = siege.raw(
        "POST /sign-in HTTP/1.1",
        f"Host: 127.0.0.1:{siege.port}",
        "Content-Length: 5",
        "Transfer-Encoding: chunked",
        body=b"0\r\n\r\n" + smuggled.encode(),
    )
    assert (status(answer), answer.count(b"HTTP/1.1 ")) == (400, 1), "what comes after it is not read"
    assert siege.program().get("/api/v1/queues/kept").status_code == 404, "nothing was paused"


def test_who_says_little_and_slowly_holds_nobody_up(siege):
    """Hundreds of half requests are open, and others are answered."""
    wires = [socket.create_connection(("127.0.0.1", siege.port)) for _ in range(200)]
    try:
        for number, wire in enumerate(wires):
            head = f"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1:{siege.port}\r\nOrigin: {siege.origin}\r\n"
            body = "Content-Length: 50\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\nto"
            with suppress(ConnectionError):  # some had to make way
                wire.sendall(f"{head}{body if number % 2 else ''}".encode())
        assert siege.program().get("/api/v1/overview").status_code == 200
    finally:
        for wire in wires:
            wire.close()
