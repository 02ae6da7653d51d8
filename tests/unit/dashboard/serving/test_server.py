"""The port of the dashboard: the one that was asked for or one clear error; else 8080, or any that is free."""

import logging
import os
import select
import socket
import threading
from contextlib import contextmanager, suppress

import pytest

from standfast.dashboard.serving import server
from standfast.dashboard.serving import server as gates
from standfast.dashboard.serving.server import ConnectionLimit, LogThrottle, open_port, serve, url_of
from standfast.dashboard.serving.sidecar import STAYS_WITH
from standfast.errors import ConfigurationError


@pytest.fixture
def taken():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_a_port_that_is_taken_is_told_in_one_line(taken):
    with pytest.raises(ConfigurationError) as told:
        open_port("127.0.0.1", taken)
    assert (
        str(told.value) == f"cannot listen on 127.0.0.1 port {taken}: Address already in use; name another --port"
    )


def test_the_usual_port_makes_way_for_any_that_is_free(taken, monkeypatch):
    """8080 may be taken on the machine of the test itself: here the usual port is another one."""
    monkeypatch.setattr(server, "PORT", taken)
    with open_port("127.0.0.1", None) as listening:
        assert listening.getsockname()[1] not in {0, taken}


def test_any_port_is_asked_for_by_0():
    with open_port("localhost", 0) as first, open_port("localhost", 0) as second:
        assert first.getsockname() != second.getsockname()


def test_no_address_is_told():
    with pytest.raises(ConfigurationError, match="is no address to listen on"):
        open_port("no such host", None)


@pytest.mark.parametrize(
    ("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]")]
)
def test_the_url_is_one_that_a_browser_here_can_open(host, shown):
    with open_port(host, 0) as listening:
        assert url_of(listening) == f"http://{shown}:{listening.getsockname()[1]}"


async def much(scope, _receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * (8 << 20)})


@contextmanager
def served(monkeypatch, **rules):
    """Serve in a thread until the block ends; give the address."""
    ours, theirs = os.pipe()
    monkeypatch.setenv(STAYS_WITH, str(ours))
    began = threading.Event()
    with ConnectionLimit(open_port("127.0.0.1", 0), **rules) as gate:
        address = gate.getsockname()
        running = threading.Thread(target=serve, args=(much, gate, began.set))
        running.start()
        try:
            assert began.wait(10)
            yield address
        finally:
            os.close(theirs)
            running.join(10)
            os.close(ours)
            for log in (logging.getLogger("uvicorn.error"), gates.log):
                for each in [each for each in log.filters if isinstance(each, LogThrottle)]:
                    log.removeFilter(each)


def test_who_does_not_take_an_answer_is_closed_while_it_serves(monkeypatch, caplog):
    """What strangers cause is written once."""
    monkeypatch.setattr(gates, "UNTAKEN", 0.1)
    with served(monkeypatch) as address:
        wires = [socket.create_connection(address, 10) for _ in range(3)]
        for wire in wires:
            wire.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        hung_up = [select.poll() for _ in wires]
        for poll, wire in zip(hung_up, wires, strict=True):
            poll.register(wire, 0)  # an end is told in any case
            assert poll.poll(10_000)
            wire.close()
    assert caplog.messages == ["connections were closed that took nothing of their answers"]


def test_who_may_not_come_is_closed_while_it_serves(monkeypatch):
    with served(monkeypatch, networks=["10.0.0.0/8"]) as address, socket.socket() as wire:
        wire.settimeout(10)
        with suppress(ConnectionError):  # it may be over before it is connected
            wire.connect(address)
            assert wire.recv(1) == b""
