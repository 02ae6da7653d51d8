"""What cannot be accepted is refused at once, with the field and the remedy named, and nothing is written."""

import asyncio
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from shopfloor import Shop

from standfast import ArgumentsError, ConfigurationError

APP = """
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from standfast import Context, Standfast
from pydantic import BaseModel

app = Standfast(f"sqlite:///{Path(__file__).parent}/jobs.db")

@dataclass
class Address:
    street: str
    number: int

class User(BaseModel):
    name: str

@app.task
async def send(ctx: Context, to: str, copies: int = 1, at: Address | None = None) -> None: ...

@app.task
def keep(thing: object) -> None: ...

@app.task
def plan(when: datetime, by: User | None = None, share: float = 0.0) -> str:
    return f"{when.isoformat()} {when.tzinfo}"
"""

NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001 - that it has no zone is the point

BAD = {
    "missing": ("send", {}, "'to'"),
    "extra": ("send", {"to": "a", "colour": "red"}, "'colour'"),
    "the context": ("send", {"to": "a", "ctx": 1}, "'ctx'"),
    "wrong type": ("send", {"to": "a", "copies": "many"}, "'copies'"),
    "wrong type of text": ("send", {"to": b"a"}, "'to'"),
    "a float for an int": ("send", {"to": "a", "copies": 1.5}, "'copies'"),
    "wrong inside": ("send", {"to": "a", "at": {"street": "x", "number": "?"}}, "'at'"),
    "None": ("send", {"to": None}, "'to'"),
    "unserialisable": ("keep", {"thing": threading.Lock()}, "'thing'"),
    "unserialisable inside": ("keep", {"thing": [{"a": threading.Lock()}]}, "'thing'"),
    "a set": ("keep", {"thing": {1, 2}}, "'thing'"),
    "a lone surrogate": ("send", {"to": "\udcff"}, "'to'"),
    "not a number": ("keep", {"thing": float("nan")}, "'thing'"),
    "endless": ("keep", {"thing": (endless := [])}, "'thing'"),
    "two megabytes": ("send", {"to": "x" * 2_000_000}, "send take 2,000,0"),
    "two megabytes in a list": ("keep", {"thing": ["x" * 1000] * 2000}, "keep take 2,00"),
    "a text for a time": ("plan", {"when": "2030-01-01T00:00:00Z"}, "'when'"),
    "a number for a time": ("plan", {"when": 0}, "'when'"),
    "an offset of seconds": ("plan", {"when": NAIVE.replace(tzinfo=timezone(timedelta(seconds=1)))}, "'when'"),
    "a dict for a model": ("plan", {"when": NAIVE, "by": {"name": "Ada"}}, "'by'"),
    "endless float": ("plan", {"when": NAIVE, "share": float("inf")}, "'share'"),
    "a number too long": ("keep", {"thing": 10**5000}, "'thing'"),
    "a path": ("keep", {"thing": Path("a")}, "'thing'"),
    "numbers as keys": ("keep", {"thing": {1: 2}}, "'thing'"),
}
endless.append(endless)

BAD_OPTIONS = {
    "negative delay": ({"delay": -1}, "delay"),
    "negative span": ({"delay": timedelta(seconds=-1)}, "delay"),
    "no number": ({"delay": "soon"}, "delay"),
    "endless delay": ({"delay": float("inf")}, "delay"),
    "naive time": ({"at": NAIVE}, "at must have a time zone, and 2030-01-01T00:00:00 has none; add one"),
    "no time": ({"at": "tomorrow"}, "at"),
    "both": ({"at": NAIVE, "delay": 1}, "delay and at"),
    "priority": ({"priority": "high"}, "priority"),
    "huge priority": ({"priority": 10**6}, "priority"),
    "queue": ({"queue": "a b"}, "queue"),
    "attempts": ({"max_attempts": 0}, "max_attempts"),
    "id": ({"job_id": "7"}, "job_id"),
    "unknown": ({"prioritty": 5}, "task.options has no option 'prioritty'; did you mean priority?"),
    "of the task": ({"timeout": 5}, "no option 'timeout'"),
    "empty key": ({"key": ""}, "key must be 1 to 200"),
    "long key": ({"key": "k" * 201}, "key must be 1 to 200"),
    "number as a key": ({"key": 7}, "key must be"),
    "word for a conflict": ({"key": "k", "on_conflict": "ignore"}, "on_conflict must be 'return' or"),
    "conflict without a key": ({"on_conflict": "replace"}, "add key="),
    "negative keep_key": ({"key": "k", "keep_key": -1}, "keep_key"),
    "negative start_within": ({"start_within": -1}, "start_within"),
    "endless start_within": ({"start_within": float("inf")}, "start_within"),
    "no span": ({"start_within": "soon"}, "start_within"),
    "word for lateness": ({"on_late": "never"}, "on_late must be 'run' or 'expire'"),
    "number as tags": ({"tags": 5}, "tags must be texts"),
    "number as a tag": ({"tags": [5]}, "a tag must be"),
    "list as a tag": ({"tags": [["a"]]}, "a tag must be"),
    "empty tag": ({"tags": [""]}, "a tag must be"),
    "too many tags": ({"tags": [str(number) for number in range(21)]}, "at most 20 tags"),
    "text as metadata": ({"metadata": "who"}, "metadata must map"),
    "number in metadata": ({"metadata": {"who": 5}}, "metadata must map"),
    "unwritable metadata": ({"metadata": {"who": "\udcff"}}, "metadata must map"),
    "NUL in metadata": ({"metadata": {"who": "a\0b"}}, "metadata must map names to texts without NUL"),
    "NUL in a name of metadata": ({"metadata": {"w\0o": "a"}}, "metadata must map"),
    "NUL in a tag": ({"tags": ["a\0b"]}, "a tag must be 1 to 100 printable characters"),
    "NUL in a key": ({"key": "a\0b"}, "key must be 1 to 200 printable characters"),
    "long metadata": ({"metadata": {"who": "x" * 5000}}, "metadata must not exceed"),
}

BAD_DECLARATIONS = {
    "unknown": ({"max_retries": 3}, "app.task has no option 'max_retries'; did you mean max_attempts?"),
    "misspelt": ({"qeue": "mail"}, "did you mean queue?"),
    "of an enqueue": ({"delay": 5}, "app.task has no option 'delay'; there are: queue, priority"),
    "keep_result": ({"keep_result": 0}, "keep_result must be"),
    "tags": ({"tags": 5}, "tags must be texts"),
    "on_late": ({"on_late": "never"}, "on_late must be"),
}


@pytest.fixture
def shop(tmp_path):
    source = tmp_path / "enqueueing.py"
    source.write_text(APP)
    with Shop(tmp_path, source) as made:
        made.tasks.send.enqueue("someone")
        yield made
        assert made.counts() in ({"ready": 1}, {"ready": 1, "completed": 1})


@pytest.mark.parametrize("how", ["sync", "async", "many", "async many"])
def test_enqueue_bad_arguments(shop, how):
    """Missing, extra, mistyped, unserialisable and huge arguments are refused by name; none is written."""
    for name, (task, arguments, words) in BAD.items():
        with pytest.raises(ArgumentsError) as refused:
            enqueue(getattr(shop.tasks, task), arguments, how)
        assert words in str(refused.value), (name, str(refused.value))
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) < 1000, name


@pytest.mark.parametrize("how", ["sync", "async"])
def test_enqueue_bad_options(shop, how):
    """A negative delay, a time without a zone and other impossible options are refused by name; none is written."""
    for name, (options, words) in BAD_OPTIONS.items():
        with pytest.raises(ConfigurationError) as refused:
            enqueue(shop.tasks.send.options(**options), {"to": "a"}, how)
        assert words in str(refused.value), (name, str(refused.value))
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) < 1000, name


def test_enqueue_naive_datetime_as_an_argument(shop):
    """Only `at` needs a zone: as an argument a time without one is accepted and arrives as it is."""
    handle = shop.tasks.plan.options(queue="other").enqueue(NAIVE)
    shop.drain("--queues", "other")
    assert handle.result(timeout=0) == "2030-01-01T00:00:00 None"


def test_declare_bad_options(shop):
    """An option that a task does not have is refused where it is declared, with the one that may be meant."""
    for name, (options, words) in BAD_DECLARATIONS.items():
        with pytest.raises(ConfigurationError) as refused:
            shop.app.task(**options)
        assert words in str(refused.value), (name, str(refused.value))


def test_enqueue_many_takes_all_or_nothing(shop):
    """One bad job among a thousand is named by its place, and none of the thousand is written."""
    jobs = [{"to": "a"} for _ in range(1500)]
    jobs[1234] = {"to": 7}
    with pytest.raises(ArgumentsError, match=r"jobs\[1234\].*'to'"):
        shop.tasks.send.enqueue_many(jobs)
    with pytest.raises(ArgumentsError, match=r"jobs\[1\]"):
        asyncio.run(shop.tasks.send.aenqueue_many([{"to": "a"}, ["a"]]))


def enqueue(task, arguments, how):
    """Enqueue in one of the four ways."""
    match how:
        case "sync":
            task.enqueue(**arguments)
        case "async":
            asyncio.run(task.aenqueue(**arguments))
        case "many":
            task.enqueue_many([arguments])
        case _:
            asyncio.run(task.aenqueue_many([arguments]))
