"""`queues`, `workers`, `stats`, `why`: the store at a glance."""

import re
from datetime import UTC, datetime, timedelta
from unittest.mock import ANY

import msgspec
import pytest
from cli_world import WORKER, answer, bare

from standfast.model.crash import Death, DeathKind
from standfast.model.states import Move, State
from standfast.observe.catalogue import Catalogue, TaskEntry, publish
from standfast.stores.values import Vitals, WorkerBeat, WorkerInfo
from standfast.stores.verb import run_procedure


class TestQueues:
    def test_the_list_counts_every_state(self, world, standfast):
        world.one_of_each()
        mail, other = answer(standfast("queues", "list", "--json"))
        assert (mail["name"], other["name"]) == ("mail", "other")
        assert mail["states"] == {state.value: int(state is not State.HELD) for state in State}
        assert other["states"]["held"] == 1
        again = answer(standfast("queues", "--json"))
        assert [queue["states"] for queue in again] == [mail["states"], other["states"]]

    def test_pause_and_resume(self, world, standfast):
        world.enqueue()
        told = standfast("queues", "pause", "mail").stdout
        assert told == "Queue 'mail' is paused; running jobs go on. `standfast queues resume mail` undoes it.\n"
        assert answer(standfast("queues", "--json"))[0]["paused_at"] is not None
        assert "now" in standfast("queues").stdout
        assert "goes on" in standfast("queues", "resume", "mail").stdout
        assert answer(standfast("queues", "--json"))[0]["paused_at"] is None

    def test_pause_and_resume_answer_in_json(self, standfast):
        assert answer(standfast("queues", "pause", "mail", "--json")) == {
            "name": "mail",
            "paused_at": ANY,
            "jobs": 0,
            "workers": 1,
        }
        assert answer(standfast("queues", "resume", "mail", "--json"))["paused_at"] is None

    def test_pausing_what_is_there_needs_no_further_word(self, world, standfast):
        world.enqueue()
        assert len(standfast("queues", "pause", "mail").stdout.splitlines()) == 1

    def test_a_queue_that_holds_nothing_is_paused_and_that_is_said(self, world, standfast):
        result = standfast("queues", "pause", "mial")
        assert result.exit_code == 0
        assert "It holds no job: `standfast queues`" in result.stdout
        assert world.do(world.verbs.queues())[0].paused_at is not None

    def test_that_nobody_serves_it_is_said_too(self, world, standfast):
        world.do(world.verbs.bury(WORKER, Death(DeathKind.STOPPED)))
        world.do(world.verbs.register(WorkerInfo("w2", "s1", "web-01", 1, timedelta(seconds=15), ("mail",))))
        assert "no running worker serves it" in standfast("queues", "pause", "mial").stdout
        assert "no running worker" not in standfast("queues", "pause", "mail").stdout

    def test_options_may_stand_before_the_subcommand(self, world):
        assert bare("queues", "--url", world.url, "pause", "mail").exit_code == 0
        assert world.do(world.verbs.queues())[0].paused_at is not None

    def test_none_is_told_in_words(self, standfast):
        assert standfast("queues").stdout == "No queue holds a job, and none is paused.\n"

    def test_a_narrow_terminal_is_respected(self, world, standfast):
        world.one_of_each()
        world.do(world.verbs.pause("mail"))
        lines = standfast("queues", env={"COLUMNS": "80"}).stdout.splitlines()
        assert all(len(line) <= 80 for line in lines)
        assert "RUNNING" in lines[0]


@pytest.mark.parametrize("width", [60, 80, 120])
class TestWidths:
    def test_a_queue_keeps_its_name_and_that_it_is_paused(self, world, standfast, width):
        world.enqueue(queue="a-queue-with-a-rather-long-name")
        world.do(world.verbs.pause("a-queue-with-a-rather-long-name"))
        lines = standfast("queues", env={"COLUMNS": str(width)}).stdout.splitlines()
        assert all(len(line) <= width for line in lines)
        assert lines[0].startswith("QUEUE")
        assert "PAUSED" in lines[0]
        assert lines[-1].startswith("a-queue-with-a-rather-long-name ")
        assert "…" not in lines[-1]

    def test_a_queue_keeps_what_is_ready_running_and_dead(self, world, standfast, width):
        """What else is counted goes before."""
        world.enqueue(queue="a-rather-long-name")
        world.do(world.verbs.pause("a-rather-long-name"))
        head = standfast("queues", env={"COLUMNS": str(width)}).stdout.splitlines()[0].split()
        assert {"QUEUE", "READY", "RUNNING", "DEAD", "PAUSED"} <= set(head)

    def test_a_worker_keeps_its_id_and_its_last_beat(self, world, standfast, width):
        host = "a-machine.with-a-very-long-name.example.com"
        world.do(
            world.verbs.register(WorkerInfo("f" * 16, "s1", host, 4_000_000, timedelta(seconds=15), ("mail",)))
        )
        lines = standfast("workers", env={"COLUMNS": str(width)}).stdout.splitlines()
        assert all(len(line) <= width for line in lines)
        assert "LAST BEAT" in lines[0]
        assert lines[-1].startswith("f" * 16)

    def test_a_job_keeps_its_id_its_task_and_its_state(self, world, standfast, width):
        job_id = world.dead(task="a.very.long.name.of.a.task.in.some.package")
        lines = standfast("jobs", "list", env={"COLUMNS": str(width)}).stdout.splitlines()
        assert all(len(line) <= width for line in lines)
        assert re.match(f"[^ ]*{job_id[-8:]}  a.very", lines[-1])
        assert " dead" in lines[-1]

    def test_a_dead_job_keeps_its_id_and_its_error(self, world, standfast, width):
        job_id = world.dead()
        lines = standfast("dead", "list", env={"COLUMNS": str(width)}).stdout.splitlines()
        assert all(len(line) <= width for line in lines)
        assert job_id.endswith(lines[-1].split()[0])
        assert "SMTPErr" in lines[-1]

    def test_a_history_keeps_its_claims(self, world, standfast, width):
        lines = standfast("jobs", "show", world.dead(), env={"COLUMNS": str(width)}).stdout.splitlines()
        head = next(line for line in lines if line.strip().startswith("CLAIM"))
        assert "ENDED" in head
        assert len(head) <= width


class TestWorkersStatsWhy:
    def test_workers_are_listed(self, world, standfast):
        world.running()
        (listed,) = answer(standfast("workers", "--json"))
        assert (listed["id"], listed["host"], listed["pid"], listed["running"]) == (WORKER, "web-01", 4242, 1)
        assert listed["live"] is True
        assert listed["lease"] == 15
        line = standfast("workers").stdout.splitlines()[-1]
        assert {WORKER, "web-01", "4242", "all", "1/20", "now"} <= set(line.split())

    def test_workers_say_how_they_are(self, world, standfast):
        """Memory and load are those of the last beat; a worker of an older release has none, and is listed too."""
        told = Vitals(memory=52_428_800, running=5, slots=20, lag=0.001, pulse_age=0.2, done=7)
        older = WorkerInfo("f" * 16, "s1", "web-02", 4243, timedelta(seconds=15))
        world.do(world.verbs.register(older))
        world.do(world.verbs.beat([WorkerBeat(WORKER, vitals=told), WorkerBeat(older.id)]))
        first, second = answer(standfast("workers", "--json"))
        assert first["vitals"] == msgspec.to_builtins(told)
        assert second["vitals"] is None
        head, _, line, other = standfast("workers", env={"COLUMNS": "120"}).stdout.splitlines()
        assert {"LOAD", "MEMORY"} <= set(head.split())
        assert "25 %" in line
        assert "52 MB" in line
        assert "%" not in other

    @pytest.mark.parametrize("late", [{"lag": 0.7}, {"lag": 0.0, "pulse_age": 1.7}])
    def test_an_event_loop_that_is_late_is_told(self, world, standfast, late):
        world.do(world.verbs.beat([WorkerBeat(WORKER, vitals=Vitals(running=20, slots=20, **late))]))
        assert "100 %, 0.7 s late" in standfast("workers", env={"COLUMNS": "120"}).stdout

    def test_a_store_without_workers_says_how_to_start_one(self, world, standfast):
        world.do(world.verbs.bury(WORKER, Death(DeathKind.STOPPED)))
        assert "start one with `standfast worker MODULE:APP`" in standfast("workers").stdout
        assert "None is registered" in standfast("stats").stdout
        assert answer(standfast("workers", "--json")) == []

    def test_stats_map_every_state_to_its_count(self, world, standfast):
        world.one_of_each()
        stats = answer(standfast("stats", "--json"))
        assert stats["states"] == {state.value: 1 for state in State}
        assert [queue["name"] for queue in stats["queues"]] == ["mail", "other"]
        assert [worker["id"] for worker in stats["workers"]] == [WORKER]

    def test_stats_of_an_empty_store_are_zeros(self, standfast):
        assert answer(standfast("stats", "--json"))["states"] == {state.value: 0 for state in State}
        assert standfast("stats").exit_code == 0

    def test_stats_for_people_show_states_queues_and_workers(self, world, standfast):
        world.one_of_each()
        text = standfast("stats").stdout
        assert all(state.value in text for state in State)
        assert {"mail", "other", WORKER} <= set(text.split())

    def test_why_tells_the_reason(self, world, standfast):
        job_id = world.end(world.enqueue(task="mystery"), Move.BLOCK, reason="no_worker")
        assert standfast("why", job_id).stdout.startswith("No running worker knows task 'mystery'")
        told = answer(standfast("why", job_id, "--json"))
        assert (told["id"], told["state"], told["cause"]) == (job_id, "blocked", "task_unknown")
        assert told["text"].startswith("No running worker knows")
        assert told["remedy"] == "deploy or start a worker that registers it, and it will run"

    def test_why_names_the_task_that_a_misspelt_one_is_like(self, world, standfast):
        """As a release of an app has published it; not where the name is right and only the version is unknown."""
        published = Catalogue("shop", "1", datetime.now(UTC), "web-01", "1.0", (TaskEntry("send_email"),))
        run_procedure(world.do, publish(world.verbs, published))
        job_id = world.end(world.enqueue(task="send_emial"), Move.BLOCK, reason="no_worker")
        assert answer(standfast("why", job_id, "--json"))["remedy"] == (
            "did you mean task 'send_email'? then cancel this job and enqueue that one; else deploy or start a"
            " worker that registers it, and it will run"
        )
        newer = world.end(world.enqueue(task="send_email", version=2), Move.BLOCK, reason="no_worker")
        assert answer(standfast("why", newer, "--json"))["remedy"].startswith("deploy or start")

    def test_where_there_is_nothing_to_do_there_is_no_remedy(self, world, standfast):
        told = answer(standfast("why", world.running(), "--json"))
        assert (told["cause"], told["remedy"]) == ("running", None)
