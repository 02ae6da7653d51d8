"""A job enqueued inside the user's own transaction exists if and only if that transaction commits."""

import pytest
from pg_joining import jobs, pack

from connections import KINDS
from standfast.errors import KeyTakenError, StoreError
from standfast.model.ids import new_job_id
from standfast.model.job import NewJob, OnConflict


@pytest.mark.parametrize("own", KINDS, indirect=True)
def test_the_user_s_commit_decides(shop, own, orders, table):
    """Whichever comes first, the job or the row."""
    turns = (("rollback", 0, True), ("commit", 1, False), ("rollback", 1, False), ("commit", 2, True))
    for ending, stored, order_first in turns:
        before = jobs(shop)
        own.begin()
        if order_first:
            own.do(f"INSERT INTO {table} DEFAULT VALUES")
        handle = pack(shop, own)
        if not order_first:
            own.do(f"INSERT INTO {table} DEFAULT VALUES")
        assert jobs(shop) == before
        getattr(own, ending)()
        assert (jobs(shop), orders()) == (stored, stored)
    assert handle.job().task == "pack"


def test_a_connection_that_closes_without_commit_leaves_no_job(shop, plain):
    pack(shop, plain)
    plain.close()
    assert jobs(shop) == 0


def test_many_jobs_in_one_transaction(shop, own):
    own.begin()
    handles = own.enqueue(shop.tasks["pack"], many=[{"order": number} for number in range(1500)])
    assert len(handles) == 1500
    assert jobs(shop) == 0
    own.commit()
    assert jobs(shop) == 1500


@pytest.mark.parametrize("options", [{}, {"delay": 60}, {"key": "order-1"}])
def test_a_handle_tells_whether_its_job_was_made(shop, own, options):
    """Under an id of the caller's own, on whichever connection of theirs."""
    options = {**options, "job_id": new_job_id()}
    own.begin()
    first, again = pack(shop, own, **options), pack(shop, own, **options)
    own.commit()
    assert (first.id, first.created, again.id, again.created) == (options["job_id"], True, options["job_id"], False)
    assert jobs(shop) == 1


def test_jobs_with_everything_that_a_job_can_have(shop, own):
    options = {"key": "order-1", "tags": ["a", "it's"], "metadata": {"x": "ü\\"}, "delay": 60, "start_within": 5}
    own.begin()
    handle = pack(shop, own, order=7, **options)
    again = pack(shop, own, **options)
    own.commit()
    assert (again.id, again.created) == (handle.id, False)
    job = handle.job()
    assert (job.key, job.tags, job.metadata) == ("order-1", ("a", "it's"), {"x": "ü\\"})
    assert jobs(shop) == 1


def test_a_replaced_job(shop, own):
    first = shop.tasks["pack"].options(key="order-1", delay=60).enqueue(order=1)
    own.begin()
    second = pack(shop, own, key="order-1", on_conflict="replace")
    assert first.status() == "scheduled"
    own.commit()
    assert (first.status(), second.status()) == ("cancelled", "ready")


def test_a_savepoint_that_is_rolled_back_takes_its_jobs_along(shop, own):
    own.begin()
    pack(shop, own)
    own.do("SAVEPOINT mine")
    pack(shop, own)
    own.do("ROLLBACK TO SAVEPOINT mine")
    own.do("RELEASE SAVEPOINT mine")
    own.commit()
    assert jobs(shop) == 1


@pytest.mark.parametrize("own", KINDS, indirect=True)
def test_an_error_in_the_middle_leaves_the_transaction_usable(shop, own, orders, table):
    own.begin()
    pack(shop, own, key="order-1")
    own.commit()
    own.begin()
    own.do(f"INSERT INTO {table} DEFAULT VALUES")
    with pytest.raises(KeyTakenError):
        pack(shop, own, key="order-1", on_conflict="raise")
    pack(shop, own, key="order-2", on_conflict="raise")
    own.commit()
    assert (jobs(shop), orders()) == (2, 1)


def test_of_an_enqueue_that_is_refused_halfway_nothing_stays(shop, own):
    """By a KeyTakenError, when another job has made way for one of the same call already."""
    keyed = [shop.tasks["pack"].options(key=key, delay=60).enqueue(order=1) for key in ("order-1", "order-2")]
    replacing = NewJob(id=new_job_id(), task="pack", payload=b"{}", key="order-1", on_conflict=OnConflict.REPLACE)
    refused = NewJob(id=new_job_id(), task="pack", payload=b"{}", key="order-2", on_conflict=OnConflict.RAISE)
    own.begin()
    with pytest.raises(KeyTakenError):
        own.run_verb(shop.backend, shop.verbs.enqueue((replacing, refused)))
    pack(shop, own)
    own.commit()
    assert [handle.status() for handle in keyed] == ["scheduled", "scheduled"]
    assert jobs(shop) == 3


def test_of_an_enqueue_that_fails_halfway_nothing_stays(shop, schema, own, counts):
    refuse = counts.table.replace("orders", "refuse()")
    own.begin()
    own.do(f"INSERT INTO {counts.table} DEFAULT VALUES")
    own.do(f"CREATE FUNCTION {refuse} RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no thirteen'; END $$")
    own.do(
        f'CREATE TRIGGER refuse BEFORE INSERT ON "{schema}".job FOR EACH ROW'
        f" WHEN (position('13' IN encode(NEW.payload, 'escape')) > 0) EXECUTE FUNCTION {refuse}"
    )
    with pytest.raises(StoreError, match="no thirteen"):
        own.enqueue(shop.tasks["pack"], many=[{"order": 12}] * 1500 + [{"order": 13}])
    own.do(f'DROP TRIGGER refuse ON "{schema}".job')
    pack(shop, own)
    own.commit()
    assert counts() == {"orders": 1, "jobs": 1, "fresh": 1}


def test_an_error_as_the_first_thing_in_a_transaction(shop, own, orders, table):
    shop.tasks["pack"].options(key="order-1").enqueue(order=1)
    own.begin()
    with pytest.raises(KeyTakenError):
        pack(shop, own, key="order-1", on_conflict="raise")
    own.do(f"INSERT INTO {table} DEFAULT VALUES")
    own.commit()
    assert (jobs(shop), orders()) == (1, 1)
