"""The console: one event is one line, in words; colours only where there is a terminal."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.color import ColorSystem
from rich.style import Style

from standfast import events
from standfast.model.job import Failure, Progress
from standfast.model.memos import FOR_EVER
from standfast.model.records import Decision
from standfast.model.states import State
from standfast.observe.logs.console import HumanLines
from standfast.observe.logs.event_text import (
    BAD,
    BOLD,
    BUSY,
    CALM,
    GOOD,
    LATER,
    PLAIN,
    describe_event,
    painted,
    shows_colours,
)
from standfast.observe.logs.levels import Level
from standfast.observe.logs.narrator import FirstCompletion, Folded, Summary

JOB = ("0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f", "send_email", "mail", 1, 2)
WORKER = ("w1", 4242)
SMTP = Failure("SMTPError", "451 try\nagain\x1b[2J")
AT = datetime(2026, 5, 4, 14, 3, 7, 123000, tzinfo=UTC)
LOCAL = f"{AT.astimezone():%Y-%m-%d %H:%M:%S}"
LOCAL_END = f"{(AT + timedelta(minutes=15)).astimezone():%Y-%m-%d %H:%M:%S}"

CASES = [
    (events.JobStarted(*JOB, AT, timedelta(milliseconds=2)), "started"),
    (events.JobStarted(*JOB[:3], 2, 2, AT, timedelta(seconds=3)), "started (attempt 2 of 2), 3 s late"),
    (
        events.JobLate(*JOB, timedelta(minutes=2), AT, expires=True),
        f"2 min late, and should have started by {AT.astimezone():%H:%M:%S}: it expires",
    ),
    (
        events.JobLate(*JOB, timedelta(seconds=3), AT, expires=False),
        f"3 s late, and should have started by {AT.astimezone():%H:%M:%S}: it runs all the same",
    ),
    (events.JobProgressed(*JOB, Progress(42, 100)), "████████░░░░░░░░░░░░ 42% (42 of 100)"),
    (events.JobProgressed(*JOB, Progress(150, 100)), "████████████████████ 100% (150 of 100)"),
    (events.JobProgressed(*JOB, Progress(1500)), "1,500 done"),
    (events.JobProgressed(*JOB, Progress(1500, None, "the\x1b shoes")), "1,500 done: the� shoes"),
    (events.JobCompleted(*JOB, timedelta(milliseconds=12)), "completed in 12 ms"),
    (
        events.JobRetrying(*JOB, SMTP, timedelta(seconds=1.3)),
        "failed (1/2): SMTPError: 451 try again�[2J — next try in 1.3 s",
    ),
    (events.JobSnoozed(*JOB, timedelta(minutes=1)), "snoozed for 1 min"),
    (events.JobSnoozed(*JOB, timedelta(minutes=1), "sleep"), "sleeps for 1 min"),
    (events.JobSnoozed(*JOB, timedelta(minutes=1), "signal:paid"), "waits for signal 'paid', at most 1 min"),
    (events.JobSnoozed(*JOB, FOR_EVER, "signal:paid"), "waits for signal 'paid'"),
    (events.JobDied(*JOB[:3], 2, 2, SMTP), "dead after 2 attempts: SMTPError: 451 try again�[2J"),
    (events.JobCancelled(*JOB, "requested"), "cancelled: requested"),
    (events.JobReleased(*JOB), "given back, no attempt charged"),
    (
        events.JobBlocked(*JOB, "no_worker", 3),
        "put aside: this worker does not know this task with payload version 3",
    ),
    (events.JobBlocked(*JOB, "waits for payment", 1), "blocked: waits for payment"),
    (events.ClaimLost(*JOB), "lost: the job belongs to another worker now, what this run did is not recorded"),
    (
        events.WorkerReady(*WORKER, 3, 20, "/srv/shop.db", None, None, 7),
        "ready: 3 tasks, 20 jobs at a time, from /srv/shop.db; stop it by pid 7",
    ),
    (
        events.WorkerReady(*WORKER, 1, 1, "/srv/shop.db", ("mail", "low"), None, 7),
        "ready: 1 task, 1 job at a time, from /srv/shop.db (only mail, then low); stop it by pid 7",
    ),
    (
        events.WorkerReady(*WORKER, 1, 1, "/srv/shop.db", ("mail", "low"), (3, 1), 7),
        "ready: 1 task, 1 job at a time, from /srv/shop.db (only mail 3, low 1); stop it by pid 7",
    ),
    (
        events.WorkerReady(*WORKER, 1, 1, "/srv/shop.db", ("mail", "low"), (1, 1), 7),
        "ready: 1 task, 1 job at a time, from /srv/shop.db (only mail, low); stop it by pid 7",
    ),
    (events.Drained({}), "drained; nothing is left"),
    (events.Drained({State.SCHEDULED: 1, State.READY: 1200}), "drained; not for now: 1 scheduled, 1,200 ready"),
    (events.WorkerDraining(*WORKER), "is drained: it ends what it runs, and none takes its place"),
    (
        events.WorkerDrained(*WORKER, 1),
        "is drained: its place stays empty until a reload or a recycle; 1 other place kept",
    ),
    (events.WorkerDrained(*WORKER, 0), "is drained, and it was the last one: its supervisor ends"),
    (events.WorkerStopping(*WORKER, 30.0), "stopping: running jobs have 30 s to finish"),
    (events.WorkerStopped(*WORKER, 1), "stopped; 1 unfinished job given back"),
    (
        events.WorkerCrashed(*WORKER, "killed by signal 9", 1, 4),
        "crashed: killed by signal 9; 1 job had started, 4 jobs given back",
    ),
    (events.WorkerHung(*WORKER, 120.4), "hangs: no sign of life for 120 s, it is killed"),
    (
        events.WorkerLost(*WORKER),
        "is not known to the store any more, or was declared dead by others; it starts nothing more",
    ),
    (events.WorkerFound(*WORKER, 2), "vanished; 2 jobs given back"),
    (
        events.WindowNear("queue", "mail", AT, AT + timedelta(minutes=15), "recycle", 2),
        f"queue mail closes soon, from {LOCAL} to {LOCAL_END} (recycle); 2 running jobs are asked to finish",
    ),
    (
        events.WindowNear("task", "tidy", AT, AT + timedelta(minutes=15), None, 0),
        f"task tidy closes soon, from {LOCAL} to {LOCAL_END}",
    ),
    (
        events.WindowBegan("queue", "mail", AT, AT + timedelta(minutes=15), None, 1),
        f"queue mail closed until {LOCAL_END}; 1 running job is not finished yet",
    ),
    (events.WindowEnded("queue", "mail"), "queue mail open again"),
    (
        events.WindowDeclared("task", "tidy", "changed", "03:00–03:15 UTC"),
        "task tidy windows changed: 03:00–03:15 UTC",
    ),
    (events.LimitChanged("gate", "disk", 1, 4, "peak hours"), "gate disk 1 at a time instead of 4 (peak hours)"),
    (
        events.LimitChanged("worker", "", 8, 4, "the host is calm"),
        "worker 8 at a time instead of 4 (the host is calm)",
    ),
    (events.StoreAway("database is locked"), "store away: database is locked; still trying"),
    (events.StoreBack(2.5), "store back after 2.5 s"),
    (events.WorkerRecycling(*WORKER, "too big", "w2"), "is replaced by w2: too big"),
    (
        events.WorkerNotRecycled(*WORKER, "no room", 5.0),
        "stays: no other could take its place: no room; tried again in 5 s",
    ),
    (
        events.HostReady(*WORKER, 3, 20, "/srv/shop.db", 7),
        "works inside this process: 3 tasks, 20 jobs at a time, from /srv/shop.db; process 7 beats for it",
    ),
    (
        events.HostStopping(*WORKER, events.StopStage.WAITING, 2),
        "stopping: waits for running jobs (2 jobs running)",
    ),
    (events.HostStopped(0), "the host has stopped"),
    (
        events.HostStopped(1),
        "the host has stopped; 1 job did not end, and are given back when this process is gone",
    ),
    (events.BeaterLost("killed", 3.0), "the beater is gone (killed): another is started in 3 s"),
    (
        events.LoopBlocked(2.0, "app.py:3", "send", "id", 1, interpreter=False),
        "blocked the event loop for 2 s at app.py:3: use `await`, or write it as a plain `def`",
    ),
    (
        events.WorkerDeadlocked("send", "id", "charge", 20),
        (
            "waits for the result of a job of task charge, and all 20 places are taken by jobs that wait so: what they"
            " wait for cannot start. Wait with ctx.wait_for or Snooze, which give the place back, or have another"
            " worker serve the queue of those jobs"
        ),
    ),
    (events.ScheduleFired("daily", AT, "id"), f"fired for {LOCAL}: job id"),
    (events.ScheduleMissed("daily", AT, 1, None, "late"), f"missed {LOCAL}, not caught up: late"),
    (
        events.ScheduleSkipped("daily", AT, 3, Decision.MISSED, "late"),
        f"3 planned times from {LOCAL} on missed: late",
    ),
    (
        events.SchedulePaused("daily", "its task is gone"),
        "paused itself: its task is gone; resume it with `standfast schedules resume daily`",
    ),
    (events.ScheduleDeclared("daily", "added", "every day"), "added: every day"),
    (
        events.ScheduleForeign("daily"),
        "is declared in code, but another of that name was made elsewhere and stays: rename one of them",
    ),
    (
        events.ScheduleShared("daily", "shop", "2", None),
        (
            "is not declared here, but by release 2 of shop, whose workers live: it stays until they are gone; if they"
            " are another service, give each a name of its own: Standfast(…, name=…)"
        ),
    ),
    (
        events.ReleaseOlder("1", "2"),
        (
            "release 1 is older than 2, whose workers live: its schedules are left as they are; once only its own"
            " workers run, restart one of them, or run `standfast schedules sync MODULE:APP` now"
        ),
    ),
    (events.AlertFired("slow", "mail", "critical", "it waits"), "alert slow fires: it waits"),
    (events.AlertResolved("slow", "mail", "critical", "no longer so"), "alert slow is resolved: no longer so"),
    (events.MetricsServed("http://127.0.0.1:9000"), "metrics are told at http://127.0.0.1:9000"),
    (
        events.DeadRemoved(1200, "keep_dead_for", 86_400.0),
        "1,200 dead jobs were removed, the oldest: each is kept for 1 d (keep_dead_for)",
    ),
    (events.DeadRemoved(1, "keep_dead", 5000), "1 dead job was removed, the oldest: 5,000 are kept (keep_dead)"),
    (FirstCompletion(events.JobCompleted(*JOB, timedelta(milliseconds=12)), hint=False), "completed in 12 ms"),
    (
        FirstCompletion(events.JobCompleted(*JOB, timedelta(milliseconds=12)), hint=True),
        "completed in 12 ms (the next ones are counted; -v shows each)",
    ),
    (
        Folded(events.JobDied(*JOB[:3], 2, 2, Failure("E", "no")), "E", 4312, 10.0),
        "send_email: 4,312 more like E in 10 s, last: 3c2d1e0f dead after 2 attempts: E: no",
    ),
    (
        Folded(events.JobReleased(*JOB), "", 1, 2.0),
        "send_email: 1 more like this in 2 s, last: 3c2d1e0f given back, no attempt charged",
    ),
    (
        Summary({"send_email": 1200, "report": 34}, 0, 10.0),
        "1,234 more completed in 10 s (send_email 1,200, report 34)",
    ),
    (
        Summary({"a": 5, "b": 4, "c": 3, "d": 2, "e": 1}, 1, 10.0),
        "15 more completed in 10 s (a 5, b 4, c 3, 2 other tasks); 1 attempt failed",
    ),
]


class FixedClock:
    def now(self):
        return AT

    def boot(self):
        return 0.0


def written(event, *, traces=False, colours=False):
    lines = HumanLines(FixedClock(), colours=colours, traces=traces)
    return lines.of_event(event, Level.INFO)


@pytest.mark.parametrize(("event", "words"), CASES, ids=lambda value: type(value).__name__)
def test_each_event_is_one_plain_line(event, words):
    line = written(event)
    assert line.endswith(f" {words}\n")
    assert line.count("\n") == 1
    assert "\x1b" not in line


def test_every_event_has_words_of_its_own():
    kinds = [each for each in vars(events).values() if isinstance(each, type) and issubclass(each, events.Event)]
    families = {
        events.Event,
        events.JobEvent,
        events.AlertEvent,
        events.ScheduleEvent,
        events.Traced,
        events.WindowEvent,
        events.WorkerEvent,
    }
    assert {type(event) for event, _ in CASES} >= set(kinds) - families
    assert [event for event, _ in CASES if describe_event(event).words == type(event).__name__] == []


def test_an_event_of_a_plugin_is_told_by_its_name():
    event = type("SomethingElse", (), {})()
    assert describe_event(event).words == "SomethingElse"


def test_a_job_line_names_time_task_and_the_end_of_the_id():
    local = AT.astimezone()
    line = written(events.JobCompleted(*JOB, timedelta(milliseconds=12)))
    assert line == f"{local:%H:%M:%S}.123 ✔ send_email 3c2d1e0f completed in 12 ms\n"


def test_a_worker_line_names_the_worker_and_its_pid():
    assert " worker w1 pid 4242 stopped" in written(events.WorkerStopped(*WORKER, 0))


def test_colours_are_those_that_rich_makes():
    line = written(events.JobDied(*JOB, SMTP), colours=True)
    assert "\x1b[1;31m✘\x1b[0m" in line
    assert "\x1b[2J" not in line
    by_rich = {GOOD: "green", BUSY: "cyan", LATER: "yellow", BAD: "bold red", CALM: "dim", BOLD: "bold", PLAIN: ""}
    for colour, name in by_rich.items():
        for system in (ColorSystem.STANDARD, ColorSystem.TRUECOLOR):
            assert painted("word", colour) == Style.parse(name).render("word", color_system=system)


class Stream(io.StringIO):
    """A stream that is a terminal, or none."""

    def __init__(self, *, terminal):
        super().__init__()
        self._terminal = terminal

    def isatty(self):
        return self._terminal


@pytest.mark.parametrize(
    ("terminal", "surroundings", "shown"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "dumb"}, False),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (False, {"TERM": "xterm"}, False),
        (False, {"TERM": "xterm", "FORCE_COLOR": "1"}, True),
    ],
)
def test_colours_are_for_terminals_and_who_insists(monkeypatch, terminal, surroundings, shown):
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in surroundings.items():
        monkeypatch.setenv(name, value)
    assert shows_colours(Stream(terminal=terminal)) is shown


def test_a_long_error_is_cut_and_never_wrapped():
    line = written(events.JobDied(*JOB, Failure("E", "x" * 5000)))
    assert len(line) < 300
    assert line.endswith("…\n")


TRACE = """Traceback (most recent call last):
  File "/lib/standfast/worker/attempt.py", line 106, in _run_coroutine
    value = await task.fn(**arguments)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/jobs.py", line 9, in send_email
    smtp\x1b.send(to)
smtplib.SMTPError: 451 try
again
"""


def test_the_frames_of_a_failure_follow_only_where_they_are_wanted():
    failed = events.JobDied(*JOB, Failure("SMTPError", "451", TRACE))
    assert written(failed).count("\n") == 1
    told = written(failed, traces=True).splitlines()
    assert [line.strip() for line in told[1:]] == [
        'File "/srv/shop/jobs.py", line 9, in send_email',
        "smtp�.send(to)",
    ]


def test_a_failure_without_a_traceback_is_one_line():
    assert written(events.JobDied(*JOB, Failure("SMTPError", "451")), traces=True).count("\n") == 1
