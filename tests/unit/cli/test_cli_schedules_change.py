"""`schedules create`, `edit`, `pause`, `resume`, `trigger`, `delete`: what they do, and what they refuse."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from cli_schedules import ago, fires_of, keep, now, plan_of, write_app
from cli_world import WORKER, answer, assert_refused, bare

from standfast import AnyOf, At, Cron, Every, Window
from standfast.model.crash import Death, DeathKind
from standfast.model.records import FireCause, Kind
from standfast.model.states import State
from standfast.schedules.calendar import WEEKDAYS
from standfast.schedules.schedule import Origin, Run

USAGE, FAILED = 2, 1
NIGHTLY = Cron("0 2 * * *", tz="Asia/Taipei", misfire="all", exclude=["sat"])


@pytest.fixture
def made(world, standfast):
    """Make a schedule by hand and return its rule."""

    def make(*options, name="nightly", task="report"):
        result = standfast("schedules", "create", name, task, *options)
        assert result.exit_code == 0, result.stderr
        return plan_of(world, name).rule

    return make


class TestCreatedRules:
    def test_cron(self, made):
        assert made("--cron", "0 2 * * *", "--tz", "Asia/Taipei") == Cron("0 2 * * *", tz="Asia/Taipei")

    @pytest.mark.parametrize(
        ("text", "seconds"),
        [("15m", 900), ("1h30m", 5400), ("2d", 172800), ("30", 30), ("1.5 s", 1.5), ("1w", 604800)],
    )
    def test_every(self, made, text, seconds):
        assert made("--every", text) == Every(seconds)

    def test_anchored(self, made):
        assert made("--every", "1h", "--anchored") == Every(3600, anchored=True)

    def test_at(self, made):
        moments = ("2030-03-01T09:00+08:00", "2030-03-02T00:00Z")
        rule = made("--at", moments[0], "--at", moments[1])
        assert rule == At(datetime(2030, 3, 1, 1, tzinfo=UTC), datetime(2030, 3, 2, tzinfo=UTC))

    def test_a_time_without_a_zone_is_read_in_that_of_the_command(self, made):
        rule = made("--at", "2030-03-01 09:00", "--tz", "Asia/Taipei")
        assert rule == At(datetime(2030, 3, 1, 1, tzinfo=UTC))

    def test_several_are_a_union(self, made):
        rule = made(
            "--cron", "0 9 * * *", "--cron", "@hourly", "--every", "7m", "--overlap", "allow", "--tz", "Asia/Taipei"
        )
        members = (Cron("0 9 * * *", tz="Asia/Taipei"), Cron("@hourly", tz="Asia/Taipei"), Every(420))
        assert rule == AnyOf(*members, overlap="allow")

    def test_every_option(self, made):
        rule = made(
            *(
                "--cron",
                "@daily",
                "--tz",
                "Asia/Taipei",
                "--jitter",
                "5m",
                "--misfire",
                "all",
                "--misfire-after",
                "2m",
            ),
            *("--catch-up-limit", "7", "--catch-up-window", "none", "--overlap", "queue_one", "--pause-on-failure"),
            *("--start", "2030-01-01", "--end", "2031-01-01T00:00Z"),
            *("--exclude", "sat", "--exclude", "12-25", "--exclude", "03:00-03:15 the recycle"),
        )
        window = Window("03:00", "03:15", tz="Asia/Taipei", reason="the recycle")
        assert rule == Cron(
            "@daily",
            tz="Asia/Taipei",
            jitter=300,
            misfire="all",
            misfire_after=120,
            catch_up_limit=7,
            catch_up_window=None,
            overlap="queue_one",
            pause_on_failure=True,
            start=datetime(2029, 12, 31, 16, tzinfo=UTC),
            end=datetime(2031, 1, 1, tzinfo=UTC),
            exclude=["sat", "12-25", window],
        )


class TestCreate:
    def test_it_says_when_it_fires_and_that_nobody_checked_it(self, world, standfast):
        said = standfast("schedules", "create", "poll", "poll_orders", "--every", "1h")
        assert said.exit_code == 0
        assert said.stdout.startswith("Schedule 'poll' is made: it fires every hour.\nNext: ")
        assert "(in 1 h)" in said.stdout
        assert "Stored as given" in said.stdout
        assert "No worker is running" not in said.stdout
        world.do(world.verbs.bury(WORKER, Death(DeathKind.STOPPED)))
        said = standfast("schedules", "create", "poll2", "poll_orders", "--every", "1h")
        assert "No worker is running, so nothing is fired" in said.stdout

    def test_one_that_never_fires_says_so(self, standfast):
        excluded = ("--cron", "30 3 * * *", "--exclude", "03:00-04:00")
        assert "All its times are excluded" in standfast("schedules", "create", "a", "report", *excluded).stdout
        assert "excluded" in standfast("schedules").stdout.splitlines()[2]
        past = ("--at", "2020-01-01T00:00Z")
        said = standfast("schedules", "create", "b", "report", *past)
        assert said.exit_code != 0
        assert "would never fire: none of its times is still to come" in said.stderr

    def test_arguments_and_routing_without_an_app(self, world, standfast):
        options = ("--kwarg", 'to="ada"', "--kwarg", "n=[1, 2]", "--queue", "mail", "--priority", "3")
        shown = answer(
            standfast(
                "schedules", "create", "a", "send", "--every", "1h", *options, "--max-attempts", "1", "--json"
            )
        )
        assert {name: each["value"] for name, each in shown["args"].items()} == {"to": "ada", "n": [1, 2]}
        assert (shown["queue"], shown["priority"], shown["max_attempts"]) == ("mail", 3, 1)
        assert shown["checked"] is False
        assert plan_of(world, "a").job.payload == b'{"v":1,"args":{"to":"ada","n":[1, 2]}}'

    def test_with_an_app_the_arguments_are_checked_and_the_policy_is_the_tasks(self, tmp_path, world, standfast):
        app = write_app(tmp_path, world.url, more=", version=3")
        options = ("--arg", '"2026-02-03"', "--kwarg", 'token="s3cret"', "--app", app, "--every", "1h")
        shown = answer(standfast("schedules", "create", "a", "report", *options, "--json"))
        assert (shown["queue"], shown["max_attempts"], shown["version"]) == ("reports", 2, 3)
        assert (shown["args"]["day"]["value"], shown["args"]["token"]["secret"]) == ("2026-02-03", True)
        assert shown["checked"] is True
        assert plan_of(world, "a").job.payload == (
            b'{"v":3,"args":{"day":"2026-02-03"},"secret":{"token":"s3cret"}}'
        )

    def test_the_store_of_the_app_is_meant_unless_another_is_named(self, tmp_path, world):
        app = write_app(tmp_path, world.url)
        said = bare("schedules", "create", "a", "tidy", "--every", "1h", "--app", app)
        assert said.exit_code == 0, said.stderr
        assert plan_of(world, "a").job.task == "tidy"

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (("--kwarg", "dya=1"), "report has no parameter 'dya'"),
            (("--kwarg", 'day="2026-02-31"'), "argument 'day' of report does not fit"),
            (("--kwarg", "token=1"), "argument 'token' of report, a secret, does not fit"),
            (("--arg", '"2026-01-01"', "--kwarg", 'day="2026-01-01"'), "'day' twice"),
        ],
    )
    def test_arguments_that_do_not_fit_are_refused(self, tmp_path, world, standfast, options, words):
        app = write_app(tmp_path, world.url)
        made = standfast("schedules", "create", "a", "report", "--every", "1h", "--app", app, *options)
        assert_refused(made, USAGE, words)
        assert world.do(world.verbs.records(Kind.SCHEDULE)) == ()

    def test_an_unknown_task_of_the_app_is_refused(self, tmp_path, world, standfast):
        app = write_app(tmp_path, world.url)
        made = standfast("schedules", "create", "a", "reprot", "--every", "1h", "--app", app)
        assert_refused(made, USAGE, "the app has no task 'reprot'; did you mean report?")

    def test_a_name_that_is_taken_is_refused(self, world, standfast):
        keep(world, "nightly", NIGHTLY)
        made = standfast("schedules", "create", "nightly", "report", "--every", "1h")
        assert_refused(made, FAILED, "there is a schedule 'nightly' already")
        assert plan_of(world, "nightly").rule == NIGHTLY


CRON = ("--cron", "0 2 * * *")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "say when: --cron '0 2 * * *', --every 15m or --at"),
        (("--cron", "61 * * * *"), "'61' as its minute"),
        (("--cron", "0 2 * *"), "has 4 of the five fields"),
        (("--cron", "0 0 31 2 *"), "there is no 31 February"),
        ((*CRON, "--tz", "Asia/Taipeh"), "did you mean 'Asia/Taipei'?"),
        (("--every", "15x"), "'15x' is no span; write e.g. 30s, 15m, 1h30m or 2d"),
        (("--every", "10ms"), "the interval must be"),
        (("--every", "9" * 30 + "d"), "is more than a hundred years"),
        ((*CRON, "--jitter", "99999d"), "is more than a hundred years"),
        (("--at", "2026-03-01T09:00"), "'2026-03-01T09:00' has no time zone; write e.g. 2026-03-01T09:00Z"),
        (("--at", "2026-02-31T09:00Z"), "is no date (day is out of range for month)"),
        (("--at", "tomorrow"), "'tomorrow' is no date; write e.g. 2026-03-01T09:00+08:00"),
        ((*CRON, "--exclude", "00:00-24:00"), "covers the whole day, every day"),
        ((*CRON, "--exclude", "funday"), "'funday' is no weekday"),
        ((*CRON, "--exclude", "13-45"), "'13-45' is no date"),
        ((*CRON, "--start", "2026-03-01"), "has no time zone"),
        ((*CRON, "--start", "2030-03-02T00:00Z", "--end", "2030-03-01T00:00Z"), "must not be after end"),
        ((*CRON, "--anchored"), "--anchored says how to count --every"),
        ((*CRON, "--catch-up-window", "soon"), "--catch-up-window: 'soon' is no span"),
        ((*CRON, "--misfire", "twice"), "'twice' is not one of 'skip', 'once', 'all'"),
        ((*CRON, "--kwarg", "to=ada"), "--kwarg to: ada is no JSON; a text stands in double quotes: '\"ada\"'"),
        ((*CRON, "--kwarg", "to"), "'to' is not NAME=JSON"),
        ((*CRON, "--arg", "1"), "--arg needs --app MODULE:APP"),
        ((*CRON, "--queue", "a b"), "queue must be"),
        ((*CRON, "--max-attempts", "0"), "--max-attempts must be"),
        ((*CRON, "--app", "jobs"), "'jobs' is not MODULE:APP"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(world, standfast, options, words):
    """The line says what is wrong and what to write, and nothing is stored."""
    assert_refused(standfast("schedules", "create", "nightly", "report", *options), USAGE, words)
    assert world.do(world.verbs.records(Kind.SCHEDULE)) == ()


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (("--cron", "0 2 * *"), "as in --cron '30 2 * * *', each day at 02:30"),
        (("--every", "10ms"), "the interval must be a span, from 0.1 s to a hundred years, as in --every 60s"),
        ((*CRON, "--tz", "Mars"), "give an IANA name, as in --tz Asia/Taipei"),
        ((*CRON, "--exclude", "13-45"), 'write "2026-12-25", or "12-25" for every year'),
        ((*CRON, "--exclude", "25:00-26:00"), "as in --exclude '03:00-03:15', not '25:00'"),
        ((*CRON, "--exclude", "00:00-24:00"), "shorten it, as in --exclude '03:00-03:15'"),
        ((*CRON, *(word for day in WEEKDAYS for word in ("--exclude", day))), "leave one out, as in --exclude sun"),
        ((*CRON, "--queue", "max_attempts of"), "not 'max_attempts of'"),
    ],
)
@pytest.mark.parametrize("command", [("create", "nightly", "report"), ("edit", "nightly")])
def test_advice_is_in_the_words_of_the_options(world, standfast, command, options, advice):
    """Who types at a shell is not told to write Python; what was typed is repeated as it was."""
    if command[0] == "edit":
        keep(world, "nightly", NIGHTLY)
    refused = standfast("schedules", *command, *options)
    assert_refused(refused, USAGE, advice)
    assert not re.search(r"\w\(\S|\w=\S", refused.stderr)


@pytest.mark.parametrize(
    ("text", "excluded"),
    [
        ("sat", "sat"),
        ("Saturday", "sat"),
        (" sat ", "sat"),
        ("2030-12-25", "2030-12-25"),
        ("12-25", "12-25"),
        ("03:00-03:15", Window("03:00", "03:15")),
        ("03:00-03:15 the reason", Window("03:00", "03:15", reason="the reason")),
    ],
)
def test_whatever_the_help_says_can_be_excluded(made, text, excluded):
    assert made(*CRON, "--exclude", text).exclude == (excluded,)


@pytest.mark.parametrize(("name", "task"), [("a b", "report"), ("nightly", "a b"), ("", "report")])
def test_names_are_checked(standfast, name, task):
    assert_refused(standfast("schedules", "create", name, task, *CRON), USAGE, "name must be 1 to 128 letters")


class TestEdit:
    def edited(self, world, standfast, *options, rule=NIGHTLY, name="nightly"):
        keep(world, name, rule)
        result = standfast("schedules", "edit", name, *options)
        assert result.exit_code == 0, result.stderr
        return plan_of(world, name).rule

    def test_other_times_with_the_same_options(self, world, standfast):
        expected = Cron("30 3 * * *", tz="Asia/Taipei", misfire="all", exclude=["sat"])
        assert self.edited(world, standfast, "--cron", "30 3 * * *") == expected

    def test_times_of_another_kind(self, world, standfast):
        assert self.edited(world, standfast, "--every", "1h") == Every(3600, misfire="all", exclude=["sat"])

    def test_an_option_alone(self, world, standfast):
        expected = Cron("0 2 * * *", tz="Asia/Taipei", misfire="all", exclude=["sat"], overlap="allow")
        assert self.edited(world, standfast, "--overlap", "allow") == expected

    def test_a_zone_alone(self, world, standfast):
        changed = self.edited(world, standfast, "--tz", "Europe/Berlin")
        assert changed == Cron("0 2 * * *", tz="Europe/Berlin", misfire="all", exclude=["sat"])

    def test_a_union_stays_one(self, world, standfast):
        union = AnyOf(Cron("0 9 * * *"), Every(3600), overlap="allow")
        changed = self.edited(
            world, standfast, "--tz", "Asia/Taipei", "--anchored", "--misfire", "skip", rule=union
        )
        members = (Cron("0 9 * * *", tz="Asia/Taipei"), Every(3600, anchored=True))
        assert changed == AnyOf(*members, overlap="allow", misfire="skip")

    def test_none_takes_back(self, world, standfast):
        start = datetime(2026, 1, 1, tzinfo=UTC)
        rule = Every(3600, start=start, end=start + timedelta(days=9999), exclude=["sat"])
        assert self.edited(
            world, standfast, "--start", "none", "--end", "none", "--exclude", "none", rule=rule
        ) == Every(3600)

    def test_a_time_without_a_zone_is_read_in_that_of_the_schedule(self, world, standfast):
        changed = self.edited(world, standfast, "--end", "2030-01-01")
        assert changed.end == datetime(2029, 12, 31, 16, tzinfo=UTC)

    def test_arguments_change_one_by_one_and_secrets_stay(self, world, standfast):
        payload = b'{"v":2,"args":{"day":"2026-01-01","to":"ada"},"secret":{"token":"s3cret"}}'
        keep(world, "nightly", NIGHTLY, payload=payload)
        assert standfast("schedules", "edit", "nightly", "--kwarg", 'to="bob"', "--queue", "mail").exit_code == 0
        job = plan_of(world, "nightly").job
        assert job.payload == b'{"v":2,"args":{"day":"2026-01-01","to":"bob"},"secret":{"token":"s3cret"}}'
        assert (job.queue, job.max_attempts) == ("mail", 5)
        standfast("schedules", "edit", "nightly", "--kwarg", 'token="new"')
        assert plan_of(world, "nightly").job.payload.endswith(b'"secret":{"token":"new"}}')

    def test_with_an_app_they_are_checked(self, tmp_path, world, standfast):
        app = write_app(tmp_path, world.url)
        keep(world, "nightly", NIGHTLY, payload=b'{"v":1,"args":{"token":"s3cret"}}')
        assert_refused(standfast("schedules", "edit", "nightly", "--kwarg", "day=3", "--app", app), USAGE, "'day'")
        assert standfast("schedules", "edit", "nightly", "--kwarg", 'day="2026-02-03"', "--app", app).exit_code == 0
        assert plan_of(world, "nightly").job.payload == (
            b'{"v":1,"args":{"day":"2026-02-03"},"secret":{"token":"s3cret"}}'
        )

    def test_another_task(self, world, standfast):
        keep(world, "nightly", NIGHTLY)
        assert standfast("schedules", "edit", "nightly", "--task", "shop.report").exit_code == 0
        assert plan_of(world, "nightly").job.task == "shop.report"

    def test_one_that_code_declares_says_how_long_it_lasts(self, world, standfast):
        keep(world, "nightly", NIGHTLY, origin=Origin("shop", "7", "m"))
        said = standfast("schedules", "edit", "nightly", "--every", "1h").stdout
        assert "shop declares it in code: it stays changed until that declaration is changed" in said

    def test_nothing_to_change_is_refused(self, world, standfast):
        keep(world, "nightly", NIGHTLY)
        assert_refused(standfast("schedules", "edit", "nightly"), USAGE, "nothing is to be changed")
        assert_refused(standfast("schedules", "edit", "nightly", "--anchored"), USAGE, "--anchored says how")
        assert plan_of(world, "nightly").rule == NIGHTLY

    def test_an_unknown_one_is_refused(self, world, standfast):
        keep(world, "nightly", NIGHTLY)
        assert_refused(standfast("schedules", "edit", "nigthly", *CRON), FAILED, "did you mean 'nightly'?")


class TestPauseAndResume:
    def test_pausing_takes_back_what_was_fired_ahead(self, world, standfast):
        soon = now() + timedelta(seconds=30)
        job_id = world.enqueue(run_at=soon)
        keep(world, "poll", Every(3600), runs=(Run(job_id, soon),), cursor=soon)
        said = standfast("schedules", "pause", "poll", "--why", "the disk is full")
        assert said.stdout == (
            "Schedule 'poll' is paused; jobs that run go on. `standfast schedules resume poll` undoes it.\n"
        )
        assert world.state(job_id) is State.CANCELLED
        assert plan_of(world, "poll").paused_why == "the disk is full"
        again = standfast("schedules", "pause", "poll")
        assert re.fullmatch(r"Schedule 'poll' is paused already, since .*: the disk is full\.\n", again.stdout)

    def test_resuming_goes_on_from_now(self, world, standfast):
        keep(world, "poll", Every(3600), paused_at=ago(hours=6), cursor=ago(hours=6))
        said = standfast("schedules", "resume", "poll").stdout
        assert said.startswith("Schedule 'poll' goes on.\nNext: ")
        plan = plan_of(world, "poll")
        assert plan.paused_at is None
        assert plan.cursor > ago(minutes=1)

    def test_in_json(self, world, standfast):
        keep(world, "poll", Every(3600))
        paused = answer(standfast("schedules", "pause", "poll", "--why", "x", "--json"))
        assert (paused["name"], paused["paused_why"]) == ("poll", "x")
        resumed = answer(standfast("schedules", "resume", "poll", "--json"))
        assert (resumed["state"], resumed["next_at"] is None) == ("active", False)

    @pytest.mark.parametrize("command", ["pause", "resume", "trigger", "delete"])
    def test_an_unknown_one_is_refused(self, standfast, command):
        assert_refused(standfast("schedules", command, "nope"), FAILED, "there is no schedule 'nope'")


class TestTriggerAndDelete:
    def test_a_trigger_prints_the_id_of_the_job(self, world, standfast):
        keep(world, "nightly", NIGHTLY, paused_at=ago(hours=1))
        said = standfast("schedules", "trigger", "nightly").stdout
        job_id = said.split()[0]
        assert said == f"{job_id}  enqueued\n"
        assert world.state(job_id) is State.READY
        (fire,) = fires_of(world, "nightly")
        assert (fire.cause, fire.job_id) == (FireCause.TRIGGER, job_id)

    def test_a_deletion_asks_first(self, world, standfast):
        keep(world, "nightly", NIGHTLY)
        refused = standfast("schedules", "delete", "nightly", input="n\n")
        assert refused.exit_code == FAILED
        assert "nothing was done" in refused.stderr
        assert standfast("schedules", "delete", "nightly", input="").exit_code == USAGE
        assert plan_of(world, "nightly").rule == NIGHTLY
        assert standfast("schedules", "delete", "nightly", input="y\n").stdout == "Schedule 'nightly' is deleted.\n"
        assert world.do(world.verbs.records(Kind.SCHEDULE)) == ()

    def test_one_that_code_declares_comes_back_and_that_is_said(self, world, standfast):
        keep(world, "nightly", NIGHTLY, origin=Origin("shop", "7", "m"))
        asked = standfast("schedules", "delete", "nightly", input="n\n")
        assert "which shop declares" in asked.stderr
        deleted = answer(standfast("schedules", "delete", "nightly", "--yes", "--json"))
        assert (deleted["name"], deleted["state"], deleted["comes_back"]) == ("nightly", "deleted", True)
