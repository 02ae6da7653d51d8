"""Options that several commands have, how a command is given several of them, and the tail of its help."""

import getpass
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from standfast.cli.exit_codes import DEBUG
from standfast.errors import ConfigurationError
from standfast.model.configuration import Settings
from standfast.settings import Loaded, read_settings
from standfast.stores.backend import Backend
from standfast.stores.contract import Store
from standfast.stores.url import absolute_url, check_url, open_backend, public_name, refuse_missing_store
from standfast.stores.verb import Verb

if TYPE_CHECKING:
    from standfast.admin.executor import AdminSession
    from standfast.admin.operation import Answer, Asked, Operation
    from standfast.app import Standfast


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def given(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Give a command options, which its help shows in this order."""

    def give(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return give


def examples(*lines: str) -> str:
    """Return an epilog of examples that click leaves as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


class ListGroup(click.Group):
    """A group that runs its command `list` where no command is named."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"invoke_without_command": True} | options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        answer = super().invoke(ctx)
        return answer if ctx.invoked_subcommand else ctx.invoke(self.commands["list"])


page_options = given(
    click.option("--limit", type=click.IntRange(min=1), default=50, help="At most so many."),
    click.option("--before", metavar="ID", help="Only jobs older than this one: the next page."),
)

tz_option = click.option(
    "--tz", metavar="ZONE", help="Read times without a zone by the clock of this one: Asia/Taipei."
)

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


# Which store a command means, and opening it. A store that is not there is an error, never a new empty one.

P = ParamSpec("P")

_URL, _NAMESPACE, _JSON = "standfast.url", "standfast.namespace", "standfast.json"


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Which store a command is about, and whether its answer is for a program."""

    url: str | None = None
    namespace: str | None = None
    as_json: bool = False

    @property
    def settings(self) -> Settings:
        """The settings meant."""
        return self.loaded.settings

    @property
    def loaded(self) -> Loaded:
        """The settings meant and where they come from; what the command line says goes before all else."""
        options = {"url": self.url, "namespace": self.namespace}
        return read_settings(options=options, url_check=check_url)

    @property
    def place(self) -> str:
        """The store in words that tell it from every other, without what is secret in its URL."""
        return place_of(self.settings)

    def store(self) -> AbstractContextManager[Backend]:
        """Open the store, which must exist, and close it at the end."""
        return existing_store(self.settings)

    def admin(self) -> "AbstractContextManager[AdminSession]":
        """Open the store, which must exist, to run operations on it as the person who runs this command."""
        return open_admin(self.loaded)

    def run(self, operation: "Operation[Asked, Answer]", asked: "Asked | None" = None) -> "Answer":
        """Run one operation on the store, which must exist."""
        with self.admin() as session:
            return session.run(operation, asked)


@contextmanager
def open_admin(loaded: Loaded) -> "Iterator[AdminSession]":
    """Open the store of these settings, which must exist, to run operations on it as who runs this command."""
    from standfast.admin.executor import AdminSession, OpenStore  # noqa: PLC0415 - not all commands need them
    from standfast.admin.operation import NotThereError, Role, User  # noqa: PLC0415 - likewise

    with existing_store(loaded.settings) as backend:
        shown = OpenStore(backend, loaded.settings, loaded.where)
        with closing(AdminSession(shown, User(person(), Role.ADMIN), "command line")) as session:
            try:
                yield session
            except NotThereError as error:
                raise NotThereError(f"{error} (in {place_of(loaded.settings)})") from error


def place_of(settings: Settings) -> str:
    """Return the store in words that tell it from every other, without what is secret in its URL."""
    tenant = "" if settings.namespace is None else f", namespace '{settings.namespace}'"
    return f"{public_name(settings.url)}{tenant}"


def person() -> str:
    """Return who runs this command: a name, or a number where the user of a container has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


@contextmanager
def existing_store(settings: Settings) -> Iterator[Backend]:
    """Open a store, which must exist, and close it at the end."""
    refuse_missing_store(settings)
    backend = open_backend(settings)
    try:
        yield backend
    finally:
        backend.close()


class LazyStore:
    """A store that is opened when it is first looked at. One that is missing is an error then, unless it is `created`.

    Raises ConfigurationError for a store that lives in another process.
    """

    def __init__(self, loaded: Loaded, *, created: bool = False) -> None:
        absolute_url(loaded.settings.url)
        self.settings, self.settings_from = loaded.settings, loaded.where
        self._created = created
        self._backend: Backend | None = None

    def check(self) -> None:
        """Refuse a store that is missing."""
        if not self._created:
            refuse_missing_store(self.settings)

    @property
    def backend(self) -> Backend:
        """The open store."""
        if self._backend is None:
            self.check()
            self._backend = open_backend(self.settings)
        return self._backend

    @property
    def verbs(self) -> Store:
        """What it can do."""
        return self.backend.verbs

    def call(self, verb: Verb[T]) -> T:
        """Run a verb."""
        return self.backend.run(verb)

    def close(self) -> None:
        """Let go of it."""
        if self._backend is not None:
            self._backend.close()


def refuse_empty(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
    """Refuse an option with nothing in it: most likely it is a variable in quotes that is not set."""
    if value == "":
        raise click.UsageError(f"{parameter.opts[0]} is empty: give a value, or leave the option out", ctx)


def check_given_url(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse here what the children would refuse: they are told of it by a variable, and would blame that."""
    refuse_empty(ctx, parameter, value)
    if value is not None:
        try:
            check_url(value)
        except ConfigurationError as error:
            raise ConfigurationError(f"url (from --url): {error}") from error
    return value


def _remembered(name: str, key: str, **how: Any) -> Callable[[F], F]:
    """Return an option whose value is kept where the commands below find it; the last one wins."""

    def remember(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
        refuse_empty(ctx, parameter, value)
        if value:
            ctx.meta[key] = value

    return click.option(name, expose_value=False, callback=remember, **how)


debug_option = _remembered("--debug", DEBUG, is_flag=True, is_eager=True, help="Show the traceback of an error.")

_shared_options = given(
    _remembered(
        "--url", _URL, metavar="URL", help="The store.  [default: $STANDFAST_URL, else sqlite:///standfast.db]"
    ),
    _remembered("--namespace", _NAMESPACE, metavar="NAME", help="The tenant inside the store."),
    _remembered("--json", _JSON, is_flag=True, help="Answer in JSON."),
    debug_option,
)


def store_options(command: Callable[Concatenate[StoreOptions, P], None]) -> Callable[P, None]:
    """Give a command the options that every data command has; it receives them as one `StoreOptions`."""

    @wraps(command)
    def with_wanted(*args: P.args, **kwargs: P.kwargs) -> None:
        memory = click.get_current_context().meta
        wanted = StoreOptions(memory.get(_URL), memory.get(_NAMESPACE), memory.get(_JSON, False))
        command(wanted, *args, **kwargs)

    return _shared_options(with_wanted)


# The app that a command is about: MODULE:APP, where MODULE is looked for, and the settings that count.

_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def check_target(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse what is not MODULE:APP before anything is imported."""
    if value is not None and not _TARGET.fullmatch(value):
        raise click.BadParameter(f"'{value}' is not MODULE:APP, as in `standfast worker myproject.jobs:app`")
    return value


app_dir_option = click.option(
    "--app-dir",
    type=click.Path(exists=True, file_okay=False),
    default=".",
    help="Where MODULE is looked for first.",
)

target_argument = click.argument("target", metavar="[MODULE:APP]", required=False, callback=check_target)


@dataclass(frozen=True, slots=True)
class AppTarget:
    """What a command is about: settings with their origins; the app that they are of, if one is named; its name."""

    loaded: Loaded
    app: "Standfast | None"
    name: str


def find_target(wanted: StoreOptions, target: str | None, app_dir: str) -> AppTarget:
    """Import the app, if one is named; the options of the command line go before its settings."""
    if target is None:
        return AppTarget(wanted.loaded, None, wanted.loaded.settings.name or "")
    from standfast.hosts.loader import load_app  # noqa: PLC0415 - only who names an app needs it

    app = load_app(target, app_dir)
    loaded = Loaded(app.settings, app.settings_from)
    return AppTarget(
        loaded.overridden(url=wanted.url, namespace=wanted.namespace), app, app.settings.name or target
    )
