"""A counted store does what the one inside does and writes each call down; a passive one tells nobody anything."""

import asyncio
import os
from datetime import timedelta

import pytest

from game.counted.address import CountedUrl
from game.counted.journal import Journal, read_calls
from game.counted.kinds import KINDS
from standfast.errors import ConfigurationError
from standfast.model.job import ClaimRef, Ending, NewJob
from standfast.model.states import Move, State
from standfast.settings import load_settings
from standfast.stores.contract import Store, cancel_job, count_states
from standfast.stores.url import absolute_url, check_url, open_backend, public_name, refuse_missing_store
from standfast.stores.values import ClaimRequest, JobFilter, WorkerBeat, WorkerInfo

WORKER = "worker-1"


@pytest.fixture
def calls(tmp_path):
    return tmp_path / "calls"


@pytest.fixture
def open_store(tmp_path, calls):
    """Give an opener of the store inside, counted."""
    opened = []

    def opener(*, passive):
        url = CountedUrl(f"sqlite:///{tmp_path}/jobs.db", calls, passive)
        opened.append(open_backend(load_settings({}, url=str(url))))
        return opened[-1]

    yield opener
    for backend in opened:
        backend.close()


@pytest.fixture
def counted(open_store):
    return open_store(passive=False)


@pytest.fixture
def passive(open_store):
    return open_store(passive=True)


def work_a_little(backend):
    verbs, run = backend.verbs, backend.run
    run(verbs.register(WorkerInfo(WORKER, "supervisor", "host", 1, timedelta(seconds=15))))
    run(verbs.enqueue([NewJob(f"job-{number}", "task", b"{}") for number in range(3)]))
    claims = run(verbs.claim(ClaimRequest(WORKER, 1, limit=10))).jobs
    endings = [Ending(claim.ref, Move.COMPLETE) for claim in claims]
    stale = Ending(ClaimRef("job-0", 99), Move.COMPLETE)
    run(verbs.finish(WORKER, [*endings, stale]))
    run(verbs.beat([WorkerBeat(WORKER, 1)]))
    run(verbs.glance(["job-0", "job-1"]))


def test_each_call_is_written_down_with_its_jobs(counted, calls):
    work_a_little(counted)
    noted = read_calls(calls)
    assert [(call.verb, call.jobs, call.stale) for call in noted] == [
        ("register", 0, 0),
        ("enqueue", 0, 0),
        ("claim", 3, 0),
        ("finish", 4, 1),
        ("beat", 0, 0),
        ("glance", 2, 0),
    ]
    assert all(call.pid == os.getpid() and call.took > 0 and call.error is None for call in noted)
    assert [call.at for call in noted] == sorted(call.at for call in noted)


def test_the_store_inside_has_the_jobs(counted, tmp_path):
    work_a_little(counted)
    inside = open_backend(load_settings({}, url=f"sqlite:///{tmp_path}/jobs.db"))
    assert inside.run(count_states(inside.verbs))[State.COMPLETED] == 3
    inside.close()


async def test_async_calls_are_written_down_and_so_is_one_that_is_given_up(counted, calls):
    await counted.arun(count_states(counted.verbs))
    task = asyncio.ensure_future(counted.arun(count_states(counted.verbs)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(call.verb, call.error) for call in read_calls(calls)] == [
        ("queues", None),
        ("queues", "CancelledError"),
    ]


def test_errors_are_written_down(counted, calls):
    with pytest.raises(Exception, match="nobody"):
        counted.run(counted.verbs.claim(ClaimRequest("nobody", 1, limit=1)))
    [call] = read_calls(calls)
    assert (call.verb, call.error) == ("claim", "WorkerBuriedError")


class TestPassive:
    async def test_its_bell_never_rings(self, passive):
        listener = passive.bell.listen()
        waiting = asyncio.ensure_future(listener.wait(0.05))
        await asyncio.sleep(0)
        await passive.arun(passive.verbs.enqueue([NewJob("job", "task", b"{}")]))
        passive.bell.ring()
        assert await waiting is False
        listener.close()

    def test_workers_can_work(self, passive):
        work_a_little(passive)

    @pytest.mark.parametrize(
        "ask",
        [
            lambda verbs: verbs.list_jobs(JobFilter()),
            count_states,
            lambda verbs: verbs.unsettled(None),
            lambda verbs: verbs.situation("job"),
            lambda verbs: verbs.queues(),
            lambda verbs: cancel_job(verbs, "job"),
        ],
    )
    def test_jobs_are_found_by_a_claim_and_by_nothing_else(self, passive, calls, ask):
        verb = ask(passive.verbs)
        with pytest.raises(
            ConfigurationError, match=f"a passive store has no {verb.name}: jobs are found by claim"
        ):
            passive.run(verb)
        with pytest.raises(ConfigurationError, match="a passive store has no"):
            asyncio.run(passive.arun(ask(passive.verbs)))
        assert read_calls(calls) == []

    def test_there_is_no_way_around_it(self, passive):
        for refused in (
            lambda: passive.run_in(count_states(passive.verbs), object()),
            lambda: asyncio.run(passive.arun_in(count_states(passive.verbs), object())),
            lambda: passive.join(object()),
            lambda: passive.ajoin(object()),
        ):
            with pytest.raises(ConfigurationError, match="joins no transaction"):
                refused()

    def test_every_verb_with_a_price_exists(self):
        assert [name for name in KINDS if not callable(getattr(Store, name, None))] == []


class TestJournal:
    def test_what_a_killed_process_had_asked_for_counts(self, calls):
        """Only the line before the call is there."""
        journal = Journal(calls)
        with journal.noting("claim"):
            [call] = read_calls(calls)
        assert (call.verb, call.took) == ("claim", None)

    def test_a_line_that_has_only_begun_is_left_alone(self, calls):
        with Journal(calls).noting("claim"):
            pass
        whole = read_calls(calls)
        with calls.open("ab") as file:
            file.write(b'{"type":"asked","pid":1')
        assert read_calls(calls) == whole

    def test_a_line_that_a_kill_cut_short_does_not_spoil_the_next(self, calls):
        calls.write_bytes(b'{"type":"answered","pid":1,"call":9,"to')
        with Journal(calls).noting("beat"):
            pass
        assert [call.verb for call in read_calls(calls)] == ["beat"]

    def test_nothing_was_asked(self, calls):
        assert read_calls(calls) == []


class TestUrl:
    def test_it_survives_being_written_and_read(self, tmp_path):
        url = CountedUrl(
            "postgresql://user:p%23w@host/db?schema=jobs", tmp_path / "a folder & more" / "calls", True
        )
        assert CountedUrl.parse(str(url)) == url
        assert CountedUrl.parse(str(CountedUrl("memory://", tmp_path))).passive is False

    def test_people_see_the_store_inside(self, tmp_path):
        assert public_name(f"counted+sqlite:///{tmp_path}/jobs.db#calls=x") == f"{tmp_path}/jobs.db"

    def test_it_reads_the_same_from_any_folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        absolute = CountedUrl.parse(absolute_url("counted+sqlite:///jobs.db#calls=calls&passive=yes"))
        assert absolute == CountedUrl(f"sqlite:///{tmp_path}/jobs.db", tmp_path / "calls", True)

    def test_what_the_store_inside_refuses_is_refused(self, tmp_path):
        with pytest.raises(Exception, match="there is no database"):
            refuse_missing_store(load_settings({}, url=f"counted+sqlite:///{tmp_path}/none.db#calls=x"))

    @pytest.mark.parametrize(
        ("url", "message"),
        [
            ("counted+sqlite:///jobs.db", "must say where calls are written down; write e.g. counted"),
            ("counted+sqlite:///jobs.db#calls=", "must say where calls are written down"),
            ("counted+sqlite:///jobs.db#calls=x&passiv=yes", "not 'passiv'; write e.g. counted"),
            ("counted+sqlite:///jobs.db#calls=x&passive=no", "says passive=yes, or nothing of it"),
            ("counted+mysql://user:secret@host/db#calls=x", "no store has the URL scheme 'counted+mysql'"),
        ],
    )
    def test_what_is_wrong_is_said_without_the_url(self, url, message):
        with pytest.raises(ConfigurationError) as raised:
            check_url(url)
        assert message in str(raised.value)
        assert "secret" not in str(raised.value)
