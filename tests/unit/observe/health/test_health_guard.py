"""Who may ask about health, and how often: addresses, tokens, and buckets of bounded number."""

import socket
from http import HTTPStatus

import pytest

from standfast.errors import ConfigurationError
from standfast.observe.health import access
from standfast.observe.health.access import LOOPBACK, Guard, RateLimiter, check_token, read_networks, read_peer

TOKEN = "a-token-that-nobody-guesses"
RIGHT = [f"Bearer {TOKEN}".encode()]


class Time:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def time():
    return Time()


def guard(time, token=TOKEN, networks=(), rate=10.0):
    return Guard(token, read_networks(networks), rate, time)


def status(refusal):
    return None if refusal is None else refusal.status.value


class TestAddresses:
    @pytest.mark.parametrize("peer", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1"])
    def test_this_machine_however_its_address_is_written(self, time, peer):
        assert guard(time, None, LOOPBACK).refuse(peer, []) is None

    @pytest.mark.parametrize(
        "peer",
        ["10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "2001:db8::1", "128.0.0.1", "", None, "unix:", "localhost"],
    )
    def test_any_other(self, time, peer):
        """One without an address, on a Unix socket for one, is nowhere near either."""
        assert status(guard(time, None, LOOPBACK).refuse(peer, [])) == HTTPStatus.FORBIDDEN

    def test_without_a_token_set_no_token_helps(self, time):
        assert status(guard(time, None, LOOPBACK).refuse("10.0.0.1", RIGHT)) == HTTPStatus.FORBIDDEN

    def test_a_network_that_is_named_and_no_other(self, time):
        open_to = guard(time, None, ["10.1.0.0/16", "2001:db8::/32", "192.0.2.7"])
        near = ["10.1.255.1", "::ffff:10.1.0.9", "2001:db8::5", "192.0.2.7"]
        far = ["10.2.0.1", "192.0.2.8", "127.0.0.1", "::1"]
        assert [status(open_to.refuse(peer, [])) for peer in near] == [None] * 4
        assert [status(open_to.refuse(peer, [])) for peer in far] == [403] * 4

    @pytest.mark.parametrize("text", ["10.0.0.1/8", "everyone", "10.0.0.0/33", ""])
    def test_what_is_no_network_is_refused(self, text):
        with pytest.raises(ConfigurationError, match="is no network"):
            read_networks([text])
        with pytest.raises(ConfigurationError, match=r"write networks=\['10\.0\.0\.0/8'\]"):
            read_networks("10.0.0.0/8")

    def test_a_zone_is_no_part_of_an_address(self):
        assert str(read_peer("fe80::1%eth0")) == "fe80::1"


class TestNames:
    @pytest.mark.parametrize(
        "host",
        [
            *(b"localhost", b"LocalHost:8090", b"localhost.", b"shop.localhost:1", b"127.0.0.1:8090", b"10.0.0.7"),
            *(b"[::1]:8090", b"[fe80::1%eth0]", b"worker:9464", b"", socket.gethostname().encode()),
        ],
    )
    def test_this_machine_by_a_name_of_its_own(self, time, host):
        assert guard(time, None, LOOPBACK).refuse("127.0.0.1", [], [host]) is None

    @pytest.mark.parametrize(
        "host",
        [
            *(
                b"evil.example",
                b"evil.example:8090",
                b"127.0.0.1.evil.example",
                b"localhost.evil.example",
                b"1.2.3",
            ),
            *(b"EVIL.example.", b"[evil.example]:80", b"evil.example:80:80", b"\xff.example", b"a.b@localhost"),
        ],
    )
    def test_this_machine_by_a_name_of_somebody_else(self, time, host):
        """A page of that name, in a browser here, has asked: its name server says that it lives here."""
        for peer in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
            refused = guard(time, None, LOOPBACK).refuse(peer, [], [b"localhost", host])
            assert status(refused) == HTTPStatus.MISDIRECTED_REQUEST

    def test_with_the_token_by_any_name(self, time):
        """Pages do not know it."""
        both = guard(time, TOKEN, LOOPBACK)
        assert both.refuse("127.0.0.1", RIGHT, [b"evil.example"]) is None
        assert status(both.refuse("127.0.0.1", [], [b"evil.example"])) == HTTPStatus.UNAUTHORIZED

    def test_other_networks_by_any_name(self, time):
        """There it may have any."""
        open_to = guard(time, None, ["10.0.0.0/8"])
        assert open_to.refuse("10.0.0.1", [], [b"worker.jobs.svc.cluster.local:9464"]) is None
        assert status(open_to.refuse("127.0.0.1", [], [b"evil.example"])) == HTTPStatus.FORBIDDEN


class TestTokens:
    def test_the_right_one_from_anywhere(self, time):
        assert guard(time).refuse("203.0.113.9", RIGHT) is None
        assert guard(time).refuse(None, [b"bearer  " + TOKEN.encode()]) is None

    def test_none_is_asked_for(self, time):
        refusal = guard(time).refuse("127.0.0.1", [])
        assert status(refusal) == HTTPStatus.UNAUTHORIZED
        assert dict(refusal.headers) == {"WWW-Authenticate": 'Bearer realm="standfast"'}

    @pytest.mark.parametrize(
        "credentials",
        [
            [b"Bearer " + TOKEN[:-1].encode()],
            [b"Bearer " + TOKEN.encode() + b"x"],
            [b"Bearer"],
            [b"Bearer "],
            [b""],
            [b"Basic " + TOKEN.encode()],
            [TOKEN.encode()],
            [b"Bearer \xff\xfe"],
            [*RIGHT, b"Bearer other"],
            [*RIGHT, *RIGHT],
        ],
    )
    def test_a_wrong_one(self, time, credentials):
        refusal = guard(time).refuse("127.0.0.1", credentials)
        assert status(refusal) == HTTPStatus.UNAUTHORIZED
        assert 'error="invalid_token"' in dict(refusal.headers)["WWW-Authenticate"]

    def test_in_a_network_no_token_is_needed_elsewhere_it_is(self, time):
        both = guard(time, networks=["10.0.0.0/8"])
        assert both.refuse("10.0.0.1", []) is None
        assert both.refuse("203.0.113.9", RIGHT) is None
        assert status(both.refuse("203.0.113.9", [])) == HTTPStatus.UNAUTHORIZED

    @pytest.mark.parametrize("token", ["", "short", "with space in it all", "grüße-grüße-grüße", "a" * 20 + "\n"])
    def test_one_that_is_guessed_or_cannot_be_sent_is_refused_unsaid(self, token):
        with pytest.raises(ConfigurationError) as refused:
            check_token(token)
        assert not token or token not in str(refused.value)


class TestRates:
    def ask(self, guard, times, peer="127.0.0.1", credentials=RIGHT):
        return [status(guard.refuse(peer, credentials)) for _ in range(times)]

    def test_twice_the_rate_at_once_and_then_by_the_second(self, time):
        asked = guard(time, rate=5)
        assert self.ask(asked, 11) == [None] * 10 + [429]
        time.now += 0.2
        assert self.ask(asked, 2) == [None, 429]
        refusal = guard(time, rate=0.1).refuse
        told = [refusal("10.0.0.1", RIGHT) for _ in range(6)][-1]
        assert dict(told.headers) == {"Retry-After": "10"}

    def test_each_peer_has_its_own(self, time):
        asked = guard(time, rate=5)
        assert self.ask(asked, 11)[-1] == 429
        assert self.ask(asked, 1, "127.0.0.2") == [None]
        assert self.ask(asked, 1, "::ffff:127.0.0.1") == [429]

    def test_one_site_of_ipv6_is_one_peer(self, time):
        asked = guard(time, rate=5)
        codes = [status(asked.refuse(f"2001:db8::{number:x}", RIGHT)) for number in range(1, 12)]
        assert codes == [None] * 10 + [429]
        assert self.ask(asked, 1, "2001:db8:0:1::1") == [None]

    def test_wrong_tokens_cost_more(self, time):
        assert self.ask(guard(time, rate=5), 3, credentials=[b"Bearer wrong"]) == [401, 401, 429]

    def test_who_goes_on_guessing_waits_longer_and_the_right_token_does_not(self, time):
        asked = guard(time, rate=5)
        guesses = [asked.refuse("127.0.0.1", [b"Bearer wrong"]) for _ in range(6)]
        waits = [dict(refusal.headers).get("Retry-After") for refusal in guesses]
        assert waits == [None, None, "1", "2", "3", "4"]
        assert self.ask(asked, 1) == [None]
        for _ in range(1000):
            asked.refuse("127.0.0.1", [b"Bearer wrong"])
        time.now += 60.2
        assert self.ask(asked, 1, credentials=[]) == [401], "after a minute all is forgiven"

    def test_strangers_at_an_address_do_not_keep_out_who_has_the_token(self, time):
        """Behind a proxy they have it in common."""
        asked = guard(time, rate=5)
        assert self.ask(asked, 20, credentials=[])[-1] == 429
        assert self.ask(asked, 1) == [None]

    def test_foreign_ones_are_held_to_it_too(self, time):
        asked = guard(time, None, LOOPBACK, rate=5)
        assert self.ask(asked, 11, "10.0.0.1") == [403] * 10 + [429]

    def test_only_so_many_are_remembered(self, time, monkeypatch):
        monkeypatch.setattr(access, "MOST_REMEMBERED", 3)
        some = RateLimiter(1, 1, time)
        assert [some.take(name) for name in "abc"] == [0, 0, 0]
        assert some.take("a") == 1
        assert some.take("d") == 0
        assert len(some) == 3
        assert some.take("a") == 1, "who asked just now is remembered"
        assert some.take("b") == 0, "who asked longest ago is not"
