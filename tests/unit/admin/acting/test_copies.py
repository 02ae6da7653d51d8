"""Clones, and dead jobs tried again with other arguments: nothing lost, nothing twice, no secret seen."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from threading import Barrier

import pytest

from dashboard_stage import SECRET, SMTP, open_stage
from standfast.admin import clones
from standfast.admin.registry import BY_NAME
from standfast.errors import ArgumentsError, ConfigurationError, JobStateError
from standfast.model.ids import new_job_id
from standfast.model.job import OnLate
from standfast.model.secrets import MASK
from standfast.model.states import Move, State
from standfast.observe.catalogue import Catalogue, Parameter, TaskEntry, publish
from standfast.stores.contract import cancel_job
from standfast.stores.sqlite.store import SqliteBackend
from standfast.stores.values import JobFilter

RACES = 50


def stored(stage, job_id):
    return json.loads(stage.job(job_id).payload)


def test_a_clone_is_like_its_original(stage):
    """But for what is said; it has no key, names its original, and secrets come along unseen."""
    job = stage.dead(payload=SECRET, key="k", tags=("vip",), metadata={"by": "ada"}, priority=3)
    same = stage.job(stage.act("jobs.clone", id=job).job)
    assert (same.payload, same.key, same.tags, same.priority, same.queue) == (SECRET, None, ("vip",), 3, "mail")
    assert same.metadata == {"by": "ada", "standfast.cloned_from": job}
    other = stage.job(stage.act("jobs.clone", id=job, args={"to": "bob"}, queue="web", at="1h", priority=0).job)
    assert json.loads(other.payload) == {"v": 1, "args": {"to": "bob"}, "secret": {"token": "hunter2-hunter2"}}
    assert (other.queue, other.priority, other.state) == ("web", 0, State.SCHEDULED)
    assert stage.job(job).state is State.DEAD


@pytest.mark.parametrize("name", ["jobs.clone", "jobs.edit_and_retry"])
def test_a_copy_keeps_when_its_original_should_have_started(stage, name):
    """And what becomes of it otherwise; one that is edited keeps its key for as long, too."""
    span = timedelta(minutes=7)
    job = stage.dead(key="k", keep_key=timedelta(hours=2), start_within=span, on_late=OnLate.EXPIRE)
    asked = {} if name == "jobs.clone" else {"args": {"to": "bob"}}
    made = stage.job(stage.act(name, id=job, **asked).job)
    assert made.start_by is not None
    assert (made.start_by - made.run_at, made.on_late) == (span, OnLate.EXPIRE)
    expected = (None, timedelta()) if name == "jobs.clone" else ("k", timedelta(hours=2))
    assert (made.key, made.keep_key) == expected


def test_a_clone_with_an_id_is_made_once(stage):
    """However often it is asked for; an id that is none is refused."""
    job, new_id = stage.completed(), new_job_id()
    for _ in range(2):
        assert stage.act("jobs.clone", id=job, new_id=new_id).job == new_id
    assert stage.read("jobs.count").count == 2
    with pytest.raises(ConfigurationError):
        stage.act("jobs.clone", id=job, new_id="x'; DROP TABLE jobs")


def test_a_dead_job_is_edited_and_tried_again(stage):
    """As a new job with the rest of the old one; the dead one is discarded, and keeps its place in the story."""
    job = stage.dead(key="k", tags=("vip",), priority=3)
    new = stage.act("jobs.edit_and_retry", id=job, args={"to": "bob@example.com", "n": []}).job
    made = stage.job(new)
    assert stored(stage, new)["args"] == {"to": "bob@example.com", "n": []}
    assert (made.key, made.tags, made.priority, made.max_attempts, made.state) == ("k", ("vip",), 3, 1, State.READY)
    assert stage.read("jobs.show", id=new).edited_from == job
    assert stage.job(job).reason == "discarded"
    entry = stage.read("audit.list").entries[0]
    assert (str(entry.before), str(entry.after)) == ("to, n", f"job {new} with to, n")
    assert "bob" not in str(entry)


def test_editing_again_is_the_same_edit(stage):
    """A repetition, as after a lost answer, finds what was done and does nothing more."""
    job = stage.dead()
    first = stage.act("jobs.edit_and_retry", id=job, args={"to": "bob"}).job
    assert stage.act("jobs.edit_and_retry", id=job, args={"to": "bob"}).job == first
    assert stage.read("jobs.count").count == 2


def test_another_edit_of_what_was_edited_is_refused(stage):
    """Whoever came second is told that somebody else did it, and changes nothing."""
    job = stage.dead()
    new = stage.act("jobs.edit_and_retry", id=job, args={"to": "bob"}).job
    with pytest.raises(JobStateError, match="somebody else"):
        stage.act("jobs.edit_and_retry", id=job, args={"to": "eve"})
    assert (stored(stage, new)["args"], stage.read("jobs.count").count) == ({"to": "bob"}, 2)


@pytest.mark.parametrize("other", ["jobs.retry", "jobs.discard"])
def test_of_two_who_decide_at_once_one_does(tmp_path, other):
    """An edit and a retry, or a discard, of one dead job by two people: the job runs once at most, in one form."""
    with open_stage(lambda _: SqliteBackend(tmp_path / "jobs.db")) as stage, ThreadPoolExecutor(2) as threads:
        start = Barrier(2)

        def decide(name, **asked):
            start.wait()
            operation = BY_NAME[name]
            with suppress(JobStateError):
                return asyncio.run(stage.desk().act(operation, operation.asked(**asked)))

        for _ in range(RACES):
            job = stage.dead()
            edit = threads.submit(decide, "jobs.edit_and_retry", id=job, args={"to": "bob"})
            simple = threads.submit(decide, other, id=job)
            edited, decided = edit.result(), simple.result()
            assert (edited is None) is not (decided is None)
            ready = stage.do(stage.verbs.list_jobs(JobFilter(states=(State.READY,)))).jobs
            meant = edited.job if edited else job if other == "jobs.retry" else None
            assert [each.id for each in ready] == ([meant] if meant else [])
            for each in ready:
                stage.do(cancel_job(stage.verbs, each.id))


def test_another_death_has_another_copy(stage):
    """What was retried as it is and died again can be edited as well."""
    job = stage.dead()
    before = clones._id_of_copy(stage.job(job))
    stage.act("jobs.retry", id=job)
    stage.end(job, Move.DIE, failure=SMTP)
    assert stage.act("jobs.edit_and_retry", id=job, args={}).job != before


def test_a_key_that_is_taken_meanwhile_stays_where_it_is(stage):
    """The copy goes without it."""
    job = stage.dead(key="k")
    other = stage.enqueue(key="k")
    new = stage.act("jobs.edit_and_retry", id=job, args={"to": "bob"}).job
    assert (stage.job(new).key, stage.job(other).key) == (None, "k")


@pytest.mark.parametrize(
    ("args", "token"), [({"to": "bob"}, "hunter2-hunter2"), ({"to": "bob", "token": MASK}, "hunter2-hunter2")]
)
def test_a_masked_secret_keeps_its_value(stage, args, token):
    """Whether it is left out or given as its mask."""
    new = stage.act("jobs.edit_and_retry", id=stage.dead(payload=SECRET), args=args).job
    assert stored(stage, new)["secret"] == {"token": token}


def test_a_new_secret_takes_its_place_and_stays_secret(stage):
    """It is stored apart, shown by nothing, and not written down."""
    new = stage.act("jobs.edit_and_retry", id=stage.dead(payload=SECRET), args={"token": "new-secret-1"}).job
    assert stored(stage, new) == {"v": 1, "args": {}, "secret": {"token": "new-secret-1"}}
    assert stage.read("jobs.show", id=new).args["token"].secret
    assert "new-secret-1" not in str(stage.read("audit.list").entries)


def test_a_mask_where_no_secret_is_stored_is_refused(stage):
    """It would be taken for a value."""
    with pytest.raises(ArgumentsError, match="mask"):
        stage.act("jobs.edit_and_retry", id=stage.dead(), args={"to": MASK})


def test_arguments_are_checked_where_the_task_is_known(stage):
    """Unknown and missing names are refused, and nothing is changed; another version of it is not ours to judge."""
    parameters = (Parameter("to"), Parameter("n", required=False), Parameter("token", secret=True))
    task = TaskEntry("send_email", parameters=parameters)
    stage.do(publish(stage.verbs, Catalogue("shop", "1", stage.clock.now(), "web-01", "0", (task,))))
    newer = stage.dead(version=2)
    job = stage.dead(payload=SECRET)
    with pytest.raises(ArgumentsError, match="no parameter 'too'"):
        stage.act("jobs.edit_and_retry", id=job, args={"too": "bob"})
    with pytest.raises(ArgumentsError, match="needs 'to'"):
        stage.act("jobs.edit_and_retry", id=job, args={"n": 1})
    assert stage.job(job).state is State.DEAD
    assert stage.act("jobs.edit_and_retry", id=job, args={"to": "bob"}).job
    new = stage.act("jobs.clone", id=stage.enqueue(), args={"to": "bob", "token": "given-anew"}).job
    assert stored(stage, new)["secret"] == {"token": "given-anew"}
    assert stage.act("jobs.edit_and_retry", id=newer, args={"too": "bob"}).job


def test_what_cannot_be_edited_says_so(stage):
    """A job that is not dead, arguments that are too long, a payload that cannot be read."""
    with pytest.raises(JobStateError, match="not dead"):
        stage.act("jobs.edit_and_retry", id=stage.completed(), args={})
    with pytest.raises(ArgumentsError, match="bytes"):
        stage.act("jobs.edit_and_retry", id=stage.dead(), args={"to": "x" * 1_100_000})
    with pytest.raises(ArgumentsError, match="cannot be read"):
        stage.act("jobs.edit_and_retry", id=stage.dead(payload=b"\xff"), args={})


def test_what_names_inside_an_argument_call_secret_is_not_seen_and_not_lost(stage):
    """As in incidents; an edit that sends the mask back keeps what it stands for, and no mask is ever stored."""
    login = {"user": "ada", "password": "hunter2", "hosts": [{"api_key": "k-1", "port": 1}]}
    job = stage.dead(payload=json.dumps({"v": 1, "args": {"login": login, "n": 1}}).encode())
    seen = stage.read("jobs.show", id=job).args["login"].value
    assert seen == {"user": "ada", "password": MASK, "hosts": [{"api_key": MASK, "port": 1}]}
    seen["user"] = "eve"
    new = stage.act("jobs.clone", id=job, args={"login": seen, "n": 2}).job
    assert stored(stage, new)["args"] == {"login": {**login, "user": "eve"}, "n": 2}
    for strange in ({"token": MASK}, {"hosts": [{}, {"api_key": MASK}]}):
        with pytest.raises(ArgumentsError):
            stage.act("jobs.clone", id=job, args={"login": strange})
