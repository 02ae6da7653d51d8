"""How the error of a job names the incident that has more of it, and how that name is read again. Pure."""

import re

from standfast.words import short_id

_NAMED = re.compile(r"\(incident ([0-9a-f]{8})\)$")


def naming(error: str, incident_id: str) -> str:
    """Return an error with the end of the id of its incident; as it is where there is none."""
    return f"{error} (incident {short_id(incident_id)})" if incident_id else error


def named_in(error: str | None) -> str | None:
    """Return the end of the id of the incident that an error names; None where it names none."""
    found = _NAMED.search(error or "")
    return None if found is None else found[1]
