"""How arguments and results become bytes and come back: JSON through msgspec, never pickle."""

from holdfast.codec.arguments import Arguments
from holdfast.codec.carried import carried_in, carrying, trace_id_in
from holdfast.codec.results import Results, decode_result, encode_result
from holdfast.codec.secrets import MASK, NO_SECRETS, Scrub, Secret, trace_of
from holdfast.codec.types import MAX_BYTES
from holdfast.codec.upgrades import Upgrade

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
