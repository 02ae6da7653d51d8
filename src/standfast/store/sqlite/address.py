"""What a sqlite URL says. No error here repeats the URL."""

from standfast.errors import ConfigurationError

EXAMPLE = "write e.g. sqlite:///jobs.db, or sqlite:////var/lib/app/jobs.db for an absolute path"

_SCHEME = "sqlite://"


def sqlite_path(url: str) -> str:
    """Return the path that a URL names: after three slashes, so that a fourth makes it absolute."""
    host, slash, path = url[len(_SCHEME) :].partition("/")
    if host or not slash:
        raise ConfigurationError(f"a sqlite URL has three slashes before its path; {EXAMPLE}")
    if not path or path.endswith("/"):
        raise ConfigurationError(f"the sqlite URL names no file; {EXAMPLE}")
    if path == ":memory:":
        raise ConfigurationError("sqlite in memory would lose every job; use memory:// in tests, or name a file")
    if "?" in path or "\0" in path:
        raise ConfigurationError(f"a sqlite URL takes no options and no '?' in its path; {EXAMPLE}")
    return path
