"""`schedules list`, `show`, `next` and `fires`: when, why, and why not."""

import re
from datetime import timedelta

import pytest
from cli_schedules import ago, fires_of, keep, now, write_app
from cli_world import WORKER, answer, assert_refused

from standfast import At, Cron, Every, Window
from standfast.model.crash import Death, DeathKind
from standfast.model.records import Change, Decision, Fire, FireCause, Kind
from standfast.schedules.schedule import Origin, Run

HOUR = timedelta(hours=1)
NIGHTLY = Cron("0 2 * * *", tz="Asia/Taipei")
ONLY_TIDY = """
    from standfast import Cron, Standfast

    app = Standfast("{url}")

    @app.task(schedule=Cron("0 3 * * *"))
    def tidy() -> None: ...
"""


class TestList:
    def test_none_is_told_in_words(self, standfast):
        assert "standfast schedules create" in standfast("schedules").stdout
        assert answer(standfast("schedules", "list", "--json")) == []

    def test_each_is_told_with_its_next_and_last_time(self, world, standfast):
        planned = ago(hours=2)
        fire = Fire("poll", planned, Decision.CAUGHT_UP, job_id="j1")
        keep(world, "nightly", NIGHTLY)
        keep(world, "poll", Every(86400), fires=[fire])
        nightly, poll = answer(standfast("schedules", "--json"))
        assert (nightly["name"], nightly["state"], nightly["task"]) == ("nightly", "active", "report")
        assert nightly["words"] == "at 02:00 every day, Asia/Taipei time"
        assert nightly["last"] is None
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT18:00:00Z", nightly["next_at"])
        assert (poll["last"]["decision"], poll["last"]["job"]) == ("caught_up", "j1")
        lines = standfast("schedules").stdout.splitlines()
        assert re.search(
            r"nightly +at 02:00 every day, Asia/Taipei time +\w{3} .* 02:00 Asia/Taipei \(in ", lines[2]
        )
        assert re.search(r"poll +every day .*caught up .*\(2 h ago\) +active +report +default", lines[3])

    def test_the_last_is_the_last_that_has_come(self, world, standfast):
        """What is fired ahead of its time is still next."""
        soon = now() + timedelta(seconds=5)
        fires = [Fire("poll", ago(hours=1), Decision.FIRED), Fire("poll", soon, Decision.FIRED)]
        keep(world, "poll", Every(HOUR), fires=fires, cursor=soon, runs=(Run("j1", soon),))
        (poll,) = answer(standfast("schedules", "--json"))
        assert poll["last"]["planned"] < now().isoformat()
        assert poll["next_at"].startswith(soon.isoformat()[:19])

    def test_every_state(self, world, standfast):
        keep(world, "a", NIGHTLY)
        keep(world, "b", NIGHTLY, paused_at=ago(minutes=1))
        keep(world, "c", NIGHTLY, retired_at=ago(minutes=1), paused_at=ago(minutes=1))
        body = answer(standfast("schedules", "--json"))
        assert [each["state"] for each in body] == ["active", "paused", "retired"]
        assert [each["next_at"] is None for each in body] == [False, True, True]
        keep(world, "d", At(ago(hours=1)), over=True)
        assert answer(standfast("schedules", "--json"))[3]["state"] == "done"

    def test_without_a_worker_nothing_is_fired_and_that_is_said(self, world, standfast):
        keep(world, "nightly", NIGHTLY)
        assert "No worker is running" not in standfast("schedules").stdout
        world.do(world.verbs.bury(WORKER, Death(DeathKind.STOPPED)))
        assert "No worker is running, so nothing is fired" in standfast("schedules").stdout

    @pytest.mark.parametrize("width", [60, 80, 120])
    def test_it_fits_its_terminal(self, world, standfast, width):
        fire = Fire("a-schedule-with-a-long-name", ago(hours=2), Decision.OVERLAPPED, count=20)
        rule = Cron("0 9 * * mon-fri", tz="America/New_York", exclude=["12-25", "07-04"], jitter=60)
        keep(world, "a-schedule-with-a-long-name", rule, fires=[fire])
        lines = standfast("schedules", env={"COLUMNS": str(width)}).stdout.splitlines()
        assert all(len(line) <= width for line in lines)
        assert {"NAME", "WHEN", "NEXT", "STATE"} <= set(lines[0].split())
        assert re.search(r"a-schedule-with-a-long-name +at 0.* (in \S+ \w+|now) .*active", lines[2])
        assert (width == 60) != ("overlapped ×20 2 h ago" in lines[2])

    def test_one_that_cannot_be_read_is_named_and_the_others_are_listed(self, world, standfast):
        keep(world, "nightly", NIGHTLY)
        future = Change(Kind.SCHEDULE, "future", 0, "t", b'{"rule":{"rule":"moon"}}', now())
        world.do(world.verbs.change_records([future]))
        for command in (("schedules",), ("schedules", "next"), ("schedules", "fires")):
            result = standfast(*command)
            assert result.exit_code == 0
            assert re.fullmatch(r"standfast: schedule 'future' cannot be read[^\n]+\n", result.stderr)
        assert "nightly" in standfast("schedules").stdout


class TestShow:
    def test_everything_is_told(self, world, standfast):
        rule = Cron("0 2 * * *", misfire="all", catch_up_window=None, overlap="queue_one", pause_on_failure=True)
        job_id = world.running()
        payload = b'{"v":1,"args":{"to":"ada"},"secret":{"token":"s3cret"}}'
        keep(
            world,
            "nightly",
            rule,
            payload=payload,
            origin=Origin("shop", "7", "m"),
            runs=(Run(job_id, ago(hours=1)), Run("over", ago(hours=2))),
            waiting=(ago(minutes=5),),
            fires=[Fire("nightly", ago(hours=1), Decision.FIRED, job_id=job_id, note="it was missed")],
        )
        text = standfast("schedules", "show", "nightly").stdout
        assert "s3cret" not in text
        for words in (
            "nightly  active",
            "At 02:00 every day, UTC.",
            "(in ",
            f"fired, job {job_id}, it was missed",
            "default (priority 0)",
            "all: missed times are made up for, 100 at most; a time counts as missed 1 min after it",
            "queue_one: one time waits",
            "a job that ends dead pauses it",
            "by shop, release 7",
            '"ada"',
            "••••",
            "Jobs that are not over",
            "running",
            "Waiting for the end of a run",
        ):
            assert words in text
        shown = answer(standfast("schedules", "show", "nightly", "--json"))
        assert (shown["args"]["to"]["value"], shown["args"]["token"]["secret"]) == ("ada", True)
        assert [(run["job"], run["state"]) for run in shown["runs"]] == [(job_id, "running")]
        assert len(shown["waiting"]) == 1
        assert (shown["app"], shown["release"]) == ("shop", "7")
        assert shown["rule"]["rule"] == "cron"

    @pytest.mark.parametrize(
        ("rule", "words"),
        [
            (Every(60, misfire="skip"), "skip: missed times are let go"),
            (Every(60), "once: of missed times the last is made up for"),
            (Every(60, misfire="all"), "all: missed times of the last 1 d are made up for"),
            (Every(60, overlap="cancel_running"), "cancel_running: a run that is not over is cancelled"),
        ],
    )
    def test_policies_are_told_in_words(self, world, standfast, rule, words):
        keep(world, "poll", rule)
        assert words in standfast("schedules", "show", "poll").stdout

    def test_why_it_stands_still(self, world, standfast):
        keep(world, "a", NIGHTLY, paused_at=ago(minutes=1), paused_why="the disk is full")
        keep(world, "b", NIGHTLY, retired_at=ago(minutes=1))
        paused = standfast("schedules", "show", "a").stdout
        assert "(1 min ago): the disk is full. `standfast schedules resume a` lets it go on.\n" in paused
        assert "its app declares it no more" in standfast("schedules", "show", "b").stdout

    @pytest.mark.parametrize("command", ["show", "next"])
    def test_which_release_retired_it_and_what_brings_it_back(
        self, tmp_path, world, standfast, monkeypatch, command
    ):
        monkeypatch.setenv("STANDFAST_NAME", "shop")
        both = write_app(tmp_path, world.url)
        one = write_app(tmp_path, world.url, ONLY_TIDY)
        for release, app in (("7", both), ("8", one)):
            monkeypatch.setenv("STANDFAST_RELEASE", release)
            assert standfast("schedules", "sync", app).exit_code == 0
        told = standfast("schedules", command, "report").stdout
        assert "release 8 of shop, which counts now, declares it no more." in told
        assert "`standfast schedules sync MODULE:APP` brings it back" in told

    @pytest.mark.parametrize("command", [("list",), ("show", "nightly"), ("next", "nightly"), ("next",)])
    def test_that_nobody_is_there_to_fire_is_said_wherever_somebody_looks(self, world, standfast, command):
        keep(world, "nightly", NIGHTLY)
        nobody = "No worker is running, so nothing is fired: start one with `standfast worker MODULE:APP`."
        assert nobody not in standfast("schedules", *command).stdout
        world.do(world.verbs.bury(WORKER, Death(DeathKind.STOPPED)))
        assert nobody in standfast("schedules", *command).stdout

    @pytest.mark.parametrize("command", [("show", "nightly"), ("next", "nightly"), ("next",)])
    def test_where_nothing_is_to_be_fired_nobody_is_missed(self, world, standfast, command):
        keep(world, "nightly", NIGHTLY, paused_at=ago(minutes=1))
        world.do(world.verbs.bury(WORKER, Death(DeathKind.STOPPED)))
        assert "No worker is running" not in standfast("schedules", *command).stdout

    def test_an_unknown_name_is_refused_with_a_near_one(self, world, standfast):
        keep(world, "nightly", NIGHTLY)
        assert_refused(standfast("schedules", "show", "nightyl"), 1, "did you mean 'nightly'?")
        assert_refused(standfast("schedules", "show", "zzz"), 1, "`standfast schedules list` shows")


class TestNext:
    def test_when_and_when_not_and_why(self, world, standfast):
        closed = Window("00:00", "12:00", reason="recycle")
        keep(world, "poll", Cron("0 11,13 * * *", exclude=closed), created_at=ago(days=1))
        times = answer(standfast("schedules", "next", "poll", "--count", "4", "--json"))
        assert len(times) == 4
        for each in times:
            morning = "T11:00:00Z" in each["planned"]
            assert (each["excluded"] or "").endswith("recycle") == morning
        text = standfast("schedules", "next", "poll", "--count", "4").stdout
        assert text.startswith("poll fires at 11:00 and 13:00 every day, UTC, excluding 00:00–12:00.\n")
        assert len(re.findall(r"11:00 +in .* not fired: inside the window 00:00–12:00 UTC: recycle", text)) == 2
        assert len(re.findall(r"13:00 +(?:in \S+ \w+|now) *\n", text)) == 2

    def test_the_zone_is_told_where_the_words_leave_it_out(self, world, standfast):
        keep(world, "poll", Cron("* * * * *", tz="Europe/Berlin"))
        text = standfast("schedules", "next", "poll").stdout
        assert text.startswith("poll fires every minute. The times are of Europe/Berlin.\n")

    def test_ten_times_by_default_in_the_zone_of_the_schedule(self, world, standfast):
        keep(world, "nightly", NIGHTLY)
        lines = standfast("schedules", "next", "nightly").stdout.splitlines()
        assert len([line for line in lines if re.fullmatch(r"\w{3} \S+ 02:00 +(in \S+ \w+|now) *", line)]) == 10

    def test_a_run_that_is_put_off_says_so(self, world, standfast):
        keep(world, "poll", Every(HOUR, jitter=600))
        assert re.search(r"its job starts .* later", standfast("schedules", "next", "poll").stdout)

    def test_all_are_merged_in_the_order_of_time(self, world, standfast):
        made = ago(minutes=10)
        keep(world, "a", Every(HOUR), created_at=made)
        keep(world, "b", Every(HOUR, start=made + timedelta(minutes=30)), created_at=made)
        keep(world, "c", Every(60), paused_at=ago(minutes=1))
        times = answer(standfast("schedules", "next", "--count", "4", "--json"))
        assert [each["schedule"] for each in times] == ["b", "a", "b", "a"]
        assert times == sorted(times, key=lambda each: each["planned"])
        text = standfast("schedules", "next", "--count", "4").stdout
        assert "1 schedule is paused or retired" in text

    def test_what_stands_still_says_so(self, world, standfast):
        keep(world, "a", NIGHTLY, paused_at=ago(minutes=1))
        keep(world, "b", NIGHTLY, retired_at=ago(minutes=1))
        assert "It is paused: nothing of this is fired" in standfast("schedules", "next", "a").stdout
        assert "It is retired" in standfast("schedules", "next", "b").stdout
        assert standfast("schedules", "next").stdout.startswith("Nothing is planned.")

    def test_no_time_is_left(self, world, standfast):
        keep(world, "once", At(ago(hours=1)))
        assert "No time is left." in standfast("schedules", "next", "once").stdout

    def test_there_is_none_at_all(self, standfast):
        assert standfast("schedules", "next").stdout == "There is no schedule.\n"

    @pytest.mark.parametrize("width", [60, 80])
    def test_a_long_reason_is_wrapped_and_whole(self, world, standfast, width):
        closed = Window("00:00", "23:59", tz="America/New_York", reason="the machines are moved to the new hall")
        keep(world, "poll", Every(HOUR, exclude=closed))
        for command in (("next", "poll"), ("next",)):
            result = standfast("schedules", *command, "--count", "2", env={"COLUMNS": str(width)})
            lines = result.stdout.splitlines()
            assert all(len(line) <= width for line in lines)
            assert "machines" in result.stdout
            assert "hall" in result.stdout


class TestFires:
    def fill(self, world):
        first, last = ago(hours=9), ago(hours=4)
        fires = [
            Fire("poll", first, Decision.MISSED, count=5, until=last, note="nobody was there"),
            Fire("poll", ago(hours=3), Decision.CAUGHT_UP, job_id="01a1dfdf-b628-751c-9413-5da864a4c29d"),
            Fire("poll", ago(hours=2), Decision.FIRED, FireCause.TRIGGER, job_id="j2", note="triggered by hand"),
            Fire("poll", ago(hours=1), Decision.EXCLUDED, note="2026-12-25 is a holiday: Christmas"),
        ]
        keep(world, "poll", Every(HOUR), fires=fires)

    def test_what_became_of_each_and_why(self, world, standfast):
        self.fill(world)
        fires = answer(standfast("schedules", "fires", "poll", "--json"))
        assert [fire["decision"] for fire in fires] == ["excluded", "fired", "caught_up", "missed"]
        assert [fire["cause"] for fire in fires] == ["rule", "trigger", "rule", "rule"]
        assert (fires[3]["count"], fires[3]["why"]) == (5, "nobody was there")
        assert all(fire["decided_at"] for fire in fires)
        lines = standfast("schedules", "fires", "poll").stdout.splitlines()
        assert re.search(r"excluded +1 h after .*2026-12-25 is a holiday: Christmas", lines[2])
        assert re.search(r"fired .*by hand +j2 +triggered by hand", lines[3])
        assert re.search(r"caught up .*01a1dfdf-b628-751c-9413-5da864a4c29d", lines[4])
        assert re.search(r"missed ×5 .*until .*; nobody was there", lines[5])

    def test_pages(self, world, standfast):
        self.fill(world)
        text = standfast("schedules", "fires", "poll", "--limit", "2").stdout
        before = re.search(r"--before (\S+)", text)[1]
        older = answer(standfast("schedules", "fires", "poll", "--before", before, "--json"))
        assert [fire["decision"] for fire in older] == ["caught_up", "missed"]

    def test_those_of_all_schedules(self, world, standfast):
        self.fill(world)
        keep(world, "nightly", NIGHTLY, fires=[Fire("nightly", ago(minutes=1), Decision.FIRED)])
        lines = standfast("schedules", "fires").stdout.splitlines()
        assert "SCHEDULE" in lines[0]
        assert re.search(r"Asia/Taipei +nightly +fired", lines[2])
        assert len(answer(standfast("schedules", "fires", "--json"))) == 5

    def test_nothing_yet(self, world, standfast):
        keep(world, "nightly", NIGHTLY)
        assert standfast("schedules", "fires", "nightly").stdout == "Nothing was fired.\n"
        assert fires_of(world, "nightly") == ()

    def test_an_unknown_schedule_is_not_an_empty_one(self, standfast):
        assert_refused(standfast("schedules", "fires", "nightly"), 1, "there is no schedule 'nightly'")

    @pytest.mark.parametrize("width", [60, 80, 100])
    def test_it_fits_its_terminal(self, world, standfast, width):
        self.fill(world)
        for command in (("fires",), ("fires", "poll")):
            lines = standfast("schedules", *command, env={"COLUMNS": str(width)}).stdout.splitlines()
            assert all(len(line) <= width for line in lines)
            assert {"PLANNED", "DECISION", "WHY"} <= set(lines[0].split())


class TestJobsOfASchedule:
    def test_a_job_tells_where_it_comes_from(self, world, standfast):
        keep(world, "nightly", NIGHTLY)
        job_id = answer(standfast("schedules", "trigger", "nightly", "--json"))["job"]
        world.enqueue()
        shown = answer(standfast("jobs", "show", job_id, "--json"))
        assert shown["schedule"] == "nightly"
        assert shown["planned_at"] == shown["run_at"]
        assert shown["metadata"] == {}
        text = standfast("jobs", "show", job_id).stdout
        assert re.search(r"schedule +nightly, planned for \d\d:\d\d:\d\d \((now|.* ago)\)", text)
        assert "metadata" not in text
        assert "It comes from schedule 'nightly', planned for" in standfast("why", job_id).stdout
        assert [job["id"] for job in answer(standfast("jobs", "list", "--schedule", "nightly", "--json"))] == [
            job_id
        ]

    def test_any_other_job_comes_from_none(self, world, standfast):
        job_id = world.enqueue(metadata={"customer": "7"})
        shown = answer(standfast("jobs", "show", job_id, "--json"))
        assert (shown["schedule"], shown["planned_at"], shown["metadata"]) == (None, None, {"customer": "7"})
        assert "schedule" not in standfast("why", job_id).stdout
