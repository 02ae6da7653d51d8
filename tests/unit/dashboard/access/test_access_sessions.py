"""Sessions, links, guesses and tokens: what opens, for how long, and for whom."""

import msgspec
import pytest
from access_stage import Time

from standfast.admin.operation import Role, User
from standfast.dashboard.access import sign_in as links_module
from standfast.dashboard.access.credentials import TOKEN_USER, Tokens, read_tokens
from standfast.dashboard.access.sessions import (
    IDLE,
    KNOWN_FOR,
    LONGEST,
    MOST_ENDED,
    RENEW,
    How,
    KnownBrowsers,
    Sessions,
    Signer,
    secret_from,
)
from standfast.dashboard.access.sign_in import (
    FREE,
    FREE_OF_PEERS,
    LINK_SPAN,
    LONGEST_WAIT,
    MOST_LINKS,
    MOST_REMEMBERED,
    Count,
    Links,
    SignInThrottle,
)
from standfast.errors import ConfigurationError


@pytest.fixture
def sessions(time):
    return Sessions(Signer(), time)


def test_a_link_works_once() -> None:
    links = Links(Time())
    secret = links.make()
    assert len(secret) >= 43
    assert not links.use(secret[:-1])
    assert not links.use("")
    assert not links.use("\ud800")
    assert links.use(secret)
    assert not links.use(secret)


def test_a_link_ends_and_only_so_many_are_good(time) -> None:
    links = Links(time)
    old = links.make()
    time.now += LINK_SPAN - 1
    newer = [links.make() for _ in range(MOST_LINKS)]
    assert not links.use(old)
    time.now += LINK_SPAN
    assert not links.use(newer[-1])


def test_links_are_compared_in_constant_time(monkeypatch) -> None:
    """All that are good are compared, whichever it is."""
    compared = []
    monkeypatch.setattr(links_module.hmac, "compare_digest", lambda a, b: compared.append(a) or a == b)
    links = Links(Time())
    secrets = [links.make() for _ in range(3)]
    assert links.use(secrets[0])
    assert len(compared) == 3


def test_a_session_is_read_back(sessions) -> None:
    session = sessions.begin(How.TOKEN, "ada", "m")
    assert sessions.read(sessions.write(session)) == session
    assert sessions.begin(How.TOKEN, "ada", "m").id != session.id


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 60])
def test_what_was_not_signed_here_is_no_session(sessions, time, length) -> None:
    value = sessions.write(sessions.begin(How.LINK, "ada", ""))
    other = Sessions(Signer(), time)
    assert other.read(value) is None
    assert sessions.read(value[:length]) is None
    changed = ("A" if value[length] != "A" else "B").join((value[:length], value[length + 1 :]))
    assert sessions.read(changed) is None


@pytest.mark.parametrize("value", ["", "é", "!!!", "A" * 5000, "\0", "=" * 10])
def test_rubbish_is_no_session(sessions, value) -> None:
    assert sessions.read(value) is None


def test_what_was_signed_for_something_else_is_no_session(time) -> None:
    signer = Signer()
    sessions = Sessions(signer, time)
    text = msgspec.json.encode(sessions.begin(How.LINK, "ada", ""))
    assert sessions.read(signer.sign("known browser", text)) is None
    assert sessions.read(signer.sign("session", b"{}")) is None
    assert sessions.read(signer.sign("session", text)) is not None


def test_processes_with_one_secret_know_each_others_sessions(time) -> None:
    one, two = (Sessions(Signer(secret_from("s" * 32)), time) for _ in range(2))
    session = one.begin(How.LINK, "ada", "")
    assert two.read(one.write(session)) == session
    assert two.is_csrf(session, one.csrf(session))
    with pytest.raises(ConfigurationError, match="32 characters"):
        secret_from("s" * 31)


def test_a_session_ends_when_idle_and_after_its_longest(sessions, time) -> None:
    began = time.now
    session = sessions.begin(How.LINK, "ada", "")
    time.now += IDLE - 1
    assert sessions.read(sessions.write(session)) is not None
    time.now += 1
    assert sessions.read(sessions.write(session)) is None
    time.now = began
    while time.now < began + LONGEST - RENEW:
        time.now += RENEW
        session = sessions.renewed(session)
        assert sessions.read(sessions.write(session)) is not None
    time.now = began + LONGEST
    assert sessions.read(sessions.write(sessions.renewed(session) or session)) is None
    time.now = began - 61
    assert sessions.read(sessions.write(session)) is None


def test_its_cookie_is_not_made_anew_at_each_request(sessions, time) -> None:
    session = sessions.begin(How.LINK, "ada", "")
    time.now += RENEW - 1
    assert sessions.renewed(session) is None


def test_an_ended_session_stays_ended(sessions, time) -> None:
    session = sessions.begin(How.LINK, "ada", "")
    sessions.end(session)
    time.now += RENEW
    renewed = sessions.renewed(session)
    assert sessions.read(sessions.write(session)) is None
    assert sessions.read(sessions.write(renewed)) is None


def test_those_who_signed_out_are_remembered_within_limits(sessions, time) -> None:
    for _ in range(MOST_ENDED + 10):
        sessions.end(sessions.begin(How.LINK, "ada", ""))
    assert len(sessions._ended) == MOST_ENDED
    time.now += LONGEST
    sessions.end(sessions.begin(How.LINK, "ada", ""))
    assert len(sessions._ended) == 1


def test_the_token_of_forms_is_bound_to_the_session(sessions) -> None:
    one, two = (sessions.begin(How.LINK, "ada", "") for _ in range(2))
    assert sessions.is_csrf(one, sessions.csrf(one))
    assert not sessions.is_csrf(two, sessions.csrf(one))
    for wrong in ("", "é", "\ud800", one.id):
        assert not sessions.is_csrf(one, wrong)


def test_where_the_host_knows_them_it_is_bound_to_the_name_for_two_days(sessions, time) -> None:
    given = sessions.csrf_for_host("ada")
    assert sessions.is_csrf_for_host("ada", given)
    assert not sessions.is_csrf_for_host("eve", given)
    time.now += 86_400
    assert sessions.is_csrf_for_host("ada", given)
    time.now += 86_400
    assert not sessions.is_csrf_for_host("ada", given)


def test_ten_thousand_guesses_are_few_and_the_true_one_comes_after_them(time) -> None:
    """One guess each second for hours: some dozens are looked at, and nobody waits longer than the longest wait."""
    guesses = SignInThrottle(time)
    name = Count(("name", "ada"))
    looked_at = 0
    for number in range(10_000):
        looked_at += guesses.begin([name, Count(("peer", number))]) == 0
        time.now += 1
    assert looked_at <= FREE + 9 + 10_000 / LONGEST_WAIT
    time.now += LONGEST_WAIT
    assert guesses.begin([name, Count(("peer", "hers"))]) == 0
    guesses.forget(name)
    assert guesses.begin([name]) == 0


def test_waiting_grows_and_is_forgiven(time) -> None:
    guesses = SignInThrottle(time)
    waits = []
    for _ in range(FREE + 12):
        waits.append(guesses.begin([Count("a")]))
        time.now += waits[-1]
        if waits[-1]:
            assert guesses.begin([Count("a")]) == 0
    assert waits[: FREE + 1] == [0.0] * FREE + [1.0]
    assert waits == sorted(waits)
    assert max(waits) == LONGEST_WAIT
    assert guesses.begin([Count("a")]) > 0
    time.now += 3600
    assert [guesses.begin([Count("a")]) for _ in range(FREE)] == [0.0] * FREE


def test_guesses_are_remembered_within_limits_and_a_right_one_is_not_counted(time) -> None:
    guesses = SignInThrottle(time)
    for number in range(MOST_REMEMBERED + 10):
        guesses.begin([Count(number)])
    assert len(guesses) == MOST_REMEMBERED
    peer = Count("p", FREE_OF_PEERS)
    for _ in range(100):
        assert guesses.begin([peer]) == 0
        guesses.take_back([peer])
    for _ in range(FREE_OF_PEERS):
        assert guesses.begin([peer]) == 0
    assert guesses.begin([peer]) > 0


def test_a_browser_is_known_for_one_name_and_a_while(time) -> None:
    browsers = KnownBrowsers(Signer(), time)
    value = browsers.write("ada")
    assert browsers.read(value, "ada")
    assert browsers.read(value, "eve") is None
    assert browsers.read("x", "ada") is None
    time.now += KNOWN_FOR
    assert browsers.read(value, "ada") is None


def test_tokens_stand_for_somebody(tmp_path) -> None:
    ada = User("ada", Role.VIEWER, frozenset({"jobs.retry"}))
    tokens = Tokens({"a" * 16: ada, "b" * 16: TOKEN_USER})
    assert tokens.find("a" * 16)[0] == ada
    for wrong in ("", "a" * 15, "a" * 17, "é", "\ud800"):
        assert tokens.find(wrong) is None
    with pytest.raises(ConfigurationError, match="must have 16"):
        Tokens({"short": ada})
    file = tmp_path / "tokens"
    file.touch(0o600)
    file.write_text("c" * 20 + "\n")
    assert read_tokens(file) == {"c" * 20: TOKEN_USER}
    file.write_text(f"# for the robot\nada:viewer,jobs.retry:{'d' * 20}\n")
    assert read_tokens(file) == {"d" * 20: ada}
    for wrong in ("", "#\n", "ada:king:" + "d" * 20, "ada:viewer:short", "a b"):
        file.write_text(wrong)
        with pytest.raises(ConfigurationError) as error:
            read_tokens(file)
        assert "d" * 20 not in str(error.value)
    file.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        read_tokens(file)


def test_a_grant_names_an_operation(tmp_path) -> None:
    """In a file of tokens, and where they are given by code; a slip is told with what may be meant."""
    says = r"there is no operation 'alerts.ak'; did you mean alerts.acknowledge\?"
    file = tmp_path / "tokens"
    file.touch(0o600)
    file.write_text(f"# for the robot\nada:viewer,alerts.ak:{'d' * 20}\n")
    with pytest.raises(ConfigurationError, match=f"tokens, line 2: {says}"):
        read_tokens(file)
    with pytest.raises(ConfigurationError, match=f"the grants of ada: {says}"):
        Tokens({"d" * 20: User("ada", Role.VIEWER, frozenset({"jobs.retry", "alerts.ak"}))})
