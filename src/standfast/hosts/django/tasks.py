"""The backend for Django's TASKS: its tasks become jobs, in the transaction of the caller where that can be."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from inspect import iscoroutinefunction
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from django.apps import apps  # type: ignore[import-untyped]
from django.core.checks import CheckMessage, Error  # type: ignore[import-untyped]
from django.core.checks import Warning as Doubt
from django.db import DEFAULT_DB_ALIAS, connections, transaction  # type: ignore[import-untyped]
from django.utils import timezone  # type: ignore[import-untyped]

from standfast.app import Standfast
from standfast.errors import ConfigurationError
from standfast.hosts.django.configuration import app_of, configured
from standfast.hosts.django.task_runner import (
    BaseTaskBackend,
    Call,
    InvalidTask,
    Runners,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    change,
    plain,
    result_of,
    runners_of,
    task_enqueued,
)
from standfast.model.ids import new_job_id
from standfast.model.job import Attempt, Job
from standfast.model.policy import PolicyOptions, declare_policy
from standfast.model.suggestions import refuse_unknown
from standfast.model.validation import id_problems, queue_problems

_KNOWN: WeakKeyDictionary[Standfast, dict[tuple[str, str], bool]] = WeakKeyDictionary()
_LOOKING = Lock()


def in_transaction(connection: Any) -> bool:
    """Tell whether what is written through a connection waits for a commit.

    It does in an atomic block, and with autocommit off. A connection that nobody has used is not opened to see.
    """
    unused = connection.connection is None
    commits = connection.settings_dict["AUTOCOMMIT"] if unused else connection.autocommit
    return bool(connection.in_atomic_block or not commits)


def begun(connection: Any) -> Any:
    """Return a connection whose transaction is open: SQLite's begins only with a write where autocommit is off."""
    connection.ensure_connection()
    if connection.vendor == "sqlite" and not connection.connection.in_transaction:
        connection._start_transaction_under_autocommit()  # noqa: SLF001 - in the mode that the settings say
    return connection


def can_join(app: Standfast, connection: Any) -> bool:
    """Tell whether jobs of this app can be part of the transaction that is open on a connection of Django's.

    It is found out by trying, once for each database. Raises TransactionManagementError where a query has failed in
    the atomic block, which Django will roll back.
    """
    connection.validate_no_broken_transaction()
    place = (connection.alias, str(connection.settings_dict["NAME"]))
    with _LOOKING:
        known = _KNOWN.setdefault(app, {})
    if place not in known:
        known[place] = _is_home(app, connection)
    return known[place]


def _is_home(app: Standfast, connection: Any) -> bool:
    """Look around through the connection, and change nothing."""
    if connection.vendor == "sqlite":
        app.prepare()  # its tables cannot be made inside a transaction
    try:
        app.call(app.verbs.glance(()), connection)
    except ConfigurationError:
        return False
    return True


_OWN = ("app", "database")
_POLICY = PolicyOptions.__annotations__.keys() - {"queue", "priority", "version", "tags"}
"""Options of `app.task` that a backend may have; the others are said by Django's tasks."""


class _NeverRaised(Exception):  # noqa: N818 - it is no error
    """The only thing that is tried again where no attempts are promised: so what a task raises is final."""


class StandfastBackend(BaseTaskBackend):  # type: ignore[misc]
    """Enqueues Django's tasks as jobs, and tells what became of them.

    OPTIONS may have `app`, the MODULE:APP, else it is that of STANDFAST; `database`, the alias of the database
    whose transactions count, else "default"; and options of `app.task`, such as `timeout`. An exception is
    final unless there are `max_attempts`; a job whose worker died is run again in any case.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        self.enqueue_on_commit = bool(params.get("ENQUEUE_ON_COMMIT", True))

    @cached_property
    def app(self) -> Standfast:
        """The app whose jobs these are, imported at the first use. Raises ConfigurationError."""
        return app_of(self.options.get("app") or configured().target)

    @cached_property
    def runners(self) -> Runners:
        """The tasks of the app that run those of this backend."""
        return runners_of(self.app, self.alias, **self._policy())

    def declare(self) -> None:
        """Let the app know the tasks that run those of this backend, which a worker has to before it claims."""
        _ = self.runners

    def validate_task(self, task: Any) -> None:
        """Refuse what cannot be run here. Raises InvalidTask."""
        super().validate_task(task)
        for problem in queue_problems(task.queue_name):
            raise InvalidTask(problem)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Enqueue a task, and return its TaskResult.

        In an atomic block on the jobs' own database, or there with autocommit off, the job is part of the
        transaction. Of an atomic block on any other it is enqueued after the commit, or at once where
        ENQUEUE_ON_COMMIT is False.
        """
        self.validate_task(task)
        result = TaskResult(
            task=task,
            id=new_job_id(),
            status=TaskResultStatus.READY,
            enqueued_at=None,
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        connection = connections[self._database]
        if not in_transaction(connection):
            self._store(result)
        elif can_join(self.app, begun(connection)):
            self._store(result, connection)
        elif self.enqueue_on_commit and connection.in_atomic_block:  # else Django tells nobody of a commit
            self._bound(result).request((self._call(result),), {})  # what cannot be stored is refused now
            transaction.on_commit(partial(self._store, result), using=self._database)
        else:
            self._store(result)
        return result

    async def aenqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Do the same in a thread. A cancellation of the await does not stop the thread."""
        try:
            return await super().aenqueue(task, args, kwargs)
        except asyncio.CancelledError as error:
            error.add_note(f"{task.module_path} may be enqueued: its thread went on")
            raise

    def get_result(self, result_id: str) -> Any:
        """Return the TaskResult of this id, as it is now. Raises TaskResultDoesNotExist."""
        found = None if list(id_problems(result_id)) else self._find(result_id)
        runner = None if found is None else self.runners.named(found[0].task)
        if found is None or runner is None:
            raise TaskResultDoesNotExist(result_id)
        job, history = found
        return result_of(job, runner.arguments.decode(job.payload)["call"], self.alias, history)

    def check(self, **kwargs: Any) -> Iterator[CheckMessage]:
        """Yield what is wrong with the settings of this backend."""
        yield from super().check(**kwargs)
        try:
            refuse_unknown(f"TASKS[{self.alias!r}]['OPTIONS']", self.options, (*_OWN, *sorted(_POLICY)))
            declare_policy(**self._policy())
            if "app" in self.options:  # that of STANDFAST has a check of its own
                _ = self.app
        except ConfigurationError as error:
            yield Error(str(error), hint="see the how-to about Django", id="standfast.E007")
        if not apps.is_installed("standfast.hosts.django"):
            says = (
                "'standfast.hosts.django' is not in INSTALLED_APPS: tasks are enqueued, and nothing here runs them"
            )
            yield Doubt(says, hint="add it there", id="standfast.W002")

    @property
    def _database(self) -> str:
        return str(self.options.get("database", DEFAULT_DB_ALIAS))

    def _policy(self) -> dict[str, Any]:
        said = {name: value for name, value in self.options.items() if name not in _OWN}
        return said if {"max_attempts", "retry_on"} & said.keys() else {**said, "retry_on": (_NeverRaised,)}

    def _call(self, result: Any) -> Call:
        task = result.task
        return Call(
            task.module_path,
            plain(result.args),
            plain(result.kwargs),
            task.priority,
            timezone.now(),
            _aware(task.run_after),
        )

    def _bound(self, result: Any, tx: Any = None) -> Any:
        task = result.task
        return self.runners.of(is_async=iscoroutinefunction(task.func)).options(
            queue=task.queue_name,
            priority=task.priority,
            at=_aware(task.run_after),
            job_id=result.id,
            tags=(task.module_path[-100:],),
            tx=tx,
        )

    def _store(self, result: Any, tx: Any = None) -> None:
        call = self._call(result)
        self._bound(result, tx).enqueue(call)
        change(result, enqueued_at=call.enqueued_at)
        task_enqueued.send(type(self), task_result=result)

    def _find(self, job_id: str) -> tuple[Job, Sequence[Attempt]] | None:
        """Return a job and its history; also one that only the open transaction knows of."""
        connection = connections[self._database]
        found = self._read(job_id)
        if found is None and in_transaction(connection) and can_join(self.app, begun(connection)):
            return self._read(job_id, connection)
        return found

    def _read(self, job_id: str, tx: Any = None) -> tuple[Job, Sequence[Attempt]] | None:
        app = self.app
        job = app.call(app.verbs.get(job_id), tx)
        if job is None:
            return None
        history = app.call(app.verbs.history(job_id), tx)
        return job, history


def _aware(moment: Any) -> Any:
    """Return a time with a zone; without USE_TZ, Django's times have none and are local."""
    return timezone.make_aware(moment) if moment is not None and timezone.is_naive(moment) else moment
