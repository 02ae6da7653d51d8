"""An exchange is over when its time is, whoever keeps it waiting."""

import socket
import threading
from urllib.parse import urlsplit

import pytest

from standfast.observe.http_client import NoAnswerError, send_request

SHOP = urlsplit("http://shop.example/")


def test_a_resolver_that_hangs_has_no_more_time_than_others():
    """A broken name server may keep `getaddrinfo` for minutes."""
    over = threading.Event()

    def hang(*_asked, **_how):
        over.wait(10)
        raise socket.gaierror

    with pytest.raises(NoAnswerError, match=r"no answer within 0\.1 s"):
        send_request(SHOP, 0.1, headers={}, resolve=hang)
    over.set()


def test_what_a_resolver_raises_is_told():
    def refuse(*_asked, **_how):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(NoAnswerError, match=r"^its host name is not known$"):
        send_request(SHOP, 10, headers={}, resolve=refuse)
