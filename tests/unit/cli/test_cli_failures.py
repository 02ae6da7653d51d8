"""What goes wrong is one line on stderr with a meaningful exit code, and nothing is written."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import click
import pytest
from cli_world import World, answer, assert_refused, bare, leaf_commands

from standfast.cli import bulk, connection
from standfast.errors import SchemaError, StoreFullError, StoreUnavailableError

NEEDED = {
    ("jobs", "signal"): ("some-id", "approved"),
    ("jobs", "reschedule"): ("some-id", "--in", "1h"),
    ("schedules", "create"): ("some-id", "send_email", "--every", "1h"),
    ("schedules", "edit"): ("some-id", "--every", "1h"),
    ("schedules", "backfill"): ("some-id", "--since", "1h"),
    ("alerts", "silence"): ("some-id", "--for", "1h"),
    ("alerts", "set"): ("some-id", "--off"),
    ("alerts", "add"): ("some-id", "--check", "queue_age", "--above", "1m"),
    ("incidents", "export"): ("some-id", "--to", "some.zip"),
    ("report",): (),
}
"""What commands need that need more than an id."""

DATA_COMMANDS = [
    (
        *path,
        *NEEDED.get(path, ("some-id",) if any(isinstance(each, click.Argument) for each in command.params) else ()),
    )
    for path, command in leaf_commands()
    # Those of an app, those that make stores, and those that go on without one have tests of their own.
    if path not in {("bench", "game"), ("schedules", "sync"), ("alerts", "test"), ("restore",)}
    and path[0] not in {"up", "worker", "dashboard", "check", "doctor", "migrate", "health", "keepalive", "service"}
]


class TestWhichStore:
    @pytest.mark.parametrize("command", DATA_COMMANDS, ids=" ".join)
    def test_a_missing_database_is_an_error_and_stays_missing(self, tmp_path, command):
        result = bare(*command, "--url", "sqlite:///typo.db")
        assert_refused(result, 3, f"there is no database {tmp_path}/typo.db")
        assert "--url" in result.stderr
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("option", ["--url", "--namespace"])
    @pytest.mark.parametrize("command", [*DATA_COMMANDS, ("migrate",), ("doctor",), ("check",)], ids=" ".join)
    def test_an_empty_option_is_not_left_out(self, tmp_path, command, option):
        """It is a variable in quotes that is not set: taking the default would mean another store."""
        assert_refused(bare(*command, option, ""), 2, f"{option} is empty: give a value, or leave the option out")
        assert list(tmp_path.iterdir()) == []

    def test_without_a_url_it_is_the_default_file_here(self, tmp_path):
        assert_refused(bare("stats"), 3, f"{tmp_path}/standfast.db")

    def test_the_environment_names_the_store(self, world):
        world.enqueue()
        assert len(answer(bare("jobs", "list", "--json", env={"STANDFAST_URL": world.url}))) == 1

    def test_the_command_line_goes_before_the_environment(self, world):
        result = bare("jobs", "list", "--json", "--url", world.url, env={"STANDFAST_URL": "sqlite:///other.db"})
        assert answer(result) == []

    @pytest.mark.parametrize(
        ("url", "words"),
        [
            ("jobs.db", "no scheme"),
            ("sqlite://jobs.db", "three slashes"),
            ("sqlite:///", "names no file"),
            ("mysql://u:secret@h/d", "no store has the URL scheme"),
            ("memory://", "inside one process"),
            (
                "postgressql://u:secret@h/d",
                "no store has the URL scheme 'postgressql'; did you mean postgresql://?",
            ),
            ("postgresql+psycopg://u:secret@h/d", "did you mean postgresql://?"),
            ("reddis://:secret@h", "did you mean redis://?"),
            ("mysql://u:secret@h/d", "write e.g. sqlite:///jobs.db, postgresql://"),
        ],
    )
    def test_a_url_that_means_no_store_is_refused(self, tmp_path, url, words):
        result = bare("jobs", "list", "--url", url)
        assert_refused(result, 2, words)
        assert "secret" not in result.stderr
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("command", DATA_COMMANDS, ids=" ".join)
    def test_a_database_of_something_else_is_refused_and_left_as_it_is(self, tmp_path, command):
        with closing(sqlite3.connect("shop.db")) as connection:
            connection.execute("CREATE TABLE orders (id)")
        before = Path("shop.db").read_bytes()
        assert_refused(bare(*command, "--url", "sqlite:///shop.db"), 3, "holds no jobs of Standfast;")
        assert Path("shop.db").read_bytes() == before
        assert list(tmp_path.iterdir()) == [tmp_path / "shop.db"]

    def test_an_unknown_namespace_is_refused_and_not_made(self, world, standfast):
        assert_refused(
            standfast("stats", "--namespace", "typo"), 3, "holds no jobs of Standfast in namespace 'typo'"
        )
        with closing(sqlite3.connect(world.path)) as connection:
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
        assert not [name for name in tables if "typo" in name]

    def test_what_is_no_database_is_refused_and_left_as_it_is(self):
        Path("notes.txt").write_text("hello")
        assert_refused(bare("stats", "--url", "sqlite:///notes.txt"), 3, "is no sound SQLite database")
        assert Path("notes.txt").read_text() == "hello"

    def test_a_namespace_is_a_store_of_its_own(self, world, standfast):
        world.enqueue()
        World(world.path, namespace="tenant").close()
        assert answer(standfast("jobs", "list", "--json", "--namespace", "tenant")) == []

    def test_a_bad_namespace_is_refused(self, standfast):
        assert_refused(standfast("jobs", "list", "--namespace", "No!"), 2, "namespace")

    def test_a_directory_is_no_database(self, tmp_path):
        assert_refused(bare("stats", "--url", f"sqlite:///{tmp_path}"), 3, "there is no database")

    @pytest.mark.parametrize("error", [StoreUnavailableError, StoreFullError, SchemaError])
    def test_a_store_that_cannot_be_used_is_its_own_exit_code(self, standfast, monkeypatch, error):
        def fail(_settings):
            raise error("the store\nis away")

        monkeypatch.setattr(connection, "open_backend", fail)
        assert_refused(standfast("stats"), 3, "the store is away")


class TestFailures:
    def test_a_traceback_only_with_debug(self, standfast):
        assert "Traceback" not in standfast("jobs", "show", "nope").stderr
        for args in (("--debug", "jobs", "show", "nope"), ("jobs", "show", "nope", "--debug")):
            result = standfast(*args)
            assert result.exit_code == 1
            assert result.stderr.startswith("Traceback")
            assert result.stderr.splitlines()[-1].startswith("standfast: there is no job")

    @pytest.mark.parametrize(
        ("error", "code", "words"),
        [
            (KeyboardInterrupt(), 130, "interrupted"),
            (ZeroDivisionError("oops"), 1, "internal error: ZeroDivisionError: oops"),
            (PermissionError(13, "Permission denied", "x.db"), 1, "Permission denied"),
        ],
    )
    def test_whatever_goes_wrong_is_one_line(self, standfast, monkeypatch, error, code, words):
        def fail(_settings):
            raise error

        monkeypatch.setattr(connection, "open_backend", fail)
        assert_refused(standfast("stats"), code, words)

    @pytest.mark.parametrize(
        "args",
        [("bogus",), ("--bogus",), ("jobs", "bogus"), ("jobs", "list", "--state", "odd"), ("jobs", "cancel")],
    )
    def test_wrong_usage_names_the_help(self, args):
        assert_refused(bare(*args), 2, "--help`")

    @pytest.mark.parametrize(
        ("args", "meant"),
        [
            (("retry",), "Did you mean `standfast dead retry` or `standfast jobs retry`?"),
            (("requeue",), "Did you mean `standfast dead retry` or `standfast jobs retry`?"),
            (("cancel",), "Did you mean `standfast jobs cancel`?"),
            (("list",), "Did you mean `standfast jobs list`?"),
            (("run",), "Did you mean `standfast worker` or `standfast up`?"),
            (("start",), "Did you mean `standfast worker` or `standfast up`?"),
            (("web",), "Did you mean `standfast dashboard`?"),
            (("purge",), "Did you mean `standfast dead discard` or `standfast jobs cancel`?"),
            (("init",), "Did you mean `standfast migrate`?"),
            (("beat",), "Schedules need no process of their own: `standfast worker` enqueues their jobs."),
            (("logs",), "Workers write their log to stderr; `standfast jobs show` has the error of a job."),
            (("dead", "requeue"), "Did you mean `standfast dead retry`?"),
            (("dead", "delete"), "Did you mean `standfast dead discard`?"),
            (("jobs", "delete"), "Did you mean `standfast jobs cancel`?"),
            (("jobs", "shwo"), "Did you mean `standfast jobs show`?"),
            (("workr",), "Did you mean `standfast worker`?"),
        ],
    )
    def test_a_command_that_is_not_there_is_told_with_the_one_that_was_meant(self, args, meant):
        result = bare(*args)
        assert_refused(result, 2, f"No such command '{args[-1]}'. {meant} (see `")
        assert "restore" not in result.stderr

    def test_what_replaces_the_store_is_never_guessed(self):
        assert_refused(bare("restor"), 2, "No such command 'restor'. (see `standfast --help`)")

    def test_a_store_that_fails_half_way_still_tells_what_was_done(self, world, standfast, monkeypatch):
        first, second = world.enqueue(), world.enqueue()
        find = bulk.find_job

        def find_one_only(wanted, backend, job_id):
            if job_id == second:
                raise StoreUnavailableError("database is locked")
            return find(wanted, backend, job_id)

        monkeypatch.setattr(bulk, "find_job", find_one_only)
        result = standfast("jobs", "cancel", first, second, "--json")
        assert result.exit_code == 3
        assert [(each["id"], each["answer"]) for each in json.loads(result.stdout)] == [(first, "cancelled")]
