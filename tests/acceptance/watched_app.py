"""The app of fleets that are watched: what of them is watched, and who is told, is in a file of the test's."""

import asyncio
import os
from pathlib import Path

import msgspec

from standfast import Every, Standfast
from standfast.model.alerts import AlertRule
from standfast.observe.alerts.channel import Channel, DeadMan

SAID = "STANDFAST_TEST_ALERTS"
"""Where the environment names that file."""


class Said(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What the app declares; `every` is how often its schedule fires, if it has one."""

    rules: tuple[AlertRule, ...] = ()
    channels: tuple[Channel, ...] = ()
    dead_man: DeadMan | None = None
    enabled: bool = True
    every: float | None = None


def make_app(url: str | None = None) -> Standfast:
    said = msgspec.json.decode(Path(os.environ[SAID]).read_bytes(), type=Said) if SAID in os.environ else Said()
    app = Standfast(url)
    app.task(nap)
    app.task(break_down, max_attempts=1)
    app.alerts(rules=said.rules, channels=said.channels, dead_man=said.dead_man, enabled=said.enabled)
    if said.every is not None:
        every = Every(said.every, anchored=True, misfire="skip", misfire_after=1.0)
        app.schedule("ticks", app.tasks["nap"], every, seconds=0.0)
    return app


async def nap(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def break_down(number: int) -> None:
    raise ValueError(f"order {number} has no address")


app = make_app()
