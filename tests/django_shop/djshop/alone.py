"""What needs no worker: settings and their checks, the command, connections. Run by Django's own test runner."""

# ruff: noqa: PT009, PT027 - these are tests of Django's kind

import asyncio
import json
import os
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from django.core.management import call_command
from django.db import connection, transaction
from django.test import RequestFactory, SimpleTestCase, modify_settings, override_settings
from django_tasks import task_backends

from djshop import shop_tasks as tasks
from djshop.jobs import app, elsewhere, finds_a_connection, finds_a_connection_in_async_code
from standfast import ConfigurationError
from standfast.hosts.django import embedded
from standfast.hosts.django.apps import StandfastConfig
from standfast.hosts.django.configuration import TARGET, app_of, check_settings, configured
from standfast.hosts.django.health import health_urls
from standfast.hosts.django.management.commands.standfast import filled_in, project_folder
from standfast.hosts.django.tasks import StandfastBackend
from standfast.hosts.host import Host
from standfast.hosts.lifespan import enter_lifespans, leave_lifespans


def transactions_that_are(mode):
    """Let the database begin its transactions so, as far as the checks can tell."""
    return mock.patch.dict(connection.settings_dict, {"OPTIONS": {"transaction_mode": mode}})


class TestSettings(SimpleTestCase):
    def test_those_of_the_project_are_right(self):
        with transactions_that_are("IMMEDIATE"):
            self.assertEqual(check_settings(), [])
        self.assertEqual(configured().target, "djshop.jobs:app")
        self.assertIs(app_of("djshop.jobs:app"), app)
        self.assertEqual(StandfastConfig.label, "standfast")

    def test_the_app_is_called_as_its_own_worker_calls_it(self):
        """Else projects that share a store would retire the schedules of each other: they all load one target."""
        self.assertEqual(app_of("djshop.jobs:app").settings.name, "djshop.jobs:app")

    def test_each_mistake_is_told_with_a_remedy(self):
        good = {"APP": "djshop.jobs:app"}
        for said, number, says, remedy in (
            (None, "E001", "STANDFAST is not set", '"APP"'),
            ("djshop.jobs:app", "E001", "must be a dict", "STANDFAST = {"),
            ({**good, "app": "x"}, "E002", "no key 'app'", "did you mean 'APP'?"),
            ({**good, "EMBEDED": True}, "E002", "no key 'EMBEDED'", "did you mean 'EMBEDDED'?"),
            ({}, "E003", "must be 'MODULE:APP', not None", "shop.jobs:app"),
            ({"APP": "djshop.jobs"}, "E003", "not 'djshop.jobs'", "shop.jobs:app"),
            ({"APP": "djshop.gone:app"}, "E004", "'djshop.gone': no folder of sys.path", "MODULE:APP"),
            ({"APP": "djshop.jobs:finds_a_connection"}, "E004", "no app named", "MODULE:APP"),
            ({**good, "EMBEDDED": "yes"}, "E005", "must be True or False, not 'yes'", "requests"),
            ({**good, "OPTIONS": 4}, "E006", "must be a dict, not 4", "concurrency"),
            ({**good, "OPTIONS": {"queues": "mail=x"}}, "E006", "the weight of 'mail'", "OPTIONS"),
        ):
            with self.subTest(said), override_settings(STANDFAST=said), transactions_that_are("IMMEDIATE"):
                [found] = check_settings()
                self.assertEqual(found.id, f"standfast.{number}")
                self.assertIn(says, found.msg)
                self.assertIn(remedy.strip(), found.hint)
                if number != "E004" and says != "the weight of 'mail'":
                    with self.assertRaises(ConfigurationError):
                        configured()

    def test_transactions_that_a_job_would_break_are_told(self):
        """On SQLite, in the file of the jobs: half of the requests failed so under two processes of a server."""
        for mode, told in ((None, ["standfast.W001"]), ("DEFERRED", ["standfast.W001"]), ("EXCLUSIVE", [])):
            with self.subTest(mode), transactions_that_are(mode):
                self.assertEqual([found.id for found in check_settings()], told)

    def test_an_app_that_is_not_installed_is_told(self):
        """The tasks would be enqueued, and nobody would run them."""
        with modify_settings(INSTALLED_APPS={"remove": ["standfast.hosts.django"]}):
            [found] = task_backends["default"].check()
        self.assertEqual(found.id, "standfast.W002")

    def test_the_options_of_a_backend_are_checked(self):
        for options, says in (
            ({"aps": "djshop.jobs:app"}, "no option 'aps'; did you mean app?"),
            ({"max_retries": 3}, "did you mean max_attempts?"),
            ({"queue": "mail"}, "no option 'queue'"),
            ({"timeout": -1}, "timeout must be"),
            ({"app": "djshop.gone:app"}, "there is no module 'djshop.gone'"),
        ):
            with self.subTest(options):
                [found] = StandfastBackend("default", {"OPTIONS": options}).check()
                self.assertEqual(found.id, "standfast.E007")
                self.assertIn(says, found.msg)
        for alias in ("default", "tried", "elsewhere", "at_once"):
            self.assertEqual(list(task_backends[alias].check()), [])

    def test_a_task_needs_no_app_to_be_declared(self):
        with mock.patch.dict(sys.modules, {"djshop.jobs": None}):
            StandfastBackend("default", {}).validate_task(tasks.add)


class TestCommand(SimpleTestCase):
    databases = "__all__"

    def test_the_app_is_filled_in(self):
        folder = str(Path(__file__).parents[1])
        self.assertEqual(project_folder(), folder)
        filled = [TARGET, "--app-dir", folder]
        self.assertEqual(filled_in(["worker", "--drain"]), ["worker", *filled, "--drain"])
        self.assertEqual(filled_in(["--debug", "up"]), ["--debug", "up", *filled])
        self.assertEqual(filled_in(["schedules", "--debug", "sync"]), ["schedules", "--debug", "sync", *filled])
        self.assertEqual(filled_in(["jobs", "files", "ID"]), ["jobs", "files", "ID"])
        self.assertEqual(filled_in(["--help"]), ["--help"])
        self.assertEqual(filled_in([]), [])

    def test_a_service_has_the_app_and_the_settings(self):
        """It has none of this shell's variables."""
        printed = StringIO()
        with redirect_stdout(printed), self.assertRaises(SystemExit) as ended:
            call_command("standfast", "service", "install", "--print", "--", "--processes", "2")
        self.assertEqual(ended.exception.code, 0)
        unit = printed.getvalue().splitlines()
        self.assertIn(f"up {TARGET} --processes 2", next(line for line in unit if line.startswith("ExecStart=")))
        self.assertIn('Environment="DJANGO_SETTINGS_MODULE=djshop.settings"', unit)
        self.assertIn(f"WorkingDirectory={project_folder()}", unit)

    def test_the_store_is_filled_in(self):
        with mock.patch.dict(os.environ):
            os.environ.pop("STANDFAST_URL", None)
            with self.assertRaises(SystemExit) as ended:
                call_command("standfast", "jobs", "list", "--json")
            self.assertEqual((ended.exception.code, os.environ["STANDFAST_URL"]), (0, app.settings.url))

    def test_the_folder_of_the_settings_is_found(self):
        with TemporaryDirectory() as folder, mock.patch.object(sys, "path", [folder, *sys.path]):
            root = Path(folder)
            for name in ("plainly", "deep/er/base", "whole/settings/__init__"):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / f"{name}.py").touch()
            for module in ("plainly", "deep.er.base", "whole.settings"):
                with self.subTest(module), mock.patch.dict(os.environ, DJANGO_SETTINGS_MODULE=module):
                    self.assertEqual(project_folder(), folder)


class TestHealth(SimpleTestCase):
    databases = "__all__"

    def told(self, look, token="of-a-test-and-long-enough", method="GET"):
        [url] = health_urls(token="of-a-test-and-long-enough")
        request = RequestFactory().generic(method, f"/ops/{look}", HTTP_AUTHORIZATION=f"Bearer {token}")
        return url.resolve(look).func(request, look=look)

    def test_it_is_told_to_who_may_ask(self):
        self.assertEqual((self.told("livez").status_code, self.told("livez").content), (200, b'{"status":"ok"}'))
        self.assertEqual(self.told("livez")["Cache-Control"], "no-store")
        self.assertEqual(self.told("livez", token="guessed-and-long-enough").status_code, 401)
        self.assertEqual(self.told("livez", method="POST").status_code, 405)
        self.assertEqual(self.told("else/where").status_code, 404)

    def test_it_is_about_the_worker_inside_this_process_if_there_is_to_be_one(self):
        for started, checks in (([], ["store", "workers"]), ([Host(app)], ["store", "worker"])):
            with self.subTest(started), mock.patch.object(embedded, "_started", started):
                answer = self.told("readyz")
                self.assertEqual(answer.status_code, 503)
                self.assertEqual([each["check"] for each in json.loads(answer.content)["checks"]], checks)


class TestTransactions(SimpleTestCase):
    databases = "__all__"

    def test_tx_needs_a_transaction(self):
        with self.assertRaisesRegex(ConfigurationError, "no transaction is open"):
            finds_a_connection.options(tx=connection).enqueue()

    def test_tx_is_refused_where_it_leads_elsewhere(self):
        task = elsewhere.task(lambda: None, name="nothing")
        with transaction.atomic(), self.assertRaisesRegex(ConfigurationError, r"leads to .*shop\.db"):
            task.options(tx=connection).enqueue()

    def test_tx_is_refused_where_django_will_roll_back(self):
        with transaction.atomic():
            transaction.set_rollback(True)
            with self.assertRaisesRegex(ConfigurationError, "Django will roll back"):
                finds_a_connection.options(tx=connection).enqueue()

    def test_a_handler_cannot_commit_through_django(self):
        with self.assertRaisesRegex(ConfigurationError, "a connection of its own"):
            app.backend.join(connection).begin()
        self.assertFalse(connection.in_atomic_block)
        with transaction.atomic():
            self.assertEqual(tasks.Order.objects.count(), 0)


class TestConnections(SimpleTestCase):
    databases = "__all__"

    async def test_they_are_looked_after_while_a_worker_runs(self):
        bare = [finds_a_connection.fn, finds_a_connection_in_async_code.fn]
        entered = await enter_lifespans(app)
        self.assertEqual([await finds_a_connection_in_async_code() for _ in range(2)], [False] * 2)
        self.assertEqual([await asyncio.to_thread(finds_a_connection) for _ in range(2)], [False] * 2)
        await leave_lifespans(entered)
        self.assertEqual([finds_a_connection.fn, finds_a_connection_in_async_code.fn], bare)
        self.assertEqual([await finds_a_connection_in_async_code() for _ in range(2)], [False, True])
