"""How a worker is, as it says with each beat. Stores keep its last word as a short text, and do not read it."""

from collections.abc import Mapping

import msgspec


class Vitals(msgspec.Struct, frozen=True):
    """How a worker was when it last beat.

    memory: resident bytes of its process, the host's for a worker inside one; None where that cannot be read.
    running, slots: how many of its jobs run, of so many that may at a time.
    lag: how many seconds its event loop was late of late; None before it could tell.
    pulse_age: seconds since its process gave its last sign of life.
    done: how many attempts have ended in it since it began.
    waiting: how many of its jobs wait for the results of others, where it has no place left.
    told: for how many seconds jobs that go on have been told to end because they were cancelled, by their ids.
    """

    memory: int | None = None
    running: int = 0
    slots: int = 1
    lag: float | None = None
    pulse_age: float = 0.0
    done: int = 0
    waiting: int = 0
    told: Mapping[str, float] = {}


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Vitals)


def write_vitals(vitals: Vitals | None) -> str | None:
    """Return vitals as they are stored; None is no news."""
    return None if vitals is None else _encoder.encode(vitals).decode()


def read_vitals(text: str | bytes | None) -> Vitals | None:
    """Return what is stored; None for what cannot be read. What a later release says besides is passed over."""
    if text is None:
        return None
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
