"""The door of a counted store: that of the store inside, with a journal beside it."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from game.counted.address import CountedUrl
from standfast.model.clock import Clock
from standfast.settings import Settings
from standfast.stores.backend import Backend
from standfast.stores.url import store_kind

if TYPE_CHECKING:  # an app does not look at stores: it need not load the words for it
    from pathlib import Path

    from standfast.stores.doctor import Examination
    from standfast.stores.url import Copies, Migrator


class CountedKind:
    """For counted+sqlite:///jobs.db#calls=calls.jsonl and the like of it."""

    def check(self, url: str) -> None:
        """Refuse a URL that says not where to write, or names no store."""
        inner = CountedUrl.parse(url).inner
        store_kind(inner).check(inner)

    def public_name(self, url: str) -> str:
        """Return the name of the store inside."""
        inner = CountedUrl.parse(url).inner
        return store_kind(inner).public_name(inner)

    def absolute(self, url: str) -> str:
        """Return the URL as it reads from any folder."""
        counted = CountedUrl.parse(url)
        inner = store_kind(counted.inner).absolute(counted.inner)
        return str(replace(counted, inner=inner, calls=counted.calls.absolute()))

    def open(self, settings: Settings, clock: Clock) -> Backend:
        """Return the store, counted."""
        from game.counted.backend import CountedBackend, PassiveBackend  # noqa: PLC0415 - as elsewhere
        from game.counted.journal import Journal  # noqa: PLC0415

        counted = CountedUrl.parse(settings.url)
        inner = store_kind(counted.inner).open(_inside(settings), clock)
        kind = PassiveBackend if counted.passive else CountedBackend
        return kind(inner, Journal(counted.calls.absolute()))

    def refuse_missing(self, settings: Settings) -> None:
        """Refuse what the store inside refuses."""
        inside = _inside(settings)
        store_kind(inside.url).refuse_missing(inside)

    def examine(self, settings: Settings, clock: Clock, *, deep: bool) -> "Examination":
        """Look at the store inside."""
        inside = _inside(settings)
        return store_kind(inside.url).examine(inside, clock, deep=deep)

    def files_beside(self, url: str) -> "Path | None":
        """Return that of the store inside."""
        inner = CountedUrl.parse(url).inner
        return store_kind(inner).files_beside(inner)

    def migrator(self, settings: Settings) -> "Migrator | None":
        """Return what brings the tables of the store inside to this release."""
        inside = _inside(settings)
        return store_kind(inside.url).migrator(inside)

    def copies(self, settings: Settings) -> "Copies":
        """Return what copies the store inside."""
        inside = _inside(settings)
        return store_kind(inside.url).copies(inside)


def _inside(settings: Settings) -> Settings:
    return replace(settings, url=CountedUrl.parse(settings.url).inner)


KIND = CountedKind()
