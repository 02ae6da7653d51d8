"""`jobs show`: everything about one job, whatever is in it."""

import json
import re
from datetime import datetime, timedelta

import pytest
from cli_schedules import keep
from cli_world import CONTRACT, SMTP, WORKER, World, answer, assert_refused, bare

from standfast import Every
from standfast.model.codec import add_trace_context
from standfast.model.crash import Death, DeathKind
from standfast.model.job import HISTORY_FIRST, HISTORY_LAST, Failure, OnConflict, OnLate
from standfast.model.memos import FOR_EVER, signal_reason
from standfast.model.states import Move, State


class TestJobsShow:
    def test_json_is_an_object_with_everything(self, world, standfast):
        shown = answer(standfast("jobs", "show", world.running(), "--json"))
        assert shown.keys() >= CONTRACT | {
            *("reason", "created_at", "finished_at", "fence", "crashes", "group", "cancel_requested"),
            *("worker", "priority", "version", "args", "result", "progress", "attempts", "why"),
        }
        assert {name: each["value"] for name, each in shown["args"].items()} == {"to": "a@example.com", "n": [1, 2]}
        assert shown["progress"] == {"done": 42.0, "total": 100.0, "note": None, "share": 0.42}
        assert shown["why"]["text"].startswith(f"It runs on worker {WORKER}")
        assert datetime.fromisoformat(shown["run_at"]).tzinfo is not None

    def test_json_tells_the_history(self, world, standfast):
        (attempt,) = answer(standfast("jobs", "show", world.dead(), "--json"))["attempts"]
        times = {"started", "started_at", "ended_at"}
        assert attempt.keys() == {"fence", "worker", *times, "how", "error", "traceback", "log", "folded", "took"}
        assert (attempt["fence"], attempt["how"], attempt["error"]) == (1, "die", "SMTPError: 451 try again")

    def test_who_came_down_before_its_start_was_marked_had_started(self, world, standfast):
        """Its supervisor knows it from the notes; of what was only held it knows that it had not."""
        blamed, held = world.enqueue(), world.enqueue()
        ref = world.claim(blamed).ref
        world.claim(held)
        world.do(world.verbs.bury(WORKER, Death(DeathKind.CRASHED, frozenset({ref}), "its process exited")))
        for job, started, words in ((blamed, True, "time not known"), (held, False, "not started")):
            (attempt,) = answer(standfast("jobs", "show", job, "--json"))["attempts"]
            assert (attempt["started_at"], attempt["started"]) == (None, started)
            assert words in standfast("jobs", "show", job).stdout

    @pytest.mark.parametrize(
        ("together", "words"),
        [(1, "alone in a process"), (4, "in a separate process, with at most 1 other suspect")],
    )
    def test_with_whom_a_suspect_runs_is_shown_until_it_is_over(self, world, standfast, together, words):
        ids = [world.enqueue() for _ in range(together)]
        refs = frozenset(world.claim(each).ref for each in ids)
        world.do(world.verbs.bury(WORKER, Death(DeathKind.CRASHED, refs, "its process exited")))
        assert re.search(rf"\n  suspect +{words} *\n", standfast("jobs", "show", ids[0]).stdout)
        standfast("jobs", "cancel", ids[0])
        assert world.state(ids[0]) is State.CANCELLED
        assert "suspect  " not in standfast("jobs", "show", ids[0]).stdout

    def test_the_trace_that_it_belongs_to_is_shown_if_there_is_one(self, world, standfast):
        trace = "0af7651916cd43dd8448eb211c80319c"
        payload = add_trace_context(b'{"v":1,"args":{}}', {"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
        assert re.search(rf"\n  trace +{trace}\n", standfast("jobs", "show", world.enqueue(payload=payload)).stdout)
        assert "trace" not in standfast("jobs", "show", world.enqueue()).stdout

    def test_key_tags_metadata_and_times_are_shown(self, world, standfast):
        job_id = world.enqueue(
            key="order-42",
            tags=("import", "night"),
            metadata={"customer": "7"},
            start_within=timedelta(minutes=5),
            on_late=OnLate.EXPIRE,
        )
        text = standfast("jobs", "show", job_id).stdout
        for part in ("order-42", "import, night", "customer=7", "in 5 min); it expires if it comes later"):
            assert part in text
        shown = answer(standfast("jobs", "show", job_id, "--json"))
        assert (shown["key"], shown["tags"], shown["metadata"]) == (
            "order-42",
            ["import", "night"],
            {"customer": "7"},
        )
        assert (shown["on_late"], shown["after"], shown["result_until"]) == ("expire", None, None)
        assert datetime.fromisoformat(shown["start_by"]).tzinfo is not None

    def test_whose_place_it_takes_is_shown(self, world, standfast):
        running = world.running(key="order-42")
        job_id = world.enqueue(key="order-42", on_conflict=OnConflict.REPLACE)
        assert f"job {running}, whose place it takes" in standfast("jobs", "show", job_id).stdout
        assert answer(standfast("jobs", "show", job_id, "--json"))["after"] == running

    def test_what_it_waits_for_is_shown_in_words(self, world, standfast):
        job_id = world.end(world.enqueue(), Move.SNOOZE, delay=FOR_EVER, reason=signal_reason("approved"))
        lines = [" ".join(line.split()) for line in standfast("jobs", "show", job_id).stdout.splitlines()]
        assert {"due when it comes", "waits for signal approved"} <= set(lines)
        assert not any("signal:" in line for line in lines)
        assert answer(standfast("jobs", "show", job_id, "--json"))["reason"] == "signal:approved"

    @pytest.mark.parametrize(
        ("move", "words"),
        [
            (Move.COMPLETE, "completed"),
            (Move.RETRY, "failed"),
            (Move.SNOOZE, "put off"),
            (Move.RELEASE, "given back"),
            (Move.BLOCK, "task unknown"),
            (Move.DIE, "failed for good"),
            (Move.CANCEL, "cancelled"),
        ],
    )
    def test_how_claims_ended_is_told_in_words(self, world, standfast, move, words):
        job_id = world.end(world.enqueue(), move)
        text = standfast("jobs", "show", job_id, env={"COLUMNS": "120"}).stdout
        history = text[text.index("History") :]
        assert f" {words} " in history
        assert f" {move.value} " not in history

    def test_of_a_long_history_what_lies_between_is_counted(self, world, standfast):
        """In words between the first and the last claims, and in JSON by how they ended."""
        job_id, bound = world.enqueue(max_attempts=1000), HISTORY_FIRST + HISTORY_LAST
        for number in range(bound + 12):
            how = {"failure": SMTP} if number == HISTORY_FIRST else {}
            world.end(job_id, Move.RETRY if how else Move.SNOOZE, **how)
        text = standfast("jobs", "show", job_id, env={"COLUMNS": "160"}).stdout
        assert re.search(r"\n +10 .*\n +… +12 more +11 put off, 1 failed *\n +23 ", text)
        attempts = answer(standfast("jobs", "show", job_id, "--json"))["attempts"]
        assert {each["how"]: each["folded"] for each in attempts if each["folded"]} == {"snooze": 11, "retry": 1}

    def test_for_how_long_a_result_is_kept_is_shown(self, world, standfast):
        done = world.end(world.enqueue(), Move.COMPLETE, result=b"1", keep_result=timedelta(hours=2))
        assert "kept until " in standfast("jobs", "show", done).stdout
        assert answer(standfast("jobs", "show", done, "--json"))["result_until"] is not None

    def test_the_log_of_the_last_attempt_is_shown_in_full_and_all_of_it_in_json(self, world, standfast):
        job_id = world.enqueue()
        world.end(job_id, Move.RETRY, failure=SMTP, log="one\ntwo")
        world.end(job_id, Move.DIE, failure=SMTP, log="three\nfo\x1bur")
        text = standfast("jobs", "show", job_id).stdout
        assert "Log of claim 2\n  three\n  fo�ur\n" in text
        assert "earlier claims logged too: 1 (2 lines); --log shows it all" in text
        assert [
            each["log"]["text"] for each in answer(standfast("jobs", "show", job_id, "--json"))["attempts"]
        ] == ["one\ntwo", "three\nfo\x1bur"]

    def test_a_result_is_decoded(self, world, standfast):
        done = world.end(world.enqueue(), Move.COMPLETE, result=b'{"sent":123456789012345678901234567890}')
        result = answer(standfast("jobs", "show", done, "--json"))["result"]
        assert result["value"] == {"sent": 123456789012345678901234567890}
        assert '"sent": 123456789012345678901234567890' in standfast("jobs", "show", done).stdout

    def test_for_people_it_tells_state_reason_arguments_history_and_traceback(self, world, standfast):
        job_id = world.dead()
        text = standfast("jobs", "show", job_id).stdout
        for part in (
            job_id,
            "dead",
            "its only attempt failed",
            '"a@example.com"',
            "1 of 1 charged",
            "failed for good",
            "  in send",
        ):
            assert part in text

    @pytest.mark.parametrize("state", list(State))
    def test_every_state_can_be_shown(self, world, standfast, state):
        job_id = world.one_of_each()[state]
        assert standfast("jobs", "show", job_id).exit_code == 0
        assert answer(standfast("jobs", "show", job_id, "--json"))["state"] == state

    @pytest.mark.parametrize("payload", [b"", b"\xff\xfe", b"{", b"[]", b'{"v":1}', b'{"v":1,"args":{"a":"\xff"}}'])
    def test_a_corrupted_payload_does_not_hide_the_job(self, world, standfast, payload):
        job_id = world.enqueue(payload=payload)
        shown = answer(standfast("jobs", "show", job_id, "--json"))
        assert shown["args"] == {}
        assert shown["args_problem"].startswith("the payload cannot be read: ")
        assert "the payload cannot be read: " in standfast("jobs", "show", job_id).stdout

    def test_a_corrupted_result_does_not_hide_the_job(self, world, standfast):
        job_id = world.end(world.enqueue(), Move.COMPLETE, result=b"{")
        assert answer(standfast("jobs", "show", job_id, "--json"))["result"]["problem"]
        assert "cannot be read" in standfast("jobs", "show", job_id).stdout

    def test_what_a_job_says_cannot_drive_the_terminal(self, world, standfast):
        evil = "\x1b[2J\x1b]0;owned\x07"
        payload = json.dumps({"v": 1, "args": {"a": "\x7f\x9b[2J"}}, ensure_ascii=False).encode()
        job_id = world.enqueue(task=f"t{evil}", queue=f"q{evil}", payload=payload)
        world.end(job_id, Move.DIE, failure=Failure("E", evil, f"line one\n{evil}\n"))
        for command in (("jobs", "list"), ("jobs", "show", job_id), ("why", job_id), ("queues",), ("dead", "list")):
            printed = standfast(*command).stdout.replace("\n", "")
            assert printed.isprintable(), command

    def test_the_end_of_an_id_finds_it(self, world, standfast):
        job_id = world.enqueue()
        world.enqueue()
        assert answer(standfast("jobs", "show", job_id[-8:], "--json"))["id"] == job_id

    def test_an_end_of_two_ids_is_refused(self, world, standfast):
        for first in "01":
            world.enqueue(id=f"{first}197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f")
        assert_refused(standfast("jobs", "show", "3c2d1e0f"), 1, "is the end of 2 ids")

    @pytest.mark.parametrize("job_id", ["nope", "0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f", "'; drop table jobs", ""])
    @pytest.mark.parametrize("command", [("jobs", "show"), ("why",), ("jobs", "show", "--json")])
    def test_an_unknown_id_is_refused(self, world, standfast, command, job_id):
        world.enqueue()
        assert_refused(standfast(*command, job_id), 1, "there is no job")


class TestNoSuchJob:
    ID = "0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f"

    def test_the_store_that_was_looked_into_is_named_and_what_else_may_be(self, world, monkeypatch):
        """By its whole path: two databases of one name in two folders are easily mistaken."""
        monkeypatch.chdir(world.path.parent)
        told = bare("why", self.ID, "--url", "sqlite:///jobs.db")
        assert_refused(
            told, 1, f"there is no job '{self.ID}' in {world.path}: it may be in another (--url, --namespace)"
        )
        assert "its transaction may not be committed" in told.stderr

    def test_so_is_the_namespace(self, tmp_path):
        world = World(tmp_path / "jobs.db", "green")
        world.close()
        told = bare("jobs", "show", self.ID, "--url", world.url, "--namespace", "green")
        assert_refused(told, 1, f"in {world.path}, namespace 'green':")

    @pytest.mark.parametrize("command", [("why",), ("jobs", "show"), ("jobs", "cancel")])
    def test_the_name_of_a_schedule_leads_to_its_commands(self, world, standfast, command):
        keep(world, "nightly", Every(60))
        told = standfast(*command, "nightly")
        assert_refused(told, 1, "'nightly' is a schedule, not a job: `standfast schedules show nightly`")
        assert "`standfast jobs list --schedule nightly`" in told.stderr
