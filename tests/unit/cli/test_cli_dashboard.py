"""`dashboard` and `up`: what is wrong is told in one line before anything is served, and people are added."""

import asyncio
import socket
from contextlib import nullcontext

import httpx
import pytest
from cli_world import assert_refused, bare

from standfast.admin.operation import Role
from standfast.cli import dashboard as command
from standfast.cli import up as up_command
from standfast.dashboard.access.users import UserFile

USAGE, STORE = 2, 3
PASSWORD = "correct horse battery staple\n" * 2
ROBOT, ADA = "a-token-that-nobody-guesses", "another-that-nobody-guesses"


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
        (["--users", "nowhere"], "`standfast dashboard --users nowhere --add-user NAME` makes it"),
        (["--users", "x", "--add-user", "a b"], "a name has 1 to 64 letters"),
        (["--token-file", "nowhere"], "cannot read nowhere: No such file"),
        (["--host", "0.0.0.0"], "--host 0.0.0.0 is reached from other machines: say who may sign in"),
        (["--allow", "10.0.0.0/8"], "with --allow others may come: say who may sign in"),
        (["--proxy", "127.0.0.1"], "with --proxy others may come: say who may sign in"),
        (["--host", "no such host"], "no address to listen on"),
        (["--add-user", "ada"], "--add-user writes into a file: name it with --users FILE"),
        (["--users", "x", "--add-user", "ada", "--grant", "jobs.fly"], "--grant jobs.fly is no operation"),
        (["--role", "king"], "king"),
    ],
)
def test_nonsense_is_wrong_usage(standfast, args, words):
    assert_refused(standfast("dashboard", *args), USAGE, words)


@pytest.mark.parametrize("option", ["--users", "--token-file"])
def test_a_file_that_everybody_may_read_is_refused(standfast, tmp_path, option):
    file = tmp_path / "secrets"
    file.write_text("a-token-that-nobody-guesses")
    file.chmod(0o644)
    result = standfast("dashboard", option, str(file))
    assert_refused(result, USAGE, f"run `chmod 600 {file}`")
    assert "nobody-guesses" not in result.output


def test_a_token_that_could_be_guessed_is_not_repeated(standfast, tmp_path):
    (tmp_path / "token").write_text("hunter2")
    (tmp_path / "token").chmod(0o600)
    result = standfast("dashboard", "--token-file", "token")
    assert_refused(result, USAGE, "characters")
    assert "hunter2" not in result.stderr


def test_a_port_that_is_taken_is_told(standfast):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert_refused(
            standfast("dashboard", "--port", str(taken.getsockname()[1])), USAGE, "in use; name another --port"
        )


def test_a_store_that_is_not_there_is_told_and_not_made(tmp_path):
    result = bare("dashboard", "--url", f"sqlite:///{tmp_path}/none.db")
    assert_refused(result, STORE, "none.db")
    assert list(tmp_path.iterdir()) == []
    assert_refused(bare("dashboard", "--url", "memory://"), USAGE, "lives inside one process")


def test_somebody_is_added_with_a_role_and_grants(standfast, tmp_path):
    """The password is asked for twice, and is nowhere but hashed in a file for its owner alone."""
    file = tmp_path / "users"
    words = ("--users", str(file), "--add-user", "ada", "--role", "operator", "--grant", "jobs.discard")
    result = standfast("dashboard", *words, input=PASSWORD)
    assert result.exit_code == 0, result.stderr
    assert f"ada may sign in as operator; {file} is read again by itself." in result.stdout.replace("\n", " ")
    line = UserFile(file).find("ada")
    assert (line.user.role, line.user.grants) == (Role.OPERATOR, frozenset({"jobs.discard"}))
    assert "horse" not in result.output + file.read_text()
    assert file.stat().st_mode & 0o077 == 0


def test_where_nobody_can_be_asked_for_a_password_it_is_said(standfast, tmp_path):
    """As in a pipe that ends before there was one."""
    result = standfast("dashboard", "--users", str(tmp_path / "users"), "--add-user", "ada", input="\n")
    assert result.exit_code == USAGE
    assert "--add-user asks for a password, and got none: run it at a terminal" in result.stderr
    assert "internal error" not in result.output
    assert list(tmp_path.glob("users")) == []


def test_a_password_that_is_too_short_is_told_before_it_is_typed_again(standfast, tmp_path):
    """What it must be is said first."""
    result = standfast(
        "dashboard", "--users", str(tmp_path / "users"), "--add-user", "ada", input=f"short\n{PASSWORD}"
    )
    assert result.exit_code == 0, result.stderr
    assert "of 10 characters or more" in result.output
    assert "a password has 10 to 1,024 characters" in result.output


def test_without_the_extra_it_is_told_how_to_get_it(standfast, monkeypatch):
    """`up` goes on without a dashboard, unless one was asked for."""
    monkeypatch.setattr(command, "_NEEDED", ("starlette", "no_such_module"))
    words = "the dashboard needs no_such_module: install it with `pip install -e 'path/to/the/clone[web]'`"
    assert_refused(standfast("dashboard"), USAGE, words)
    assert_refused(bare("up", "shop:app", "--dashboard"), USAGE, words)
    monkeypatch.setattr("standfast.supervisor.main.supervise", lambda _options: 0)
    result = bare("up", "shop:app")
    assert (result.exit_code, words in result.output) == (0, True)


@pytest.mark.parametrize("option", ["--dashboard-port", "--dashboard-token-file"])
def test_up_without_a_dashboard_is_told_nothing_about_it(option):
    result = bare("up", "shop:app", "--no-dashboard", option, "9000")
    assert_refused(result, USAGE, f"{option} is about the dashboard")


@pytest.mark.parametrize("words", [["--no-dashboard"], ["--drain"]])
def test_up_starts_it_only_where_it_is_wanted(words, monkeypatch):
    """A drain ends by itself: nobody would have the time to look."""
    started = []
    monkeypatch.setattr(up_command, "dashboard_sidecar", lambda *given: started.append(given))
    monkeypatch.setattr("standfast.supervisor.main.supervise", lambda _options: 0)
    assert bare("up", "shop:app", *words).exit_code == 0
    assert started == []


def test_up_hands_its_file_of_tokens_on(monkeypatch, tmp_path):
    """What is wrong with it is told before a worker starts."""
    started = []
    monkeypatch.setattr(up_command, "dashboard_sidecar", lambda *given: started.append(given) or nullcontext())
    monkeypatch.setattr("standfast.supervisor.main.supervise", lambda _options: 0)
    file = tmp_path / "token"
    assert_refused(bare("up", "shop:app", "--dashboard-token-file", str(file)), USAGE, f"cannot read {file}")
    file.touch(0o600)
    file.write_text(ROBOT)
    assert bare("up", "shop:app", "--dashboard-token-file", str(file)).exit_code == 0
    [(arguments, environment)] = started
    assert arguments[-2:] == ["--token-file", str(file)]
    assert ROBOT not in " ".join([*arguments, *environment.values()])


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ([], True),
        (["--allow", "127.0.0.1"], True),
        (["--token-file", "token"], False),
        (["--users", "users"], False),
        (["--users", "users", "--proxy", "127.0.0.1", "--allow", "0.0.0.0/0"], False),
    ],
)
def test_links_are_for_who_comes_from_here_and_is_not_known_otherwise(
    standfast, tmp_path, monkeypatch, words, offered
):
    """Else a stranger could have one printed, for whoever reads what the dashboard prints."""
    monkeypatch.chdir(tmp_path)
    for name in ("token", "users"):
        (tmp_path / name).touch(0o600)
    (tmp_path / "token").write_text(ROBOT)
    pages = []

    def serve(app, _gate, began):
        async def asked():
            transport = httpx.ASGITransport(app, client=("127.0.0.1", 5000))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
                pages.append((await client.get("/sign-in")).text)
                headers = {"origin": "http://127.0.0.1:8080"}
                pages.append((await client.post("/sign-in/link", headers=headers)).status_code)

        began()
        asyncio.run(asked())

    monkeypatch.setattr("standfast.dashboard.serving.server.serve", serve)
    result = standfast("dashboard", "--port", "0", *words)
    assert result.exit_code == 0, result.output
    assert ("/sign-in/link" in pages[0], pages[1]) == (offered, 303 if offered else 401)
    assert result.output.count("once=") == (2 if offered else 0)


@pytest.fixture
def served(standfast, tmp_path, monkeypatch):
    """Serve a dashboard with a file of tokens in this process; return a way to ask it, and what it printed."""
    file, apps = tmp_path / "tokens", []
    file.touch(0o600)
    file.write_text(f"# programs\nrobot:viewer,queues.pause:{ROBOT}\nada:admin:{ADA}\n")
    monkeypatch.setattr("standfast.dashboard.serving.server.serve", lambda app, *_: apps.append(app))
    result = standfast("dashboard", "--port", "0", "--token-file", str(file))
    assert result.exit_code == 0, result.output

    def ask(method, path, token=None, **more):
        transport = httpx.ASGITransport(apps[0], client=("127.0.0.1", 5000))
        headers = {} if token is None else {"authorization": f"Bearer {token}"}

        async def asked():
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
                return await client.request(method, f"/api/v1{path}", headers=headers, **more)

        return asyncio.run(asked())

    return ask, result.output


def test_a_file_of_tokens_says_whom_each_stands_for(served):
    """With a role and grants; who has none, a wrong one, or one in the URL is told that in so many words."""
    ask, printed = served
    assert ask("GET", "/overview", ROBOT).status_code == 200
    assert ask("POST", "/queues/mail/pause", ROBOT, json={}).status_code == 200
    assert ask("POST", "/queues/mail/resume", ROBOT, json={}).status_code == 403
    assert ask("POST", "/queues/mail/resume", ADA, json={}).status_code == 200
    told = ask("GET", "/audit", ADA)
    assert [entry["who"] for entry in told.json()["entries"]] == ["ada", "robot", "robot"]
    wrong = ask("GET", "/overview", ROBOT[:-1])
    assert (wrong.status_code, wrong.json()["error"]["message"]) == (401, "this is not the token")
    for nobody in (ask("GET", "/overview"), ask("GET", f"/overview?token={ADA}&access_token={ADA}")):
        assert (nobody.status_code, nobody.json()["error"]["message"]) == (401, "sign in first")
        assert nobody.headers["www-authenticate"] == 'Bearer realm="standfast"'
    assert not any(token in printed + told.text + wrong.text for token in (ROBOT, ADA))
