"""Sends reports through the channels of an app: one now, or one each morning as a schedule of its own.

schedule ─► job `standfast.report` ─► gathered, one delivery ordered ─► sent, tried again
once for the fleet                   known by the job's id: once, however often that runs
"""

from datetime import timedelta, tzinfo

from msgspec.structs import replace

from standfast.alerts.delivery import order_delivery, takes_html
from standfast.app import Standfast
from standfast.context import Context
from standfast.core.alert import Notice, NoticeKind, Severity
from standfast.errors import ConfigurationError
from standfast.policy import Seconds
from standfast.policy.reading import as_seconds
from standfast.report.brief import brief_of
from standfast.report.gathering import DAY, check_span, gather_report
from standfast.report.model import Report
from standfast.report.own import REPORT
from standfast.report.tables import headline
from standfast.schedule.cron import Cron
from standfast.schedule.zones import find_zone
from standfast.task import Task
from standfast.words import one_line

_LONGEST_LABEL = 200


def schedule_report(
    app: Standfast,
    expression: str,
    *,
    channel: str,
    tz: str = "UTC",
    since: Seconds = DAY,
    name: str = REPORT,
    queue: str = "default",
) -> None:
    """Declare that a report of the last so long goes through a channel whenever a cron expression says so.

    It is a schedule as any other, and fires once for the whole fleet; `tz` is also the zone of the times in it. One
    more of them needs a `name` of its own.
    """
    if not isinstance(channel, str) or not channel:
        raise ConfigurationError(f"a report needs the name of a channel that app.alerts declares, not {channel!r}")
    seconds = as_seconds(check_span(since))
    rule = Cron(expression, tz=tz)
    app.need_channel(channel, f"the report {name!r}")
    app.schedule(name, _task_of(app).options(queue=queue), rule, channel=channel, since=seconds, tz=tz)


def _task_of(app: Standfast) -> Task[..., str]:
    known = app.tasks.get(REPORT)
    if known is not None:
        return known

    @app.task(name=REPORT)
    def send_report(ctx: Context, channel: str, since: float, tz: str) -> str:
        """Gather a report and have it sent: in a thread, as figures of many days take a while to add up."""
        report = app.call(gather_report(app.verbs, timedelta(seconds=since)))
        notice = notice_of(report, find_zone(tz), ctx.job_id, app.settings.namespace)
        if not any(each.name == channel and takes_html(each) for each in app.watching.channels):
            notice = replace(notice, html="")  # nobody would show it, and a job need not carry it
        app.call(order_delivery(app.verbs, notice, (channel,), app.known_as))
        ctx.fault_point("ordered")
        return notice.title

    return send_report


def notice_of(report: Report, zone: tzinfo | None, notice_id: str, namespace: str | None = None) -> Notice:
    """Return what is sent of a report: its headline, and what fits of it as text and for mails."""
    brief = brief_of(report, zone)
    labels = {"app": one_line(", ".join(report.apps), _LONGEST_LABEL), "namespace": namespace or ""}
    return Notice(
        id=notice_id,
        kind=NoticeKind.REPORT,
        at=report.until,
        rule="report",
        severity=Severity.WARNING,
        title=headline(report),
        labels={name: value for name, value in labels.items() if value},
        text=brief.text,
        html=brief.html,
    )
