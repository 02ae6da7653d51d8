"""The detector: which deaths are incidents, what they are called, and that no burial waits for them."""

import asyncio
import signal
from dataclasses import replace
from datetime import timedelta

import pytest
from household import Household

from standfast.errors import StoreUnavailableError
from standfast.model.incidents import Evidence, Incident, InvolvedJob, Trouble
from standfast.model.job import ClaimRef, NewJob, Progress
from standfast.observe.incidents import named_in
from standfast.stores.values import Worker, WorkerInfo
from standfast.supervisor.child import Exit, Phase
from standfast.supervisor.incidents import detector as module
from standfast.supervisor.incidents.death import Seen
from standfast.supervisor.incidents.detector import MOMENT, IncidentDetector
from standfast.supervisor.incidents.recorder import IncidentRecorder
from standfast.supervisor.incidents.snapshot import words_of
from standfast.worker.messages import Noticed, Stuck

SEGV, KILLED = Exit(-signal.SIGSEGV, 50 << 20, 1.5), Exit(-signal.SIGKILL, 900 << 20, 1.5)

pytestmark = pytest.mark.virtual_time


class Tray:
    """A desk on which incidents are left."""

    def __init__(self) -> None:
        self.reported: list[tuple[Incident, Evidence | None]] = []

    def report(self, incident: Incident, evidence: Evidence | None = None) -> str:
        self.reported.append((incident, evidence))
        return incident.id

    def knows(self, _incident: Incident) -> bool:
        return False

    def learn(self, _settings: object) -> None:
        """Keep all."""

    async def run(self, _calls: object) -> None:
        await asyncio.Event().wait()


class Memory:
    """What the kernel says of memory."""

    def __init__(self, seen: Seen | Exception = Seen()) -> None:  # noqa: B008 - it never changes
        self._seen = seen

    def look(self) -> None:
        """Nothing is new."""

    def seen(self, _cgroup: str) -> Seen:
        if isinstance(self._seen, Exception):
            raise self._seen
        return self._seen


class Seat:
    """A witness of one household."""

    def __init__(self, house: Household, monkeypatch, memory: Memory | None = None) -> None:
        monkeypatch.setattr(module, "surroundings", self._surroundings)  # threads and virtual time do not mix
        self.tray = Tray()
        self.detector = IncidentDetector(house.clock, self.tray, memory or Memory())
        self.detector.meet("s-1", lambda: [house.child])
        self.writing = asyncio.ensure_future(self.detector.write(house.calls, house.settings))

    @staticmethod
    async def _surroundings(supervisor) -> dict[str, str]:
        return {"supervisor": supervisor()}

    async def told(self) -> tuple[Incident, dict[str, str]]:
        """Return the only incident, when all is told."""
        await asyncio.sleep(10)
        [(incident, evidence)] = self.tray.reported
        return incident, dict(evidence.parts)


def run_a_job(house: Household) -> ClaimRef:
    """Let the child have started the job called `job`, which is at its first attempt."""
    [claim] = house.claim("ours")
    house.claim_log.answered(1, [claim.ref])
    house.claim_log.started(claim.ref)
    house.backend.run(house.verbs.start("ours", [(claim.ref, house.clock.now())]))
    house.backend.run(house.verbs.progress("ours", [(claim.ref, Progress(3, 10))]))
    return claim.ref


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        (["send"], "send j0"),
        ([""], "job j0"),
        (["report", "crash"], "2 jobs of crash, report"),
        (["send", "send", "crash"], "3 jobs of crash, send"),
        (["", ""], "2 jobs"),
        (["a", "b", "c", "d", "e", "f", "g"], "7 jobs of a, b, c, d, e and 2 more"),
    ],
)
def test_jobs_in_words(tasks, words) -> None:
    """Of several that ran together each task is named, up to a few: nobody knows which is to blame."""
    assert words_of([InvolvedJob(f"j{place}", 1, task) for place, task in enumerate(tasks)]) == words


async def test_a_crash_names_what_ran(monkeypatch) -> None:
    """Task, job, attempt and progress come from the store; what it used from the kernel."""
    house = Household()
    await asyncio.sleep(0)
    seat, ref = Seat(house, monkeypatch), run_a_job(house)
    await asyncio.sleep(0)
    await seat.detector.saw_end(house.child, SEGV)
    incident, parts = await seat.told()
    assert incident.trouble is Trouble.CRASH
    assert incident.summary == "worker ours died of SIGSEGV while it ran task job"
    assert incident.jobs == (InvolvedJob("job", ref.fence, "task", 1, "3 of 10"),)
    assert (incident.worker, incident.pid, incident.supervisor) == ("ours", 1, "s-1")
    assert parts["exit"] == "its process was ended by SIGSEGV\npeak memory: 50.0 MB\nprocessor time: 1.50 s"
    assert parts["memory"].startswith("out of memory: unknown: ")
    assert "child ours: process 1, working" in parts["supervisor"]


async def test_an_end_that_was_wanted_is_no_incident(monkeypatch) -> None:
    """Who was asked to leave and did, or was ended because of a stop, has no trouble."""
    house = Household()
    seat = Seat(house, monkeypatch)
    house.child.phase = Phase.STARTING
    house.child.kill_to_stop()
    await seat.detector.saw_end(house.child, KILLED)
    await asyncio.sleep(10)
    assert seat.tray.reported == []


async def test_out_of_memory(monkeypatch) -> None:
    """Certain or likely: either is called so."""
    house = Household()
    seat = Seat(house, monkeypatch, Memory(Seen(limit=1000 << 20)))
    await seat.detector.saw_end(house.child, KILLED)
    incident, parts = await seat.told()
    assert incident.trouble is Trouble.OUT_OF_MEMORY
    assert incident.summary == "worker ours most likely ran out of memory with no job running"
    assert parts["memory"] == "out of memory: likely: it was ended by SIGKILL and had had 900.0 MB of 1,000.0 MB"


async def test_who_was_ended_by_us_did_not_run_out_of_memory(monkeypatch) -> None:
    """The signal was ours: a hang is called a hang, with how it was found."""
    house = Household()
    seat = Seat(house, monkeypatch, Memory(Seen(kills_before=1, kills=2)))
    house.child.verdict = "it gave no sign of life for 120 s, at jobs.py:7 in render"
    house.child.portrait = {"stacks": "somewhere"}
    await seat.detector.saw_end(house.child, KILLED)
    incident, parts = await seat.told()
    assert incident.trouble is Trouble.HANG
    sentence = "hung (it gave no sign of life for 120 s, at jobs.py:7 in render) and was ended with no job running"
    assert sentence in incident.summary
    assert parts["stacks"] == "somewhere"
    assert "memory" not in parts


async def test_a_collector_that_fails_is_noted(monkeypatch) -> None:
    """Neither memory nor what a child left behind may be readable; the incident is told all the same."""
    house = Household()
    seat = Seat(house, monkeypatch, Memory(OSError("no such thing")))
    monkeypatch.setattr(house.child.process, "remains", lambda: 1 / 0)
    await seat.detector.saw_end(house.child, SEGV)
    incident, parts = await seat.told()
    assert incident.trouble is Trouble.CRASH
    assert "(not known: ZeroDivisionError" in parts["remains"]
    assert "not known" in parts["memory"]


async def test_a_store_that_is_away_delays_no_burial(monkeypatch) -> None:
    """A moment, and the burial goes on; later the incident names the jobs by id alone."""
    house = Household()
    seat, ref = Seat(house, monkeypatch), run_a_job(house)
    await asyncio.sleep(0)
    house.backend.slow_verb = "get"
    begun = house.clock.boot()
    await seat.detector.saw_end(house.child, SEGV)
    assert house.clock.boot() - begun <= MOMENT
    died_at = house.clock.now() - timedelta(seconds=MOMENT)
    incident, _ = await seat.told()
    assert (incident.at, incident.id) == (died_at, house.child.incident)
    assert incident.summary == "worker ours died of SIGSEGV while it ran job job"
    assert incident.jobs == (InvolvedJob("job", ref.fence),)


async def test_before_there_is_a_store(monkeypatch) -> None:
    """A child may die before any has told where the store is."""
    house = Household()
    seat = Seat(house, monkeypatch)
    seat.writing.cancel()
    house.child.phase, house.child.verdict = Phase.STARTING, "shop cannot be imported: no\nmore"
    await seat.detector.saw_end(house.child, KILLED)
    incident, _ = await seat.told()
    assert incident.summary == "worker ours failed (shop cannot be imported: no) while it started"


async def test_a_stuck_handler_is_told_once(monkeypatch) -> None:
    """With the stack that the child sends; the end of its process, which follows, is no other incident."""
    house = Household()
    seat, ref = Seat(house, monkeypatch), run_a_job(house)
    await asyncio.sleep(0)
    seat.detector.heard(house.child, Stuck(*ref, "it ignores its timeout of 3 s", "task", "  in dawdle"))
    house.child.stuck.add(ref)
    await seat.detector.saw_end(house.child, KILLED)
    incident, parts = await seat.told()
    assert incident.trouble is Trouble.STUCK
    assert incident.summary == "worker ours cannot stop task job: it ignores its timeout of 3 s"
    assert parts["stack"] == "  in dawdle"


class TestTheSameDeathAgain:
    """Children that die of one cause in one task are one incident, and whatever was told of it names that one."""

    @staticmethod
    async def deaths(
        monkeypatch, *ends: Exit, tasks: str = "ttt", slow: bool = False
    ) -> tuple[list[Incident], list[str]]:
        """Let a child die so, one after the other, each with a job of its own; return incidents and their names."""
        house, kept, names = Household(), {}, []
        seat = Seat(house, monkeypatch)
        desk = seat.detector._recorder = IncidentRecorder(house.clock)
        for number, (end, task) in enumerate(zip(ends, tasks, strict=False)):
            [claim] = house.claim("ours", NewJob(f"job-{number}", task, b"{}"))
            house.claim_log.answered(number + 1, [claim.ref])
            house.claim_log.started(claim.ref)
            child = house.child = replace(house.child, incident="", incident_told=False)
            await asyncio.sleep(0)
            house.backend.latency = MOMENT if slow else 0.0
            await seat.detector.saw_end(child, end)
            names.append(child.death(end).evidence)
            await asyncio.sleep(10)
            house.claim_log.ended([claim.ref])
        for case in desk._cases._cases.values():
            kept[case.incident.id] = case.incident
        return list(kept.values()), names

    async def test_it_is_counted_and_its_jobs_are_found(self, monkeypatch) -> None:
        [incident], names = await self.deaths(monkeypatch, SEGV, SEGV, SEGV)
        assert incident.count == 3
        assert [job.job_id for job in incident.jobs] == ["job-0", "job-1", "job-2"]
        assert set(names) == {f"its process was ended by SIGSEGV (incident {incident.id[-8:]})"}

    async def test_another_signal_or_task_is_another_incident(self, monkeypatch) -> None:
        incidents, _ = await self.deaths(monkeypatch, SEGV, Exit(-signal.SIGABRT), SEGV, SEGV, tasks="ttut")
        assert [(each.count, len(each.jobs)) for each in incidents] == [(2, 2), (1, 1), (1, 1)]

    async def test_whoever_was_told_an_id_finds_it(self, monkeypatch) -> None:
        """A store that is slow to say what ran: the burial does not wait, and the job names what is really kept."""
        incidents, names = await self.deaths(monkeypatch, SEGV, SEGV, slow=True)
        assert [named_in(name) for name in names] == [each.id[-8:] for each in incidents]
        assert len(incidents) == 2


async def test_what_a_child_notices(monkeypatch) -> None:
    """It is told as the child says it."""
    house = Household()
    seat = Seat(house, monkeypatch)
    seat.detector.heard(house.child, Noticed(Trouble.EXCEPTION, "in a thread", "f", {"trace": "…"}, count=3))
    incident, parts = await seat.told()
    assert (incident.trouble, incident.summary, incident.fingerprint) == ("exception", "in a thread", "f")
    assert (incident.count, parts) == (3, {"trace": "…"})


async def test_a_lost_worker(monkeypatch) -> None:
    """Host, process and last beat are those of the lost, not ours."""
    house = Household()
    seat = Seat(house, monkeypatch)
    info = WorkerInfo("gone", "s-2", "web-07", 4711, timedelta(seconds=15))
    lost = Worker(info, house.clock.now(), timedelta(seconds=17), condemned=True, held=2, running=1)
    seat.detector.saw_loss(lost, (InvolvedJob("j", 1, "send", 1),))
    incident, parts = await seat.told()
    assert incident.summary == "worker gone on web-07 was not heard of for 17 s while it ran send j"
    assert (incident.trouble, incident.host, incident.pid) == ("lost", "web-07", 4711)
    assert "last beat: 17 s before it was buried; its lease was 15 s" in parts["worker"]


async def test_what_is_found_out_last_is_still_told(monkeypatch) -> None:
    """A supervisor that ends gives it a second."""
    house = Household()
    seat, _ = Seat(house, monkeypatch), run_a_job(house)
    await asyncio.sleep(0)
    house.backend.latency = 0.3
    await seat.detector.saw_end(house.child, SEGV)
    assert seat.tray.reported == []
    seat.writing.cancel()
    await asyncio.wait([seat.writing])
    assert len(seat.tray.reported) == 1


async def test_chores_tell_of_a_lost_worker(monkeypatch) -> None:
    """What the store knew of it is taken down before its burial changes that."""
    house = Household()
    seat = Seat(house, monkeypatch)
    house.register("other")
    [claim] = house.claim("other")
    house.backend.run(house.verbs.start("other", [(claim.ref, house.clock.now())]))
    heart = house.beat(detector=seat.detector)
    await asyncio.sleep(40)
    incident, _ = await seat.told()
    assert incident.jobs == (InvolvedJob("job", claim.fence, "task", 1, None),)
    assert house.workers() == ["ours"]
    assert heart is not None


async def test_a_burial_does_not_need_its_incident(monkeypatch, caplog) -> None:
    """Where nothing can be read of a lost worker, it is buried all the same."""
    house = Household()
    seat = Seat(house, monkeypatch)
    house.register("other")
    monkeypatch.setattr(house.verbs, "list_jobs", _unreadable, raising=False)
    house.beat(detector=seat.detector)
    await asyncio.sleep(40)
    assert house.workers() == ["ours"]
    assert seat.tray.reported == []
    assert "not all could be taken down about lost worker other" in caplog.text


def _unreadable(*_: object) -> None:
    raise StoreUnavailableError("not now")
