"""The names under which a store's bell rings, one for each tone."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

from standfast.store.postgres.sql_files import load_statements
from standfast.store.postgres.wire import Call, call
from standfast.store.verb import Tone

_LONGEST_CHANNEL = 63


@dataclass(frozen=True, slots=True)
class Sound:
    """What a tone is to the server: a channel, and the number of the lock that says who waits for it."""

    channel: str
    ring: Call
    listen: Call
    start_waiting: Call
    stop_waiting: Call


def sounds(schema: str) -> Mapping[Tone, Sound]:
    """Return what each tone is in a schema."""
    return {tone: _sound(schema, tone) for tone in Tone}


def _sound(schema: str, tone: Tone) -> Sound:
    sql = load_statements(schema)
    digest = blake2b(f"standfast/{schema}/{tone.value}".encode(), digest_size=8)
    lock = int.from_bytes(digest.digest(), "big", signed=True)
    channel = f"standfast_{tone.value}_{schema}"
    if len(channel) > _LONGEST_CHANNEL:
        channel = f"standfast_{tone.value}_{digest.hexdigest()}"
    return Sound(
        channel=channel,
        ring=call(sql["ring"], (lock, channel)),
        listen=call(f'LISTEN "{channel}"'),
        start_waiting=call(sql["start_waiting"], (lock,)),
        stop_waiting=call(sql["stop_waiting"], (lock,)),
    )
