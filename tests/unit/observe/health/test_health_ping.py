"""A ping is bounded in time, follows nobody to another host, and tells its token to nobody else."""

import socket
import ssl
import threading

import pytest

from ping_hosts import ping_host
from servers.tls import Authority
from standfast.errors import ConfigurationError
from standfast.hosts.keepalive import Target, ping

TOKEN = "a-token-that-nobody-guesses"


@pytest.mark.parametrize(
    ("status", "ok", "says"),
    [
        (200, True, "200 OK"),
        (204, True, "204 No Content"),
        (304, True, "304 Not Modified"),
        (401, False, "401 Unauthorized"),
        (404, False, "404 Not Found"),
        (503, False, "503 Service Unavailable"),
        (599, False, "599"),
    ],
)
def test_what_counts_as_an_answer(status, ok, says):
    with ping_host(status) as host:
        pinged = ping(Target.of(f"{host.url}/livez?q=1"), 10)
        assert (pinged.ok, pinged.says) == (ok, says)
        assert host.asked == [("/livez?q=1", None)]


@pytest.mark.parametrize(
    ("said", "asked"), [("", "/"), ("?q=1", "/?q=1"), ("/?", "/"), ("/a;b?c?d#e", "/a;b?c?d"), ("#e", "/")]
)
def test_what_is_asked_for(said, asked):
    with ping_host() as host:
        assert ping(Target.of(host.url + said), 10).ok
        assert host.asked == [(asked, None)]


@pytest.mark.parametrize("name", ["a..b", f"{'a' * 70}.example", "nowhere.invalid"])
def test_what_is_no_host(name):
    assert ping(Target.of(f"http://{name}/"), 10).says == "its host name is not known"


def test_the_token_goes_in_the_header_and_along_on_the_same_host():
    with ping_host(302, 200, location="/elsewhere?x#y") as host:
        assert ping(Target.of(host.url), 10, TOKEN).ok
        assert host.asked == [("/", f"Bearer {TOKEN}"), ("/elsewhere?x", f"Bearer {TOKEN}")]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_nobody_is_followed_to_another_host(status):
    with ping_host() as other, ping_host(status, location=other.url) as host:
        pinged = ping(Target.of(host.url), 10, TOKEN)
        assert (pinged.ok, pinged.says) == (
            False,
            f"{status}, a redirect to another host: give the URL that it leads to",
        )
        assert other.asked == []


@pytest.mark.parametrize("location", ["ftp://x/", "http://user:secret@127.0.0.1/", "http://[", "gopher:x"])
def test_a_redirect_to_nowhere(location):
    with ping_host(302, location=location) as host:
        assert ping(Target.of(host.url), 10).says == "302, a redirect that cannot be followed"


def test_a_circle_ends():
    with ping_host(302, location="/") as host:
        assert ping(Target.of(host.url), 10).says == "more than 5 redirects"
        assert len(host.asked) == 6


@pytest.mark.parametrize(
    ("one", "other", "may"),
    [
        ("http://a/", "http://a/x", True),
        ("http://a/", "https://a/", True),
        ("http://a:80/", "https://a:443/", True),
        ("https://a/", "http://a/", False),
        ("http://a/", "http://a:8080/", False),
        ("http://a:8080/", "https://a/", False),
        ("http://a/", "http://b/", False),
        ("http://a/", "http://sub.a/", False),
    ],
)
def test_what_is_the_same_host(one, other, may):
    assert Target.of(one).leads_on(Target.of(other)) is may


@pytest.mark.parametrize("dripped", [b"H", b"HTTP/1.1 200 OK\r\nX: y\r\n", b"HTTP/1.1 200 OK\r\n\r\nbody"])
def test_a_host_that_drips_has_no_more_time_than_others(dripped):
    """Each byte comes within the timeout, and all of it does not."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip():
            connection, _ = listening.accept()
            with connection:
                connection.sendall(dripped)
                while not over.wait(0.02):
                    try:
                        connection.sendall(b"x")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        pinged = ping(Target.of(f"http://127.0.0.1:{listening.getsockname()[1]}/"), 0.2)
        over.set()
        thread.join()
    assert (pinged.ok, pinged.says) == (False, "no answer within 0.2 s")


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    assert ping(Target.of(f"http://127.0.0.1:{port}/"), 10).says == "connection refused"
    assert ping(Target.of("http://nowhere.invalid/"), 10).says == "its host name is not known"


def test_tls_is_checked_before_the_token_is_sent(tmp_path, monkeypatch):
    """By the authorities that this machine trusts, and by the name."""
    authority = Authority(tmp_path, "authority")
    good, other = authority.sign("good"), authority.sign("other", "DNS:elsewhere.example")
    for trusted, certificate, ok, says in (
        (authority, good, True, "200 OK"),
        (authority, other, False, "its certificate is refused: IP address mismatch"),
        (None, good, False, "its certificate is refused: unable to get local issuer certificate"),
    ):
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted.cert) if trusted else "/dev/null")
        with ping_host() as host:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate.cert, certificate.key)
            host.socket = context.wrap_socket(host.socket, server_side=True, do_handshake_on_connect=False)
            pinged = ping(Target.of(host.url.replace("http://", "https://")), 10, TOKEN)
            assert (pinged.ok, host.asked) == (ok, [("/", f"Bearer {TOKEN}")] if ok else [])
            assert pinged.says.startswith(says)


def test_what_is_no_tls():
    with ping_host() as host:
        pinged = ping(Target.of(host.url.replace("http://", "https://")), 10, TOKEN)
        assert not pinged.ok
        assert TOKEN not in pinged.says


@pytest.mark.parametrize(
    "url",
    [
        "shop.example",
        "ftp://shop.example/",
        "http:///livez",
        "http://h:port/",
        "http://h/a b",
        "http://h/ü",
        "http://[",
        "",
    ],
)
def test_what_is_no_url_to_ping(url):
    with pytest.raises(ConfigurationError, match=r"must look like|cannot be read"):
        Target.of(url)


def test_a_password_in_a_url_is_refused_unsaid():
    with pytest.raises(ConfigurationError, match="no user and no password") as refused:
        Target.of("https://user:hunter2@shop.example/")
    assert "hunter2" not in str(refused.value)


def test_the_query_is_not_told():
    assert Target.of("https://shop.example:8443/ping?key=hunter2#x").name == "https://shop.example:8443/ping"
