"""Deliveries as jobs: one for each channel and notice, tried again, and handed on where a channel is unknown."""

from datetime import timedelta

import pytest

from alert_notices import notice
from alert_receivers import hook
from standfast import Standfast, State, WebhookChannel
from standfast.model.outcomes import Fail, Snooze
from standfast.observe.alerts.alert_rules import AlertSettings
from standfast.observe.alerts.delivery import (
    DELIVER,
    NOBODY_HAS_IT,
    QUEUE,
    deliver_by,
    delivery_jobs,
    order_delivery,
    trial_notice,
)
from standfast.observe.alerts.senders import Programs
from standfast.testing import StandfastKit

SECRET = "a-secret-of-the-receiver"


class Stage:
    """An app that has a channel `ops` to a receiver, in the hands of a kit."""

    def __init__(self, receiver):
        self.app = Standfast("memory://")
        self.app.alerts(channels=[WebhookChannel(name="ops", url=receiver.url, secret=SECRET)])
        self.receiver = receiver
        self.kit = StandfastKit(self.app)

    def order(self, *channels, **how):
        told = notice(at=self.kit.clock.now(), **how)
        return self.app.call(order_delivery(self.app.verbs, told, channels))


@pytest.fixture
def stage():
    """The receiver is away at first."""
    with hook(503, 503, 204) as receiver:
        made = Stage(receiver)
        with made.kit:
            yield made


def test_there_is_one_for_each_channel():
    jobs = delivery_jobs(notice(), ["ops", "mail", "ops"])
    assert [(job.task, job.queue, job.key) for job in jobs] == [
        (DELIVER, QUEUE, "n1:ops"),
        (DELIVER, QUEUE, "n1:mail"),
    ]
    assert jobs[0].metadata == {"notice": "n1", "channel": "ops", "rule": "queue-age"}


def test_it_is_tried_until_it_arrives(stage):
    """With the same id each time; why it failed is in the history, without secrets."""
    [job_id] = stage.order("ops")
    runs = stage.kit.drain_all()
    assert [run.outcome for run in runs] == ["retry", "retry", "complete"]
    assert runs[0].error == "Retry: channel 'ops': the receiver answered 503 Service Unavailable"
    assert [got["headers"]["X-Standfast-Delivery"] for got in stage.receiver.got] == ["n1"] * 3
    assert all(got["signed"] for got in stage.receiver.got)
    assert stage.kit.job(job_id).state is State.COMPLETED
    assert SECRET.encode() not in stage.kit.job(job_id).payload


def test_who_orders_it_twice_has_it_sent_once(stage):
    """Also after it was sent."""
    [first] = stage.order("ops")
    assert stage.order("ops") == (first,)
    stage.kit.drain_all()
    assert stage.order("ops") == (first,)
    assert stage.kit.drain_all() == []


def test_it_is_a_dead_letter_when_nothing_helps(stage):
    stage.receiver.statuses[:] = [500]
    [job_id] = stage.order("ops")
    runs = stage.kit.drain_all()
    assert [run.outcome for run in runs] == ["retry"] * 9 + ["die"]
    assert stage.kit.job(job_id).state is State.DEAD
    stage.receiver.statuses[:] = [410]
    [other] = stage.order("ops", id="n2")
    assert [run.outcome for run in stage.kit.drain_all()] == ["die"]
    assert "410 Gone" in stage.kit.job(other).error


def test_a_channel_that_is_not_known_here_is_left_to_others(stage):
    """Nothing is charged for it; when nobody has come for an hour, it is a dead letter that says so."""
    [job_id] = stage.order("elsewhere")
    assert {run.outcome for run in stage.kit.live(timedelta(minutes=1))} == {"snooze"}
    assert stage.kit.job(job_id).attempt == 0
    stage.kit.advance(NOBODY_HAS_IT)
    assert [run.outcome for run in stage.kit.drain()] == ["die"]
    assert "no worker or supervisor has a channel 'elsewhere'" in stage.kit.job(job_id).error


@pytest.mark.parametrize(
    ("app", "age", "outcome"),
    [
        ("shop:app", timedelta(minutes=50), Snooze),
        ("shop:app", timedelta(hours=2), Fail),
        ("bakery:app", timedelta(hours=2), Snooze),
        ("bakery:app", timedelta(hours=25), Fail),
    ],
)
def test_what_is_old_when_another_app_comes_first_is_left_to_its_own(app, age, outcome):
    """The store, or all of its workers, may have been away for hours."""
    told = notice()
    deliver = deliver_by(lambda: AlertSettings(app="shop:app"), lambda: told.at + age, Programs())
    with pytest.raises(outcome):
        deliver(told, "ops", app)


def test_a_trial_says_that_nothing_is_wrong(stage):
    stage.receiver.statuses[:] = [204]
    trial = trial_notice(stage.kit.clock.now())
    stage.app.call(order_delivery(stage.app.verbs, trial, ["ops"]))
    stage.kit.drain()
    [got] = stage.receiver.got
    assert (got["said"]["kind"], got["said"]["title"]) == ("test", "test: this is how an alert arrives")
    assert "nothing is wrong" in got["said"]["text"]
