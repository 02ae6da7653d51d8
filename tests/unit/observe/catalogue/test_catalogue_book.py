"""The catalogue in the store: written when it says something new, forgotten when nobody says it any more."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from standfast.model.records import Change, Kind
from standfast.observe.catalogue import (
    FRESH_FOR,
    KEPT_FOR,
    Bound,
    Catalogue,
    CatalogueView,
    GateEntry,
    Parameter,
    QueueEntry,
    TaskEntry,
    other_signatures,
    publish,
    read_catalogue,
)
from standfast.stores.sqlite.store import SqliteBackend
from standfast.stores.verb import Verb, run_procedure
from standfast.testing import FakeClock

CLOCK = FakeClock()
SHOP = Catalogue(
    "shop", "1", CLOCK.now(), "web-01", "0.1.0", tasks=(TaskEntry("mail", doc="old"), TaskEntry("gone"))
)


class Book:
    """A store in which releases are published, and what it was asked."""

    def __init__(self, path: Path) -> None:
        self.backend = SqliteBackend(path, clock=CLOCK)
        self.called: list[str] = []

    def run(self, verb: Verb[object]) -> object:
        self.called.append(verb.name)
        return self.backend.run(verb)

    def publish(self, catalogue: Catalogue) -> bool:
        self.called = []
        return run_procedure(self.run, publish(self.backend.verbs, catalogue))

    def view(self) -> CatalogueView:
        return run_procedure(self.run, read_catalogue(self.backend.verbs))

    def releases(self) -> list[str]:
        return [each.key for each in self.view().releases]


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    book = Book(tmp_path / "jobs.db")
    with closing(book.backend):
        yield book


def later(catalogue: Catalogue, by: timedelta, **changes: object) -> Catalogue:
    return replace(catalogue, published_at=catalogue.published_at + by, **changes)


def test_what_is_there_costs_one_read(book: Book) -> None:
    """The second worker of a release, on whatever host, writes nothing."""
    assert book.publish(SHOP)
    assert not book.publish(later(SHOP, FRESH_FOR, host="web-02"))
    assert book.called == ["records"]
    assert book.view().releases == (SHOP,)


@pytest.mark.parametrize("change", [{"tasks": ()}, {"standfast": "0.2.0"}, {"queues": (QueueEntry("q"),)}])
def test_what_is_new_is_written(book: Book, change: dict[str, object]) -> None:
    """Also under the same name of a release: code may change without anybody giving it another."""
    book.publish(SHOP)
    changed = later(SHOP, timedelta(seconds=1), **change)
    assert book.publish(changed)
    assert book.view().releases == (changed,)


def test_who_still_lives_says_so_again(book: Book) -> None:
    """After a day the same is written again, so that it is not forgotten."""
    book.publish(SHOP)
    again = later(SHOP, FRESH_FOR + timedelta(seconds=1))
    assert book.publish(again)
    assert book.view().releases == (again,)


def test_of_two_at_once_both_are_done(book: Book) -> None:
    """One finds the other's word when its own was refused, and is content."""
    asked = publish(book.backend.verbs, SHOP).steps
    found = book.run(next(asked))
    wish = asked.send(found)
    assert book.publish(replace(SHOP, host="web-02"))
    again = asked.send(book.run(wish))
    with pytest.raises(StopIteration) as end:
        asked.send(book.run(again))
    assert end.value.value is False
    assert [each.host for each in book.view().releases] == ["web-02"]


def test_what_nobody_publishes_any_more_is_forgotten(book: Book) -> None:
    """By whoever publishes something new, of whatever app."""
    book.publish(SHOP)
    for old_by, left in ((KEPT_FOR, ["shop@1"]), (KEPT_FOR + timedelta(seconds=1), [])):
        assert book.publish(later(SHOP, old_by, app="other", standfast=f"1.{len(left)}"))
        assert book.releases() == ["other@1", *left]


def test_nonsense_is_passed_over_and_left_alone(book: Book) -> None:
    """What only a newer release can read is shown by that one, and forgotten by it."""
    change = Change(Kind.CATALOGUE, "shop@9", 0, "t", b'{"app": 1}')
    book.run(book.backend.verbs.change_records([change]))
    book.publish(later(SHOP, 2 * KEPT_FOR))
    assert book.releases() == ["shop@1"]
    assert len(book.run(book.backend.verbs.records(Kind.CATALOGUE))) == 2
    assert book.publish(later(SHOP, 2 * KEPT_FOR, release="9"))


def test_of_a_task_the_newest_word_counts(book: Book) -> None:
    """Whichever release of whichever app it is from; one that the newest release of its app lacks is told apart."""
    book.publish(replace(SHOP, queues=(QueueEntry("q", Bound(1)),), gates=(GateEntry("g", Bound(1)),)))
    second = later(SHOP, timedelta(hours=1), release="2", tasks=(TaskEntry("mail", doc="new"),))
    book.publish(replace(second, queues=(QueueEntry("q", Bound(2)), QueueEntry("p"))))
    book.publish(later(SHOP, timedelta(minutes=1), app="back", tasks=(TaskEntry("bill"),)))
    view = book.view()
    assert [(each.task.name, each.task.doc, each.app, each.release, each.current) for each in view.tasks] == [
        ("bill", "", "back", "1", True),
        ("gone", "", "shop", "1", False),
        ("mail", "new", "shop", "2", True),
    ]
    assert view.queues == (QueueEntry("p"), QueueEntry("q", Bound(2)))
    assert view.gates == (GateEntry("g", Bound(1)),)
    assert [each.key for each in view.releases] == ["shop@2", "back@1", "shop@1"]
    assert view.task("mail") == view.tasks[2]
    assert view.task("mails") is None


def test_a_task_that_another_service_declares_with_other_parameters_is_named(book: Book) -> None:
    """Unless it has another version, or nobody has published that other one of late."""
    book.publish(SHOP)

    def others(task: TaskEntry, after: timedelta = timedelta()) -> dict[str, str]:
        stock = later(SHOP, after, app="stock", tasks=(task, TaskEntry("count")))
        return run_procedure(book.run, other_signatures(book.backend.verbs, stock))

    different = TaskEntry("mail", parameters=(Parameter("to", "str"),))
    assert others(different) == {"mail": "release 1 of shop"}
    assert others(TaskEntry("mail", doc="of another")) == {}
    assert others(replace(different, version=2)) == {}
    assert others(different, 2 * FRESH_FOR) == {}
