"""Rounds that two make at the same time: what one has seen first is not told after what the other saw later."""

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from standfast.errors import StoreUnavailableError
from standfast.model.alerts import AlertRule, Check, NoticeKind
from standfast.model.crash import Death, DeathKind
from standfast.model.records import Change, Kind
from standfast.observe.alerts.alert_rules import AlertSettings
from standfast.observe.alerts.board import Board
from standfast.observe.alerts.board_changes import add_silence, amend_rule, read_all_notices, read_board
from standfast.observe.alerts.monitor import LocalView, Monitor
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.values import WorkerInfo
from standfast.stores.verb import Procedure, run_procedure
from standfast.testing.clock import FakeClock

RULE = AlertRule(name="silent", check=Check.WORKER_SILENT, above=5.0, cool_down=1.0)
LEASE = timedelta(seconds=8)


class Stage:
    """A worker that is silent, and two who look."""

    def __init__(self):
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.verbs = self.backend.verbs
        self.keepers = [Monitor(AlertSettings(rules=(RULE,)), app="shop") for _ in range(2)]
        self.here = LocalView(watched_since=self.clock.now() - timedelta(hours=1))
        self.backend.run(self.verbs.register(WorkerInfo("w", "s", "host", 1, LEASE, ("b",))))

    def look(self, number, run=None):
        wanted = frozenset({Check.WORKER_SILENT})
        return run_procedure(run or self.backend.run, self.keepers[number].round(self.verbs, wanted, self.here))

    def rewrite(self, record, body):
        change = Change(Kind.BOARD, record.name, record.version, "another", body, after=record.token)
        assert self.backend.run(self.verbs.change_records([change])) == (True,)

    def told(self):
        notices = run_procedure(self.backend.run, Procedure(read_all_notices(self.verbs)))
        return sorted(notice.kind for notice in notices)


def test_a_look_from_before_is_not_judged_after_what_another_saw():
    """One has seen the silent worker; another sees it buried and says that it is over. Nothing fires anew."""
    stage = Stage()
    stage.clock.advance(6)
    assert [notice.kind for notice in stage.look(0).notices] == [NoticeKind.FIRING]
    stage.clock.advance(3)
    between = iter([True])

    def run(verb):
        answer = stage.backend.run(verb)
        if verb.name == "workers" and next(between, False):
            stage.backend.run(stage.verbs.condemn(frozenset({"w"})))
            stage.backend.run(stage.verbs.bury("w", Death(DeathKind.VANISHED)))
            stage.look(1)
            stage.clock.advance(2)
        return answer

    stage.look(0, run)
    assert stage.told() == [NoticeKind.FIRING, NoticeKind.RESOLVED]
    assert run_procedure(stage.backend.run, read_board(stage.verbs)).alerts == ()


def test_a_round_that_others_always_come_before_is_told_from_one_that_found_nothing():
    """Else what it has seen would be taken for done, and not be looked at again."""
    stage = Stage()
    stage.clock.advance(6)

    def run(verb):
        if verb.name == "change_records":
            run_procedure(stage.backend.run, add_silence(stage.verbs, "other", None, timedelta(hours=1)))
        return stage.backend.run(verb)

    with pytest.raises(StoreUnavailableError, match="others have changed the alerts"):
        stage.look(0, run)
    assert stage.told() == []


def test_of_a_board_of_a_later_release_is_kept_what_can_be_read():
    """What people said stays, and what they were told is not told again, though an alert is of an unknown check."""
    stage = Stage()
    stage.clock.advance(6)
    assert len(stage.look(0).notices) == 1
    run_procedure(stage.backend.run, add_silence(stage.verbs, "other", None, timedelta(hours=1)))
    run_procedure(stage.backend.run, amend_rule(stage.verbs, "silent", lambda rule: replace(rule, repeat=None)))
    [record] = stage.backend.run(stage.verbs.records(Kind.BOARD))
    board = msgspec.json.decode(record.body)
    strange = {**board["alerts"][0], "check": "of_tomorrow", "subject": "x"}
    board["alerts"].append(strange)
    board["overrides"]["new"] = {"name": "new", "check": "of_tomorrow"}
    stage.rewrite(record, msgspec.json.encode(board))
    stage.clock.advance(1)
    assert stage.look(1).notices == ()
    after = run_procedure(stage.backend.run, read_board(stage.verbs))
    assert [alert.subject for alert in after.alerts] == ["w"]
    assert (len(after.silences), after.overrides.keys(), after.apps.keys()) == (1, {"silent"}, {"shop"})


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"\xff", b"[" * 9999, b'{"alerts":5,"apps":[{}],"said":[{},3]}']
)
def test_a_board_of_nonsense_is_an_empty_one(body):
    stage = Stage()
    stage.look(0)
    [record] = stage.backend.run(stage.verbs.records(Kind.BOARD))
    stage.rewrite(record, body)
    assert run_procedure(stage.backend.run, read_board(stage.verbs)) == Board()
    stage.look(0)
    assert run_procedure(stage.backend.run, read_board(stage.verbs)).apps.keys() == {"shop"}
