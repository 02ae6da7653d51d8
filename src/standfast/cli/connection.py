"""Which store a command means, and opening it. A store that is not there is an error, never a new empty one."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec

import click

from standfast.cli.failures import DEBUG
from standfast.cli.options import F, given
from standfast.errors import ConfigurationError
from standfast.settings import Loaded, Settings, read_settings
from standfast.store.backend import Backend
from standfast.store.open import check_url, open_backend, public_name, refuse_missing_store

P = ParamSpec("P")

_URL, _NAMESPACE, _JSON = "standfast.url", "standfast.namespace", "standfast.json"


@dataclass(frozen=True, slots=True)
class Wanted:
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
        settings = self.settings
        tenant = "" if settings.namespace is None else f", namespace '{settings.namespace}'"
        return f"{public_name(settings.url)}{tenant}"

    def store(self) -> AbstractContextManager[Backend]:
        """Open the store, which must exist, and close it at the end."""
        return existing_store(self.settings)


@contextmanager
def existing_store(settings: Settings) -> Iterator[Backend]:
    """Open a store, which must exist, and close it at the end."""
    refuse_missing_store(settings)
    backend = open_backend(settings)
    try:
        yield backend
    finally:
        backend.close()


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

_store_options = given(
    _remembered(
        "--url", _URL, metavar="URL", help="The store.  [default: $STANDFAST_URL, else sqlite:///standfast.db]"
    ),
    _remembered("--namespace", _NAMESPACE, metavar="NAME", help="The tenant inside the store."),
    _remembered("--json", _JSON, is_flag=True, help="Answer in JSON."),
    debug_option,
)


def about_a_store(command: Callable[Concatenate[Wanted, P], None]) -> Callable[P, None]:
    """Give a command the options that every data command has; it receives them as one `Wanted`."""

    @wraps(command)
    def with_wanted(*args: P.args, **kwargs: P.kwargs) -> None:
        memory = click.get_current_context().meta
        wanted = Wanted(memory.get(_URL), memory.get(_NAMESPACE), memory.get(_JSON, False))
        command(wanted, *args, **kwargs)

    return _store_options(with_wanted)
