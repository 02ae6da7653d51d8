"""What is known of the machine and of this installation: versions, load, memory, limits, the command line."""

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from standfast.errors import ConfigurationError
from standfast.store.open import public_name
from standfast.supervisor.evidence.memory import megabytes, sizes_in

_URL = "--url"
_SHOWN = ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree")


@cache
def versions() -> str:
    """Return the versions of Python, this package, the system, and every package that is installed."""
    from importlib.metadata import PackageNotFoundError, distributions, version  # noqa: PLC0415 - slow to import

    try:
        ours = version("standfast")
    except PackageNotFoundError:
        ours = "not installed as a package"
    about = {
        "standfast": ours,
        "python": f"{platform.python_implementation()} {sys.version}",
        "executable": sys.executable,
        "platform": platform.platform(),
        "libc": " ".join(platform.libc_ver()).strip() or "unknown",
    }
    packages = {str(each.metadata["Name"]): each.version for each in distributions() if each.metadata["Name"]}
    return f"{_lines(about)}\n\n{_lines(dict(sorted(packages.items(), key=lambda each: each[0].lower())))}"


def machine() -> str:
    """Return how the machine is doing."""
    about = {"host": platform.node(), "processors": str(os.cpu_count())}
    if hasattr(os, "getloadavg"):
        about["load"] = " ".join(f"{load:.2f}" for load in os.getloadavg())
    meminfo = Path("/proc/meminfo")
    sizes = sizes_in(meminfo.read_text()) if meminfo.exists() else {}
    about |= {name: megabytes(sizes[name]) for name in _SHOWN if name in sizes}
    return _lines(about)


def own_limits() -> str:
    """Return what the system allows this process, which its children inherit."""
    import resource  # noqa: PLC0415 - not on Windows, where this module is imported and never used

    def words(number: int) -> str:
        return " of ".join("unlimited" if each < 0 else str(each) for each in resource.getrlimit(number))

    names = sorted(name for name in dir(resource) if name.startswith("RLIMIT_"))
    return _lines({name: words(getattr(resource, name)) for name in names})


def command_line(words: Sequence[str]) -> str:
    """Return the command line without what is secret in it: of a URL only what people may see."""
    shown, last = [], ""
    for word in words:
        name, equals, value = word.partition("=")
        if last == _URL:
            shown.append(_public(word))
        elif equals and name == _URL:
            shown.append(f"{name}={_public(value)}")
        else:
            shown.append(word)
        last = word
    return " ".join(shown)


def _public(url: str) -> str:
    try:
        return public_name(url)
    except (ConfigurationError, ValueError):
        return "(hidden)"


def _lines(about: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in about.items())
