"""The bell on Redis: nobody misses a ring, however it falls, and neither cuts nor deaths leave anything behind."""

import _thread
import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import redis
from redis_scene import LONG, Open, Servers, until_registered

from standfast.model.job import NewJob
from standfast.stores.redis import notify
from standfast.stores.redis.notify import RedisListener
from standfast.stores.redis.store import RedisBackend
from standfast.stores.verb import Tone

SILENCE = 0.1


@asynccontextmanager
async def listening(
    backend: RedisBackend, tone: Tone = Tone.WORK, *, looked: bool = True
) -> AsyncIterator[RedisListener]:
    """Give a listener that has looked once, unless told otherwise: the first wait always says to."""
    listener = backend.bell.listen(tone)
    try:
        if looked:
            assert await listener.wait(LONG)
        yield listener
    finally:
        listener.close()


async def test_the_first_wait_says_to_look(backend: RedisBackend) -> None:
    """What was rung before the server knew the listener cannot be known: so look, once."""
    async with listening(backend, looked=False) as listener:
        heard = [await listener.wait(seconds) for seconds in (LONG, SILENCE, 0)]
    assert heard == [True, False, False]


async def test_a_ring_wakes_who_waits(backend: RedisBackend, redis_url: str) -> None:
    """It is heard once, by a listener that waits already."""
    async with listening(backend) as listener:
        waiting = asyncio.create_task(listener.wait(LONG))
        await until_registered(redis_url)
        await asyncio.to_thread(backend.bell.ring)
        assert [await waiting, await listener.wait(SILENCE)] == [True, False]


def test_a_ring_between_two_waits_is_not_lost(backend: RedisBackend) -> None:
    """A ring is kept for the next wait, and heard once however often it rang."""

    async def scene() -> list[bool]:
        async with listening(backend) as listener:
            before = await listener.wait(SILENCE)
            backend.bell.ring()
            backend.bell.ring()
            return [before, await listener.wait(LONG), await listener.wait(SILENCE), await listener.wait(SILENCE)]

    assert asyncio.run(scene())[:2] == [False, True]
    assert asyncio.run(scene())[-1] is False


@pytest.mark.parametrize("number", [1, 2])
async def test_an_enqueue_wakes_who_waits(backend: RedisBackend, redis_url: str, number: int) -> None:
    """The scripts for one job and for many ring by themselves, once, and not for those that are known already."""
    jobs = [NewJob(f"job-{place}", "task", b"{}") for place in range(number)]

    async with listening(backend) as listener:
        waiting = asyncio.create_task(listener.wait(notify.BLOCK / 2))  # later it looks by itself
        await until_registered(redis_url)
        await backend.arun(backend.verbs.enqueue(jobs))
        heard = [await waiting, await listener.wait(SILENCE)]
        await until_registered(redis_url)
        await backend.arun(backend.verbs.enqueue(jobs))
        assert [*heard, await listener.wait(SILENCE)] == [True, False, False]


async def test_each_hears_its_own_tone(backend: RedisBackend) -> None:
    """Who waits for work is not disturbed by results."""
    async with listening(backend) as worker, listening(backend, Tone.RESULT) as waiter:
        backend.bell.ring(Tone.RESULT)
        assert [await worker.wait(SILENCE), await waiter.wait(LONG)] == [False, True]


async def test_other_stores_hear_it_and_other_namespaces_do_not(redis_url: str, open_store: Open) -> None:
    """A ring goes to whoever has the same store open, and to nobody else."""
    here, there, elsewhere = open_store(redis_url), open_store(redis_url), open_store(redis_url, namespace="other")

    async with listening(there) as hears, listening(elsewhere) as does_not:
        here.bell.ring()
        assert [await hears.wait(LONG), await does_not.wait(SILENCE)] == [True, False]


@pytest.mark.parametrize("listeners", [1, 3])
def test_no_ring_is_lost_whenever_it_comes(backend: RedisBackend, listeners: int) -> None:
    """After each of many rings at random moments every listener looks once more, without any poll."""
    told = seen = 0
    rounds, jitter = 600, random.Random(4)
    looked = threading.Condition()
    done = threading.Event()

    async def listen(number: int, states: list[int]) -> None:
        async with listening(backend, looked=False) as listener:
            while not done.is_set():
                assert await listener.wait(LONG)
                with looked:
                    states[number] = told
                    looked.notify_all()
                if random.random() < 0.3:
                    await asyncio.sleep(random.uniform(0, 0.003))

    def ring_away(states: list[int]) -> None:
        nonlocal told, seen
        try:
            for _ in range(rounds):
                time.sleep(jitter.choice([0, 0, 0.0005, 0.003]))
                with looked:
                    told += 1
                backend.bell.ring()
                if jitter.random() < 0.5:
                    with looked:
                        assert looked.wait_for(lambda now=told: min(states) >= now, timeout=10), "a ring was lost"
                        seen += 1
        finally:
            done.set()
            backend.bell.ring()

    async def scene() -> None:
        states = [0] * listeners
        async with asyncio.TaskGroup() as group:
            for number in range(listeners):
                group.create_task(listen(number, states))
            await asyncio.to_thread(ring_away, states)

    asyncio.run(scene())
    assert seen > rounds / 3


def test_a_flood_does_not_drown_who_listens(backend: RedisBackend) -> None:
    """However fast it rings, a listener is woken once a millisecond at most, and still hears the last one."""

    def ring_often() -> None:
        for _ in range(2000):
            backend.bell.ring()

    async def scene() -> tuple[int, float]:
        async with listening(backend) as listener:
            loop = asyncio.get_running_loop()
            began_at, heard = loop.time(), 0
            flood = loop.run_in_executor(None, ring_often)
            while not flood.done():
                heard += await listener.wait(1)
            await flood
            took = loop.time() - began_at
            await listener.wait(SILENCE)
            assert not await listener.wait(SILENCE)
            return heard, took

    heard, took = asyncio.run(scene())
    assert 1 <= heard <= took / notify.REST + 2


async def test_no_ring_is_lost_to_waits_that_run_out_or_are_cancelled(backend: RedisBackend) -> None:
    """A wait may end at any moment; what rang around it is told to the next one."""
    jitter = random.Random(5)

    async with listening(backend) as listener:
        for _ in range(200):
            ringing = asyncio.create_task(asyncio.to_thread(backend.bell.ring))
            cut = asyncio.create_task(listener.wait(jitter.choice([0, 0.0005, 0.002, LONG])))
            await asyncio.sleep(jitter.choice([0, 0, 0.0005, 0.002]))
            cut.cancel()
            await asyncio.wait([cut])
            heard = not cut.cancelled() and cut.result()
            await ringing
            assert heard or await listener.wait(LONG)
            while await listener.wait(0.002):
                pass  # the next ring is to find nothing left of this one


def test_a_ring_does_not_swallow_a_cancellation(backend: RedisBackend, redis_url: str, server: redis.Redis) -> None:
    """However ring and cancellation fall together, who was cancelled does not go on listening."""

    async def cancel_when_it_rings(steps_between: int) -> None:
        async with listening(backend) as listener:
            waiting = asyncio.create_task(listener.wait(LONG))
            await until_registered(redis_url)
            backend.bell.ring()
            for _ in range(steps_between):
                await asyncio.sleep(0)
            heard = waiting.done()
            waiting.cancel()
            await asyncio.wait([waiting])
            assert heard or waiting.cancelled()
            async with asyncio.timeout(
                LONG
            ):  # so that the next scene does not hear this ring, which a thread sends
                while int(server.get("{standfast}:arrivals") or 0) == steps_between:  # noqa: ASYNC110 - the server knows
                    await asyncio.sleep(0.001)

    for steps_between in range(6):
        asyncio.run(cancel_when_it_rings(steps_between))


async def test_after_a_restart_who_listens_looks_again(redis_server: Servers, open_store: Open) -> None:
    """The server forgot who waits, and may have forgotten rings: so look, once; then all is as before."""
    server = redis_server()
    backend = open_store(server.url())

    async with listening(backend) as listener:
        waiting = asyncio.create_task(listener.wait(LONG))
        await until_registered(server.url())
        await asyncio.to_thread(server.restart)
        after_restart = [await waiting, await listener.wait(SILENCE)]
        await asyncio.to_thread(backend.bell.ring)
        assert [*after_restart, await listener.wait(LONG)] == [True, False, True]


async def test_a_cut_line_is_mended(redis_server: Servers, open_store: Open) -> None:
    """A proxy or an administrator may end any connection at any time."""
    server = redis_server()
    backend = open_store(server.url())

    async with listening(backend) as listener:
        await listener.wait(SILENCE)
        await asyncio.to_thread(server.cut_connections)
        assert [await listener.wait(LONG), await listener.wait(SILENCE)] == [True, False]


async def test_a_line_that_went_silent_is_given_up(
    redis_server: Servers, open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that hangs closes nothing; its listeners try anew, and are there when it goes on."""
    monkeypatch.setattr(notify, "BLOCK", 1)
    monkeypatch.setattr(notify, "GRACE", 0.2)
    server = redis_server()
    backend = open_store(server.url(), timeout=0.2)

    async with listening(backend) as listener:
        await listener.wait(SILENCE)
        lost = listener._ear
        server.pause()
        while listener._ear is lost:
            assert not await listener.wait(SILENCE)
        backend.bell.ring()  # it does not raise, nor wait for long
        server.cont()
        assert await listener.wait(LONG)


async def test_listeners_are_patient_with_a_server_that_is_away(open_store: Open) -> None:
    """Nobody raises; a wait runs out in its time."""
    backend = open_store("redis://127.0.0.1:1/0")

    async with listening(backend, looked=False) as listener:
        backend.bell.ring()
        assert [await listener.wait(SILENCE), await listener.wait(SILENCE)] == [False, False]


async def test_a_long_silence_is_not_taken_for_a_ring(
    backend: RedisBackend, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for longer than the server blocks is registered anew, and still hears."""
    monkeypatch.setattr(notify, "BLOCK", 1)

    async with listening(backend) as listener:
        silent = await listener.wait(1.3)
        with redis.Redis.from_url(redis_url) as own:
            own.delete("{standfast}:waiting:work")  # as a failover may
        still = await listener.wait(1.3)
        await until_registered(redis_url)
        backend.bell.ring()
        assert [silent, still, await listener.wait(LONG)] == [False, False, True]


def test_the_dead_leave_nothing_for_ever(backend: RedisBackend, redis_url: str) -> None:
    """A listener that went without a word is forgotten by the next ring, or after a while by the next listener."""
    with redis.Redis.from_url(redis_url) as own:
        seconds, _ = own.time()

        async def scene() -> None:
            async with listening(backend) as listener:
                await listener.wait(SILENCE)
            own.zadd("{standfast}:waiting:work", {"long-dead": (seconds - 120) * 1000})
            async with listening(backend) as listener:
                await listener.wait(SILENCE)
                assert own.zcard("{standfast}:waiting:work") == 2
                assert own.zscore("{standfast}:waiting:work", "long-dead") is None
                assert own.pttl("{standfast}:waiting:work") > 0

        asyncio.run(scene())
        backend.bell.ring()
        left = {key: own.pttl(key) for key in own.scan_iter()}
        assert left.pop(b"{standfast}:arrivals") == -1
        assert all(lasts > 0 for lasts in left.values())


async def test_an_opening_that_failed_is_not_the_last(
    backend: RedisBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system has no thread left, or a signal handler raises: the next wait opens a connection anew."""

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    async with listening(backend, looked=False) as listener:
        with monkeypatch.context() as patched:
            patched.setattr(_thread, "start_new_thread", refuse)
            with pytest.raises(RuntimeError):
                await listener.wait(LONG)
        assert await listener.wait(LONG)


async def test_closing_while_a_line_is_being_opened(redis_server: Servers, open_store: Open) -> None:
    """What comes too late is hung up, and no thread stays."""
    server = redis_server()
    backend = open_store(server.url(), timeout=5)

    listener = backend.bell.listen()
    server.pause()
    assert not await listener.wait(SILENCE)
    listener.close()
    server.cont()
    backend.close()
    assert [thread for thread in threading.enumerate() if thread.name.startswith("standfast-redis")] == []
    with server.connect() as own:
        assert len(own.client_list()) == 1


async def test_closing_after_the_opening_was_cancelled(redis_server: Servers, open_store: Open) -> None:
    """The end of an event loop cancels every task: a listener that is closed after that raises nothing."""
    server = redis_server()
    listener = open_store(server.url(), timeout=5).bell.listen()
    server.pause()
    assert not await listener.wait(SILENCE)
    opening = listener._opening
    assert opening is not None
    opening.cancel()
    await asyncio.wait([opening])
    listener.close()
    server.cont()
