"""An incident as files: the same in its folder on disk, in an exported folder and in an archive."""

from collections.abc import Mapping

import msgspec

from standfast.core.incident import Evidence, Incident
from standfast.incidents.trimming import fit_name

SUMMARY_FILE = "incident.json"


def files_of(incident: Incident, evidence: Evidence) -> Mapping[str, bytes]:
    """Return the contents of its files by name: the incident itself, and a text for each part of the evidence."""
    parts = {f"{fit_name(name)}.txt": text.encode(errors="replace") for name, text in evidence.parts.items()}
    return {SUMMARY_FILE: msgspec.json.format(msgspec.json.encode(incident), indent=2) + b"\n", **parts}
