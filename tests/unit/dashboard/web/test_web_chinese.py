"""On Chinese pages nothing is English but names, commands and what others wrote: a sentence of ours is caught."""

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from urllib.parse import quote

import httpx
import pytest
from starlette.applications import Starlette

from alert_notices import notice
from dashboard_alerts import alert, put, put_board, tell
from dashboard_stage import ARGS, WORKER, Stage, open_stage
from standfast.admin.operation import Role, User
from standfast.admin.registry import BY_NAME
from standfast.dashboard.texts import texts_in
from standfast.dashboard.web.formatting import with_commands
from standfast.dashboard.web.routes import routes
from standfast.dashboard.web.site import Site
from standfast.durable.lockstate import LockRequest, take
from standfast.errors import StandfastError
from standfast.model.alerts import AlertState, Check, Objective, Severity
from standfast.model.incidents import Evidence, Incident, InvolvedJob, Trouble
from standfast.model.job import Failure, OnLate
from standfast.model.memos import signal_reason
from standfast.model.records import Change, Kind
from standfast.model.states import Move, Reason
from standfast.observe.alerts.alert_rules import DEFAULT_RULES
from standfast.observe.alerts.board import Published
from standfast.observe.alerts.delivery import DELIVER, QUEUE, order_delivery
from standfast.observe.catalogue import Bound, Catalogue, Parameter, QueueEntry, TaskEntry, publish
from standfast.observe.incidents import write_incident
from standfast.schedules.closed_hours import About, ClosedHours, window_changes
from standfast.schedules.fires import create, fire_due
from standfast.schedules.rules import Cron, Every
from standfast.schedules.schedule import Template
from standfast.schedules.windows import Window

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
LONG_AGO = "0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f"
NIGHT = Window("00:00", "23:59", tz="Asia/Taipei", reason="盤點")
NOON = Window("12:00", "13:00", tz="Asia/Taipei", days="mon", months=3)
FULL_MAIL = Failure("SMTPError", "信箱已滿", "")

NAMES = {
    *("send_email", "mail", "web", "web-01", "shop", "nightly", "hourly", "broken", "paid", "stock", "order-42"),
    *("ada", "vic", "nix", "SMTPError", "str", "pid", "mails", "ops", "test", "n29", "n29:ops"),
    *(rule.name for rule in DEFAULT_RULES),
    *(check.value for check in Check),
    *(DELIVER, QUEUE),
}
"""What the users of this store called things."""

ALLOWED = NAMES | {
    *("Standfast", "UTC", "Asia/Taipei", "CSV", "JSON", "Cron", "kB", "MB", "GB", "p50", "p95", "p99"),
    *(
        "on_late",
        "expire",
        "keep_finished",
        "keep_dead_for",
        "keep_dead",
        "keep_incidents",
        "keep_incidents_for",
        "since",
        "queues.pause",
        "jobs.retry",
    ),
    *("30s", "15m", "2h", "7d"),
}
OF_OTHERS = re.compile(r"the shoes|Expected|, got")
"""What handlers and libraries said."""
FIELDS = re.compile(
    r"\b(cron|every|tz|rule|args|queue|priority|until|null|true|false|pg_terminate_backend|soon|hold|over|cool_down|above|repeat)\b"
)
"""Of forms, and what was written into one."""

UNREAD = {"code", "pre", "time", "script", "style", "kbd", "abbr", "textarea", "datalist"}
SPOKEN = {"title", "placeholder", "aria-label", "alt", "data-name", "data-copied", "data-unsent", "data-paused"}
VOID = {"meta", "link", "input", "br", "hr", "img"}
WORD = re.compile(r"[A-Za-z0-9]*[A-Za-z][A-Za-z0-9]+(?:[_./'-][A-Za-z0-9]+)*")
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{8,16}\b|\d{4}-\d\d-\d\dT[0-9:.+]+Z?")


class Read(HTMLParser):
    """What of a page is read to people in the language of the page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.said: list[str] = []
        self._unread: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag not in VOID and (self._unread or tag in UNREAD or _is_foreign(given)):
            self._unread.append(tag)
        if not self._unread:
            self.said += [given[name] or "" for name in SPOKEN & given.keys()]

    def handle_endtag(self, _tag):
        if self._unread:
            self._unread.pop()

    def handle_data(self, data):
        if not self._unread:
            self.said.append(data)


def _is_foreign(given: dict[str, str | None]) -> bool:
    """Tell whether an element is in another language by its own word, or shows an identifier."""
    other = given.get("lang") not in {None, "zh-Hant"}
    return other or bool({"mono", "tag"} & set((given.get("class") or "").split()))


def english_in(text: str) -> list[str]:
    """Return the sentences of a page in which there are words that are not allowed."""
    told = (FIELDS.sub("", OF_OTHERS.sub("", ID.sub("", each))) for each in Read(text).said)
    return [each.strip() for each in told if set(WORD.findall(each)) - ALLOWED]


@pytest.fixture(scope="module")
def stage():
    with open_stage() as made:
        fill(made)
        yield made


def fill(stage: Stage) -> None:
    """Let something of every kind be there."""
    publish_tasks(stage)
    bring_about_jobs(stage)
    bring_about_schedules(stage)
    stage.do(take(stage.verbs, Kind.LOCK, "stock", LockRequest("h1", timedelta(hours=9), 1, "web-01 pid 7")))
    incident = Incident(
        id=LONG_AGO,
        trouble=Trouble.HANG,
        summary="it hung",
        at=stage.clock.now(),
        last_at=stage.clock.now(),
        jobs=(InvolvedJob(LONG_AGO, 1, "send_email", 1, "3 of 10"),),
    )
    parts = {"stacks": "x", "kernel log": "y", "exit": "z"}
    stage.do(write_incident(stage.verbs, incident, Evidence(parts)))
    stage.register()
    bring_about_alerts(stage)


def bring_about_alerts(stage: Stage) -> None:
    """One for each check, silences, notices, rules that were changed; and what was refused."""
    more = {"severity": Severity.CRITICAL, "state": AlertState.PENDING}
    every = (alert(stage, f"{n:x}{n:x}", check=each, **(more if n % 2 else {})) for n, each in enumerate(Check))
    put(stage, *every)
    put_board(stage, apps={"shop": Published(DEFAULT_RULES, ("ops",), stage.clock.now())})
    tell(stage, 30)
    stage.do(order_delivery(stage.verbs, notice(id="n29", rule="queue_age"), ["ops"]))
    stage.act("alerts.acknowledge", id="00")
    stage.act("alerts.acknowledge", id="22")
    stage.act("alerts.unacknowledge", id="22")
    silence = stage.act("alerts.silence", rule="queue_age", until="2h", why="盤點").id
    stage.act("alerts.silence", subject="mail", until="2h")
    stage.act("alerts.unsilence", id=silence)
    stage.act("rules.change", name="queue_age", above=20.0, severity=Severity.CRITICAL)
    stage.act("rules.off", name="incident")
    stage.act("channels.test", name="ops")
    with pytest.raises(StandfastError):
        stage.act("rules.reset", name="nix")


def publish_tasks(stage: Stage) -> None:
    task = TaskEntry(
        "send_email",
        queue="mail",
        doc="寄信。",
        parameters=(Parameter("to", "str"),),
        backoff="2 s, 4 s … up to 1 h",
        limit=Bound(3, ("1 at 09:00–17:00 Asia/Taipei on Mondays and Fridays in March",)),
        windows=("03:00–03:15 UTC",),
    )
    queues = (QueueEntry("mail", Bound(3)), QueueEntry("web"))
    told = Catalogue(
        *("shop", "1", stage.clock.now(), "web-01", "0", (task,), queues),
        objectives=(
            Objective(name="mails", task="send_email", target=0.99, start_within=60.0),
            Objective(name="web", queue="web", target=0.5, over=1),
        ),
    )
    stage.do(publish(stage.verbs, told))


def bring_about_jobs(stage: Stage) -> None:
    """A job in every state, and for every reason that there is without a fleet."""
    now = stage.clock.now()
    stage.completed()
    stage.end(stage.enqueue(max_attempts=1), Move.DIE, failure=FULL_MAIL)
    stage.end(stage.enqueue(max_attempts=5), Move.DIE, failure=FULL_MAIL)
    stage.end(stage.enqueue(), Move.RETRY, failure=FULL_MAIL, delay=HOUR)
    stage.end(stage.enqueue(), Move.SNOOZE, delay=HOUR)
    stage.end(stage.enqueue(), Move.SNOOZE, delay=HOUR, reason=signal_reason("paid"))
    stage.end(stage.enqueue(), Move.SNOOZE, delay=HOUR, reason="sleep")
    stage.end(stage.enqueue(), Move.BLOCK, reason=Reason.NO_WORKER)
    stage.end(stage.enqueue(), Move.CANCEL, reason=Reason.REQUESTED)
    stage.act("jobs.discard", id=stage.end(stage.enqueue(max_attempts=1), Move.DIE, failure=FULL_MAIL))
    stage.act("jobs.cancel", id=stage.running())
    stage.enqueue(run_at=now + HOUR, key="order-42")
    stage.enqueue(start_within=SECOND, on_late=OnLate.EXPIRE)
    stage.enqueue(queue="web", run_at=now)
    stage.act("queues.pause", name="web")
    with pytest.raises(StandfastError):
        stage.act("jobs.retry", id=LONG_AGO)
    with pytest.raises(StandfastError):
        stage.act("queues.pause", Role.VIEWER, name="mail")


def bring_about_schedules(stage: Stage) -> None:
    """Those that fire, are excluded, missed, overlap, are paused, fail, and cannot be read."""
    template = Template("send_email", ARGS, queue="mail")
    nightly = Cron("0 2 * * 1-5", tz="Asia/Taipei", exclude=("fri", "12-25", NOON), jitter=90)
    stage.do(create(stage.verbs, "nightly", nightly, template, timedelta()))
    stage.do(create(stage.verbs, "hourly", Every(5400, misfire="skip"), template, timedelta()))
    for _ in range(3):
        stage.clock.advance(5400)
        stage.do(fire_due(stage.verbs, timedelta()))
    stage.clock.advance(5 * 86400)
    stage.do(fire_due(stage.verbs, timedelta()))
    stage.act("schedules.trigger", name="nightly")
    stage.act("schedules.pause", name="hourly", why="盤點")
    stage.act("schedules.backfill", name="nightly", since="6h", dry=True)
    stage.do(stage.verbs.change_records([Change(Kind.SCHEDULE, "broken", 0, "t", b"[")]))
    hours = ClosedHours(About.QUEUE, "mail", (NIGHT,))
    stage.do(stage.verbs.change_records([each.change for each in window_changes("shop", [hours], [])]))


PATHS = (
    "/",
    "/jobs",
    "/jobs?state=dead&text=x",
    "/jobs/bulk?action=retry&state=dead",
    "/jobs/bulk?action=reschedule",
    "/jobs/bulk?action=cancel",
    "/jobs/bulk?action=discard&state=dead",
    "/dead",
    "/queues",
    "/queues/mail",
    "/queues/web",
    "/schedules",
    "/schedules/nightly",
    "/schedules/hourly",
    "/workers",
    f"/workers/{WORKER}",
    "/tasks",
    "/tasks/send_email",
    "/locks",
    "/alerts",
    "/alerts/rules",
    "/objectives",
    "/incidents",
    f"/incidents/{LONG_AGO}",
    "/audit",
    "/settings",
    "/jobs/nix",
    "/queues/nix",
    "/workers/nix",
    "/tasks/nix",
    "/incidents/nix",
    "/schedules/nix",
    "/jobs?since=nix",
)


def site_of(stage: Stage) -> Starlette:
    return Starlette(routes=routes(Site(BY_NAME, lambda _: stage.office.desk(User("ada", Role.ADMIN)))))


async def walk(stage: Stage) -> dict[str, list[str]]:
    """Return what is English on each page, if anything is."""
    found = {}
    transport = httpx.ASGITransport(site_of(stage))
    headers = {"accept-language": "zh-TW"}
    async with httpx.AsyncClient(transport=transport, base_url="http://desk", headers=headers) as browser:
        listed = (await browser.get("/jobs")).text
        jobs = dict.fromkeys(re.findall(r'href="(/jobs/[0-9a-f-]{36})"', listed))
        assert len(jobs) > 12
        for path in (*PATHS, *jobs):
            page = (await browser.get(path)).text
            assert '<html lang="zh-Hant">' in page, path
            if english := english_in(page):
                found[path] = english
    return found


def test_no_page_speaks_english(stage):
    assert stage.wait(walk(stage)) == {}


def test_what_is_refused_is_said_in_chinese(stage):
    async def refused() -> list[str]:
        transport = httpx.ASGITransport(site_of(stage))
        headers = {"accept-language": "zh-TW", "accept": "application/json"}
        async with httpx.AsyncClient(transport=transport, base_url="http://desk", headers=headers) as browser:
            forms = [
                ("jobs.retry", {"id": LONG_AGO}),
                ("jobs.reschedule", {"id": LONG_AGO, "at": "soon"}),
                ("workers.dump", {"id": "nix"}),
                ("locks.release", {"name": "nix"}),
                ("schedules.trigger", {"name": "nix"}),
                ("schedules.edit", {"name": "nightly"}),
                ("schedules.backfill", {"name": "nightly", "since": "nix"}),
                ("incidents.forget", {"id": "nix"}),
                ("alerts.acknowledge", {"id": "nix"}),
                ("alerts.unacknowledge", {"id": "nix"}),
                ("alerts.silence", {"rule": "web"}),
                ("alerts.silence", {"rule": "web", "until": "now"}),
                ("alerts.silence", {"rule": "web", "until": "2"}),
                ("alerts.silence", {"rule": "web", "until": "90d"}),
                ("alerts.silence", {"until": "2h"}),
                ("alerts.unsilence", {"id": "nix"}),
                ("rules.change", {"name": "nix"}),
                ("rules.change", {"name": "incident"}),
                ("rules.change", {"name": "incident", "over": "59"}),
                ("rules.change", {"name": "incident", "hold": "-1"}),
                ("rules.change", {"name": "incident", "hold": "9999999999999"}),
                ("rules.change", {"name": "incident", "cool_down": "1000000000"}),
                ("rules.change", {"name": "queue_age", "above": "0"}),
                ("rules.change", {"name": "failure_rate", "above": "1"}),
                ("rules.change", {"name": "budget_burn_fast", "above": "0"}),
                ("rules.change", {"name": "not_durable", "above": "1"}),
                ("rules.change", {"name": "not_durable", "above": "soon"}),
                ("rules.change", {"name": "failure_rate", "above": "soon"}),
                ("rules.change", {"name": "queue_age", "above": "soon"}),
                ("rules.change", {"name": "incident", "repeat": "soon"}),
                ("rules.add", {"name": "incident", "check": "incident", "above": "1"}),
                ("rules.add", {"name": "web", "check": "incident"}),
                ("rules.add", {"name": "web", "check": "queue_age", "above": "soon"}),
                ("rules.remove", {"name": "incident"}),
                ("rules.remove", {"name": "nix"}),
                ("channels.test", {"name": "nix"}),
                ("jobs.explode", {}),
                ("queues.resume", {"name": "web"}),
            ]
            said = [await browser.post(f"/do/{quote(name)}", data=form) for name, form in forms]
        return [each.json()["text"] for each in said]

    said = [re.sub(FIELDS, "", str(with_commands(each))) for each in stage.wait(refused())]
    assert [each for each in said if english_in(f"<p>{each}</p>")] == []


def test_a_sentence_in_english_is_caught():
    """Wherever it is: in the text of a page, in a hint, in the name of a button; not in what says that it is."""
    for page in (
        "<p>它 is not 完成</p>",
        '<input placeholder="Find a job">',
        '<button aria-label="Copy"></button>',
    ):
        assert english_in(page), page
    for page in ('<p lang="en">it hung</p>', "<code>standfast why</code>", "<p>佇列「mail」</p>", "<p>12 kB</p>"):
        assert not english_in(page), page


def test_times_are_told_in_the_zone_and_language_of_the_reader(stage):
    async def job() -> str:
        transport = httpx.ASGITransport(site_of(stage))
        async with httpx.AsyncClient(transport=transport, base_url="http://desk") as browser:
            [path] = re.findall(r'href="(/jobs/[0-9a-f-]{36})"', (await browser.get("/jobs?key=order-42")).text)
            return (await browser.get(path, headers={"accept-language": "zh-TW"})).text

    told = re.search(r'<p>(等待至|已於) <time datetime="([^"]+)" data-form="both">', stage.wait(job()))
    assert told
    assert datetime.fromisoformat(told[2]).tzinfo == UTC


def test_no_text_is_left_in_english():
    """Also of what no page of this store shows."""
    options = re.compile(r"`[^`]*`|\{[^}]*\}|--\w+|\w+=\\?\"?\w+\"?|" + FIELDS.pattern)
    bare = {key: options.sub("", text) for key, text in texts_in("zh-Hant")}
    assert {key: text for key, text in bare.items() if english_in(f"<p>{text}</p>")} == {}
