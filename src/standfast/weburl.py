"""URLs of the web that people give us, checked where they are declared. Pure."""

from urllib.parse import SplitResult, urlsplit

from standfast.errors import ConfigurationError

EXAMPLE = "https://host.example/path"

PORTS = {"http": 80, "https": 443}


def http_url(text: str, what: str, credentials: str, example: str = EXAMPLE) -> SplitResult:
    """Return the parts of a URL. Raises ConfigurationError, which repeats none of it, as it may hold a secret.

    `what` is its name for people, `credentials` where these belong instead, `example` one that is right.
    """
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port
    except ValueError:  # its words repeat what stands in the place of a port, which may be half a password
        raise ConfigurationError(f"{what} cannot be read: its host or its port is none") from None
    if url.scheme not in PORTS or not host or not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigurationError(f"{what} must look like {example}, all of it in ASCII")
    if url.username is not None or url.password is not None:
        raise ConfigurationError(f"{what} must have no user and no password in it: {credentials}")
    return url


def port_of(url: SplitResult) -> int:
    """Return the port of a URL that was checked."""
    return url.port or PORTS[url.scheme]
