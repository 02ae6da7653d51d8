"""Harm at every message of an enqueue with `tx=` and of its commit, on connections of the user's own.

A job is in the transaction if its enqueue returned, and not if it raised; the user's row shares its fate.
`make prove NAME=every_byte` tries each kind of connection at every place; here some are chosen by a seed.
"""

from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from itertools import product
from random import Random

import pytest
from every_byte import SHARES

from connections import PROVE, SOME, kind
from fault_proxy import Fault, Harm, Proxy, end_in_postgres
from servers import PostgresServer
from standfast import Standfast
from standfast.errors import StandfastError
from standfast.stores.values import JobFilter

pytestmark = [
    pytest.mark.usefixtures("own_leavings"),
    pytest.mark.timeout(1200 if PROVE else 120),
    # What a driver leaves behind of a connection that broke is its own affair.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

HARMS = (Harm.CUT, Harm.SPLIT, Harm.ACT)
"""No silence: to wait for a server that does not answer, for ever or not, is the user's driver's decision."""

MOST = 400 if PROVE else 6
"""Trials of each kind of connection, cold or warm."""

OWN = "store"
"""By which name the server knows the connections that are not harmed."""


class World:
    """A server, an app that talks to it directly, orders of the user's own, and a proxy for the user."""

    def __init__(self, server, proxy):
        query = {"sslmode": "disable", "gssencmode": "disable"}
        self.server, self.proxy = server, proxy
        self.harmed = server.url(**query).replace(f":{server.port}/", f":{proxy.port}/")
        self.app = Standfast(server.url(**query, application_name=OWN))
        self.told = []
        self.wrong = []

        @self.app.task
        def ship(order: int) -> None: ...

        self.ship = ship
        self.app.prepare()
        with server.connect() as own:
            own.execute("CREATE TABLE orders (id int PRIMARY KEY)")

    def end_backends(self):
        """End what serves the user's connections, and wait until it is gone."""
        with self.server.connect() as own:
            own.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name <> %s",
                (OWN,),
            )

    @contextmanager
    def connected(self, name, *, warm):
        """Give a connection of this kind that goes through the proxy; a warm one has enqueued before."""
        self.proxy.arm(None)
        own = kind(name)(self.harmed)
        try:
            if warm:
                self.place(own)
            yield own
        finally:
            self.proxy.arm(None)
            with suppress(Exception):  # it may be broken
                own.close()
            self.proxy.cut_all()

    def place(self, own, fault=None):
        """Place an order with its job, with harm done from its enqueue on; note what the user is told of it."""
        order = len(self.told)
        self.told.append({"row": False, "job": False})
        own.begin()
        own.do(f"INSERT INTO orders VALUES ({order})")
        self.proxy.arm(fault)
        try:
            own.enqueue(self.ship, order=order)
        except StandfastError:
            is_in = False
        except BaseException as error:  # noqa: BLE001 - it is told below
            self.wrong.append(f"{fault}: the enqueue raised {error!r}")
            return
        else:
            is_in = True
        try:
            own.commit()
            is_committed = not getattr(own.tx, "closed", False)  # psycopg's block ends without a word where it is
        except Exception:  # noqa: BLE001 - each driver has its own
            is_committed = False
        self.told[order] = {"row": True, "job": is_in} if is_committed else {}

    def check(self):
        """Compare what the user was told with what is there; return how many trials ended in which way."""
        with self.server.connect() as own:
            rows = {order for (order,) in own.execute("SELECT id FROM orders")}
        jobs = self.app.call(self.app.verbs.list_jobs(JobFilter(limit=1_000_000))).jobs
        stored = Counter(self.ship.arguments.decode(job.payload)["order"] for job in jobs)
        ends = Counter()
        for order, told in enumerate(self.told):
            found = {"row": order in rows, "job": stored[order]}
            assert found["job"] <= 1, order
            if told:
                assert found == told, f"order {order}: told {told}, found {found}"
            else:
                assert not found["job"] or found["row"], f"order {order} has a job without its row"
            ends[f"{'told' if told else 'not known'}: {dict(found)}"] += 1
        return dict(ends)


@pytest.fixture(scope="module")
def world():
    with ExitStack() as running:
        server = running.enter_context(PostgresServer(fsync="off", synchronous_commit="off"))
        proxy = running.enter_context(Proxy(("127.0.0.1", server.port), end_in_postgres))
        world = World(server, proxy)
        with world.app:
            yield world


@pytest.mark.parametrize("name", SOME)
def test_every_byte(world, name, measured):
    """What is told as committed is there, row and job; an enqueue that raised is not in what is committed."""
    random, runs = Random(name), Counter()
    for warm in (False, True):
        with world.connected(name, warm=warm) as own:
            world.place(own)
            heard = dict(world.proxy.heard)
        places = [place for way in heard for place in product([way], range(heard[way]), SHARES[way])]
        faults = [Fault(harm, *place, world.end_backends) for place in places for harm in HARMS]
        assert faults
        for fault in random.sample(faults, min(MOST, len(faults))):
            with world.connected(name, warm=warm) as own:
                world.place(own, fault)
                runs[str(fault.harm) if world.proxy.struck else "none"] += 1
    assert world.wrong == []
    measured(f"{name}: {dict(runs)}; {world.check()}")
