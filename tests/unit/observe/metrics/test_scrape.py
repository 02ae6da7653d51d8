"""A scrape tells how the store stands, whatever is in it, and answers without it."""

import socket
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from http import HTTPStatus

import pytest
from prometheus_client.parser import text_string_to_metric_families

from standfast import Every, Standfast
from standfast.errors import ConfigurationError, StoreUnavailableError
from standfast.events import Events, MetricsServed
from standfast.model.job import Ending
from standfast.model.states import Move, Reason
from standfast.observe.health.access import LOOPBACK
from standfast.observe.health.endpoints import Health, Request
from standfast.observe.metrics.scrape import StoreLook, page
from standfast.settings import Settings
from standfast.stores.contract import count_states
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.url import open_backend
from standfast.stores.values import ClaimRequest, Vitals, WorkerBeat, WorkerInfo
from standfast.supervisor.metrics import Metering, metered
from standfast.testing.clock import FakeClock
from standfast.worker.options import MetricsOptions

ASKED = Request("GET", "/metrics", "127.0.0.1")


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def app(clock):
    with Standfast("memory://", clock=clock) as made:
        yield made


def send(to: str = "") -> None:
    """Serve as a task."""


def lines(app):
    return page(StoreLook(app)()).splitlines()


def test_it_tells_how_the_store_stands(app, clock):
    app.task(send, queue="mail").enqueue_many([{}] * 3)
    app.task(send, name="later", queue="slow").options(delay=3600).enqueue()
    app.call(app.verbs.pause("slow"))
    app.call(app.verbs.register(WorkerInfo("w1", "s", "host", 1, timedelta(seconds=60), concurrency=4)))
    clock.advance(10)
    app.call(app.verbs.register(WorkerInfo("w2", "s", "host", 2, timedelta(seconds=60))))
    app.call(app.verbs.beat([WorkerBeat("w2", 0, (), None, Vitals(5_000_000, 1, 8, 0.25))]))
    clock.advance(55)
    told = lines(app)
    for line in (
        "standfast_store_up 1",
        'standfast_jobs{queue="mail",state="ready"} 3',
        'standfast_jobs{queue="slow",state="scheduled"} 1',
        'standfast_queue_oldest_due_seconds{queue="mail"} 65',
        'standfast_queue_paused{queue="slow"} 1',
        'standfast_workers{state="live"} 1',
        'standfast_workers{state="silent"} 1',
        'standfast_worker_slots{worker="w1"} 4',
        'standfast_worker_slots{worker="w2"} 8',
        'standfast_worker_running{worker="w2"} 1',
        'standfast_worker_loop_lag_seconds{worker="w2"} 0.25',
        'standfast_worker_memory_bytes{worker="w2"} 5000000',
        'standfast_worker_beat_age_seconds{worker="w2"} 55',
        "standfast_schedules_overdue 0",
    ):
        assert line in told, line
    assert "host" not in "".join(line for line in told if not line.startswith("#"))


def test_the_age_of_a_queue_counts_jobs_whose_task_no_worker_knows(app, clock):
    """A typo of a producer shows in the very figure that people watch."""
    app.task(send, name="send_emial", queue="mail").enqueue()
    app.call(app.verbs.register(WorkerInfo("w1", "s", "host", 1, timedelta(hours=1))))
    [claim] = app.call(app.verbs.claim(ClaimRequest("w1", 1, 1))).jobs
    app.call(app.verbs.finish("w1", [Ending(claim.ref, Move.BLOCK, reason=Reason.NO_WORKER)]))
    clock.advance(65)
    assert 'standfast_queue_oldest_due_seconds{queue="mail"} 65' in lines(app)


def test_a_schedule_that_nobody_fires_is_overdue(app, clock):
    app.call(app.schedules.create("often", app.task(send), Every(60)))
    clock.advance(3600)
    assert "standfast_schedules_overdue 1" in lines(app)


def test_a_thousand_queues_are_told_as_two_hundred_and_the_rest_as_one(app):
    task = app.task(send)
    for number in range(1_000):
        task.options(queue=f"queue-{number}").enqueue()
    for _ in range(2):
        task.options(queue="busy").enqueue()
    told = [line for line in lines(app) if line.startswith("standfast_jobs{")]
    assert len(told) == 201
    assert 'standfast_jobs{queue="busy",state="ready"} 2' in told
    assert 'standfast_jobs{queue="_other_",state="ready"} 801' in told
    assert sum(line.startswith("standfast_queue_oldest") for line in lines(app)) == 201


def test_health_tells_them_to_those_who_may_ask(app):
    health = Health(app, networks=LOOPBACK)
    answer = health.answer(ASKED)
    assert answer.status is HTTPStatus.OK
    assert dict(answer.headers)["Content-Type"].startswith("text/plain; version=0.0.4")
    names = {family.name for family in text_string_to_metric_families(answer.body.decode())}
    assert {"standfast_store_up", "standfast_workers"} <= names
    assert "standfast_attempts" not in names  # which are counted where jobs run
    assert health.answer(Request("GET", "/metrics", "192.0.2.1")).status is HTTPStatus.FORBIDDEN
    head = health.answer(Request("HEAD", "/metrics", "127.0.0.1"))
    assert (head.status, head.body) == (HTTPStatus.OK, b"")


class Away:
    """An app whose store does not answer."""

    verbs = MemoryBackend().verbs

    def call(self, verb):
        verb.steps.close()
        raise StoreUnavailableError("away")


def test_without_the_store_health_says_so():
    assert b"\nstandfast_store_up 0\n" in Health(Away(), networks=LOOPBACK).answer(ASKED).body


@pytest.fixture
def events():
    return Events()


def test_a_supervisor_tells_what_it_counted_before_and_without_its_store(events, tmp_path):
    metering = Metering(MetricsOptions("127.0.0.1", 0), tmp_path, events)
    metering.tally(FakeClock()).count_dead("mail", "send")
    first = metering.answer(ASKED).body.decode()
    assert 'outcome="dead"} 1\n' in first
    assert "\nstandfast_store_up 0\n" in first
    backend = metering.open_backend(Settings(url=f"sqlite:///{tmp_path}/jobs.db"))
    backend.run(count_states(backend.verbs))
    metering._looks._clock = lambda: 1e12  # a second later
    then = metering.answer(ASKED).body.decode()
    assert "\nstandfast_store_up 1\n" in then
    assert 'standfast_store_call_seconds_count{verb="queues"} 1\n' in then
    assert "queue_ages" not in then  # it asks for itself, which is not counted
    backend.close()
    metering.close()


def test_the_store_of_a_supervisor_is_opened_once_though_two_threads_ask_at_once(events, tmp_path, monkeypatch):
    """What takes long to read is read aside, by a thread of its own, beside the look of the scraper."""
    opened, both = [], threading.Barrier(2)

    def slow_open(settings):
        with suppress(threading.BrokenBarrierError):  # as nobody else opens it
            both.wait(0.3)
        opened.append(open_backend(settings))
        return opened[-1]

    metering = Metering(MetricsOptions("127.0.0.1", 0), tmp_path, events)
    metering.open_backend(Settings(url=f"sqlite:///{tmp_path}/jobs.db")).close()
    monkeypatch.setattr("standfast.supervisor.metrics.open_backend", slow_open)
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(lambda: metering._store.verbs) for _ in range(2)]
    for backend in opened:
        backend.close()
    assert len(opened) == 1
    assert [each.result() for each in asked] == [opened[0].verbs] * 2


def test_it_is_served_where_it_is_wanted_for_as_long_as_it_is(events, tmp_path):
    heard = []
    events.subscribe(heard.append, lambda kind: kind is MetricsServed)
    with metered(MetricsOptions("127.0.0.1", 0), tmp_path, events):
        [served] = heard
        by_another_name = urllib.request.Request(served.url, headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError, match="421") as refused:
            urllib.request.urlopen(by_another_name, timeout=10)
        refused.value.close()
        with urllib.request.urlopen(served.url, timeout=10) as answer:
            assert b"standfast_build_info" in answer.read()
        port = int(served.url.split(":")[2].split("/")[0])
        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1 port {port}"):
            metered(MetricsOptions("127.0.0.1", port), tmp_path, Events()).__enter__()
    with socket.socket() as trying:
        assert trying.connect_ex(("127.0.0.1", port)) != 0


def test_no_token_is_in_the_options_as_they_are_shown():
    assert "hunter2" not in repr(MetricsOptions("0.0.0.0", 1, "hunter2-hunter2-hunter2"))
