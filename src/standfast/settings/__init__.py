"""Settings: what can be set, from where, checked once and all together."""

from standfast.settings.loading import BY_DEFAULT, Loaded, load_settings, read_settings
from standfast.settings.model import DEFAULT_URL, LONGEST_SPAN, Settings
from standfast.settings.sources import HOST_VARIABLE, URL_VARIABLE

__all__ = [
    "BY_DEFAULT",
    "DEFAULT_URL",
    "HOST_VARIABLE",
    "LONGEST_SPAN",
    "URL_VARIABLE",
    "Loaded",
    "Settings",
    "load_settings",
    "read_settings",
]
