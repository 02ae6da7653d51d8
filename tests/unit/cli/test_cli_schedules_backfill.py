"""`schedules backfill` and `schedules sync`: past times made up for, and declarations brought in by a person."""

from datetime import timedelta

import pytest
from cli_schedules import ago, fires_of, keep, now, plan_of, write_app
from cli_world import answer, assert_refused, bare

from standfast import Cron, Every
from standfast.model.records import FIRES_KEPT, Decision, Fire, FireCause, Kind
from standfast.schedules.schedule import read_schedule
from standfast.stores.values import JobFilter

USAGE, FAILED = 2, 1
HOURLY = Every(3600, anchored=True)


THIS_HOUR = now().replace(minute=0, second=0, microsecond=0)


def hour(number):
    """Return a full hour in the past."""
    return THIS_HOUR - timedelta(hours=number)


def text(moment):
    return moment.isoformat()


class TestBackfill:
    def test_it_says_how_many_and_asks(self, world, standfast):
        keep(world, "hourly", HOURLY, cursor=hour(0))
        asked = standfast(
            "schedules", "backfill", "hourly", "--since", text(hour(3)), "--until", text(hour(1)), input="n\n"
        )
        assert asked.exit_code == FAILED
        assert "3 planned times of 'hourly', from" in asked.stderr
        assert fires_of(world, "hourly") == ()

    def test_those_that_were_not_fired_get_a_job_each(self, world, standfast):
        fires = [Fire("hourly", hour(2), Decision.FIRED), Fire("hourly", hour(3), Decision.MISSED)]
        keep(world, "hourly", HOURLY, cursor=hour(0), fires=fires)
        between = ("--since", text(hour(4)), "--until", text(hour(1)), "--yes")
        assert standfast("schedules", "backfill", "hourly", *between).stdout == "3 jobs were enqueued.\n"
        made = [fire for fire in fires_of(world, "hourly") if fire.cause is FireCause.BACKFILL]
        assert [fire.planned for fire in made] == [hour(1), hour(3), hour(4)]
        assert len(world.do(world.verbs.list_jobs(JobFilter(task="report"))).jobs) == 3
        again = standfast("schedules", "backfill", "hourly", *between)
        assert again.stdout.startswith("Nothing is to be backfilled")
        assert answer(standfast("schedules", "backfill", "hourly", *between, "--again", "--json"))["count"] == 4

    def test_many_are_enqueued_in_steps(self, world, standfast):
        keep(world, "often", Every(60, anchored=True), cursor=ago(seconds=1))
        since, until = hour(6), hour(1)
        between = ("--since", text(since), "--until", text(until), "--yes", "--json")
        assert answer(standfast("schedules", "backfill", "often", *between))["count"] == 301
        assert len(fires_of(world, "often")) == 301

    def test_a_span_is_so_long_ago_and_the_end_is_now(self, world, standfast):
        keep(world, "hourly", HOURLY, cursor=ago(seconds=1))
        assert (
            answer(standfast("schedules", "backfill", "hourly", "--since", "3h", "--yes", "--json"))["count"] == 3
        )

    def test_dates_are_read_in_the_zone_that_is_given(self, world, standfast):
        keep(world, "nightly", Cron("0 2 * * *", tz="Asia/Taipei"), cursor=ago(seconds=1), created_at=ago(days=9))
        since, until = f"{ago(days=6):%Y-%m-%d}", f"{ago(days=3):%Y-%m-%d}"
        options = ("--since", since, "--until", until, "--tz", "Asia/Taipei", "--yes", "--json")
        told = answer(standfast("schedules", "backfill", "nightly", *options))
        assert told["count"] == 3
        assert told["since"].endswith("T16:00:00Z")

    def test_what_is_not_decided_yet_is_left_to_the_workers(self, world, standfast):
        """Else it would be run twice: by the backfill, and by the schedule when a worker comes."""
        keep(world, "hourly", HOURLY, cursor=hour(3))
        said = standfast("schedules", "backfill", "hourly", "--since", text(hour(5)), "--yes").stdout
        assert said.startswith("3 jobs were enqueued.\nTimes after ")
        assert "are left to the workers, which have not decided about them yet" in said

    def test_but_not_those_of_a_pause(self, world, standfast):
        keep(world, "hourly", HOURLY, cursor=hour(3), paused_at=hour(3))
        said = standfast(
            "schedules", "backfill", "hourly", "--since", text(hour(5)), "--until", text(hour(1)), "--yes"
        )
        assert said.stdout == "5 jobs were enqueued.\n"

    def test_before_what_is_known_nobody_can_say_what_was_fired(self, world, standfast):
        fires = [Fire("often", ago(seconds=60 * number), Decision.FIRED) for number in range(FIRES_KEPT)]
        keep(world, "often", Every(60), fires=fires, cursor=ago(seconds=1), created_at=ago(days=3))
        refused = standfast("schedules", "backfill", "often", "--since", "2d", "--yes")
        assert_refused(refused, USAGE, "the range begins before that: begin it there, or say again (--again)")
        assert len(fires_of(world, "often")) == FIRES_KEPT

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (("--since", "2026-01-02T00:00Z", "--until", "2026-01-01T00:00Z"), "say from when on, before until"),
            (("--since", "1h", "--until", "2100-01-01T00:00Z"), "is still to come"),
            (("--since", "2026-01-01"), "'2026-01-01' has no time zone"),
            (("--since", "2026-02-31", "--tz", "Asia/Taipei"), "is no date"),
            (("--since", "20260101"), "'20260101' has no time zone"),
            (("--since", "1h", "--tz", "Mars"), "there is no time zone 'Mars'"),
            ((), "Missing option '--since'"),
        ],
    )
    def test_a_range_that_cannot_be_is_refused(self, world, standfast, options, words):
        keep(world, "hourly", HOURLY, cursor=hour(0))
        assert_refused(standfast("schedules", "backfill", "hourly", "--yes", *options), USAGE, words)
        assert fires_of(world, "hourly") == ()

    def test_too_many_are_refused(self, world, standfast):
        keep(world, "often", Every(1, anchored=True), cursor=ago(seconds=1))
        refused = standfast("schedules", "backfill", "often", "--since", "30d", "--again", "--yes")
        assert_refused(refused, USAGE, "more than 100,000 planned times")


def states(world):
    records = world.do(world.verbs.records(Kind.SCHEDULE))
    return {record.name: read_schedule(record).plan.retired_at is None for record in records}


class TestSync:
    def test_what_the_app_declares_is_brought_in(self, tmp_path, world, standfast):
        app = write_app(tmp_path, world.url)
        said = standfast("schedules", "sync", app).stdout
        assert "added  report: at 02:00 every day, UTC\nadded  tidy: at 03:00 every day, UTC\n" in said
        assert states(world) == {"report": True, "tidy": True}
        assert plan_of(world, "report").origin.app == app
        assert "Nothing is to be changed: 2 schedules are as" in standfast("schedules", "sync", app).stdout

    def test_an_older_release_counts_because_a_person_says_so(self, tmp_path, world, monkeypatch):
        """A worker of it would not change anything: others live, and may be of the newer one."""
        monkeypatch.setenv("STANDFAST_NAME", "shop")
        monkeypatch.setenv("STANDFAST_RELEASE", "1")
        old = write_app(tmp_path, world.url)
        assert answer(bare("schedules", "sync", old, "--json"))["added"] == ["report", "tidy"]
        monkeypatch.setenv("STANDFAST_RELEASE", "2")
        new = write_app(tmp_path, world.url, text='from standfast import Standfast\n\napp = Standfast("{url}")\n')
        newer = answer(bare("schedules", "sync", new, "--json"))
        assert (newer["release"], newer["retired"]) == ("2", ["report", "tidy"])
        assert states(world) == {"report": False, "tidy": False}
        monkeypatch.setenv("STANDFAST_RELEASE", "1")
        back = answer(bare("schedules", "sync", write_app(tmp_path, world.url), "--json"))
        assert (back["release"], back["changed"]) == ("1", ["report", "tidy"])
        assert states(world) == {"report": True, "tidy": True}

    def test_one_of_another_is_left_alone_and_named(self, tmp_path, world, standfast):
        keep(world, "tidy", HOURLY)
        app = write_app(tmp_path, world.url)
        said = standfast("schedules", "sync", app).stdout
        assert "left     tidy: another of that name was made elsewhere" in said
        assert plan_of(world, "tidy").rule == HOURLY

    def test_a_missing_store_is_an_error(self, tmp_path):
        app = write_app(tmp_path, f"sqlite:///{tmp_path / 'none.db'}")
        assert_refused(bare("schedules", "sync", app), 3, "there is no database")

    def test_no_such_module_is_one_line(self, standfast):
        assert_refused(standfast("schedules", "sync", "nowhere:app"), USAGE, "there is no module 'nowhere'")
