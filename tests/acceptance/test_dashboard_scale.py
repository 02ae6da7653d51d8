"""The dashboard does not grow slow with the jobs that are over: every page costs the same number of looks.

Counts, no times: `python bench eyes` has those. What is bounded is made small here, so that a few hundred jobs are
more than any page looks at.
"""

import math
import time
from collections import Counter
from contextlib import contextmanager

from dashboard_stage import ARGS, SMTP, WORKER, Stage
from standfast.admin.executor import AnswerCache
from standfast.admin.operation import Role, User
from standfast.dashboard import Dashboard
from standfast.model.ids import new_job_id
from standfast.model.job import Ending, NewJob
from standfast.model.states import Move
from standfast.stores.sqlite import engine
from standfast.stores.sqlite.store import SqliteBackend
from standfast.stores.values import ClaimRequest

FEW, MANY = 300, 3_000
DEAD, LEFT = 60, 20
"""Of both as many: what is dead or not over may cost something."""

STEP = 50
"""So many instructions of SQLite's machine are one step of work."""

SPANS = {
    "job_search.SPAN": 100,
    "job_search.REACH": 100,
    "job_search._PAGE": 50,
    "jobs.SPAN": 100,
    "jobs.MOST_COUNTED": 100,
    "bulk_jobs.SPAN": 50,
}

PAGES = (
    "/",
    "/jobs",
    "/jobs?state=completed",
    "/jobs?state=dead",
    "/jobs?task=send_email",
    "/jobs?task=rare",
    "/jobs?queue=rare",
    "/jobs?tag=vip",
    "/jobs?tag=rare",
    "/jobs?key=rare",
    "/jobs?schedule=rare",
    "/jobs?since=1h",
    "/jobs?until=1h",
    "/jobs?error=mailbox",
    "/jobs?error=rare",
    "/jobs?fingerprint=rare",
    "/jobs?text=rare",
    f"/jobs?worker={WORKER}",
    "/jobs?before={deep}",
    "/jobs?before={deep}&task=rare",
    "/jobs/{deep}",
    "/jobs/bulk?action=retry&state=dead",
    "/jobs/bulk?action=retry&task=rare",
    "/jobs/bulk?action=cancel&queue=mail",
    "/dead",
    "/queues",
    "/queues/mail",
    "/schedules",
    "/workers",
    f"/workers/{WORKER}",
    "/tasks",
    "/locks",
    "/incidents",
    "/audit",
    "/settings",
    "/api/v1/jobs/count?task=rare",
    "/api/v1/jobs/export?limit=50",
)


class Watched:
    """The connections that read: which statements they are given, and how many steps those take."""

    def __init__(self, opener):
        self._opener = opener
        self.connections = []
        self.statements = set()
        self.steps = 0

    def open(self, files):
        connection = self._opener(files)
        connection.set_trace_callback(self.statements.add)
        connection.set_progress_handler(self._step, STEP)
        self.connections.append(connection)
        return connection

    def _step(self):
        self.steps += 1

    def plans(self):
        """Return how SQLite goes about each statement."""
        statements, connection = sorted(self.statements), self.connections[0]
        selects = [each for each in statements if each.lstrip(" -\n").upper().startswith(("SELECT", "WITH"))]
        return {
            sql: [row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()] for sql in selects
        }


class Scene(Stage):
    """A store with so many finished jobs, and the pages over it."""

    def __init__(self, folder, finished, watched):
        super().__init__(lambda clock: SqliteBackend(str(folder / "jobs.db"), clock=clock))
        self.watched = watched
        self.register()
        self._claims = 0
        ids = [self._finish(Move.DIE, 1)[0] for _ in range(DEAD)]
        ids += self._finish(Move.COMPLETE, finished - DEAD)
        self.deep = ids[len(ids) // 2]
        self.do(self.verbs.enqueue([self._new() for _ in range(LEFT)]))

    def _new(self):
        return NewJob(new_job_id(), "send_email", ARGS, queue="mail", tags=("vip",))

    def _finish(self, move, count):
        jobs = [self._new() for _ in range(count)]
        self.do(self.verbs.enqueue(jobs))
        self._claims += 1
        claims = self.do(self.verbs.claim(ClaimRequest(WORKER, self._claims, count))).jobs
        failure = SMTP if move is Move.DIE else None
        now = self.clock.now()
        self.do(
            self.verbs.finish(WORKER, [Ending(each.ref, move, started_at=now, failure=failure) for each in claims])
        )
        return [job.id for job in jobs]

    def costs(self, page):
        """Return the calls and the steps of one page, of which nothing is remembered."""
        calls = Counter()
        self.backend.observe(lambda verb, *_: calls.update([verb.name]))
        self.watched.steps = 0
        status, body = self.wait(_asked(Dashboard(self, auth=_somebody), page.format(deep=self.deep)))
        assert status == 200, (page, body[-2000:])
        return calls, self.watched.steps


async def _somebody(_request):
    return User("ada", Role.ADMIN)


async def _asked(dashboard, address):
    path, _, query = address.partition("?")
    asgi = {"version": "3.0", "spec_version": "2.4"}  # nobody is listened for who goes away
    scope = {"type": "http", "asgi": asgi, "http_version": "1.1", "method": "GET", "scheme": "http"}
    scope |= {"path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": ""}
    scope |= {"headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 4242), "server": ("localhost", 80)}
    said = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        said.append(message)

    await dashboard.asgi(scope, receive, send)
    return said[0]["status"], b"".join(each.get("body", b"") for each in said[1:])


@contextmanager
def scene(folder, finished, monkeypatch):
    watched = Watched(engine.open_reader)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "open_reader", watched.open)
        folder.mkdir()
        opened = Scene(folder, finished, watched)
        try:
            yield opened
        finally:
            opened.close()


def test_no_page_costs_more_with_more_finished_jobs(tmp_path, monkeypatch):
    """The same calls, about the same work behind them, and nothing that walks all jobs without an index."""
    for name, value in SPANS.items():
        monkeypatch.setattr(f"standfast.admin.{name}", value)
    monkeypatch.setattr(AnswerCache.__init__, "__defaults__", (math.inf, time.monotonic))  # however slow a page is
    with scene(tmp_path / "few", FEW, monkeypatch) as few:
        before = {page: few.costs(page) for page in PAGES}
    with scene(tmp_path / "many", MANY, monkeypatch) as many:
        after = {page: many.costs(page) for page in PAGES}
        plans = many.watched.plans()

    for page in PAGES:
        (calls, steps), (more_calls, more_steps) = before[page], after[page]
        assert more_calls == calls, page
        assert more_steps <= 1.25 * steps + 20, (page, steps, more_steps)
        assert calls.total() <= 40, (page, calls)
    scans = {sql: plan for sql, plan in plans.items() if {"SCAN standfast_job", "SCAN job"} & set(plan)}
    assert plans
    assert not scans
