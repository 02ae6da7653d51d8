"""How objectives stand is told among the metrics, from the store alone, and asked for once a minute."""

import threading
from datetime import UTC, datetime

import pytest

from standfast import Standfast
from standfast.admin.catalogue import catalogue_of
from standfast.model.alerts import Objective
from standfast.observe.burn_rates import Standing
from standfast.observe.catalogue import publish
from standfast.observe.metrics.scrape import EVERY, Goals, StoreLook, goal_samples, page
from standfast.settings import Loaded

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def app():
    with Standfast("memory://") as app:
        app.objective("mail", queue="mail", target=0.9)
        yield app


def publish_what_it_says(app):
    app.call(
        publish(app.verbs, catalogue_of(app, Loaded(app.settings, app.settings_from), "shop:app", "here", NOW))
    )


def test_each_objective_is_a_gauge_of_each_kind():
    found = Standing(Objective(name="mail", queue="mail", target=0.9), 9, 1, {"5m": 2.0, "1h": 1.5})
    told = {(each.family, *each.labels): each.value for each in goal_samples([found])}
    assert told == {
        ("standfast_objective_target", "mail"): 0.9,
        ("standfast_objective_good", "mail"): 9,
        ("standfast_objective_bad", "mail"): 1,
        ("standfast_objective_budget_left", "mail"): 0,
        ("standfast_objective_burn_rate", "mail", "5m"): 2.0,
        ("standfast_objective_burn_rate", "mail", "1h"): 1.5,
    }


def test_what_workers_have_published_is_told_to_who_scrapes(app):
    publish_what_it_says(app)
    assert 'standfast_objective_budget_left{objective="mail"} 1' in page(StoreLook(app)()).splitlines()


def test_they_are_read_once_a_minute(app):
    now = 0.0
    goals = Goals(app, lambda: now)
    assert goals.samples() == ()
    publish_what_it_says(app)
    now = EVERY - 1
    assert goals.samples() == ()
    now = EVERY
    assert goals.samples() != ()


class Slow:
    """A store that answers when it is told to."""

    def __init__(self, app):
        self._app = app
        self.verbs = app.verbs
        self.may_answer = threading.Event()

    def call(self, verb):
        assert self.may_answer.wait(10)
        return self._app.call(verb)


def test_nobody_waits_for_long_until_they_are_read(app):
    """What is known else is told meanwhile; they are once they are known, and as they were while read again."""
    publish_what_it_says(app)
    now, slow = 0.0, Slow(app)
    hurried, patient = Goals(slow, lambda: now, patience=0.0), Goals(app, lambda: now)
    assert hurried.samples() == ()
    slow.may_answer.set()
    hurried._read_aside._reading.join(10)
    slow.may_answer.clear()
    now = EVERY
    assert hurried.samples() == patient.samples() != ()
    slow.may_answer.set()


def test_the_rest_is_told_where_they_cannot_be(app, caplog):
    """As where figures cannot be read."""
    publish_what_it_says(app)
    broken = Broken(app)
    told = page(StoreLook(broken)())
    assert "standfast_objective" not in told
    assert "standfast_store_up 1" in told
    assert "how objectives stand is not known" in caplog.text


class Broken:
    """A store whose objectives nobody can read."""

    def __init__(self, app):
        self._app = app
        self.verbs = app.verbs

    def call(self, verb):
        if verb.name == "records":
            verb.steps.close()
            raise ValueError("damaged")
        return self._app.call(verb)
