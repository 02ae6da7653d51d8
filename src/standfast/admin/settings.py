"""What is configured, and from where."""

from collections.abc import Iterator

import msgspec

from standfast.admin.executor import OperationContext
from standfast.admin.fields import AnswerStruct, NothingAsked
from standfast.admin.operation import reads
from standfast.model.display import standfast_version
from standfast.settings import Loaded
from standfast.stores.url import public_name


class SettingSeen(AnswerStruct, frozen=True, kw_only=True):
    """A setting. `where` is default, code, or the file, variable or option that says so; passwords are masked.

    `unit` is that of a number which has one: seconds, bytes or megabytes.
    """

    name: str
    value: str
    where: str
    unit: str | None = None


class SettingsSeen(AnswerStruct, frozen=True, kw_only=True):
    """All settings of this dashboard, and of which release it is."""

    settings: tuple[SettingSeen, ...]
    store: str
    version: str
    read_only: bool


# What is configured, and from where.

_SIZES = {"recycle_memory": "bytes", "files_limit": "bytes", "keep_incidents_mb": "megabytes"}
"""Settings that are amounts of memory; all that are no whole numbers are spans in seconds."""


@reads("settings.show", "/settings")
async def show_settings(desk: OperationContext, asked: NothingAsked) -> SettingsSeen:  # noqa: ARG001 - there is nothing to ask
    """Show what is configured, and from where."""
    return SettingsSeen(
        settings=tuple(_settings(desk.office.loaded)),
        store=public_name(desk.office.loaded.settings.url),
        version=standfast_version(),
        read_only=desk.office.read_only,
    )


def _settings(loaded: Loaded) -> Iterator[SettingSeen]:
    for name, value in msgspec.structs.asdict(loaded.settings).items():
        told = public_name(value) if name == "url" else "none" if value is None else str(value)
        yield SettingSeen(
            name=name,
            value=told,
            where=loaded.where.get(name, "default"),
            unit=None if value is None else _SIZES.get(name, "seconds" if isinstance(value, float) else None),
        )
