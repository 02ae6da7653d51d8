"""What a job has written down: `jobs show` tells of it, `jobs files` lists and copies its files."""

import json
from datetime import UTC, datetime

import pytest
from cli_world import WORKER, answer, assert_refused

from standfast.durable.files import file_memo, file_store_of
from standfast.model.ids import new_job_id
from standfast.model.job import ClaimRef, Progress
from standfast.model.memos import Memo, Save
from standfast.model.states import Move
from standfast.settings import load_settings
from standfast.stores.backend import identity_of

WRITTEN = {
    "cursor": b'{"version":2,"value":{"page":7}}',
    "cursor:orders": b'{"version":1,"value":"order-41","by":"key","done":1200}',
    "step:charge": b'{"version":3,"result":{"id":"ch_1"}}',
    "step:ship": json.dumps({"version": 1, "result": "x" * 5_000}).encode(),
    "wait:approved:1": b'{"until":"2030-01-02T00:00:00Z","how":"signal","data":"by Ann"}',
    "wait:sleep:1": b'{"until":"2030-01-03T00:00:00Z"}',
    "wait:sleep:2": b'{"until":"2020-01-03T00:00:00Z"}',
    "wait:paid:1": b"{}",
    "wait:paid:2": b'{"how":"signal","data":"by Bob"}',
}


def written(world, memos=WRITTEN, **how):
    """Have a job write memos down."""
    job_id = world.enqueue(**how)
    ref = world.claim(job_id).ref
    world.do(world.verbs.save(WORKER, [Save(ref, 1, tuple(Memo(name, body) for name, body in memos.items()))]))
    return job_id


def saved(world, name="report.csv", data=b"a,b\n", **how):
    """Have a job save a file."""
    job_id = world.enqueue(**how)
    ref = world.claim(job_id).ref
    shelf = file_store_of(load_settings({}, url=world.url), lambda: identity_of(world.backend))
    kept = shelf.put(ref, name, data)
    world.do(world.verbs.save(WORKER, [Save(ref, 1, (file_memo(kept),))]))
    return job_id, shelf.find(kept)


class TestJobsShow:
    def test_it_tells_how_far_the_job_is_and_what_it_did(self, world, standfast):
        job_id = written(world)
        text = standfast("jobs", "show", job_id, env={"COLUMNS": "200"}).stdout
        lines = [" ".join(line.split()) for line in text.splitlines()]
        assert 'ctx.cursor 2 {"page":7}' in lines
        assert 'orders 1,200 1 "order-41"' in lines
        assert 'charge 3 13 B {"id":"ch_1"}' in lines
        assert "ship 1 5 kB •••• 5 kB" in lines
        assert any(line.startswith("approved 1 2030-01-02") and line.endswith('signal "by Ann"') for line in lines)
        assert any(line.startswith("sleep 1 2030-01-03") and line.endswith("not yet") for line in lines)
        assert "paid 1 for ever not yet" in lines
        assert 'paid 2 signal "by Bob"' in lines
        assert any(line.startswith("sleep 2 2020-") and line.endswith("its time has come") for line in lines)

    def test_json_has_it_too(self, world, standfast):
        shown = answer(standfast("jobs", "show", written(world), "--json"))
        values = [each["value"] for each in shown["cursors"]]
        assert [
            (each["name"], each["version"], each["done"], value["size"], value["value"])
            for each, value in zip(shown["cursors"], values, strict=True)
        ] == [(None, 2, 0, 10, {"page": 7}), ("orders", 1, 1200, 10, "order-41")]
        assert [
            (each["name"], each["version"], each["value"]["size"], each["value"]["value"])
            for each in shown["steps"]
        ] == [("charge", 3, 13, {"id": "ch_1"}), ("ship", 1, 5_002, None)]
        assert [(each["name"], each["number"], each["how"]) for each in shown["waits"]] == [
            ("approved", 1, "signal"),
            ("paid", 1, None),
            ("paid", 2, "signal"),
            ("sleep", 1, None),
            ("sleep", 2, None),
        ]
        assert shown["signals"] == shown["files"] == []

    def test_a_job_that_wrote_nothing_down_has_none_of_it(self, world, standfast):
        job_id = world.enqueue()
        text = standfast("jobs", "show", job_id).stdout
        for heading in ("How far", "Steps", "Waits", "Signals", "Files"):
            assert heading not in text
        shown = answer(standfast("jobs", "show", job_id, "--json"))
        assert [shown[name] for name in ("cursors", "steps", "waits", "signals", "files")] == [[]] * 5

    def test_signals_are_taken_or_not(self, world, standfast):
        job_id = written(world, {})
        first, second = new_job_id(), new_job_id()
        for token, data in ((first, b'"one"'), (second, b'"two"')):
            assert world.do(world.verbs.signal(job_id, "approved", token, data))
        ref = ClaimRef(job_id, world.do(world.verbs.get(job_id)).fence)
        world.do(world.verbs.save(WORKER, [Save(ref, 2, (Memo(f"signal:approved:{first}", b""),))]))
        shown = answer(standfast("jobs", "show", job_id, "--json"))["signals"]
        assert [(each["taken"], each["value"]["value"]) for each in shown] == [(True, None), (False, "two")]
        sent_at = datetime.fromisoformat(shown[0]["sent_at"])
        assert abs((datetime.now(UTC) - sent_at).total_seconds()) < 60
        lines = [" ".join(line.split()) for line in standfast("jobs", "show", job_id).stdout.splitlines()]
        assert any(line.startswith("approved") and line.endswith("yes") for line in lines)
        assert any(line.startswith("approved") and line.endswith('not yet "two"') for line in lines)

    @pytest.mark.parametrize("payload", [b'{"v":1,"args":{},"secret":{"token":"hunter2"}}', b"damaged"])
    def test_of_a_job_with_secrets_no_value_is_shown(self, world, standfast, payload):
        """A result of a step may have been made of them, in ways that nobody can find."""
        job_id = written(world, payload=payload)
        world.do(world.verbs.signal(job_id, "approved", new_job_id(), b'"by Ann"'))
        for more in ((), ("--json",)):
            text = standfast("jobs", "show", job_id, *more, env={"COLUMNS": "200"}).stdout
            for value in ("ch_1", "order-41", "page", "by Ann"):
                assert value not in text
            assert "charge" in text

    def test_what_cannot_be_read_is_named_and_harms_nobody(self, world, standfast):
        memos = {
            "step:broken": b"\xff",
            "step:half": b'{"version":1,"result":',
            "wait:odd": b"{}",
            "file:f": b"{}",
            "new kind": b"?",
            "step:fine": b'{"version":1,"result":7}',
        }
        result = standfast("jobs", "show", written(world, memos))
        assert result.exit_code == 0
        assert "5 memos cannot be read here: file:f, new kind, step:broken, step:half, wait:odd" in result.stdout
        assert "fine" in result.stdout

    def test_progress_has_its_note(self, world, standfast):
        job_id = world.enqueue()
        ref = world.claim(job_id).ref
        world.do(world.verbs.start(WORKER, [(ref, datetime.now(UTC))]))
        world.do(world.verbs.progress(WORKER, [(ref, Progress(3, 10, "the shoes"))]))
        assert "3 of 10 (30%): the shoes" in standfast("jobs", "show", job_id).stdout
        progress = {"done": 3.0, "total": 10.0, "note": "the shoes", "share": 0.3}
        assert answer(standfast("jobs", "show", job_id, "--json"))["progress"] == progress
        (listed,) = answer(standfast("jobs", "list", "--json"))
        assert listed["progress"] == progress
        assert "3 of 10 (30%): the shoes" in standfast("jobs", "list").stdout


class TestJobsFiles:
    def test_files_are_listed(self, world, standfast):
        job_id, file = saved(world)
        (shown,) = answer(standfast("jobs", "files", job_id, "--json"))
        assert (shown["name"], shown["size"], shown["sha256"]) == ("report.csv", 4, file.sha256)
        assert file.path.is_relative_to(world.path.parent)
        assert str(file.path).endswith(shown["place"])
        assert "report.csv" in standfast("jobs", "files", job_id[-8:]).stdout
        assert answer(standfast("jobs", "show", job_id, "--json"))["files"] == [shown]
        assert "report.csv" in standfast("jobs", "show", job_id).stdout

    def test_a_job_without_files_says_so(self, world, standfast):
        job_id = world.enqueue()
        assert standfast("jobs", "files", job_id).stdout == "The job has saved no file.\n"
        assert answer(standfast("jobs", "files", job_id, "--json")) == []
        assert_refused(standfast("jobs", "files", job_id, "--get", "f"), 1, "has no file 'f': it has saved none")

    def test_a_file_is_copied(self, world, standfast, tmp_path):
        job_id, file = saved(world)
        (tmp_path / "folder").mkdir()
        for to, there in (("copy.csv", "copy.csv"), ("folder", "folder/report.csv"), (None, "report.csv")):
            more = () if to is None else ("--to", to)
            result = standfast("jobs", "files", job_id, "--get", "report.csv", *more)
            assert result.stdout == f"report.csv (4 B) copied to {there}.\n"
            assert (tmp_path / there).read_bytes() == b"a,b\n"
        told = answer(standfast("jobs", "files", job_id, "--get", "report.csv", "--to", "again", "--json"))
        assert (told["to"], told["sha256"]) == ("again", file.sha256)

    def test_nothing_is_overwritten(self, world, standfast, tmp_path):
        job_id, _ = saved(world)
        (tmp_path / "mine").write_text("mine")
        result = standfast("jobs", "files", job_id, "--get", "report.csv", "--to", "mine")
        assert result.exit_code == 2
        assert "is there already" in result.stderr
        assert (tmp_path / "mine").read_text() == "mine"

    def test_a_file_that_was_changed_is_not_given_out(self, world, standfast, tmp_path):
        job_id, file = saved(world)
        file.path.write_bytes(b"evil")
        result = standfast("jobs", "files", job_id, "--get", "report.csv", "--to", "copy")
        assert_refused(result, 3, "is not what the job has saved")
        assert not (tmp_path / "copy").exists()
        assert not list(tmp_path.glob(".*"))

    def test_a_file_that_is_not_here_says_where_it_was_looked_for(self, world, standfast):
        job_id, file = saved(world)
        file.path.unlink()
        result = standfast("jobs", "files", job_id, "--get", "report.csv")
        assert_refused(result, 3, "STANDFAST_FILES=FOLDER")
        assert str(file.path) in result.stderr

    def test_a_folder_that_is_set_is_where_it_looks(self, world, standfast, tmp_path):
        job_id, file = saved(world)
        (tmp_path / "jobs.db-files").rename(tmp_path / "moved")
        moved = {"STANDFAST_FILES": str(tmp_path / "moved")}
        result = standfast("jobs", "files", job_id, "--get", "report.csv", env=moved)
        assert result.exit_code == 0, result.stderr
        assert not file.path.exists()

    def test_a_place_without_a_file_is_wrong_usage(self, world, standfast):
        result = standfast("jobs", "files", world.enqueue(), "--to", "x")
        assert result.exit_code == 2
        assert "--get NAME" in result.stderr


def test_logs_of_all_claims_are_shown_on_demand(world, standfast):
    job_id = world.enqueue(max_attempts=2)
    world.end(job_id, Move.RETRY, log="one\ntwo")
    world.end(job_id, Move.COMPLETE, log="three")
    text = standfast("jobs", "show", job_id).stdout
    assert "Log of claim 2" in text
    assert "Log of claim 1" not in text
    assert "1 (2 lines); --log shows it all" in text
    text = standfast("jobs", "show", job_id, "--log").stdout
    assert text.index("Log of claim 1") < text.index("two") < text.index("Log of claim 2") < text.index("three")
