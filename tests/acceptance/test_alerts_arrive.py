"""Alerts of real fleets arrive: at a real mail server and at a webhook that checks signatures, once, and in time.

Short by default: then "in time" only means that they came. `make prove NAME=alerts_arrive` wants what is promised:
within the configured silence and five seconds more.
"""

import os
import signal
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
import watched_app
from alert_listeners import SECRET, TITLE, all_listening, mails_in
from fleet import PATIENCE, PROVE, sizes, wait_until
from watched_app import SAID, Said

from standfast import AlertRule, AppriseChannel, Check, DeadMan, JobStateError, Severity, WebhookChannel
from standfast.model.job import JobAction
from standfast.model.records import Kind
from standfast.model.states import State
from standfast.observe.alerts.alert_rules import DEFAULT_RULES
from standfast.observe.alerts.board import Board
from standfast.observe.alerts.delivery import DELIVER
from standfast.observe.alerts.evaluation import Round, evaluate
from standfast.observe.alerts.observations import Breach
from standfast.stores.contract import change_job

LONG = sizes(short=PATIENCE, full=180.0)
"""Seconds after which what should have come is missing."""

SILENCE = sizes(short=3.0, full=10.0)
IN_TIME = 5.0
"""Seconds after the configured silence within which people are told."""

PULSE = 2.0
"""Seconds before a stop to which the last sign of life may go back."""

LEASE = sizes(short=4, full=15)
LINGER = sizes(short=2.5, full=25.0)
"""Seconds in which nothing more may come: longer than it takes the next one to look."""

SHORT_LINGER = sizes(short=2.5, full=10.0)

STORES = ["sqlite", "postgres", "redis"]
ELSEWHERE = Path(__file__).parent / "deadly_moment"
SILENT_B = AlertRule(
    name="b-is-silent",
    check=Check.WORKER_SILENT,
    above=SILENCE,
    queue="b",
    severity=Severity.CRITICAL,
    cool_down=1.0,
)

pytestmark = pytest.mark.timeout(sizes(short=150, full=1500))


class Stage:
    """A fleet that is watched, and those who are told."""

    def __init__(self, fleet, folder, people):
        self.fleet = fleet
        self.mail_server, self.webhook, self.pings = people
        self._said = folder / "said.json"
        self._moments = folder / "moments"
        self._moments.mkdir()

    def declare(self, *rules, dead_man=None, every=None, mail=True):
        """Let these rules count and no other: by default, many do."""
        ours = {rule.name for rule in rules}
        off = [msgspec.structs.replace(rule, enabled=False) for rule in DEFAULT_RULES if rule.name not in ours]
        channels = [WebhookChannel(name="hook", url=self.webhook.url, secret=SECRET, timeout=5.0)]
        channels += [AppriseChannel(name="mail", url=self.mail_server.url, title=TITLE)] if mail else []
        said = Said(rules=(*rules, *off), channels=tuple(channels), dead_man=dead_man, every=every)
        self._said.write_bytes(msgspec.json.encode(said))

    def everything(self):
        """Return all that the store keeps on disk or tells of alerts, and all that workers have said."""
        app = self.fleet.app
        records = [app.call(app.verbs.records(kind)) for kind in (Kind.BOARD, Kind.NOTICE, Kind.CATALOGUE)]
        told = [tree.told for tree in self.fleet.trees]
        files = [file.read_bytes() for file in self.fleet.path.parent.glob("jobs.db*") if file.is_file()]
        return b"".join([*files, *(repr(each).encode() for each in (records, told, self.fleet.jobs()))])

    def start(self, queues, *, deadly=False, environment=None, **options):
        environment = {SAID: str(self._said), **(environment or {})}
        if deadly:
            path = os.pathsep.join([str(ELSEWHERE), *filter(None, [os.environ.get("PYTHONPATH")])])
            environment |= {
                "PYTHONPATH": path,
                "STANDFAST_TEST_MOMENT": str(self._moments),
                "STANDFAST_TEST_STORE": self.fleet.url.partition(":")[0],
            }
        return self.fleet.start(environment=environment, queues=queues, **{"lease": LEASE, **options})

    def start_fleet(self, of_a, *, deadly=False, **options):
        """Start some workers of queue a and the only one of queue b, which is returned."""
        trees = [self.start(queue, deadly=deadly, **options) for queue in ["b", *["a"] * of_a]]
        for tree in trees:
            self.fleet.worker_of(tree)
        self.fleet.wait_until_acquainted()  # who fell silent before there was anybody to notice is not told of
        return trees[0]

    # -- harm ------------------------------------------------------------------------------------------------

    def stop_child(self, tree):
        """Let the child of a tree stand still; return when."""
        return self.fleet.stop_at_rest(self.fleet.child_pid_of(tree))

    def stop_tree(self, tree):
        """Let a supervisor and its child stand still, as a whole machine does; return when."""
        return self.fleet.stop_at_rest(*tree.members())

    def let_go_on(self, tree):
        tree.signal_tree(signal.SIGCONT)

    def arm(self, moment):
        """Let the next who comes to this moment be killed."""
        if moment in {"asking", "answered"}:
            self.webhook.kill = moment
        else:
            (self._moments / moment).touch()

    def is_armed(self):
        return self.webhook.kill is not None or any("." not in file.name for file in self._moments.iterdir())

    def hurried_deliveries(self):
        """Return the jobs that deliver notices; let those that wait for their next try wait no longer."""
        app, deliveries = self.fleet.app, [job for job in self.fleet.jobs() if job.task == DELIVER]
        for job in deliveries:
            if job.state is State.SCHEDULED:
                with suppress(JobStateError):  # it has become due by itself
                    app.call(change_job(app.verbs, JobAction.RETRY, job.id))
        return deliveries

    # -- what people hear --------------------------------------------------------------------------------------

    def wait_for(self, kind, within=LONG):
        """Wait until both were told; return when the later of them first was."""
        wait_until(lambda: self.posts(kind), within, f"a post that it is {kind}")
        wait_until(lambda: self.mails(kind), within, f"a mail that it is {kind}")
        return max(self.posts(kind)[0].at, self.mails(kind)[0].at)

    def posts(self, kind):
        return self.webhook.accepted(kind)

    def mails(self, kind):
        return [mail for mail in mails_in(self.mail_server) if mail.kind == kind]

    def told(self):
        """Return how often the webhook and the mailbox were told what."""
        kinds = {each.kind for each in (*self.webhook.posts, *mails_in(self.mail_server))}
        return {kind: (len(self.posts(kind)), len(self.mails(kind))) for kind in kinds}

    def notices(self, kind):
        """Return the ids of what was told of a kind, by whichever way: of one notice, however often it was sent."""
        return {each.delivery for each in (*self.posts(kind), *self.mails(kind))}


@pytest.fixture
def stage(request, fleet_on, tmp_path):
    store = request.param
    fleet = fleet_on(None if store == "sqlite" else request.getfixturevalue(f"{store}_url"), watched_app)
    with all_listening() as people:
        stage = Stage(fleet, tmp_path, people)
        yield stage
        assert stage.webhook.forged == []


def on(*, short, full=STORES):
    """Let a test have its stage on these stores."""
    return pytest.mark.parametrize("stage", sizes(short=short, full=full), indirect=True)


# -- a worker that stands still ----------------------------------------------------------------------------------


@on(short=["sqlite"])
def test_five_workers_tell_once_that_the_only_one_of_a_queue_stands_still(stage, measured):
    """SIGSTOP of the child: its supervisor beats on. One mail and one post; and one of each when it goes on."""
    stage.declare(SILENT_B)
    b = stage.start_fleet(of_a=4)
    stopped_at = stage.stop_child(b)

    told_after = stage.wait_for("firing") - stopped_at
    measured(f"told {told_after:.1f} s after the stop, of {SILENCE:g} s of silence")
    assert told_after > SILENCE - PULSE
    if PROVE:
        assert told_after < SILENCE + IN_TIME
    time.sleep(LINGER)
    assert stage.told() == {"firing": (1, 1)}

    stage.let_go_on(b)
    stage.wait_for("resolved")
    time.sleep(LINGER)
    assert stage.told() == {"firing": (1, 1), "resolved": (1, 1)}
    (post,) = stage.posts("firing")
    assert post.notice["severity"] == "critical"
    assert post.notice["rule"] == SILENT_B.name
    assert "b" in post.notice["alerts"][0]["says"]


@on(short=["postgres"])
def test_a_tree_that_stands_still_is_told_once(stage, measured):
    """SIGSTOP of the supervisor and its child, as of a whole machine: nothing of it beats any more."""
    silence, lease = sizes(short=(3.5, 6), full=(32.0, 60))
    stage.declare(msgspec.structs.replace(SILENT_B, above=silence))
    b = stage.start_fleet(of_a=sizes(short=2, full=4), lease=lease)
    stopped_at = stage.stop_tree(b)

    told_after = stage.wait_for("firing") - stopped_at
    measured(f"told {told_after:.1f} s after the stop, of {silence:g} s of silence")
    assert told_after > silence - lease / 2
    if PROVE:
        assert told_after < silence + IN_TIME
    time.sleep(sizes(short=1.0, full=5.0))
    stage.let_go_on(b)
    stage.wait_for("resolved")
    time.sleep(LINGER)
    assert stage.told() == {"firing": (1, 1), "resolved": (1, 1)}


MOMENTS = ["before telling", "after telling", "before filing", "after filing", "asking", "answered"]
"""When the one is killed whose turn it is: around what it writes, and with a post on the way or just answered."""


KILLS = [(moment, stopped) for moment in MOMENTS for stopped in ("child", "tree")]
"""Of a child that stands still its own supervisor tells, of a whole tree one of the others."""

SOME = [("before telling", "tree"), ("after telling", "child"), ("asking", "tree")]


@on(short=["sqlite"])
@pytest.mark.parametrize(("moment", "stopped"), sizes(short=SOME, full=KILLS))
def test_who_looks_is_killed_at_the_worst_moment(stage, moment, stopped):
    """It is told once all the same, by another. What was on its way may arrive twice, with the same id."""
    silence, lease = sizes(short=(3.5, 6), full=(6.5, 12))
    stage.declare(msgspec.structs.replace(SILENT_B, above=silence))
    b = stage.start_fleet(of_a=sizes(short=2, full=4), deadly=True, lease=lease)
    stage.arm(moment)
    stage.stop_tree(b) if stopped == "tree" else stage.stop_child(b)
    stage.wait_for("firing")
    wait_until(lambda: not stage.is_armed(), LONG, "the death of the one who looks")
    if moment == "asking":
        wait_until(lambda: stage.webhook.times("firing") > 1, LONG, "what was sent and not answered, again")
    time.sleep(SHORT_LINGER)
    (dead,) = [tree for tree in stage.fleet.trees if tree.process.poll() is not None]
    assert dead.process.returncode == -signal.SIGKILL

    if dead is b:
        stage.start("b", lease=lease)  # else nobody serves the queue, and nothing is resolved
    else:
        stage.let_go_on(b)
    stage.wait_for("resolved")
    time.sleep(SHORT_LINGER)
    assert len(stage.notices("firing")) == len(stage.notices("resolved")) == 1, stage.told()
    most = 1 if "telling" in moment else 2
    assert stage.webhook.times("firing") <= most
    assert len(stage.mails("firing")) <= most
    assert stage.webhook.times("resolved") == len(stage.mails("resolved")) == 1


# -- many failures -------------------------------------------------------------------------------------------------


@on(short=["redis"])
def test_many_failures_are_one_alert_with_counts_and_examples(stage):
    """A thousand jobs of one task fail within a minute: one notice, which says how many and names some."""
    many = sizes(short=200, full=1000)
    stage.declare(AlertRule(name="failing", check=Check.FAILURE_RATE, above=0.5, at_least=10, over=600.0))
    tree = stage.start("default")
    stage.fleet.worker_of(tree)
    handles = stage.fleet.app.tasks["break_down"].enqueue_many({"number": number} for number in range(many))
    wait_until(lambda: stage.fleet.count(State.DEAD) >= many, what="the failure of all")

    stage.wait_for("firing")
    time.sleep(sizes(short=LINGER, full=90.0))
    assert stage.told() == {"firing": (1, 1)}
    (post,) = stage.posts("firing")
    (alert,) = post.notice["alerts"]
    assert 10 <= alert["count"] <= many
    assert "break_down" in alert["subject"]
    failed = {handle.id for handle in handles}
    assert 1 <= len(alert["examples"]) <= 5
    assert {example["id"] for example in alert["examples"]} <= failed
    assert alert["examples"][0]["id"] in stage.mails("firing")[0].text
    assert str(alert["count"]) in alert["says"].replace(",", "")


# -- flapping ------------------------------------------------------------------------------------------------------


def test_flapping_for_ten_minutes_tells_no_more_than_the_cool_down_allows():
    """Broken and whole again every sixteen seconds, looked at every three, on a clock of its own."""
    rule = msgspec.structs.replace(SILENT_B, cool_down=120.0)
    began_at, board, told = datetime(2030, 6, 1, 12, tzinfo=UTC), Board(), []
    for second in range(0, 600, 3):
        breaches = [Breach(rule, "b", "b is silent")] if second // 16 % 2 else []
        seen = Round(began_at + timedelta(seconds=second), [rule], {rule.check}, breaches)
        judged = evaluate(board, seen)
        board, told = judged.board, [*told, *judged.notices]
    assert_cool([(notice.kind, notice.at.timestamp()) for notice in told], rule.cool_down)


def assert_cool(told, cool_down, lasts=600.0):
    """Of each kind there are some, but no more, and no two nearer to each other, than the cool-down allows."""
    for kind in ("firing", "resolved"):
        times = [at for each, at in told if each == kind]
        assert 3 <= len(times) <= lasts / cool_down + 1, told
        assert all(later - earlier > cool_down - IN_TIME for earlier, later in pairwise(times)), told


@pytest.mark.full_size
@on(short=[], full=["sqlite"])
def test_a_worker_that_flaps_for_ten_minutes_tells_no_more_than_the_cool_down_allows(stage):
    """Stopped and let go on every half minute, with a cool-down of two minutes."""
    cool_down, lasts, half = 120.0, 600.0, 16.0
    stage.declare(msgspec.structs.replace(SILENT_B, above=6.0, cool_down=cool_down))
    b = stage.start_fleet(of_a=1)
    began_at = time.time()
    flaps = 0
    while time.time() - began_at < lasts:
        stage.stop_child(b)
        time.sleep(half)
        stage.let_go_on(b)
        time.sleep(half)
        flaps += 1
    assert flaps > 15
    assert_cool([(post.kind, post.at) for post in stage.webhook.posts], cool_down)
    assert_cool([(mail.kind, mail.at) for mail in mails_in(stage.mail_server)], cool_down)


# -- a fleet that was down ---------------------------------------------------------------------------------------


@on(short=["sqlite"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_missed_schedule_is_told_on_return_and_pings_had_stopped(stage, number):
    """The fleet is down over the time at which the schedule was to fire; an outside service hears nothing."""
    every = sizes(short=3.0, full=20.0)
    missed = AlertRule(name="missed", check=Check.SCHEDULE_MISSED, above=0.0, over=900.0)
    stage.declare(missed, dead_man=DeadMan(url=stage.pings.url, every=1.0), every=every)
    trees = [stage.start("default") for _ in range(sizes(short=1, full=3))]
    wait_until(lambda: len(stage.pings.at) >= 3, LONG, "pings")
    wait_until(lambda: stage.fleet.count(State.COMPLETED) >= 1, LONG, "the first run of the schedule")

    for tree in trees:
        tree.signal_tree(number) if number is signal.SIGKILL else tree.signal_supervisor(number)
    for tree in trees:
        tree.exit_code()
    pings, down_at = len(stage.pings.at), time.time()
    time.sleep(every * 2.5)
    assert len(stage.pings.at) == pings, "nobody is there to ping"
    assert stage.told() == {}

    back_at = time.time()
    stage.start("default")
    wait_until(lambda: len(stage.pings.at) >= pings + 2, LONG, "pings again")
    stage.wait_for("firing")
    gaps = [later - earlier for earlier, later in pairwise(stage.pings.at)]
    assert max(gaps) > back_at - down_at
    time.sleep(LINGER)
    assert stage.told() == {"firing": (1, 1)}
    (post,) = stage.posts("firing")
    assert post.notice["alerts"][0]["subject"] == "ticks"


# -- who does not listen -----------------------------------------------------------------------------------------


@on(short=["sqlite"])
def test_a_webhook_that_refuses_twice_is_told_at_the_third_time(stage):
    """What is refused is sent again with the same id; the mail is sent once all the same."""
    stage.declare(SILENT_B)
    stage.webhook.refuse = 2
    b = stage.start_fleet(of_a=1)
    stage.stop_child(b)
    if not PROVE:
        wait_until(lambda: stage.hurried_deliveries() and stage.posts("firing"), LONG, "the third try")
    stage.wait_for("firing")
    time.sleep(LINGER)
    assert [post.status for post in stage.webhook.posts] == [500, 500, 204]
    assert len({post.delivery for post in stage.webhook.posts}) == 1
    assert stage.told() == {"firing": (1, 1)}


@on(short=["sqlite"])
def test_a_webhook_that_is_gone_leaves_a_dead_letter_without_secrets(stage):
    """It names the channel and says why. The URL and the secret are in no record, no job and no log."""
    stage.declare(SILENT_B)
    stage.webhook.refuse = 10**6
    stage.start("a,standfast.alerts")
    b = stage.start_fleet(of_a=1)
    stage.stop_child(b)

    def letter():
        return next((job for job in stage.hurried_deliveries() if job.state is State.DEAD), None)

    dead = wait_until(letter, LONG, "a dead letter")
    assert "'hook'" in str(dead.error)
    assert "500" in str(dead.error)
    wait_until(lambda: stage.mails("firing"), what="the mail")
    assert len(stage.mails("firing")) == 1
    kept = stage.everything()
    for secret in (SECRET, "/hook/of/the/shop", "kept-to-itself"):
        assert secret.encode() not in kept
