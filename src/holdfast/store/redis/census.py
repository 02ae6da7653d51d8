"""Who is there and what waits, for doctor: two verbs, and one script that no verb needs."""

from holdfast.core.record import Kind, Record
from holdfast.store.examination import Census, DueQueue, UnknownTask
from holdfast.store.protocol import Worker
from holdfast.store.redis.backend import RedisBackend
from holdfast.store.times import from_micros
from holdfast.store.verb import Access, Script, Steps, Verb


def take_census(backend: RedisBackend) -> Census:
    """Return what there is to say about a store at work."""
    workers, windows = backend.run(backend.verbs.workers()), backend.run(backend.verbs.records(Kind.WINDOW))
    return backend.run(Verb("census", Access.READ, _steps(workers, windows)))


def _steps(workers: tuple[Worker, ...], windows: tuple[Record, ...]) -> Steps[Census]:
    now, latest, queues, unknown, dead = yield Script("census")
    due = tuple(
        DueQueue(name.decode(), from_micros(int(paused)) if paused else None, count, from_micros(int(oldest)))
        for name, count, oldest, paused in queues
    )
    seen = [worker.started_at for worker in workers] + ([from_micros(int(latest))] if int(latest) else [])
    aside = tuple(sorted(map(_to_unknown, unknown[::2], unknown[1::2]), key=lambda task: (task.name, task.version)))
    return Census(from_micros(int(now)), workers, due, max(seen, default=None), windows, aside, dead)


def _to_unknown(task: bytes, jobs: bytes) -> UnknownTask:
    version, _, name = task.decode().partition(":")
    return UnknownTask(name, int(version), int(jobs))
