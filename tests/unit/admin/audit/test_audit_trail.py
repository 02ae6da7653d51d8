"""The trail: nothing lost, nothing twice, newest first, bounded; on every store, whoever else writes."""

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from empty_stores import STORES
from harnesses import open_harness
from standfast.admin import audit_trail as chunks
from standfast.admin.audit_trail import MOST_LOOKED_AT, Entry, read_trail, write_down
from standfast.admin.operation import WrongRequestError
from standfast.model.records import Change, Kind
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.verb import run_procedure
from standfast.testing import FakeClock

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def entry(what, who="ada", **more):
    return Entry(NOON, who, str(what), **more)


@pytest.fixture
def backend():
    return MemoryBackend(FakeClock())


def write(backend, *entries):
    for each in entries:
        run_procedure(backend.run, write_down(backend.verbs, each))


def page(backend, before=None, **more):
    return run_procedure(backend.run, read_trail(backend.verbs, before, **more))


def everything(backend, limit=37, **more):
    """Return all entries by pages, and that the pages end."""
    found, before = [], None
    while True:
        got = page(backend, before, limit=limit, **more)
        found += got.entries
        before = got.next
        if before is None:
            return found


def records(backend):
    return {record.name: record for record in backend.run(backend.verbs.records(Kind.AUDIT))}


def whats(entries):
    return [each.what for each in entries]


def test_an_empty_trail_has_an_empty_page(backend) -> None:
    got = page(backend)
    assert (got.entries, got.next, got.looked_at, got.since) == ((), None, 0, None)


def test_pages_bring_all_of_it_newest_first_across_chunks(backend) -> None:
    """An entry that was written is found once, with all it says, whatever the size of pages."""
    write(backend, *(entry(number, after=f"{number} done", asked={"id": "x"}) for number in range(250)))
    assert records(backend).keys() == {"1", "2", "newest"}
    for limit in (1, 37, 100, 1000):
        assert whats(everything(backend, limit)) == [str(number) for number in reversed(range(250))]
    newest = page(backend, limit=1).entries[0]
    assert (newest.after, newest.asked, newest.at, newest.by) == ("249 done", {"id": "x"}, NOON, "page")
    assert len({each.id for each in everything(backend)}) == 250


def test_a_page_stays_where_it_was_while_others_write(backend) -> None:
    """The place of an entry is the same after its chunk was laid aside."""
    write(backend, *map(entry, range(99)))
    first = page(backend, limit=10)
    write(backend, *map(entry, range(99, 130)))
    assert whats(page(backend, first.next, limit=3).entries) == ["88", "87", "86"]


def test_the_oldest_are_forgotten(backend, monkeypatch) -> None:
    """No more chunks than are kept, and pages end where the trail does."""
    monkeypatch.setattr("standfast.admin.audit_trail.CHUNKS_KEPT", 3)
    monkeypatch.setattr("standfast.admin.audit_trail.CHUNKS_KEPT", 3)
    write(backend, *map(entry, range(550)))
    assert records(backend).keys() == {"4", "5", "newest"}
    assert whats(everything(backend)) == [str(number) for number in reversed(range(300, 550))]
    assert page(backend, "2.50").entries == ()


def test_large_entries_fill_a_chunk_sooner_and_records_stay_small(backend) -> None:
    """Long texts are cut; no record is larger than 64 KiB, whatever comes."""
    huge = entry("💥" * 9000, who="💥" * 900, asked={f"💥{n}" * 99: "💥" * 9000 for n in range(99)})
    huge = msgspec.structs.replace(huge, before="💥" * 99999, after='\0"\\' * 99999, error="é\n" * 99999)
    write(backend, *[huge] * 12)
    assert max(len(record.body) for record in records(backend).values()) <= 64 * 1024
    kept = page(backend, limit=1).entries[0]
    assert (len(kept.before), len(kept.who), len(kept.asked)) == (1000, 100, 16)
    assert len(everything(backend)) == 12


def test_texts_are_lines_without_control_characters_and_secrets(backend) -> None:
    """What an operation notes in its carelessness does not stay."""
    careless = entry(
        "x", error="a\r\nb\x1b[2J", before="postgres://me:hunter22@db/x", asked={"note": "password=hunter22\ud800"}
    )
    write(backend, careless)
    kept = page(backend).entries[0]
    assert kept.error == "a b�[2J"
    assert b"hunter22" not in records(backend)["newest"].body


def test_who_and_what_are_looked_for_over_a_span_that_is_told(backend) -> None:
    """One page looks at so many entries at most, says so, and the next goes on from there."""
    since = NOON - timedelta(days=1)
    rare = Entry(since, "eve", "jobs.discard")
    write(backend, rare, *(entry("jobs.retry") for _ in range(MOST_LOOKED_AT + 99)), entry("jobsx.y"))
    first = page(backend, who="eve")
    assert (first.entries, first.looked_at, first.since) == ((), MOST_LOOKED_AT, NOON)
    second = page(backend, first.next, who="eve")
    assert whats(second.entries) == ["jobs.discard"]
    assert (second.next, second.looked_at, second.since) == (None, 101, since)
    assert whats(page(backend, what="jobs", limit=2).entries) == ["jobs.retry"] * 2
    assert whats(page(backend, what="jobs.retry", who="ada", limit=2).entries) == ["jobs.retry"] * 2
    assert whats(page(backend, what="jobs.re", limit=2).entries) == []


@pytest.mark.parametrize("before", ["x", "1", "1.2.3", "-1.2", "1.2'", "١.٢", "9" * 5000 + ".1", "1.-1"])
def test_a_place_that_is_none_is_refused(backend, before) -> None:
    with pytest.raises(WrongRequestError, match="no place in the trail"):
        page(backend, before)


def test_a_place_beyond_the_end_is_the_newest(backend) -> None:
    write(backend, *map(entry, range(3)))
    assert whats(page(backend, "999.999").entries) == ["2", "1", "0"]


def test_nonsense_in_the_store_is_laid_aside(backend) -> None:
    """It stops nobody from writing or reading, and numbers go on."""
    write(backend, *map(entry, range(101)))
    newest = records(backend)["newest"]
    nonsense = Change(Kind.AUDIT, "newest", newest.version, "t", b"{nonsense")
    backend.run(backend.verbs.change_records([nonsense]))
    assert whats(page(backend, limit=1).entries) == ["99"]
    write(backend, entry("after"))
    assert whats(page(backend, limit=2).entries) == ["after", "99"]
    assert records(backend)["2"].body == b"{nonsense"


class Wishes:
    """Verbs that can be repeated as they are, as drivers do after an answer was lost."""

    def __getattr__(self, name):
        return lambda *given: lambda backend: backend.run(getattr(backend.verbs, name)(*given))


@pytest.mark.parametrize("seed", range(10))
def test_however_writers_interleave_each_entry_is_there_once(backend, seed) -> None:
    """Steps of many in any order; some answers are lost after the change was made, and the wish is repeated."""
    dice = random.Random(seed)
    write(backend, *(entry(f"before-{number}") for number in range(dice.randrange(90, 101))))
    waiting = [write_down(Wishes(), entry(f"w{writer}")).steps for writer in range(30)]
    verbs = {steps: next(steps) for steps in waiting}
    while verbs:
        steps = dice.choice(list(verbs))
        wish = verbs.pop(steps)
        answer = wish(backend)
        if dice.random() < 0.3 and isinstance(answer[-1] if answer else None, bool):
            write(backend, *(entry("between") for _ in range(dice.randrange(3))))
            answer = wish(backend)
        try:
            verbs[steps] = steps.send(answer)
        except StopIteration:
            continue
    found = everything(backend)
    assert sorted(each.what for each in found if each.what[0] == "w") == sorted(
        f"w{writer}" for writer in range(30)
    )
    assert len({each.id for each in found}) == len(found)


@pytest.mark.parametrize("store", [name for name in STORES if name != "memory"])
def test_threads_that_write_at_the_same_time_lose_nothing(store, request, tmp_path) -> None:
    """On every store that several use, across the end of a chunk."""
    with open_harness(store, STORES[store], request, tmp_path) as harness:
        backend = harness.backend
        write(backend, *(entry("before") for _ in range(95)))
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda number: write(backend, entry(f"n{number}")), range(40)))
        found = everything(backend)
        assert sorted(whats(found)) == sorted(["before"] * 95 + [f"n{number}" for number in range(40)])
        assert len({each.id for each in found}) == 135
        assert records(backend).keys() == {"1", "newest"}


def test_a_chunk_holds_what_it_promises() -> None:
    """At most 100,000 entries in all."""
    assert chunks.MOST_ENTRIES * chunks.CHUNKS_KEPT == 100_000


def test_what_is_written_again_takes_its_own_place(backend):
    """An entry that goes on is one entry, while its chunk grows; after that it comes anew, and full ones stay."""
    write(backend, entry("one"), entry("long", id="x"), entry("two"), entry("long", id="x", after="done"))
    told = [(each.what, each.after) for each in everything(backend)]
    assert told == [("two", None), ("long", "done"), ("one", None)]
    write(backend, *(entry(number) for number in range(chunks.MOST_ENTRIES - 3)))
    full = records(backend)["newest"].body
    write(backend, entry("long", id="x", after="over"))
    found = everything(backend)
    assert (found[0].after, len(found)) == ("over", chunks.MOST_ENTRIES + 1)
    assert records(backend)["1"].body == full
