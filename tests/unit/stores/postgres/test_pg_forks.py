"""No connection crosses a fork: parent and child both go on, and neither speaks or hangs up for the other."""

from pathlib import Path

from forking import run_forking

PRELUDE = """
import asyncio, sys, threading
sys.path.insert(0, sys.argv[2])
from pg_world import query
from standfast.model.job import NewJob
from standfast.model.ids import new_job_id
from standfast.stores.postgres import wire as forks
from standfast.stores.contract import count_states
from standfast.stores.postgres.store import PostgresBackend

backend = PostgresBackend(sys.argv[1])

def enqueue():
    backend.run(backend.verbs.enqueue([NewJob(new_job_id(), "task", b"")]))

def total():
    return sum(backend.run(count_states(backend.verbs)).values())

def session():
    return backend.run(query("SELECT pg_backend_pid()"))[0][0]
"""


def run_script(script, url):
    run_forking(PRELUDE + script, url, Path(__file__).parent)


BOTH_GO_ON = """
mine = session()

def act():
    enqueue()
    gc.collect()
    assert session() != mine
    backend.close()

for _ in range(3):
    assert well(fork(act))
    assert session() == mine  # the child neither used nor closed it
assert total() == 3
backend.close()
"""


def test_parent_and_child_have_lines_of_their_own(postgres_url):
    """The child opens another; the parent's is as it was, though the child forgot all that it inherited."""
    run_script(BOTH_GO_ON, postgres_url)


TO_THE_END = """
mine = session()
child = os.fork()
if child == 0:
    enqueue()
    sys.exit(0)  # with all that happens at the end of a program
assert well(child)
assert session() == mine
assert total() == 1
backend.close()
"""


def test_a_child_that_ends_in_good_order_hangs_up_for_itself_alone(postgres_url):
    """What a program does at its end does not reach the parent's connection either."""
    run_script(TO_THE_END, postgres_url)


PARENT_CLOSES = """
enqueue()
child_says, parent_hears = os.pipe()[::-1]
child_hears, parent_says = os.pipe()

def act():
    enqueue()
    os.write(child_says, b"x")
    os.read(child_hears, 1)
    for _ in range(5):
        enqueue()
    assert total() == 7

child = fork(act)
os.read(parent_hears, 1)
backend.close()
os.write(parent_says, b"x")
assert well(child)
"""


def test_a_child_goes_on_when_its_parent_closes(postgres_url):
    """Each has an engine of its own."""
    run_script(PARENT_CLOSES, postgres_url)


LEADS_NOWHERE = """
session()
descriptors = [line.fileno() for line in forks.OPEN]
assert descriptors

def act():
    assert not forks.OPEN
    for descriptor in descriptors:
        assert os.fstat(descriptor).st_rdev == os.stat(os.devnull).st_rdev, descriptor

assert well(fork(act))
backend.close()
"""


def test_a_child_does_not_hold_its_parents_line(postgres_url):
    """When the parent ends the server notices, however long its children live."""
    run_script(LEADS_NOWHERE, postgres_url)


THREADS_AT_WORK = """
enqueue()
over, written = threading.Event(), [0, 0]

def write(lane):
    while not over.is_set():
        enqueue()
        written[lane] += 1
        total()

def fork_often():
    for _ in range(10):
        children.append(well(fork(lambda: (enqueue(), total()))))

children = []
writers = [threading.Thread(target=write, args=(lane,)) for lane in range(2)]
forkers = [threading.Thread(target=fork_often) for _ in range(2)]
for thread in (*writers, *forkers):
    thread.start()
for thread in forkers:
    thread.join()
over.set()
for thread in writers:
    thread.join()
assert children == [True] * 20, children
assert total() == 1 + sum(written) + 20
backend.close()
"""


def test_children_work_whatever_the_parents_threads_do(postgres_url):
    """Forks in the middle of calls: every child finds the store open to it, and no call is disturbed."""
    run_script(THREADS_AT_WORK, postgres_url)


LISTENER = """
async def scene():
    listener = backend.bell.listen()
    assert await listener.wait(60)
    assert well(fork(enqueue))
    assert await listener.wait(60)
    listener.close()

asyncio.run(scene())
backend.close()
"""


def test_a_listener_goes_on_after_a_fork(postgres_url):
    """It hears what the child rings."""
    run_script(LISTENER, postgres_url)
