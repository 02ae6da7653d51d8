"""Many processes count in one folder: whoever is asked tells the sum, and it never goes back, whoever ends."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from counting import Counter, completed, files, lines

from forking import run_forking
from standfast import events
from standfast.errors import ConfigurationError
from standfast.observe.figures.counts import PAIRS
from standfast.observe.metrics import cells
from standfast.observe.metrics.cells import VERSION, Cells
from standfast.observe.metrics.shared import ENDED, SharedFolder, fold, new_name

HERE = Path(__file__).parent


def test_the_sum_is_that_of_all_files(tmp_path):
    folder = tmp_path / "run" / "metrics"
    assert SharedFolder(folder).sums().rows == {}, "before anybody counts"
    one, other = Counter(folder).count(3), Counter(folder).count(4).count(2, "pack")
    one.meter.called("beat", 0.001)
    other.meter.called("beat", 0.001)
    other.meter.hear(events.StoreAway("away"))
    told = lines(folder)
    assert 'standfast_attempts_total{queue="mail",task="send",outcome="completed"} 7' in told
    assert 'standfast_attempts_total{queue="mail",task="pack",outcome="completed"} 2' in told
    assert 'standfast_job_run_seconds_count{queue="mail",task="send"} 7' in told
    assert 'standfast_store_call_seconds_count{verb="beat"} 2' in told
    assert "standfast_store_outages_total 1" in told


def test_who_begins_takes_in_those_who_have_ended_and_no_others(tmp_path):
    live = Counter(tmp_path).count(1)
    for number in (2, 3, 4):
        Counter(tmp_path).count(number).end()
        assert files(tmp_path) == 2, "the live one, and the last"
    last = Counter(tmp_path).count(5)
    assert files(tmp_path) == 2
    assert completed(tmp_path) == {"send": 15}
    live.count(10)
    last.count(10)
    assert completed(tmp_path) == {"send": 35}


COUNTS_FOR_EVER = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from counting import Counter

counter = Counter(Path(sys.argv[1]))
while True:
    counter.count()
"""


def test_what_a_killed_process_has_counted_stays(tmp_path):
    """It is killed while it counts: what was seen before is there afterwards, in its file and in the sum."""
    process = subprocess.Popen([sys.executable, "-c", COUNTS_FOR_EVER, str(tmp_path), str(HERE)])
    try:
        seen = [0]
        while seen[-1] < 5_000:
            seen.append(completed(tmp_path).get("send", 0))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert seen == sorted(seen)
    left = completed(tmp_path)["send"]
    assert left >= seen[-1]
    fold(tmp_path)
    assert (files(tmp_path), completed(tmp_path)) == (0, {"send": left})
    Counter(tmp_path).count(1)
    assert completed(tmp_path) == {"send": left + 1}


FORKS = """
import sys, threading
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from counting import Counter, completed, files
from standfast.observe.metrics.shared import fold

folder = Path(sys.argv[1])
parent = Counter(folder).count(5)

def child():
    parent.count(100)
    parent.meter.called("beat", 1.0)
    parent.meter.row_of("mail", "another")
    fold(folder)
    assert files(folder) == 1, "its parent counts on"
    Counter(folder).count(7)
    assert completed(folder) == {"send": 12}

held, over = threading.Event(), threading.Event()

def hold():
    with parent.meter._lock:
        held.set()
        over.wait()

holder = threading.Thread(target=hold)
holder.start()
held.wait()
assert well(fork(child))
over.set()
holder.join()
assert completed(folder) == {"send": 12}, completed(folder)
parent.count(1)
assert completed(folder) == {"send": 13}
parent.end()
fold(folder)
assert (files(folder), completed(folder)) == (0, {"send": 13})
"""


def test_a_forked_process_leaves_the_file_to_its_parent(tmp_path):
    """Two who count in one file would undo each other's counts; a forked one begins a file of its own."""
    run_forking(FORKS, str(tmp_path), str(HERE))


def test_who_has_closed_is_heard_and_nothing_comes_of_it(tmp_path):
    counter = Counter(tmp_path).count(2).end()
    counter.count(3)
    counter.meter.called("beat", 1.0)
    counter.meter.hear(events.StoreAway("away"))
    counter.meter.row_of("mail", "another")
    counter.meter.close()
    assert completed(tmp_path) == {"send": 2}


def test_many_names_are_told_as_some_and_the_rest_as_one_by_all_alike(tmp_path):
    """Who is told by name stays so, whoever reads, whoever ends and whoever begins; and the sum is right."""
    counters = [Counter(tmp_path) for _ in range(3)]
    expected = {}
    for number in range(150):
        for place, counter in enumerate(counters):
            counter.count(1, f"task-{place}-{number}")
        seen = completed(tmp_path)
        assert sum(seen.values()) == 3 * (number + 1)
        assert {name: seen[name] for name in expected if name != "_other_"}.items() >= {
            name: value for name, value in expected.items() if name != "_other_"
        }.items()
        expected = seen
    assert len(expected) == PAIRS + 1
    assert expected["_other_"] == 450 - PAIRS
    for counter in counters:
        counter.end()
    late = Counter(tmp_path).count(1, "late").count(1, "task-0-0")
    assert completed(tmp_path) == {**expected, "_other_": expected["_other_"] + 1, "task-0-0": 2}
    late.end()
    fold(tmp_path)
    assert len(completed(tmp_path)) == PAIRS + 1


def test_a_name_that_was_cut_short_is_told_with_the_rest(tmp_path):
    """A full disk may take half of a line; others go on."""
    Counter(tmp_path).count(1, "first")
    [named] = tmp_path.glob("named.*")
    with named.open("ab") as file:
        file.write(b'["jobs","mail","cu')
    Counter(tmp_path).count(1, "second").count(1, "third")
    assert completed(tmp_path) == {"first": 1, "_other_": 1, "third": 1}
    Counter(tmp_path).count(1, "second")
    assert completed(tmp_path) == {"first": 1, "_other_": 1, "third": 1, "second": 1}


def foreign_files(folder):
    """Put into a folder what is not ours, by names that are and that are not."""
    folder.mkdir(exist_ok=True)
    elsewhere = Path(folder.parent / "elsewhere")
    elsewhere.write_bytes(b"x" * 100_000)
    (folder / "README").write_text("mine")
    (folder / "notes.v1.counts").write_text("mine")
    (folder / new_name().replace("v1", "v2")).write_bytes(b"of another release")
    (folder / new_name()).mkdir()
    (folder / new_name()).symlink_to(elsewhere)
    (folder / new_name()).symlink_to(folder / "nowhere")
    os.mkfifo(folder / new_name())
    return sorted(folder.iterdir())


def test_foreign_files_are_neither_read_nor_removed(tmp_path):
    folder = tmp_path / "metrics"
    foreign = foreign_files(folder)
    Counter(folder).count(3).end()
    Counter(folder).count(4)
    assert completed(folder) == {"send": 7}
    assert set(foreign) <= set(folder.iterdir())
    assert (tmp_path / "elsewhere").stat().st_size == 100_000


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"loose":[1]}', b'{"rows":[[["jobs","a","b"],[1]]]}'])
def test_a_damaged_sum_begins_anew(tmp_path, content):
    """What is lost is lost: that the rest is told matters more."""
    Counter(tmp_path).count(3).end()
    (tmp_path / ENDED).write_bytes(content)
    assert completed(tmp_path) == {"send": 3}
    Counter(tmp_path).count(4)
    assert completed(tmp_path) == {"send": 7}


def test_only_its_user_may_look(tmp_path):
    folder = tmp_path / "metrics"
    Counter(folder).count(1).end()
    Counter(folder).count(1)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


def test_what_cannot_be_used_is_refused_in_one_sentence(tmp_path):
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigurationError, match=rf"metrics_dir={file} is not a folder; name one, or none"):
        SharedFolder(file).required_meter()
    with pytest.raises(ConfigurationError, match=r"counted in metrics_dir=\S+below: Not a directory; name a"):
        SharedFolder(file / "below").required_meter()


def test_a_disk_that_is_full_leaves_nothing_behind(tmp_path, monkeypatch):
    Counter(tmp_path).count(1)
    monkeypatch.setattr(Cells, "__init__", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(ConfigurationError, match="No space left on device"):
        SharedFolder(tmp_path).required_meter()
    assert files(tmp_path) == 1
    assert completed(tmp_path) == {"send": 1}


def test_what_cannot_be_read_now_is_no_reason_to_tell_less(tmp_path, monkeypatch):
    """A reader that has no more files to open says so, instead of a smaller sum."""
    Counter(tmp_path).count(1)

    def fail(*_):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", fail)
        with pytest.raises(OSError, match="Too many"):
            SharedFolder(tmp_path).sums()


def test_places_are_those_of_this_version():
    """Files outlive releases: another meaning of a place needs another version, and then this is to be changed."""
    meant = (cells.OUTCOMES, cells.LOST, cells.RUN_MICROS, cells.LAG_MICROS, cells.RUN, cells.LAG)
    more = (cells.ENQUEUED, cells.EVENTS, cells.BLOCKED, cells.BLOCKED_MICROS, cells.OUTAGES)
    calls = (cells.FAILED, cells.STALE, cells.CALL_MICROS, cells.TOOK, cells.BUCKETS)
    outcomes = ("completed", "retried", "dead", "cancelled", "released", "snoozed", "blocked")
    told = ("ready", "recycled", "stopped", "crashed", "hung", "lost", "drained")
    assert (VERSION, meant, more, calls) == (1, (outcomes, 7, 8, 9, 10, 23), (36, told, 7, 8, 9), (0, 1, 2, 3, 13))
