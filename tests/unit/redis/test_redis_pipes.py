"""Connections on an event loop: everybody gets their own reply, whatever becomes of others, and none is left."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest
import redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis_scene import Open, Servers, scripted

from holdfast.errors import StoreError, StoreUnavailableError
from holdfast.store.redis.address import parse_address
from holdfast.store.redis.backend import RedisBackend
from holdfast.store.redis.connect import open_connection
from holdfast.store.redis.pipe import Pipe
from holdfast.store.redis.pipes import MOST, Pipes
from holdfast.store.redis.threads import Opened
from holdfast.store.redis.wire import packed
from holdfast.store.verb import Access

LONG = 30.0
"""Seconds that only a call which hangs exceeds."""
MUCH = b"x" * 32_000_000
"""More than any network takes at once."""


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


@asynccontextmanager
async def one_pipe(url: str, timeout: float = LONG) -> AsyncIterator[Pipe]:
    """Give a pipe to the server."""
    address = parse_address(url)
    [place] = address.places
    pipe = Pipe(open_connection(address, place, timeout), place, 0, timeout)
    try:
        yield pipe
    finally:
        pipe.lose(RedisConnectionError("the test is over"))


@asynccontextmanager
async def some_pipes(url: str, threads: ThreadPoolExecutor) -> AsyncIterator[Pipes]:
    """Give pipes to the server."""
    address = parse_address(url)
    [place] = address.places

    def open_one() -> Opened:
        return open_connection(address, place, LONG), place, 0

    pipes = Pipes(threads, open_one, LONG)
    try:
        yield pipes
    finally:
        pipes.close()


Connected = Callable[[int], bool]


@pytest.fixture
def connected(redis_url: str) -> Iterator[Connected]:
    """Give what tells whether so many more are connected than before: the server may notice a moment later."""
    with redis.Redis.from_url(redis_url) as own:
        before = len(own.client_list())

        def is_so(number: int) -> bool:
            give_up_at = time.monotonic() + LONG
            while len(own.client_list()) - before != number:
                if time.monotonic() > give_up_at:
                    return False
            return True

        yield is_so


def test_each_caller_gets_their_own_reply(redis_url: str) -> None:
    """Hundreds of calls are under way at once, and one that failed spoils no other."""

    async def scene() -> list[object]:
        async with one_pipe(redis_url) as pipe:
            calls = [pipe.ask(("ECHO", str(number))) if number % 7 else pipe.ask(("ODD",)) for number in range(500)]
            return await asyncio.gather(*calls, return_exceptions=True)

    for number, reply in enumerate(asyncio.run(scene())):
        assert isinstance(reply, ResponseError) if number % 7 == 0 else reply == str(number).encode()


async def test_nobody_gets_the_reply_of_one_who_left(redis_url: str) -> None:
    """A caller that is cancelled leaves the reply to its call to nobody."""
    async with one_pipe(redis_url) as pipe:
        leaving = asyncio.create_task(pipe.ask(("ECHO", "theirs")))
        await asyncio.sleep(0)
        leaving.cancel()
        mine: bytes = await pipe.ask(("ECHO", "mine"))
        assert leaving.cancelled()
        assert mine == b"mine"


async def test_more_than_goes_at_once(redis_url: str) -> None:
    """What does not fit is sent as soon as it can be, and what is said after it follows."""
    async with one_pipe(redis_url) as pipe:
        much = asyncio.create_task(pipe.ask(("ECHO", MUCH)))
        await asyncio.sleep(0)
        assert pipe.unsent
        assert await pipe.ask(("ECHO", "after")) == b"after"
        assert not pipe.unsent
        assert much.done()
        assert await much == MUCH


async def test_a_busy_server_is_one_connection(redis_url: str, threads: ThreadPoolExecutor) -> None:
    """However many call at once, nobody opens another connection as long as everything is sent."""
    async with some_pipes(redis_url, threads) as pipes:

        async def call() -> int:
            pipe = await pipes.get(0)
            await pipe.ask(("PING",))
            return id(pipe)

        assert len(set(await asyncio.gather(*(call() for _ in range(100))))) == 1


async def test_nobody_waits_behind_much(redis_url: str, threads: ThreadPoolExecutor) -> None:
    """While one connection has much to send others are used, up to a limit."""
    async with some_pipes(redis_url, threads) as pipes:
        senders, used = [], set()
        for _ in range(MOST):
            pipe = await pipes.get(0)
            used.add(pipe)
            senders.append(asyncio.create_task(pipe.ask(("ECHO", MUCH))))
            await asyncio.sleep(0)
            if len(used) == 1:
                assert await pipes.get(0) is not pipe
        await asyncio.gather(*senders)
        assert len(used) <= MOST


async def test_after_a_loss_others_are_opened(
    redis_url: str, threads: ThreadPoolExecutor, connected: Connected
) -> None:
    """A pipe from before a loss of the server takes no more calls, but those that it has are answered."""
    async with some_pipes(redis_url, threads) as pipes:
        before = await pipes.get(0)
        under_way = asyncio.create_task(before.ask(("ECHO", "there")))
        await asyncio.sleep(0)
        after = await pipes.get(1)
        assert after is not before
        assert await under_way == b"there"
        assert not before.is_open
        assert await after.ask(("PING",)) == b"PONG"

        assert connected(1)


async def test_what_nobody_asked_for(redis_url: str) -> None:
    """A reply that belongs to no call is not taken for that of the next one."""
    async with one_pipe(redis_url) as pipe:
        pipe._socket.send(packed(("PING",)))
        async with asyncio.timeout(LONG):
            while pipe.is_usable:  # noqa: ASYNC110 - the reply comes when it comes
                await asyncio.sleep(0.001)


async def test_a_lost_pipe_takes_no_call(redis_url: str) -> None:
    """There would be nobody to answer it."""
    async with one_pipe(redis_url) as pipe:
        pipe.close()
        with pytest.raises(RedisConnectionError):
            async with asyncio.timeout(LONG):
                await pipe.ask(("PING",))


def test_a_pipe_that_is_lost_before_those_who_wait_for_it_wake(redis_url: str, threads: ThreadPoolExecutor) -> None:
    """They are given another one."""
    address = parse_address(redis_url)
    [place] = address.places
    losses = 0

    def open_one() -> Opened:
        return open_connection(address, place, LONG), place, losses

    async def scene() -> None:
        nonlocal losses
        pipes = Pipes(threads, open_one, LONG)
        early = [asyncio.create_task(pipes.get(0)) for _ in range(3)]
        async with asyncio.timeout(LONG):
            while not pipes._pipes:  # noqa: ASYNC110 - the moment is gone when anybody else can tell of it
                await asyncio.sleep(0)
            assert not any(call.done() for call in early)
            [first], losses = pipes._pipes, 1
            late = await pipes.get(1)
            assert not first.is_open
            assert set(await asyncio.gather(*early)) == {late}
            assert await late.ask(("PING",)) == b"PONG"
        pipes.close()

    asyncio.run(scene())


async def test_a_connection_that_is_always_lost_at_once(redis_url: str, threads: ThreadPoolExecutor) -> None:
    """It is not opened anew for ever."""
    address = parse_address(redis_url)
    [place] = address.places

    def open_one() -> Opened:
        wire = open_connection(address, place, LONG)
        wire.ask("QUIT")
        while not wire.has_news:
            pass  # the server hangs up now
        return wire, place, 0

    pipes = Pipes(threads, open_one, LONG)
    with pytest.raises(RedisConnectionError, match="as soon as it was open"):
        await asyncio.wait_for(pipes.get(0), LONG)
    pipes.close()


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
        assert own.get("{holdfast}:arrivals") == b"260"


async def test_a_reply_that_came_while_the_loop_stood_still(redis_url: str) -> None:
    """The server has answered in time, and is not blamed."""
    async with one_pipe(redis_url, timeout=0.2) as pipe:
        call = asyncio.create_task(pipe.ask(("ECHO", "there")))
        await asyncio.sleep(0)
        time.sleep(0.3)  # noqa: ASYNC251 - this is what stands still
        pipe._watch()  # as a loop does that looks at its timers first
        assert await call == b"there"


async def test_a_long_reply_that_came_while_the_loop_stood_still(redis_url: str) -> None:
    """As long as more of it comes the server answers."""
    async with one_pipe(redis_url, timeout=0.2) as pipe:
        call = asyncio.create_task(pipe.ask(("ECHO", b"x" * 1_000_000)))
        while not call.done():
            await asyncio.sleep(0)
            if not pipe.unsent:
                break
        time.sleep(0.3)  # noqa: ASYNC251 - this is what stands still
        assert len(await call) == 1_000_000


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
        assert own.get("{holdfast}:arrivals") == b"5"


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
        assert own.get("{holdfast}:arrivals") == b"2"


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


async def test_nothing_stays_open_for_replies_that_nobody_will_read(redis_url: str) -> None:
    """As when a store is closed just before its loop ends, which cancels all who wait."""
    async with one_pipe(redis_url) as pipe:
        calls = [asyncio.create_task(pipe.ask(("BLPOP", "never", "0"))) for _ in range(2)]
        await asyncio.sleep(0)
        pipe.close()
        for call, is_needed in zip(calls, (True, False), strict=True):
            call.cancel()
            await asyncio.wait([call])
            assert pipe.is_open is is_needed


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
        assert own.get("{holdfast}:arrivals") == b"40"


async def test_beats_have_a_connection_of_their_own(backend: RedisBackend, connected: Connected) -> None:
    """So that they wait behind nothing that is sent about jobs."""
    for access in (Access.WRITE, Access.WRITE, Access.BEAT):
        await backend.arun(scripted("ring", "work", access=access))
    assert connected(2)
