"""`jobs cancel`, `retry` and `reschedule`: what can be done is done, and the rest is refused one by one."""

import json
from datetime import timedelta

import pytest
from cli_world import answer, assert_refused

from standfast.model.states import State


class TestJobsCancel:
    def test_a_waiting_job_is_cancelled_and_a_claimed_one_asked_to_stop(self, world, standfast):
        running, waiting = world.running(), world.enqueue()
        result = standfast("jobs", "cancel", running, waiting)
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout == f"{running}  requested\n{waiting}  cancelled\n"
        assert world.state(waiting) is State.CANCELLED
        assert world.do(world.verbs.get(running)).cancel_requested

    def test_cancelling_twice_is_no_error(self, world, standfast):
        job_id = world.enqueue()
        for _ in range(2):
            assert answer(standfast("jobs", "cancel", job_id, "--json"))[0]["answer"] == "cancelled"

    @pytest.mark.parametrize("state", [State.COMPLETED, State.DEAD])
    def test_a_finished_job_is_refused(self, world, standfast, state):
        job_id = world.one_of_each()[state]
        assert_refused(standfast("jobs", "cancel", job_id), 1, f"is {state}: too late")
        assert world.state(job_id) is state

    def test_one_that_fails_does_not_stop_the_others(self, world, standfast):
        job_id = world.enqueue()
        result = standfast("jobs", "cancel", "nope", job_id)
        assert result.exit_code == 1
        assert result.stdout == f"{job_id}  cancelled\n"
        assert result.stderr.count("\n") == 1

    def test_json_tells_of_each(self, world, standfast):
        job_id = world.enqueue()
        result = standfast("jobs", "cancel", "nope", job_id, "--json")
        assert result.exit_code == 1
        bad, good = json.loads(result.stdout)
        assert bad["id"] == "nope"
        assert "there is no job" in bad["error"]
        assert good == {"id": job_id, "answer": "cancelled", "job": None, "worker": None, "order": None}


class TestJobsCancelSelected:
    @pytest.mark.parametrize(
        ("options", "meant"),
        [
            (("--task", "report"), {"report", "tagged"}),
            (("--queue", "reports", "--state", "scheduled"), {"tagged"}),
            (("--tag", "night"), {"tagged"}),
            (("--all",), {"report", "tagged", "mail", "running"}),
            (("--state", "running"), {"running"}),
        ],
    )
    def test_the_options_of_the_list_select(self, world, standfast, options, meant):
        running = world.running()
        jobs = {
            "report": world.enqueue(task="report", queue="reports"),
            "tagged": world.enqueue(task="report", queue="reports", tags=("night",), delay=timedelta(hours=1)),
            "mail": world.enqueue(),
            "running": running,
        }
        over = world.dead(task="report", queue="quick")
        result = standfast("jobs", "cancel", *options, input="y\n")
        assert f"Cancel {len(meant)} job{'s' if len(meant) > 1 else ''}? [y/N]" in result.stderr
        assert result.stdout == f"{len(meant)} job{'s were' if len(meant) > 1 else ' was'} cancelled.\n"
        ended = {name for name, job_id in jobs.items() if world.state(job_id) is State.CANCELLED}
        assert ended == meant - {"running"}
        assert world.do(world.verbs.get(running)).cancel_requested == ("running" in meant)
        assert world.state(over) is State.DEAD

    def test_by_age(self, world, standfast):
        new = world.enqueue()
        old = world.enqueue(id="01800000-0000-7000-8000-000000000001")
        assert [job["id"] for job in answer(standfast("jobs", "list", "--older-than", "1d", "--json"))] == [old]
        assert answer(standfast("jobs", "cancel", "--older-than", "1d", "--yes", "--json")) == {
            "done": 1,
            "errors": [],
        }
        assert (world.state(new), world.state(old)) == (State.READY, State.CANCELLED)

    @pytest.mark.parametrize("args", [(), ("--all", "some-id"), ("--task", "send_email", "some-id")])
    def test_ids_or_a_selection_but_not_both(self, standfast, args):
        assert_refused(standfast("jobs", "cancel", *args), 2, "or --all")

    def test_states_in_which_nothing_can_be_cancelled(self, standfast):
        assert_refused(standfast("jobs", "cancel", "--state", "dead"), 2, "scheduled")


class TestJobsRetry:
    def test_a_dead_job_is_ready_again_with_all_its_attempts(self, world, standfast):
        job_id = world.dead()
        assert standfast("jobs", "retry", job_id).stdout == f"{job_id}  requeued\n"
        job = world.do(world.verbs.get(job_id))
        assert (job.state, job.attempt) == (State.READY, 0)

    def test_a_scheduled_job_becomes_due(self, world, standfast):
        job_id = world.enqueue(delay=timedelta(hours=1))
        assert standfast("jobs", "retry", job_id).exit_code == 0
        assert world.state(job_id) is State.READY

    @pytest.mark.parametrize("state", [State.COMPLETED, State.CANCELLED, State.RUNNING])
    def test_any_other_is_refused(self, world, standfast, state):
        job_id = world.one_of_each()[state]
        assert_refused(standfast("jobs", "retry", job_id), 1, job_id)
        assert world.state(job_id) is state


class TestJobsReschedule:
    def test_a_job_is_due_at_the_time_given(self, world, standfast):
        ready, scheduled = world.enqueue(), world.enqueue(delay=timedelta(hours=1))
        result = standfast("jobs", "reschedule", ready, scheduled, "--at", "2090-03-01T09:00+08:00")
        assert result.stdout == f"{ready}  rescheduled\n{scheduled}  rescheduled\n"
        for job_id in (ready, scheduled):
            job = world.do(world.verbs.get(job_id))
            assert (job.state, job.run_at.isoformat()) == (State.SCHEDULED, "2090-03-01T01:00:00+00:00")

    def test_a_time_by_the_clock_of_a_zone(self, world, standfast):
        job_id = world.enqueue()
        standfast("jobs", "reschedule", job_id, "--at", "2090-03-01T09:00", "--tz", "Asia/Taipei")
        assert world.do(world.verbs.get(job_id)).run_at.isoformat() == "2090-03-01T01:00:00+00:00"

    def test_a_span_is_from_now(self, world, standfast):
        job_id = world.enqueue()
        [said] = answer(standfast("jobs", "reschedule", job_id, "--in", "2h", "--json"))
        assert (said["id"], said["answer"]) == (job_id, "rescheduled")
        job = world.do(world.verbs.get(job_id))
        assert timedelta(hours=1, minutes=50) < job.run_at - job.created_at < timedelta(hours=2, minutes=10)

    @pytest.mark.parametrize(
        "at", ["9999-12-31T23:59:59.999999Z", "9999-12-31T23:59-14:00", "0001-01-01T00:00+01:00"]
    )
    def test_a_time_at_the_ends_of_the_calendar_is_refused(self, world, standfast, at):
        job_id = world.enqueue()
        result = standfast("jobs", "reschedule", job_id, "--at", at)
        assert_refused(result, 2, "--at must lie within the years 1 to 9999")
        assert world.state(job_id) is State.READY

    def test_who_says_it_as_in_code_is_told_how_it_is_said_here(self, world, standfast):
        result = standfast("jobs", "reschedule", world.enqueue(), "--delay", "2h")
        assert (result.exit_code, "there is no option --delay: say --in 2h" in result.stderr) == (2, True)

    def test_one_that_cannot_be_moved_does_not_stop_the_others(self, world, standfast):
        dead, waiting = world.dead(), world.enqueue()
        result = standfast("jobs", "reschedule", dead, waiting, "--in", "1h")
        assert (result.exit_code, result.stdout) == (1, f"{waiting}  rescheduled\n")
        assert "is dead: only a ready or scheduled job can be rescheduled" in result.stderr
        assert world.state(waiting) is State.SCHEDULED

    @pytest.mark.parametrize(
        "said", [(), ("--at", "now", "--in", "2h"), ("--at", "2090-03-01T09:00"), ("--in", "x")]
    )
    def test_when_must_be_said_once_and_clearly(self, world, standfast, said):
        job_id = world.enqueue()
        assert standfast("jobs", "reschedule", job_id, *said).exit_code == 2
        assert world.state(job_id) is State.READY
