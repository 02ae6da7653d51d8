"""Webhooks: signed, bounded in time, followed nowhere; and the helper for those who receive them."""

import socket
import threading
import time

import pytest

from alert_notices import notice
from alert_receivers import hook
from standfast import WebhookChannel
from standfast.errors import DeliveryError
from standfast.observe.alerts import sign, verify_signature
from standfast.observe.alerts.delivery import send

SECRET = "a-secret-of-the-receiver"


def channel(url, **how):
    return WebhookChannel(name="ops", url=url, secret=SECRET, **how)


def test_it_is_signed_and_bears_its_id():
    with hook(200) as receiver:
        send(notice(), channel(f"{receiver.url}/in?x=1", headers={"Authorization": "Bearer abc"}))
        [got] = receiver.got
    assert got["signed"]
    assert (got["path"], got["said"]["id"]) == ("/in?x=1", "n1")
    assert got["headers"]["X-Standfast-Delivery"] == "n1"
    assert got["headers"]["Content-Type"] == "application/json"
    assert got["headers"]["Authorization"] == "Bearer abc"


def test_headers_of_ones_own_do_not_replace_the_signature():
    with hook(200) as receiver:
        send(notice(), channel(receiver.url, headers={"X-Standfast-Signature": "mine"}))
        assert receiver.got[0]["signed"]


@pytest.mark.parametrize(
    ("status", "retry"), [(400, True), (404, True), (410, False), (429, True), (500, True), (302, True)]
)
def test_what_the_receiver_refuses_is_told(status, retry):
    """It is tried again, but for what is gone for good."""
    with hook(204) as other, hook(status, location=other.url) as receiver:
        with pytest.raises(DeliveryError, match=f"channel 'ops': the receiver answered {status} ") as failed:
            send(notice(), channel(receiver.url))
        assert failed.value.retry is retry
        assert other.got == []


def test_no_secret_is_in_what_failed():
    with hook(500) as receiver, pytest.raises(DeliveryError) as failed:
        send(notice(), channel(f"{receiver.url}/token-of-mine", headers={"X-Key": "key-of-mine"}))
    assert "of-mine" not in str(failed.value)
    assert failed.value.__context__ is None


def test_a_receiver_that_dribbles_is_cut_off():
    """The time is for the whole exchange, however many bytes come in between."""
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def dribble():
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while not ended.wait(0.05):
                try:
                    connection.sendall(b"x")
                except OSError:
                    return

    thread = threading.Thread(target=dribble)
    thread.start()
    try:
        with pytest.raises(DeliveryError, match=r"no answer within 0\.3 s"):
            send(notice(), channel(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.3))
    finally:
        ended.set()
        thread.join()
        listener.close()


def test_nobody_there():
    with hook() as receiver:
        url = receiver.url
    with pytest.raises(DeliveryError, match="connection refused"):
        send(notice(), channel(url))


@pytest.mark.parametrize(
    ("secret", "change", "body", "good"),
    [
        (SECRET, lambda header: header, b"{}", True),
        ("another-secret-of-16", lambda header: header, b"{}", False),
        (SECRET, lambda header: header, b"{ }", False),
        (SECRET, lambda header: header.replace("t=", "t=1"), b"{}", False),
        (SECRET, lambda header: header + " ", b"{}", False),
        (SECRET, lambda header: header.partition(",")[2], b"{}", False),
        (SECRET, lambda _: "", b"{}", False),
        (SECRET, lambda _: None, b"{}", False),
        (SECRET, lambda _: "t=٣,v1=" + "0" * 64, b"{}", False),
    ],
)
def test_a_receiver_knows_what_is_genuine(secret, change, body, good):
    header = change(sign(SECRET, int(time.time()), b"{}"))
    assert verify_signature(secret, header, body) is good


@pytest.mark.parametrize(("age", "good"), [(0, True), (290, True), (310, False), (-310, False)])
def test_what_is_old_is_not_genuine(age, good):
    header = sign(SECRET, int(time.time()) - age, b"{}")
    assert verify_signature(SECRET, header, b"{}", 300) is good
