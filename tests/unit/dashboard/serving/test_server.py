"""The port of the dashboard: the one that was asked for or one clear error; else 8080, or any that is free."""

import socket

import pytest

from holdfast.dashboard.serving import server
from holdfast.dashboard.serving.server import open_port, url_of
from holdfast.errors import ConfigurationError


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
