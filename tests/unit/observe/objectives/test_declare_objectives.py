"""Objectives are checked where they are declared, in code and in the settings file."""

import pytest

from standfast import Standfast
from standfast.errors import ConfigurationError
from standfast.model.alerts import Objective
from standfast.observe.objectives import read_objectives
from standfast.settings import Section


def declared(**how):
    app = Standfast("memory://")
    app.objective("mail", **{"target": 0.99, "task": "send", **how})
    return app.watching.objectives


def test_an_objective_is_kept_as_declared():
    """Spans are seconds, however they are given."""
    assert declared(start_within=30, over=7) == (
        Objective(name="mail", target=0.99, task="send", start_within=30.0, over=7),
    )


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"target": 1}, "target must be a share between 0 and 1"),
        ({"target": 0}, "target must be a share between 0 and 1"),
        ({"target": 99.5}, "target must be a share between 0 and 1"),
        ({"target": float("nan")}, "target must be"),
        ({"target": "99 %"}, "target must be"),
        ({"task": None}, "give task or queue"),
        ({"queue": "mail"}, "give task or queue, not both"),
        ({"task": "a b"}, "a task's name must be"),
        ({"task": None, "queue": "a b"}, "queue must be"),
        ({"start_within": 0}, "start_within must be"),
        ({"start_within": -1}, "start_within must be"),
        ({"start_within": 86_400}, "start_within must be"),
        ({"over": 0}, "over must be whole days from 1 to 28"),
        ({"over": 29}, "over must be whole days from 1 to 28"),
        ({"over": 1.5}, "over must be whole days"),
    ],
)
def test_what_makes_no_sense_is_refused(how, words):
    """One error, with the objective and the remedy named."""
    with pytest.raises(ConfigurationError, match=r"objective 'mail': ") as refused:
        declared(**how)
    assert words in str(refused.value)


def test_all_that_is_wrong_is_named_at_once():
    """Nobody mends one thing after the other."""
    with pytest.raises(ConfigurationError, match=r"target must .* give task or queue, not both; over must") as told:
        declared(target=2, queue="mail", over=400)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("name", ["", "two words", "x" * 200])
def test_a_name_that_is_none(name):
    """Names are as those of tasks."""
    with pytest.raises(ConfigurationError, match="an objective's name must be"):
        Standfast("memory://").objective(name, target=0.9, task="send")


def test_two_of_one_name(monkeypatch, tmp_path):
    """In code, or in code and the file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "standfast.toml").write_text('[objectives.mail]\ntarget = 0.9\nqueue = "mail"\n')
    app = Standfast("memory://")
    assert [each.name for each in app.watching.objectives] == ["mail"]
    app.objective("send", target=0.9, task="send")
    for name in ("mail", "send"):
        with pytest.raises(ConfigurationError, match=f"two objectives are named '{name}'"):
            app.objective(name, target=0.9, task="send")


def test_a_file_may_say_spans_as_text():
    """As all spans in that file."""
    section = Section({"mail": {"target": 0.9, "queue": "mail", "start_within": "1m", "over": 7}}, "standfast.toml")
    assert read_objectives(section) == (
        Objective(name="mail", target=0.9, queue="mail", start_within=60.0, over=7),
    )
    assert read_objectives(None) == ()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (3, "[objectives.mail] of standfast.toml must be a table"),
        ({}, "[objectives.mail] of standfast.toml has no target"),
        ({"target": 0.9, "tsk": "send"}, "there is no tsk; did you mean task?"),
        ({"target": 0.9, "name": "x"}, "there is no name"),
        ({"target": 0.9, "task": "send", "start_within": "soon"}, "start_within must be"),
        ({"target": "much", "task": "send"}, "objective 'mail': target must be"),
        ({"target": 2, "task": "send"}, "(from standfast.toml)"),
    ],
)
def test_what_is_wrong_in_a_file(table, words):
    """It is named with the table and the file."""
    with pytest.raises(ConfigurationError) as refused:
        read_objectives(Section({"mail": table}, "standfast.toml"))
    assert words in str(refused.value)
    assert "standfast.toml" in str(refused.value)
