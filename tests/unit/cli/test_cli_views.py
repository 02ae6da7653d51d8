"""`queues`, `workers`, `stats`, `why`: the store at a glance."""

from cli_world import WORKER, answer, bare

from holdfast.core.crash import Death, DeathKind
from holdfast.core.states import Move, State


class TestQueues:
    def test_the_list_counts_every_state(self, world, holdfast):
        world.one_of_each()
        mail, other = answer(holdfast("queues", "list", "--json"))
        assert (mail["name"], other["name"]) == ("mail", "other")
        assert mail["states"] == {state.value: int(state is not State.HELD) for state in State}
        assert other["states"]["held"] == 1
        assert answer(holdfast("queues", "--json")) == [mail, other]

    def test_pause_and_resume(self, world, holdfast):
        world.enqueue()
        assert "is paused" in holdfast("queues", "pause", "mail").stdout
        assert answer(holdfast("queues", "--json"))[0]["paused_at"] is not None
        assert "now" in holdfast("queues").stdout
        assert "goes on" in holdfast("queues", "resume", "mail").stdout
        assert answer(holdfast("queues", "--json"))[0]["paused_at"] is None

    def test_pause_and_resume_answer_in_json(self, holdfast):
        assert answer(holdfast("queues", "pause", "mail", "--json")) == {"queue": "mail", "paused": True}
        assert answer(holdfast("queues", "resume", "mail", "--json")) == {"queue": "mail", "paused": False}

    def test_options_may_stand_before_the_subcommand(self, world):
        assert bare("queues", "--url", world.url, "pause", "mail").exit_code == 0
        assert world.do(world.verbs.queues())[0].paused_at is not None

    def test_none_is_told_in_words(self, holdfast):
        assert holdfast("queues").stdout == "No queue holds a job, and none is paused.\n"

    def test_a_narrow_terminal_is_respected(self, world, holdfast):
        world.one_of_each()
        world.do(world.verbs.pause("mail"))
        lines = holdfast("queues", env={"COLUMNS": "80"}).stdout.splitlines()
        assert all(len(line) <= 80 for line in lines)
        assert "RUNNING" in lines[0]


class TestWorkersStatsWhy:
    def test_workers_are_listed(self, world, holdfast):
        world.running()
        (listed,) = answer(holdfast("workers", "--json"))
        assert (listed["id"], listed["host"], listed["pid"], listed["running"]) == (WORKER, "web-01", 4242, 1)
        assert listed["live"] is True
        assert listed["lease"] == 15
        line = holdfast("workers").stdout.splitlines()[-1]
        assert {WORKER, "web-01", "4242", "all", "1/20", "now"} <= set(line.split())

    def test_a_store_without_workers_says_how_to_start_one(self, world, holdfast):
        world.do(world.verbs.bury(WORKER, Death(DeathKind.STOPPED)))
        assert "start one with `holdfast worker MODULE:APP`" in holdfast("workers").stdout
        assert "None is registered" in holdfast("stats").stdout
        assert answer(holdfast("workers", "--json")) == []

    def test_stats_map_every_state_to_its_count(self, world, holdfast):
        world.one_of_each()
        stats = answer(holdfast("stats", "--json"))
        assert stats["states"] == {state.value: 1 for state in State}
        assert [queue["name"] for queue in stats["queues"]] == ["mail", "other"]
        assert [worker["id"] for worker in stats["workers"]] == [WORKER]

    def test_stats_of_an_empty_store_are_zeros(self, holdfast):
        assert answer(holdfast("stats", "--json"))["states"] == {state.value: 0 for state in State}
        assert holdfast("stats").exit_code == 0

    def test_stats_for_people_show_states_queues_and_workers(self, world, holdfast):
        world.one_of_each()
        text = holdfast("stats").stdout
        assert all(state.value in text for state in State)
        assert {"mail", "other", WORKER} <= set(text.split())

    def test_why_tells_the_reason(self, world, holdfast):
        job_id = world.end(world.enqueue(task="mystery"), Move.BLOCK, reason="no_worker")
        assert holdfast("why", job_id).stdout.startswith("No running worker knows task 'mystery'")
        told = answer(holdfast("why", job_id, "--json"))
        assert (told["id"], told["state"]) == (job_id, "blocked")
        assert told["why"].startswith("No running worker knows")
