"""A loop that fails begins anew, with pauses; too many failures in a minute and the supervisor gives up."""

import asyncio

from holdfast.errors import HoldfastError
from holdfast.supervisor.tending import LIMIT, WITHIN, Tending
from holdfast.testing.simulator.loop import VirtualLoop
from holdfast.testing.simulator.world import VirtualClock


class Scene:
    """Loops that live for so long, each time."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.failed: list[tuple[str, str]] = []
        self.gave_up: list[HoldfastError] = []
        self.tending = Tending(
            self.clock, lambda name, error: self.failed.append((name, str(error))), self.gave_up.append
        )
        self.begun = 0

    async def fail_after(self, seconds: float) -> None:
        self.begun += 1
        await asyncio.sleep(seconds)
        raise ValueError("a bug")


def play(story) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(story())


def test_a_loop_that_fails_now_and_then_goes_on() -> None:
    async def story() -> None:
        scene = Scene()
        loop = asyncio.ensure_future(scene.tending.keep("the beat", lambda: scene.fail_after(WITHIN)))
        await asyncio.sleep(20 * WITHIN)
        assert 18 <= scene.begun <= 20
        assert scene.failed == [("the beat", "a bug")] * (scene.begun - 1)
        assert scene.gave_up == []
        loop.cancel()

    play(story)


def test_too_often_within_a_minute_is_the_end() -> None:
    """Whichever loops they are; the last failure is named."""

    async def story() -> None:
        scene = Scene()
        loops = [scene.tending.keep(name, lambda: scene.fail_after(1)) for name in ("the beat", "the drain")]
        await asyncio.wait([asyncio.ensure_future(loop) for loop in loops], timeout=30)
        assert len(scene.failed) >= LIMIT
        assert f"its loops failed {LIMIT} times within" in str(scene.gave_up[0])
        assert "ValueError('a bug')" in str(scene.gave_up[0])

    play(story)


def test_pauses_grow() -> None:
    async def story() -> None:
        scene = Scene()
        await scene.tending.keep("the beat", lambda: scene.fail_after(0))
        assert scene.clock.boot() >= 0.1 + 0.2 + 0.4 + 0.8

    play(story)


def test_a_loop_that_ends_has_ended() -> None:
    async def story() -> None:
        scene = Scene()
        await scene.tending.keep("the drain", lambda: asyncio.sleep(1))
        assert scene.failed == []

    play(story)
