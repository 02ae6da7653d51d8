"""What takes long is read aside: nobody waits for it, and it takes a hundredth of the time at most."""

import threading

import pytest

from standfast import Standfast
from standfast.observe.metrics.scrape import LONGEST_PAUSE, SHARE, BackgroundRead, StoreLook, page


class Book:
    """Something that takes a while to read, by a clock that stands still meanwhile."""

    def __init__(self, takes=0.0, **options):
        self.now = 0.0
        self.reads = 0
        self.takes = takes
        self.may_end = threading.Event()
        self.may_end.set()
        self.aside = BackgroundRead(self.read, monotonic=lambda: self.now, **options)

    def read(self):
        assert self.may_end.wait(10)
        self.reads += 1
        self.now += self.takes
        return self.reads


def test_what_is_read_at_once_is_read_each_time():
    book = Book()
    assert [book.aside.latest() for _ in range(3)] == [1, 2, 3]


def test_reading_takes_no_more_than_its_share_of_the_time():
    """However often somebody asks."""
    book = Book(takes=0.5)
    assert book.aside.latest() == 1
    book.now += 0.5 / SHARE - 0.1
    assert book.aside.latest() == 1
    book.now += 0.2
    assert book.aside.latest() == 2


def test_a_store_that_was_held_up_once_is_asked_again_within_a_minute():
    book = Book(takes=30.0)
    assert book.aside.latest() == 1
    book.now += LONGEST_PAUSE - 0.1
    assert book.aside.latest() == 1
    book.now += 0.2
    assert book.aside.latest() == 2


def test_it_is_read_no_more_often_than_is_said():
    book = Book(every=60.0)
    assert [book.aside.latest(), book.aside.latest()] == [1, 1]
    book.now += 60.0
    assert book.aside.latest() == 2


def test_who_cannot_wait_has_what_was_read_before():
    """Nothing the first time; and who asks meanwhile does not begin another read."""
    book = Book(patience=0.0)
    book.may_end.clear()
    assert [book.aside.latest() for _ in range(3)] == [None] * 3
    book.may_end.set()
    book.aside._reading.join(10)
    book.may_end.clear()
    assert [book.aside.latest() for _ in range(3)] == [1] * 3
    book.may_end.set()


def test_what_goes_wrong_is_raised_once_and_tried_again_and_nothing_old_is_told():
    answers = iter([3, ValueError("no"), 7])

    def read():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    now = [0.0]
    aside = BackgroundRead(read, every=1.0, monotonic=lambda: now[0])
    assert aside.latest() == 3
    now[0] = 1.0
    with pytest.raises(ValueError, match="no"):
        aside.latest()
    assert aside.latest() is None
    now[0] = 2.0
    assert aside.latest() == 7


def send() -> None:
    """Serve as a task."""


class Counted:
    """A store that notes what it is asked for, and takes long to count jobs."""

    def __init__(self, app):
        self._app = app
        self.verbs = app.verbs
        self.may_count = threading.Event()

    def call(self, verb):
        if verb.name == "queues":
            assert self.may_count.wait(10)
        return self._app.call(verb)


def test_jobs_that_take_long_to_count_keep_nobody_waiting(monkeypatch):
    """All else is told at once, the ages of queues by their names; how many there are once it is known."""
    with Standfast("memory://") as app:
        app.task(send, queue="mail").enqueue()
        store = Counted(app)
        look = StoreLook(store)
        monkeypatch.setattr(look._queues, "_patience", 0.0)
        told = page(look())
        assert 'standfast_queue_oldest_due_seconds{queue="mail"}' in told
        assert "standfast_store_up 1" in told
        assert "standfast_jobs{" not in told
        store.may_count.set()
        look._queues._reading.join(10)
        assert 'standfast_jobs{queue="mail",state="ready"} 1' in page(look())
