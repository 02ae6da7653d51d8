"""What people read: what it is, since when, how many and which, what to do; or what a template makes of it."""

import json

import pytest

from alert_notices import AT, JOB, alert, notice
from standfast.model.alerts import Example, NoticeKind, Severity
from standfast.observe.alerts.channel import NAMES, fill, template_problems
from standfast.observe.alerts.message import message_of


def test_a_text_says_all_that_is_needed_to_begin():
    said = message_of(notice(more=2), dashboard_url="https://shop.example/jobs/")
    assert said.title == "CRITICAL in shop: jobs of 1 queue wait too long"
    assert said.text == (
        "the oldest job of queue mail waits for 6 min (noticed 2026-11-16 11:54:00 UTC)\n"
        f"  - job {JOB}: send_mail\n"
        "  - and 6 more\n"
        "And 2 others like this.\n"
        "\n"
        "What tells more:\n"
        f"  standfast why {JOB}\n"
        "\n"
        "Dashboard: https://shop.example/jobs/alerts\n"
        "\n"
        "2026-11-16 12:00:00 UTC, rule queue-age, notice n1, app shop"
    )
    assert said.link == "https://shop.example/jobs/alerts"


@pytest.mark.parametrize(
    ("kind", "severity", "title"),
    [
        (NoticeKind.FIRING, Severity.WARNING, "WARNING in shop: jobs"),
        (NoticeKind.REPEATED, Severity.CRITICAL, "still CRITICAL in shop: jobs"),
        (NoticeKind.RESOLVED, Severity.CRITICAL, "resolved in shop: jobs"),
        (NoticeKind.TEST, Severity.WARNING, "test in shop: jobs"),
        (NoticeKind.REPORT, Severity.WARNING, "report in shop: jobs"),
    ],
)
def test_a_title_tells_the_kinds_apart(kind, severity, title):
    assert message_of(notice(kind=kind, severity=severity, title="jobs")).title == title


def test_a_notice_that_names_no_app_is_of_the_one_that_sends_it():
    """As a test is; one that names its app keeps it."""
    bare = notice(kind=NoticeKind.TEST, title="jobs", labels={})
    assert message_of(bare, sender="bakery").title == "test in bakery: jobs"
    assert message_of(bare, title="{app}", sender="bakery").title == "bakery"
    assert message_of(notice(kind=NoticeKind.TEST, title="jobs"), sender="bakery").title == "test in shop: jobs"


def test_what_is_over_says_how_long_it_took():
    said = message_of(notice(kind=NoticeKind.RESOLVED, alerts=(alert(resolved_at=AT, examples=()),)))
    assert "(over since 2026-11-16 12:00:00 UTC, having fired for 6 min)" in said.text
    assert "What tells more" not in said.text
    assert "Dashboard" not in said.text
    assert said.link is None


def test_each_kind_of_example_comes_with_the_command_that_tells_more():
    examples = (
        Example("incident", "i1"),
        Example("worker", "w1"),
        Example("schedule", "nightly"),
        Example("queue", "mail"),
        Example("objective", "mail-is-sent"),
        Example("x", "y"),
    )
    text = message_of(notice(alerts=(alert(examples=examples),))).text
    assert "  standfast incidents show i1\n  standfast workers; standfast incidents list\n" in text
    assert "  standfast schedules show nightly\n  standfast queues show mail\n  standfast objectives\n\n" in text


def test_foreign_text_stays_on_its_line():
    """What a task is named or says cannot make lines of its own, nor headers of a mail."""
    said = message_of(notice(title="a\r\nBcc: all@x", alerts=(alert(says="b\n\nc\x1b[2J"),)))
    assert said.title == "CRITICAL in shop: a Bcc: all@x"
    assert said.text.startswith("b c\N{REPLACEMENT CHARACTER}[2J (noticed")


def test_programs_get_the_notice_and_the_words():
    said = json.loads(message_of(notice(), title="{severity} in {app}").as_json())
    assert (said["id"], said["kind"], said["at"], said["title"]) == (
        "n1",
        "firing",
        "2026-11-16T12:00:00Z",
        "critical in shop",
    )
    assert said["alerts"][0]["examples"] == [{"kind": "job", "id": JOB, "says": "send_mail"}]
    assert "notice n1" in said["text"]


def test_a_template_takes_every_name_and_plain_braces():
    template = " ".join(f"{{{name}}}" for name in NAMES)
    assert list(template_problems("body", template)) == []
    said = message_of(notice(), body=f"{template} {{{{x}}}}").text
    assert "{" not in said.removesuffix("{x}")
    assert "7" in message_of(notice(), body="{count}").text


@pytest.mark.parametrize(
    "template",
    ["{title.__class__}", "{title[0]}", "{0}", "{}", "{title!r}", "{title:>10}", "{title:{says}}", "{tit", "}", 5],
)
def test_a_template_has_no_power(template):
    """No attributes, no indexes, no formats: names alone."""
    assert list(template_problems("title", template))


def test_what_is_filled_in_is_not_a_template():
    assert fill("{says}", {"says": "{title} {0.x}"}) == "{title} {0.x}"


def test_foreign_text_calls_nobody_in_a_chat_and_a_template_may():
    """What an exception says is told all the same; mail addresses stay as they are."""
    examples = (Example("job", "1", "ValueError: @everyone <@U123> <!here> of ada@example.com"),)
    told = notice(title="@here is a task", alerts=(alert(says="@channel waits", examples=examples),))
    message = message_of(told, body="@here {says}")
    assert "@here" not in message.title
    assert message.text.startswith("@here @\u200bchannel waits")
    assert "@\u200beveryone <\u200b@U123> <\u200b!here> of ada@example.com" in message.text
