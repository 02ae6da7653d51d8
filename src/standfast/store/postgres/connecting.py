"""What libpq says while it connects, in words only, without codes.

None of them is repeated, as they may quote parts of the URL; but names of options are no secrets.
"""

import re

from standfast.errors import ConfigurationError, StandfastError, StoreError, StoreUnavailableError

_REFUSED_OPTIONS: tuple[tuple[str, str], ...] = (
    (r'invalid "?(\w+)"? value: ', r"\1"),
    (r'invalid integer value ".*" for connection option "(\w+)"', r"\1"),
    (r"bad value for (\w+):", r"\1"),
    (r"weak sslmode ", "sslmode"),
    (r"require_auth method ", "require_auth"),
    (r"could not parse network address ", "hostaddr"),
    (r"could not match \d+ port numbers to ", "port"),
    (r"could not match \d+ host names to ", "hostaddr"),
    (r"invalid SCRAM (client|server) key", r"scram_\1_key"),
    (r"invalid SSL protocol version range", "ssl_min_protocol_version"),
    (r'(?:definition of service|service file) ".*" not found', "service"),
    (r"invalid command-line argument for server process", "options"),
    (r'invalid value for parameter "(\w+)"', r"\1"),
    (r'unrecognized configuration parameter "([\w.]+)"', r"\1"),
)
"""What is wrong with an option, whatever the server: how that is said, and the name of the option."""

_VALUES = {
    "sslmode": "disable, allow, prefer, require, verify-ca or verify-full",
    "target_session_attrs": "any, read-write, read-only, primary, standby or prefer-standby",
}
"""What the options take that people write most."""

_FILES = r"certificate file|private key file|certificate revocation list|certificate store"

_DISAGREEMENTS: tuple[tuple[str, str], ...] = (
    (
        r"certificate verify failed",
        (
            "the certificate of the server has expired, or is of an authority that is not trusted here: name the"
            " file with the authority's own in the URL, as in ?sslrootcert=/path/ca.pem, or renew the certificate"
        ),
    ),
    (
        r"does not match host name",
        (
            "the certificate of the server is for another host: write the host that it names in the URL, or"
            " sslmode=verify-ca where you trust the network"
        ),
    ),
    (
        r"server does not support SSL",
        "the server has no TLS, and sslmode asks for it: set ssl = on there, or leave sslmode out of the URL",
    ),
    (
        r"requires a valid client certificate|SSL error: .*\balert\b",
        (
            "the server does not take our part in TLS: where it asks for a certificate, give one that it trusts"
            " with ?sslcert= and &sslkey= in the URL"
        ),
    ),
    (r"SSL|certificate", "no secure connection can be made: check sslmode and the certificates"),
)
"""Why a server and we do not come to terms over TLS, and what to do."""

_HUNG_UP = r"SSL SYSCALL error|SSL connection has been closed|unexpected eof"
"""How it is said that a line with TLS was cut, which the next may not be."""

_LOGINS: tuple[tuple[str, str], ...] = (
    (
        r"password authentication failed",
        "this user is not known there, or the password is wrong: correct it in the URL",
    ),
    (
        r"no password supplied",
        (
            "the server asks for a password, and none is given: write it in the URL,"
            " postgresql://user:password@host/database, or in ~/.pgpass"
        ),
    ),
    (
        r"role .* does not exist",
        "there is no such user: create it with `createuser`, or correct its name in the URL",
    ),
    (
        r"is not permitted to log in",
        "this user may not log in: run `ALTER ROLE … LOGIN`, or name another in the URL",
    ),
    (
        r"pg_hba",
        (
            "its pg_hba.conf does not let this user in from here, or not to this database, or only with TLS: add a"
            " line there, or correct user, database or sslmode in the URL"
        ),
    ),
    (
        r"(Peer|Ident) authentication failed",
        (
            "over this way it lets in only the system's user of the same name: run as that one, or give host and"
            " password in the URL"
        ),
    ),
    (
        r"authentication failed",
        "the server does not let this user in: correct user and password in the URL, or pg_hba.conf on the server",
    ),
)
"""How a login is refused, and what to do."""

_CODES: tuple[tuple[str, str], ...] = (
    (r"database .* does not exist", "3D000"),
    (r"too many connections|remaining connection slots|too many clients", "53300"),
    (r"starting up|shutting down|recovery mode|not yet accepting", "57P03"),
    (r"session is read-only|is in hot standby|not in hot standby|read-write", "25006"),
)


def refusal(text: str, name: str) -> StandfastError | None:
    """Return the error for what no later try can mend: an option, a file that it names, or the login."""
    for words, option in _REFUSED_OPTIONS:
        if found := re.search(words, text):
            return _of_option(found.expand(option), name)
    if re.search(_FILES, text):
        return StoreError(
            f"{name}: a file for TLS cannot be used: check the paths in sslrootcert, sslcert, sslkey and sslcrl,"
            " that this user may read them, and that nobody else may read the key"
        )
    for words, says in _LOGINS:
        if re.search(words, text):
            return StoreError(f"{name} refuses: {says}")
    return None


def code_in(text: str) -> str:
    """Return the state that the words mean, "" where they mean none."""
    return next((code for words, code in _CODES if re.search(words, text)), "")


def of_the_line(text: str, name: str) -> StandfastError:
    """Return the error for a connection that cannot be made, or that is lost."""
    if "unsupported startup parameter" in text:
        return ConfigurationError(
            f"{name} is a pooler, which takes no settings for a session: add ?pooler=transaction to the URL"
        )
    if re.search(r"resolve|translate host name|Name or service|nodename nor servname", text):
        return StoreUnavailableError(
            f"{name}: no host of that name is known: correct it in the URL, or check the network's names (DNS)"
        )
    if re.search(r"[Cc]onnection refused|No such file or directory", text):
        return StoreUnavailableError(
            f"{name}: no server listens there: start it, or correct host and port in the URL"
        )
    for words, says in _DISAGREEMENTS if not re.search(_HUNG_UP, text) else ():
        if re.search(words, text):
            return StoreError(f"{name}: {says}")
    if "timeout" in text:
        return StoreUnavailableError(
            f"{name} does not answer: check host, port and firewall, and that the server runs, or try again"
        )
    return StoreUnavailableError(
        f"the connection to {name} is lost: check the server and the network, or try again"
    )


def _of_option(option: str, name: str) -> ConfigurationError:
    known = f"; it can be {_VALUES[option]}" if option in _VALUES else ""
    return ConfigurationError(
        f"{name}: the option {option} has a value that it cannot have{known}: correct it in the URL, or in the PG…"
        " variable of libpq that it comes from"
    )
