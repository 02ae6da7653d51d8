"""Evidence made fit to be kept: names that can be files, no secrets, and no more than can be read. Pure."""

import re

from standfast.codec import NO_SECRETS, Scrub
from standfast.codec.redaction import redact_text
from standfast.core.incident import Evidence

LONGEST_PART = 64 * 1024
"""Bytes of one part of the evidence that are kept: its beginning and its end."""

LARGEST = 256 * 1024
"""Bytes of all parts together."""

MOST_PARTS = 32

_LONGEST_READ = 2 * LONGEST_PART
"""Characters of a part that are looked at: what is cut away before is not searched for secrets."""

_UNFIT = re.compile(r"[^\w.-]+", re.ASCII)
_LONGEST_NAME = 60
_LINE_WITHIN = 400
"""A cut moves by so many characters at most to be at the end of a line."""


def bounded(evidence: Evidence) -> Evidence:
    """Return evidence of which no more is left than will be looked at; that takes no time."""
    parts = list(evidence.parts.items())[:MOST_PARTS]
    half = _LONGEST_READ // 2
    return Evidence(
        {
            name: text if len(text) <= _LONGEST_READ else _joined(text[:half], text[-half:], len(text))
            for name, text in parts
        }
    )


def fit_evidence(evidence: Evidence, scrub: Scrub = NO_SECRETS) -> Evidence:
    """Return evidence without secrets, within its limits."""
    parts: dict[str, str] = {}
    for name, text in bounded(evidence).parts.items():
        cleaned = redact_text(_sound(text), scrub)
        parts[_unused(fit_name(name), parts)] = cut_middle(cleaned, LONGEST_PART)
    fair = _fair_share([len(text.encode()) for text in parts.values()], LARGEST)
    return Evidence({name: cut_middle(text, fair) for name, text in parts.items()})


def fit_name(name: str) -> str:
    """Return a name as it can be that of a file, wherever it came from."""
    return _UNFIT.sub("_", name).strip("._-")[:_LONGEST_NAME] or "part"


def cut_middle(text: str, limit: int) -> str:
    """Return at most `limit` bytes of a text and a word about the rest: how it began and how it ended counts."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    head = encoded[: limit // 2].decode(errors="ignore")
    tail = encoded[-(limit - limit // 2) :].decode(errors="ignore")
    return _joined(head, tail, len(text))


def _joined(head: str, tail: str, length: int) -> str:
    """Return both ends of a text of this length with a word in between, cut at the ends of lines if near."""
    line_end = head.rfind("\n", max(0, len(head) - _LINE_WITHIN))
    line_begin = tail.find("\n", 0, _LINE_WITHIN)
    head = head if line_end < 0 else head[:line_end]
    tail = tail if line_begin < 0 else tail[line_begin + 1 :]
    return f"{head}\n… {length - len(head) - len(tail):,} characters left out …\n{tail}"


def _fair_share(sizes: list[int], room: int) -> int:
    """Return how large a part may be so that all together fit: small ones stay whole, large ones share the rest."""
    share = room
    for index, size in enumerate(sorted(sizes)):
        share = room // (len(sizes) - index)
        if size > share:
            return share
        room -= size
    return max(sizes, default=share)


def _unused(name: str, parts: dict[str, str]) -> str:
    number = 1
    unused = name
    while unused in parts:
        number += 1
        unused = f"{name}-{number}"
    return unused


def _sound(text: str) -> str:
    """Return a text that every store and every file can hold."""
    return text.encode(errors="replace").decode().replace("\0", "�")
