"""`health`: told once, with an exit code for probes, and who may not listen where."""

import json
import socket

import pytest
from cli_world import WORKER, answer, assert_refused, bare

from standfast.model.crash import Death, DeathKind
from standfast.model.states import Move

FAILED, USAGE, STORE = 1, 2, 3


def test_all_is_well(world, standfast):
    world.enqueue(queue="mail")
    report = answer(standfast("health", "--once", "--json"))
    assert (report["status"], report["workers"], list(report["queues"])) == ("ok", 1, ["mail"])
    text = standfast("health", "--once").stdout
    assert "All is well; the last beat" in text
    assert "mail" in text


def test_without_a_worker_it_is_not_ready(world, standfast):
    world.do(world.verbs.bury(WORKER, Death(DeathKind.STOPPED)))
    result = standfast("health", "--once", "--json")
    assert result.exit_code == FAILED
    assert json.loads(result.stdout)["checks"][1]["says"] == "no live worker"
    assert "Not ready; no beat is known, lag 0 ms." in standfast("health", "--once").stdout


def test_a_queue_that_is_paused_is_told_so(world, standfast):
    world.enqueue(queue="mail")
    world.do(world.verbs.pause("mail"))
    assert "paused" in standfast("health", "--once").stdout


def test_not_all_is_well_while_jobs_wait_that_no_worker_knows(world, standfast):
    """A probe passes, for no restart would help; and the last word is not that all is well."""
    world.end(world.enqueue(task="send_emial"), Move.BLOCK, reason="no_worker")
    result = standfast("health", "--once")
    assert result.exit_code == 0
    assert "jobs of 1 task wait that no worker knows" in " ".join(result.stdout.split())
    assert "All is well" not in result.stdout
    assert "Ready, with a warning; " in result.stdout
    [tasks] = [
        each for each in answer(standfast("health", "--once", "--json"))["checks"] if each["check"] == "tasks"
    ]
    assert (tasks["ok"], tasks["warns"]) == (True, True)
    assert "send_emial" not in str(tasks), "a report names no task: anybody may be allowed to read it"


def test_a_store_that_is_not_there_is_told_and_not_made(tmp_path):
    result = bare("health", "--once", "--url", f"sqlite:///{tmp_path}/none.db")
    assert result.exit_code == STORE
    assert "the store cannot be used" in result.stdout
    assert list(tmp_path.iterdir()) == []
    assert_refused(bare("health", "--once", "--url", "memory://"), USAGE, "lives inside one process")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_others_are_not_let_in_by_oversight(standfast, host):
    assert_refused(standfast("health", "--host", host), USAGE, "is reached from other machines: add --token-file")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--allow", "10.0.0.1/8"], "is no network"),
        (["--port", "99999"], "--port"),
        (["--token-file", "nowhere"], "nowhere cannot be read: No such file"),
        (["--host", "no such host"], "no address to listen on"),
    ],
)
def test_nonsense_is_wrong_usage(standfast, args, words):
    assert_refused(standfast("health", *args), USAGE, words)


@pytest.mark.parametrize("held", ["", "\n", "two words of it all", "x" * 5000, "grüße-grüße-grüße"])
def test_a_file_without_a_token(standfast, tmp_path, held):
    file = tmp_path / "token"
    file.write_text(held)
    file.chmod(0o600)
    assert_refused(standfast("health", "--token-file", str(file)), USAGE, "must hold one token")


def test_a_token_that_could_be_guessed_is_not_repeated(standfast, tmp_path):
    file = tmp_path / "token"
    file.write_text("hunter2")
    file.chmod(0o600)
    result = standfast("health", "--token-file", str(file))
    assert_refused(result, USAGE, "the token has 7 characters, and must have 16 or more")
    assert "hunter2" not in result.stderr


def test_a_port_that_is_taken_is_told(standfast):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert_refused(standfast("health", "--port", str(taken.getsockname()[1])), USAGE, "in use")
