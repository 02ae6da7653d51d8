"""What a notice says to people: a title and a text, plain, with all that is needed to begin to act. Pure."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from html import escape
from shlex import quote

import msgspec

from standfast.model.alerts import Alert, Example, Notice, NoticeKind
from standfast.model.display import counted, one_line, span
from standfast.observe.alerts.channel import fill

MOST_EXAMPLES = 5  # of each alert so many are named
_CALLS = re.compile(r"@(?=(everyone|here|channel|all)\b)|<(?=[@!#])", re.IGNORECASE)
_LONGEST_TITLE = 200
_LONGEST_LINE = 300
_ADVICE = {
    "job": "standfast why {id}",
    "worker": "standfast workers; standfast incidents list",
    "incident": "standfast incidents show {id}",
    "schedule": "standfast schedules show {id}",
    "queue": "standfast queues show {id}",
    "objective": "standfast objectives",
}
"""What tells more of an example."""


class Message(msgspec.Struct, frozen=True):
    """A notice in words. `link` leads to it in the dashboard; `html` is its text for mails, if there is such."""

    notice: Notice
    title: str
    text: str
    link: str | None = None
    html: str = ""

    def as_json(self) -> bytes:
        """Return it for programs: the notice with the words about it. What is not there is left out."""
        notice = msgspec.structs.replace(self.notice, html="")
        said = {"title": self.title, "text": self.text} | ({} if self.link is None else {"link": self.link})
        return msgspec.json.encode(msgspec.to_builtins(notice, builtin_types=(datetime,)) | said)


def message_of(
    notice: Notice,
    *,
    title: str | None = None,
    body: str | None = None,
    dashboard_url: str | None = None,
    sender: str = "",
) -> Message:
    """Put a notice into words, by templates where there are any; one that names no app is of the `sender`'s."""
    values = _values(notice, dashboard_url, sender)
    said = fill(title, values) if title is not None else values["title"]
    text = fill(body, values) if body is not None else _text(values)
    shown = one_line(said, _LONGEST_TITLE)
    html = _page(shown, notice.html, values) if notice.html and body is None else ""
    return Message(notice, shown, text, values["link"] or None, html)


def _values(notice: Notice, dashboard_url: str | None, sender: str) -> Mapping[str, str]:
    app = notice.labels.get("app", sender)
    where = f" in {one_line(app)}" if app else ""
    since = min((alert.since for alert in notice.alerts), default=notice.at)
    return {
        "title": _calling_nobody(f"{_word(notice)}{where}: {one_line(notice.title, _LONGEST_TITLE)}"),
        "says": _calling_nobody("\n".join(_says(notice))),
        "count": str(sum(alert.count for alert in notice.alerts) + notice.more),
        "examples": _calling_nobody("\n".join(_line(each) for alert in notice.alerts for each in _named(alert))),
        "advice": "\n".join(_advice(notice)),
        "since": _at(since),
        "kind": notice.kind.value,
        "severity": notice.severity.value,
        "rule": notice.rule,
        "at": _at(notice.at),
        "link": "" if dashboard_url is None else f"{dashboard_url.rstrip('/')}/alerts",
        "app": one_line(app),
        "namespace": one_line(notice.labels.get("namespace", "")),
        "id": notice.id,
    }


def _text(values: Mapping[str, str]) -> str:
    """Return all of it: what and since when, how many and which, what to do, where to look."""
    advice = f"What tells more:\n{values['advice']}" if values["advice"] else ""
    link = f"Dashboard: {values['link']}" if values["link"] else ""
    return "\n\n".join(part for part in (values["says"], advice, link, _foot(values)) if part)


def _page(title: str, part: str, values: Mapping[str, str]) -> str:
    """Return a part of a page as all of it, with where to look; its looks are those that mail programs keep."""
    link = f'<p><a href="{escape(values["link"])}">Dashboard</a></p>\n' if values["link"] else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title></head>\n"
        '<body style="margin:0;padding:16px;background:#ffffff;color:#171b22;font:14px/1.5 sans-serif">\n'
        f"{part}{link}"
        f'<p style="color:#545e6d">{escape(_foot(values))}</p>\n</body></html>\n'
    )


def _foot(values: Mapping[str, str]) -> str:
    place = ", ".join(f"{name} {values[name]}" for name in ("app", "namespace") if values[name])
    return f"{values['at']}, rule {values['rule']}, notice {values['id']}{f', {place}' if place else ''}"


def _says(notice: Notice) -> Iterator[str]:
    if notice.kind is NoticeKind.TEST:
        yield "This is a test: nothing is wrong. Whoever reads it is told when something is."
    if notice.text:
        yield notice.text.rstrip()
    for alert in notice.alerts:
        yield f"{one_line(alert.says, _LONGEST_LINE)} ({_when(alert)})"
        yield from (f"  - {_line(each)}" for each in _named(alert))
        left = alert.count - min(len(alert.examples), MOST_EXAMPLES)
        if alert.examples and left > 0:
            yield f"  - and {left:,} more"
    if notice.more:
        yield f"And {counted(notice.more, 'other')} like this."


def _when(alert: Alert) -> str:
    if alert.resolved_at is not None:
        lasted = span(alert.resolved_at - (alert.fired_at or alert.since))
        return f"over since {_at(alert.resolved_at)}, having fired for {lasted}"
    return f"noticed {_at(alert.since)}"


def _named(alert: Alert) -> tuple[Example, ...]:
    return alert.examples[:MOST_EXAMPLES]


def _calling_nobody(text: str) -> str:
    """Return a text without what calls everybody of a chat: it may come from an exception. Templates may call."""
    return _CALLS.sub("\\g<0>\u200b", text)


def _line(example: Example) -> str:
    says = f": {one_line(example.says, _LONGEST_LINE)}" if example.says else ""
    return f"{example.kind} {one_line(example.id)}{says}"


def _advice(notice: Notice) -> Iterator[str]:
    """Yield a command for the first example of each kind."""
    first: dict[str, str] = {}
    for alert in notice.alerts:
        for example in alert.examples:
            first.setdefault(example.kind, example.id)
    told = {kind: quote(one_line(name)) for kind, name in first.items()}  # it is there to be copied into a shell
    yield from (f"  {_ADVICE[kind].format(id=told[kind])}" for kind in told if kind in _ADVICE)


def _word(notice: Notice) -> str:
    match notice.kind:
        case NoticeKind.FIRING:
            return notice.severity.value.upper()
        case NoticeKind.REPEATED:
            return f"still {notice.severity.value.upper()}"
        case _:
            return notice.kind.value


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
