"""What is configured, and from where."""

from standfast.dashboard.shapes.words import Told


class SettingSeen(Told, frozen=True, kw_only=True):
    """A setting. `where` is default, code, or the file, variable or option that says so; passwords are masked.

    `unit` is that of a number which has one: seconds, bytes or megabytes.
    """

    name: str
    value: str
    where: str
    unit: str | None = None


class SettingsSeen(Told, frozen=True, kw_only=True):
    """All settings of this dashboard, and of which release it is."""

    settings: tuple[SettingSeen, ...]
    store: str
    version: str
    read_only: bool
