"""Enqueueing inside the user's own transactions, from many processes, some of which are killed.

1,000 transactions from 20 processes at full size, `make prove NAME=tx_enqueue`; short by default.
"""

import random
import signal
import subprocess
import sys
from collections import Counter

import pytest
from shopfloor import PROVE, environment, eventually

from standfast.model.states import State
from standfast.stores.values import JobFilter

CUSTOMERS = 20 if PROVE else 6
ORDERS = 50 if PROVE else 15
KILLED = CUSTOMERS // 4
LONG = 600
"""Seconds after which a customer hangs: how long a sound one takes depends on who else uses the machine."""

pytestmark = pytest.mark.timeout(900)


def start_customer(orders, name):
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", str(orders.module), name, str(ORDERS)],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def last_words(customer):
    """Return what a customer said by its end; one that hangs is made to say where."""
    try:
        return customer.communicate(timeout=LONG)[1]
    except subprocess.TimeoutExpired:
        customer.send_signal(signal.SIGABRT)
        pytest.fail(f"a customer hangs:\n{customer.communicate()[1].decode()}")


def placed(orders):
    return {order for (order,) in orders.sql("SELECT id FROM placed")}


def enqueued(orders):
    jobs = orders.app.call(orders.app.verbs.list_jobs(JobFilter(limit=1_000_000))).jobs
    return Counter(orders.tasks.ship.arguments.decode(job.payload)["order"] for job in jobs)


def placed_by(customer, rows):
    return [order for order in rows if order.startswith(f"{customer}-")]


def is_at_work(orders, name, share, customer):
    """Tell whether a customer has placed so many orders; one that ended is told of by its exit code."""
    return len(placed_by(name, placed(orders))) >= share or customer.poll() is not None


def test_rows_and_jobs_agree(orders):
    """Each committed order has its job and no other has one, though customers give up and are killed midway."""
    worker = orders.worker("--concurrency", "2")
    customers = {f"c{number}": start_customer(orders, f"c{number}") for number in range(CUSTOMERS)}
    try:
        for name in random.sample(sorted(customers), KILLED):
            share = random.randrange(1, ORDERS // 3)
            eventually(lambda name=name, share=share: is_at_work(orders, name, share, customers[name]), name, LONG)
            customers[name].send_signal(signal.SIGKILL)
        said = {name: (last_words(customer), customer.returncode) for name, customer in customers.items()}
    finally:
        for customer in customers.values():
            customer.kill()
            customer.wait()

    codes = Counter(code for _, code in said.values())
    assert set(codes) <= {0, -signal.SIGKILL}, said
    assert codes[-signal.SIGKILL] > 0, "no kill came in time"
    rows = placed(orders)
    assert enqueued(orders) == Counter(rows), "a job without its row, a row without its job, or a job twice"
    for name, (_, code) in said.items():
        if code == 0:
            assert len(placed_by(name, rows)) == ORDERS - len(range(0, ORDERS, 3))

    assert worker.stop() == 0, worker.words
    orders.drain()
    assert orders.counts() == {State.COMPLETED: len(rows)}
    assert Counter(line["what"] for line in orders.ledger()) == Counter(rows)
