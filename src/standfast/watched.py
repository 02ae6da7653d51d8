"""What an app declares so that people hear of trouble: alerts and objectives. A part of the app."""

from collections.abc import Collection, Sequence
from typing import Any

from msgspec.structs import replace

from standfast.alerts.channel import Channel, DeadMan
from standfast.alerts.declaring import DeclaredWatching
from standfast.alerts.watching import Watching
from standfast.core.alert import AlertRule
from standfast.core.objective import Objective
from standfast.policy import Seconds
from standfast.policy.reading import as_seconds
from standfast.schedule.window import Window
from standfast.settings import Settings
from standfast.spelling import options_of
from standfast.task import Task


class Watched:
    """The alerts and objectives of an app."""

    settings: Settings
    _watching: DeclaredWatching
    _tasks: dict[str, Task[..., Any]]

    @options_of("app.alerts")
    def alerts(
        self,
        *,
        rules: Sequence[AlertRule] = (),
        channels: Sequence[Channel] = (),
        quiet_hours: Sequence[Window] = (),
        dead_man: DeadMan | None = None,
        dashboard_url: str | None = None,
        enabled: bool = True,
    ) -> None:
        """Declare who is told of trouble, and of what beside the rules that count from the start.

        A rule that has the name of another takes its place. In `quiet_hours` only what is critical is told; the
        rest when they are over. `dead_man` is pinged while all is well. `dashboard_url` is where those who are told
        find the dashboard.
        """
        self._watching.alerts(rules, channels, quiet_hours, dead_man, dashboard_url=dashboard_url, enabled=enabled)

    @options_of("app.objective")
    def objective(
        self,
        name: str,
        *,
        target: float,
        task: str | None = None,
        queue: str | None = None,
        start_within: Seconds | None = None,
        over: int = 28,
    ) -> None:
        """Declare what share of the jobs of a task or queue succeeds, or with `start_within` starts in time."""
        within = None if start_within is None else as_seconds(start_within)
        self._watching.objective(
            Objective(name=name, target=target, task=task, queue=queue, start_within=within, over=over)
        )

    def need_channel(self, channel: str, what: str) -> None:
        """Take that `what` goes through a channel, which app.alerts or the settings file is to declare."""
        self._watching.need_channel(channel, what)

    def watching_through(self, channels: Collection[str]) -> Watching:
        """Return what it takes to send through some channels, those of the settings file too, and nothing more."""
        return self._watching.through(channels)

    @property
    def watching(self) -> Watching:
        """What is watched and who is told, with what the settings file says."""
        timeouts = {name: task.policy.timeout for name, task in self._tasks.items()}
        return replace(
            self._watching.all,
            timeouts=timeouts,
            keep_dead=self.settings.keep_dead,
            keep_dead_for=self.settings.keep_dead_for,
        )
