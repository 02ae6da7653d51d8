"""The dashboard of a small app on SQLite: a server and a worker as processes of their own, and who may look."""

import re
from contextlib import closing, contextmanager
from datetime import timedelta

from shopfloor import STANDFAST, Shop, Worker, environment, eventually

from dashboard_alerts import alert, publish_watching, put, tell
from dashboard_stage import Stage
from standfast.admin.operation import Role
from standfast.dashboard.access.users import add_user
from standfast.model.alerts import AlertState, Severity
from standfast.model.job import JobAction
from standfast.model.states import State
from standfast.observe.alerts.board_changes import add_silence
from standfast.stores.contract import change_job
from standfast.stores.sqlite.store import SqliteBackend
from standfast.stores.values import JobFilter

PASSWORD = "correct horse battery"
SECRET = "hunter2-hunter2"
PLACE = re.compile(r"The dashboard is at (http://\S+)/$", re.MULTILINE)
LINK = re.compile(r"http://\S+/sign-in\?once=\S+")


class Premises(Shop):
    """A shop with a dashboard."""

    def __init__(self, folder):
        super().__init__(folder, "browser_app.py")
        self._users = folder / "users"
        for role in (Role.ADMIN, Role.VIEWER):
            add_user(self._users, role.name.lower(), role, PASSWORD)

    def __enter__(self):
        try:
            self._open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _open(self):
        self.guard = self.tasks.guard_stock.enqueue()
        self.reading = self.tasks.read_book.options(tags=["slow"], key="atlas").enqueue("atlas", pages=10)
        served = self._serve("dashboard.log", "--users", str(self._users))
        self.worker()
        self.base = _said(served, PLACE)[1]
        self.become(self.reading, State.RUNNING)
        self.become(self.guard, State.RUNNING)
        self._watch()

    def link(self):
        """Return the link of another dashboard of the same store, for who can read what it prints."""
        return _said(self._serve("linked.log"), LINK)[0]

    def _serve(self, log, *words):
        command = [STANDFAST, "dashboard", "shop:app", "--app-dir", str(self.folder), "--port", "0"]
        self.workers.append(Worker([*command, *words], self.folder / log, environment()))
        return self.workers[-1]

    def dead_mail(self, to="nowhere"):
        """Return a mail that failed for good."""
        mail = self.tasks.send_mail.enqueue(to, password=SECRET)
        self.become(mail, State.DEAD)
        return mail

    def discard_dead(self):
        """Give up all dead jobs: nothing then deserves attention."""
        for job in self.jobs(states=(State.DEAD,)):
            self.app.call(change_job(self.app.verbs, JobAction.DISCARD, job.id))

    def alert(self, *fires):
        """Let these subjects fire, beside one that is pending and one that is silenced. Nobody else watches."""
        with self._stage() as stage:
            waits = alert(stage, "a2", subject="soon", severity=Severity.CRITICAL, state=AlertState.PENDING)
            others = (alert(stage, each, subject=each) for each in ("silent", *fires))
            put(stage, waits, *others)

    def _watch(self):
        with self._stage() as stage:
            publish_watching(stage, objectives=())
            tell(stage, 30)
            stage.do(add_silence(stage.verbs, None, "silent", timedelta(hours=9), why="moving"))
        self.alert()

    @contextmanager
    def _stage(self):
        with closing(SqliteBackend(self.folder / "jobs.db")) as backend:
            stage = Stage(lambda _clock: backend)
            try:
                yield stage
            finally:
                stage._runner.close()

    def jobs(self, **wanted):
        return self.app.call(self.app.verbs.list_jobs(JobFilter(limit=1000, **wanted))).jobs

    def all_paths(self):
        """Return a path of every page, by its name."""
        dead = self.dead_mail()
        worker = self.app.call(self.app.verbs.workers())[0].info.id
        return {
            "overview": "/",
            "jobs": "/jobs?limit=10",
            "jobs filtered": "/jobs?state=dead&task=send_mail&since=1d",
            "no jobs": "/jobs?task=nobody",
            "job dead": f"/jobs/{dead.id}",
            "job running": f"/jobs/{self.reading.id}",
            "bulk": "/jobs/bulk?action=retry&state=dead",
            "dead": "/dead",
            "queues": "/queues",
            "queue": "/queues/mail",
            "schedules": "/schedules",
            "schedule": "/schedules/nightly",
            "workers": "/workers",
            "worker": f"/workers/{worker}",
            "tasks": "/tasks",
            "task": "/tasks/send_mail",
            "locks": "/locks",
            "alerts": "/alerts",
            "rules": "/alerts/rules",
            "objectives": "/objectives",
            "incidents": "/incidents",
            "audit": "/audit",
            "settings": "/settings",
        }


def _said(served, pattern):
    """Wait for what a dashboard says when it can be reached."""
    found = eventually(lambda: pattern.search(served.words) or served.process.poll() is not None, "a dashboard")
    assert found is not True, served.words
    return found
