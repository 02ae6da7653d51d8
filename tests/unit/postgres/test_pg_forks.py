"""No connection crosses a fork: parent and child both go on, and neither speaks or hangs up for the other."""

import subprocess
import sys
from pathlib import Path

PRELUDE = """
import asyncio, gc, os, signal, sys, threading, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from pg_world import World
from holdfast.store.postgres import forks

world = World(sys.argv[1])

def session():
    return world.ask("SELECT pg_backend_pid()")[0][0]

def fork(act):
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        try:
            act()
        except BaseException as error:
            print(f"in the child: {error!r}", flush=True)
            os._exit(1)
        sys.exit(0)  # with all that happens at the end of a program
    return child

def well(child):
    return os.waitpid(child, 0)[1] == 0

def engine():
    # as the backend does: each process has its own
    if world.pid != os.getpid():
        fresh = World(sys.argv[1])
        world.engine, world.bell, world.pid = fresh.engine, fresh.bell, os.getpid()

world.pid = os.getpid()
"""


def run_script(script, url):
    # Newer Pythons warn of any fork in a process with threads; here that is the point.
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", PRELUDE + script, url]
    done = subprocess.run(
        [*command, str(Path(__file__).parent)],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""


BOTH_GO_ON = """
mine = session()

def act():
    engine()
    gc.collect()
    assert session() != mine
    assert session() != mine
    world.engine.close()

for _ in range(3):
    assert well(fork(act))
    assert session() == mine  # the child neither used nor closed it
"""


def test_parent_and_child_have_lines_of_their_own(postgres_url):
    """The child opens another; the parent's is as it was, though the child forgot all that it inherited."""
    run_script(BOTH_GO_ON, postgres_url)


LEADS_NOWHERE = """
session()
descriptors = [line.fileno() for line in forks.OPEN]
assert descriptors

def act():
    assert not forks.OPEN
    for descriptor in descriptors:
        assert os.fstat(descriptor).st_rdev == os.stat(os.devnull).st_rdev, descriptor

assert well(fork(act))
"""


def test_a_child_does_not_hold_its_parents_line(postgres_url):
    """When the parent ends the server notices, however long its children live."""
    run_script(LEADS_NOWHERE, postgres_url)


THREADS_AT_WORK = """
session()
over, done, wrong = threading.Event(), [0, 0], []

def ask(lane):
    while not over.is_set():
        if world.ask("SELECT $1::bigint", done[lane]) != [(done[lane],)]:
            wrong.append(lane)
        done[lane] += 1

def act():
    engine()
    assert world.ask("SELECT 'child'") == [("child",)]
    os._exit(0)

askers = [threading.Thread(target=ask, args=(lane,)) for lane in range(2)]
for thread in askers:
    thread.start()
children = [well(fork(act)) for _ in range(15)]
over.set()
for thread in askers:
    thread.join()
assert all(children), children
assert not wrong and all(done), (wrong, done)
"""


def test_children_work_whatever_the_parents_threads_do(postgres_url):
    """Forks in the middle of calls: every child finds the store open to it, and every call its own answer."""
    run_script(THREADS_AT_WORK, postgres_url)


LISTENER = """
async def scene():
    listener = world.bell.listen()
    assert await listener.wait(30)

    def act():
        engine()
        world.ask("SELECT 1", wakes=True)
        os._exit(0)

    assert well(fork(act))
    assert await listener.wait(30)
    listener.close()

asyncio.run(scene())
"""


def test_a_listener_goes_on_after_a_fork(postgres_url):
    """It hears what the child rings."""
    run_script(LISTENER, postgres_url)
