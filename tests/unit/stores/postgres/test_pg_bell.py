"""The bell wakes who waits, loses no ring, disturbs nobody who is busy, and outlives its connections."""

import _thread
import asyncio
import random
import threading
import time
from contextlib import asynccontextmanager

import psycopg
import pytest
from pg_world import LONG, of_steps, query

from standfast.stores.postgres import notify as bell_module
from standfast.stores.postgres.notify import LookingListener, PostgresListener, Waiting
from standfast.stores.verb import Command, Last, Query, Tone

SHORT = 0.05
SOON = 5.0
"""Seconds within which a wake-up that was not lost has come."""


@asynccontextmanager
async def listening(world, tone=Tone.WORK):
    listener = world.bell.listen(tone)
    try:
        yield listener
    finally:
        listener.close()


@asynccontextmanager
async def asleep(world, tone=Tone.WORK):
    """Give a listener that is told to look, looks, and is to sleep now."""
    async with listening(world, tone) as listener:
        assert await listener.wait(LONG)
        yield listener


def work(sql="SELECT 1", **how):
    return query(sql, wakes=True, **how)


async def test_who_begins_to_wait_looks_again_once(world):
    """What was committed before the server knew of them is found by that look; then they sleep."""
    async with listening(world) as listener:
        assert [await listener.wait(LONG), await listener.wait(SHORT), await listener.wait(SHORT)] == [
            True,
            False,
            False,
        ]


async def test_what_came_before_the_wait_was_known_is_looked_for(world):
    """Nobody was notified of what was committed between a worker's last look and its wait."""
    async with listening(world) as listener:
        await world.engine.arun(work())
        assert await listener.wait(SOON)


async def test_a_verb_wakes_who_waits(world):
    """After its commit, and each time anew, also after a rest."""
    async with asleep(world) as listener:
        for _ in range(3):
            await world.engine.arun(work())
            assert await listener.wait(LONG)
        while await listener.wait(SHORT):  # where rings came quickly, it looks once more after its rest
            pass
        await world.engine.arun(work())
        assert await listener.wait(LONG)


async def test_who_is_rung_once_sleeps_on_without_another_look(world):
    """The lock was theirs all the time: what came during the look after the ring has a ring of its own."""
    async with asleep(world) as listener:
        await world.engine.arun(work())
        assert [await listener.wait(LONG), await listener.wait(SHORT)] == [True, False]


async def test_a_ring_between_two_waits_is_not_lost(world):
    """It is in the line when the next wait begins."""
    async with asleep(world) as listener:
        world.ask("SELECT 1", wakes=True)
        assert await listener.wait(LONG)


@pytest.mark.parametrize(("tone", "how"), [(Tone.WORK, "wakes"), (Tone.RESULT, "tells")])
async def test_each_tone_wakes_its_own(world, tone, how):
    """A verb that may make a job due wakes workers, one that may end a job those who wait for it."""
    other = Tone.RESULT if tone is Tone.WORK else Tone.WORK
    async with asleep(world, tone) as called, asleep(world, other) as uncalled:
        await world.engine.arun(query("SELECT 1", **{how: True}))
        assert (await called.wait(LONG), await uncalled.wait(SHORT)) == (True, False)


async def test_a_verb_may_wake_both(world):
    """What makes a job due and ends another does both."""
    async with asleep(world, Tone.WORK) as one, asleep(world, Tone.RESULT) as other:
        await world.engine.arun(query("SELECT 1", wakes=True, tells=True))
        assert (await one.wait(LONG), await other.wait(LONG)) == (True, True)


async def test_every_listener_is_woken(world, make_world, postgres_url):
    """In this process or in another, on whatever connection."""
    others = [make_world(postgres_url) for _ in range(2)]

    async with asleep(world) as one, asleep(others[0]) as two, asleep(others[1]) as three:
        world.bell.ring()
        assert await asyncio.gather(*(listener.wait(LONG) for listener in (one, two, three))) == [True, True, True]


async def test_schemas_do_not_hear_each_other(world, make_world, postgres_url):
    """A bell belongs to one store."""
    other = make_world(postgres_url + "_other")

    async with asleep(other) as elsewhere, asleep(world) as here:
        world.bell.ring()
        assert (await here.wait(LONG), await elsewhere.wait(SHORT)) == (True, False)


def heard(own, seconds=0.0):
    return [notice.channel for notice in own.notifies(timeout=seconds)]


async def test_nobody_is_notified_while_nobody_waits(world, monkeypatch):
    """A notification is a cost to the whole server: none is sent for those who are rung again and again."""
    monkeypatch.setattr(bell_module, "REST", LONG)

    with world.user_connection as own:
        own.execute(f'LISTEN "{world.sounds[Tone.WORK].channel}"')
        async with asleep(world) as listener:
            for _ in range(2):
                await world.engine.arun(work())
                assert await listener.wait(LONG)
            await until_nobody_waits(world)
            heard(own)
            for _ in range(5):
                await world.engine.arun(work())
            world.ask("SELECT 1")  # the same connection: what followed the last verb is done
            assert heard(own) == []


async def test_what_came_during_a_rest_is_looked_for_after_it(world, monkeypatch):
    """Nobody was notified of it."""
    monkeypatch.setattr(bell_module, "REST", 0.5)

    async with asleep(world) as listener:
        for _ in range(2):
            await world.engine.arun(work())
            assert await listener.wait(LONG)
        await until_nobody_waits(world)
        await world.engine.arun(work())
        assert [await listener.wait(LONG), await listener.wait(SHORT)] == [True, False]


async def until_nobody_waits(world):
    """Return once the server has seen that the listener woke up."""
    with world.user_connection as own:
        question = "SELECT pg_try_advisory_xact_lock(%s)"
        while not own.execute(question, (lock_of(world),)).fetchone()[0]:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)


def lock_of(world, tone=Tone.WORK):
    """Return the number of the lock that those who wait share."""
    return int(world.sounds[tone].ring[1][0])


@pytest.mark.parametrize("alone", [True, False])
async def test_whether_anyone_waits_is_asked_after_the_commit(world, alone):
    """Whoever began to wait while the commit was under way, and saw nothing, is woken by it."""
    with world.table() as table, world.closed_gate() as waits:

        def steps():
            if not alone:
                yield Query("SELECT 1")
            yield Last(Command(f"INSERT INTO {table} SELECT 1 FROM ({waits}) AS gate"))

        writing = asyncio.create_task(world.engine.arun(of_steps(steps(), wakes=True)))
        await asyncio.to_thread(wait_for_lock, world)
        async with listening(world) as listener:
            assert await listener.wait(LONG)
            seen = await asyncio.to_thread(world.ask, f"SELECT count(*) FROM {table}")
            assert seen == [(0,)], "it is not committed yet"
            world.open_gate(waits)
            await writing
            assert await listener.wait(SOON)


def wait_for_lock(world):
    with world.user_connection as own:
        while not own.execute(
            "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND query LIKE 'INSERT INTO%'"
        ).fetchone():
            time.sleep(0.005)


async def test_no_wake_up_is_lost_whatever_the_moment(world):
    """Commits at random moments against one who looks whenever the bell rings: each is seen, and soon."""
    rounds = 300
    chance = random.Random(7)
    seen_at, committed_at = {}, {}
    with world.table() as table:

        def enqueue():
            for number in range(rounds):
                world.ask(f"INSERT INTO {table} VALUES ($1::bigint)", number, wakes=True)
                committed_at[number] = time.monotonic()
                time.sleep(chance.choice((0, 0, 0.0005, 0.002, 0.005)))

        writer = threading.Thread(target=enqueue)
        async with listening(world) as listener:
            writer.start()
            while len(seen_at) < rounds:
                assert await listener.wait(SOON), f"asleep with {len(seen_at)} of {rounds} seen"
                rows = await world.engine.arun(query(f"DELETE FROM {table} RETURNING number"))
                seen_at.update(dict.fromkeys((number for (number,) in rows), time.monotonic()))
        writer.join()
    assert seen_at.keys() == committed_at.keys()


# -- connections that break ----------------------------------------------------------------------------------------


async def test_a_listener_whose_line_is_cut_opens_another(world):
    """It looks again once, as something may have been missed, and hears the next ring."""
    async with asleep(world) as listener:
        with world.user_connection as own:
            own.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s",
                (lock_of(world) & 0xFFFFFFFF,),
            )
        assert await listener.wait(LONG)
        await world.engine.arun(work())
        assert await listener.wait(LONG)


async def test_a_listener_outlives_its_server(make_world, postgres_server, monkeypatch):
    """While there is none it sleeps, and raises nothing; when it is back the bell works."""
    monkeypatch.setattr(bell_module, "LONGEST_PAUSE", 0.2)
    server = postgres_server()
    world = make_world(server.url())

    async with asleep(world) as listener:
        server.kill()
        assert not await listener.wait(0.5)
        server.start()
        assert await listener.wait(LONG)
        await world.engine.arun(work())
        assert await listener.wait(LONG)


async def test_a_listener_without_a_server_waits_in_peace(make_world):
    """Nobody listens at that port: no error, and the time given passes."""
    world = make_world("postgresql://u@127.0.0.1:1/db")

    async with listening(world) as listener:
        assert await listener.wait(0.3) is False


async def test_a_listener_without_a_thread_tries_again(world, monkeypatch):
    """The system has none left for a moment."""
    refused = asyncio.Event()

    def refuse(*_):
        refused.set()
        raise RuntimeError("can't start new thread")

    async with listening(world) as listener:
        with monkeypatch.context() as patched:
            patched.setattr(_thread, "start_new_thread", refuse)
            waiting = asyncio.ensure_future(listener.wait(LONG))
            await refused.wait()
        assert await waiting


def test_to_ring_never_raises(make_world, world):
    """Not without a server, and not when closed."""
    make_world("postgresql://u@127.0.0.1:1/db").bell.ring()
    world.engine.close()
    world.bell.ring()


async def test_a_wait_may_be_cancelled_at_any_moment(world):
    """The next wait goes on from there: told to look once, then woken."""
    async with listening(world) as listener:
        for pause in [0, 0, *(0.0003 * step for step in range(40))]:
            waiting = asyncio.create_task(listener.wait(LONG))
            await asyncio.sleep(pause)
            waiting.cancel()
            await asyncio.wait([waiting])
        while await listener.wait(0.5):  # whatever is left of that
            pass
        assert listener._waiting is Waiting.ASLEEP
        await world.engine.arun(work())
        assert await listener.wait(LONG)


async def test_the_look_is_not_lost_with_a_wait_that_ran_out(world):
    """The lock came between two waits: the next one says to look."""

    world.engine.prepare()

    with world.user_connection as own:
        own.execute("SELECT pg_advisory_lock(%s)", (lock_of(world),))
        async with listening(world) as listener:
            while listener._waiting is not Waiting.ASKED:
                assert not await listener.wait(SHORT)
            own.execute("SELECT pg_advisory_unlock_all()")
            while listener._waiting is not Waiting.YES:  # noqa: ASYNC110 - nobody waits for it here
                await asyncio.sleep(0)
            assert await listener.wait(LONG)


def test_a_listener_that_is_closed_leaves_nothing_behind(make_world, postgres_url):
    """Neither while it connects nor later."""
    world = make_world(f"{postgres_url}&application_name=closing")

    async def scene():
        hasty = world.bell.listen()
        await hasty.wait(0)  # it begins to connect
        hasty.close()
        async with asleep(world):
            pass

    asyncio.run(scene())
    world.engine.close()
    give_up_at = time.monotonic() + LONG
    with psycopg.connect(world.address.conninfo, autocommit=True) as own:
        others = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'closing' AND pid <> pg_backend_pid()"
        while own.execute(others).fetchone():
            assert time.monotonic() < give_up_at


async def test_behind_a_pooler_one_looks_twice_a_second(make_world, postgres_url):
    """Nobody can listen there; the wait is never longer than asked for."""
    world = make_world(postgres_url + "&pooler=transaction")

    async with listening(world) as listener:
        assert isinstance(listener, LookingListener)
        async with asyncio.timeout(LONG):
            assert (await listener.wait(10 * LONG), await listener.wait(0), await listener.wait(10 * LONG)) == (
                True,
                False,
                True,
            )


async def test_one_behind_a_pooler_wakes_those_who_are_not(world, make_world, pgbouncer_url):
    """A verb through PgBouncer rings for listeners with a line of their own."""
    pooled = make_world(pgbouncer_url)

    async with asleep(world) as listener:
        assert isinstance(listener, PostgresListener)
        await pooled.engine.arun(work())
        assert await listener.wait(LONG)
