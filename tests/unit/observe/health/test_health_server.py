"""The small server, by real sockets: malformed, slow and many clients harm nobody."""

import http.client
import json
import socket
import threading

import pytest

from standfast import Standfast
from standfast.errors import ConfigurationError
from standfast.observe.health import http_server
from standfast.observe.health.access import LOOPBACK
from standfast.observe.health.endpoints import Health
from standfast.observe.health.http_server import HealthServer, is_of_this_machine

TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture
def serve():
    """Give a way to serve health; all is gone at the end."""
    servers = []
    app = Standfast("memory://")

    def start(host="127.0.0.1", **how):
        made = HealthServer(Health(app, rate=1000, **(how or {"networks": LOOPBACK})), host, 0)
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        servers.append((made, thread))
        return made

    yield start
    for made, thread in servers:
        made.shutdown()
        made.server_close()
        thread.join()
    app.close()


def raw(made, sent, *, end=False):
    """Send bytes; return all that comes back."""
    with socket.create_connection(made.server_address[:2], timeout=10) as connection:
        connection.sendall(sent)
        if end:
            connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def connect(made, source="127.0.0.1"):
    """Begin a request."""
    connection = socket.create_connection(made.server_address[:2], timeout=10, source_address=(source, 0))
    connection.sendall(b"GET ")
    return connection


def status(answer):
    return int(answer.split(b" ")[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::"])
def test_one_request_one_answer(serve, host):
    """Also for IPv4 on a socket of IPv6."""
    made = serve(host)
    connection = http.client.HTTPConnection(
        "127.0.0.1" if host == "::" else host, made.server_address[1], timeout=10
    )
    connection.request("GET", "/livez?because=yes")
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())) == (200, {"status": "ok"})
    headers = {name.lower(): value for name, value in answer.getheaders()}
    assert headers["cache-control"] == "no-store"
    assert headers["connection"] == "close"
    assert "server" not in headers
    connection.close()


def test_head_has_no_body(serve):
    made = serve()
    head, _, body = raw(made, b"HEAD /healthz HTTP/1.1\r\n\r\n").partition(b"\r\n\r\n")
    assert (status(head), body) == (503, b"")
    assert b"Content-Length: " in head


@pytest.mark.parametrize(
    "target", [b"//livez", b"/livez/../healthz", b"/%6civez", b"/\xc3\xa9", b"*", b"http://x/livez"]
)
def test_odd_paths_are_nothing(serve, target):
    assert status(raw(serve(), b"GET %s HTTP/1.1\r\n\r\n" % target)) == 404


@pytest.mark.parametrize("path", [b"/livez", b"/metrics", b"/nowhere"])
def test_a_page_that_was_led_here_is_not_answered(serve, path):
    """Its name server says that it lives at 127.0.0.1; a browser then lets it read what this machine says."""
    made = serve()
    asked = b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n"
    assert status(raw(made, asked % (path, b"evil.example:8090"))) == 421
    assert status(raw(made, asked % (path, b"localhost:8090"))) in {200, 404}


MALFORMED = [
    b"\r\n\r\n",
    b"GET /livez\r\n\r\n",
    b"GET /livez HTTP/2.0\r\n\r\n",
    b"GET  /livez HTTP/1.1\r\n\r\n",
    b"GET /livez HTTP/1.1 \r\n\r\n",
    b"GET /livez HTTP/1.1\r\nno colon\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
    b"GET /livez HTTP/1.1\r\n" + b"X: y\r\n" * 5_000 + b"\r\n",
]


@pytest.mark.parametrize("sent", MALFORMED)
def test_what_is_no_request_is_told_so(serve, sent):
    assert status(raw(serve(), sent)) == 400


@pytest.mark.parametrize("sent", [*MALFORMED, b"GET /nothing HTTP/1.1\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n"])
def test_a_stranger_is_told_the_same_whatever_is_sent(serve, sent):
    assert status(raw(serve(token=TOKEN), sent)) == 401
    assert status(raw(serve(networks=["192.0.2.0/24"]), sent)) == 403


def test_a_token_in_the_url_is_none(serve):
    assert status(raw(serve(token=TOKEN), f"GET /livez?token={TOKEN} HTTP/1.1\r\n\r\n".encode())) == 401


def test_half_a_request_is_none(serve):
    assert status(raw(serve(), b"GET /livez HTTP/1.1\r\nHost: here\r\n", end=True)) == 400


def test_a_body_is_not_read_and_does_not_lose_the_answer(serve):
    body = b"x" * 50_000
    sent = b"POST /livez HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    assert status(raw(serve(), sent)) == 405


def test_a_slow_client_is_cut_off(serve, monkeypatch):
    """It may send a byte now and again, and has a bounded time all the same."""
    monkeypatch.setattr(http_server, "LONGEST_CONNECTION", 0.1)
    made = serve()
    with socket.create_connection(made.server_address[:2], timeout=10) as slow:

        def drip():
            while True:
                slow.sendall(b"G")
                threading.Event().wait(0.02)

        with pytest.raises(OSError, match=r"reset|[Pp]ipe"):
            drip()


def test_only_so_many_at_a_time(serve, monkeypatch):
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 2)
    made = serve()
    idle = [connect(made) for _ in range(2)]
    assert status(raw(made, b"GET /livez HTTP/1.1\r\n\r\n")) == 200
    assert idle[0].recv(1) == b"", "for one too many the oldest ends"
    idle[1].sendall(b"/livez HTTP/1.1\r\n\r\n")
    assert status(idle[1].recv(65_536)) == 200, "and no other"
    for each in idle:
        each.close()


def test_who_holds_on_to_many_connections_ends_their_own(serve, monkeypatch):
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 4)
    made = serve()
    other = connect(made, "127.0.0.2")
    many = [connect(made) for _ in range(20)]
    assert many[0].recv(1) == b""
    other.sendall(b"/livez HTTP/1.1\r\n\r\n")
    assert status(other.recv(65_536)) == 200
    for each in (other, *many):
        each.close()


def test_a_port_that_is_taken_is_named(serve):
    port = serve().server_address[1]
    with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1 port {port}: Address already in use"):
        HealthServer(Health(Standfast("memory://"), networks=LOOPBACK), "127.0.0.1", port)


def test_which_addresses_others_reach():
    assert is_of_this_machine("127.0.0.1", 80)
    assert is_of_this_machine("::1", 80)
    assert is_of_this_machine("localhost", 80)
    assert not is_of_this_machine("0.0.0.0", 80)
    assert not is_of_this_machine("::", 80)
    assert not is_of_this_machine("192.0.2.1", 80)
    with pytest.raises(ConfigurationError, match="no address to listen on"):
        is_of_this_machine("no such host", 80)
