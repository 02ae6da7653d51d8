"""Verbs on a Redis server: bounded in connections and time, none repeated by itself, in threads and after forks."""

import asyncio
import gc
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import pytest
import redis
from redis_scene import Open, Servers, scripted

from standfast.errors import ConfigurationError, StoreError, StoreUnavailableError, ValueNotStoredError
from standfast.stores.redis.connect import Pool, Wire
from standfast.stores.redis.store import RedisBackend
from standfast.stores.redis.url import Endpoint, parse_address
from standfast.stores.rows import to_micros
from standfast.stores.verb import Access, Query, Script, Verb
from standfast.testing import FakeClock

CRASH_ONLY = 60.0
"""Seconds that only a call which hangs exceeds."""


def rings(url: str) -> int:
    with redis.Redis.from_url(url) as own:
        return int(own.get("{standfast}:arrivals") or 0)


def test_nothing_is_opened_before_the_first_verb(open_store: Open) -> None:
    """A store may be declared while its server is away; a URL that means none is refused at once."""
    open_store("redis://127.0.0.1:1/0")
    with pytest.raises(ConfigurationError):
        open_store("redis://")


def test_a_verb_gets_the_reply_of_its_script(backend: RedisBackend, redis_url: str) -> None:
    """What a script does is done, in the caller's thread or for an async caller."""
    backend.run(scripted("ring", "work"))
    asyncio.run(backend.arun(scripted("ring", "work")))
    assert rings(redis_url) == 2


def test_a_given_clock_is_the_time_of_every_script(redis_url: str, open_store: Open) -> None:
    """Tests move the time; without that it is the server's."""
    clock = FakeClock()
    now, *_ = open_store(redis_url, clock=clock).run(scripted("census"))
    assert int(now) == to_micros(clock.now())
    with redis.Redis.from_url(redis_url) as own:
        seconds, micros = own.time()
    now, *_ = open_store(redis_url).run(scripted("census"))
    assert int(now) >= seconds * 1_000_000 + micros


def test_namespaces_do_not_meet(redis_url: str, open_store: Open) -> None:
    """Each has keys of its own, all with one hash tag."""
    open_store(redis_url, namespace="left").run(scripted("ring", "work"))
    with redis.Redis.from_url(redis_url) as own:
        assert own.keys() == [b"{standfast:left}:arrivals"]


def test_scripts_that_the_server_forgot_are_loaded_again(backend: RedisBackend, redis_url: str) -> None:
    """A restart or SCRIPT FLUSH takes the scripts, and nobody notices."""
    backend.run(scripted("ring", "work"))
    with redis.Redis.from_url(redis_url) as own:
        own.script_flush()
    backend.run(scripted("ring", "work"))
    assert rings(redis_url) == 2


def test_after_a_restart_the_next_call_succeeds(redis_server: Servers, open_store: Open) -> None:
    """A connection that was closed meanwhile is found out before anything is sent on it."""
    server = redis_server()
    backend = open_store(server.url())
    backend.run(scripted("ring", "work"))
    server.restart()
    backend.run(scripted("ring", "work"))
    server.cut_connections()
    backend.run(scripted("ring", "work"))
    assert rings(server.url()) == 2  # the first one went with the server, which keeps nothing


def test_a_server_that_hangs_is_told_in_time(redis_server: Servers, open_store: Open) -> None:
    """No reply is no answer: the call may have happened, is not repeated here, and ends within its timeout."""
    server = redis_server()
    backend = open_store(server.url(), timeout=0.3)
    backend.run(scripted("ring", "work"))
    server.pause()
    with pytest.raises(StoreUnavailableError, match=r"did not answer within 0\.3 s"):
        backend.run(scripted("ring", "work"))
    with pytest.raises(StoreUnavailableError, match=r"did not answer within 0\.3 s"):  # nor does it greet a new one
        backend.run(scripted("ring", "work"))
    server.cont()
    backend.run(scripted("ring", "work"))
    assert rings(server.url()) == 3


def test_many_threads_share_few_connections(backend: RedisBackend, redis_url: str) -> None:
    """No call is lost or doubled among forty threads, and the connections are bounded."""

    def call() -> None:
        for _ in range(25):
            backend.run(scripted("ring", "work"))

    threads = [threading.Thread(target=call) for _ in range(40)]
    for thread in threads:
        thread.start()
    with redis.Redis.from_url(redis_url) as own:
        connected = max(len(own.client_list()) for _ in range(20))
    for thread in threads:
        thread.join(CRASH_ONLY)
    assert rings(redis_url) == 1000
    assert connected <= 20


async def test_a_crowd_of_async_callers(backend: RedisBackend, redis_url: str) -> None:
    """Hundreds of calls at once from one event loop are all answered."""
    await asyncio.gather(*(backend.arun(scripted("ring", "work")) for _ in range(500)))
    assert rings(redis_url) == 500


def test_when_all_connections_are_in_use(redis_url: str) -> None:
    """Who gets none in time hears that, and the next one gets what came back."""
    address = parse_address(redis_url)
    [place] = address.places
    pool = Pool(address, 1, 0.05)
    first = pool.take(place)
    with pytest.raises(StoreUnavailableError, match="all 1 connections of this process"):
        pool.take(place)
    pool.give_back(first)
    again = pool.take(place)
    assert again.wire is first.wire
    pool.drop(again)
    other = pool.take(place)
    assert other.wire is not first.wire
    pool.drop(other)


def test_what_nobody_gives_back_any_more_is_not_lost(redis_url: str) -> None:
    """An exception from a signal handler may come just before it is given back, or just after it is lent."""
    address = parse_address(redis_url)
    [place] = address.places
    pool = Pool(address, 2, 0.05)
    kept = pool.take(place)
    for _ in range(3):
        lost = pool.take(place)
        with pytest.raises(StoreUnavailableError):
            pool.take(place)
        del lost
    pool.give_back(kept)
    lent = [pool.take(place) for _ in range(2)]
    with pytest.raises(StoreUnavailableError):
        pool.take(place)
    for each in lent:
        pool.drop(each)


class _TimeIsUpError(Exception):
    """What a signal handler raises."""


def test_calls_that_a_signal_handler_cuts_short(redis_url: str, open_store: Open) -> None:
    """At whichever line it raises, as many connections can be lent as before."""
    [place] = parse_address(redis_url).places
    moment, is_interrupted = 0, True
    gc.freeze()  # what was there before is no part of any cycle to come, and takes long to look through each time
    while is_interrupted:
        moment += 1
        engine = open_store(redis_url, timeout=0.5)._engine()
        engine.call(Script("ring", ("work",)))
        with _interrupted_at(moment) as hits:
            engine.call(Script("ring", ("work",)))
        is_interrupted = hits == [moment]
        _lend_all(engine._pools[Access.WRITE], place)
    gc.unfreeze()
    assert moment > 16  # it was cut short at many places, and at last nowhere


def _lend_all(pool: Pool, place: Endpoint) -> None:
    gc.collect()  # an error may be part of a cycle, with the frames that it came through
    lent = [pool.take(place) for _ in range(16)]
    for each in lent:
        pool.drop(each)


@contextmanager
def _interrupted_at(moment: int) -> Iterator[list[int]]:
    """Raise at so manieth line of the engine and its pool, once; tell whether there was one."""
    hits, passed, before = [], 0, sys.gettrace()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal passed
        if not frame.f_code.co_filename.endswith(("redis/connect.py", "redis/engine.py")):
            return None
        if event == "line" and not hits:
            passed += 1
            if passed == moment:
                hits.append(moment)
                raise _TimeIsUpError
        return trace

    sys.settrace(trace)
    try:
        with suppress(_TimeIsUpError):
            yield hits
    finally:
        sys.settrace(before)


PACKING = """
import signal, sys
from random import Random
from standfast.stores.redis.store import RedisBackend
from standfast.stores.redis.connect import packed
from standfast.stores.verb import Access, Script

class TimeIsUpError(Exception):
    pass

def interrupt(*_):
    raise TimeIsUpError

class Silent:
    def send(self, words):
        packed(words)
    def read(self):
        return None

engine, chance = RedisBackend(sys.argv[1])._engine(), Random(7)
engine._is_checked = True
signal.signal(signal.SIGALRM, interrupt)
for _ in range(3000):
    try:
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.000001, 0.001))
        while True:
            engine._evaluate(Access.WRITE, Silent(), Script("forget_results", tuple(range(1000, 1100)) + (0.5,)))
    except TimeIsUpError:
        pass
"""


def test_a_signal_while_a_command_is_packed(redis_url: str) -> None:
    """The library of the protocol crashes if a signal handler raises while it writes a number: it gets none."""
    command = [sys.executable, "-c", PACKING, redis_url]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=CRASH_ONLY)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_place_that_cannot_be_reached_costs_no_connection(redis_url: str) -> None:
    """Failed attempts do not use up what may be open at once."""
    address = parse_address(redis_url)
    pool = Pool(address, 1, 5)
    for _ in range(3):
        with pytest.raises(redis.ConnectionError):
            pool.take(Endpoint("127.0.0.1", 1))
    pool.drop(pool.take(address.places[0]))


def test_a_beat_waits_for_nobody(backend: RedisBackend, redis_url: str) -> None:
    """While every other connection is in use, a worker can still say that it lives."""
    pool, [place] = backend._engine()._pools[Access.WRITE], parse_address(redis_url).places
    taken = [pool.take(place) for _ in range(16)]
    backend.run(scripted("ring", "work", access=Access.BEAT))
    asyncio.run(backend.arun(scripted("ring", "work", access=Access.BEAT)))
    for each in taken:
        pool.give_back(each)
    assert rings(redis_url) == 2


def test_a_connection_is_not_used_again_after_an_error(backend: RedisBackend, redis_url: str) -> None:
    """What was left unread on it would be taken for the answer to the next question."""
    engine = backend._engine()
    pool, [place] = engine._pools[Access.WRITE], parse_address(redis_url).places
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Wire, "read", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.call(Script("ring", ("work",)))
    lent = pool.take(place)
    assert lent.wire.ask("ECHO", "mine") == b"mine"
    pool.drop(lent)


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
def test_the_timeout_of_a_signal_handler(redis_server: Servers, open_store: Open, is_warm: bool) -> None:
    """It is none of the socket, whether that is open or being opened: nothing is repeated, and who called hears."""
    server = redis_server()
    backend = open_store(server.url(), timeout=CRASH_ONLY)
    if is_warm:
        backend.run(scripted("ring", "work"))
    server.pause()
    before = signal.signal(signal.SIGALRM, _time_is_up)
    try:
        with pytest.raises(TimeoutError, match="the request took too long"):
            _ring_in_time(backend, 0.1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        server.cont()
    backend.run(scripted("ring", "work"))
    assert rings(server.url()) in ({2, 3} if is_warm else {1})


def _ring_in_time(backend: RedisBackend, seconds: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, seconds)
    backend.run(scripted("ring", "work"))


def _time_is_up(*_: object) -> None:
    raise TimeoutError("the request took too long")


def test_a_value_that_cannot_be_stored(backend: RedisBackend) -> None:
    """It is refused as such, as trying again would not help; the connection lives on."""
    for value in (object(), "\ud800"):
        with pytest.raises(ValueNotStoredError):
            backend.run(scripted("ring", value))
    backend.run(scripted("ring", "work"))


def test_a_statement_of_another_store(backend: RedisBackend) -> None:
    """A verb that speaks SQL is a mistake, not an error of the store."""

    def steps() -> Any:
        yield Query("SELECT 1")

    with pytest.raises(TypeError, match="of another store"):
        backend.run(Verb("odd", Access.READ, steps()))


@pytest.mark.parametrize("connection", [object(), "a connection"])
def test_no_part_in_a_transaction(backend: RedisBackend, connection: object) -> None:
    """Redis cannot be rolled back with another database, and says what to do instead."""
    remedies = "enqueue after the commit.*outbox.*postgresql://"
    in_handlers = "complete the job with your rows.*ctx.idempotency_key.*postgresql://"
    with pytest.raises(ConfigurationError, match=remedies):
        backend.run_in(scripted("ring", "work"), connection)
    with pytest.raises(ConfigurationError, match=remedies):
        asyncio.run(backend.arun_in(scripted("ring", "work"), connection))
    with pytest.raises(ConfigurationError, match=in_handlers):
        backend.join(connection)
    with pytest.raises(ConfigurationError, match=in_handlers):
        backend.ajoin(connection)


def test_a_closed_store_is_closed(redis_url: str) -> None:
    """Its connections and threads are gone, and a further call says so."""
    backend = RedisBackend(redis_url)
    asyncio.run(backend.arun(scripted("ring", "work")))
    backend.close()
    assert [thread for thread in threading.enumerate() if thread.name.startswith("standfast-redis")] == []
    with pytest.raises(StoreError, match="was closed"):
        backend.run(scripted("ring", "work"))


def test_closing_under_a_call_of_another_thread(redis_url: str) -> None:
    """A call under way ends and leaves no connection; one that comes too late hears that the store was closed."""
    backend = RedisBackend(redis_url)
    engine, [place] = backend._engine(), parse_address(redis_url).places
    pool = engine._pools[Access.WRITE]
    lent = pool.take(place)
    backend.close()
    assert lent.wire.ask("ECHO", "mine") == b"mine"
    pool.give_back(lent)
    assert lent.wire.fileno() == -1
    with pytest.raises(StoreError, match="was closed: open a new store"):
        engine.run(scripted("ring", "work"))


FORK = """
import os, sys, threading
from standfast.stores.redis.store import RedisBackend
from standfast.stores.verb import Access, Script, Verb

backend = RedisBackend(sys.argv[1])

def ring():
    def steps():
        yield Script("ring", ("work",))
    backend.run(Verb("ring", Access.WRITE, steps()))

def ring_often():
    for _ in range(100):
        ring()

ring()
busy = threading.Thread(target=ring_often)
busy.start()
children = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        ring_often()
        backend.close()
        os._exit(0)
    children.append(child)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 5
busy.join()
ring()
backend.close()
"""


def test_parent_and_children_have_their_own(redis_url: str) -> None:
    """Forks in the middle of calls disturb nobody: each process has connections of its own."""
    # Newer Pythons warn of any fork in a process with threads; here that is the point.
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", FORK, redis_url]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=CRASH_ONLY)
    assert (done.returncode, done.stderr) == (0, "")
    assert rings(redis_url) == 602


def test_a_script_is_asked_for_by_name(backend: RedisBackend) -> None:
    """Each of ours is there under the name by which the bell and doctor ask for it."""
    names = backend._engine()._digests.keys()
    assert {"listen", "ring", "census"} <= names
    assert backend._engine().call(Script("listen", ("work", "ear", "7"))) == b"0"
