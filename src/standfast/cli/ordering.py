"""Orders to the supervisor of a worker: which worker is meant, and waiting until the order is carried out."""

import time
from collections.abc import Callable, Mapping
from datetime import timedelta

from standfast.cli.progress import wait_progress
from standfast.errors import StandfastError
from standfast.store.backend import Backend
from standfast.store.errand import run_errand
from standfast.store.protocol import Worker
from standfast.supervisor.orders import Order, forget_order, give_order, look_at_order
from standfast.words import span

_LOOK_EVERY = 0.1


def find_worker(backend: Backend, worker_id: str) -> Worker:
    """Return the living worker with this id, or the only one whose id begins or ends so."""
    found = backend.run(backend.verbs.workers())
    same = [each for each in found if each.info.id == worker_id]
    matches = same or [
        each for each in found if each.info.id.startswith(worker_id) or each.info.id.endswith(worker_id)
    ]
    if not matches or not worker_id:
        raise StandfastError(f"there is no worker '{worker_id}': `standfast workers` lists the ids")
    if len(matches) > 1:
        ids = ", ".join(each.info.id for each in matches)
        raise StandfastError(
            f"'{worker_id}' may be any of {len(matches)} workers, give more of the one meant: {ids}"
        )
    [worker] = matches
    if not worker.is_live:
        age = span(worker.beat_age)
        raise StandfastError(f"worker {worker.info.id} was not heard of for {age}: nobody is there to do anything")
    return worker


def have_done(
    backend: Backend,
    what: str,
    worker: str,
    timeout: float,
    details: Mapping[str, str] | None = None,
    *,
    done: Callable[[Order], bool],
) -> Order:
    """Give an order and wait until it is `done`. Raises StandfastError if it is refused, or after the timeout.

    It is taken back then.
    """
    give_up_at = time.monotonic() + timeout
    lasts = timedelta(seconds=timeout)
    order: Order = run_errand(backend.run, give_order(backend.verbs, what, worker, details, lasts))
    taken = False
    try:
        with wait_progress() as tell:
            tell(f"waiting for the next beat for worker {worker}")
            while not done(order):
                seen = run_errand(backend.run, look_at_order(backend.verbs, order.id))
                taken = taken or seen is None or seen.taken
                if seen is not None and seen.refused:
                    raise StandfastError(seen.refused)
                tell(
                    f"worker {worker}: {what} is under way"
                    if taken
                    else f"waiting for the next beat for worker {worker}"
                )
                if time.monotonic() >= give_up_at:
                    raise StandfastError(_too_late(what, worker, timeout, taken=taken))
                time.sleep(_LOOK_EVERY)
    finally:
        run_errand(backend.run, forget_order(backend.verbs, order.id))
    return order


def _too_late(what: str, worker: str, timeout: float, *, taken: bool) -> str:
    if taken:
        return f"its supervisor has begun to {what} worker {worker}, and was not done within {timeout:g} s"
    return (
        f"no supervisor took the order to {what} worker {worker} within {timeout:g} s: they look at each beat,"
        " a third of their lease; give more with --timeout, or see with `standfast workers` whether it is there"
    )
