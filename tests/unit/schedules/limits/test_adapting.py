"""The number of jobs gives way when the host is slow, and comes back step by step. By a clock of the test's own."""

import asyncio
from random import Random

import pytest

from simulator.loop import VirtualLoop
from standfast import ConfigurationError
from standfast.schedules.adaptive import (
    LONGEST_PATIENCE,
    PATIENCE,
    RECENT,
    TICK,
    Adapting,
    Adaptive,
    Strain,
    strain_of,
)

EVERY = 0.25


def run(adapting: Adapting, strain: Strain, seconds: float, now: float, running: int = 100) -> float:
    """Let the host do so for a while; return the time."""
    for _ in range(int(seconds / EVERY)):
        now += EVERY
        adapting.judge(strain, running, now)
    return now


def test_it_is_halved_until_the_lowest_and_no_lower() -> None:
    """A host that stays slow has as few jobs as is allowed within seconds."""
    adapting = Adapting(16, 2, 0.0)
    limits, now = [], 0.0
    for _ in range(40):
        now += EVERY
        if adapting.judge(Strain.STRAINED, 16, now):
            limits.append((now, adapting.limit))
    assert limits == [(1.0, 8), (2.0, 4), (3.0, 2)]


def test_it_comes_back_step_by_step_and_no_further() -> None:
    """One step after each span of calm, up to what it was."""
    adapting = Adapting(16, 1, 0.0)
    now = run(adapting, Strain.STRAINED, 1, 0.0)
    seen = set()
    for _ in range(400):
        now += EVERY
        adapting.judge(Strain.CALM, 4, now)
        seen.add(adapting.limit)
    assert sorted(seen) == [8, 10, 12, 14, 16]


def test_what_is_neither_slow_nor_calm_changes_nothing() -> None:
    """Between the limits it stays as it is, and calm begins anew after it."""
    adapting = Adapting(8, 1, 0.0)
    now = run(adapting, Strain.STRAINED, 1, 0.0)
    now = run(adapting, Strain.FAIR, 100, now)
    assert adapting.limit == 4
    run(adapting, Strain.CALM, 2 * PATIENCE - EVERY, now)
    assert adapting.limit == 4


def test_each_relapse_doubles_the_patience() -> None:
    """A load that is always too much for one step more is tried ever more rarely, but at least once a minute."""
    adapting, now = Adapting(4, 1, 0.0), 0.0
    now = run(adapting, Strain.STRAINED, 2, now)
    tries = []
    for _ in range(6):
        began = now
        while adapting.limit == 1:
            now = run(adapting, Strain.CALM, EVERY, now)
        tries.append(now - began)
        now = run(adapting, Strain.STRAINED, 1, now, running=2)
    assert tries == sorted(tries)
    assert tries[-1] <= LONGEST_PATIENCE + EVERY
    assert tries[-1] > 4 * PATIENCE


def test_a_load_that_is_too_much_for_all_places_is_tried_ever_more_rarely() -> None:
    """To have come back to all of them is no proof; to have been calm there is."""
    adapting, now = Adapting(8, 1, 0.0), 0.0
    tries = []
    for _ in range(7):
        now = run(adapting, Strain.STRAINED, 1, now, running=8)
        began = now
        while adapting.limit < 8:
            now = run(adapting, Strain.CALM, EVERY, now)
        tries.append(now - began)
    assert tries == sorted(tries)
    assert tries[-1] > 8 * tries[0]
    now = run(adapting, Strain.CALM, LONGEST_PATIENCE + EVERY, now)
    now = run(adapting, Strain.STRAINED, 1, now, running=8)
    began = now
    while adapting.limit < 8:
        now = run(adapting, Strain.CALM, EVERY, now)
    assert now - began <= tries[0] + EVERY


def test_what_nobody_uses_is_not_halved() -> None:
    """Of a hundred places of which four are taken, two are left: else nothing would change for long."""
    adapting = Adapting(100, 1, 0.0)
    run(adapting, Strain.STRAINED, 1, 0.0, running=4)
    assert adapting.limit == 2


def test_it_stays_within_its_bounds_whatever_happens() -> None:
    """Any strain at any time with any load."""
    random = Random(7)
    for _ in range(50):
        most = random.randint(1, 40)
        adapting, lowest, now = Adapting(most, random.randint(1, 50), 0.0), 0, 0.0
        lowest = min(adapting._lowest, most)
        for _ in range(200):
            now += random.random()
            adapting.judge(random.choice(list(Strain)), random.randint(0, most), now)
            assert lowest <= adapting.limit <= most


@pytest.mark.parametrize(
    ("measured", "strain"),
    [
        ([], Strain.CALM),
        ([9.0], Strain.CALM),
        ([9.0, 0.01], Strain.CALM),
        ([9.0, 9.0], Strain.STRAINED),
        ([0.06] * 2 + [0.0] * 40, Strain.CALM),
        ([0.06] * 3 + [0.0] * 37, Strain.STRAINED),
        ([0.04] * 3 + [0.0] * 37, Strain.FAIR),
        ([0.02] * 40, Strain.CALM),
    ],
)
def test_strain(measured: list[float], strain: Strain) -> None:
    """One outlier is none; more than a twentieth over the limit is too much; below half of it all is calm."""
    assert strain_of(measured, 0.05) is strain


def test_a_watched_loop_tells_how_late_it_is() -> None:
    """Code that blocks it shows; a loop that idles is calm; what lies back does not count."""
    loop = VirtualLoop()
    adaptive = Adaptive(0.05, clock=loop.time)

    async def scenario() -> None:
        adaptive.watch_loop(loop)
        adaptive.watch_loop(loop)
        await asyncio.sleep(1)
        assert adaptive.strain(0.0) is Strain.CALM
        assert len(adaptive._lags) <= 1 / TICK
        for _ in range(4):
            await asyncio.sleep(0.1)
            adaptive.observe_lag(0.2)
        assert adaptive.strain(0.0) is Strain.STRAINED
        assert adaptive.strain(loop.time() + 1) is Strain.CALM
        await asyncio.sleep(3)
        assert adaptive.strain(0.0) is Strain.CALM

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(scenario())


def test_a_blocked_loop_is_seen() -> None:
    """In real time: who holds a loop for long makes it late."""
    adaptive = Adaptive(0.05)

    async def scenario() -> None:
        import time  # noqa: PLC0415

        adaptive.watch_loop(asyncio.get_running_loop())
        await asyncio.sleep(0)
        for _ in range(3):
            time.sleep(0.2)  # noqa: ASYNC251 - that is what is tried
            await asyncio.sleep(0.01)

    asyncio.run(scenario())
    assert adaptive.strain(0.0) is Strain.STRAINED


def test_a_loop_that_is_blocked_for_long_is_not_calm() -> None:
    """Neither while it is, and measures nothing, nor afterwards, when it has measured once; once stopped it is."""
    loop, passed = VirtualLoop(), [0.0]
    adaptive = Adaptive(0.05, clock=lambda: loop.time() + passed[0])

    async def scenario() -> None:
        adaptive.watch_loop(loop)
        await asyncio.sleep(1)
        passed[0] = 5.0
        assert adaptive.strain(0.0) is Strain.STRAINED
        await asyncio.sleep(3)
        assert adaptive.strain(0.0) is Strain.CALM
        loop._pass(3.0)
        await asyncio.sleep(0.1)
        assert adaptive.strain(0.0) is Strain.STRAINED
        loop._pass(0.2)
        await asyncio.sleep(RECENT)
        assert adaptive.strain(0.0) is Strain.CALM

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(scenario())
        passed[0] += 10
        assert adaptive.strain(0.0) is Strain.CALM


def test_requests_are_observed_by_middleware() -> None:
    """ASGI and WSGI, until the answer begins; what is no request is not counted."""
    now = [0.0]
    adaptive = Adaptive(None, 0.1, clock=lambda: now[0])

    async def web(_scope, _receive, send):
        now[0] += 0.5
        await send({"type": "http.response.start"})
        now[0] += 9.0

    async def sent(_message):
        """Take it."""

    asyncio.run(adaptive.asgi(web)({"type": "http"}, None, sent))
    asyncio.run(adaptive.asgi(web)({"type": "lifespan"}, None, sent))

    def plain(_environ, _start):
        now[0] += 0.25
        return [b""]

    adaptive.wsgi(plain)({}, lambda *_: None)
    assert [seconds for _, seconds in adaptive._latencies] == [0.5, 0.25]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"lag": 0}, "lag must be a timedelta or seconds, above 0"),
        ({"latency": -1}, "latency must be"),
        ({"lag": None}, "needs a limit"),
        ({"lowest": 0}, "lowest must be a whole number, 1 or more"),
    ],
)
def test_bad_input_is_refused(given: dict[str, object], said: str) -> None:
    """With the field, what it must be, and an example."""
    with pytest.raises(ConfigurationError, match=said):
        Adaptive(**given)
