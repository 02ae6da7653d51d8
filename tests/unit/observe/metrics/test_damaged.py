"""Whatever is in a folder in which processes count, jobs are enqueued, workers begin, and the rest is told."""

import json
import logging
import os
import struct
from contextlib import contextmanager

import pytest
from counting import Counter, completed, files, lines

from standfast import Standfast
from standfast.errors import JobNotFoundError
from standfast.hosts.metrics import count_here
from standfast.model.job import JobAction
from standfast.observe.metrics.cells import LOOSE, VERSION, WIDTH
from standfast.observe.metrics.meter import Meter
from standfast.observe.metrics.shared import ENDED, fold, new_name
from standfast.stores.contract import change_job

NAMED = f"named.v{VERSION}.jsonl"
DEEP = b"[" * 100_000

ZEROS = [0] * LOOSE
ROW = [0] * WIDTH


def send(to: str) -> None:
    """Do nothing: it is enqueued only."""


@pytest.fixture
def shop(tmp_path):
    """Give a web app that counts in a folder."""
    with Standfast(f"sqlite:///{tmp_path}/jobs.db") as app:
        yield app


def enqueued(app, folder):
    """Enqueue a job in an app that counts; return what is told of it."""
    count_here(app, str(folder))
    assert app.task(send, queue="mail").enqueue("a").status() == "ready"
    return [
        line for line in lines(folder) if line.startswith("standfast_jobs_enqueued_total") and line.endswith("1")
    ]


OF_MAIL = 'standfast_jobs_enqueued_total{queue="mail",task="send"} 1'
OF_OTHERS = 'standfast_jobs_enqueued_total{queue="_other_",task="_other_"} 1'


@pytest.mark.parametrize("line", [b'["jobs","\xff","b"]', DEEP, b"[]", b'["jobs"]', b'["calls","x"]', b"\x00", b""])
def test_a_damaged_list_of_names_is_read_on(tmp_path, shop, line):
    """What is no name takes the place of none, though there are as many as there may be names."""
    (tmp_path / NAMED).write_bytes((line + b"\n") * (300 if len(line) < 100 else 1))
    assert enqueued(shop, tmp_path) == [OF_MAIL]


SUMS = {
    "no text": b'{"loose":[],"rows":[],"taken":["\xff"]}',
    "deep": b'{"more":' + DEEP,
    "negative": json.dumps({"loose": ZEROS, "rows": [[["jobs", "mail", "send"], [-1, *ROW[1:]]]]}).encode(),
    "beyond all": json.dumps({"loose": [10**400, *ZEROS[1:]]}).encode(),
    "of no files": json.dumps({"loose": ZEROS, "taken": ["\0"]}).encode(),
    "of another's": json.dumps({"loose": ZEROS, "taken": ["../kept"]}).encode(),
}


@pytest.mark.parametrize("content", SUMS.values(), ids=SUMS)
def test_a_damaged_sum_begins_anew(tmp_path, shop, content):
    """A host starts, and what others have counted is told; no file goes that nobody counted in."""
    folder, kept = tmp_path / "metrics", tmp_path / "kept"
    kept.touch()
    Counter(folder).count(3).end()
    (folder / ENDED).write_bytes(content)
    assert completed(folder) == {"send": 3}
    assert enqueued(shop, folder) == [OF_MAIL]
    Counter(folder).count(4)
    assert completed(folder) == {"send": 7}
    assert kept.exists()


def test_a_sum_with_a_name_that_is_none_is_told_without_it(tmp_path):
    row = [5, *ROW[1:]]
    names = [["jobs"], ["what", "is"], ["calls"], ["jobs", "mail", "send"]]
    (tmp_path / ENDED).write_text(json.dumps({"loose": ZEROS, "rows": [[name, row] for name in names]}))
    assert not [line for line in lines(tmp_path) if "verb=" in line]
    assert completed(tmp_path) == {"send": 5}


def _renamed(content: bytes, name: bytes) -> bytes:
    """Give the row of a task another name, and what follows it the same place."""
    before = b'["jobs","mail","send"]'
    assert before in content
    return content.replace(before + b"\n" + b"\0" * (len(name) - len(before)), name.ljust(len(before)) + b"\n", 1)


COUNTS = {
    "rows without end": lambda content: content[:8] + struct.pack("Q", 2**64 - 1) + content[16:],
    "no text": lambda content: _renamed(content, b'["jobs","mail","se\xff"]'),
    "no name": lambda content: _renamed(content, b"[]"),
    "too short a name": lambda content: _renamed(content, b'["jobs"]'),
    "another's name": lambda content: _renamed(content, b'["what","mail"]'),
    "too deep": lambda content: _renamed(content, b"[" * 50_000),
}


@pytest.mark.parametrize("damage", COUNTS.values(), ids=COUNTS)
def test_a_damaged_file_harms_no_other(tmp_path, shop, damage):
    """It is told without it, and again once somebody has taken it in."""
    Counter(tmp_path).count(3, "pack")
    damaged = Counter(tmp_path).count(4).end().meter.path
    content = damage(damaged.read_bytes())
    assert len(content) == damaged.stat().st_size
    damaged.write_bytes(content)
    assert completed(tmp_path)["pack"] == 3
    assert "send" not in completed(tmp_path)
    assert enqueued(shop, tmp_path) == [OF_MAIL]
    fold(tmp_path)
    assert completed(tmp_path)["pack"] == 3
    assert not damaged.exists()


@contextmanager
def somebody_reads(pipe):
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield reader
    finally:
        os.close(reader)


def test_a_pipe_in_the_place_of_a_list_holds_nobody_up(tmp_path, shop):
    """Whether somebody reads it or not: it is not written to, and names are told as one."""
    os.mkfifo(tmp_path / NAMED)
    assert enqueued(shop, tmp_path) == [OF_OTHERS]
    with somebody_reads(tmp_path / NAMED) as reader:
        Counter(tmp_path).count(1)
        assert os.read(reader, 1) == b""
    assert completed(tmp_path) == {"_other_": 1}


@pytest.mark.parametrize("name", [ENDED, f"{ENDED}.new"])
def test_a_pipe_in_the_place_of_a_sum_gives_way(tmp_path, name):
    Counter(tmp_path).count(3).end()
    os.mkfifo(tmp_path / name)
    Counter(tmp_path).count(4)
    assert (files(tmp_path), completed(tmp_path)) == (1, {"send": 7})
    assert (tmp_path / ENDED).is_file()


class BrokenMeter(Meter):
    """One that cannot count."""

    def called(self, *_args, **_more):
        raise OverflowError("no cell holds this")


async def test_what_fails_in_counting_is_not_the_callers_affair(tmp_path, caplog):
    """The store has answered: the caller hears that, or what the store has raised, and the log has it once."""
    with Standfast(f"sqlite:///{tmp_path}/jobs.db") as app, caplog.at_level(logging.WARNING):
        app.observe(BrokenMeter(tmp_path / new_name()).observe)
        task = app.task(send, queue="mail")
        assert task.enqueue("a").status() == "ready"
        assert await (await task.aenqueue("b")).astatus() == "ready"
        with pytest.raises(JobNotFoundError):
            app.call(change_job(app.verbs, JobAction.DISCARD, "none"))
        with pytest.raises(JobNotFoundError):
            await app.acall(change_job(app.verbs, JobAction.DISCARD, "none"))
    [said] = [record.getMessage() for record in caplog.records if "metrics" in record.getMessage()]
    assert said == "metrics: some calls of the store are not counted: OverflowError: no cell holds this"
