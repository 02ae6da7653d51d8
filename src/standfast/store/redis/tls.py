"""Why a server and we do not come to terms over TLS, in words that say what to do. Pure."""

import ssl

_ANOTHER_HOST = frozenset({62, 64})
"""Codes of OpenSSL: the certificate does not name the host, or not its address."""
_EXPIRED = 10
_UNREADABLE = frozenset({"KEY_VALUES_MISMATCH", "NO_CERTIFICATE_OR_CRL_FOUND", "NO_START_LINE", "PEM_LIB"})
"""Reasons that are about our own files, before anything was sent."""

_HUNG_UP = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)

UNCERTAIN = "give ?ssl_certfile= and &ssl_keyfile= if it asks for a certificate of ours"
"""What may help where a server hangs up: whom it does not let in, it may not say so."""


def is_disagreement(error: ssl.SSLError) -> bool:
    """Tell whether trying again does not help: not where the line was cut, which TLS has errors of its own for."""
    return not isinstance(error, _HUNG_UP)


def disagreement(error: ssl.SSLError) -> str:
    """Return what is wrong and the remedy, to stand behind the name of the server."""
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _distrust(error.verify_code)
    if reason in _UNREADABLE:
        return (
            "cannot be reached over TLS with these files: check that ssl_ca_certs and ssl_certfile hold"
            " certificates, and ssl_keyfile the key of ours"
        )
    if "ALERT" in reason:
        return (
            "does not take our part in TLS: where it asks for a certificate, give one that it trusts with"
            " ?ssl_certfile= and &ssl_keyfile= in the URL"
        )
    return f"and we do not agree on TLS ({reason}): check host and port, and write redis:// where it has no TLS"


def _distrust(code: int) -> str:
    if code in _ANOTHER_HOST:
        return (
            "has a certificate for another host: write the host that it names in the URL, or"
            " ?ssl_check_hostname=false where you trust the network"
        )
    if code == _EXPIRED:
        return "has a certificate that has expired: renew it there"
    return (
        "has a certificate of an authority that is not trusted here: name the file with the authority's own in"
        " the URL, as in ?ssl_ca_certs=/path/ca.pem"
    )
