"""The gate: nobody keeps others out with connections alone, by saying nothing or by taking nothing."""

import asyncio
import logging
import socket
from contextlib import asynccontextmanager
from functools import partial

import pytest
import uvicorn

from standfast.dashboard.serving import server as gates
from standfast.dashboard.serving.server import (
    MOST_AHEAD,
    PAUSE,
    UNTAKEN,
    ConnectionLimit,
    LogThrottle,
    TimedProtocol,
    places,
)

ASKED = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = b"x" * (8 << 20)


class Ticks:
    """Seconds that pass when told."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def app(scope, receive, send):
    """Answer with much at /large, with events without end at /live, and else with little."""
    while scope["path"] == "/body" and (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while scope["path"] == "/live":
        await send({"type": "http.response.body", "body": b"x" * 10_000, "more_body": True})
        await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": LARGE if scope["path"] == "/large" else b"fine"})


@asynccontextmanager
async def serving(**rules):
    """Serve behind a gate with these rules; give the gate, and a way to connect from an address of this machine."""
    wires = []

    async def connect(address="127.0.0.1"):
        reader, writer = await asyncio.open_connection(*gate.getsockname(), local_addr=(address, 0))
        wires.append(writer)
        return reader, writer

    with ConnectionLimit(socket.create_server(("127.0.0.1", 0)), **rules) as gate:
        http = partial(TimedProtocol, limit=gate)
        server = uvicorn.Server(uvicorn.Config(app, http=http, lifespan="off", log_level="error", backlog=16))
        running = asyncio.create_task(server.serve([gate]))
        while not server.started:  # noqa: ASYNC110 - it has no event for that
            await asyncio.sleep(0.01)
        try:
            yield gate, connect
        finally:
            for wire in wires:
                wire.close()
            server.should_exit = server.force_exit = True
            await running


async def is_closed(reader):
    try:
        return await asyncio.wait_for(reader.read(), 10) == b""
    except ConnectionError:
        return True


async def is_turned_away(connecting):
    """Tell whether somebody is closed at once, be it before they have noticed that they are connected."""
    try:
        reader, _ = await connecting
    except ConnectionError:
        return True
    return await is_closed(reader)


async def answered(connected):
    reader, writer = connected
    writer.write(ASKED)
    return (await asyncio.wait_for(reader.readline(), 10)).startswith(b"HTTP/1.1 200")


async def stuck(gate, connected, path):
    """Ask for something and take nothing of it; return when the gate has noticed."""
    connected[1].write(ASKED.replace(b"/ ", f"{path} ".encode(), 1))
    while not any(each.untaken(gate.ticks() + 1) for each in gate._connections.values()):  # noqa: ASYNC110 - it has no event for that
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("said", [b"", b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"])
@pytest.mark.parametrize("rules", [{"most": 4, "of_one": 99}, {"most": 99, "of_one": 4}])
async def test_who_says_nothing_makes_way(rules, said):
    """Or says not all. Of all who are there, or of those from one address: descriptors are never used up."""
    async with serving(**rules) as (gate, connect):
        silent = []
        for _ in range(20):
            silent.append(await connect())
            silent[-1][1].write(said)
            await asyncio.sleep(0.01 if said else 0)
        assert await answered(await connect())
        assert len(gate) <= 4
        assert [await is_closed(reader) for reader, _ in silent[:16]] == [True] * 16


async def test_one_address_does_not_close_the_connections_of_others():
    async with serving(most=99, of_one=2) as (gate, connect):
        mine = await connect("127.0.0.2")
        for _ in range(10):
            await connect("127.0.0.3")
        assert await answered(mine)
        assert len(gate) == 3


async def test_a_proxy_brings_as_many_as_there_are_places():
    async with serving(most=99, of_one=2, proxies=["127.0.0.3"]) as (gate, connect):
        for _ in range(9):
            last = await connect("127.0.0.3")
        assert await answered(last)
        assert len(gate) == 9


async def test_where_all_are_busy_who_comes_is_closed_at_once():
    async with serving(most=2, of_one=2) as (gate, connect):
        for _ in range(2):
            reader, writer = await connect()
            writer.write(ASKED.replace(b"/ ", b"/live ", 1))
            assert await asyncio.wait_for(reader.readline(), 10)
        for guest in gate._connections.values():  # as if they took what is sent
            guest.untaken = lambda _now: 0.0
        assert await is_turned_away(connect())
        assert len(gate) == 2


async def test_strangers_are_closed_when_they_connect():
    """Who may come, and the proxies through which they come, are not."""
    async with serving(networks=["127.0.0.2"], proxies=["127.0.0.3"]) as (gate, connect):
        assert await is_turned_away(connect("127.0.0.4"))
        assert len(gate) == 0
        assert await answered(await connect("127.0.0.2"))
        assert await answered(await connect("127.0.0.3"))


@pytest.mark.parametrize("path", ["/large", "/live"])
async def test_an_answer_that_is_not_taken_is_not_kept_for_ever(path):
    """Nor are live updates. Who takes some of it has as long again."""
    ticks = Ticks()
    async with serving(ticks=ticks) as (gate, connect):
        reader, writer = await connect()
        writer.transport.pause_reading()
        await stuck(gate, (reader, writer), path)
        ticks.now += UNTAKEN - 1
        gate.sweep()
        assert len(gate) == 1
        ticks.now += 2
        gate.sweep()
        assert len(gate) == 0
        writer.transport.resume_reading()
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(len(LARGE) * 9), 10)


async def test_who_takes_nothing_makes_way():
    ticks = Ticks()
    async with serving(most=1, of_one=1, ticks=ticks) as (gate, connect):
        reader, writer = await connect()
        writer.transport.pause_reading()
        await stuck(gate, (reader, writer), "/large")
        ticks.now += 1
        assert await answered(await connect())


async def test_not_many_requests_are_answered_ahead():
    async with serving() as (_, connect):
        reader, writer = await connect()
        writer.write(ASKED * (3 * MOST_AHEAD))
        answers = await asyncio.wait_for(reader.read(), 10)
        assert answers.count(b"HTTP/1.1 200") == MOST_AHEAD + 1


def test_there_are_fewer_places_than_descriptors(monkeypatch):
    for descriptors, most in ((1024, 512), (256, 128), (-1, 512), (1 << 20, 512)):
        monkeypatch.setattr(gates.resource, "getrlimit", lambda _, limit=descriptors: (limit, limit))
        assert places() == most


def test_warnings_are_written_once_in_a_while(caplog):
    """With how many there were; errors are always written."""
    ticks, log = Ticks(), logging.getLogger("standfast.test.seldom")
    log.addFilter(LogThrottle(ticks))
    for number in range(1000):
        log.warning("somebody came: %d", number)
    log.error("it broke")
    log.error("it broke")
    ticks.now += PAUSE
    log.warning("somebody came: %d", 1000)
    more = "somebody came: 1000 (and 999 times more since this was said last)"
    assert caplog.messages == ["somebody came: 0", "it broke", "it broke", more]
