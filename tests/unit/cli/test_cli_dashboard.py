"""`dashboard` and `up`: what is wrong is told in one line before anything is served, and people are added."""

import socket

import pytest
from cli_world import assert_refused, bare

from holdfast.cli import dashboard as command
from holdfast.cli import up as up_command
from holdfast.dashboard.access.user import Role
from holdfast.dashboard.access.user_file import UserFile

USAGE, STORE = 2, 3
PASSWORD = "correct horse battery staple\n" * 2


def test_help_names_what_people_need():
    told = bare("dashboard", "--help").stdout
    for option in ("--host", "--port", "--users", "--token-file", "--allow", "--proxy", "--prefix", "--read-only"):
        assert option in told
    assert "--no-dashboard" in bare("up", "--help").stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--prefix", "jobs"], "--prefix 'jobs' is no path such as /jobs"),
        (["--prefix", "/jobs/"], "is no path such as /jobs"),
        (["--prefix", "/a/../b"], "is no path such as /jobs"),
        (["--allow", "10.0.0.1/8"], "is no network"),
        (["--proxy", "everybody"], "is no network"),
        (["--name", "a b"], "is no name of a host"),
        (["--users", "nowhere"], "cannot read nowhere: No such file"),
        (["--token-file", "nowhere"], "nowhere cannot be read: No such file"),
        (["--host", "0.0.0.0"], "--host 0.0.0.0 is reached from other machines: say who may sign in"),
        (["--host", "no such host"], "no address to listen on"),
        (["--add-user", "ada"], "--add-user writes into a file: name it with --users FILE"),
        (["--users", "x", "--add-user", "ada", "--grant", "jobs.fly"], "--grant jobs.fly is no operation"),
        (["--role", "king"], "king"),
    ],
)
def test_nonsense_is_wrong_usage(holdfast, args, words):
    assert_refused(holdfast("dashboard", *args), USAGE, words)


def test_a_user_file_that_everybody_may_read_is_refused(holdfast, tmp_path):
    file = tmp_path / "users"
    file.touch(0o644)
    assert_refused(holdfast("dashboard", "--users", str(file)), USAGE, f"run `chmod 600 {file}`")


def test_a_token_that_could_be_guessed_is_not_repeated(holdfast, tmp_path):
    (tmp_path / "token").write_text("hunter2")
    result = holdfast("dashboard", "--token-file", "token")
    assert_refused(result, USAGE, "characters")
    assert "hunter2" not in result.stderr


def test_a_port_that_is_taken_is_told(holdfast):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert_refused(holdfast("dashboard", "--port", str(taken.getsockname()[1])), USAGE, "in use")


def test_a_store_that_is_not_there_is_told_and_not_made(tmp_path):
    result = bare("dashboard", "--url", f"sqlite:///{tmp_path}/none.db")
    assert_refused(result, STORE, "none.db")
    assert list(tmp_path.iterdir()) == []
    assert_refused(bare("dashboard", "--url", "memory://"), USAGE, "lives inside one process")


def test_somebody_is_added_with_a_role_and_grants(holdfast, tmp_path):
    """The password is asked for twice, and is nowhere but hashed in a file for its owner alone."""
    file = tmp_path / "users"
    words = ("--users", str(file), "--add-user", "ada", "--role", "operator", "--grant", "jobs.discard")
    result = holdfast("dashboard", *words, input=PASSWORD)
    assert result.exit_code == 0, result.stderr
    assert f"ada may sign in as operator; {file} is read again by itself." in result.stdout.replace("\n", " ")
    line = UserFile(file).find("ada")
    assert (line.user.role, line.user.grants) == (Role.OPERATOR, frozenset({"jobs.discard"}))
    assert "horse" not in result.output + file.read_text()
    assert file.stat().st_mode & 0o077 == 0


def test_without_the_extra_it_is_told_how_to_get_it(holdfast, monkeypatch):
    """`up` goes on without a dashboard, unless one was asked for."""
    monkeypatch.setattr(command, "_NEEDED", ("starlette", "no_such_module"))
    words = "the dashboard needs no_such_module: install it with `pip install 'holdfast[web]'`"
    assert_refused(holdfast("dashboard"), USAGE, words)
    assert_refused(bare("up", "shop:app", "--dashboard"), USAGE, words)
    monkeypatch.setattr("holdfast.supervisor.main.supervise", lambda _options: 0)
    result = bare("up", "shop:app")
    assert (result.exit_code, words in result.output) == (0, True)


def test_up_without_a_dashboard_has_no_port_for_it():
    result = bare("up", "shop:app", "--no-dashboard", "--dashboard-port", "9000")
    assert_refused(result, USAGE, "--dashboard-port is about the dashboard")


@pytest.mark.parametrize("words", [["--no-dashboard"], ["--drain"]])
def test_up_starts_it_only_where_it_is_wanted(words, monkeypatch):
    """A drain ends by itself: nobody would have the time to look."""
    started = []
    monkeypatch.setattr(up_command, "dashboard_beside", lambda *given: started.append(given))
    monkeypatch.setattr("holdfast.supervisor.main.supervise", lambda _options: 0)
    assert bare("up", "shop:app", *words).exit_code == 0
    assert started == []
