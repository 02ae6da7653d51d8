"""Settings: what can be set, from where, checked once and all together."""

from holdfast.settings.loading import BY_DEFAULT, Loaded, load_settings, read_settings
from holdfast.settings.model import DEFAULT_URL, LONGEST_SPAN, Settings
from holdfast.settings.sources import HOST_VARIABLE, URL_VARIABLE

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
