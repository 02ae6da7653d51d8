"""Harm at every message of a talk with Redis: what is told as done is stored, and no answer is another's.

`make prove NAME=every_byte` tries every verb, place and manner; here some of them are chosen by a seed.
"""

from collections import Counter
from itertools import product
from random import Random

import pytest
from every_byte import AMPLE, MANNERS, EveryByte
from fleet import PROVE
from verb_scenes import Stage

from fault_proxy import Fault, Harm, Proxy, Way, end_in_redis
from servers import RedisServer
from standfast.stores.redis.store import RedisBackend

CASES = {Harm.CUT: 16, Harm.LATE: 4}
"""Of those that begin with this harm; silence takes a while to be noticed."""


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


@pytest.fixture(scope="module")
def world():
    with RedisServer() as server, Proxy(("127.0.0.1", server.port), end_in_redis) as proxy:
        world = World(server, proxy)
        yield world
        world.own.close()


def chosen(world, harms):
    """Yield verbs, manners and faults: at full size all verbs, in all manners, at each place (some, if silent)."""
    random = Random(24)
    cases = list(product(world.stage.names, MANNERS))
    for name, manner in cases if PROVE else random.sample(cases, CASES[harms[0]]):
        faults = [
            Fault(harm, *place, act=world.server.cut_connections)
            for place in world.trials.places(name, manner)
            for harm in harms
        ]
        most = (8 if Harm.HOLE in harms else len(faults)) if PROVE else 4
        for fault in random.sample(faults, min(most, len(faults))):
            yield name, manner, fault


@pytest.mark.parametrize(
    "harms", [(Harm.CUT, Harm.SPLIT, Harm.ACT), (Harm.LATE, Harm.HOLE)], ids=["broken", "silent"]
)
def test_every_byte(world, harms, measured):
    """What is told as done is there, whatever happens to any message; the next calls work."""
    world.trials.runs.clear()
    for name, manner, fault in chosen(world, harms):
        world.trials.try_fault(name, manner, fault)
    assert world.trials.runs.total() > world.trials.runs["none"], "no harm was done"
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
