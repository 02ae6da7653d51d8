"""The entrance: everybody who should not come in, and those who should."""

import pytest
from access_stage import ORIGIN, TOKEN, by_form, by_link, came, entrance, jar, request, why

from standfast.admin.operation import Role, User
from standfast.dashboard.access.authentication import BURST, CSRF_HEADER, STRANGERS_BURST
from standfast.dashboard.access.caller import HEADERS, STATIC_HEADERS, RefusedError, cookie_name
from standfast.dashboard.access.request import LARGEST_BODY, MOST_FIELDS, parse_json, read_form, read_json
from standfast.dashboard.access.sessions import LONGEST, RENEW, SESSION_COOKIE, How
from standfast.errors import ConfigurationError

BEARER = {"authorization": f"Bearer {TOKEN}"}
OURS = {"sec-fetch-site": "same-origin", "origin": ORIGIN}
ADA = User("ada", Role.OPERATOR)
SESSION = cookie_name(SESSION_COOKIE, "8080", "")


def browser(admitted, **more):
    return {"cookie": jar(admitted), **OURS, **more}


async def test_nobody_comes_in_without_anything(door) -> None:
    answer = await door.admit(request())
    assert why(answer) == (401, "sign_in")
    assert ("WWW-Authenticate", 'Bearer realm="standfast"') in answer.headers


@pytest.mark.parametrize("cookie", [f"{SESSION}=", f"{SESSION}=forged", f"{SESSION}=" + "A" * 4000])
async def test_a_forged_cookie_is_none(door, cookie) -> None:
    assert why(await door.admit(request(headers={"cookie": cookie}))) == (401, "sign_in")


async def test_a_link_opens_once(door) -> None:
    path = f"/sign-in?once={door.new_link()}"
    admitted = came(door.sign_in_by_link(request(path=path)))
    assert (admitted.user.role, admitted.how) == (Role.ADMIN, How.LINK)
    assert why(door.sign_in_by_link(request(path=path))) == (401, "wrong")
    assert came(await door.admit(request(headers={"cookie": jar(admitted)}))).user == admitted.user


async def test_a_link_that_is_looked_at_ahead_stays_good(door) -> None:
    """Browsers and mail programs fetch what somebody might open."""
    path = f"/sign-in?once={door.new_link()}"
    assert why(door.sign_in_by_link(request("HEAD", path))) == (401, "wrong")
    assert why(door.sign_in_by_link(request(path=path, headers={"sec-purpose": "prefetch;prerender"})))[0] == 401
    came(door.sign_in_by_link(request(path=path)))


async def test_without_links_none_opens(time) -> None:
    door = entrance(time, token=TOKEN, one_time=False)
    assert why(door.sign_in_by_link(request(path=f"/sign-in?once={door.new_link()}"))) == (401, "wrong")
    assert door.ways == {How.TOKEN}


async def test_the_cookie_is_for_us_alone(time) -> None:
    """Not for scripts, not for other sites, not for other paths; and by https only, where we are reached so."""
    plain = by_link(entrance(time, prefix="/jobs/")).cookies[0]
    assert plain.endswith("; Path=/jobs; HttpOnly; SameSite=Strict")
    assert by_link(entrance(time)).cookies[0].endswith("; Path=/; HttpOnly; SameSite=Strict")
    for door, more in [(entrance(time), {"scheme": "https"}), (entrance(time, secure=True), {})]:
        assert by_link(door, **more).cookies[0].endswith("; HttpOnly; SameSite=Strict; Secure")
    assert "Secure" not in by_link(entrance(time, secure=False), scheme="https").cookies[0]


async def test_dashboards_on_one_host_do_not_sign_each_other_out(time) -> None:
    """Browsers send cookies to all ports of a host, and those of a path to all below it."""
    places = [("", "127.0.0.1:8080"), ("", "127.0.0.1:8081"), ("/jobs", "127.0.0.1:8080"), ("/jobs", "127.0.0.1")]
    doors = [(entrance(time, prefix=prefix), host) for prefix, host in places]
    cookies = "; ".join(jar(by_link(door, host=host)) for door, host in doors)
    for door, host in doors:
        came(await door.admit(request(host=host, headers={"cookie": cookies})))
    assert len({each.partition("=")[0] for each in cookies.split("; ")}) == len(places)


async def test_behind_a_proxy_the_path_and_https_are_the_proxys(time) -> None:
    headers = {"x-forwarded-proto": "https", "x-forwarded-prefix": "/tools", "x-forwarded-for": "192.0.2.9"}
    more = {"headers": headers, "host": "jobs.example"}
    door = entrance(
        time, prefix="/jobs", networks=["192.0.2.0/24"], hosts=["jobs.example"], trusted_proxies=["127.0.0.1"]
    )
    admitted = by_link(door, **more)
    assert admitted.base == "/tools/jobs"
    assert "; Path=/tools/jobs; HttpOnly; SameSite=Strict; Secure" in admitted.cookies[0]
    untrusting = entrance(time, networks=["192.0.2.0/24"], hosts=["jobs.example"])
    assert why(await untrusting.admit(request(**more))) == (403, "network")


@pytest.mark.parametrize("peer", ["192.0.2.1", "10.0.0.1", "::2", None, "rubbish"])
async def test_only_this_machine_may_reach_it_unless_told_otherwise(door, peer) -> None:
    """Also with a right token, and whatever headers say."""
    headers = BEARER | {"x-forwarded-for": "127.0.0.1", "forwarded": "for=127.0.0.1", "x-real-ip": "127.0.0.1"}
    for answer in (
        await door.admit(request(peer=peer, headers=headers)),
        await by_form(door, {"token": TOKEN}, peer=peer),
        door.sign_in_by_link(request(path=f"/?once={door.new_link()}", peer=peer)),
        door.look_at(request(peer=peer)),
    ):
        assert why(answer) == (403, "network")


async def test_only_our_names_are_answered(door, time) -> None:
    assert why(await door.admit(request(headers=BEARER, host="evil.example"))) == (421, "host")
    assert why(await door.admit(request(headers=BEARER, host=None))) == (400, "host")
    assert why(door.look_at(request(host="evil.example"))) == (421, "host")
    assert why(await by_form(door, {"token": TOKEN}, host="evil.example")) == (421, "host")
    named = entrance(time, token=TOKEN, networks=["192.0.2.0/24"], hosts=["jobs.example"])
    came(await named.admit(request(headers=BEARER, host="jobs.example", peer="192.0.2.1")))
    assert why(await named.admit(request(headers=BEARER, host="127.0.0.1", peer="192.0.2.1"))) == (421, "host")
    anything = entrance(time, token=TOKEN, networks=None, hosts=None)
    came(await anything.admit(request(headers=BEARER, host="any.example", peer="192.0.2.1")))


async def test_a_token_opens_by_form_and_by_header(door) -> None:
    admitted = came(await by_form(door, {"token": f" {TOKEN} "}))
    assert (admitted.user.name, admitted.how) == ("token", How.TOKEN)
    came(await door.admit(request(headers={"cookie": jar(admitted)})))
    assert came(await door.admit(request(headers=BEARER))).how is How.BEARER
    for wrong in ("Bearer", "Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN} x"):
        assert why(await door.admit(request(headers={"authorization": wrong})))[0] == 401
    twice = [("authorization", f"Bearer {TOKEN}"), ("authorization", "Bearer x")]
    assert why(await door.admit(request(headers=twice))) == (401, "sign_in")


async def test_a_wrong_token_is_not_made_good_by_a_cookie(door) -> None:
    headers = {"cookie": jar(by_link(door)), "authorization": "Bearer x"}
    assert why(await door.admit(request(headers=headers))) == (401, "wrong")


async def test_a_session_ends_with_the_token_it_came_by(time) -> None:
    """A secret that is shared outlives a restart; the token that is not there any more does not."""
    before = entrance(time, token=TOKEN, secret="s" * 32)
    cookie = {"cookie": jar(came(await by_form(before, {"token": TOKEN})))}
    came(await entrance(time, token=TOKEN, secret="s" * 32).admit(request(headers=cookie)))
    after = entrance(time, token="u" * 32, secret="s" * 32)
    assert why(await after.admit(request(headers=cookie))) == (401, "sign_in")
    assert why(await entrance(time, token=TOKEN).admit(request(headers=cookie))) == (401, "sign_in")


async def test_wrong_tokens_wait_and_the_right_one_does_not(door) -> None:
    """Also from the same address: behind a proxy that is everybody's."""
    answers = [why(await door.admit(request(headers={"authorization": f"Bearer {n}"})))[0] for n in range(10_000)]
    assert answers.count(401) == 20
    assert answers[-1] == 429
    came(await door.admit(request(headers=BEARER)))


async def test_a_session_has_a_new_id_after_each_sign_in(door) -> None:
    """Whatever cookie a browser brings: what somebody planted there opens nothing afterwards."""
    planted = by_link(door)
    fresh = came(await by_form(door, {"token": TOKEN}, [("cookie", jar(planted))]))
    assert fresh.session.id != planted.session.id
    assert why(await door.admit(request(headers={"cookie": jar(planted)}))) == (401, "sign_in")
    came(await door.admit(request(headers={"cookie": jar(fresh)})))


async def test_who_signs_out_is_out(door) -> None:
    admitted = by_link(door)
    assert await door.still(admitted, request())
    meant = came(
        await door.admit(request("POST", "/sign-out", headers=browser(admitted), form={"csrf": admitted.csrf}))
    )
    (gone,) = door.sign_out(meant)
    assert gone.startswith(f"{SESSION}=; ")
    assert gone.endswith("; Max-Age=0")
    assert not await door.still(admitted, request())
    assert why(await door.admit(request(headers={"cookie": jar(admitted)}))) == (401, "sign_in")


async def test_a_cookie_is_made_anew_while_it_is_used_and_ends_all_the_same(door, time) -> None:
    admitted = by_link(door)
    end = time.now + LONGEST
    cookie = jar(admitted)
    assert came(await door.admit(request(headers={"cookie": cookie}))).cookies == ()
    while time.now + RENEW < end:
        time.now += RENEW
        cookie = jar(came(await door.admit(request(headers={"cookie": cookie}))))
    time.now = end
    assert why(await door.admit(request(headers={"cookie": cookie}))) == (401, "sign_in")


# -- writes --------------------------------------------------------------------------------------------------------


async def test_a_write_of_our_page_is_admitted_and_its_form_is_read_again(door) -> None:
    admitted = by_link(door)
    sent = request("POST", "/do/jobs.retry", headers=browser(admitted), form={"csrf": admitted.csrf, "id": "x"})
    came(await door.admit(sent))
    assert (await read_form(sent)).get("id") == "x"
    by_header = browser(admitted, **{CSRF_HEADER: admitted.csrf, "content-type": "application/json"})
    came(await door.admit(request("DELETE", headers=by_header, body=b"{}")))


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "TRACE", "ANY"])
async def test_a_write_without_the_token_of_the_form_is_refused(door, method) -> None:
    """None, a wrong one, one of another session, and JSON with a cookie alone."""
    admitted = by_link(door)
    stranger = by_link(door)
    for form in ({}, {"csrf": ""}, {"csrf": "x"}, {"csrf": stranger.csrf}):
        assert why(await door.admit(request(method, headers=browser(admitted), form=form))) == (403, "csrf")
    json = browser(admitted, **{"content-type": "application/json"})
    assert why(await door.admit(request(method, headers=json, body=b'{"csrf": "x"}'))) == (403, "csrf")
    both = browser(admitted, **{CSRF_HEADER: "x"})
    assert why(await door.admit(request(method, headers=both, form={"csrf": admitted.csrf}))) == (403, "csrf")


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
        {"sec-fetch-site": "same-site"},
        {"origin": "null"},
        {"origin": "https://127.0.0.1:8080"},
        {"referer": ORIGIN},
    ],
)
async def test_a_write_from_elsewhere_is_refused_even_with_the_token(door, said) -> None:
    admitted = by_link(door)
    headers = {"cookie": jar(admitted), **said}
    assert why(await door.admit(request("POST", headers=headers, form={"csrf": admitted.csrf}))) == (403, "origin")
    signing = request("POST", "/sign-in", headers=said, form={"token": TOKEN})
    assert why(await door.sign_in(signing)) == (403, "origin")


async def test_a_program_with_its_token_writes(door) -> None:
    """It needs no token of a form; but no page of another site can use it."""
    came(await door.admit(request("POST", headers=BEARER, body=b"{}")))
    elsewhere = BEARER | {"origin": "https://evil.example"}
    assert why(await door.admit(request("POST", headers=elsewhere, body=b"{}"))) == (403, "origin")


# -- limits --------------------------------------------------------------------------------------------------------


async def test_strangers_are_slowed_down_and_those_inside_are_not(door, time) -> None:
    answers = [why(await door.admit(request()))[0] for _ in range(100)]
    assert answers.count(401) == STRANGERS_BURST
    came(await door.admit(request(headers=BEARER)))
    time.now += 1
    assert why(await door.admit(request())) == (401, "sign_in")


async def test_those_inside_are_slowed_down_too(door) -> None:
    answers = [await door.admit(request(headers=BEARER)) for _ in range(int(BURST) + 1)]
    assert why(answers[-1]) == (429, "too_many")
    assert answers[-1].headers == (("Retry-After", "1"),)
    came(answers[-2])


async def test_bodies_are_read_as_far_as_their_limits() -> None:
    async def refused(sent, read=read_form):
        with pytest.raises(RefusedError) as error:
            await read(sent)
        return why(error.value.refusal)

    form = {"content-type": "application/x-www-form-urlencoded"}
    fits = b"a=" + b"x" * (LARGEST_BODY - 2)
    assert len((await read_form(request("POST", headers=form, body=fits))).get("a")) == LARGEST_BODY - 2
    assert await refused(request("POST", headers=form, body=fits + b"x")) == (413, "too_large")
    for told in (str(LARGEST_BODY + 1), "9" * 5000, "-1", "x"):
        assert await refused(request("POST", headers=form | {"content-length": told})) == (413, "too_large")
    many = b"&".join(b"a=1" for _ in range(MOST_FIELDS))
    assert len((await read_form(request("POST", headers=form, body=many))).all("a")) == MOST_FIELDS
    assert await refused(request("POST", headers=form, body=many + b"&b=")) == (413, "too_large")
    assert await refused(request("POST", headers=form, body=b"a=%ff")) == (400, "body")
    assert await refused(request("POST", headers=form, body=b"\xff")) == (400, "body")
    assert await refused(request("POST", headers={"content-type": "multipart/form-data"})) == (415, "body")
    assert await refused(request("POST", headers=form), lambda sent: read_json(sent, dict)) == (415, "body")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"a":' + b"[" * 100_000, 400),
        (b'{"a":' * 40_000, 400),
        (b"{", 400),
        (b"\xff", 400),
        (b"[]", 422),
        (b"NaN", 400),
    ],
)
def test_json_that_is_none_or_too_deep_is_refused(body, status) -> None:
    with pytest.raises(RefusedError) as error:
        parse_json(body, dict)
    assert why(error.value.refusal) == (status, "body")


# -- the host's own ------------------------------------------------------------------------------------------------


async def test_the_host_says_who_it_is(time) -> None:
    """By a function or a coroutine; then our own ways to sign in are closed."""

    async def later(sent):
        return ADA if sent.cookies.get("theirs") == "1" else None

    class Callable:
        async def __call__(self, sent):
            return await later(sent)

    cookie = {"cookie": "theirs=1"}
    for auth in (later, Callable(), lambda sent: ADA if sent.cookies.get("theirs") else None):
        door = entrance(time, auth=auth, token=TOKEN)
        admitted = came(await door.admit(request(headers=cookie)))
        assert (admitted.user, admitted.how) == (ADA, How.HOST)
        assert why(await door.admit(request())) == (401, "sign_in")
        assert why(await by_form(door, {"token": TOKEN})) == (401, "sign_in")
        assert why(door.sign_in_by_link(request(path=f"/?once={door.new_link()}"))) == (401, "sign_in")
        assert door.ways == frozenset()
        write = request("POST", headers=cookie | OURS, form={"csrf": admitted.csrf})
        assert came(await door.admit(write)).user == ADA
        assert why(await door.admit(request("POST", headers=cookie | OURS, form={}))) == (403, "csrf")
        assert came(await door.admit(request(headers=BEARER))).how is How.BEARER
        theirs = cookie | {"authorization": "Bearer theirs"}
        assert came(await door.admit(request(headers=theirs))).how is How.HOST


@pytest.mark.parametrize("answer", ["admin", True, {"name": "eve"}, ValueError("no")])
async def test_a_host_that_fails_lets_nobody_in(time, answer, caplog) -> None:
    def auth(_):
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert why(await entrance(time, auth=auth).admit(request())) == (403, "auth")
    assert "the host's auth" in caplog.text


@pytest.mark.parametrize(
    ("user", "says"),
    [
        (User(7, Role.ADMIN), "its name is of type int"),
        (User("", Role.ADMIN), "its name is empty"),
        (User("x\ny\x00", Role.ADMIN), "cannot be printed"),
        (User("\ud800", Role.ADMIN), "cannot be printed"),
        (User("x" * 255, Role.ADMIN), "longer than 254"),
        (User("ada", "admin"), "its role is of type str"),
        (User("ada", 3), "its role is of type int"),
        (User("ada", Role.VIEWER, "jobs.retry"), "its grants must be"),
        (User("ada", Role.VIEWER, frozenset({7})), "its grants must be"),
    ],
)
async def test_a_user_that_is_none_is_nobody(time, user, says, caplog) -> None:
    """Found out before anything is done that could not be written down. One line says what is wrong."""
    assert why(await entrance(time, auth=lambda _: user).admit(request())) == (403, "auth")
    [line] = caplog.messages
    assert line.startswith("the host's auth returned a User that is none: ")
    assert says in line
    with pytest.raises(ConfigurationError, match=says):
        entrance(time, tokens={TOKEN: user})


async def test_names_of_hosts_are_in_any_language(time) -> None:
    for name in ("Ada Lovelace", "ada@example.org", "李雷", "O'Brien, Zoë"):
        assert came(await entrance(time, auth=lambda _, name=name: User(name)).admit(request())).user.name == name


def test_what_cannot_be_meant_is_told_at_once(time, tmp_path) -> None:
    for options in (
        {"token": "short"},
        {"secret": "short"},
        {"networks": ["everybody"]},
        {"hosts": ["http://x"]},
        {"trusted_proxies": ["x"]},
        {"users": tmp_path / "nothing"},
        {"users": tmp_path / "nothing", "auth": lambda _: None},
    ):
        with pytest.raises(ConfigurationError) as error:
            entrance(time, **options)
        assert "short" not in str(error.value)


def test_answers_let_nothing_in_from_elsewhere() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert "unsafe" not in policy
    for part in ("frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'", "connect-src 'self'"):
        assert part in policy
    assert HEADERS["Cache-Control"] == "no-store"
    assert HEADERS["X-Content-Type-Options"] == STATIC_HEADERS["X-Content-Type-Options"] == "nosniff"
    assert HEADERS["Referrer-Policy"] == "same-origin"
    assert "immutable" in STATIC_HEADERS["Cache-Control"]
