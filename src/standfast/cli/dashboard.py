"""`standfast dashboard`: look at jobs, workers and schedules in a browser, and act."""

import re
import shlex
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from standfast.cli.connection import (
    LazyStore,
    StoreOptions,
    app_dir_option,
    examples,
    find_target,
    store_options,
    target_argument,
)
from standfast.cli.exit_codes import wrong_usage
from standfast.cli.output import say
from standfast.dashboard.access.credentials import read_tokens
from standfast.errors import ConfigurationError
from standfast.model.display import install
from standfast.observe.health.access import LOOPBACK, read_networks
from standfast.observe.health.http_server import is_of_this_machine

if TYPE_CHECKING:
    from standfast.dashboard.dashboard import Dashboard


_ROLES = ("viewer", "operator", "admin")
_NEEDED = ("starlette", "uvicorn", "jinja2", "argon2")


@click.command(
    epilog=examples(
        "standfast dashboard",
        "standfast dashboard myproject.jobs:app --port 9000",
        "standfast dashboard --url redis://queue.example:6379/0 --read-only",
        "standfast dashboard --users dashboard.users --add-user ada --role operator",
        "standfast dashboard --host 0.0.0.0 --users dashboard.users --allow 10.0.0.0/8",
    )
)
@target_argument
@app_dir_option
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Where to listen.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), metavar="N", help="Its port.  [default: 8080, or one that is free]"
)
@click.option("--users", type=click.Path(dir_okay=False), metavar="FILE", help="Who may sign in with a password.")
@click.option("--token-file", type=click.Path(dir_okay=False), metavar="FILE", help="Who may come with a token.")
@click.option(
    "--allow", multiple=True, metavar="CIDR", help="Who may come, by their address; may be given several times."
)
@click.option("--name", "names", multiple=True, metavar="HOST", help="A name of it, besides those of this machine.")
@click.option("--proxy", "proxies", multiple=True, metavar="CIDR", help="A proxy whose X-Forwarded headers count.")
@click.option("--prefix", default="", metavar="/PATH", help="Below which path it is.")
@click.option("--read-only", is_flag=True, help="Show, and let nobody change anything.")
@click.option("--add-user", metavar="NAME", help="Add somebody to --users, or give a new password; and end.")
@click.option("--role", type=click.Choice(_ROLES), default="viewer", help="What --add-user may do.")
@click.option(
    "--grant",
    "grants",
    multiple=True,
    metavar="OPERATION",
    help="What --add-user may do besides, e.g. jobs.discard; may be given several times.",
)
@store_options
def dashboard(
    wanted: StoreOptions,
    /,
    *,
    target: str | None,
    app_dir: str,
    host: str,
    port: int | None,
    users: str | None,
    token_file: str | None,
    allow: tuple[str, ...],
    names: tuple[str, ...],
    proxies: tuple[str, ...],
    prefix: str,
    read_only: bool,
    add_user: str | None,
    role: str,
    grants: tuple[str, ...],
) -> None:
    """Serve the dashboard.

    Only this machine may come, with the link that is printed: it works once, for ten minutes. For others give
    --users or --token-file, with which there are no links, and who may come with --allow. With MODULE:APP the
    settings are those of the app.
    """
    need_the_extra()
    from standfast.dashboard.dashboard import Dashboard  # noqa: PLC0415 - needs the extra
    from standfast.dashboard.serving.server import ConnectionLimit, open_port, serve, url_of  # noqa: PLC0415 - likewise

    if add_user is not None:
        _write_user(users, add_user, role, grants)
        return
    is_ours = is_of_this_machine(host, port or 0)
    if not (users or token_file or is_ours):
        raise wrong_usage(
            f"--host {host} is reached from other machines: say who may sign in, with --users or --token-file"
        )
    elsewhere = [each for each in read_networks((*allow, *proxies)) if proxies or not each.is_loopback]
    if elsewhere and not (users or token_file):
        option = "--proxy" if proxies else "--allow"
        raise wrong_usage(f"with {option} others may come: say who may sign in, with --users or --token-file")
    with_link = is_ours and not (users or token_file)
    if users is not None and not Path(users).exists():
        hint = f"`standfast dashboard --users {shlex.quote(users)} --add-user NAME` makes it"
        raise ConfigurationError(f"cannot read {users}: No such file or directory; {hint}")
    tokens = None if token_file is None else read_tokens(Path(token_file))
    store = LazyStore(find_target(wanted, target, app_dir).loaded, created=target is not None)
    store.check()
    below = check_prefix(prefix)
    try:
        with open_port(host, port) as listening:
            url, networks = f"{url_of(listening)}{below}", allow or (LOOPBACK if is_ours else None)
            shown = Dashboard(
                store,
                users=users,
                tokens=tokens,
                networks=networks,
                hosts=names or (() if is_ours else None),
                trusted_proxies=proxies,
                read_only=read_only,
                prefix=below,
                links=partial(_tell_link, url) if with_link else None,
            )
            with ConnectionLimit(listening, networks=networks, proxies=proxies) as gate:
                serve(shown.asgi, gate, partial(_tell, url, shown, with_link=with_link))
    finally:
        store.close()


def _write_user(users: str | None, name: str, role: str, grants: tuple[str, ...]) -> None:
    from standfast.admin.operation import Role  # noqa: PLC0415 - likewise
    from standfast.admin.registry import BY_NAME  # noqa: PLC0415 - likewise
    from standfast.dashboard.access.users import SHORTEST_PASSWORD, add_user, check_name  # noqa: PLC0415 - likewise

    if users is None:
        raise wrong_usage("--add-user writes into a file: name it with --users FILE")
    if unknown := [grant for grant in grants if grant not in BY_NAME]:
        raise wrong_usage(f"--grant {unknown[0]} is no operation of the dashboard such as jobs.discard")
    check_name(name)
    asked = f"A password for {name}, of {SHORTEST_PASSWORD} characters or more"
    try:
        password = click.prompt(asked, hide_input=True, confirmation_prompt=True, value_proc=_long_enough)
    except click.Abort as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise
        raise wrong_usage("--add-user asks for a password, and got none: run it at a terminal") from error
    add_user(Path(users), name, Role[role.upper()], password, grants=grants)
    say(f"{name} may sign in as {role}; {users} is read again by itself.")


def _long_enough(password: str) -> str:
    from standfast.dashboard.access.users import check_password  # noqa: PLC0415 - needs the extra

    try:
        return check_password(password)
    except ConfigurationError as error:
        raise click.BadParameter(str(error)) from error


def _tell(url: str, shown: "Dashboard", *, with_link: bool) -> None:
    click.echo(f"The dashboard is at {url}/")
    if with_link:
        _tell_link(url, shown.new_link())


def _tell_link(url: str, path: str) -> None:
    """Say it in one line, however long it is: people click on it."""
    click.echo(f"Open the dashboard: {url}{path}  (works once, for ten minutes)")


def check_prefix(prefix: str) -> str:
    """Return the path below which the dashboard is. Raises what wrong usage does."""
    if prefix and not re.fullmatch(r"(/[\w~-][\w.~-]*)+", prefix, re.ASCII):
        raise wrong_usage(f"--prefix {prefix!r} is no path such as /jobs")
    return prefix


def need_the_extra() -> None:
    """Raise ConfigurationError where what the dashboard needs is not installed."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigurationError(f"the dashboard needs {', '.join(missing)}: install it with `{install('web')}`")
