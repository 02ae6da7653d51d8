"""Many callers of one store whose connections are cut: they leave whenever they like, fork, and use threads.

What was acknowledged is stored, each with its own arguments, and no answer goes to another caller.
"""

import asyncio
import subprocess
import sys
import threading
from collections import Counter
from contextlib import ExitStack, closing
from random import Random

import pytest
from fleet import PROVE

from fault_proxy import Proxy, end_in_postgres, end_in_redis
from servers import PgBouncer, PostgresServer, RedisServer
from standfast.errors import StoreUnavailableError
from standfast.model.ids import new_job_id
from standfast.model.job import NewJob
from standfast.settings import Settings
from standfast.stores.contract import count_states
from standfast.stores.url import open_backend

CANCELLED = 10_000 if PROVE else 400
CUTS = 300 if PROVE else 12
CRASH_ONLY = 120.0
"""Seconds that only what hangs exceeds."""

STORES = ["postgres", "pooled", "redis"]


class World:
    """A server of the test's own, PgBouncer before it or not, and a proxy before that."""

    def __init__(self, url, front, end):
        self.proxy = Proxy(("127.0.0.1", front.port), end)
        self.own = open_backend(Settings(url=url))
        self.own.run(count_states(self.own.verbs))
        self.url = url.replace(f":{front.port}/", f":{self.proxy.port}/")

    def open(self):
        return open_backend(Settings(url=self.url, store_timeout=20))

    def close(self):
        self.own.close()
        self.proxy.close()

    def stored(self, told):
        """Compare jobs with what is there: what was told as stored is, and each has its own arguments."""
        for job, is_told in told:
            found = self.own.run(self.own.verbs.get(job.id))
            assert found is not None or not is_told
            assert found is None or found.payload == job.payload


@pytest.fixture(scope="module", params=STORES)
def world(request):
    with ExitStack() as running:
        if request.param == "redis":
            server = running.enter_context(RedisServer())
            world = World(server.url(), server, end_in_redis)
        else:
            server = running.enter_context(PostgresServer(fsync="off", synchronous_commit="off"))
            query = {"sslmode": "disable", "gssencmode": "disable"}
            if request.param == "pooled":
                server = running.enter_context(PgBouncer(server.url()))
                query["pooler"] = "transaction"
            world = World(server.url(**query), server, end_in_postgres)
        yield running.enter_context(closing(world))


async def test_cancelled_at_any_moment(world, measured):
    """Callers of one loop leave whenever they like, and nobody else gets what was theirs."""
    random, told, counts = Random(24), [], Counter()
    known = [_job(f"known {number}") for number in range(10)]
    backend = world.open()
    await backend.arun(backend.verbs.enqueue(known))

    async def enqueue(number):
        job = _job(f"job {number}")
        told.append([job, False])
        line = told[-1]
        assert (await backend.arun(backend.verbs.enqueue([job]))).keys() <= {job.id}
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
from standfast.model.job import NewJob
from standfast.errors import StoreUnavailableError
from standfast.model.ids import new_job_id
from standfast.settings import Settings
from standfast.stores.url import open_backend

backend = open_backend(Settings(url=sys.argv[1], store_timeout=20))

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
