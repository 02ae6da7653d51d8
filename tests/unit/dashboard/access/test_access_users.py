"""The user file and passwords."""

import asyncio
import threading

import pytest
from access_stage import TOKEN, by_form, came, entrance, jar, request, why
from argon2 import PasswordHasher

from standfast.admin.operation import Role, User
from standfast.dashboard.access.caller import RefusedError
from standfast.dashboard.access.sessions import IDLE, How
from standfast.dashboard.access.sign_in import FREE, LONGEST_WAIT
from standfast.dashboard.access.users import AT_ONCE, MOST_WAITING, Passwords, UserFile, add_user
from standfast.errors import ConfigurationError

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
PASSWORD = "correct horse"
RIGHT = {"name": "ada", "password": PASSWORD}
WRONG = {"name": "ada", "password": "wrong horse"}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "users"
    add_user(path, "ada", Role.OPERATOR, PASSWORD, grants=["jobs.discard"], hasher=CHEAP)
    return path


@pytest.fixture
def door(time, file):
    door = entrance(time, users=file, token=TOKEN, one_time=False)
    door._register._passwords._make_hasher = lambda: CHEAP
    yield door
    door.close()


def test_a_user_is_added_changed_and_the_others_stay(file) -> None:
    file.write_text("# people\n" + file.read_text())
    file.chmod(0o600)
    add_user(file, "eve", Role.VIEWER, PASSWORD, hasher=CHEAP)
    add_user(file, "ada", Role.ADMIN, "another horse", hasher=CHEAP)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text().startswith("# people\neve:viewer:$argon2id$")
    users = UserFile(file)
    assert users.find("ada").user == User("ada", Role.ADMIN)
    assert users.find("eve").user == User("eve", Role.VIEWER)
    assert users.find("nobody") is None
    assert [path.name for path in file.parent.iterdir()] == ["users"]
    assert PASSWORD not in file.read_text()


def test_it_is_hashed_as_the_library_recommends(tmp_path) -> None:
    add_user(tmp_path / "u", "ada", Role.ADMIN, PASSWORD)
    assert not PasswordHasher().check_needs_rehash((tmp_path / "u").read_text().strip().split(":")[2])


@pytest.mark.parametrize(
    ("name", "password", "grants", "says"),
    [
        ("a:b", PASSWORD, (), "a name has"),
        ("a\nb", PASSWORD, (), "a name has"),
        ("", PASSWORD, (), "a name has"),
        ("a" * 65, PASSWORD, (), "a name has"),
        ("ada", "short", (), "a password has"),
        ("ada", "x" * 1025, (), "a password has"),
        ("ada", PASSWORD, ["x:y"], "a grant is"),
        ("ada", PASSWORD, ["jobs.discord"], "no operation 'jobs.discord'; did you mean jobs.discard?"),
    ],
)
def test_what_would_break_the_file_is_refused(tmp_path, name, password, grants, says) -> None:
    with pytest.raises(ConfigurationError, match=says):
        add_user(tmp_path / "u", name, Role.ADMIN, password, grants=grants, hasher=CHEAP)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o660, 0o644, 0o666])
def test_a_file_that_others_may_read_is_refused(file, mode) -> None:
    file.chmod(mode)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        UserFile(file)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ada", "line 1: write name:role"),
        ("\nada:king:x", "line 2: a role is one of viewer, operator, admin"),
        ("ada:viewer:plain-secret", "line 1: no argon2 hash"),
        ("ada:viewer,Everything:x", "a grant is"),
        ("ada:viewer,alerts.ak:plain-secret", "line 1: there is no operation 'alerts.ak'; did you mean"),
        ("\ufffe", "line 1"),
    ],
)
def test_a_wrong_line_is_named_and_not_shown(file, text, says) -> None:
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=says) as error:
        UserFile(file)
    assert "plain-secret" not in str(error.value)


def test_a_name_stands_there_once_and_a_missing_file_is_told(file) -> None:
    file.write_text(file.read_text() * 2)
    with pytest.raises(ConfigurationError, match="twice"):
        UserFile(file)
    with pytest.raises(ConfigurationError, match="cannot read"):
        UserFile(file.parent / "nothing")


async def test_name_and_password_open(door) -> None:
    admitted = came(await by_form(door, RIGHT))
    assert (admitted.user, admitted.how) == (User("ada", Role.OPERATOR, frozenset({"jobs.discard"})), How.PASSWORD)
    again = came(await door.admit(request(headers={"cookie": jar(admitted)})))
    assert again.user == admitted.user


@pytest.mark.parametrize(
    "fields",
    [WRONG, {"name": "nobody", "password": PASSWORD}, {"name": "ada"}, {}, {"name": "ada", "password": "é" * 2000}],
)
async def test_nothing_else_does(door, fields) -> None:
    assert why(await by_form(door, fields)) == (401, "wrong")


async def test_an_unknown_name_is_hashed_as_often_as_a_known_one(door) -> None:
    """The time it takes does not tell who is there."""
    verified = []

    class Counted:
        hash = CHEAP.hash

        def verify(self, known, password):
            verified.append(known.rpartition("$")[0].rpartition("$")[0])
            return CHEAP.verify(known, password)

    door._register._passwords._make_hasher = Counted
    await by_form(door, WRONG)
    await by_form(door, WRONG | {"name": "nobody"})
    assert len(verified) == 2
    assert verified[0] == verified[1]


async def test_changes_of_the_file_count_at_once(door, file) -> None:
    """A new role, a new password, a removed user, and a file that others may read: also for who is signed in."""
    cookie = {"cookie": jar(came(await by_form(door, RIGHT)))}
    file.write_text(file.read_text().replace("operator,jobs.discard", "viewer"))
    admitted = came(await door.admit(request(headers=cookie)))
    assert admitted.user == User("ada", Role.VIEWER)
    add_user(file, "ada", Role.VIEWER, "another horse", hasher=CHEAP)
    assert why(await door.admit(request(headers=cookie))) == (401, "sign_in")
    assert not await door.still(admitted, request())
    assert why(await by_form(door, RIGHT)) == (401, "wrong")
    file.chmod(0o644)
    assert why(await door.admit(request(headers=cookie))) == (403, "auth")
    file.write_text("")
    file.chmod(0o600)
    assert why(await door.admit(request(headers=cookie))) == (401, "sign_in")


async def test_ten_thousand_guesses_do_not_get_in_and_the_true_user_does(door, time) -> None:
    """From many addresses, also at the moment; the browser that is known does not even notice."""
    known = [("cookie", jar(came(await by_form(door, RIGHT))))]
    looked_at = 0
    for number in range(10_000):
        peer = f"127.{number % 200}.{number // 200}.9"
        answer = await by_form(door, {"name": "ada", "password": f"guess {number}"}, peer=peer)
        looked_at += why(answer) == (401, "wrong")
        time.now += 0.1
    assert looked_at <= FREE + 9 + 1000 / LONGEST_WAIT
    assert why(await by_form(door, RIGHT, peer="127.9.9.9")) == (429, "too_many")
    came(await by_form(door, RIGHT, known))
    for _ in range(FREE + 1):
        time.now += 10
        await by_form(door, WRONG, peer="127.8.8.8")
    time.now += LONGEST_WAIT
    came(await by_form(door, RIGHT, peer="127.9.9.9"))


async def test_who_guesses_locks_out_no_session_and_no_token(door) -> None:
    """From elsewhere, and from the same address, as behind a proxy that is not known for one."""
    inside = {"cookie": jar(came(await by_form(door, RIGHT)))}
    for peer in ("127.0.0.9", "127.0.0.1"):
        for _ in range(30):
            await by_form(door, WRONG, peer=peer)
            await door.admit(request(headers={"authorization": "Bearer wrong"}, peer=peer))
    assert why(await by_form(door, RIGHT, peer="127.0.0.2")) == (429, "too_many")
    came(await door.admit(request(headers=inside)))
    came(await door.admit(request(headers={"authorization": f"Bearer {TOKEN}"})))
    came(await by_form(door, {"token": TOKEN}, peer="127.0.0.2"))


async def test_a_known_browser_is_no_way_to_guess(door) -> None:
    known = [("cookie", jar(came(await by_form(door, RIGHT))))]
    for _ in range(FREE):
        assert why(await by_form(door, WRONG, known)) == (401, "wrong")
    assert why(await by_form(door, RIGHT, known)) == (429, "too_many")


async def test_attempts_are_few_from_one_address(door) -> None:
    """Whatever the name."""
    answers = [why(await by_form(door, {"name": f"n{n}", "password": "x"})) for n in range(30)]
    assert answers.count((401, "wrong")) == 10


async def test_two_are_hashed_at_a_time_and_not_too_many_wait() -> None:
    """The event loop goes on meanwhile; those beyond are told to come later."""
    go_on, inside, most = threading.Event(), [], []

    class Slow:
        def hash(self, _):
            return ""

        def verify(self, *_):
            inside.append(1)
            most.append(len(inside))
            assert go_on.wait(10)
            inside.pop()
            return True

    passwords = Passwords(Slow)
    waiting = [asyncio.ensure_future(passwords.compare("p", "h")) for _ in range(AT_ONCE + MOST_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(RefusedError):
        await passwords.compare("p", "h")
    go_on.set()
    assert all(await asyncio.gather(*waiting))
    assert max(most) <= AT_ONCE
    assert await passwords.compare("p", None) is False
    passwords.close()


async def test_sessions_of_users_end_when_idle(door, time) -> None:
    cookie = {"cookie": jar(came(await by_form(door, RIGHT)))}
    time.now += IDLE
    assert why(await door.admit(request(headers=cookie))) == (401, "sign_in")


async def test_ten_thousand_guesses_of_a_token_open_nothing_and_the_true_one_opens_at_once(time) -> None:
    """By form and by header; those who guess are soon not even told that it was wrong."""
    door = entrance(time, token=TOKEN)
    told = set()
    for number in range(10_000):
        guess = f"{number:0{len(TOKEN)}}"
        peer = f"127.{number % 200}.{number // 200}.9"
        bearer = {"authorization": f"Bearer {guess}"}
        told.add(why(await by_form(door, {"token": guess}, peer=peer)))
        told.add(why(await door.admit(request(headers=bearer, peer="127.0.0.2"))))
        time.now += 0.01
    assert told == {(401, "wrong"), (429, "too_many")}
    came(await by_form(door, {"token": TOKEN}, peer="127.9.9.9"))
    came(await door.admit(request(headers={"authorization": f"Bearer {TOKEN}"}, peer="127.0.0.2")))
