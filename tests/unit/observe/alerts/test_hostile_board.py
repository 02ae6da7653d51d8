"""A board that is damaged, or written by who means harm: rounds go on, and say once what they leave out."""

import logging
import math
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from alert_notices import alert, notice
from standfast.model.alerts import AlertRule, Check, NoticeKind
from standfast.model.records import Change, Kind
from standfast.observe.alerts import board as seeing
from standfast.observe.alerts.alert_rules import AlertSettings, with_defaults
from standfast.observe.alerts.board import MOST, load_board
from standfast.observe.alerts.board_changes import add_silence, alert_history
from standfast.observe.alerts.checks import next_silence
from standfast.observe.alerts.monitor import LocalView, Monitor
from standfast.settings import Settings
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.values import WorkerInfo
from standfast.stores.verb import Procedure, run_procedure
from standfast.testing.clock import FakeClock
from virtual_fleet import Fleet, play

RULE = AlertRule(name="silent", check=Check.WORKER_SILENT, above=5.0)
FIRST, LAST = "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"
HUGE = 1e300

ALERT = msgspec.to_builtins(alert())
NOTICE = msgspec.to_builtins(notice())
SAID = {"rule": "silent", "subject": "w", "firing": True}
SILENCE = {"id": "s", "until": LAST, "rule": "other"}
INFO = {"id": "gone", "supervisor": "s", "host": "h", "pid": 1, "lease": "PT8S", "queues": ["b"]}


def rule(**changed: Any) -> dict[str, Any]:
    return {"overrides": {"silent": {"name": "silent", "check": "worker_silent", "above": 5.0, **changed}}}


def app(**changed: Any) -> dict[str, Any]:
    return {"apps": {"x": {"rules": [], "channels": [], "at": "2026-11-16T12:00:00Z", **changed}}}


def missed(**changed: Any) -> dict[str, Any]:
    beat_at = changed.pop("beat_at", "2026-11-16T12:00:00Z")
    return {"missed": [{"info": {**INFO, **changed}, "beat_at": beat_at}]}


UNFIT: dict[str, dict[str, Any]] = {
    **{f"{name} of {value}": rule(**{name: value}) for name in ("hold", "cool_down", "over", "repeat", "above")
       for value in (HUGE, -1.0)},
    "an override of another rule": {"overrides": {"silent": {"name": "other", "check": "queue_age", "above": 1.0}}},
    "an added rule of another name": {"added": {"mine": {"name": "other", "check": "queue_age", "above": 1.0}}},
    "an added rule that cannot be": {"added": {"mine": {"name": "mine", "check": "worker_silent", "above": HUGE}}},
    "an amended field that nobody may amend": {"amended": {"silent": ["name"]}},
    "very many amended fields": {"amended": {"silent": ["above"] * 99_999}},
    "a name that drives terminals": {"overrides": {"\x1b": {"name": "\x1b", "check": "queue_age", "above": 1.0}}},
    **{f"{name}.{key} {at}": {name: [{**whole, key: at}]}
       for name, whole, key in (
           *(("alerts", ALERT, each) for each in ("since", "fired_at", "told_at", "resolved_at")),
           ("alerts", ALERT, "acknowledged_at"),
           *(("said", SAID, each) for each in ("fired_at", "resolved_at")),
           ("outbox", NOTICE, "at"), ("silences", SILENCE, "until"))
       for at in (FIRST, LAST)},
    "an app of the year 9999": app(at=LAST),
    "an app with a rule that cannot be": app(rules=[{"name": "r", "check": "worker_silent", "above": HUGE}]),
    "an app with many channels": app(channels=["c"] * 9_999),
    "a beat in the year 1": missed(beat_at=FIRST),
    "a beat in the year 9999": missed(beat_at=LAST),
    "a lease of ages": missed(lease="P999999999D"),
    "a lease below nothing": missed(lease="-P1D"),
    "very many queues": missed(queues=["q"] * 99_999),
    "a notice without a name": {"outbox": [{**NOTICE, "id": ""}]},
    "a notice with a name that no store keeps": {"outbox": [{**NOTICE, "id": "a\x00b"}]},
    "two notices of one name": {"outbox": [NOTICE, NOTICE]},
    "a notice of very many alerts": {"outbox": [{**NOTICE, "alerts": [ALERT] * 999}]},
    "an alert of very many examples": {"alerts": [{**ALERT, "examples": [{"kind": "job", "id": "1"}] * 999}]},
    "an alert that says very much": {"alerts": [{**ALERT, "says": "x" * 99_999}]},
    **{f"too many {name}": {name: many} for name, many in (
        ("alerts", [{**ALERT, "subject": str(n)} for n in range(MOST["alerts"] + 1)]),
        ("said", [{**SAID, "subject": str(n)} for n in range(MOST["said"] + 1)]),
        ("silences", [SILENCE | {"until": "2026-11-17T12:00:00Z"}] * (MOST["silences"] + 1)),
        ("outbox", [{**NOTICE, "id": str(n)} for n in range(MOST["outbox"] + 1)]),
        ("missed", missed()["missed"] * (MOST["missed"] + 1)),
        ("added", {str(n): {"name": str(n), "check": "queue_age", "above": 1.0} for n in range(501)}),
        ("amended", {str(n): ["above"] for n in range(1_001)}),
        ("overrides", {str(n): {"name": str(n), "check": "queue_age", "above": 1.0} for n in range(1_001)}),
        ("apps", {str(n): app()["apps"]["x"] for n in range(201)}))},
}  # fmt: skip

STRANGE: dict[str, dict[str, Any]] = {
    "wrong types": {"alerts": 5, "said": [{}, 3], "silences": {"a": 1}, "apps": [{}], "overrides": None},
    "a rule of texts": rule(hold="long"),
    "times that are none": {"silences": [{"id": "s", "until": "never"}], "said": [{**SAID, "fired_at": 5}]},
}


class Stage:
    """A worker that is silent, and one who looks at it and at a board that somebody else wrote."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.verbs = self.backend.verbs
        self.keeper = Monitor(AlertSettings(rules=(RULE,)), app="shop")
        self.here = LocalView(watched_since=self.clock.now() - timedelta(hours=1))
        self.backend.run(self.verbs.register(WorkerInfo("w", "s", "host", 1, timedelta(seconds=8), ("b",))))
        run_procedure(self.backend.run, add_silence(self.verbs, "kept", None, timedelta(hours=1)))

    def spoil(self, parts: dict[str, Any]) -> None:
        """Write this beside what there is."""
        [record] = self.backend.run(self.verbs.records(Kind.BOARD))
        board = msgspec.json.decode(record.body)
        for name, part in parts.items():
            mine = board.get(name)
            board[name] = [*mine, *part] if isinstance(mine, list) and isinstance(part, list) else part
        self.write(msgspec.json.encode(board))

    def write(self, body: bytes) -> None:
        [record] = self.backend.run(self.verbs.records(Kind.BOARD))
        change = Change(Kind.BOARD, record.name, record.version, str(record.version), body, after=record.token)
        assert self.backend.run(self.verbs.change_records([change])) == (True,)

    def look(self) -> Any:
        self.clock.advance(6)
        return run_procedure(self.backend.run, self.keeper.round(self.verbs, frozenset(Check), self.here))

    def seen(self) -> Any:
        return run_procedure(self.backend.run, Procedure(load_board(self.verbs)))


@pytest.mark.parametrize("parts", UNFIT.values(), ids=UNFIT.keys())
def test_what_nobody_can_go_by_is_left_out_and_said_once(parts, caplog):
    """What was told of the silent worker is told all the same, what a person said stays, and the rest is gone."""
    stage = Stage()
    stage.spoil(parts)
    made = stage.look()
    assert NoticeKind.FIRING in {each.kind for each in made.notices}
    stage.look()
    assert [each.levelno for each in caplog.records if each.name == "standfast.observe.alerts.monitor"] == [
        logging.WARNING
    ]
    seen = stage.seen()
    assert (seen.strange, seen.unfit) == (0, 0)
    assert "kept" in {each.rule for each in seen.board.silences} or "silences" in parts
    wait = next_silence(seen.board, (RULE,), stage.clock.now())
    assert wait == math.inf or 0 <= wait < 60
    run_procedure(stage.backend.run, alert_history(stage.verbs, 10))


@pytest.mark.parametrize("parts", STRANGE.values(), ids=STRANGE.keys())
def test_what_cannot_be_read_is_said_once(parts, caplog):
    """It may be of a later release, and stays as long as nobody has anything to write."""
    stage = Stage()
    stage.spoil(parts)
    for _ in range(3):
        stage.look()
    assert [each.levelno for each in caplog.records if each.name == "standfast.observe.alerts.monitor"] == [
        logging.WARNING
    ]


def test_a_board_that_is_too_large_is_not_even_read(monkeypatch, caplog):
    """It would take longer than a beat may."""
    stage = Stage()
    stage.look()
    monkeypatch.setattr(seeing, "LARGEST", 100_000)
    stage.write(b'{"alerts":[' + b" " * 100_000 + b"]}")
    made = stage.look()
    assert made.board.apps.keys() == {"shop"}
    stage.look()
    assert len([each for each in caplog.records if each.name == "standfast.observe.alerts.monitor"]) == 1


def test_very_much_that_cannot_be_read_does_not_stay():
    """Every reader would pay for it, at every look."""
    stage = Stage()
    stage.spoil({"said": [{}] * 99_999})
    stage.look()
    assert (stage.seen().strange, stage.seen().unfit) == (0, 0)


def test_a_fleet_looks_for_trouble_whatever_is_on_its_board() -> None:
    """All of it at once, written again and again; a machine that is gone is told in time."""
    hostile: dict[str, Any] = {}
    for parts in (*UNFIT.values(), *STRANGE.values()):
        for name, part in parts.items():
            mine = hostile.setdefault(name, type(part)())
            if isinstance(part, dict) and isinstance(mine, dict):
                mine.update(part)
            elif isinstance(part, list) and isinstance(mine, list):
                mine += part[:100]
    body = msgspec.json.encode(hostile)
    rules = with_defaults(
        (
            AlertRule(name="worker_silent", check=Check.WORKER_SILENT, above=8.0),
            AlertRule(name="disk_full", check=Check.DISK_FULL, above=0.9, enabled=False),
        )
    )

    def spoil(fleet: Fleet) -> None:
        [record] = fleet.store.apply(fleet.store.records(Kind.BOARD))
        change = Change(Kind.BOARD, record.name, record.version, str(record.version), body, after=record.token)
        assert fleet.store.apply(fleet.store.change_records([change])) == (True,)

    async def scenario(fleet: Fleet) -> None:
        fleet.watching = AlertSettings(rules=rules)
        await fleet.start_all(3)
        for at in (40, 50, 60):
            await fleet.until(at)
            spoil(fleet)
        fleet.kill(fleet.trees[1])
        await fleet.until(90)
        history = run_procedure(fleet.store.apply, alert_history(fleet.store, 9999))
        fired = [each for each in history if each.rule == "worker_silent" and each.kind is NoticeKind.FIRING]
        assert len(fired) == 1

    play(scenario, Settings(url="memory://"))
