"""What is configured, and from where."""

from collections.abc import Iterator

import msgspec

from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import reads
from standfast.dashboard.shapes.settings import SettingSeen, SettingsSeen
from standfast.dashboard.shapes.words import NothingAsked
from standfast.settings import Loaded
from standfast.store.open import public_name
from standfast.words import standfast_version

_SIZES = {"recycle_memory": "bytes", "files_limit": "bytes", "keep_incidents_mb": "megabytes"}
"""Settings that are amounts of memory; all that are no whole numbers are spans in seconds."""


@reads("settings.show", "/settings")
async def show_settings(desk: Desk, asked: NothingAsked) -> SettingsSeen:  # noqa: ARG001 - there is nothing to ask
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
