"""Enqueues that are cancelled, or cut short by a signal, at random: what callers were told, beside what is stored.

Over 10,000 calls are cancelled at full size, `make prove NAME=cancelled_enqueues`; some hundred by default.
"""

import asyncio
import random
import signal
import time
import traceback
from collections import Counter
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from asgiref.sync import sync_to_async
from shopfloor import PROVE

import standfast
from connections import ASYNC, SOME, SYNC, for_libpq, kind, open_own
from standfast import Standfast, new_job_id
from standfast.stores.values import JobFilter

pytestmark = pytest.mark.timeout(900)

TRIED = 850 if PROVE else 25
"""So many calls of each kind are cancelled."""
OURS = str(Path(standfast.__file__).parent)
COUNTS = {"nothing": {0}, "stored": {1}, "perhaps": {0, 1}}
"""What callers are told of a job, and how many of it may be stored then."""


class Shop:
    """An app, orders of the user's own where its store is PostgreSQL, and what callers were told of their jobs."""

    def __init__(self, url, table=None):
        self.url = url
        self.table = table
        self.seed = random.SystemRandom().getrandbits(32)
        self.random = random.Random(self.seed)
        self.told = []
        self.placed = set()
        self.turns = 50
        self.app = Standfast(url)

        @self.app.task
        def ship(order: int) -> None: ...

        self.ship = ship
        self.app.prepare()

    async def cancelled(self, call):
        """Cancel a call after so many turns of the event loop, perhaps twice; return the CancelledError if any."""
        task, turns, first = asyncio.ensure_future(call), 0, self.random.randrange(self.turns)
        second = first + self.random.choice((1, 5, 25, 1_000_000))
        while not task.done():
            if turns in {first, second}:
                task.cancel()
            await asyncio.sleep(0)
            turns += 1
        if turns <= first:  # it was over before: so long does it take
            self.turns = max(10, turns)
        elif self.random.random() < 0.1:
            self.turns += self.turns // 10
        try:
            task.result()
        except asyncio.CancelledError as error:
            return error
        return None

    def check(self):
        """Compare what callers were told with what is stored; return how many were told what, and have it."""
        with Standfast(self.url) as app:
            jobs = app.call(app.verbs.list_jobs(JobFilter(limit=1_000_000))).jobs
        stored = Counter(self.ship.arguments.decode(job.payload)["order"] for job in jobs)
        found = [(told, stored[order]) for order, told in enumerate(self.told)]
        wrong = {order: pair for order, pair in enumerate(found) if pair[1] not in COUNTS[pair[0]]}
        assert wrong == {}, f"seed {self.seed}: an order's job was told to be so, and is there so many times"
        if self.table is not None:
            with psycopg.connect(**for_libpq(self.url)) as own:
                rows = {order for (order,) in own.execute(f"SELECT id FROM {self.table}")}
            assert rows == self.placed, f"seed {self.seed}"
        return dict(Counter(f"{told}: {count}" for told, count in found))


@pytest.fixture
def shop(emptied_url, shared_postgres, postgres_schema):
    """Give an app on PostgreSQL whose database has orders of the user's own."""
    table = f'"{postgres_schema}".orders'
    with psycopg.connect(**for_libpq(shared_postgres), autocommit=True) as own:
        own.execute(f'CREATE SCHEMA "{postgres_schema}" CREATE TABLE {table} (id int PRIMARY KEY)')
    shop = Shop(emptied_url, table)
    with shop.app:
        yield shop


def committed(shop, own, order):
    """Commit an order, as the user does who has caught an error; return whether that was said to have succeeded."""
    try:
        own.commit()
    except Exception:  # noqa: BLE001 - each library has its own
        with suppress(Exception):  # some have rolled back already
            own.rollback()
        return False
    if getattr(own.tx, "closed", False):  # the end of psycopg's transaction() says nothing of a connection that is
        return False
    shop.placed.add(order)
    return True


def begin(shop, own):
    """Begin an order in a transaction of the user's own, and return its number."""
    order = len(shop.told)
    shop.told.append("nothing")
    own.begin()
    own.do(f"INSERT INTO {shop.table} VALUES ({order})")
    return order


@pytest.mark.parametrize("name", [name for name in (ASYNC if PROVE else SOME) if name in ASYNC])
def test_in_a_transaction_of_the_user_s_own(shop, name, measured):
    """What raised is not there, and whoever catches it may enqueue again, with a new id, or commit without."""
    ends = Counter()
    with open_own(name, shop.url) as own:
        while ends["cancelled"] < TRIED:
            order = begin(shop, own)
            bound = shop.ship.options(tx=own.tx, key=shop.random.choice((None, f"order-{order}")))
            error = own.wait(shop.cancelled(bound.aenqueue(order=order)))
            again = error is not None and shop.random.random() < 0.5
            if again:
                own.wait(bound.aenqueue(order=order))
            is_there = committed(shop, own, order)
            if is_there and (error is None or again):
                shop.told[order] = "stored"
            if error is not None:
                ends["cancelled"] += 1
                ends["commit refused"] += not is_there
                assert is_there is not bool(getattr(error, "__notes__", None))
    measured(f"{name}: {dict(ends)}; told and found {shop.check()}")


@pytest.fixture(params=["postgres", "sqlite", "redis"])
def bare(request, tmp_path):
    """Give an app on one store after the other."""
    names = {"postgres": "emptied_url", "redis": "redis_url"}
    url = (
        request.getfixturevalue(names[request.param]) if request.param in names else f"sqlite:///{tmp_path}/jobs.db"
    )
    shop = Shop(url)
    with shop.app:
        yield shop


def test_without_a_transaction(bare, measured):
    """The error says that the job may be stored; whoever repeats it with the id that it names has it once."""
    cancelled = 0
    with asyncio.Runner() as loop:
        while cancelled < TRIED:
            job_id, order = new_job_id(), len(bare.told)
            bound = bare.ship.options(job_id=job_id)
            error = loop.run(bare.cancelled(bound.aenqueue(order=order)))
            if error is not None:
                cancelled += 1
                is_told = any(
                    f"whether job {job_id} was stored" in note for note in getattr(error, "__notes__", [])
                )
                bare.told.append("perhaps" if is_told else "nothing")
            if error is None or bare.random.random() < 0.5:
                loop.run(bound.aenqueue(order=order))
                bare.told[order:] = ["stored"]
    measured(f"{bare.url.partition(':')[0]}: {cancelled} cancelled; told and found {bare.check()}")


def test_django_s_transaction_in_a_thread(shop, measured):
    """The thread goes on when its await is cancelled: row and job are there together, or neither is."""
    own = kind("django")(shop.url)

    def place(order):
        with own._transaction.atomic():
            own.do(f"INSERT INTO {shop.table} VALUES ({order})")
            shop.ship.options(tx=own.tx).enqueue(order=order)

    def look():
        with own.tx.cursor() as cursor:
            cursor.execute(f"SELECT id FROM {shop.table}")
            return {order for (order,) in cursor.fetchall()}

    async def use():
        while sum(told == "perhaps" for told in shop.told) < TRIED:
            order = len(shop.told)
            shop.told.append("stored")
            if await shop.cancelled(sync_to_async(place)(order)) is not None:
                shop.told[order] = "perhaps"
        shop.placed = await sync_to_async(look)()
        await sync_to_async(own.close)()

    asyncio.run(use())
    for order, told in enumerate(shop.told):
        if told == "perhaps":
            shop.told[order] = "stored" if order in shop.placed else "nothing"
    measured(f"django: told and found {shop.check()}")


class _TimeIsUpError(Exception):
    """What the handler of an alarm raises."""


@contextmanager
def alarms(shop):
    """Let alarms raise, as time limits do, or as Ctrl-C does."""

    def ring(*_):
        raise shop.random.choice((_TimeIsUpError, KeyboardInterrupt))

    before = signal.signal(signal.SIGALRM, ring)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def cut_short(bound, order, seconds):
    """Enqueue, with an alarm meanwhile; return whether that came out of the call, beside it, or not at all."""
    handle = None
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            handle = bound.enqueue(order=order)  # here: any call in between would have places of its own for it
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except BaseException as error:  # noqa: BLE001 - whatever the driver makes of it
        is_inside = any(frame.filename.startswith(OURS) for frame in traceback.extract_tb(error.__traceback__))
        return "raised" if handle is None and is_inside else "beside"
    return "done"


@pytest.mark.filterwarnings(
    "ignore:coroutine .* was never awaited", "ignore::pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("name", [name for name in (SYNC if PROVE else SOME) if name in SYNC])
def test_cut_short_by_a_signal(shop, name, measured):
    """What raised is not there; the next call on that connection works, or the connection is closed."""
    ends, usual = Counter(), 0.002
    with open_own(name, shop.url) as own:  # loads what there is to load
        order = begin(shop, own)
        shop.ship.options(tx=own.tx).enqueue(order=order)
        own.rollback()
    with alarms(shop):
        while ends["raised"] < TRIED // 2:
            with closing(kind(name)(shop.url)) as own:
                while ends["raised"] < TRIED // 2:
                    order = begin(shop, own)
                    bound = shop.ship.options(tx=own.tx, key=shop.random.choice((None, f"order-{order}")))
                    began = time.monotonic()
                    end = cut_short(bound, order, shop.random.uniform(0.00001, usual))
                    if end == "done":
                        usual = 1.2 * (time.monotonic() - began)
                    ends[end] += 1
                    if end == "beside":
                        own.rollback()
                    elif not committed(shop, own, order):
                        ends["commit refused"] += 1
                        if name != "django" and is_closed(own):
                            ends["closed"] += 1
                            break
                    elif end == "done":
                        shop.told[order] = "stored"
    measured(f"{name}: {dict(ends)}; told and found {shop.check()}")


def is_closed(own):
    """Tell whether the connection is of no use any more."""
    try:
        own.begin()
        own.do("SELECT 1")
        own.rollback()
    except Exception:  # noqa: BLE001 - each library has its own
        return True
    return False
