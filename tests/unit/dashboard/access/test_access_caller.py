"""Where requests come from, by which name, and whether their writes are our own pages'."""

import pytest

from standfast.dashboard.access.caller import (
    check_host,
    is_host_known,
    local_path,
    origins_of,
    read_caller,
    refuse_origin,
)
from standfast.observe.health.access import read_networks

PROXIES = read_networks(["10.0.0.0/8", "127.0.0.1"])
FORWARDED = {
    "host": ["jobs.example"],
    "x-forwarded-for": ["6.6.6.6, 192.0.2.9", "10.0.0.7"],
    "x-forwarded-proto": ["http, https"],
    "x-forwarded-prefix": ["/tools/jobs/"],
}


def test_headers_of_strangers_are_not_read() -> None:
    """Who is no trusted proxy is who their connection says."""
    caller = read_caller("192.0.2.1", "http", FORWARDED, PROXIES)
    assert (str(caller.address), caller.scheme, caller.prefix) == ("192.0.2.1", "http", "")
    assert read_caller("127.0.0.1", "http", FORWARDED).prefix == ""


def test_of_a_trusted_proxy_the_first_address_that_is_no_proxy_counts() -> None:
    """What stands before it is a stranger's word."""
    caller = read_caller("10.0.0.8", "http", FORWARDED, PROXIES)
    assert (str(caller.address), caller.scheme, caller.prefix) == ("192.0.2.9", "https", "/tools/jobs")
    assert str(caller.peer) == "10.0.0.8"
    for told, meant in [("[2001:db8::1]:99", "2001:db8::1"), ("192.0.2.3:99", "192.0.2.3"), ("rubbish", "None")]:
        assert str(read_caller("10.0.0.8", "http", {"x-forwarded-for": [told]}, PROXIES).address) == meant


@pytest.mark.parametrize("prefix", ["//evil", "/../x", "/a/./b", "/a\r\nb", "evil", "/a b", "/" + "a" * 300, "/ü"])
def test_a_prefix_that_is_no_path_is_not_taken(prefix) -> None:
    assert read_caller("10.0.0.8", "http", {"x-forwarded-prefix": [prefix]}, PROXIES).prefix == ""


@pytest.mark.parametrize(
    ("peer", "host", "known"),
    [
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "LOCALHOST:1", True),
        ("::1", "[::1]:8080", True),
        ("127.0.0.1", "127.0.0.1:8080", True),
        ("127.0.0.1", "evil.example", False),
        ("127.0.0.1", "127.0.0.1.evil.example", False),
        ("127.0.0.1", "localhost:8080@evil.example", False),
        ("127.0.0.1", "localhost:8080/x", False),
        ("127.0.0.1", "", False),
        ("192.0.2.1", "localhost", False),
        ("192.0.2.1", "jobs.example:9", True),
        ("192.0.2.1", "other.example:81", True),
        ("192.0.2.1", "other.example", False),
    ],
)
def test_only_our_own_names_are_answered(peer, host, known) -> None:
    """A name server that says that evil.example is this machine does not make its pages ours."""
    caller = read_caller(peer, "http", {"host": [host]})
    assert is_host_known(caller, ["jobs.example", "other.example:81"]) is known


def test_two_names_are_none() -> None:
    assert not is_host_known(read_caller("127.0.0.1", "http", {"host": ["localhost", "localhost"]}), [])


def test_names_are_checked_when_given() -> None:
    assert check_host(" Jobs.Example ") == "jobs.example"
    assert check_host("::1") == "[::1]"
    for bad in ("http://x", "a b", "x/y", "", "[zz]"):
        with pytest.raises(ValueError):  # noqa: PT011 - any
            check_host(bad)


OURS = origins_of(read_caller("127.0.0.1", "https", {"host": ["jobs.example:443"]}), ["public.example"])


@pytest.mark.parametrize(
    ("headers", "page", "program"),
    [
        ({}, False, True),
        ({"sec-fetch-site": "same-origin"}, True, True),
        ({"origin": "https://jobs.example"}, True, True),
        ({"origin": "https://public.example"}, True, True),
        ({"sec-fetch-site": "same-origin", "origin": "https://jobs.example"}, True, True),
        ({"sec-fetch-site": "none"}, False, True),
        ({"sec-fetch-site": "same-site", "origin": "https://jobs.example"}, False, False),
        ({"sec-fetch-site": "cross-site"}, False, False),
        ({"sec-fetch-site": "same-origin", "origin": "https://evil.example"}, False, False),
        ({"origin": "http://jobs.example"}, False, False),
        ({"origin": "https://jobs.example:8443"}, False, False),
        ({"origin": "https://public.example:8443"}, False, False),
        ({"origin": "null"}, False, False),
        ({"origin": ""}, False, False),
    ],
)
def test_a_write_must_come_from_our_own_origin(headers, page, program) -> None:
    """Of pages it must be shown; programs that say nothing are no browsers."""
    given = {name: [value] for name, value in headers.items()}
    assert (refuse_origin(given, OURS, needs_proof=True) is None) is page
    assert (refuse_origin(given, OURS, needs_proof=False) is None) is program


def test_of_several_origins_each_must_be_ours() -> None:
    both = {"origin": ["https://jobs.example", "https://evil.example"]}
    assert refuse_origin(both, OURS, needs_proof=True) is not None


@pytest.mark.parametrize("path", ["/x/", "/x/jobs", "/x/jobs?state=dead&task=a%20b#top", "/x/jobs?back=//a/../b"])
def test_one_is_sent_back_to_where_one_was(path) -> None:
    assert local_path(path, "/x") == path


@pytest.mark.parametrize(
    "path",
    [
        None,
        "",
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "/x//evil.example",
        "/x/../other",
        "/x/%2e%2E/other",
        "/x/..%2fother",
        "/xy",
        "/other",
        "/x/a\r\nSet-Cookie: b",
        "/x/a b",
        "/x/\\evil",
        "/x/\tevil",
        "/x/" + "a" * 3000,
        "/x",
        '/x/"',
    ],
)
def test_nobody_is_sent_elsewhere(path) -> None:
    assert local_path(path, "/x") == "/x/"
