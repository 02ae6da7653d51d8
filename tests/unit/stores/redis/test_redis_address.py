"""What a Redis URL says, and that a wrong one is refused without a word of it."""

import pytest

from standfast.errors import ConfigurationError
from standfast.stores.redis.url import Endpoint, Kind, Login, parse_address, public_name


@pytest.mark.parametrize(
    ("url", "kind", "places", "db"),
    [
        ("redis://host", Kind.SERVER, [Endpoint("host", 6379)], 0),
        ("redis://host:7000/3", Kind.SERVER, [Endpoint("host", 7000)], 3),
        ("valkey://host?db=4", Kind.SERVER, [Endpoint("host", 6379)], 4),
        ("redis://[::1]:7000/0", Kind.SERVER, [Endpoint("::1", 7000)], 0),
        ("unix:///run/redis%20one.sock?db=2", Kind.SOCKET, [Endpoint(path="/run/redis one.sock")], 2),
        ("redis+cluster://a:7000,b", Kind.CLUSTER, [Endpoint("a", 7000), Endpoint("b", 6379)], 0),
        ("redis+sentinel://a,b:7000/main/2", Kind.SENTINEL, [Endpoint("a", 26379), Endpoint("b", 7000)], 2),
    ],
)
def test_where_a_store_is(url: str, kind: Kind, places: list[Endpoint], db: int) -> None:
    """Each kind of URL names its places and the database."""
    address = parse_address(url)
    assert (address.kind, list(address.places), address.db) == (kind, places, db)


def test_who_logs_in() -> None:
    """User and password are decoded, and may be left out."""
    assert parse_address("redis://me:p%40ss%2Fw%23d@host").login == Login("me", "p@ss/w#d")
    assert parse_address("redis://:pass@host").login == Login(None, "pass")
    assert parse_address("redis://host").login == Login()
    assert parse_address("unix:///run/s?password=x").login == Login(None, "x")
    sentinel = parse_address("redis+sentinel://me:one@host/main?sentinel_password=two")
    assert (sentinel.login, sentinel.sentinel_login) == (Login("me", "one"), Login(None, "two"))


def test_tls_by_the_scheme() -> None:
    """An s asks for TLS, and only then may it have options."""
    assert not parse_address("redis://host").tls
    address = parse_address("rediss://host?ssl_ca_certs=/ca.pem&ssl_check_hostname=false")
    assert address.tls
    assert address.tls_options == {"ssl_ca_certs": "/ca.pem", "ssl_check_hostname": False}
    assert parse_address("valkeys+cluster://host").tls
    with pytest.raises(ConfigurationError, match="means nothing here: ssl_ca_certs; known are: db"):
        parse_address("redis://host?ssl_ca_certs=/ca.pem")


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hunter2/3",
        "redis://hunter2#x@host/0",
        "redis://:hunter2#x@host/0",
        "redis://hunter2/x@host/0",
        "redis://me:hunter2?x@host/0",
        "redis://hunter2:99999/0",
        "redis://me:hunter2@host:port/0",
        "redis://me:hunter2@/0",
        "redis://me:hunter2@[::1/0",
        "redis://me:hunter2@host/hunter2",
        "redis://me:hunter2@host/0/1",
        "redis://me:hunter2@host/1?db=1",
        "redis://me:hunter2@host?hunter2=1",
        "redis://me:hunter 2@host",
        "redis://me:hunter2\n@host",
        "redis:me:hunter2@host",
        "rediss://me:hunter2@host?ssl_cert_reqs=hunter2",
        "rediss://me:hunter2@host?ssl_check_hostname=hunter2",
        "redis+cluster://me:hunter2@host/1",
        "redis+cluster://me:hunter2@host,",
        "redis+sentinel://me:hunter2@host",
        "unix://hunter2/run/redis.sock",
        "unix://me:hunter2@/",
        "http://me:hunter2@host",
    ],
)
def test_a_wrong_url_is_refused_in_one_line_without_repeating_it(url: str) -> None:
    """What stands in a URL, in whatever place, may be a password."""
    with pytest.raises(ConfigurationError) as refused:
        parse_address(url)
    assert "hunter" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert "\n" not in str(refused.value)


def test_a_key_without_its_certificate() -> None:
    """Neither the library nor the server could do anything with it."""
    with pytest.raises(ConfigurationError, match="ssl_keyfile without ssl_certfile"):
        parse_address("rediss://host?ssl_keyfile=/key.pem")


def test_an_unknown_option_is_named_without_its_value() -> None:
    """It may be misspelt."""
    with pytest.raises(ConfigurationError, match=r"here: bar, foo; known are: db$"):
        parse_address("redis://host?foo=hunter2&bar=1")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("redis://me:hunter2@host:7000/3", "redis host:7000/3"),
        ("unix://me:hunter2@/run/redis.sock", "redis /run/redis.sock/0"),
        ("redis+cluster://:hunter2@a,b:7000", "redis cluster a:6379,b:7000"),
        ("redis+sentinel://:hunter2@a/main/1?sentinel_password=hunter2", "redis main/1 of sentinel a:26379"),
    ],
)
def test_a_name_for_people(url: str, name: str) -> None:
    """It says where the store is and hides who logs in, as the address itself does when it is printed."""
    assert public_name(url) == name
    assert "hunter2" not in repr(parse_address(url))
