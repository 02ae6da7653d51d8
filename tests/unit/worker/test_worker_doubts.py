"""What a worker warns of at its start: slips that are no errors."""

import logging

import pytest
from msgspec.structs import replace

from standfast import AlertRule, AppriseChannel, CommandChannel, Cron, Standfast, WebhookChannel
from standfast.hosts.publication import warn_of_channels, warn_of_names, warn_of_unused_queues
from standfast.schedules.windows import Window
from standfast.worker.options import ServedQueues


@pytest.fixture
def warned(caplog):
    """Return what was said so far."""
    caplog.set_level(logging.WARNING)
    return lambda: [record.getMessage() for record in caplog.records]


def test_a_queue_that_no_task_uses_is_named_but_for_that_of_deliveries(warned):
    """Each app has a task for that one, whatever it declares."""
    app = Standfast("memory://")

    @app.task(queue="work")
    def pack() -> None: ...

    warn_of_unused_queues(app, ServedQueues(("work", "standfast.alerts")))
    assert warned() == []
    warn_of_unused_queues(app, ServedQueues(("wrok", "standfast.alerts")))
    [said] = warned()
    assert said == "no task of the app is declared for queue 'wrok', named in --queues; it has tasks for 'work'"


def test_a_program_that_is_not_there_is_told_without_its_arguments(warned):
    warn_of_channels(
        [
            CommandChannel(name="desk", command=("true",)),
            CommandChannel(name="wall", command=("no-such-program-here", "hush")),
            WebhookChannel(name="ops", url="https://ops.example", secret="hush-hush-hush-hush"),
        ]
    )
    [said] = warned()
    assert said.startswith("channel 'wall': its program is not there")
    assert "hush" not in said


def test_a_url_whose_scheme_is_a_slip_is_told_without_the_rest(warned):
    """As far as that can be told without apprise, which takes a second to import."""
    urls = ("malto://hush:hush@mail.example", "mailto://hush@mail.example", "nosuch://hush")
    warn_of_channels([AppriseChannel(name=f"mail{place}", url=url) for place, url in enumerate(urls)])
    [said] = warned()
    assert said.startswith(
        "channel 'mail0': its url is none that apprise knows: it begins with malto://; did you mean mailto"
    )
    assert "hush" not in said


@pytest.fixture
def shop():
    """Give an app with a task, its schedule, and queues that it uses in four ways."""
    app = Standfast("memory://")

    @app.task(queue="mail")
    def send() -> None: ...

    app.schedule("nightly", send.options(queue="night"), Cron("0 3 * * *"))
    app.queue("limited", concurrency=2)
    app.queue("closed", window=Window("01:00", "02:00"))
    return app


def about(**what):
    """Return a rule about this."""
    [kind] = what
    check = "schedule_late" if kind == "schedule" else "dead_letters"
    return AlertRule(name="mine", check=check, above=9, **what)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ({"task": "sned"}, "task 'sned', which the app does not have; did you mean send?"),
        ({"task": "xyz"}, "task 'xyz', which the app does not have"),
        ({"queue": "mial"}, "queue 'mial', which no task of the app uses; did you mean mail?"),
        ({"schedule": "nigthly"}, "schedule 'nigthly', which the app does not declare; did you mean nightly?"),
    ],
)
def test_a_rule_about_what_is_not_there_is_told(warned, shop, what, words):
    shop.alerts(rules=[about(**what)])
    warn_of_names(shop, None)
    assert warned() == [f"rule 'mine' is about {words}"]


@pytest.mark.parametrize(("what", "name"), [("task", "sned"), ("queue", "mial")])
def test_an_objective_about_what_is_not_there_is_told(warned, shop, what, name):
    """Also where alerts are switched off: it is reckoned all the same."""
    shop.alerts(enabled=False)
    shop.objective("sent", target=0.9, **{what: name})
    warn_of_names(shop, None)
    [said] = warned()
    assert said.startswith(f"objective 'sent' is about {what} {name!r}, which ")


@pytest.mark.parametrize(
    "what",
    [
        {"task": "send"},
        {"task": "standfast.deliver"},
        {"task": "standfast.canary"},
        {"schedule": "nightly"},
        *({"queue": name} for name in ("mail", "night", "limited", "closed", "served", "standfast.alerts")),
    ],
)
def test_what_is_there_is_not_spoken_of(warned, shop, what):
    """The app has it, or it is built in, or this worker serves it."""
    shop.alerts(rules=[about(**what)])
    warn_of_names(shop, ServedQueues(("served",)))
    assert warned() == []


def test_rules_that_are_switched_off_are_not_spoken_of(warned, shop):
    shop.alerts(rules=[replace(about(task="sned"), enabled=False)])
    warn_of_names(shop, None)
    assert warned() == []


def test_without_alerts_rules_are_not_spoken_of(warned, shop):
    shop.alerts(rules=[about(task="sned")], enabled=False)
    warn_of_names(shop, None)
    assert warned() == []
