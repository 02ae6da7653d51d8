"""What a counted URL says: `counted+` before another store's URL, and behind a `#` where calls are written down.

counted+sqlite:////tmp/jobs.db#calls=/tmp/calls               every call is written down
counted+sqlite:////tmp/jobs.db#calls=/tmp/calls&passive=yes   and the store is passive: it tells nobody anything
"""

from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl, urlencode

import msgspec

from game.counted import PREFIX
from standfast.errors import ConfigurationError

_EXAMPLE = "write e.g. counted+sqlite:///jobs.db#calls=calls.jsonl"
_OPTIONS = ("calls", "passive")


class CountedUrl(msgspec.Struct, frozen=True):
    """The store that is counted, the file that its calls go to, and whether it is a passive one."""

    inner: str
    calls: Path
    passive: bool = False

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read a URL. Raises ConfigurationError, which does not repeat it: it may hold a password."""
        inner, _, fragment = url[len(PREFIX) :].rpartition("#")
        options = dict(parse_qsl(fragment))
        unknown = sorted(options.keys() - set(_OPTIONS))
        if unknown:
            raise ConfigurationError(
                f"a counted URL has the options {' and '.join(_OPTIONS)}, not {unknown[0]!r}; {_EXAMPLE}"
            )
        if not inner or not options.get("calls"):
            raise ConfigurationError(f"a counted URL must say where calls are written down; {_EXAMPLE}")
        if options.get("passive", "yes") != "yes":
            raise ConfigurationError(f"a counted URL says passive=yes, or nothing of it; {_EXAMPLE}&passive=yes")
        return cls(inner, Path(options["calls"]), "passive" in options)

    def __str__(self) -> str:
        options = {"calls": str(self.calls), **({"passive": "yes"} if self.passive else {})}
        return f"{PREFIX}{self.inner}#{urlencode(options)}"
