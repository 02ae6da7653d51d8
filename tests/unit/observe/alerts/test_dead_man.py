"""The dead man's switch: pinged on time while somebody ticks; what fails is told once, and without the URL."""

import logging
import threading

from alert_receivers import hook, join_pings
from standfast import DeadMan
from standfast.supervisor.dead_man import AGAIN, DeadManSwitch


def tick(switch, boot):
    switch.tick(boot)
    join_pings()


def test_it_is_pinged_every_so_often():
    with hook(200) as receiver:
        switch = DeadManSwitch(DeadMan(url=f"{receiver.url}/p?x=1", every=60))
        for boot in (100.0, 101.0, 159.9, 160.0, 161.0, 400.0):
            tick(switch, boot)
    assert [got["path"] for got in receiver.got] == ["/p?x=1"] * 3


def test_what_fails_is_told_once_and_tried_again_soon(caplog):
    caplog.set_level(logging.INFO)
    with hook(500, 302, 200) as receiver:
        switch = DeadManSwitch(DeadMan(url=f"{receiver.url}/hush", every=60))
        for boot in (0.0, AGAIN - 1, AGAIN, 2 * AGAIN - 1, 2 * AGAIN, 3 * AGAIN):
            tick(switch, boot)
    assert len(receiver.got) == 3
    assert [record.message for record in caplog.records] == [
        "the dead man's switch cannot be reached, which is tried again: it answered 500 Internal Server Error",
        "the dead man's switch is reached again",
    ]


def test_nobody_waits_for_a_ping_and_there_is_one_at_a_time():
    """A ping that hangs holds up nobody, and no second one is begun."""
    go = threading.Event()
    with hook(200, busy=lambda _: go.wait(10)) as receiver:
        switch = DeadManSwitch(DeadMan(url=receiver.url, every=1))
        switch.tick(0.0)
        receiver.wait_for(1)
        switch.tick(100.0)
        assert len(receiver.got) == 1
        go.set()
        join_pings()
        tick(switch, 100.0)
        assert len(receiver.got) == 2


def test_nobody_there(caplog):
    with hook() as receiver:
        url = receiver.url
    switch = DeadManSwitch(DeadMan(url=f"{url}/hush"))
    tick(switch, 0.0)
    assert "connection refused" in caplog.text
    assert "hush" not in caplog.text
