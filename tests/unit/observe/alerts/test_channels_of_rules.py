"""Through which channels a rule tells: its own, or else all that the app has, so that somebody hears of it."""

import logging
from collections.abc import Sequence
from datetime import timedelta

import pytest
from msgspec.structs import replace

from standfast.model.alerts import AlertRule, Check
from standfast.model.job import CHANNEL_KEY, NewJob
from standfast.observe.alerts.alert_rules import AlertSettings
from standfast.observe.alerts.board_changes import add_rule, amend_rule
from standfast.observe.alerts.channel import Channel, CommandChannel
from standfast.observe.alerts.delivery import QUEUE, delivery_jobs
from standfast.observe.alerts.monitor import LocalView, Monitor
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.values import JobFilter
from standfast.stores.verb import run_procedure
from standfast.testing.clock import FakeClock

OPS, PAGER = (CommandChannel(name=name, command=("true",)) for name in ("ops", "pager"))
MINE = AlertRule(name="mine", check=Check.QUEUE_AGE, queue="mail", above=60.0, cool_down=0.0)


class Stage:
    """A queue in which a job waits, and apps that look at it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.verbs = self.backend.verbs
        self.backend.run(self.verbs.enqueue([NewJob("j", "send", b"{}", queue="mail")]))

    def app(self, *channels: Channel, rules: Sequence[AlertRule] = ()) -> Monitor:
        """Return one who looks for an app that has these channels."""
        return Monitor(
            AlertSettings(rules=tuple(rules), channels=channels),
            app="shop",
            deliveries=lambda notice, channels: delivery_jobs(notice, [each.name for each in channels]),
        )

    def look(self, keeper: Monitor) -> None:
        """Let one look."""
        here = LocalView(self.clock.now() - timedelta(hours=1))
        run_procedure(self.backend.run, keeper.round(self.verbs, frozenset({Check.QUEUE_AGE}), here))

    def told_by(self) -> list[str]:
        """Return the channels by which people are told."""
        jobs = self.backend.run(self.verbs.list_jobs(JobFilter(queue=QUEUE, limit=100))).jobs
        return sorted(job.metadata[CHANNEL_KEY] for job in jobs)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_an_added_rule_tells_the_channels_that_it_names(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    keeper = stage.app(OPS, PAGER)
    stage.look(keeper)
    run_procedure(stage.backend.run, add_rule(stage.verbs, replace(MINE, channels=("pager",))))
    stage.clock.advance(100)
    stage.look(keeper)
    assert stage.told_by() == ["pager"]
    assert warnings(caplog) == []


@pytest.mark.parametrize("declared", [True, False], ids=["amended", "added"])
def test_where_the_app_has_none_of_them_by_now_all_of_its_channels_tell(
    caplog: pytest.LogCaptureFixture, declared: bool
) -> None:
    """Of a rule that was amended, or added, before a release gave up the channel; the log says so once."""
    stage = Stage()
    rules = [MINE] if declared else []
    stage.look(stage.app(OPS, PAGER, rules=rules))
    if declared:
        amend = amend_rule(stage.verbs, "mine", lambda rule: replace(rule, channels=("pager",), repeat=60.0))
        run_procedure(stage.backend.run, amend)
    else:
        run_procedure(stage.backend.run, add_rule(stage.verbs, replace(MINE, channels=("pager",), repeat=60.0)))
    later = stage.app(OPS, CommandChannel(name="wall", command=("true",)), rules=rules)
    stage.clock.advance(100)
    stage.look(later)
    assert stage.told_by() == ["ops", "wall"]
    stage.clock.advance(100)
    stage.look(later)
    assert stage.told_by() == ["ops", "ops", "wall", "wall"]
    assert warnings(caplog) == [
        "rule 'mine' tells channels that this app does not have (pager): it is told through all that it has"
    ]


def test_a_rule_that_is_to_tell_nobody_tells_nobody(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.clock.advance(100)
    stage.look(stage.app(OPS, rules=[replace(MINE, channels=())]))
    assert (stage.told_by(), warnings(caplog)) == ([], [])
