"""What a PostgreSQL URL means, and that no password comes out of it."""

import subprocess
import sys

import pytest

from standfast.errors import ConfigurationError
from standfast.stores.postgres.connect import libpq_parameters
from standfast.stores.postgres.url import parse_address, public_name

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "conninfo"),
    [
        ("postgresql://u:p@h:5432/db", "postgresql://u:p@h:5432/db"),
        ("postgres://h/db?schema=jobs&pool_size=3", "postgres://h/db"),
        ("POSTGRESQL://h/db?pooler=transaction&sslmode=require", "postgresql://h/db?sslmode=require"),
        ("postgresql:///db?host=/run/pg&schema=a&port=1", "postgresql:///db?host=/run/pg&port=1"),
        ("postgresql://h1:1,h2:2/db?target_session_attrs=read-write&schema=a",
         "postgresql://h1:1,h2:2/db?target_session_attrs=read-write"),
        ("postgresql://u:p%40%3A%2F@[::1]:5432/db", "postgresql://u:p%40%3A%2F@[::1]:5432/db"),
        ("postgresql://%2Frun%2Fpg/db", "postgresql://%2Frun%2Fpg/db"),
        ("postgresql://", "postgresql://"),
    ],
)  # fmt: skip
def test_libpq_gets_what_is_its_own(url, conninfo):
    """Our options are taken out, and nothing else is touched; libpq can read the rest."""
    address = parse_address(url)
    assert address.conninfo == conninfo
    libpq_parameters(address)


def test_our_options_are_read():
    """The schema, with the namespace behind it, and whether a pooler stands in between."""
    assert parse_address("postgresql://h/db").schema == "standfast"
    assert parse_address("postgresql://h/db", "shop").schema == "standfast_shop"
    address = parse_address("postgresql://h/db?schema=jobs&pooler=transaction", "shop")
    assert (address.schema, address.pooled) == ("jobs_shop", True)
    assert not parse_address("postgresql://h/db").pooled


@pytest.mark.parametrize(
    ("url", "hosts"), [("postgresql://a/db", 1), ("postgresql://a,b:2,c/db", 3), ("postgresql:///db?host=a,b", 2)]
)
def test_the_hosts_are_counted(url, hosts):
    """Each has its share of the time that connecting may take."""
    assert parse_address(url).hosts == hosts


@pytest.mark.parametrize(
    ("rest", "named"),
    [
        ("h:5432/db?schema=jobs", "postgresql://h:5432/db"),
        ("h1:1,h2:2/db", "postgresql://h1:1,h2:2/db"),
        ("/db?host=/run/pg&port=7", "postgresql:///db?host=/run/pg&port=7"),
        ("/db?host=h&port=7", "postgresql://h:7/db"),
        (f"/db?host=h&password={SECRET}", "postgresql://h/db"),
    ],
)
def test_people_see_where_it_is_and_no_password(rest, named):
    """Host, port and database; neither the user nor a password."""
    assert public_name(f"postgresql://user:{SECRET}@{rest}") == named
    assert SECRET not in repr(parse_address(f"postgresql://user:{SECRET}@{rest}"))


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        ("h/db?schema=", "schema"),
        ("h/db?schema=Jobs", "schema"),
        ("h/db?schema=a-b", "schema"),
        ("h/db?schema=" + "a" * 42, "41"),
        ("h/db?schema=pg_jobs", "schema"),
        ("h/db?schema=public", "cannot be public"),
        ("h/db?schema=information_schema", "cannot be information_schema"),
        ("h/db?schema=pg_catalog", "schema"),
        ("h/db?schema=a&schema=b", "twice"),
        ("h/db?pooler=session", "transaction"),
        ("h/db?pool_size=0", "from 1 to 9999"),
        ("h/db?pool_size=many", "from 1 to 9999"),
        ("h:65536/db", "port"),
        ("h:port/db", "host"),
        ("h/db/more", "read"),
        ("p@ss@h/db", "percent-encode"),
        ("h/db#fragment", "percent-encode"),
        ("h/db?unheard=of", "unheard"),
    ],
)
def test_nonsense_is_refused_without_repeating_it(rest, says):
    """One line that names what is wrong, and never the URL."""
    with pytest.raises(ConfigurationError, match=says) as told:
        libpq_parameters(parse_address(f"postgresql://user:{SECRET}@{rest}"))
    assert SECRET not in str(told.value)
    assert "\n" not in str(told.value)
    assert told.value.__cause__ is None


def test_too_long_a_name_is_refused():
    """PostgreSQL would cut it, and two stores might become one."""
    with pytest.raises(ConfigurationError, match="shorten"):
        parse_address(f"postgresql://h/db?schema={'a' * 41}", "b" * 31)


def test_an_address_is_read_without_the_driver():
    """The URL is checked before anybody needs psycopg."""
    script = (
        "import sys, standfast.stores.postgres.url as a; a.parse_address('postgresql://h/db');"
        " assert 'psycopg' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
