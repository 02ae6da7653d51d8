"""Rounds of alerts on a store, one at a time or several at once, and what came of them."""

from datetime import timedelta
from typing import Any

from conformance import Harness
from standfast.model.alerts import AlertRule, Check, Notice
from standfast.model.job import Job
from standfast.observe.alerts.alert_rules import AlertSettings, with_defaults
from standfast.observe.alerts.board import Board
from standfast.observe.alerts.board_changes import alert_history, read_board
from standfast.observe.alerts.channel import CommandChannel
from standfast.observe.alerts.delivery import QUEUE, delivery_jobs
from standfast.observe.alerts.monitor import LocalView, Monitor, RoundResult
from standfast.stores.values import JobFilter
from standfast.stores.verb import Procedure, run_procedure

EVERYTHING = frozenset(Check)
OPS = CommandChannel(name="ops", command=("true",))


class Stage:
    """A store, and somebody who looks at it."""

    def __init__(self, harness: Harness, *rules: AlertRule, **watching: Any) -> None:
        self.harness = harness
        self.began_at = harness.clock.now() - timedelta(seconds=1)
        self.watching = AlertSettings(rules=with_defaults(rules), channels=(OPS,), **watching)
        self.keeper = self.another()
        self.here: dict[str, Any] = {}

    def another(self, **how: Any) -> Monitor:
        """Return another one who makes rounds."""
        return Monitor(
            self.watching,
            deliveries=lambda notice, channels: delivery_jobs(notice, [each.name for each in channels]),
            **how,
        )

    def run(self, procedure: Procedure[Any]) -> Any:
        """Run a procedure."""
        return run_procedure(self.harness.backend.run, procedure)

    def round(self, keeper: Monitor | None = None) -> RoundResult:
        """Make a round that looks at everything."""
        here = LocalView(self.began_at, **self.here)
        made: RoundResult = self.run((keeper or self.keeper).round(self.harness.verbs, EVERYTHING, here))
        return made

    def board(self) -> Board:
        """Return how things stand."""
        board: Board = self.run(read_board(self.harness.verbs))
        return board

    def firing(self) -> dict[str, str]:
        """Return the rules that fire, with what is said of them."""
        return {alert.rule: alert.says for alert in self.board().firing}

    def history(self) -> list[Notice]:
        """Return what was told, the newest first."""
        return list(self.run(alert_history(self.harness.verbs, 1000)))

    def deliveries(self) -> list[Job]:
        """Return the jobs that bring notices to people."""
        return list(self.harness.run(self.harness.verbs.list_jobs(JobFilter(queue=QUEUE, limit=1000))).jobs)
