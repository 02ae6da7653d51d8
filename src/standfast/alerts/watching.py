"""All that an app says about alerts and objectives: its workers tell their supervisors, who act on it."""

from collections.abc import Mapping

import msgspec

from standfast.alerts.channel import Channel, DeadMan
from standfast.core.alert import AlertRule
from standfast.core.objective import Objective
from standfast.schedule.window import Window


class Watching(msgspec.Struct, frozen=True, kw_only=True):
    """What is watched, and who is told.

    app: its name, or where it is found; rules: all that count, defaults included; channels: who can be told;
    quiet_hours: when only what is critical is told, the rest when they are over; dead_man: who is pinged while all
    is well; objectives: what is promised; timeouts: how many seconds a run of each task of the app may take, None
    where nothing is said; keep_dead, keep_dead_for: what its settings say; dashboard_url: where people find the
    dashboard. `enabled`: whether anything is looked at at all; `off_in`: where it says that nothing is.
    """

    app: str = ""
    rules: tuple[AlertRule, ...] = ()
    channels: tuple[Channel, ...] = ()
    quiet_hours: tuple[Window, ...] = ()
    dead_man: DeadMan | None = None
    objectives: tuple[Objective, ...] = ()
    timeouts: Mapping[str, float | None] = {}
    keep_dead: int | None = None
    keep_dead_for: float | None = None
    dashboard_url: str | None = None
    enabled: bool = True
    off_in: tuple[str, ...] = ()


NOT_WATCHING = Watching(enabled=False)
