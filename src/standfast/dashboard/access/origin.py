"""Whether a write comes from our own pages, or from a program; never from another site. Pure."""

from collections.abc import Set as AbstractSet
from http import HTTPStatus

from standfast.dashboard.access.caller import Headers
from standfast.dashboard.access.refusal import Code, Refusal

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods of requests that change nothing."""

_ELSEWHERE = Refusal(HTTPStatus.FORBIDDEN, Code.ORIGIN, "this comes from another site")
_UNKNOWN = Refusal(HTTPStatus.FORBIDDEN, Code.ORIGIN, "a write must say where it comes from: send Origin")


def refuse_origin(headers: Headers, ours: AbstractSet[str], *, needs_proof: bool) -> Refusal | None:
    """Return why a write is refused for where it comes from.

    Browsers say it themselves, in Sec-Fetch-Site or at least in Origin, and pages cannot change it. What says
    neither is a program: `needs_proof` refuses it where one is known by a cookie, which browsers send unasked.
    """
    sites, origins = headers.get("sec-fetch-site", ()), headers.get("origin", ())
    if any(origin.lower() not in ours for origin in origins):
        return _ELSEWHERE
    allowed = {"same-origin"} if needs_proof else {"same-origin", "none"}
    if any(site not in allowed for site in sites):
        return _ELSEWHERE
    return _UNKNOWN if needs_proof and not sites and not origins else None
