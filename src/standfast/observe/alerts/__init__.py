"""Alerts: rules that are looked at once for the whole fleet, and who is told when one is broken."""

import hmac
import re
import time
from hashlib import sha256

__all__ = ["verify_signature"]

_SIGNED = re.compile(r"t=([0-9]{1,15}),v1=([0-9a-f]{64})")


def sign(secret: str, at: int, body: bytes) -> str:
    """Return the signature of a body at a time: HMAC-SHA256 with the secret, of the time, a dot and the body."""
    return f"t={at},v1={_digest(secret, at, body)}"


def verify_signature(secret: str, header: str | None, body: bytes, tolerance: float = 300.0) -> bool:
    """Tell whether a body was signed with this secret, and no longer ago than `tolerance` seconds.

    `header` is X-Standfast-Signature, or None where it is missing, `body` the bytes as they came. What was sent
    before may be sent again within that time: X-Standfast-Delivery, which is the id in the body, tells.
    """
    signed = _SIGNED.fullmatch(header or "")
    if signed is None:
        return False
    at = int(signed[1])
    is_right = hmac.compare_digest(_digest(secret, at, body), signed[2])
    return is_right and abs(time.time() - at) <= tolerance


def _digest(secret: str, at: int, body: bytes) -> str:
    return hmac.new(secret.encode(), f"{at}.".encode() + body, sha256).hexdigest()
