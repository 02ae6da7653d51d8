"""`dead`: a person decides what becomes of the dead, and a careless one is asked first."""

import click
import pytest
from cli_world import answer, assert_refused

from holdfast.cli import bulk
from holdfast.core.states import State
from holdfast.store.protocol import JobFilter


class TestDead:
    def test_the_list_shows_only_the_dead_with_their_errors(self, world, holdfast):
        jobs = world.one_of_each()
        text = holdfast("dead", "list").stdout
        assert jobs[State.DEAD] in text
        assert "SMTPError: 451 try again" in text
        assert jobs[State.READY] not in text
        assert [job["id"] for job in answer(holdfast("dead", "list", "--json"))] == [jobs[State.DEAD]]

    def test_none_is_told_in_words(self, holdfast):
        assert holdfast("dead", "list").stdout == "No dead jobs.\n"
        assert holdfast("dead", "retry", "--all").stdout == "No dead jobs.\n"
        assert answer(holdfast("dead", "discard", "--all", "--json")) == {"done": 0}

    def test_retry_makes_it_ready_and_discard_cancels_it(self, world, holdfast):
        one, two = world.dead(), world.dead()
        assert holdfast("dead", "retry", one).stdout == f"{one}  requeued\n"
        assert holdfast("dead", "discard", two).stdout == f"{two}  discarded\n"
        assert (world.state(one), world.state(two)) == (State.READY, State.CANCELLED)

    @pytest.mark.parametrize("command", ["retry", "discard"])
    @pytest.mark.parametrize("state", [State.SCHEDULED, State.RUNNING, State.COMPLETED])
    def test_one_that_is_not_dead_is_refused(self, world, holdfast, command, state):
        job_id = world.one_of_each()[state]
        assert_refused(holdfast("dead", command, job_id), 1, job_id)
        assert world.state(job_id) is state

    @pytest.mark.parametrize(("command", "state"), [("retry", State.READY), ("discard", State.CANCELLED)])
    def test_all_goes_through_every_page_after_asking_with_the_count(
        self, world, holdfast, monkeypatch, command, state
    ):
        monkeypatch.setattr(bulk, "_PAGE", 2)
        ids = [world.dead() for _ in range(5)]
        result = holdfast("dead", command, "--all", input="y\n")
        assert result.exit_code == 0
        assert f"{command.capitalize()} 5 dead jobs? [y/N]" in result.stderr
        assert result.stdout == f"5 dead jobs were {'requeued' if command == 'retry' else 'discarded'}.\n"
        assert {world.state(job_id) for job_id in ids} == {state}

    def test_yes_does_not_ask(self, world, holdfast):
        world.dead()
        result = holdfast("dead", "retry", "--all", "--yes", "--json")
        assert answer(result) == {"done": 1}
        assert result.stderr == ""

    def test_a_no_changes_nothing(self, world, holdfast):
        job_id = world.dead()
        result = holdfast("dead", "discard", "--all", input="n\n")
        assert result.exit_code == 1
        assert result.stderr.endswith("holdfast: nothing was done\n")
        assert world.state(job_id) is State.DEAD

    def test_with_nobody_to_ask_it_changes_nothing_and_names_the_option(self, world, holdfast):
        job_id = world.dead()
        result = holdfast("dead", "discard", "--all", input="")
        assert result.exit_code == 2
        assert "add --yes" in result.stderr.splitlines()[-1]
        assert world.state(job_id) is State.DEAD

    def test_an_interrupted_question_is_an_interruption(self, world, holdfast, monkeypatch):
        aborted = click.Abort()  # as click raises it; a real Ctrl-C may come just before the read and be lost
        aborted.__context__ = KeyboardInterrupt()

        def interrupted(*_args, **_how):
            raise aborted

        job_id = world.dead()
        monkeypatch.setattr(click, "confirm", interrupted)
        assert_refused(holdfast("dead", "retry", "--all"), 130, "interrupted")
        assert world.state(job_id) is State.DEAD

    def test_one_settled_by_someone_else_meanwhile_is_passed_over(self, world, holdfast, monkeypatch):
        mine, theirs = sorted([world.dead(), world.dead()], reverse=True)
        page = world.do(world.verbs.list_jobs(JobFilter(states=(State.DEAD,))))
        monkeypatch.setattr(bulk, "_every_dead", lambda _backend: iter(page))
        world.do(world.verbs.requeue(theirs))
        assert answer(holdfast("dead", "retry", "--all", "--yes", "--json")) == {"done": 1}
        assert world.state(mine) is State.READY

    @pytest.mark.parametrize("args", [(), ("--all", "some-id")])
    def test_ids_or_all_but_not_both(self, holdfast, args):
        assert_refused(holdfast("dead", "retry", *args), 2, "or --all")
