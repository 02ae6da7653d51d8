"""What cannot be accepted is refused at once, with the field and the remedy named, and nothing is written."""

import asyncio
import threading
from datetime import datetime, timedelta

import pytest
from shopfloor import Shop

from holdfast import ArgumentsError, ConfigurationError

APP = """
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from holdfast import Context, Holdfast

app = Holdfast(f"sqlite:///{Path(__file__).parent}/jobs.db")

@dataclass
class Address:
    street: str
    number: int

@app.task
async def send(ctx: Context, to: str, copies: int = 1, at: Address | None = None) -> None: ...

@app.task
def keep(thing: object) -> None: ...
"""

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
}
endless.append(endless)

BAD_OPTIONS = {
    "negative delay": ({"delay": -1}, "delay"),
    "negative span": ({"delay": timedelta(seconds=-1)}, "delay"),
    "no number": ({"delay": "soon"}, "delay"),
    "endless delay": ({"delay": float("inf")}, "delay"),
    "naive time": ({"at": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001 - that is the mistake
    "no time": ({"at": "tomorrow"}, "at"),
    "both": ({"at": datetime(2030, 1, 1), "delay": 1}, "delay and at"),  # noqa: DTZ001
    "priority": ({"priority": "high"}, "priority"),
    "huge priority": ({"priority": 10**6}, "priority"),
    "queue": ({"queue": "a b"}, "queue"),
    "attempts": ({"max_attempts": 0}, "max_attempts"),
    "id": ({"job_id": "7"}, "job_id"),
}


@pytest.fixture
def shop(tmp_path):
    source = tmp_path / "enqueueing.py"
    source.write_text(APP)
    with Shop(tmp_path, source) as made:
        made.tasks.send.enqueue("someone")
        yield made
        assert made.counts() == {"ready": 1}


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
