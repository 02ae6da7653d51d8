"""A report is sent as a schedule of its own: once for each time, whatever happens on the way."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from standfast import CommandChannel, Standfast, State
from standfast.admin.reports import REPORT, schedule_report
from standfast.errors import ConfigurationError
from standfast.model.alerts import NoticeKind
from standfast.observe.alerts.delivery import ARGUMENTS, DELIVER
from standfast.stores.values import JobFilter
from standfast.testing import StandfastKit

EVENING = datetime(2026, 3, 4, 22, 30, tzinfo=UTC)
"""In Taipei it is 06:30."""

WELL = "2026-03-05 07:00 (Asia/Taipei)\nNothing is wrong now. 0 jobs completed, nothing went wrong\n"


@pytest.fixture
def app(tmp_path):
    """Give an app whose channel is a program that writes down what it is told."""
    app = Standfast("memory://", name="shop")
    write = f"cat >> {tmp_path}/sent"
    app.alerts(channels=[CommandChannel(name="ops", command=("/bin/sh", "-c", write))])

    @app.task
    def pack() -> None: ...

    schedule_report(app, "0 7 * * *", tz="Asia/Taipei", channel="ops")
    return app


def deliveries(app):
    return app.call(app.verbs.list_jobs(JobFilter(task=DELIVER))).jobs


def test_each_morning_one_is_sent(app, tmp_path):
    """As a delivery, which is a durable job, with the text of the report and the times of the zone."""
    with StandfastKit(app, start=EVENING) as kit:
        kit.live(timedelta(minutes=29))
        assert deliveries(app) == ()
        kit.live(timedelta(minutes=2))
        [job] = deliveries(app)
        told = ARGUMENTS.decode(job.payload)
        assert (told["channel"], told["app"], told["notice"].kind) == ("ops", "shop", NoticeKind.REPORT)
        assert told["notice"].text.split(" to ", 1)[1].startswith(WELL)
        kit.live(timedelta(days=1))
        assert len(deliveries(app)) == 2
    sent = [json.loads(line) for line in (tmp_path / "sent").read_text().splitlines()]
    assert [each["title"] for each in sent] == [
        "report in shop: Nothing is wrong now. 0 jobs completed, nothing went wrong",
        "report in shop: Nothing is wrong now. 0 jobs completed, nothing went wrong",
    ]
    assert sent[0]["id"] == told["notice"].id
    assert told["notice"].text.rstrip() in sent[0]["text"]


def test_it_is_gathered_in_a_thread(app):
    """To add up figures of many days takes seconds, in which no worker may lose its event loop."""
    assert not app.tasks[REPORT].is_async


def test_a_report_that_runs_twice_is_sent_once(app, tmp_path):
    """A worker that dies after it had ordered the delivery does no harm."""
    with StandfastKit(app, start=EVENING) as kit:
        with kit.crash_after("ordered"):
            kit.live(timedelta(minutes=31))
        kit.live(timedelta(hours=1))
        [report] = app.call(app.verbs.list_jobs(JobFilter(task=REPORT))).jobs
        assert (report.state, report.crashes) == (State.COMPLETED, 1)
        [job] = deliveries(app)
        assert job.metadata["notice"] == report.id
    assert len((tmp_path / "sent").read_text().splitlines()) == 1


def test_two_reports_need_two_names(app):
    """One task serves both."""
    with pytest.raises(ConfigurationError, match=r"standfast\.report"):
        schedule_report(app, "0 8 * * 1", channel="ops", since=timedelta(days=7))
    schedule_report(app, "0 8 * * 1", channel="ops", since=timedelta(days=7), name="weekly-report")
    assert {each.name for each in app.declarations} == {REPORT, "weekly-report"}
    assert {each.job.task for each in app.declarations} == {REPORT}


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"expression": "whenever"}, "whenever"),
        ({"tz": "Mars"}, "there is no time zone 'Mars'"),
        ({"channel": ""}, "needs the name of a channel"),
        ({"channel": None}, "needs the name of a channel"),
        ({"since": timedelta(days=40)}, "since must be"),
        ({"queue": "no queue"}, "queue must be"),
    ],
)
def test_what_makes_no_sense_is_refused(how, words):
    """At once, where it is declared."""
    said = {"expression": "0 7 * * *", "channel": "ops", **how}
    with pytest.raises(ConfigurationError) as refused:
        schedule_report(Standfast("memory://"), said.pop("expression"), **said)
    assert words in str(refused.value)


def test_a_channel_that_does_not_exist_is_refused_as_soon_as_that_is_known(app):
    """Code says once which channels there are: before the report, after it, or never, and then workers ask."""
    with pytest.raises(ConfigurationError, match=r"report 'weekly' tells channel 'opps', .*did you mean ops\?"):
        schedule_report(app, "0 8 * * 1", channel="opps", name="weekly")
    other = Standfast("memory://")
    schedule_report(other, "0 8 * * 1", channel="ops")
    with pytest.raises(ConfigurationError, match="'ops', which does not exist; no channel is declared"):
        _ = other.watching
    with pytest.raises(ConfigurationError, match=r"did you mean op\?"):
        other.alerts(channels=[CommandChannel(name="op", command=("true",))])


def test_the_channel_may_be_one_of_the_settings_file(tmp_path, monkeypatch):
    (tmp_path / "standfast.toml").write_text("[alerts.channels.desk]\nkind = 'command'\ncommand = ['true']\n")
    monkeypatch.chdir(tmp_path)
    app = Standfast("memory://")
    app.alerts()
    schedule_report(app, "0 8 * * 1", channel="desk")
    assert [channel.name for channel in app.watching.channels] == ["desk"]
