"""Who opens a connection and says nothing, or sends a body a byte at a time, is not waited for."""

import asyncio
import socket

import pytest
import uvicorn
from starlette.requests import Request

from standfast.dashboard.access.caller import RefusedError
from standfast.dashboard.access.request import SLOWEST_BODY, read_bytes
from standfast.dashboard.serving import server as hurry
from standfast.dashboard.serving.server import TimedProtocol


async def app(scope, receive, send):
    del scope, receive
    await asyncio.sleep(0.5)
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n", b"GET"])
async def test_a_request_that_does_not_come_is_not_waited_for(monkeypatch, said):
    """One that came whole is answered, however long that takes."""
    monkeypatch.setattr(hurry, "PATIENCE", 0.2)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, http=TimedProtocol, log_level="warning", lifespan="off"))
        serving = asyncio.create_task(server.serve([listening]))
        while not server.started:  # noqa: ASYNC110 - it has no event for that
            await asyncio.sleep(0.01)
        slow, slows = await asyncio.open_connection(*listening.getsockname())
        whole, wholes = await asyncio.open_connection(*listening.getsockname())
        slows.write(said)
        wholes.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await asyncio.wait_for(slow.read(), 10) == b""
        assert (await asyncio.wait_for(whole.readline(), 10)).startswith(b"HTTP/1.1 204")
        slows.close()
        wholes.close()
        server.should_exit = True
        await serving


@pytest.mark.virtual_time
async def test_a_body_that_does_not_end_is_not_waited_for():
    async def receive():
        await asyncio.sleep(1)
        return {"type": "http.request", "body": b"x", "more_body": True}

    began = asyncio.get_running_loop().time()
    with pytest.raises(RefusedError) as refused:
        await read_bytes(Request({"type": "http", "headers": []}, receive))
    assert refused.value.refusal.status == 408
    assert asyncio.get_running_loop().time() - began <= SLOWEST_BODY
