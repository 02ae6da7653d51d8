"""Connections on an event loop: everybody gets their own reply, whatever becomes of others, and none is left."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis_scene import LONG, Connected

from standfast.stores.redis.connect import ClosedError, NotSentError, Opened, open_connection, packed
from standfast.stores.redis.pipe import MOST, Pipe, Pipes
from standfast.stores.redis.url import parse_address
from standfast.stores.threads import Threads

MUCH = b"x" * 32_000_000
"""More than any network takes at once."""


@pytest.fixture
def threads() -> Iterator[Threads]:
    threads = Threads(1, "opener", ClosedError)
    yield threads
    threads.close()


@asynccontextmanager
async def one_pipe(url: str, timeout: float = LONG) -> AsyncIterator[Pipe]:
    """Give a pipe to the server."""
    address = parse_address(url)
    [place] = address.places
    pipe = Pipe(open_connection(address, place, timeout), place, 0, timeout)
    pipe.watch()
    try:
        yield pipe
    finally:
        pipe.lose(RedisConnectionError("the test is over"))


@asynccontextmanager
async def some_pipes(url: str, threads: Threads) -> AsyncIterator[Pipes]:
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


async def test_a_busy_server_is_one_connection(redis_url: str, threads: Threads) -> None:
    """However many call at once, nobody opens another connection as long as everything is sent."""
    async with some_pipes(redis_url, threads) as pipes:

        async def call() -> int:
            pipe = await pipes.get(0)
            await pipe.ask(("PING",))
            return id(pipe)

        assert len(set(await asyncio.gather(*(call() for _ in range(100))))) == 1


async def test_nobody_waits_behind_much(redis_url: str, threads: Threads) -> None:
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


async def test_after_a_loss_others_are_opened(redis_url: str, threads: Threads, connected: Connected) -> None:
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
        with pytest.raises(NotSentError):
            async with asyncio.timeout(LONG):
                await pipe.ask(("PING",))


async def test_a_command_that_could_not_be_sent(redis_url: str) -> None:
    """Who made it hears that the server does not run it, and who waits behind another that it may be."""
    async with one_pipe(redis_url) as pipe:
        other = asyncio.create_task(pipe.ask(("BLPOP", "none", 0)))
        await asyncio.sleep(0)
        pipe._socket.shutdown(socket.SHUT_WR)
        with pytest.raises(NotSentError):
            await pipe.ask(("PING",))
        with pytest.raises(RedisConnectionError) as lost:
            await other
    assert not isinstance(lost.value, NotSentError)


def test_a_pipe_that_is_lost_before_those_who_wait_for_it_wake(redis_url: str, threads: Threads) -> None:
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


async def test_a_connection_that_is_always_lost_at_once(redis_url: str, threads: Threads) -> None:
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
