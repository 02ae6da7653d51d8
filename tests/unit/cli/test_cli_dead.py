"""`dead`: a person decides what becomes of the dead, and a careless one is asked first."""

import json
import os
import re
from collections import Counter
from datetime import timedelta

import click
import pytest
from cli_world import answer, assert_refused

from standfast.admin.audit_trail import read_trail
from standfast.cli import bulk, lookup
from standfast.cli.connection import StoreOptions
from standfast.model.job import Failure, JobAction
from standfast.model.states import Move, State
from standfast.stores.contract import change_job
from standfast.stores.values import JobFilter
from standfast.stores.verb import run_procedure


class TestDead:
    def test_the_list_shows_only_the_dead_with_their_errors(self, world, standfast):
        jobs = world.one_of_each()
        text = standfast("dead", "list").stdout
        assert jobs[State.DEAD] in text
        assert "SMTPError: 451 try again" in text
        assert jobs[State.READY] not in text
        assert [job["id"] for job in answer(standfast("dead", "list", "--json"))] == [jobs[State.DEAD]]

    def test_none_is_told_in_words(self, standfast):
        assert standfast("dead", "list").stdout == "No dead jobs.\n"
        assert standfast("dead", "retry", "--all").stdout == "No dead jobs.\n"
        assert answer(standfast("dead", "discard", "--all", "--json")) == {"done": 0, "errors": []}

    def test_retry_makes_it_ready_and_discard_cancels_it(self, world, standfast):
        one, two = world.dead(), world.dead()
        assert standfast("dead", "retry", one).stdout == f"{one}  requeued\n"
        assert standfast("dead", "discard", two).stdout == f"{two}  discarded\n"
        assert (world.state(one), world.state(two)) == (State.READY, State.CANCELLED)

    @pytest.mark.parametrize("command", ["retry", "discard"])
    @pytest.mark.parametrize("state", [State.SCHEDULED, State.RUNNING, State.COMPLETED])
    def test_one_that_is_not_dead_is_refused(self, world, standfast, command, state):
        job_id = world.one_of_each()[state]
        assert_refused(standfast("dead", command, job_id), 1, job_id)
        assert world.state(job_id) is state

    @pytest.mark.parametrize(("command", "state"), [("retry", State.READY), ("discard", State.CANCELLED)])
    def test_all_goes_through_every_page_after_asking_with_the_count(
        self, world, standfast, monkeypatch, command, state
    ):
        monkeypatch.setattr(lookup, "_PAGE", 2)
        ids = [world.dead() for _ in range(5)]
        result = standfast("dead", command, "--all", input="y\n")
        assert result.exit_code == 0
        assert f"{command.capitalize()} 5 dead jobs? [y/N]" in result.stderr
        assert result.stdout == f"5 dead jobs were {'requeued' if command == 'retry' else 'discarded'}.\n"
        assert {world.state(job_id) for job_id in ids} == {state}

    def test_yes_does_not_ask(self, world, standfast):
        world.dead()
        result = standfast("dead", "retry", "--all", "--yes", "--json")
        assert answer(result) == {"done": 1, "errors": []}
        assert result.stderr == ""

    def test_a_no_changes_nothing(self, world, standfast):
        job_id = world.dead()
        result = standfast("dead", "discard", "--all", input="n\n")
        assert result.exit_code == 1
        assert result.stderr.endswith("standfast: nothing was done\n")
        assert world.state(job_id) is State.DEAD

    def test_with_nobody_to_ask_it_changes_nothing_and_names_the_option(self, world, standfast):
        job_id = world.dead()
        result = standfast("dead", "discard", "--all", input="")
        assert result.exit_code == 2
        assert "add --yes" in result.stderr.splitlines()[-1]
        assert world.state(job_id) is State.DEAD

    def test_an_interrupted_question_is_an_interruption(self, world, standfast, monkeypatch):
        aborted = click.Abort()  # as click raises it; a real Ctrl-C may come just before the read and be lost
        aborted.__context__ = KeyboardInterrupt()

        def interrupted(*_args, **_how):
            raise aborted

        job_id = world.dead()
        monkeypatch.setattr(click, "confirm", interrupted)
        assert_refused(standfast("dead", "retry", "--all"), 130, "interrupted")
        assert world.state(job_id) is State.DEAD

    def test_one_settled_by_someone_else_meanwhile_is_passed_over(self, world, standfast, monkeypatch):
        mine, theirs = sorted([world.dead(), world.dead()], reverse=True)
        page = world.do(world.verbs.list_jobs(JobFilter(states=(State.DEAD,)))).jobs
        monkeypatch.setattr(bulk, "pages", lambda _backend, _which: iter([page]))
        world.do(change_job(world.verbs, JobAction.RETRY, theirs))
        assert answer(standfast("dead", "retry", "--all", "--yes", "--json")) == {"done": 1, "errors": []}
        assert world.state(mine) is State.READY

    def test_one_retried_by_someone_else_while_a_person_decides_keeps_its_time(self, world, monkeypatch):
        """It has failed again since, and waits for its backoff: it is none of the dead jobs that were counted."""
        mine, theirs = world.dead(), world.dead()

        def decide(_):
            world.do(change_job(world.verbs, JobAction.RETRY, theirs))
            world.end(theirs, Move.RETRY, delay=timedelta(hours=1))

        monkeypatch.setattr(bulk, "confirm", decide)
        which = JobFilter(states=(State.DEAD,), task="send_email")
        deed = bulk.BulkRequest(JobAction.RETRY, which, "dead job", "requeued", {})
        bulk.act_on_selected(StoreOptions(as_json=True), world.backend, deed, yes=False)
        assert (world.state(mine), world.state(theirs)) == (State.READY, State.SCHEDULED)
        (entry,) = run_procedure(world.backend.run, read_trail(world.verbs)).entries
        assert entry.after == "1 done, 0 failed, 1 passed over"

    @pytest.mark.parametrize(
        "args", [(), ("--all", "some-id"), ("--task", "send_email", "some-id"), ("--error", "x", "some-id")]
    )
    def test_ids_or_a_selection_but_not_both(self, standfast, args):
        assert_refused(standfast("dead", "retry", *args), 2, "or --all")


class TestSelecting:
    @pytest.fixture
    def dead(self, world):
        """Three dead jobs that differ."""
        return {
            "mail": world.dead(),
            "report": world.dead(task="report", queue="reports", failure=Failure("TimeoutError", "took TOO long")),
            "quick": world.dead(task="report", queue="quick"),
        }

    @pytest.mark.parametrize(
        ("options", "meant"),
        [
            (("--task", "report"), {"report", "quick"}),
            (("--queue", "mail"), {"mail"}),
            (("--error", "too long"), {"report"}),
            (("--error", "SMTPError", "--task", "report"), {"quick"}),
            (("--all", "--queue", "reports"), {"report"}),
        ],
    )
    def test_task_queue_and_error_select_for_every_command(self, world, standfast, dead, options, meant):
        narrowed = [option for option in options if option != "--all"]
        listed = answer(standfast("dead", "list", *narrowed, "--json"))
        assert {job["id"] for job in listed} == {dead[name] for name in meant}
        result = standfast("dead", "retry", *options, input="y\n")
        assert f"Retry {len(meant)} dead job{'s' if len(meant) > 1 else ''}? [y/N]" in result.stderr
        assert {name for name, job_id in dead.items() if world.state(job_id) is State.READY} == meant

    def test_discard_selects_too(self, world, standfast, dead):
        assert answer(standfast("dead", "discard", "--error", "too long", "--yes", "--json"))["done"] == 1
        assert [world.state(job_id) for job_id in dead.values()] == [State.DEAD, State.CANCELLED, State.DEAD]

    def test_where_nothing_matches_it_says_so_and_does_not_ask(self, standfast, dead):
        assert dead
        for command in ("list", "retry", "discard"):
            assert standfast("dead", command, "--error", "unheard of").stdout == "No dead job matches.\n"

    @pytest.mark.parametrize(
        ("args", "words"),
        [
            (("dead", "retry", "--task", "send_emai"), "knows a task 'send_emai'; did you mean send_email?"),
            (("jobs", "cancel", "--queue", "mial"), "knows a queue 'mial'; did you mean mail?"),
            (("jobs", "cancel", "--queue", "zzz"), "knows a queue 'zzz'."),
        ],
    )
    def test_a_name_that_nothing_has_is_told_with_the_one_that_was_meant(self, world, standfast, args, words):
        world.dead()
        said = standfast(*args, "--yes").stdout
        assert re.fullmatch(r"No (dead )?job matches: no job and no worker " + re.escape(words) + "\n", said)

    def test_dead_jobs_are_discarded_and_not_cancelled(self, standfast, dead):
        assert dead
        refused = standfast("jobs", "cancel", "--state", "dead", "--yes")
        assert_refused(refused, 2, "name one of these; dead jobs are dropped by `standfast dead discard`")

    def test_a_taken_key_is_told_with_the_job_that_has_it_and_the_others_go_on(self, world, standfast):
        kept = world.dead(key="order-42")
        holder = world.enqueue(key="order-42", delay=timedelta(hours=1))
        other = world.dead()
        result = standfast("dead", "retry", "--all", "--yes")
        assert result.exit_code == 1
        assert result.stdout == "1 dead job was requeued.\n"
        (said,) = result.stderr.splitlines()
        assert kept in said
        assert holder in said
        assert (world.state(kept), world.state(other)) == (State.DEAD, State.READY)

    def test_a_taken_key_is_told_for_a_job_by_its_id_too(self, world, standfast):
        kept = world.dead(key="order-42")
        holder = world.enqueue(key="order-42", delay=timedelta(hours=1))
        assert_refused(standfast("dead", "retry", kept), 1, holder)
        (told,) = json.loads(standfast("dead", "retry", kept, "--json").stdout)
        assert holder in told["error"]
        bulk_answer = json.loads(standfast("dead", "retry", "--all", "--yes", "--json").stdout)
        assert (bulk_answer["done"], bulk_answer["errors"][0]["id"]) == (0, kept)

    def test_of_many_failures_only_some_are_told_one_by_one(self, world, standfast, monkeypatch):
        monkeypatch.setattr(bulk, "_MOST_TOLD", 2)
        for number in range(5):
            world.dead(key=f"order-{number}")
            world.enqueue(key=f"order-{number}", delay=timedelta(hours=1))
        said = standfast("dead", "retry", "--all", "--yes").stderr.splitlines()
        assert len(said) == 3
        assert "3 more could not be done" in said[-1]

    def test_a_thousand_take_a_few_calls_of_the_store(self, world, monkeypatch):
        """And not one for each: what is left of them is asked for one by one, here a job with a taken key."""
        ids = [world.dead() for _ in range(20)] + [world.dead(key="k")]
        world.enqueue(key="k", delay=timedelta(hours=1))
        calls = Counter()
        run = world.backend.run
        monkeypatch.setattr(world.backend, "run", lambda verb: (calls.update([verb.name]), run(verb))[1])
        deed = bulk.BulkRequest(JobAction.RETRY, JobFilter(states=(State.DEAD,)), "dead job", "requeued", {})
        with pytest.raises(click.exceptions.Exit):
            bulk.act_on_selected(StoreOptions(as_json=True), world.backend, deed, yes=True)
        assert calls["change_jobs"] <= 2
        assert [world.state(job_id) for job_id in ids] == [State.READY] * 20 + [State.DEAD]

    def test_jobs_that_options_select_are_looked_for_once(self, world, monkeypatch):
        """Those that were counted are those to which it is done: one that dies while a person decides is not."""
        monkeypatch.setattr(lookup, "_PAGE", 2)
        ids, calls, run = [world.dead() for _ in range(5)], Counter(), world.backend.run
        monkeypatch.setattr(world.backend, "run", lambda verb: (calls.update([verb.name]), run(verb))[1])
        later: list[str] = []
        monkeypatch.setattr(bulk, "confirm", lambda _: later.append(world.dead()))
        which = JobFilter(states=(State.DEAD,), task="send_email")
        deed = bulk.BulkRequest(JobAction.RETRY, which, "dead job", "requeued", {})
        bulk.act_on_selected(StoreOptions(as_json=True), world.backend, deed, yes=False)
        assert calls["list_jobs"] == 4, "three pages, and an empty one"
        assert {world.state(job_id) for job_id in ids} == {State.READY}
        assert world.state(later[0]) is State.DEAD

    def test_a_user_without_a_name_is_told_by_number(self, world, standfast, monkeypatch):
        """A container may run as a number that no user of it has."""
        for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(os, "getuid", lambda: 54_321)
        world.dead()
        assert standfast("dead", "retry", "--all", "--yes").stdout == "1 dead job was requeued.\n"
        (entry,) = run_procedure(world.backend.run, read_trail(world.verbs)).entries
        assert entry.who == "uid 54321"

    def test_an_interruption_says_how_many_are_done_here_and_in_the_audit(self, world, standfast, monkeypatch):
        monkeypatch.setattr(lookup, "_PAGE", 2)
        ids = [world.dead() for _ in range(5)]
        changed = bulk.change_many

        def interrupted(verbs, changes, *how):
            if changes.seen == 4:
                raise KeyboardInterrupt
            return changed(verbs, changes, *how)

        monkeypatch.setattr(bulk, "change_many", interrupted)
        result = standfast("dead", "retry", "--all", "--yes")
        assert (result.exit_code, result.stdout) == (130, "4 dead jobs of 5 were requeued.\n")
        assert sorted(world.state(job_id) for job_id in ids) == [State.DEAD] + [State.READY] * 4
        (entry,) = run_procedure(world.backend.run, read_trail(world.verbs)).entries
        assert (entry.what, entry.by, entry.asked) == (
            "jobs.bulk",
            "command line",
            {"action": "retry", "states": "dead"},
        )
        assert entry.after == "4 done, 0 failed, 0 passed over"
