"""What Django expects of a backend for its tasks, with a worker at work. Run by Django's own test runner."""

# ruff: noqa: PT009, PT027 - these are tests of Django's kind

import uuid
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from asgiref.sync import async_to_sync
from django.core.exceptions import SuspiciousOperation
from django.db import IntegrityError, connection, transaction
from django.db.transaction import TransactionManagementError
from django.test import SimpleTestCase
from django.utils.safestring import mark_safe
from django_tasks import TaskResultStatus, default_task_backend, task, task_backends
from django_tasks.exceptions import InvalidTaskError, TaskResultDoesNotExist, TaskResultMismatch
from django_tasks.signals import task_enqueued

from djshop import shop_tasks as tasks
from djshop.jobs import app, elsewhere, finds_a_connection, finds_a_connection_in_async_code
from djshop.models import Order, Told
from standfast.errors import JobDeadError
from standfast.hosts.django.task_runner import Call
from standfast.stores.contract import count_states

PATIENCE = 30
LATER = datetime.now(UTC) + timedelta(days=1)


def ended(result):
    """Wait until the job of a result has ended, and return the result as it is then."""
    with suppress(JobDeadError):
        app.handle(result.id).result(timeout=PATIENCE)
    result.refresh()
    return result


def jobs(of=app):
    return sum(of.call(count_states(of.verbs)).values())


def job(result):
    return app.handle(result.id).job()


def unique():
    return uuid.uuid4().hex


class Case(SimpleTestCase):
    databases = "__all__"


class TestResults(Case):
    def test_a_task_runs_and_its_result_tells_all(self):
        for each in (tasks.add, tasks.add_async):
            with self.subTest(each.name):
                result = each.enqueue(1, two=2)
                self.assertEqual(result.status, TaskResultStatus.READY)
                self.assertEqual(result.attempts, 0)
                with self.assertRaisesMessage(ValueError, "Task has not finished yet"):
                    _ = result.return_value
                ended(result)
                self.assertEqual(result.status, TaskResultStatus.SUCCESSFUL)
                self.assertTrue(result.is_finished)
                self.assertEqual(result.return_value, 3)
                self.assertEqual((result.args, result.kwargs), ([1], {"two": 2}))
                self.assertEqual((result.task, result.backend), (each, "default"))
                self.assertLessEqual(result.enqueued_at, result.started_at)
                self.assertLessEqual(result.started_at, result.finished_at)
                self.assertEqual(result.last_attempted_at, result.started_at)
                self.assertEqual((result.attempts, len(result.worker_ids)), (1, 1))
                self.assertEqual(result.errors, [])

    async def test_async_code_enqueues_and_asks(self):
        result = await tasks.add_async.aenqueue(1, two=2)
        await app.handle(result.id).aresult(timeout=PATIENCE)
        await result.arefresh()
        self.assertEqual(result.return_value, 3)
        again = await default_task_backend.aget_result(result.id)
        self.assertEqual(again.return_value, 3)
        self.assertEqual((await tasks.add_async.aget_result(result.id)).id, result.id)

    def test_what_is_looked_up_is_what_was_enqueued(self):
        result = tasks.mail.using(run_after=LATER, priority=-3).enqueue("ada")
        found = default_task_backend.get_result(result.id)
        self.assertEqual(found, result)
        self.assertEqual((found.task.priority, found.task.queue_name), (-3, "mail"))
        self.assertEqual(found.task.run_after, LATER)

    def test_an_exception_is_final_and_kept(self):
        for each, kind in ((tasks.fail, ValueError), (tasks.fail_async, ValueError), (tasks.exit_with, SystemExit)):
            with self.subTest(each.name):
                result = ended(each.enqueue("too bad"))
                self.assertEqual(result.status, TaskResultStatus.FAILED)
                with self.assertRaisesMessage(ValueError, "Task failed"):
                    _ = result.return_value
                [error] = result.errors
                self.assertIs(error.exception_class, kind)
                self.assertTrue(error.traceback.endswith(f"{kind.__name__}: too bad\n"), error.traceback)
                self.assertEqual(result.attempts, 1)
                self.assertIsNotNone(result.finished_at)

    def test_what_cannot_be_returned_is_a_failure(self):
        result = ended(tasks.return_an_object.enqueue())
        self.assertEqual(result.status, TaskResultStatus.FAILED)
        self.assertIs(result.errors[0].exception_class, TypeError)
        self.assertIn("Unsupported type", result.errors[0].traceback)

    def test_with_max_attempts_a_failure_is_tried_again(self):
        result = ended(tasks.succeed_at_last.enqueue())
        self.assertEqual(result.return_value, 2)
        self.assertEqual((result.attempts, len(result.errors)), (2, 1))
        self.assertEqual(
            told(result), [("started", "RUNNING", 0), ("started", "RUNNING", 1), ("finished", "SUCCESSFUL", 1)]
        )

    def test_what_django_takes_for_json_is_stored_in_the_types_of_json(self):
        result = ended(tasks.add.enqueue(mark_safe("a"), two=TaskResultStatus.READY))
        self.assertEqual(result.return_value, "aREADY")

    def test_the_context_is_that_of_the_attempt(self):
        result = ended(tasks.who_am_i.enqueue())
        self.assertEqual(result.return_value, [result.id, 1, "RUNNING"])

    def test_a_cancelled_job_has_failed(self):
        result = tasks.add.using(run_after=LATER).enqueue(1)
        app.handle(result.id).cancel()
        result.refresh()
        self.assertEqual(result.status, TaskResultStatus.FAILED)
        self.assertIn("requested", result.errors[0].traceback)
        self.assertEqual(result.errors[0].exception_class.__name__, "JobCancelledError")

    def test_there_is_no_such_result(self):
        other = finds_a_connection.options(at=LATER).enqueue()
        for result_id in (str(uuid.uuid4()), "123", other.id):
            with self.assertRaises(TaskResultDoesNotExist):
                default_task_backend.get_result(result_id)
            with self.assertRaises(TaskResultDoesNotExist):
                async_to_sync(default_task_backend.aget_result)(result_id)
        with self.assertRaises(TaskResultMismatch):
            tasks.mail.get_result(tasks.add.using(run_after=LATER).enqueue(1).id)

    def test_only_tasks_are_run(self):
        runner = default_task_backend.runners.plain
        for path, error in (
            ("djshop.shop_tasks.no_task", SuspiciousOperation),
            ("djshop.shop_tasks.gone", ImportError),
        ):
            handle = runner.enqueue(Call(path, [], {}, 0, datetime.now(UTC)))
            with self.assertRaisesRegex(JobDeadError, f"{error.__name__}.*{path.rpartition('.')[2]}"):
                handle.result(timeout=PATIENCE)


def told(result):
    said = Told.objects.filter(result_id=result.id).order_by("id")
    return [(each.what, each.status, each.errors) for each in said]


class TestSignals(Case):
    def test_each_step_is_told(self):
        heard = []

        def hear(sender, task_result, **_):
            heard.append((sender, task_result.id))

        task_enqueued.connect(hear)
        self.addCleanup(task_enqueued.disconnect, hear)
        good, bad, bad_async = tasks.add.enqueue(1), tasks.fail.enqueue("no"), tasks.fail_async.enqueue("no")
        sender = type(task_backends["default"])
        self.assertEqual(heard, [(sender, good.id), (sender, bad.id), (sender, bad_async.id)])
        self.assertEqual(told(ended(good)), [("started", "RUNNING", 0), ("finished", "SUCCESSFUL", 0)])
        for each in (bad, bad_async):
            self.assertEqual(told(ended(each)), [("started", "RUNNING", 0), ("finished", "FAILED", 1)])


class TestTimesAndQueues(Case):
    def test_what_is_for_later_waits(self):
        result = tasks.mail.using(run_after=LATER).enqueue("ada")
        stored = job(result)
        self.assertEqual((stored.queue, stored.priority, stored.state), ("mail", 7, "scheduled"))
        self.assertEqual(stored.run_at, LATER)
        self.assertEqual(stored.tags, ("djshop.shop_tasks.mail",))

    def test_what_was_for_earlier_runs(self):
        result = ended(tasks.mail.using(run_after=LATER - timedelta(days=2)).enqueue("ada"))
        self.assertEqual(result.return_value, "ada")

    def test_the_extremes_of_priority(self):
        for priority in (-100, 100):
            result = tasks.mail.using(priority=priority, run_after=LATER).enqueue("ada")
            self.assertEqual(job(result).priority, priority)


class TestRefusals(Case):
    def test_tasks_that_cannot_be_run_are_refused(self):
        def nested():
            pass

        with self.assertRaises(InvalidTaskError):
            task(nested)
        for wrong in (
            {"queue_name": "unknown"},
            {"priority": 101},
            {"priority": 1.5},
            {"run_after": datetime(2030, 1, 1)},  # noqa: DTZ001 - that is what is wrong with it
            {"queue_name": "no queue\n", "backend": "tried"},
        ):
            with self.subTest(**wrong), self.assertRaises(InvalidTaskError):
                tasks.add.using(**wrong)

    def test_arguments_that_are_no_json_are_refused_at_once(self):
        before = jobs(), jobs(elsewhere)
        for each in (tasks.add, tasks.add_elsewhere):
            with transaction.atomic(), self.assertRaisesMessage(TypeError, "Unsupported type"):
                each.enqueue(object(), 1)
        self.assertEqual((jobs(), jobs(elsewhere)), before)


class TestViews(Case):
    def test_views_enqueue_and_look(self):
        for enqueue in ("/enqueue", "/aenqueue"):
            for look in ("/look", "/alook"):
                with self.subTest(enqueue, look=look):
                    said = self.client.get(enqueue).json()
                    self.assertEqual(said["status"], "READY")
                    ended(default_task_backend.get_result(said["id"]))
                    self.assertEqual(self.client.get(f"{look}/{said['id']}").json()["status"], "SUCCESSFUL")

    async def test_async_clients_too(self):
        said = (await self.async_client.get("/aenqueue")).json()
        self.assertEqual(await app.handle(said["id"]).aresult(timeout=PATIENCE), 42)
        self.assertEqual((await self.async_client.get(f"/alook/{said['id']}")).json()["status"], "SUCCESSFUL")

    def test_a_view_that_rolls_back_leaves_no_job(self):
        name, before = unique(), jobs()
        said = self.client.get(f"/order/{name}/rolled-back").json()
        with self.assertRaises(TaskResultDoesNotExist):
            default_task_backend.get_result(said["id"])
        self.assertEqual((jobs(), Order.objects.filter(name=name).count()), (before, 0))
        said = self.client.get(f"/order/{name}/committed").json()
        self.assertEqual(ended(default_task_backend.get_result(said["id"])).return_value, 1)
        self.assertTrue(Order.objects.filter(name=name).exists())


class TestTransactions(Case):
    def test_a_job_is_part_of_the_transaction(self):
        with transaction.atomic():
            result = tasks.add.enqueue(1)
            self.assertIsNotNone(result.enqueued_at)
            self.assertEqual(default_task_backend.get_result(result.id), result)
            self.assertIsNone(app.call(app.verbs.get(result.id)))
        self.assertEqual(ended(result).return_value, 1)

    def test_a_savepoint_takes_its_jobs_along(self):
        with transaction.atomic():
            kept = tasks.add.enqueue(1)
            with self.assertRaises(ZeroDivisionError), transaction.atomic():
                gone = tasks.add.enqueue(2)
                1 / 0  # noqa: B018 - that is what it is for
        self.assertEqual(ended(kept).return_value, 1)
        self.assertIsNone(app.call(app.verbs.get(gone.id)))

    def test_async_enqueues_are_part_of_it(self):
        with transaction.atomic():
            result = async_to_sync(tasks.add.aenqueue)(1)
            transaction.set_rollback(True)
        self.assertIsNone(app.call(app.verbs.get(result.id)))

    def test_a_broken_transaction_takes_no_jobs(self):
        name, before = unique(), jobs()
        Order.objects.create(name=name)
        with transaction.atomic():
            with self.assertRaises(IntegrityError), transaction.atomic(savepoint=False):
                Order.objects.create(name=name)
            with self.assertRaises(TransactionManagementError):
                tasks.add.enqueue(1)
            transaction.set_rollback(True)
        self.assertEqual(jobs(), before)

    def test_tx_takes_the_connection_of_django(self):
        with transaction.atomic():
            handle = finds_a_connection.options(tx=connection, at=LATER).enqueue()
            self.assertIsNone(app.call(app.verbs.get(handle.id)))
        self.assertEqual(handle.status(), "scheduled")

    def test_another_store_waits_for_the_commit(self):
        before = jobs(elsewhere)
        with transaction.atomic():
            result = tasks.add_elsewhere.enqueue(1, 2)
            self.assertEqual((result.enqueued_at, jobs(elsewhere)), (None, before))
            with self.assertRaises(TaskResultDoesNotExist):
                tasks.add_elsewhere.get_result(result.id)
        self.assertEqual(tasks.add_elsewhere.get_result(result.id), result)
        self.assertIsNotNone(result.enqueued_at)
        with transaction.atomic():
            gone = tasks.add_elsewhere.enqueue(1, 2)
            transaction.set_rollback(True)
        with self.assertRaises(TaskResultDoesNotExist):
            tasks.add_elsewhere.get_result(gone.id)
        self.assertEqual(jobs(elsewhere), before + 1)

    def test_another_store_need_not_wait(self):
        with transaction.atomic():
            result = tasks.add_at_once.enqueue(1, 2)
            transaction.set_rollback(True)
        self.assertEqual(tasks.add_at_once.get_result(result.id).status, TaskResultStatus.READY)

    def test_without_autocommit_a_job_is_part_of_the_transaction(self):
        """Django begins none by itself then, and its first write would be that of the job."""
        transaction.set_autocommit(False)
        try:
            taken_back = tasks.add.enqueue(1)
            transaction.rollback()
            kept = tasks.add.enqueue(2)
            self.assertIsNone(app.call(app.verbs.get(kept.id)))
            self.assertEqual(tasks.add.get_result(kept.id).id, kept.id)
            transaction.commit()
        finally:
            transaction.set_autocommit(True)
        found = [app.call(app.verbs.get(each.id)) is not None for each in (taken_back, kept)]
        self.assertEqual(found, [False, True])

    def test_without_autocommit_a_job_elsewhere_is_there_at_once(self):
        transaction.set_autocommit(False)
        try:
            result = task_backends["elsewhere"].enqueue(tasks.add.using(backend="elsewhere"), [1], {})
            self.assertIsNotNone(elsewhere.call(elsewhere.verbs.get(result.id)))
            transaction.rollback()
        finally:
            transaction.set_autocommit(True)


class TestConnections(Case):
    def test_jobs_use_the_database_and_leave_no_connection_open(self):
        for each in (tasks.store_order, tasks.store_order_async):
            name = unique()
            self.assertEqual(ended(each.enqueue(name)).return_value, name)
            self.assertTrue(Order.objects.filter(name=name).exists())
        for each in (finds_a_connection, finds_a_connection_in_async_code):
            handles = [each.enqueue() for _ in range(4)]
            self.assertEqual([handle.result(timeout=PATIENCE) for handle in handles], [False] * 4)
