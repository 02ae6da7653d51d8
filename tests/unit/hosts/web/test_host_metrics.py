"""Workers inside processes count in the folder that `metrics_dir` names: each attempt once, whoever is killed."""

import os
import signal

import pytest
from hosting import eventually

from standfast.errors import ConfigurationError
from standfast.hosts.host import Host
from standfast.model.states import State
from standfast.observe.metrics.cells import CALLS, ENQUEUED, EVENTS, JOBS, OUTCOMES
from standfast.observe.metrics.shared import SharedFolder, counts_in

pytestmark = pytest.mark.timeout(120)


class Seen:
    """What a reader of the folder sees."""

    def __init__(self, folder):
        self.sums = SharedFolder(folder).sums()

    def outcomes(self, outcome="completed"):
        """Return how many attempts ended so, by task."""
        place = OUTCOMES.index(outcome)
        return {name[2]: row[place] for name, row in self.sums.rows.items() if name[0] == JOBS and row[place]}

    def enqueued(self):
        return {name[2]: row[ENQUEUED] for name, row in self.sums.rows.items() if name[0] == JOBS and row[ENQUEUED]}

    def verbs(self):
        return {name[1] for name, row in self.sums.rows.items() if name[0] == CALLS and any(row)}

    def events(self, event):
        return self.sums.loose[EVENTS.index(event)]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "metrics"


@pytest.fixture
def counting(host_script, folder):
    """Start processes with a host that counts."""
    return lambda **more: host_script(standfast_metrics_dir=folder, **more)


def becomes(folder, condition, what):
    return eventually(lambda: condition(Seen(folder)), what)


def test_a_host_and_its_beater_count_each_thing_once(hosted, counting, folder):
    """Also after a stop and another start in the same process, and a life that follows another."""
    script = counting()
    script.start()
    hosted.whoami.enqueue().result(timeout=30)
    seen = becomes(folder, lambda seen: seen.outcomes() == {"whoami": 1} and seen, "it is counted")
    assert seen.events("ready") == 1
    assert {"claim", "finish", "beat"} <= seen.verbs()
    assert ("jobs", "default", "heedful") in seen.sums.rows, "what may come is there, at zero"
    script.ask("stop")
    script.start()
    hosted.whoami.enqueue().result(timeout=30)
    becomes(folder, lambda seen: seen.outcomes() == {"whoami": 2}, "it counts on")
    assert len(counts_in(folder)) == 3, "of the process, its present life and its present beater"
    beater = script.ask("state")["beater"]
    os.kill(beater, signal.SIGKILL)
    eventually(lambda: script.ask("state")["beater"] not in {None, beater}, "another beater")
    assert hosted.whoami.enqueue().result(timeout=30)
    becomes(folder, lambda seen: seen.outcomes() == {"whoami": 3}, "the next life counts, too")
    becomes(folder, lambda seen: seen.events("ready") == 3, "three beaters")


def test_what_a_request_enqueues_is_counted_once_however_often_the_host_starts(counting, folder):
    script = counting(script="host_enqueues.py")
    script.ask("enqueue")  # nobody counts yet, but the store is open
    for times in (1, 2, 3):
        script.start()
        script.ask("enqueue")
        becomes(folder, lambda seen, times=times: seen.enqueued() == {"whoami": times}, "each once")
        becomes(folder, lambda seen, times=times: seen.outcomes() == {"whoami": times + 1}, "and done once")
        script.ask("stop")
    script.start()
    assert script.ask("forked")["well"]
    script.ask("enqueue")
    seen = becomes(folder, lambda seen: seen.outcomes() == {"whoami": 6} and seen, "also that of the fork")
    assert seen.enqueued() == {"whoami": 4}, "the fork has no worker, and does not count"


def test_a_killed_host_keeps_its_counts_and_what_it_killed_is_counted_where_it_ends(hosted, counting, folder):
    """A job that may have killed its host runs in a process of its own next, which counts in the same folder."""
    script = counting(host_test_lease=3600)
    script.start()
    hosted.whoami.enqueue().result(timeout=30)
    becomes(folder, lambda seen: seen.outcomes() == {"whoami": 1}, "it is counted")
    job = hosted.heedless.enqueue("go")
    doomed = hosted.heedless.options(max_attempts=1).enqueue("never")
    began = hosted.HERE / "heedless-began"
    eventually(lambda: began.exists() and len(began.read_text().split()) == 2, "both run")
    script.kill()
    becomes(folder, lambda seen: seen.outcomes("dead") == {"heedless": 1}, "the beater counts what died")
    assert doomed.job().state is State.DEAD
    assert Seen(folder).outcomes() == {"whoami": 1}
    assert Seen(folder).events("crashed") == 1
    (hosted.HERE / "go").touch()
    counting().start()
    assert job.result(timeout=30) == "2"
    becomes(folder, lambda seen: seen.outcomes() == {"whoami": 1, "heedless": 1}, "all are counted")
    assert Seen(folder).outcomes("dead") == {"heedless": 1}


def test_without_the_setting_nothing_is_counted(hosted, host_script, folder, tmp_path):
    script = host_script()
    script.start()
    hosted.whoami.enqueue().result(timeout=30)
    assert not folder.exists()
    assert not list(tmp_path.rglob("*.counts"))


def test_a_folder_that_cannot_be_used_is_told_when_the_host_starts(hosted, folder, monkeypatch):
    folder.write_text("a file")
    monkeypatch.setenv("STANDFAST_HOST", "on")
    monkeypatch.setattr(hosted.app, "settings", hosted.Standfast(metrics_dir=folder).settings)
    host = Host(hosted.app)
    with pytest.raises(ConfigurationError, match=f"metrics_dir={folder} is not a folder"):
        host.start()
    assert host.state == "new"
    assert host.beater_pid is None
