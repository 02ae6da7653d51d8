"""The store on event loops: each has connections of its own, hears of a server in trouble, and closes cleanly."""

import asyncio

import pytest
import redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis_scene import LONG, Connected, Open, Servers, scripted

from standfast.errors import StoreError, StoreUnavailableError
from standfast.stores.redis.store import RedisBackend
from standfast.stores.redis.url import parse_address
from standfast.stores.verb import Access


@pytest.mark.parametrize("ticks", range(12))
async def test_a_script_that_is_forgotten_while_the_server_is_lost(
    redis_server: Servers, open_store: Open, ticks: int
) -> None:
    """Also a call that hears, just as its connection is given up, that its script is unknown comes to its end."""
    server = redis_server()
    backend = open_store(server.url())
    [place] = parse_address(server.url()).places

    for _ in range(10):
        await backend.arun(scripted("ring", "work"))
        with server.connect() as own:
            own.script_flush()
        calls = [asyncio.create_task(backend.arun(scripted("ring", "work"))) for _ in range(20)]
        for _ in range(ticks):
            await asyncio.sleep(0)
        backend._engine().lose_if_gone(place, RedisConnectionError("seen by another thread"))
        calls += [asyncio.create_task(backend.arun(scripted("ring", "work"))) for _ in range(5)]
        async with asyncio.timeout(LONG):
            await asyncio.gather(*calls)
    with server.connect() as own:
        assert own.get("{standfast}:arrivals") == b"260"


async def test_a_server_that_hangs_is_told_to_all_in_time(redis_server: Servers, open_store: Open) -> None:
    """No reply is no answer: all calls under way end within their time, and later ones succeed again."""
    server = redis_server()
    backend = open_store(server.url(), timeout=0.3)

    await backend.arun(scripted("ring", "work"))
    server.pause()
    calls = [backend.arun(scripted("ring", "work")) for _ in range(3)]
    for told in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(told, StoreUnavailableError)
        assert "did not answer within 0.3 s" in str(told)
    server.cont()
    await backend.arun(scripted("ring", "work"))
    with server.connect() as own:
        assert own.get("{standfast}:arrivals") == b"5"


async def test_a_long_wait_of_many_short_calls(redis_server: Servers, open_store: Open) -> None:
    """The limit is for each call: a line that is in use for longer than that is not given up."""
    backend = open_store(redis_server().url(), timeout=0.3)

    give_up_at = asyncio.get_running_loop().time() + 0.8
    while asyncio.get_running_loop().time() < give_up_at:
        await backend.arun(scripted("ring", "work"))
        await asyncio.sleep(0.01)


async def test_after_a_restart_the_next_call_of_a_loop_succeeds(redis_server: Servers, open_store: Open) -> None:
    """A connection that was closed meanwhile is found out before anything is sent on it, also by a busy loop."""
    server = redis_server()
    backend = open_store(server.url())

    await backend.arun(scripted("ring", "work"))
    server.restart()  # the loop does not run meanwhile, and so hears nothing
    await backend.arun(scripted("ring", "work"))
    server.cut_connections()
    await asyncio.sleep(0.05)
    await backend.arun(scripted("ring", "work"))
    with server.connect() as own:
        assert own.get("{standfast}:arrivals") == b"2"


async def test_a_server_that_dies_under_a_call(redis_server: Servers, open_store: Open) -> None:
    """Whoever waits for a reply hears at once, and of a server that is away so does the next."""
    server = redis_server()
    backend = open_store(server.url(), timeout=LONG)

    await backend.arun(scripted("ring", "work"))
    server.pause()
    call = asyncio.create_task(backend.arun(scripted("ring", "work")))
    await asyncio.sleep(0)
    server.kill()
    with pytest.raises(StoreUnavailableError, match="closed the connection"):
        await call
    with pytest.raises(StoreUnavailableError, match="refused the connection"):
        await backend.arun(scripted("ring", "work"))


def test_each_loop_has_its_own(backend: RedisBackend, connected: Connected) -> None:
    """A loop that is over leaves no connection behind when the next one comes, and the last none after closing."""
    for _ in range(5):
        asyncio.run(backend.arun(scripted("ring", "work")))
    assert connected(1)
    backend.close()
    assert connected(0)


async def test_a_closed_store_waits_for_no_server_without_end(redis_server: Servers, open_store: Open) -> None:
    """A store that is closed under a call, by another thread, lets the caller know when its time is over."""
    server = redis_server()
    backend = open_store(server.url(), timeout=0.3)

    await backend.arun(scripted("ring", "work"))
    server.pause()
    call = asyncio.create_task(backend.arun(scripted("ring", "work")))
    await asyncio.sleep(0)
    await asyncio.to_thread(backend.close)
    with pytest.raises(StoreUnavailableError, match=r"did not answer within 0\.3 s"):
        await call
    with pytest.raises(StoreError, match="was closed"):
        await backend.arun(scripted("ring", "work"))
    server.cont()


async def test_calls_that_were_made_are_answered_after_closing(backend: RedisBackend, connected: Connected) -> None:
    """The connection lasts until then, and no longer."""
    await backend.arun(scripted("ring", "work"))
    calls = [asyncio.create_task(backend.arun(scripted("ring", "work"))) for _ in range(10)]
    await asyncio.sleep(0)
    backend.close()
    async with asyncio.timeout(LONG):
        await asyncio.gather(*calls)
    assert connected(0)


@pytest.mark.parametrize("is_connected", [True, False])
@pytest.mark.parametrize("ticks", range(8))
async def test_closing_at_any_moment(
    backend: RedisBackend, connected: Connected, ticks: int, *, is_connected: bool
) -> None:
    """Each call is answered or hears that the store was closed; a connection that was being opened is not kept."""
    if is_connected:
        await backend.arun(scripted("ring", "work"))
    calls = [asyncio.create_task(backend.arun(scripted("ring", "work"))) for _ in range(10)]
    for _ in range(ticks):
        await asyncio.sleep(0)
    backend.close()
    async with asyncio.timeout(LONG):
        told = await asyncio.gather(*calls, return_exceptions=True)
    for error in told:
        if isinstance(error, BaseException):
            assert type(error) is StoreError
            assert "was closed: open a new store" in str(error)
    assert connected(0)


def test_closing_while_a_loop_rests(redis_server: Servers, open_store: Open) -> None:
    """Nobody would read the replies: who waits hears of it when the loop goes on."""
    server = redis_server()
    backend = open_store(server.url())
    with asyncio.Runner() as runner:

        async def begin() -> asyncio.Task[object]:
            await backend.arun(scripted("ring", "work"))
            server.pause()
            call = asyncio.create_task(backend.arun(scripted("ring", "work")))
            await asyncio.sleep(0)
            return call

        async def end() -> None:
            async with asyncio.timeout(LONG):
                await call

        call = runner.run(begin())
        backend.close()
        with pytest.raises(StoreError, match="was closed"):
            runner.run(end())
    server.cont()


async def test_a_crowd_at_the_first_call(backend: RedisBackend, redis_url: str, connected: Connected) -> None:
    """All wait for the one connection that is being opened; who leaves meanwhile takes it from nobody."""
    calls = [asyncio.create_task(backend.arun(scripted("ring", "work"))) for _ in range(50)]
    await asyncio.sleep(0)
    for call in calls[:10]:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert sum(call.cancelled() for call in calls) == 10
    assert connected(1)
    with redis.Redis.from_url(redis_url) as own:
        assert own.get("{standfast}:arrivals") == b"40"


async def test_beats_have_a_connection_of_their_own(backend: RedisBackend, connected: Connected) -> None:
    """So that they wait behind nothing that is sent about jobs."""
    for access in (Access.WRITE, Access.WRITE, Access.BEAT):
        await backend.arun(scripted("ring", "work", access=access))
    assert connected(2)
