"""`standfast migrate` makes and updates tables, and shows before what it would do."""

import json
import sqlite3
from contextlib import closing

import psycopg
import pytest
from click.testing import CliRunner

from standfast.cli.main import cli
from standfast.stores.postgres.url import parse_address


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    """A store that is not there yet."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path / 'new.db'}"


def migrate(url, *args):
    return CliRunner().invoke(cli, ["migrate", *args, "--url", url], prog_name="standfast")


def asked(url, *args):
    done = migrate(url, "--json", *args)
    assert done.exit_code in {0, 1}, done.output
    return json.loads(done.stdout)


def missing(answer):
    return sum(tables["missing"] for tables in answer["tables"])


def test_status_plan_and_migration(url):
    """Looking changes nothing; the migration is done once; afterwards there is nothing to do."""
    before = migrate(url, "--status")
    assert (before.exit_code, "to apply" in before.stdout) == (1, True)
    lacking = missing(asked(url, "--status"))
    assert lacking > 0
    assert "CREATE TABLE" in migrate(url, "--plan").stdout
    assert asked(url)["applied"] == lacking
    assert asked(url)["applied"] == 0
    after = migrate(url, "--status")
    assert (after.exit_code, "up to date" in after.stdout) == (0, True)
    assert "CREATE TABLE" not in migrate(url, "--plan").stdout


def test_two_questions_at_once_are_refused(url):
    """And it is said where the help of this command is."""
    refused = migrate(url, "--plan", "--status")
    assert refused.exit_code == 2
    assert "ask one (see `standfast migrate --help`)" in refused.stderr


def test_the_words_for_people(url):
    """What was done, in a sentence."""
    assert "applied" in migrate(url).stdout
    assert "Nothing to do" in migrate(url).stdout


def test_a_plan_is_sql_that_runs(tmp_path, postgres_url):
    """It is fed to another tool as it is, and leaves a store that is ready."""
    with psycopg.connect(parse_address(postgres_url).conninfo, autocommit=True) as own:
        own.execute(migrate(postgres_url, "--plan").stdout)
    assert migrate(postgres_url, "--status").exit_code == 0
    url = f"sqlite:///{tmp_path / 'new.db'}"
    for tables in asked(url, "--plan")["tables"]:
        with closing(sqlite3.connect(tables["name"])) as own:
            own.executescript(tables["sql"])
    assert migrate(url, "--status").exit_code == 0


def test_tables_of_the_future_are_left_alone(url):
    """The status says so with an exit code of its own, and a migration is refused in one line."""
    migrate(url)
    make_new(url)
    status = migrate(url, "--status")
    assert (status.exit_code, "newer release" in status.stdout) == (3, True)
    refused = migrate(url)
    assert refused.exit_code == 3
    assert "upgrade standfast" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def make_new(url):
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as own:
            own.execute("UPDATE standfast_schema SET version = 99")
            own.commit()
        return
    address = parse_address(url)
    with psycopg.connect(address.conninfo, autocommit=True) as own:
        own.execute(f'UPDATE "{address.schema}".schema_version SET version = 99, oldest = 99')


def test_two_questions_are_one_too_many(url):
    """The usage is told, and nothing is made."""
    done = migrate(url, "--plan", "--status")
    assert done.exit_code == 2
    assert missing(asked(url, "--status")) > 0


def test_a_store_without_tables_has_nothing_to_migrate():
    """That is no error."""
    for url in ("memory://", "redis://127.0.0.1:1/0"):
        done = migrate(url)
        assert (done.exit_code, "nothing to migrate" in done.stdout) == (0, True)
        assert asked(url)["tables"] == []


def test_a_wrong_password_is_told_in_one_line(postgres_url):
    """With the exit code for a store that cannot be used, and without the password."""
    scheme, _, rest = postgres_url.partition("://")
    done = migrate(f"{scheme}://standfast:wr0ng-one@{rest.partition('@')[2]}")
    assert done.exit_code == 3
    assert len(done.stderr.splitlines()) == 1
    assert "password" in done.stderr
    assert "wr0ng-one" not in done.output
