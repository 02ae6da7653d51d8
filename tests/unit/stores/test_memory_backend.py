"""The memory backend's own promises: one lock, one bell, no foreign verbs."""

import asyncio
import threading

import pytest

from standfast.model.job import ClaimRef, Ending, NewJob
from standfast.model.states import Move, State
from standfast.stores.backend import Backend
from standfast.stores.contract import count_states
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.verb import Access, Query, Steps, Tone, Verb
from standfast.testing import FakeClock


def test_it_is_a_backend() -> None:
    """The type checker agrees that memory is an open store."""
    backend: Backend = MemoryBackend(FakeClock())
    backend.close()


def test_a_verb_of_another_store_is_refused() -> None:
    """A verb that yields a statement was made for another store, and the error says so."""

    def steps() -> Steps[None]:
        yield Query("SELECT 1")

    with pytest.raises(TypeError, match="verb of another store"):
        MemoryBackend().run(Verb("look", Access.READ, steps()))


def test_a_move_that_ends_nothing_is_refused_whole() -> None:
    """A batch with a move that is no ending is refused before anything of it is written."""
    backend = MemoryBackend(FakeClock())
    endings = [Ending(ClaimRef("x", 1), Move.COMPLETE), Ending(ClaimRef("x", 1), Move.CLAIM)]
    with pytest.raises(ValueError, match="claim does not end a claim"):
        backend.run(backend.verbs.finish("w", endings))


def test_many_threads_lose_nothing() -> None:
    """Verbs from many threads at once are each one step."""
    backend = MemoryBackend()

    def enqueue(thread: int) -> None:
        for number in range(100):
            backend.run(backend.verbs.enqueue([NewJob(f"{thread}-{number}", "t", b"")]))

    threads = [threading.Thread(target=enqueue, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert backend.run(count_states(backend.verbs))[State.READY] == 800


def test_a_ring_reaches_several_loops_and_survives_closed_ones() -> None:
    """Listeners of different loops all hear; one whose loop is gone does not stop the ring."""
    backend = MemoryBackend()

    async def leave_a_listener() -> None:
        backend.bell.listen()

    asyncio.run(leave_a_listener())
    heard: list[bool] = []
    listening = threading.Barrier(3)

    async def hear() -> None:
        listener = backend.bell.listen()
        await asyncio.to_thread(listening.wait)
        heard.append(await listener.wait(30))
        listener.close()

    threads = [threading.Thread(target=lambda: asyncio.run(hear())) for _ in range(2)]
    for thread in threads:
        thread.start()
    listening.wait()
    backend.run(backend.verbs.enqueue([]))
    for thread in threads:
        thread.join()
    assert heard == [True, True]


async def test_one_ring_wakes_once() -> None:
    """A ring that was heard is not heard again."""
    backend = MemoryBackend()

    listener = backend.bell.listen()
    backend.bell.ring()
    assert [await listener.wait(30), await listener.wait(0)] == [True, False]


async def test_each_hears_its_own_tone() -> None:
    """A ring for those who wait for jobs disturbs nobody who waits for work."""
    backend = MemoryBackend()

    worker, waiter = backend.bell.listen(Tone.WORK), backend.bell.listen(Tone.RESULT)
    backend.bell.ring(Tone.RESULT)
    assert [await waiter.wait(30), await worker.wait(0)] == [True, False]
