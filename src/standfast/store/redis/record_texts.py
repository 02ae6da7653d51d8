"""How this store writes records and fires: scripts put in front what they decide, and read no body and no note."""

from datetime import datetime

import msgspec

from standfast.core.record import Change, Decision, Fire, FireCause, Kind, Record
from standfast.store.redis.packing import pack
from standfast.store.times import from_micros, from_micros_or_none, to_micros, to_micros_or_none
from standfast.store.unreadable import DAMAGES

_VERSION = 15
_SAID = 19
_DECIDED_AT = 16


class _FireSaid(msgspec.Struct, array_like=True, frozen=True):
    planned: int
    decision: Decision
    count: int
    until: int | None
    job_id: str | None
    note: str | None


_decode_record = msgspec.msgpack.Decoder(tuple[str, int | None]).decode
_decode_fire = msgspec.msgpack.Decoder(_FireSaid).decode


def write_record(change: Change) -> bytes:
    """Return what is stored of a record as a change makes it, but for its version; nothing of one to forget."""
    if change.body is None:
        return b""
    said = pack((change.token, to_micros_or_none(change.due_at)))
    return len(said).to_bytes(4) + said + change.body


def write_fire(fire: Fire) -> bytes:
    """Return what is stored of a fire, but for its cause and when it was decided."""
    times = (to_micros(fire.planned), to_micros_or_none(fire.until))
    return pack((times[0], fire.decision.value, fire.count, times[1], fire.job_id, fire.note))


def read_record(kind: Kind, name: bytes, text: bytes) -> Record:
    """Return the record that the hash of its kind holds; of one that cannot be read the name, and no body."""
    try:
        return _read_record(kind, name, text)
    except DAMAGES:
        version = text[:_VERSION].decode(errors="replace")
        return Record(kind, name.decode(), int(version) if version.isdecimal() else 1, None, b"", "")


def _read_record(kind: Kind, name: bytes, text: bytes) -> Record:
    end = _SAID + int.from_bytes(text[_VERSION:_SAID])
    token, due_at = _decode_record(text[_SAID:end])
    return Record(kind, name.decode(), int(text[:_VERSION]), from_micros_or_none(due_at), text[end:], token)


def read_fire(schedule: bytes, text: bytes) -> Fire:
    """Return the fire that the list of its schedule holds."""
    cause, _, rest = text.partition(b":")
    said = _decode_fire(rest[_DECIDED_AT:])
    return Fire(
        schedule=schedule.decode(),
        planned=from_micros(said.planned),
        decision=said.decision,
        cause=FireCause(cause.decode()),
        count=said.count,
        until=from_micros_or_none(said.until),
        job_id=said.job_id,
        note=said.note,
        decided_at=from_micros(int(rest[:_DECIDED_AT])),
    )


def latest(fires: list[Fire], limit: int) -> tuple[Fire, ...]:
    """Return so many of the latest fires, the latest first, and all others of the same time as the last of them."""
    fires.sort(key=_place, reverse=True)
    if len(fires) <= limit:
        return tuple(fires)
    last = fires[limit - 1].planned
    return tuple(fire for fire in fires if fire.planned >= last)


def _place(fire: Fire) -> tuple[datetime, str, FireCause]:
    return fire.planned, fire.schedule, fire.cause
