"""No connection crosses a fork: parent and child both go on, whatever ran meanwhile, and no fork waits for ever."""

from pathlib import Path

from forking import run_forking

PRELUDE = """
import asyncio, sqlite3, sys, threading
from standfast.model.job import NewJob
from standfast.errors import StoreError
from standfast.stores.sqlite import connect as forks
from standfast.stores.contract import count_states
from standfast.stores.sqlite.store import SqliteBackend
from standfast.stores.verb import Access, Command, Query, Verb

backend = SqliteBackend(sys.argv[1])

def enqueue(name):
    backend.run(backend.verbs.enqueue([NewJob(name, "task", b"")]))

def total():
    return sum(backend.run(count_states(backend.verbs)).values())

def refused():
    try:
        enqueue("refused")
    except StoreError as error:
        assert "forked in the middle" in str(error), error
    else:
        raise AssertionError("the child used what it inherited")
"""


PARENT_CLOSES = """
enqueue("parent")
child_says, parent_hears = os.pipe()[::-1]
child_hears, parent_says = os.pipe()

def act():
    enqueue("before")
    os.write(child_says, b"x")
    os.read(child_hears, 1)
    for number in range(5):
        enqueue(f"after-{number}")
    os.kill(os.getpid(), signal.SIGKILL)  # so that nothing is tidied up

child = fork(act)
os.read(parent_hears, 1)
backend.close()
os.write(parent_says, b"x")
os.waitpid(child, 0)
stored = sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM standfast_job").fetchone()
assert stored == (7,), stored
"""


def test_a_child_loses_nothing_when_its_parent_closes(tmp_path: Path) -> None:
    """What a child enqueued is there after its parent has let go of the files, and both were opened before."""
    run_forking(PRELUDE + PARENT_CLOSES, tmp_path / "jobs.db")


THREADS_AT_WORK = """
enqueue("first")
written, over = [0, 0], threading.Event()

def write(lane):
    while not over.is_set():
        enqueue(f"{lane}-{written[lane]}")
        written[lane] += 1
        total()

def fork_often(lane):
    for number in range(10):
        assert well(fork(lambda: (enqueue(f"child-{lane}-{number}"), total())))
        children.append(number)

children = []
writers = [threading.Thread(target=write, args=(lane,)) for lane in range(2)]
forkers = [threading.Thread(target=fork_often, args=(lane,)) for lane in range(2)]
for thread in (*writers, *forkers):
    thread.start()
for thread in forkers:
    thread.join()
over.set()
for thread in writers:
    thread.join()
assert len(children) == 20, children
assert total() == 1 + sum(written) + 20
backend.close()
"""


def test_children_work_whatever_the_parents_threads_do(tmp_path: Path) -> None:
    """Forks from two threads while two others write and read: every child finds the store open to it."""
    run_forking(PRELUDE + THREADS_AT_WORK, tmp_path / "jobs.db")


LISTENER = """
async def scene():
    await backend.arun(count_states(backend.verbs))
    listener = backend.bell.listen()
    assert len(forks.FORK_GUARD.connections) > 1, list(forks.FORK_GUARD.connections)
    def act():
        assert not forks.FORK_GUARD.connections and not forks.FORK_GUARD._crossed
        enqueue("child")
    assert well(fork(act))
    assert await listener.wait(30)
    await listener.wait(0)
    listener._ear.hear = lambda timeout: asyncio.sleep(0.01, False)  # only the counter is left
    assert not await listener.wait(0.05)
    assert well(fork(lambda: enqueue("another")))
    assert await listener.wait(30)
    assert await backend.arun(backend.verbs.get("another")) is not None
    listener.close()

asyncio.run(scene())
backend.close()
"""


def test_a_listener_hears_on_after_a_fork(tmp_path: Path) -> None:
    """The bell's own connection does not cross either, and is opened again when it is next looked at."""
    run_forking(PRELUDE + LISTENER, tmp_path / "jobs.db")


INSIDE = """
def forking():
    yield Command("INSERT INTO standfast_queue VALUES ('before', 1)")
    assert well(fork(refused))
    yield Command("INSERT INTO standfast_queue VALUES ('after', 1)")

backend.run(Verb("forking", Access.WRITE, forking()))
assert [queue.name for queue in backend.run(backend.verbs.queues())] == ["after", "before"]
assert well(fork(lambda: enqueue("later")))
assert total() == 1
backend.close()
"""


def test_a_fork_inside_a_call_neither_hangs_nor_harms(tmp_path: Path) -> None:
    """A thread that forks in the middle of its own call goes on with it; the child is told why it cannot."""
    run_forking(PRELUDE + INSIDE, tmp_path / "jobs.db")


SLOW = """
forks.FORK_PATIENCE = 0.1
began, end = threading.Event(), threading.Event()

def slow():
    yield Query("SELECT 1")
    began.set()
    end.wait(30)
    yield Query("SELECT 1")

reader = threading.Thread(target=backend.run, args=(Verb("slow", Access.READ, slow()),))
reader.start()
began.wait(30)
assert well(fork(refused))
end.set()
reader.join()
assert well(fork(lambda: enqueue("later")))
assert total() == 1
backend.close()
"""


def test_a_fork_does_not_wait_for_ever(tmp_path: Path) -> None:
    """A call that takes too long does not hold up a fork; the child is told why it cannot use the store."""
    run_forking(PRELUDE + SLOW, tmp_path / "jobs.db")


UNANNOUNCED = """
import ctypes
enqueue("first")
for tell_python in (True, False):
    child = ctypes.PyDLL(None).fork()
    if child == 0:
        try:
            if tell_python:
                ctypes.pythonapi.PyOS_AfterFork_Child()
            refused()
        except BaseException as error:
            print(f"in the child: {error!r}", flush=True)
            os._exit(1)
        os._exit(0)
    assert well(child)
enqueue("second")
assert total() == 2
backend.close()
"""


def test_a_fork_without_our_handlers_is_noticed(tmp_path: Path) -> None:
    """Where a server written in C forks, and tells Python afterwards or never, the child is kept from harm."""
    run_forking(PRELUDE + UNANNOUNCED, tmp_path / "jobs.db")


POOL = """
import multiprocessing

def work(number):
    enqueue(str(number))
    return total() > 0

enqueue("first")
with multiprocessing.get_context("fork").Pool(4) as pool:
    assert all(pool.map(work, range(40)))
assert total() == 41
backend.close()
"""


def test_a_pool_of_processes_shares_the_store(tmp_path: Path) -> None:
    """Processes made by multiprocessing's fork use the store that their parent had opened."""
    run_forking(PRELUDE + POOL, tmp_path / "jobs.db")
