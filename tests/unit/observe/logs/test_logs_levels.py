"""The table of levels knows every event, and what goes well with one job is not worth a line by itself."""

import logging

from standfast import events
from standfast.observe.logs.levels import _LEVELS, Level, level_of

FAMILIES = {
    events.Event,
    events.JobEvent,
    events.AlertEvent,
    events.ScheduleEvent,
    events.Traced,
    events.WindowEvent,
    events.WorkerEvent,
}


def test_every_event_has_its_level():
    kinds = [each for each in vars(events).values() if isinstance(each, type) and issubclass(each, events.Event)]
    assert set(kinds) - FAMILIES == _LEVELS.keys()


def test_the_numbers_are_those_of_the_standard_library():
    assert {level.name: level.value for level in Level} == {
        level.name: getattr(logging, level.name) for level in Level
    }


def test_an_event_of_a_plugin_is_worth_a_line():
    assert level_of(type("SomethingElse", (events.Event,), {})) is Level.INFO
