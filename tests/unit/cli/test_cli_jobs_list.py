"""`jobs list`: every job, in the order and the width that were asked for."""

from datetime import timedelta

import pytest
from cli_world import CONTRACT, answer, assert_refused

from standfast.model.ids import new_job_id
from standfast.model.memos import FOR_EVER, SLEEPING, signal_reason
from standfast.model.states import Move, State
from standfast.stores.contract import cancel_job


class TestJobsList:
    def test_json_is_an_array_newest_first_with_the_promised_fields(self, world, standfast):
        jobs = world.one_of_each()
        listed = answer(standfast("jobs", "list", "--json"))
        assert [job["id"] for job in listed] == sorted(jobs.values(), reverse=True)
        assert {job["state"]: job["id"] for job in listed} == {state.value: jobs[state] for state in State}
        assert all(job.keys() >= CONTRACT for job in listed)

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (["--state", "dead"], {State.DEAD}),
            (["--state", "dead", "--state", "ready"], {State.DEAD, State.READY}),
            (["--queue", "other"], {State.HELD}),
            (["--task", "mystery"], {State.BLOCKED}),
            (["--task", "mystery", "--state", "dead"], set()),
        ],
    )
    def test_filters_narrow_it(self, world, standfast, options, expected):
        world.one_of_each()
        assert {State(job["state"]) for job in answer(standfast("jobs", "list", "--json", *options))} == expected

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (["--key", "order-42"], {"one"}),
            (["--tag", "import"], {"one", "two"}),
            (["--tag", "import", "--tag", "night"], {"two"}),
            (["--meta", "customer=7"], {"one", "two"}),
            (["--meta", "customer=7", "--meta", "note=a=b"], {"two"}),
            (["--error", "451 TRY"], {"three"}),
            (["--error", "unheard of"], set()),
        ],
    )
    def test_what_callers_wrote_on_a_job_finds_it(self, world, standfast, options, expected):
        jobs = {
            "three": world.dead(),
            "one": world.enqueue(key="order-42", tags=("import",), metadata={"customer": "7"}),
            "two": world.enqueue(tags=("import", "night"), metadata={"customer": "7", "note": "a=b"}),
        }
        listed = answer(standfast("jobs", "list", "--json", *options))
        assert {job["id"] for job in listed} == {jobs[name] for name in expected}

    @pytest.mark.parametrize("pair", ["customer", "=7", ""])
    def test_metadata_is_asked_for_by_name_and_value(self, standfast, pair):
        assert_refused(standfast("jobs", "list", "--meta", pair), 2, "NAME=VALUE")

    def test_a_page_begins_at_a_job_that_is_there(self, world, standfast):
        older, newer = sorted(world.dead() for _ in range(2))
        for command in ("jobs", "dead"):
            listed = answer(standfast(command, "list", "--json", "--before", newer[-8:]))
            assert [job["id"] for job in listed] == [older]
            for nobody in ("abc", new_job_id()):
                assert_refused(standfast(command, "list", "--before", nobody), 1, f"there is no job '{nobody}'")

    def test_pages_follow_each_other_by_id(self, world, standfast):
        ids = sorted((world.enqueue() for _ in range(5)), reverse=True)
        first = answer(standfast("jobs", "list", "--json", "--limit", "3"))
        second = answer(standfast("jobs", "list", "--json", "--limit", "3", "--before", first[-1]["id"]))
        assert [job["id"] for job in first + second] == ids

    def test_a_full_page_tells_how_to_see_the_next(self, world, standfast):
        ids = sorted((world.enqueue() for _ in range(3)), reverse=True)
        assert f"--before {ids[1]}" in standfast("jobs", "list", "--limit", "2").stdout

    def test_in_a_pipe_each_job_is_one_line_with_every_column(self, world, standfast):
        jobs = world.one_of_each()
        lines = standfast("jobs", "list").stdout.splitlines()
        assert len(lines) == 2 + len(jobs)
        (dead,) = (line for line in lines if jobs[State.DEAD] in line)
        assert {"send_email", "mail", "dead", "1/1", "SMTPError:"} <= set(dead.split())

    @pytest.mark.parametrize("width", [60, 80, 100, 160])
    @pytest.mark.parametrize("command", [("jobs", "list"), ("dead", "list")])
    def test_on_a_terminal_lines_fit_and_no_column_is_left_out(self, world, standfast, width, command):
        """Rather are texts cut, and ids shortened to what `jobs show` takes."""
        long = world.dead(task="a.very.long.name.of.a.task.in.some.package", queue="a-queue-with-a-long-name")
        head, _, line = standfast(*command, env={"COLUMNS": str(width)}).stdout.splitlines()
        assert all(len(each) <= width for each in (head, line))
        wanted = ["ID", "TASK", "QUEUE", "ERROR"] if command[0] == "dead" else ["ID", "TASK", "QUEUE", "STATE"]
        assert {*wanted, "FAILS", "WHEN"} <= set(head.split())
        shown = line.split()[0]
        assert shown == long if width >= 100 else long.endswith(shown)
        assert answer(standfast("jobs", "show", shown, "--json"))["id"] == long

    def test_what_jobs_wait_for_that_gave_their_slot_back_shows(self, world, standfast):
        """A wait without an end is due in a hundred years only by the store."""
        assert "WAITS FOR" not in standfast("jobs", "list").stdout
        asked = world.end(world.enqueue(), Move.SNOOZE, delay=FOR_EVER, reason=signal_reason("approved"))
        soon = timedelta(hours=2)
        paid = world.end(world.enqueue(), Move.SNOOZE, delay=soon, reason=signal_reason("paid"))
        asleep = world.end(world.enqueue(), Move.SNOOZE, delay=soon, reason=SLEEPING)
        head, _, *lines = standfast("jobs", "list", env={"COLUMNS": "110"}).stdout.splitlines()
        assert "WAITS FOR" in head
        told = {line.split()[0]: " ".join(line.split()) for line in lines}
        assert told[asked].endswith("when it comes signal approved")
        assert told[paid].endswith("in 2 h signal paid")
        assert told[asleep].endswith("in 2 h a time")

    def test_the_end_of_an_id_is_found_on_any_page(self, world, standfast, monkeypatch):
        monkeypatch.setattr("standfast.cli.lookup._PAGE", 2)
        ids = [world.enqueue() for _ in range(7)]
        for job_id in ids:
            assert answer(standfast("jobs", "show", job_id[-8:], "--json"))["id"] == job_id
        assert standfast("jobs", "show", "00000000").exit_code == 1

    def test_colours_are_for_terminals(self, world, standfast):
        world.one_of_each()
        assert "\x1b" not in standfast("jobs", "list").stdout
        assert "\x1b[1;31mdead" in standfast("jobs", "list", env={"FORCE_COLOR": "1", "TERM": "xterm"}).stdout

    def test_an_empty_answer_says_so(self, standfast):
        assert standfast("jobs", "list").stdout == "No job is there.\n"
        assert standfast("jobs", "list", "--queue", "x").stdout == "No job matches.\n"
        assert answer(standfast("jobs", "list", "--json")) == []

    def test_a_wish_to_cancel_shows(self, world, standfast):
        world.do(cancel_job(world.verbs, world.running()))
        assert "running (cancelling)" in standfast("jobs", "list").stdout
