"""Channels are checked where they are declared, and show nothing but their names."""

from traceback import format_exception

import pytest
from rich.pretty import pretty_repr

from standfast import (
    AlertRule,
    AppriseChannel,
    CommandChannel,
    ConfigurationError,
    DeadMan,
    Standfast,
    WebhookChannel,
    Window,
)

SECRET = "hush-hush-hush-hush"
WEBHOOK = {"name": "ops", "url": "https://ops.example/x", "secret": SECRET}


@pytest.mark.parametrize(
    ("kind", "wrong", "told"),
    [
        (WebhookChannel, {"name": "o ps"}, "a channel's name must be"),
        (WebhookChannel, {"url": "ftp://hush"}, "of channel .* must look like https://"),
        (WebhookChannel, {"url": "https://me:hush@ops.example"}, "give headers"),
        (WebhookChannel, {"url": "https://me:hush/hush@ops.example"}, "its host or its port is none"),
        (WebhookChannel, {"url": "https://hush℀:x@ops.example"}, "its host or its port is none"),
        (WebhookChannel, {"secret": "short"}, "at least 16 characters"),
        (WebhookChannel, {"headers": {"X-A": "hush\n"}}, "headers must map"),
        (WebhookChannel, {"headers": {"X A": "hush"}}, "headers must map"),
        (WebhookChannel, {"timeout": 0}, "timeout must be"),
        (WebhookChannel, {"timeout": 121}, "at most 120"),
        (WebhookChannel, {"title": "{titel}"}, "did you mean title?"),
        (AppriseChannel, {"url": "hush"}, "one of apprise"),
        (AppriseChannel, {"url": "mailto://x", "body": "{"}, "brace"),
        (CommandChannel, {"command": "mail ops"}, "a list of a program and its arguments"),
        (CommandChannel, {"command": ()}, "a list of a program and its arguments"),
        (CommandChannel, {"command": ("", "a")}, "a list of a program and its arguments"),
        (DeadMan, {"url": "https://ping.example", "every": 0}, "1 or more"),
        (DeadMan, {"url": "hush"}, "the dead man's switch must look like https://host.example/path,"),
    ],
)
def test_what_is_wrong_is_told_at_once_and_without_secrets(kind, wrong, told):
    """One error names the channel and the field."""
    given = WEBHOOK if kind is WebhookChannel else {} if kind is DeadMan else {"name": "ops"}
    with pytest.raises(ConfigurationError, match=told.replace("?", r"\?").replace("(", r"\(")) as refused:
        kind(**given | wrong)
    assert "hush" not in str(refused.value)
    assert "hush" not in "".join(format_exception(refused.value))


@pytest.mark.parametrize(
    ("kind", "options", "told"),
    [
        (WebhookChannel, {"name": "ops", "url": "https://hush.example"}, "^channel 'ops': secret is missing$"),
        (WebhookChannel, {"name": "ops"}, "^channel 'ops': url is missing; channel 'ops': secret is missing$"),
        (WebhookChannel, {**WEBHOOK, "titel": "hush"}, r"^Web.* has no option 'titel'; did you mean title\?"),
        (DeadMan, {"every": 5}, "^DeadMan: url is missing$"),
    ],
)
def test_what_is_missing_or_unknown_is_told_by_name(kind, options, told):
    with pytest.raises(ConfigurationError, match=told):
        kind(**options)


def test_options_have_names():
    with pytest.raises(ConfigurationError, match="CommandChannel takes its options by name"):
        CommandChannel("ops", ("tell", "hush"))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"rules": AlertRule(name="x", check="queue_age", above=5)}, r"rules .* must be a list, rules=\[AlertR"),
        ({"rules": [Window("22:00", "07:00")]}, "rules of app.alerts must hold such as .*, not .* Window$"),
        ({"channels": ["mailto://hush"]}, "channels .* must hold such as CommandChannel.*of kind str$"),
        ({"channels": "mailto://hush"}, r"channels of app.alerts must be a list.*of kind str$"),
        ({"channels": WebhookChannel(**WEBHOOK)}, "channels of app.alerts must be a list"),
        ({"quiet_hours": ["22:00-07:00"]}, r"quiet_hours of app.alerts must hold such as Window\("),
        ({"quiet_hours": Window("22:00", "07:00")}, "quiet_hours of app.alerts must be a list"),
        ({"dead_man": "https://hush"}, r"dead_man of app.alerts must be a DeadMan\(url="),
        ({"dashboard_url": 5}, "dashboard_url of app.alerts must be a text"),
        ({"enabled": "no"}, "enabled of app.alerts must be True or False"),
    ],
)
def test_what_is_of_another_kind_is_refused_where_it_is_declared(said, told):
    """Not by the workers, five starts later."""
    with pytest.raises(ConfigurationError, match=told) as refused:
        Standfast().alerts(**said)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (WebhookChannel(**WEBHOOK, headers={"A": SECRET}), "WebhookChannel(name='ops')"),
        (AppriseChannel(name="mail", url=f"mailto://me:{SECRET}@x"), "AppriseChannel(name='mail')"),
        (CommandChannel(name="tell", command=["tell", SECRET]), "CommandChannel(name='tell')"),
        (DeadMan(url=f"https://ping.example/{SECRET}"), "DeadMan(every=60.0)"),
    ],
)
def test_they_show_their_names_alone(made, shown):
    """Whoever prints them: Python, rich, or what holds them."""
    app = Standfast()
    app.alerts(**{"dead_man": made} if isinstance(made, DeadMan) else {"channels": [made]})
    assert repr(made) == str(made) == shown
    assert SECRET not in pretty_repr(made) + repr(app.watching) + pretty_repr(app.watching)


def test_two_of_one_name_are_refused():
    app = Standfast()
    with pytest.raises(ConfigurationError, match="two channels are named 'ops'"):
        app.alerts(channels=[WebhookChannel(**WEBHOOK), WebhookChannel(**WEBHOOK)])
