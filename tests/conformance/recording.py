"""Records: small documents that change by comparison of versions, with all that comes of a change or nothing."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from conformance.harness import Harness
from standfast.model.records import Change, Kind, Record
from standfast.model.states import State
from standfast.stores.backend import find_identity, identity_of
from standfast.stores.contract import cancel_job
from standfast.stores.verb import run_procedure

OLD, NEW = "an old token", "a new token"
OTHER_KINDS = tuple(kind for kind in Kind if kind is not Kind.SCHEDULE)


def _in(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def all_there_is(harness: Harness) -> object:
    """Return all that a store shows: if it is the same later, nothing has happened."""
    return harness.snapshot(), harness.kept()


def _due(harness: Harness, ahead: float = 0, limit: int = 100, kind: Kind = Kind.SCHEDULE) -> list[str]:
    due = harness.run(harness.verbs.due_records(kind, _in(ahead), limit))
    assert due.now == harness.clock.now()
    return [record.name for record in due.records]


class KeepingRecords:
    """What was written of a record is read again, by kind and name."""

    def test_a_new_record(self, harness: Harness) -> None:
        """It has version 1, and its body and time as they were given."""
        due_at = harness.clock.now() + timedelta(days=3, microseconds=7)
        body = bytes(range(256))
        assert harness.change("nightly \N{SNOWMAN}", body=body, due_at=due_at, token=NEW)
        record = Record(Kind.SCHEDULE, "nightly \N{SNOWMAN}", 1, due_at, body, NEW)
        assert harness.run(harness.verbs.records(Kind.SCHEDULE)) == (record,)

    def test_each_change_makes_a_version(self, harness: Harness) -> None:
        """A change replaces body and time, and the version grows by one."""
        now = harness.clock.now()
        for seen, (body, due_at) in enumerate(
            [(b"", now), (b"b", None), (b"b", now + _in(1)), (b"b", now + _in(1))]
        ):
            assert harness.change("a", seen=seen, body=body, due_at=due_at, token=f"t{seen}")
            assert harness.record("a") == Record(Kind.SCHEDULE, "a", seen + 1, due_at, body, f"t{seen}")

    def test_records_come_by_name(self, harness: Harness) -> None:
        """All of a kind, by name, in the order of their code points, whatever their time and age."""
        names = ["é", "b", "B", "a-1", "a", "", "Z", "a b"]
        for number, name in enumerate(names):
            assert harness.change(name, due_at=harness.clock.now() - _in(number))
        assert [record.name for record in harness.run(harness.verbs.records(Kind.SCHEDULE))] == sorted(names)

    def test_records_of_given_names(self, harness: Harness) -> None:
        """Those that exist, once each and by name, in whatever order and however often they were asked for."""
        for name in "abc":
            harness.change(name)
        found = harness.run(harness.verbs.records(Kind.SCHEDULE, ["c", "a", "unknown", "c"]))
        assert [record.name for record in found] == ["a", "c"]
        assert harness.run(harness.verbs.records(Kind.SCHEDULE, [])) == ()

    def test_kinds_do_not_meet(self, harness: Harness) -> None:
        """A name stands for another record in each kind, with a version and a life of its own."""
        for kind in Kind:
            assert harness.change("same", kind=kind, body=kind.encode(), due_at=harness.clock.now(), token=kind)
        assert harness.change("same", seen=1, body=b"new")
        for kind in OTHER_KINDS:
            kept = Record(kind, "same", 1, harness.clock.now(), kind.encode(), kind)
            assert harness.record("same", kind) == kept
            assert _due(harness, kind=kind) == ["same"]
        assert _due(harness) == []
        assert harness.change("same", seen=2, body=None)
        assert harness.record("same") is None
        assert [kind for kind in Kind if harness.record("same", kind)] == list(OTHER_KINDS)

    def test_records_that_are_due(self, harness: Harness) -> None:
        """Those whose time has come or comes within what is asked for, the longest due first, and no more."""
        now = harness.clock.now()
        times = {"never": None, "late": -5, "later": -5, "now": 0, "soon": 10, "then": 10.000001, "zeroth": -60}
        for name, seconds in times.items():
            harness.change(name, due_at=None if seconds is None else now + _in(seconds))
        assert _due(harness) == ["zeroth", "late", "later", "now"]
        assert _due(harness, limit=2) == ["zeroth", "late"]
        assert _due(harness, ahead=10) == ["zeroth", "late", "later", "now", "soon"]
        assert _due(harness, limit=0) == []
        harness.clock.advance(10)
        assert _due(harness) == ["zeroth", "late", "later", "now", "soon"]

    def test_the_next_time_counts(self, harness: Harness) -> None:
        """A record that was changed is due at its new time alone."""
        harness.change("a", due_at=harness.clock.now())
        harness.change("a", seen=1, due_at=harness.clock.now() + _in(60))
        assert _due(harness, ahead=59) == []
        assert _due(harness, ahead=60) == ["a"]
        harness.change("a", seen=2, due_at=None)
        assert _due(harness, ahead=10**6) == []

    def test_a_store_without_records(self, harness: Harness) -> None:
        """Nothing is kept, nothing is due, and no changes are no problem."""
        assert harness.run(harness.verbs.records(Kind.WINDOW)) == ()
        assert harness.run(harness.verbs.records(Kind.WINDOW, ["a"])) == ()
        assert _due(harness) == []
        assert harness.run(harness.verbs.change_records([])) == ()


class ComparingVersions:
    """A change is made by who has seen the newest version, once; nothing at all comes of any other."""

    @pytest.mark.parametrize("seen", [0, 1, 3, 99])
    @pytest.mark.parametrize("forgets", [False, True])
    def test_a_refused_change_changes_nothing(self, harness: Harness, seen: int, *, forgets: bool) -> None:
        """Who has seen an older version, none, or one that never was: no record, fire, job or cancellation."""
        waiting, claimed = harness.place(State.SCHEDULED), harness.place(State.HELD)
        harness.change("a", body=b"1", due_at=harness.clock.now())
        harness.change("a", seen=1, body=b"2", due_at=harness.clock.now(), fires=(harness.new_fire(),))
        before = all_there_is(harness)
        body = None if forgets else b"3"
        rest = {"fires": (harness.new_fire(note="new"),), "jobs": (harness.new_job(),)}
        assert not harness.change("a", seen=seen, body=body, cancels=(waiting.job_id, claimed.job_id), **rest)
        assert all_there_is(harness) == before

    def test_what_does_not_exist_has_no_version(self, harness: Harness) -> None:
        """A record that nobody made, or that is forgotten, is changed by nobody who thinks to have seen it."""
        before = all_there_is(harness)
        assert not harness.change("a", seen=1, jobs=(harness.new_job(),), fires=(harness.new_fire(),))
        assert all_there_is(harness) == before
        harness.change("a")
        harness.change("a", seen=1, body=None)
        assert not harness.change("a", seen=1)
        assert all_there_is(harness) == before

    def test_a_repeated_change_is_made_once(self, harness: Harness) -> None:
        """One whose answer was lost gets the same answer, and nothing more comes of it, later too."""
        for seen in (0, 1):
            (job, other), fire = (harness.new_job(), harness.new_job()), harness.new_fire()
            change = harness.new_change("a", seen=seen, fires=(fire,), jobs=(job,), due_at=harness.clock.now())
            assert harness.run(harness.verbs.change_records([change])) == (True,)
            harness.clock.advance(5)
            harness.run(cancel_job(harness.verbs, job.id))
            before = all_there_is(harness)
            again = harness.new_change("a", seen=seen, token=change.token, jobs=(other,), body=b"else")
            assert harness.run(harness.verbs.change_records([change])) == (True,)
            assert harness.run(harness.verbs.change_records([again])) == (True,)
            assert all_there_is(harness) == before

    def test_another_token_is_another_change(self, harness: Harness) -> None:
        """Who wants the same of the same version, but is not the one who got it, is refused."""
        change = harness.new_change("a", due_at=harness.clock.now())
        harness.run(harness.verbs.change_records([change]))
        before = all_there_is(harness)
        assert not harness.change("a", due_at=change.due_at, body=change.body)
        assert all_there_is(harness) == before

    def test_a_change_that_was_followed_is_not_repeated(self, harness: Harness) -> None:
        """Once another change came after it, its repetition is refused and undoes nothing."""
        first = harness.new_change("a", jobs=(harness.new_job(),))
        harness.run(harness.verbs.change_records([first]))
        harness.change("a", seen=1, body=b"newer")
        before = all_there_is(harness)
        assert harness.run(harness.verbs.change_records([first])) == (False,)
        assert all_there_is(harness) == before

    def test_forgetting(self, harness: Harness) -> None:
        """A record is forgotten with its fires, once; whoever comes later is told that it is gone."""
        harness.change("b", fires=(harness.new_fire("b"),))
        before = harness.kept()
        harness.change("a", fires=(harness.new_fire("a"),), due_at=harness.clock.now())
        forgetting = harness.new_change("a", seen=1, body=None)
        assert harness.run(harness.verbs.change_records([forgetting])) == (True,)
        assert harness.kept() == before
        assert harness.run(harness.verbs.change_records([forgetting])) == (True,)
        assert harness.change("a", seen=7, body=None)
        assert harness.change("never", body=None)
        assert harness.kept() == before

    def test_nothing_comes_of_forgetting_what_does_not_exist(self, harness: Harness) -> None:
        """It is no change: its jobs are not enqueued, and those to cancel go on."""
        waiting = harness.place(State.SCHEDULED)
        before = all_there_is(harness)
        assert harness.change("a", body=None, jobs=(harness.new_job(),), cancels=(waiting.job_id,))
        assert all_there_is(harness) == before

    def test_a_forgotten_name_is_free(self, harness: Harness) -> None:
        """A record made anew under an old name begins with version 1, without the fires of the old one."""
        harness.change("a", fires=(harness.new_fire(),))
        harness.change("a", seen=1, body=None)
        assert harness.change("a", body=b"new", token=NEW)
        assert harness.kept().records == (Record(Kind.SCHEDULE, "a", 1, None, b"new", NEW),)
        assert harness.kept().fires == ()

    @pytest.mark.parametrize("forgets", [False, True])
    def test_another_of_the_same_name_is_left_alone(self, harness: Harness, *, forgets: bool) -> None:
        """Who says which one was seen does not change what was made anew under its name since, version or not."""
        held = harness.place(State.HELD)
        harness.change("a", token=OLD)
        harness.change("a", seen=1, body=None)
        harness.change("a", body=b"new", token=NEW, fires=(harness.new_fire(),), due_at=harness.clock.now())
        before = all_there_is(harness)
        wish = {"seen": 1, "body": None if forgets else b"old", "jobs": (harness.new_job(),)}
        assert not harness.change("a", after=OLD, withdraws=(held.job_id,), **wish)
        assert all_there_is(harness) == before
        assert harness.change("a", after=NEW, **wish)
        assert (harness.record("a") is None) is forgets

    def test_a_repeated_change_of_what_was_seen(self, harness: Harness) -> None:
        """It was made, and is told so, though what was seen is there no more."""
        harness.change("a", token=OLD)
        change = harness.new_change("a", seen=1, after=OLD, jobs=(harness.new_job(),))
        assert harness.run(harness.verbs.change_records([change])) == (True,)
        before = all_there_is(harness)
        assert harness.run(harness.verbs.change_records([change])) == (True,)
        assert all_there_is(harness) == before

    @pytest.mark.parametrize("kind", OTHER_KINDS)
    def test_only_a_schedule_takes_its_fires_along(self, harness: Harness, kind: Kind) -> None:
        """A record of another kind with the name of a schedule leaves its fires alone when it is forgotten."""
        harness.change("a", fires=(harness.new_fire(),))
        before = harness.kept()
        harness.change("a", kind=kind)
        harness.change("a", kind=kind, seen=1, body=None)
        assert harness.kept() == before

    def test_each_change_of_a_call_is_judged_alone(self, harness: Harness) -> None:
        """One is refused, others are made, and the answers come in the order asked for."""
        harness.change("stale")
        harness.change("stale", seen=1)
        harness.change("gone")
        jobs = [harness.new_job() for _ in range(5)]
        wishes = [
            ("stale", 1, b"x"),
            ("new", 0, b"x"),
            ("unknown", 4, b"x"),
            ("gone", 1, None),
            ("also new", 0, b"x"),
        ]
        changes = [
            harness.new_change(name, seen=seen, body=body, jobs=(job,), fires=(harness.new_fire(name),))
            for (name, seen, body), job in zip(wishes, jobs, strict=True)
        ]
        assert harness.run(harness.verbs.change_records(changes)) == (False, True, False, True, True)
        assert [record.name for record in harness.kept().records] == ["also new", "new", "stale"]
        assert {fire.schedule for fire in harness.kept().fires} == {"also new", "new"}
        assert {job.id for job in harness.snapshot().jobs} == {jobs[1].id, jobs[3].id, jobs[4].id}

    def test_records_of_all_kinds_in_one_call(self, harness: Harness) -> None:
        """Names that are the same in two kinds are two records."""
        changes = [harness.new_change("same", kind=kind, body=kind.encode()) for kind in Kind]
        assert harness.run(harness.verbs.change_records(changes)) == (True,) * len(Kind)
        assert all(harness.record("same", kind) for kind in Kind)

    def test_two_changes_of_one_record(self, harness: Harness) -> None:
        """They are refused together with all others of the call."""
        before = all_there_is(harness)
        changes = [harness.new_change(name, jobs=(harness.new_job(),)) for name in ("other", "a", "a")]
        with pytest.raises(ValueError, match="same record"):
            harness.run(harness.verbs.change_records(changes))
        assert all_there_is(harness) == before


class RacingForRecords:
    """Of many who want to change a record at the same time, one does."""

    def test_many_fire_and_one_does(self, harness: Harness) -> None:
        """Many threads have seen one version: one change is made, with its job and its fire, in each round."""
        for seen in range(5):
            planned = harness.clock.now() + _in(seen)
            jobs = [harness.new_job(run_at=planned) for _ in range(8)]
            changes = [
                harness.new_change(
                    "a", seen=seen, jobs=(job,), fires=(harness.new_fire(planned=planned, job_id=job.id),)
                )
                for job in jobs
            ]
            made = _at_once(harness, [[change] for change in changes])
            (winner,) = [job.id for job, (won,) in zip(jobs, made, strict=True) if won]
            assert [fire.job_id for fire in harness.kept().fires if fire.planned == planned] == [winner]
            assert [job.id for job in harness.snapshot().jobs if job.run_at == planned] == [winner]
        assert len(harness.snapshot().jobs) == 5

    def test_a_repetition_races_with_itself(self, harness: Harness) -> None:
        """One change sent from many threads is made once, and each is told that it was."""
        job = harness.new_job()
        change = harness.new_change("a", jobs=(job,))
        assert _at_once(harness, [[change]] * 8) == [(True,)] * 8
        assert harness.record("a") == Record(Kind.SCHEDULE, "a", 1, None, change.body or b"", change.token)
        assert [job.id for job in harness.snapshot().jobs] == [job.id]

    @pytest.mark.parametrize("seen", [0, 1])
    def test_changes_that_cross(self, harness: Harness, seen: int) -> None:
        """Callers with many records, each in an order of its own, all get an answer, and each record one change."""
        names = [f"record-{number}" for number in range(12)]
        if seen:
            harness.run(harness.verbs.change_records([harness.new_change(name) for name in names]))

        def wish(turn: int) -> list[Change]:
            order = names[turn:] + names[:turn]
            order = order if turn % 2 else order[::-1]
            return [harness.new_change(name, seen=seen, jobs=(harness.new_job(),)) for name in order]

        wishes = [wish(turn) for turn in range(8)]
        made = _at_once(harness, wishes)
        pairs = [
            pair
            for changes, answers in zip(wishes, made, strict=True)
            for pair in zip(changes, answers, strict=True)
        ]
        assert sorted(change.name for change, won in pairs if won) == sorted(names)
        assert {job.id for job in harness.snapshot().jobs} == {
            job.id for change, won in pairs if won for job in change.jobs
        }
        assert {record.version for record in harness.kept().records} == {seen + 1}

    def test_forgetting_races_with_changing(self, harness: Harness) -> None:
        """Either it is changed or it is forgotten: never both of one version."""
        for number in range(10):
            name = f"record-{number}"
            harness.change(name)
            change = harness.new_change(name, seen=1, jobs=(harness.new_job(),), fires=(harness.new_fire(name),))
            wishes = [[change], [harness.new_change(name, seen=1, body=None)]] * 2
            (changed,), (forgotten,), *_ = _at_once(harness, wishes)
            assert changed is not forgotten
            record = harness.record(name)
            assert (record is not None and record.version == 2) is changed
            assert [fire.schedule for fire in harness.kept().fires].count(name) == changed


def _at_once(harness: Harness, wishes: Sequence[list[Change]]) -> list[tuple[bool, ...]]:
    with ThreadPoolExecutor(len(wishes)) as threads:
        return list(threads.map(lambda changes: harness.run(harness.verbs.change_records(changes)), wishes))


class HavingAnIdentity:
    """Which store this is."""

    def test_it_is_made_once_whoever_asks_first(self, harness: Harness) -> None:
        """Of many who find none one makes it, and all are told the same."""
        assert run_procedure(harness.run, find_identity(harness.verbs)) is None
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(identity_of, harness.backend) for _ in range(4)]
        [known] = {each.result() for each in asked}
        assert run_procedure(harness.run, find_identity(harness.verbs)) == known
