"""The supervisor as a courier: it sends what is due by itself, keeps its lease meanwhile, and leaves no trace."""

import asyncio
import os
import threading
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from msgspec.structs import replace

from alert_receivers import hook
from figures_stage import Stage
from standfast import CommandChannel, WebhookChannel
from standfast.errors import StoreUnavailableError
from standfast.events import Events, JobCompleted, JobDied, JobRetrying
from standfast.model.clock import SystemClock
from standfast.model.crash import Death, DeathKind
from standfast.model.ids import new_job_id
from standfast.model.job import NewJob
from standfast.model.states import State
from standfast.observe.alerts.alert_rules import ALERTS_OFF, AlertSettings
from standfast.observe.alerts.delivery import DELIVER, QUEUE, delivery_jobs, trial_notice
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.values import JobFilter
from standfast.supervisor.alerting import AT_ONCE, NotificationSender
from standfast.supervisor.figures import FigureKeeper
from standfast.worker.storecalls import StoreCalls

SECRET = "a-secret-of-the-receiver"


class Failing(MemoryBackend):
    """A store that does what it is asked, and whose answers to the first calls of some verbs are lost."""

    def __init__(self, clock):
        super().__init__(clock)
        self.lost = []

    async def arun(self, verb):
        if f"{verb.name}, unasked" in self.lost:
            self.lost.remove(f"{verb.name}, unasked")
            raise StoreUnavailableError("away")
        answer = await super().arun(verb)
        if verb.name in self.lost:
            self.lost.remove(verb.name)
            raise StoreUnavailableError("away")
        return answer


class Bench:
    """A store in memory and one supervisor's courier."""

    def __init__(self, receiver=None, lease=15.0, here=None):
        self.clock = SystemClock()
        self.backend = Failing(self.clock)
        self.told = []
        events = Events()
        events.subscribe(self.told.append)
        channels = [] if receiver is None else [WebhookChannel(name="ops", url=receiver.url, secret=SECRET)]
        self.watching = AlertSettings(app="shop:app", channels=tuple(channels))
        calls = StoreCalls(self.backend, self.clock, events, Random(1), 5.0)
        self.figures = FigureKeeper(calls, self.clock, "s1")
        events.subscribe(self.figures.hear)
        self.courier = NotificationSender(
            calls,
            here or self.clock,
            events,
            Random(1),
            supervisor="s1",
            lease=timedelta(seconds=lease),
            watching=lambda: self.watching,
            count=self.figures.count,
        )

    def put(self, *jobs):
        self.backend.run(self.backend.verbs.enqueue(jobs))

    def order(self, count=1, channel="ops", app=""):
        for _ in range(count):
            self.put(*delivery_jobs(trial_notice(datetime.now(UTC)), [channel], app))

    def states(self):
        return [job.state for job in self.backend.run(self.backend.verbs.list_jobs(JobFilter())).jobs]

    async def counted(self):
        """Return what the figures tell of deliveries."""
        await self.figures.publisher.publish()
        return Stage(self.backend, self.clock).read().by_pair()

    def workers(self):
        return self.backend.run(self.backend.verbs.workers())


async def test_it_sends_all_that_is_due_and_is_gone():
    with hook(204) as receiver:
        bench = Bench(receiver)
        bench.order(9)
        bench.put(NewJob(new_job_id(), "mine", b"{}", queue="default"))
        assert await bench.courier.deliver_due() == 9
        assert sorted(bench.states()) == [State.COMPLETED] * 9 + [State.READY]
        assert len({got["said"]["id"] for got in receiver.got}) == 9
    assert bench.workers() == ()
    assert [type(event) for event in bench.told] == [JobCompleted] * 9
    assert await bench.courier.deliver_due() == 0


@pytest.mark.parametrize(
    ("status", "counts"), [(204, (3, 0, 0)), (500, (0, 3, 0)), (410, (0, 0, 3))], ids=["sent", "failed", "dead"]
)
async def test_its_attempts_are_counted_as_those_of_workers_are(status, counts):
    """Each once, whatever comes of it."""
    with hook(status) as receiver:
        bench = Bench(receiver)
        bench.order(3)
        await bench.courier.deliver_due()
    [row] = await bench.counted()
    assert (row.queue, row.task) == (QUEUE, DELIVER)
    assert (row.completed, row.failed, row.dead) == counts


async def test_what_another_app_tells_is_left_to_it_though_a_channel_has_the_same_name():
    """Its people are others, and what it says may be none of the business of these."""
    with hook(204) as receiver:
        bench = Bench(receiver)
        bench.order(app="bakery:app")
        bench.order(app="shop:app")
        await bench.courier.deliver_due()
        assert len(receiver.got) == 1
    assert sorted(bench.states()) == [State.COMPLETED, State.SCHEDULED]


class Ahead(SystemClock):
    """The clock of a machine that is two hours ahead of the store's."""

    def now(self):
        return super().now() + timedelta(hours=2)


async def test_a_clock_that_is_ahead_gives_up_on_nothing():
    """A notice of just now waits for who has its channel: how old it is, the store's clock says."""
    with hook(204) as receiver:
        bench = Bench(receiver, here=Ahead())
        bench.order(channel="elsewhere")
        assert await bench.courier.deliver_due() == 1
    assert bench.states() == [State.SCHEDULED]


async def test_what_fails_is_tried_again_later():
    with hook(500) as receiver:
        bench = Bench(receiver)
        bench.order()
        assert await bench.courier.deliver_due() == 1
    assert bench.states() == [State.SCHEDULED]
    assert [type(event) for event in bench.told] == [JobRetrying]


async def test_a_job_that_cannot_be_read_is_a_dead_letter():
    with hook(204) as receiver:
        bench = Bench(receiver)
        bench.put(NewJob(new_job_id(), DELIVER, b'{"v":1,"args":{"notice":5}}', queue=QUEUE))
        await bench.courier.deliver_due()
        assert receiver.got == []
    assert bench.states() == [State.DEAD]
    assert [type(event) for event in bench.told] == [JobDied]


@pytest.mark.parametrize("watching", [AlertSettings(), ALERTS_OFF])
async def test_without_channels_it_claims_nothing(watching):
    bench = Bench()
    bench.watching = watching
    bench.order()
    assert await bench.courier.deliver_due() == 0
    assert bench.states() == [State.READY]


async def test_it_keeps_its_lease_while_it_sends_and_the_loop_goes_on():
    """A receiver that takes longer than the lease: nobody may bury the courier; a second round is not begun."""
    go = threading.Event()
    with hook(204, busy=lambda _: go.wait(30)) as receiver:
        bench = Bench(receiver, lease=0.3)
        bench.order()
        sending = asyncio.create_task(bench.courier.deliver_due())
        await asyncio.to_thread(receiver.wait_for, 1)
        [worker] = bench.workers()
        assert worker.info.queues == (QUEUE,)
        await asyncio.sleep(0.6)
        assert bench.backend.run(bench.backend.verbs.condemn(frozenset({worker.info.id}))) == frozenset()
        bench.order()
        assert await asyncio.wait_for(bench.courier.deliver_due(), 10) == 0
        go.set()
        assert await sending == 2
    assert bench.states() == [State.COMPLETED] * 2


async def test_who_is_stopped_in_the_middle_gives_back_what_it_had():
    go = threading.Event()
    with hook(204, busy=lambda _: go.wait(30)) as receiver:
        bench = Bench(receiver)
        bench.order()
        sending = asyncio.create_task(bench.courier.deliver_due())
        await asyncio.to_thread(receiver.wait_for, 1)
        sending.cancel()
        await asyncio.wait([sending])
        assert (bench.workers(), bench.states()) == ((), [State.READY])
        go.set()
        assert await bench.courier.deliver_due() == 1
        assert receiver.got[0]["said"]["id"] == receiver.got[1]["said"]["id"]
    assert bench.states() == [State.COMPLETED]


async def test_a_stop_waits_for_what_is_being_sent_and_takes_no_more():
    go = threading.Event()
    with hook(204, busy=lambda _: go.wait(30)) as receiver:
        bench = Bench(receiver)
        bench.order()
        sending = asyncio.create_task(bench.courier.deliver_due())
        await asyncio.to_thread(receiver.wait_for, 1)
        bench.order()
        closing = asyncio.create_task(bench.courier.close(30.0, asyncio.Event()))
        await asyncio.sleep(0)
        go.set()
        await asyncio.wait_for(closing, 20)
        assert await sending == 1
    assert sorted(bench.states()) == [State.COMPLETED, State.READY]
    assert bench.workers() == ()
    assert await bench.courier.deliver_due() == 0


@pytest.mark.parametrize("hurried", [False, True])
async def test_a_program_that_is_not_done_when_a_stop_has_waited_is_killed_and_tried_again(tmp_path, hurried):
    """Nothing of it runs any more when others get the job."""
    bench, started = Bench(), tmp_path / "started"
    os.mkfifo(started)
    program = f"echo $$ > {started}; sleep 60"
    bench.watching = AlertSettings(channels=(CommandChannel(name="ops", command=("sh", "-c", program)),))
    bench.order()
    sending = asyncio.create_task(bench.courier.deliver_due())
    pid = int(await asyncio.to_thread(started.read_text))
    hurry = asyncio.Event()
    if hurried:
        hurry.set()
    await asyncio.wait_for(bench.courier.close(60.0 if hurried else 0.1, hurry), 20)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert await sending == 1
    assert (bench.workers(), bench.states()) == ((), [State.SCHEDULED])


async def test_a_receiver_that_hangs_keeps_no_other_channel_waiting():
    """Nor a second trip: what comes while the first is out is sent by it."""
    go = threading.Event()
    with hook(204, busy=lambda _: go.wait(60)) as hangs, hook(204) as receiver:
        bench = Bench(receiver)
        hanging = WebhookChannel(name="hangs", url=hangs.url, secret=SECRET, timeout=60)
        bench.watching = replace(bench.watching, channels=(*bench.watching.channels, hanging))
        for _ in range(2 * AT_ONCE):
            bench.order(channel="hangs")
        sending = asyncio.create_task(bench.courier.deliver_due())
        await asyncio.to_thread(hangs.wait_for, 1)
        bench.order()
        assert await bench.courier.deliver_due() == 0
        assert len(await asyncio.to_thread(receiver.wait_for, 1)) == 1
        assert len(hangs.got) == 1, "one at a time"
        go.set()
        await sending
    assert bench.states().count(State.COMPLETED) >= 2


async def test_what_goes_wrong_with_one_does_not_end_the_others_under_way():
    """A courier that were gone while they are sent would have them sent twice."""
    go = threading.Event()
    with hook(204, busy=lambda _: go.wait(30)) as receiver:
        bench = Bench(receiver)
        bench.order(2)
        bench.backend.lost = ["start, unasked"]
        sending = asyncio.create_task(bench.courier.deliver_due())
        await asyncio.to_thread(receiver.wait_for, 1)
        await asyncio.sleep(0.05)
        assert len(bench.workers()) == 1
        go.set()
        await sending
        await bench.courier.deliver_due()
        assert len(receiver.got) == 2
    assert bench.states() == [State.COMPLETED] * 2


@pytest.mark.parametrize("lost", ["register", "claim", "start", "bury", "bury, unasked"])
async def test_a_store_that_is_away_for_a_moment_leaves_no_courier_behind(lost):
    """One that stayed would be taken for a machine that is lost, and people would be told so."""
    with hook(204) as receiver:
        bench = Bench(receiver)
        bench.order()
        bench.backend.lost = [lost]
        await bench.courier.deliver_due()
        assert (bench.workers(), bench.backend.lost) == ((), [])
        await bench.courier.deliver_due()
    assert bench.states() == [State.COMPLETED]


async def test_one_that_died_is_followed_by_another():
    """Its lease runs out, it is buried, and the job is sent by the next, with the same id."""
    go = threading.Event()
    with hook(204, busy=lambda _: go.wait(30)) as receiver:
        bench = Bench(receiver)
        bench.order()
        dying = asyncio.create_task(bench.courier.deliver_due())
        await asyncio.to_thread(receiver.wait_for, 1)
        [worker] = bench.workers()
        bench.backend.run(bench.backend.verbs.bury(worker.info.id, Death(DeathKind.CRASHED)))
        go.set()
        await dying
        assert await bench.courier.deliver_due() == 1
        ids = [got["said"]["id"] for got in receiver.got]
    assert ids == [ids[0]] * 2
    assert bench.states() == [State.COMPLETED]
