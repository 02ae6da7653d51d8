"""Harm at every message of a talk with Redis: what is told as done is stored, and no answer is another's.

`make prove NAME=every_byte` tries every verb, place and manner; here some of them are chosen by a seed.
"""

import asyncio
import subprocess
import sys
import threading
from collections import Counter
from itertools import product
from random import Random

import pytest
from every_byte import AMPLE, MANNERS, EveryByte
from fleet import PROVE
from verb_scenes import Stage

from fault_proxy import Fault, Harm, Proxy, Way, end_in_redis
from holdfast.core.job import NewJob
from holdfast.errors import StoreUnavailableError
from holdfast.ids import new_job_id
from holdfast.store.redis.backend import RedisBackend
from servers import RedisServer

CASES = {Harm.CUT: 16, Harm.LATE: 4}
"""Of those that begin with this harm; silence takes a while to be noticed."""

CANCELLED = 10_000 if PROVE else 400
CUTS = 300 if PROVE else 12
CRASH_ONLY = 120.0
"""Seconds that only what hangs exceeds."""


class World:
    """A server of the test's own, and a proxy before it."""

    def __init__(self, server, proxy):
        self.own = RedisBackend(server.url())
        self.stage = Stage(self.own)
        self.proxy = proxy
        self.server = server
        self.url = server.url().replace(f":{server.port}/", f":{proxy.port}/")
        self.trials = EveryByte(self.stage, proxy, self.open)

    def open(self, timeout):
        return RedisBackend(self.url, timeout=timeout)

    def stored(self, told):
        """Compare jobs with what is there: what was told as stored is, and each has its own arguments."""
        for job, is_told in told:
            found = self.own.run(self.own.verbs.get(job.id))
            assert found is not None or not is_told
            assert found is None or found.payload == job.payload


@pytest.fixture(scope="module")
def world():
    with RedisServer() as server, Proxy(("127.0.0.1", server.port), end_in_redis) as proxy:
        world = World(server, proxy)
        yield world
        world.own.close()


def chosen(world, harms):
    """Yield verbs, manners and faults: all of them, or some that a seed has chosen."""
    random = Random(24)
    cases = list(product(world.stage.names, MANNERS))
    for name, manner in cases if PROVE else random.sample(cases, CASES[harms[0]]):
        faults = [
            Fault(harm, *place, act=world.server.cut_connections)
            for place in world.trials.places(name, manner)
            for harm in harms
        ]
        for fault in faults if PROVE else random.sample(faults, min(4, len(faults))):
            yield name, manner, fault


@pytest.mark.parametrize(
    "harms", [(Harm.CUT, Harm.SPLIT, Harm.ACT), (Harm.LATE, Harm.HOLE)], ids=["broken", "silent"]
)
def test_every_byte(world, harms, measured):
    """What is told as done is there, whatever happens to any message; the next calls work."""
    for name, manner, fault in chosen(world, harms):
        world.trials.try_fault(name, manner, fault)
    measured(dict(world.trials.runs))


@pytest.mark.parametrize("manner", [manner for manner in MANNERS if manner.is_warm], ids=str)
def test_a_line_that_broke_costs_no_call(world, manner):
    """Whatever reads or may be repeated succeeds, before its caller hears that the answer before was the last."""
    random = Random(24)
    failed = Counter()
    for name in world.stage.names if PROVE else random.sample(world.stage.names, 12):
        for way, share in ((Way.REQUEST, 0.0), (Way.REQUEST, 0.5), (Way.ANSWER, 0.0), (Way.ANSWER, 0.5)):
            with world.trials._calling(manner, AMPLE) as caller:
                scene = world.stage.set(name)
                once = scene.verb(caller._backend.verbs)
                once.steps.close()
                world.proxy.arm(Fault(Harm.CUT, way, 0, share))
                if not world.trials.try_call(scene, caller, AMPLE):
                    failed[once.once, name] += 1
    assert all(is_once for is_once, _ in failed), failed


async def test_cancelled_at_any_moment(world, measured):
    """Callers of one loop leave whenever they like, and nobody else gets what was theirs."""
    random, told, counts = Random(24), [], Counter()
    known = [_job(f"known {number}") for number in range(10)]
    backend = world.open(AMPLE)
    await backend.arun(backend.verbs.enqueue(known))

    async def enqueue(number):
        job = _job(f"job {number}")
        told.append([job, False])
        line = told[-1]
        assert await backend.arun(backend.verbs.enqueue([job])) == {}
        line[1] = True

    async def look(number):
        job = known[number % 10]
        found = await backend.arun(backend.verbs.get(job.id))
        assert (found.id, found.payload) == (job.id, job.payload)

    while counts["cancelled"] < CANCELLED:
        calls = [asyncio.create_task((enqueue if random.random() < 0.5 else look)(each)) for each in range(20)]
        if random.random() < 0.05:
            world.proxy.cut_all()
        for call in random.sample(calls, 10):
            for _ in range(random.randrange(4)):
                await asyncio.sleep(0)
            call.cancel()
        for end in await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), CRASH_ONLY):
            if isinstance(end, asyncio.CancelledError):
                counts["cancelled"] += 1
            else:
                assert end is None or isinstance(end, StoreUnavailableError), end
                counts["answered" if end is None else "error"] += 1
    backend.close()
    world.stored(told)
    measured(dict(counts))


BESIDE = """
import os, sys, threading
from holdfast.core.job import NewJob
from holdfast.errors import StoreUnavailableError
from holdfast.ids import new_job_id
from holdfast.store.redis.backend import RedisBackend

backend = RedisBackend(sys.argv[1], timeout=20)

def call(rounds):
    for _ in range(rounds):
        job = NewJob(id=new_job_id(), task="a", payload=b'{"args":[%d]}' % os.getpid())
        try:
            backend.run(backend.verbs.enqueue([job]))
            found = backend.run(backend.verbs.get(job.id))
            assert (found.id, found.payload) == (job.id, job.payload), found
        except StoreUnavailableError:
            continue
        os.write(1, f"{job.id} {os.getpid()}\\n".encode())

call(3)
busy = [threading.Thread(target=call, args=(int(sys.argv[2]),)) for _ in range(3)]
for thread in busy:
    thread.start()
children = []
for _ in range(4):
    if not (child := os.fork()):
        call(int(sys.argv[2]))
        backend.close()
        os._exit(0)
    children.append(child)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
for thread in busy:
    thread.join()
backend.close()
"""


def test_forks_and_threads_whose_lines_are_cut(world, measured):
    """In whichever process and thread: what was acknowledged is there, with its own arguments."""
    rounds = 2000 if PROVE else 40
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", BESIDE, world.url, str(rounds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        ended = threading.Event()

        def cut():
            for _ in range(CUTS):
                if not ended.wait(0.03):
                    world.proxy.cut_all()

        cutting = threading.Thread(target=cut)
        cutting.start()
        out, errors = run.communicate(timeout=CRASH_ONLY)
        ended.set()
        cutting.join()
    assert (run.returncode, errors) == (0, "")
    told = [line.split() for line in out.splitlines()]
    for job_id, pid in told:
        assert world.own.run(world.own.verbs.get(job_id)).payload == f'{{"args":[{pid}]}}'.encode()
    assert len(told) > rounds
    measured({"acknowledged": len(told)})


def _job(what):
    return NewJob(id=new_job_id(), task="a", payload=f'{{"args":["{what}"]}}'.encode())
