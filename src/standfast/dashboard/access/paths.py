"""Where somebody is sent after they have signed in or done something: to a page of ours, and nowhere else. Pure."""

import re

LONGEST_PATH = 2000
_LOCAL = re.compile(r"/(?![/\\])[!#-\[\]^-~]*", re.ASCII)
"""A path with its query: printable ASCII without quotes, backslashes and spaces, and not another host's."""


def local_path(asked: str | None, prefix: str = "") -> str:
    """Return a path below the prefix as it was asked for; the first page where it is none, or leads elsewhere."""
    home = f"{prefix}/"
    if not asked or len(asked) > LONGEST_PATH or not _LOCAL.fullmatch(asked):
        return home
    path = asked.partition("?")[0].partition("#")[0]
    climbs = any(part in {".", ".."} for part in path.lower().replace("%2e", ".").replace("%2f", "/").split("/"))
    return asked if path.startswith(home) and "//" not in path and not climbs else home
