"""How arguments and results become bytes and come back: JSON through msgspec, never pickle."""

from standfast.codec.arguments import Arguments
from standfast.codec.carried import carried_in, carrying, trace_id_in
from standfast.codec.results import Results, decode_result, encode_result
from standfast.codec.secrets import MASK, NO_SECRETS, Scrub, Secret, trace_of
from standfast.codec.types import MAX_BYTES
from standfast.codec.upgrades import Upgrade

__all__ = [
    "MASK",
    "MAX_BYTES",
    "NO_SECRETS",
    "Arguments",
    "Results",
    "Scrub",
    "Secret",
    "Upgrade",
    "carried_in",
    "carrying",
    "decode_result",
    "encode_result",
    "trace_id_in",
    "trace_of",
]
