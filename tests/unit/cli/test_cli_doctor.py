"""`doctor`: every check has a word for what is wrong and what to do, and nothing is changed by looking."""

import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cli_world import WORKER, World, answer, bare
from msgspec.structs import replace

import alert_notices as notices
from standfast.model.crash import Death, DeathKind
from standfast.model.ids import new_job_id
from standfast.model.job import NewJob
from standfast.model.states import Move
from standfast.observe.alerts.board_changes import change_board
from standfast.settings import load_settings
from standfast.stores.sqlite import doctor
from standfast.stores.sqlite.connect import SYNCHRONOUS, Files, open_jobs
from standfast.stores.url import open_backend
from standfast.stores.values import WorkerInfo
from standfast.stores.verb import Procedure, run_procedure
from standfast.testing.clock import FakeClock

PROBLEM, USAGE, STORE = 1, 2, 3
APP = """
from standfast import Standfast

app = Standfast("sqlite:///jobs.db", lease=30)


@app.task(queue="mail", max_attempts=2)
def send(to: str) -> None: ...
"""

DESK = "[alerts.channels.desk]\nkind = 'command'\ncommand = ['true']\n"


def examined(*args, code=0):
    """Run doctor and return its findings by check: the level and all that is said."""
    result = bare("doctor", *args, "--json")
    assert result.exit_code == code, result.output
    report = answer_of(result)
    assert report["ok"] == (code == 0)
    return {each["check"]: (each["level"], f"{each['says']} → {each['remedy']}") for each in report["checks"]}


def answer_of(result):
    result.exit_code = 0
    return answer(result)


def test_doctor_shows_the_timeout_of_the_app_and_of_each_task(tmp_path, monkeypatch):
    """One that hangs is ended by it: what has none is counted."""
    monkeypatch.chdir(tmp_path)
    app = APP.replace("lease=30", "timeout=90") + "\n\n@app.task(timeout=None)\ndef watch() -> None: ...\n"
    Path("timed_shop.py").write_text(app)
    report = answer_of(bare("doctor", "timed_shop:app", "--app-dir", str(tmp_path), "--json"))
    assert report["settings"]["timeout"] == {"value": 90.0, "from": "the code"}
    assert {task["name"]: task["timeout"] for task in report["tasks"]} == {"send": 90.0, "watch": None}
    [tasks] = [each["says"] for each in report["checks"] if each["check"] == "tasks"]
    assert "1 of them without a timeout" in tasks


def test_doctor_names_the_task_that_a_misspelt_one_is_like(tmp_path, monkeypatch):
    """Of jobs that workers have put aside, by the tasks of the app that it was asked about."""
    monkeypatch.chdir(tmp_path)
    Path("misspelt_shop.py").write_text(APP)
    world = World(tmp_path / "jobs.db")
    world.end(world.enqueue(task="sned"), Move.BLOCK, reason="no_worker")
    world.close()
    result = bare("doctor", "misspelt_shop:app", "--app-dir", str(tmp_path), "--json")
    [blocked] = [each for each in answer_of(result)["checks"] if each["check"] == "blocked"]
    assert "'sned' (payload version 1, 1 job, did you mean 'send'?)" in blocked["says"]


def change(file, statement):
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(statement)
        connection.commit()


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@pytest.fixture
def closed(tmp_path):
    """A store in order that nobody has open, with one live worker and one due job."""
    world = World(tmp_path / "jobs.db")
    world.enqueue()
    world.close()
    return world


class TestNothingIsChanged:
    def test_a_store_that_is_not_there_is_not_made(self, tmp_path):
        found = examined("--url", f"sqlite:///{tmp_path}/jobs.db", code=STORE)
        assert found["store"][0] == "problem"
        assert "there is no database" in found["store"][1]
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_that_is_not_there_is_told(self, tmp_path):
        found = examined("--url", f"sqlite:///{tmp_path}/none/jobs.db", code=STORE)
        assert f"mkdir -p {tmp_path}/none" in found["permissions"][1]

    def test_a_store_in_order_stays_as_it_is(self, closed, tmp_path):
        before = contents(tmp_path)
        found = examined("--url", closed.url)
        assert {level for level, _ in found.values()} == {"ok"}
        assert contents(tmp_path) == before

    def test_what_a_killed_process_left_stays_as_it_is(self, world, tmp_path):
        """The log that it left is read, but not folded into the file."""
        world.enqueue(queue="left")
        left = tmp_path / "left"
        left.mkdir()
        for name in ("jobs.db", "jobs.db-wal", "jobs.db-beats", "jobs.db-beats-wal"):
            shutil.copy(tmp_path / name, left / name)
        before = contents(left)
        assert "'left': 1 due job" in examined("--url", f"sqlite:///{left}/jobs.db")["queues"][1]
        after = contents(left)
        assert {name: after[name] for name in before} == before

    def test_an_older_store_is_not_migrated(self, closed):
        change(closed.path, "UPDATE standfast_schema SET version = 1")
        level, said = examined("--url", closed.url)["schema"]
        assert level == "warning"
        assert "migrates it" in said
        assert examined("--url", closed.url)["schema"][0] == "warning"

    def test_a_store_without_heartbeats_gets_none(self, closed, tmp_path):
        (tmp_path / "jobs.db-beats").unlink()
        assert examined("--url", closed.url)["schema"][0] == "warning"
        assert not (tmp_path / "jobs.db-beats").exists()


class TestTheStore:
    def test_one_of_a_newer_release_is_a_problem(self, closed):
        change(closed.path, "UPDATE standfast_schema SET version = 99")
        level, said = examined("--url", closed.url, code=STORE)["schema"]
        assert level == "problem"
        assert "99" in said
        assert "upgrade" in said

    def test_a_file_without_our_tables_is_a_problem(self, tmp_path):
        change(tmp_path / "jobs.db", "CREATE TABLE shop (id)")
        assert examined("--url", f"sqlite:///{tmp_path}/jobs.db", code=STORE)["schema"][0] == "problem"

    def test_a_namespace_that_is_not_there_is_a_problem_and_the_others_are_named(self, closed):
        found = examined("--url", closed.url, "--namespace", "other", code=STORE)
        assert "namespace 'other'" in found["schema"][1]
        assert "namespaces in it: (none)" in found["store"][1]

    def test_namespaces_are_counted(self, tmp_path):
        for name in ("shop", "shop_2"):
            World(tmp_path / "jobs.db", name).close()
        found = examined("--url", f"sqlite:///{tmp_path}/jobs.db", "--namespace", "shop_2")
        assert "namespaces in it: shop, shop_2" in found["store"][1]

    def test_what_is_no_database_is_a_problem(self, tmp_path):
        (tmp_path / "jobs.db").write_bytes(b"not a database, but long enough to be looked at" * 100)
        level, said = examined("--url", f"sqlite:///{tmp_path}/jobs.db", code=STORE)["store"]
        assert level == "problem"
        assert "no sound SQLite database" in said

    def test_links_in_a_circle_are_told_with_the_path(self, tmp_path):
        (tmp_path / "jobs.db").symlink_to("jobs.db")
        result = bare("doctor", "--url", f"sqlite:///{tmp_path}/jobs.db")
        assert result.exit_code == STORE
        assert "jobs.db" in result.output
        assert "internal error" not in result.output

    def test_damage_is_found(self, closed):
        """A page in the middle is overwritten; the tables that tell the schema are whole."""
        fill(closed, 200)
        size = closed.path.stat().st_size
        with closed.path.open("r+b") as file:
            file.seek(size - 8192)
            file.write(b"\xff" * 4096)
        found = examined("--url", closed.url, "--deep", code=STORE)
        assert "problem" in {found["integrity"][0], found["store"][0]}

    def test_durability_is_told_as_our_connections_have_it(self, closed):
        with closing(open_jobs(Files.of(closed.path))) as connection:
            assert connection.execute("PRAGMA main.synchronous").fetchone() == (2,)
        assert SYNCHRONOUS == "FULL"
        said = examined("--url", closed.url)["durability"][1]
        assert "journal_mode wal, synchronous FULL" in said
        assert "power loss" in said

    def test_memory_is_told_to_be_forgetful(self):
        level, said = examined("--url", "memory://")["store"]
        assert level == "warning"
        assert "end with it" in said


class TestWriting:
    def test_a_file_that_somebody_keeps_locked_is_a_problem(self, world, monkeypatch):
        monkeypatch.setattr(doctor, "PATIENCE", 0.05)
        with closing(sqlite3.connect(world.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            level, said = examined("--url", world.url, code=PROBLEM)["writes"]
            assert level == "problem"
            assert "locked for writing" in said
            other.execute("ROLLBACK")
        assert examined("--url", world.url)["writes"][0] == "ok"


def fill(world, count):
    backend = open_backend(load_settings({}, url=world.url))
    payload = b'{"v":1,"args":{"to":"a@example.com"}}'
    backend.run(backend.verbs.enqueue([NewJob(new_job_id(), "send_email", payload) for _ in range(count)]))
    backend.close()


class TestWhatWaits:
    def test_due_jobs_that_nobody_serves_are_a_problem(self, world):
        world.do(world.verbs.bury(WORKER, Death(DeathKind.STOPPED)))
        info = WorkerInfo("b" * 16, "s2", "web-02", 1, timedelta(seconds=15), ("other",), 1)
        world.do(world.verbs.register(info))
        world.enqueue(queue="mail")
        found = examined("--url", world.url, code=PROBLEM)
        assert found["queues"][0] == "problem"
        assert "'mail': 1 due job" in found["queues"][1]
        assert "--queues mail" in found["queues"][1]
        assert "1 worker live" in found["workers"][1]

    def test_without_a_worker_what_is_due_is_a_problem_and_nothing_due_is_not(self, world):
        world.do(world.verbs.bury(WORKER, Death(DeathKind.STOPPED)))
        assert examined("--url", world.url)["workers"][0] == "warning"
        world.enqueue()
        assert "start one with" in examined("--url", world.url, code=PROBLEM)["queues"][1]

    def test_due_jobs_of_a_paused_queue_are_a_warning(self, world):
        world.enqueue(queue="mail")
        world.do(world.verbs.pause("mail"))
        level, said = examined("--url", world.url)["queues"]
        assert level == "warning"
        assert "standfast queues resume mail" in said

    def test_a_long_wait_is_a_warning(self, world):
        world.enqueue(run_at=datetime.now(UTC) - timedelta(hours=2))
        level, said = examined("--url", world.url)["queues"]
        assert level == "warning"
        assert "the oldest for 2 h" in said

    def test_jobs_whose_task_no_worker_knows_are_a_warning_that_names_it(self, world):
        world.end(world.enqueue(task="mystery", version=3), Move.BLOCK, reason="no_worker")
        level, said = examined("--url", world.url)["blocked"]
        assert level == "warning"
        assert "'mystery' (payload version 3, 1 job)" in said
        assert "standfast jobs list --state blocked" in said

    def test_dead_jobs_are_a_warning(self, world):
        world.dead()
        level, said = examined("--url", world.url)["dead"]
        assert level == "warning"
        assert said.startswith("1 job is dead")
        assert "standfast dead list" in said

    def test_a_clock_that_was_set_back_is_a_problem(self, closed):
        clock = FakeClock(datetime.now(UTC) + timedelta(hours=3))
        backend = open_backend(load_settings({}, url=closed.url), clock)
        backend.run(backend.verbs.pause("mail"))
        backend.close()
        level, said = examined("--url", closed.url, code=PROBLEM)["clock"]
        assert level == "problem"
        assert "in 3 h" in said


class TestSettings:
    @pytest.mark.usefixtures("closed")
    def test_each_is_told_with_its_source(self, tmp_path, monkeypatch):
        (tmp_path / "standfast.toml").write_text('grace = "1m"\n')
        (tmp_path / "doctored.py").write_text(APP)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv("STANDFAST_CONCURRENCY", "3")
        report = answer(bare("doctor", "doctored:app", "--json"))
        told = {name: (each["value"], each["from"]) for name, each in report["settings"].items()}
        assert told["lease"] == (30, "the code")
        assert told["grace"] == (60, "standfast.toml")
        assert told["concurrency"] == (3, "STANDFAST_CONCURRENCY")
        assert told["look_ahead"] == (10, "default")
        assert told["url"] == (str(Path("jobs.db").absolute()), "the code")
        assert [(task["name"], task["queue"], task["max_attempts"]) for task in report["tasks"]] == [
            ("send", "mail", 2)
        ]
        text = bare("doctor", "doctored:app").stdout
        assert {"STANDFAST_CONCURRENCY", "standfast.toml", "send", "mail"} <= set(text.split())

    @pytest.mark.usefixtures("closed")
    def test_without_an_app_it_is_said_that_these_are_not_its_settings(self, tmp_path, monkeypatch):
        (tmp_path / "own_settings.py").write_text(APP)
        monkeypatch.syspath_prepend(tmp_path)
        says = "An app may have settings of its own in its code: `standfast doctor MODULE:APP` shows them."
        assert says in bare("doctor", "--url", "sqlite:///jobs.db").stdout
        assert says not in bare("doctor", "own_settings:app").stdout

    def test_the_command_line_goes_before_the_app(self, closed, tmp_path, monkeypatch):
        (tmp_path / "elsewhere.py").write_text(APP.replace("jobs.db", "none.db"))
        monkeypatch.syspath_prepend(tmp_path)
        report = answer(bare("doctor", "elsewhere:app", "--url", closed.url, "--json"))
        assert report["settings"]["url"]["from"] == "--url"

    @pytest.mark.parametrize("url", ["postgresql://shop:geheim@db/jobs", "geheim", "mysql://shop:geheim@db"])
    def test_a_password_is_never_shown(self, monkeypatch, url):
        monkeypatch.setenv("STANDFAST_URL", url)
        for how in ([], ["--json"], ["--url", url]):
            assert "geheim" not in bare("doctor", *how).output

    def test_wrong_settings_are_wrong_usage(self, monkeypatch):
        monkeypatch.setenv("STANDFAST_LEASSE", "3")
        monkeypatch.setenv("STANDFAST_GRACE", "soon")
        result = bare("doctor")
        assert result.exit_code == USAGE
        assert "did you mean STANDFAST_LEASE?" in result.stderr

    @pytest.mark.parametrize("target", ["nonsense", "no_such_module:app"])
    def test_an_app_that_is_not_there_is_wrong_usage(self, target):
        assert bare("doctor", target).exit_code == USAGE


class TestAlerts:
    """Whether the channels of an app can be used from here, before a worker fails for them or nobody is told."""

    @pytest.fixture
    def alerts(self, closed, tmp_path, monkeypatch):
        """Return what doctor says of the alerts of an app with these channels in its file."""
        monkeypatch.syspath_prepend(tmp_path)
        name = f"doctored_{tmp_path.name}".replace("-", "_")

        def look(file, code=0, more=""):
            (tmp_path / f"{name}.py").write_text(APP + more)
            (tmp_path / "standfast.toml").write_text(file)
            return examined(f"{name}:app", "--url", closed.url, code=code)["alerts"]

        return look

    def test_in_order(self, alerts):
        assert alerts(DESK) == ("ok", "people are told through: desk → None")

    def test_it_is_said_how_many_fire(self, alerts, closed):
        """That people are told is in order, and what they are told of is not."""
        world = World(closed.path)
        firing = (notices.alert(), notices.alert(id="a2", subject="web"))
        board = Procedure(change_board(world.verbs, lambda board: (replace(board, alerts=firing), None)))
        run_procedure(world.do, board)
        world.close()
        says = "people are told through: desk; 2 alerts fire: see `standfast alerts list` → None"
        assert alerts(DESK) == ("ok", says)

    def test_without_a_channel_it_is_said_that_nobody_is_told_and_what_to_do(self, alerts):
        level, said = alerts("")
        assert level == "warning"
        assert said.startswith("no channel is declared: nobody is told of trouble → declare one")
        assert "docs/howto/alert-channels.md" in said

    def test_alerts_that_are_switched_off_in_the_file_are_a_warning_that_names_it(self, alerts):
        level, said = alerts(f"[alerts]\nenabled = false\n{DESK}")
        assert level == "warning"
        assert said.startswith("switched off, by enabled = false of [alerts] in standfast.toml: nobody looks")

    def test_alerts_that_are_switched_off_in_the_code_are_a_warning_that_names_it(self, alerts):
        level, said = alerts(f"[alerts]\nenabled = true\n{DESK}", more="app.alerts(enabled=False)\n")
        assert level == "warning"
        assert said.startswith("switched off, by app.alerts(enabled=False) in the code: nobody looks")

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            (
                "[[alerts.rules]]\nname = 'waits'\ncheck = 'queue_age'\nqueue = 'mial'\nabove = 9\n",
                "rule 'waits' is about queue 'mial', which no task of the app uses; did you mean mail? → correct",
            ),
            (
                "[objectives.sent]\ntask = 'sned'\ntarget = 0.9\n",
                "objective 'sent' is about task 'sned', which the app does not have; did you mean send? → correct",
            ),
        ],
    )
    def test_names_that_nobody_has_are_a_warning(self, alerts, more, words):
        level, said = alerts(DESK + more)
        assert level == "warning"
        assert said.startswith(words)

    @pytest.mark.parametrize(("queue", "level"), [("filled", "ok"), ("served", "ok"), ("elsewhere", "warning")])
    def test_a_queue_that_somebody_serves_or_fills_is_known(self, alerts, world, queue, level):
        """It may be another app's."""
        world.enqueue(queue="filled")
        info = WorkerInfo("b" * 16, "s2", "web-02", 1, timedelta(seconds=15), ("served",), 1)
        world.do(world.verbs.register(info))
        rule = f"[[alerts.rules]]\nname = 'waits'\ncheck = 'queue_age'\nqueue = '{queue}'\nabove = 9\n"
        assert alerts(DESK + rule)[0] == level

    @pytest.mark.parametrize(
        ("file", "words"),
        [
            (
                "[alerts.channels.ops]\nkind = 'webhook'\nurl = 'https://x.example'\nsecret = '${NOPE_OPS}'\n",
                "channel 'ops': the variable NOPE_OPS is not set",
            ),
            (
                "[alerts.channels.ops]\nkind = 'command'\ncommand = ['no-such-program-here']\n",
                "channel 'ops': its program is not there",
            ),
            (
                "[alerts.channels.ops]\nkind = 'apprise'\nurl = 'nosuch://hush'\n",
                "channel 'ops': its url is none that apprise knows",
            ),
        ],
    )
    def test_a_channel_that_cannot_be_used_is_a_problem(self, alerts, file, words):
        level, said = alerts(file, code=PROBLEM)
        assert level == "problem"
        assert words in said
        assert "hush" not in said


def test_a_narrow_terminal_is_respected(closed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = bare("doctor", "--url", closed.url).stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[-1] == "No problem, 0 warnings."
