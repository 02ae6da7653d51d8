"""What once broke schedules: fires doubled or dropped around pauses, edits and outages, and one that hid others."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from holdfast import Cron, Every
from holdfast.core.job import ClaimRef, Ending
from holdfast.core.record import Change, Decision, Fire, Kind, Record
from holdfast.core.states import Move, State
from holdfast.errors import (
    ConfigurationError,
    ScheduleNotFoundError,
    ScheduleUnreadableError,
    StoreUnavailableError,
    ValueNotStoredError,
)
from holdfast.schedule import due, errands
from holdfast.schedule.deciding import COUNTED, MOST_RUNS, decide
from holdfast.schedule.declaring import Declaration, Declarer, Synchronised, synchronise
from holdfast.schedule.plan import Plan, Schedule, Template, encode_plan, read_schedule
from holdfast.schedule.schedules import Schedules
from holdfast.store.errand import Errand, run_errand
from holdfast.store.memory.backend import MemoryBackend
from holdfast.store.protocol import ClaimRequest, WorkerInfo
from holdfast.testing.clock import FakeClock

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
JOB = Template("tidy", b"{}")
NAME = "tidy"


class Bench:
    """A store in memory, on a fake clock, with one worker."""

    def __init__(self, rule=None, *, ahead: float = 10.0) -> None:
        self.clock = FakeClock(NOON)
        self.backend = MemoryBackend(self.clock)
        self.verbs = self.backend.verbs
        self.ahead = timedelta(seconds=ahead)
        self.schedules = Schedules(self.verbs, self.ahead)
        self.calls = 0
        self.backend.run(self.verbs.register(WorkerInfo("w", "s", "host", 1, timedelta(days=365))))
        if rule is not None:
            self.create(NAME, rule)

    def call(self, errand: Errand):
        return run_errand(self.backend.run, errand)

    def create(self, name: str, rule) -> None:
        self.call(errands.create(self.verbs, name, rule, JOB, self.ahead))

    def look(self) -> due.Fired:
        return self.call(due.fire_due(self.verbs, self.ahead))

    def claim(self, limit: int = 10) -> list[ClaimRef]:
        self.calls += 1
        request = ClaimRequest("w", self.calls, limit, ahead_limit=limit, look_ahead=self.ahead)
        return [claim.ref for claim in self.backend.run(self.verbs.claim(request)).jobs]

    def start(self, refs: list[ClaimRef]) -> None:
        self.backend.run(self.verbs.start("w", [(ref, self.clock.now()) for ref in refs]))

    def schedule(self) -> Schedule:
        return self.call(self.schedules.get(NAME))

    def fires(self) -> list[Fire]:
        return list(reversed(self.backend.run(self.verbs.fires(NAME, 100))))

    def live(self) -> list[State]:
        """Return the states of all jobs of its fires that are not cancelled."""
        ids = [fire.job_id for fire in self.fires() if fire.job_id is not None]
        states = [glance.state for glance in self.backend.run(self.verbs.glance(ids)).values()]
        return [state for state in states if state is not State.CANCELLED]

    def spoil(self, name: str, body: bytes) -> None:
        change = Change(Kind.SCHEDULE, name, 0, f"spoil {name}", body, self.clock.now())
        assert self.backend.run(self.verbs.change_records([change])) == (True,)


@pytest.mark.parametrize("body", ["Mars/Base", "99 2 * * *", "\udcff"])
def test_what_this_machine_does_not_know_is_unreadable(body: str) -> None:
    """A zone or an expression that means nothing here concerns one schedule, and not every other."""
    plan = Plan(Cron("0 2 * * *", tz="Asia/Taipei"), JOB, created_at=NOON, cursor=NOON)
    old = "Asia/Taipei" if "/" in body else "0 2 * * *"
    spoilt = encode_plan(plan).replace(old.encode(), body.encode("utf-8", "surrogateescape"))
    with pytest.raises(ScheduleUnreadableError):
        read_schedule(Record(Kind.SCHEDULE, NAME, 1, None, spoilt, "token"))


def test_many_that_nobody_can_read_do_not_hide_the_others() -> None:
    bench = Bench(Every(30))
    for number in range(2 * due.AT_ONCE):
        bench.spoil(f"newer-{number}", b'{"rule":{"rule":"moon"}}')
    bench.clock.advance(25)
    assert [fire.schedule for fire in bench.look().fires] == [NAME]


def test_what_nobody_can_read_does_not_spoil_the_list(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(Every(30))
    bench.spoil("newer", b"?")
    assert [schedule.name for schedule in bench.call(bench.schedules.list())] == [NAME]
    assert "'newer' cannot be read" in caplog.text


def test_what_nobody_can_read_can_be_deleted() -> None:
    bench = Bench()
    bench.spoil(NAME, b"?")
    bench.call(bench.schedules.delete(NAME))
    with pytest.raises(ScheduleNotFoundError):
        bench.schedule()


def test_many_that_are_due_at_once_are_fired_one_look_after_the_other() -> None:
    """A look that leaves some over says so; else they would wait for the next beat."""
    bench = Bench()
    for number in range(2 * due.AT_ONCE + 1):
        bench.create(f"every-{number}", Every(60))
    bench.clock.advance(55)
    fired = [bench.look() for _ in range(3)]
    assert [len(look.fires) for look in fired] == [due.AT_ONCE, due.AT_ONCE, 1]
    now = bench.clock.now()
    assert [look.next_due_at == now for look in fired] == [True, True, False]


def test_a_look_tells_of_others_that_are_due_soon() -> None:
    bench = Bench(Every(30))
    bench.clock.advance(2)
    bench.create("other", Every(30))
    bench.clock.advance(18)
    assert bench.look().next_due_at == NOON + timedelta(seconds=22)


def test_a_resumed_schedule_still_minds_what_is_running() -> None:
    """Pausing and resuming does not let two runs overlap that must not."""
    bench = Bench(Every(30, overlap="skip"))
    bench.clock.advance(30)
    bench.look()
    bench.start(bench.claim())
    bench.call(bench.schedules.pause(NAME))
    bench.call(bench.schedules.resume(NAME))
    bench.clock.advance(30)
    bench.look()
    assert [fire.decision for fire in bench.fires()] == [Decision.FIRED, Decision.OVERLAPPED]


@pytest.mark.parametrize("overlap", ["skip", "allow"])
def test_a_fire_that_a_worker_may_still_start_is_not_fired_again(overlap: str) -> None:
    """A job that was asked back a moment before its time may run all the same: it must remain the only one."""
    bench = Bench(Every(30, overlap=overlap))
    bench.clock.advance(25)
    bench.look()
    assert len(bench.claim()) == 1
    bench.call(bench.schedules.pause(NAME))
    bench.call(bench.schedules.resume(NAME))
    bench.clock.advance(10)
    bench.look()
    assert [(fire.planned, fire.decision) for fire in bench.fires()] == [
        (NOON + timedelta(seconds=30), Decision.REVOKED)
    ]


def test_a_fire_that_was_cancelled_by_a_pause_is_fired_after_the_resume() -> None:
    bench = Bench(Every(30))
    bench.clock.advance(25)
    bench.look()
    bench.call(bench.schedules.pause(NAME))
    bench.call(bench.schedules.resume(NAME))
    assert [fire.decision for fire in bench.fires()] == [Decision.FIRED]
    assert bench.live() == [State.SCHEDULED]


def test_an_edit_drops_no_fire_before_one_that_a_worker_has() -> None:
    """Of two fires ahead of their time a worker has the second one only: the first is fired anew."""
    bench = Bench(Every(4, overlap="allow"))
    bench.look()
    bench.clock.advance(1)
    first, second = bench.schedule().plan.runs
    refs = bench.claim()
    assert [ref.job_id for ref in refs] == [first.job_id, second.job_id]
    bench.backend.run(bench.verbs.finish("w", [Ending(refs[0], Move.RELEASE)]))
    bench.call(bench.schedules.edit(NAME, job=lambda job: replace(job, payload=b"[]")))
    edited = {fire.planned: fire for fire in bench.fires()}
    assert {fire.decision for fire in edited.values()} == {Decision.FIRED}
    assert edited[first.planned].job_id != first.job_id
    assert edited[second.planned].job_id == second.job_id
    assert len(edited) == len(bench.live())


def test_more_fires_ahead_than_runs_are_minded_otherwise_are_all_taken_back() -> None:
    bench = Bench(Every(0.1, overlap="allow"), ahead=20)
    assert len(bench.schedule().plan.runs) > MOST_RUNS
    bench.call(bench.schedules.pause(NAME))
    ids = [run.job_id for run in bench.schedule().plan.runs]
    assert {glance.state for glance in bench.backend.run(bench.verbs.glance(ids)).values()} == {State.CANCELLED}
    assert len(ids) == 200


@pytest.mark.parametrize(("misfire", "caught_up"), [("once", 1), ("all", 100)])
def test_after_a_very_long_time_the_latest_are_caught_up(misfire: str, caught_up: int) -> None:
    """Where more were missed than are counted, it is the oldest that are let go."""
    bench = Bench(Every(1, misfire=misfire, overlap="allow", catch_up_window=3600))
    bench.clock.advance(2 * COUNTED)
    fires = [fire for fire in bench.look().fires if fire.decision is Decision.CAUGHT_UP]
    assert len(fires) == caught_up
    assert fires[-1].planned == bench.clock.now() - timedelta(seconds=61)


def test_cancel_running_cancels_also_a_run_that_began_in_the_same_look() -> None:
    """Two times have come since the last look: the second one does not wait for all of the first one's run."""
    bench = Bench(Every(10, overlap="cancel_running"), ahead=0)
    bench.clock.advance(21)
    bench.look()
    bench.start(bench.claim())
    bench.clock.advance(1)
    bench.look()
    (first,) = bench.schedule().plan.runs
    assert bench.backend.run(bench.verbs.get(first.job_id)).cancel_requested


def test_triggers_of_a_paused_schedule_do_not_pile_up() -> None:
    bench = Bench(Every(3600))
    bench.call(bench.schedules.pause(NAME))
    for _ in range(MOST_RUNS + 20):
        bench.call(bench.schedules.trigger(NAME))
    assert len(bench.schedule().plan.runs) <= MOST_RUNS + 1


def test_an_edit_that_stood_still_meanwhile_fires_nothing_twice() -> None:
    """Another has fired and forgotten a run since the edit asked for the time."""
    bench = Bench(Every(10, overlap="allow"), ahead=0)
    asked = 0

    def stand_still_once(verb):
        nonlocal asked
        answer, asked = bench.backend.run(verb), asked + 1
        for _ in range(2 if asked == 1 else 0):
            bench.clock.advance(10)
            bench.look()
        return answer

    edit = bench.schedules.edit(NAME, job=lambda job: replace(job, payload=b"[]"))
    run_errand(stand_still_once, edit)
    assert len(bench.backend.run(bench.verbs.fires(NAME, 10))) == 2
    assert len({fire.job_id for fire in bench.fires()}) == len(bench.claim()) == 2


def test_another_that_was_made_under_the_name_meanwhile_is_left_alone() -> None:
    """Deleted and created anew between the read and the write of an edit: the edit is of the new one."""
    bench = Bench(Every(3600))
    asked = 0

    def make_anew_once(verb):
        nonlocal asked
        answer, asked = bench.backend.run(verb), asked + 1
        if asked == 1:
            bench.call(bench.schedules.delete(NAME))
            bench.create(NAME, Every(60))
        return answer

    edit = bench.schedules.edit(NAME, job=lambda job: replace(job, payload=b"[]"))
    run_errand(make_anew_once, edit)
    assert (bench.schedule().plan.rule, bench.schedule().plan.job.payload) == (Every(60), b"[]")


def test_schedules_that_are_due_one_after_the_other_share_a_look() -> None:
    bench = Bench()
    for number in range(10):
        bench.create(f"s{number}", Every(60, overlap="allow"))
        bench.clock.advance(0.1)
    bench.clock.advance(49)
    look = bench.look()
    assert [fire.planned for fire in look.fires] == [NOON + timedelta(seconds=60 + n / 10) for n in range(10)]
    assert look.next_due_at == NOON + timedelta(seconds=110)


def test_what_is_to_be_decided_on_the_moment_is_not_written_before() -> None:
    bench = Bench(Every(60, overlap="skip"))
    bench.clock.advance(55)
    bench.look()
    bench.start(bench.claim())
    bench.clock.advance(64.5)
    bench.look()
    version = bench.schedule().version
    assert bench.look().next_due_at == NOON + timedelta(seconds=120)
    assert bench.schedule().version == version


@pytest.mark.parametrize("trouble", ["deciding", "writing"])
def test_one_that_cannot_be_fired_is_in_nobodys_way(monkeypatch: pytest.MonkeyPatch, trouble: str) -> None:
    """The others are fired; it stays due, is told of, and is not looked at again and again."""
    bench = Bench()
    for name in ("good", "bad", "better"):
        bench.create(name, Every(60))
    bench.clock.advance(55)
    change_records = bench.verbs.change_records

    def decide_but_one(schedule: Schedule, *args, **options):
        if schedule.name == "bad":
            raise OverflowError("a date is out of range")
        return decide(schedule, *args, **options)

    def change_but_one(changes: list[Change]):
        if "bad" in {change.name for change in changes}:
            raise ValueNotStoredError("a date is out of range")
        return change_records(changes)

    if trouble == "deciding":
        monkeypatch.setattr(due, "decide", decide_but_one)
    else:
        monkeypatch.setattr(bench.verbs, "change_records", change_but_one)
    look = bench.look()
    assert sorted(fire.schedule for fire in look.fires) == ["better", "good"]
    assert look.next_due_at == NOON + timedelta(seconds=110)
    (told,) = look.troubles
    assert told.startswith("schedule 'bad' could not be fired")
    assert told.endswith("a date is out of range")


def test_an_outage_is_no_fault_of_a_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    for name in ("one", "two"):
        bench.create(name, Every(60))
    bench.clock.advance(55)
    asked = []

    def fail(changes: list[Change]):
        asked.append(len(changes))
        raise StoreUnavailableError("the server is down")

    monkeypatch.setattr(bench.verbs, "change_records", fail)
    with pytest.raises(StoreUnavailableError):
        bench.look()
    assert asked == [2]


@pytest.mark.parametrize(
    ("rule", "job"),
    [
        ("0 2 * * *", None),
        (lambda _: None, None),
        (None, lambda _: "tidy"),
        (None, lambda job: replace(job, priority=10**20)),
        (None, lambda job: replace(job, task=7)),
    ],
)
def test_an_edit_that_would_make_a_schedule_unreadable_is_refused(rule, job) -> None:
    bench = Bench(Every(3600))
    with pytest.raises(ConfigurationError):
        bench.call(bench.schedules.edit(NAME, rule=rule, job=job))
    assert bench.schedule().version == 1


def test_an_errand_is_run_once() -> None:
    bench = Bench(Every(3600))
    errand = bench.schedules.get(NAME)
    bench.call(errand)
    with pytest.raises(ConfigurationError, match="anew"):
        bench.call(errand)


def test_a_fire_is_on_time_if_it_is_as_late_as_it_may_be() -> None:
    bench = Bench(Every(3600, misfire="skip", misfire_after=60), ahead=0)
    bench.clock.advance(3660)
    assert [fire.decision for fire in bench.look().fires] == [Decision.FIRED]


def test_two_backfills_at_the_same_time_fill_each_time_once() -> None:
    """Both have seen that nothing was fired; the second one looks again before it writes."""
    bench = Bench(Every(10, misfire="skip", overlap="allow"), ahead=0)
    bench.clock.advance(500)
    bench.look()
    filled = list[int]()

    def fill(run) -> None:
        until = NOON + timedelta(seconds=300)
        asked = bench.schedules.backfill(NAME, NOON, until)
        filled.append(run_errand(run, asked))

    def let_another_in(verb):
        answer = bench.backend.run(verb)
        if verb.name == "fires" and not filled:
            fill(bench.backend.run)
        return answer

    fill(let_another_in)
    assert filled == [30, 0]


def test_each_declaration_is_told_of_though_others_were_faster_with_some() -> None:
    bench = Bench()

    def declare(release: str, interval: float, run) -> Synchronised:
        declared = [Declaration(f"every-{number}", Every(interval + number), JOB) for number in range(20)]
        return run_errand(run, synchronise(bench.verbs, Declarer("app", release, "w", bench.ahead), declared, ()))

    def let_fires_come_first(verb):
        if verb.name == "change_records":
            bench.look()
        return bench.backend.run(verb)

    assert len(declare("1", 60, bench.backend.run).added) == 20
    bench.clock.advance(55)
    changed = declare("2", 90, let_fires_come_first).changed
    assert len({schedule.name for schedule in changed}) == len(changed) == 20
