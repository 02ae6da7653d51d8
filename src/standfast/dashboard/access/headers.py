"""What every answer says about itself: nothing from elsewhere, in nobody's frame, kept by nobody."""

from hashlib import blake2s
from types import MappingProxyType

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)

_ALWAYS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=(), browsing-topics=()",
}

HEADERS = MappingProxyType(_ALWAYS | {"Cache-Control": "no-store"})
"""Headers of all answers but those of static files."""

STATIC_HEADERS = MappingProxyType(_ALWAYS | {"Cache-Control": "public, max-age=31536000, immutable"})
"""Headers of static files that are asked for by the hash of what they contain."""


def cookie_name(kind: str, port: str, base: str) -> str:
    """Return the name of a cookie for those who find us at this port, below this path.

    Browsers send the cookies of a host to all its ports, and those of a path to all below it: of several dashboards
    on one host each needs names of its own, or who signs in to one is signed out of the others.
    """
    return f"{kind}_{blake2s(f'{port}{base}'.encode(), digest_size=4).hexdigest()}"


def cookie(name: str, value: str, *, path: str, secure: bool, lasts: int | None = None) -> str:
    """Return a Set-Cookie header: for us alone, not for scripts, and not sent along by other sites.

    Without `lasts` it goes when the browser is closed; with 0 it goes at once.
    """
    age = "" if lasts is None else f"; Max-Age={lasts}"
    return f"{name}={value}; Path={path}; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}{age}"
