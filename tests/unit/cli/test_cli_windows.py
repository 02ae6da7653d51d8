"""What the command line says of a queue or a task that a window closes, by what workers have told the store."""

from datetime import UTC, datetime, timedelta

import pytest
from cli_world import WORKER, answer
from test_cli_check import canaries, failed_report

from standfast.model.crash import Death, DeathKind
from standfast.model.job import Ending
from standfast.model.records import Change, Kind
from standfast.model.states import Move
from standfast.schedules.closed_hours import About, declare_hours
from standfast.schedules.declarations import Declarer, synchronise
from standfast.schedules.windows import Window
from standfast.stores.values import ClaimRequest
from standfast.stores.verb import run_procedure


def window(begins_in, ends_in, **options):
    now = datetime.now(UTC)
    times = [f"{now + timedelta(seconds=seconds):%H:%M:%S}" for seconds in (begins_in, ends_in)]
    return Window(*times, tz="Etc/UTC", reason="nightly recycle", **options)


NOW = (-600, 3600)
LATER = (3600, 7200)


@pytest.fixture
def declared(world):
    """Declare windows as a worker does when it starts."""

    def declare(*hours):
        who = Declarer("shop:app", "1", WORKER, timedelta())
        return run_procedure(world.do, synchronise(world.verbs, who, (), hours))

    return declare


def closed_words(name):
    return f"its {name} is closed until "


class TestWhy:
    def test_a_job_of_a_closed_queue(self, world, standfast, declared):
        declared(declare_hours(About.QUEUE, "mail", window(*NOW)))
        text = " ".join(standfast("why", world.enqueue(queue="mail")).stdout.split())
        assert closed_words("queue 'mail'") in text
        assert "Etc/UTC (in 1 h): nightly recycle." in text

    def test_a_job_of_a_closed_task(self, world, standfast, declared):
        declared(declare_hours(About.TASK, "tidy", window(*NOW)))
        told = answer(standfast("why", world.enqueue(task="tidy"), "--json"))
        assert closed_words("task 'tidy'") in told["text"]

    def test_a_job_that_a_closed_task_has_put_off(self, world, standfast, declared):
        hours = declare_hours(About.TASK, "tidy", window(-600, 60))
        declared(hours)
        job = world.enqueue(task="tidy")
        claim, now = world.claim(job), datetime.now(UTC)
        delay = hours.closed_at(now).end - now
        world.do(world.verbs.finish(WORKER, [Ending(claim.ref, Move.SNOOZE, delay=delay)]))
        text = answer(standfast("why", job, "--json"))["text"]
        assert text.startswith("It waits until ")
        assert "Its task 'tidy' is closed until " in text

    def test_a_job_whose_time_comes_inside_a_window(self, world, standfast, declared):
        declared(declare_hours(About.QUEUE, "mail", window(*LATER)))
        inside = answer(standfast("why", world.enqueue(delay=timedelta(seconds=5000)), "--json"))["text"]
        after = answer(standfast("why", world.enqueue(delay=timedelta(seconds=9000)), "--json"))["text"]
        assert "Its queue 'mail' is then closed until " in inside
        assert "closed" not in after

    def test_other_jobs_are_as_they_were(self, world, standfast, declared):
        declared(
            declare_hours(About.QUEUE, "other", window(*NOW)), declare_hours(About.TASK, "tidy", window(*LATER))
        )
        for job in (world.enqueue(), world.enqueue(task="tidy")):
            assert "closed" not in answer(standfast("why", job, "--json"))["text"]

    def test_a_pause_comes_first(self, world, standfast, declared):
        declared(declare_hours(About.QUEUE, "mail", window(*NOW)))
        job = world.enqueue(queue="mail")
        world.do(world.verbs.pause("mail"))
        assert "is paused since" in answer(standfast("why", job, "--json"))["text"]

    def test_it_is_told_whoever_works(self, world, standfast, declared):
        """A window may be there because the machines are restarted: no worker is no news then."""
        declared(declare_hours(About.QUEUE, "mail", window(*NOW)))
        world.do(world.verbs.bury(WORKER, Death(DeathKind.STOPPED)))
        assert closed_words("queue 'mail'") in answer(standfast("why", world.enqueue(), "--json"))["text"]

    def test_what_only_a_newer_release_can_read_is_left_out(self, world, standfast):
        strange = Change(
            Kind.WINDOW, "queue:mail@shop:app", 0, "t", b'{"about":"queue","name":"mail","moon":"full"}'
        )
        world.do(world.verbs.change_records([strange]))
        assert "any moment" in answer(standfast("why", world.enqueue(), "--json"))["text"]


class TestQueues:
    def test_a_closed_queue_is_told_in_the_list(self, world, standfast, declared):
        world.enqueue(queue="mail")
        world.enqueue(queue="other")
        assert "CLOSED" not in standfast("queues").stdout
        declared(declare_hours(About.QUEUE, "mail", window(*NOW)))
        assert "CLOSED UNTIL" in standfast("queues", env={"COLUMNS": "140"}).stdout
        until = {queue["name"]: queue["closed_until"] for queue in answer(standfast("queues", "--json"))}
        assert until["other"] is None
        assert datetime.fromisoformat(until["mail"]) > datetime.now(UTC)
        assert answer(standfast("stats", "--json"))["queues"][0]["closed_until"] == until["mail"]

    def test_one_queue_is_shown_with_its_windows(self, world, standfast, declared):
        world.enqueue(queue="mail")
        declared(
            declare_hours(
                About.QUEUE,
                "mail",
                (window(*LATER), window(*NOW, days=("mon", "tue", "wed", "thu", "fri", "sat", "sun"))),
            )
        )
        text = standfast("queues", "show", "mail").stdout
        for words in ("1 ready", "1 live one serves it", "closed", "until", "nightly recycle", "on Mondays"):
            assert words in text
        shown = answer(standfast("queues", "show", "mail", "--json"))
        assert (shown["states"]["ready"], len(shown["windows"]), shown["served_by"]) == (1, 2, [WORKER])

    def test_it_is_told_when_an_open_queue_closes(self, standfast, declared):
        declared(declare_hours(About.QUEUE, "mail", window(*LATER)))
        text = standfast("queues", "show", "mail").stdout
        assert "(in 1 h), until" in text
        assert "none" in text


class TestDoctor:
    def test_a_closed_queue_is_in_order(self, world, standfast, declared):
        world.enqueue(queue="mail")
        world.do(world.verbs.bury(WORKER, Death(DeathKind.STOPPED)))
        assert self.found(standfast("doctor", "--json")).startswith("problem")
        declared(declare_hours(About.QUEUE, "mail", window(*NOW)))
        found = self.found(standfast("doctor", "--json"))
        assert found.startswith("ok: 'mail': 1 due job")
        assert "the queue is closed until " in found

    def found(self, result):
        result.exit_code = 0
        [check] = [each for each in answer(result)["checks"] if each["check"] == "queues"]
        return f"{check['level']}: {check['says']}"


class TestCheck:
    def test_a_closed_queue_gets_no_canary_and_is_no_failure(self, world, standfast, declared):
        world.enqueue(queue="mail")
        declared(declare_hours(About.QUEUE, "mail", window(*NOW)))
        report = answer(standfast("check", "--wait", "5", "--json"))
        [flight] = report["queues"]
        assert (report["ok"], flight["closed"], flight["through"], flight["job"]) == (True, True, False, None)
        assert flight["why"].startswith("It is closed until ")
        assert canaries(world) == ()
        text = standfast("check", "--wait", "5").stdout
        assert "not tried. It is closed until" in text
        assert "0 of 1 queue through, 1 closed." in text

    def test_an_open_one_beside_it_still_has_to_be_served(self, world, standfast, declared):
        world.enqueue(queue="mail")
        world.enqueue(queue="other")
        declared(declare_hours(About.QUEUE, "mail", window(*NOW)))
        report = failed_report(standfast("check", "--wait", "0.2", "--json"))
        assert [(each["queue"], each["closed"]) for each in report["queues"]] == [("mail", True), ("other", False)]

    def test_a_canary_that_a_window_caught_is_no_failure(self, world, standfast, declared, monkeypatch):
        """The queue closes after it was sent."""
        world.enqueue(queue="mail")
        monkeypatch.setattr(
            "standfast.cli.check.time.sleep", lambda _: declared(declare_hours(About.QUEUE, "mail", window(*NOW)))
        )
        report = answer(standfast("check", "--wait", "0.5", "--json"))
        assert [(each["through"], each["closed"]) for each in report["queues"]] == [(False, True)]


def test_records_are_written_once_and_forgotten_with_their_declaration(world, declared):
    """A second worker of the release changes nothing; one that declares less has the rest forgotten."""
    mail, tidy = (declare_hours(About.QUEUE, "mail", window(*NOW)), declare_hours(About.TASK, "tidy", window(*NOW)))
    assert [(each.what, each.about, each.name) for each in declared(mail, tidy).windows] == [
        ("added", "queue", "mail"),
        ("added", "task", "tidy"),
    ]
    assert declared(mail, tidy).windows == []
    assert [each.what for each in declared(declare_hours(About.QUEUE, "mail", window(*LATER))).windows] == [
        "changed",
        "retired",
    ]
    assert [record.name for record in world.do(world.verbs.records(Kind.WINDOW))] == ["queue:mail@shop:app"]
    assert [each.what for each in declared().windows] == ["retired"]
    assert world.do(world.verbs.records(Kind.WINDOW)) == ()


def test_what_a_claim_does_not_give_of_a_closed_queue(world):
    """The store heeds what a worker says is closed."""
    world.enqueue(queue="mail")
    other = world.enqueue(queue="other")
    claims = world.do(world.verbs.claim(ClaimRequest(WORKER, 1, 10, closed=("mail",)))).jobs
    assert [claim.job_id for claim in claims] == [other]
