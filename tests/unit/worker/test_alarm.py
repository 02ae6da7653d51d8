"""The alarm goes off at the time that was set last, once, and not before it."""

import asyncio
import os
from collections.abc import Callable

import pytest

from standfast.model.clock import SystemClock
from standfast.worker.ports import Alarms, KernelAlarm, LoopAlarm, finest_alarm

LONG = 30.0
KINDS = [LoopAlarm, KernelAlarm]


def times_of(alarms: Alarms, scenario: Callable[..., object]) -> list[float]:
    """Play a scenario with an alarm; return when it went off, from the beginning on."""

    async def play() -> list[float]:
        went_off: list[float] = []
        rung = asyncio.Event()

        def go_off() -> None:
            went_off.append(SystemClock.boot() - began_at)
            rung.set()

        alarm = alarms(go_off)
        began_at = SystemClock.boot()
        scenario(alarm)
        async with asyncio.timeout(LONG):
            await rung.wait()
        await asyncio.sleep(0.05)
        if isinstance(alarm, KernelAlarm):
            asyncio.get_running_loop().remove_reader(alarm._timer)
            os.close(alarm._timer)
        return went_off

    return asyncio.run(play())


@pytest.mark.parametrize("alarms", KINDS)
@pytest.mark.parametrize("seconds", [0.0, 0.0003, 0.02])
def test_it_goes_off_once_and_not_early(alarms: Alarms, seconds: float) -> None:
    [at] = times_of(alarms, lambda alarm: alarm.set(seconds))
    assert at >= seconds


@pytest.mark.parametrize("alarms", KINDS)
def test_the_time_that_was_set_last_counts(alarms: Alarms) -> None:
    def sooner(alarm: LoopAlarm) -> None:
        alarm.set(LONG)
        alarm.set(0.01)

    def later(alarm: LoopAlarm) -> None:
        alarm.set(0.0)
        alarm.set(0.04)

    assert [at < LONG for at in times_of(alarms, sooner)] == [True]
    assert [at >= 0.04 for at in times_of(alarms, later)] == [True]


@pytest.mark.parametrize("alarms", KINDS)
def test_it_can_be_set_again(alarms: Alarms) -> None:
    async def scenario() -> int:
        times = 0
        done = asyncio.Event()

        def go_off() -> None:
            nonlocal times
            times += 1
            if times == 5:
                done.set()
            else:
                alarm.set(0.001)

        alarm = alarms(go_off)
        alarm.set(0.001)
        async with asyncio.timeout(LONG):
            await done.wait()
        return times

    assert asyncio.run(scenario()) == 5


def test_where_the_kernel_has_none_the_loops_own_must_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that forbids it, or on another system."""

    def refuse(*_: object) -> None:
        raise OSError

    async def made() -> type:
        return type(finest_alarm(lambda: None))

    monkeypatch.setattr(KernelAlarm, "__init__", refuse)
    assert asyncio.run(made()) is LoopAlarm
