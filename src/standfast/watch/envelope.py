"""Arguments as they are stored, for those who look at them, or change them, without the code of the app.

A payload is the envelope that `standfast.codec` writes. What is secret in it is never shown, and stays with the
rest when something else is changed.
"""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from standfast.codec import MASK
from standfast.codec.redaction import is_secret_name
from standfast.errors import ArgumentsError
from standfast.phrases import Phrase

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are no JSON, or not what was expected."""

MASKED = msgspec.Raw(msgspec.json.encode(MASK))
"""What stands for a secret."""

Encoded = Mapping[str, msgspec.Raw]


class Envelope(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Arguments by name, the secret ones apart, and what it carries for tracing."""

    v: int = 0
    args: dict[str, msgspec.Raw]
    secret: dict[str, msgspec.Raw] = {}
    trace: dict[str, str] = {}


def read_envelope(payload: bytes) -> Envelope:
    """Return what a payload holds. Raises one of UNREADABLE."""
    return msgspec.json.decode(checked(payload), type=Envelope)


def decoded_args(payload: bytes) -> dict[str, Any]:
    """Return the arguments as they are stored; of a secret one, its name."""
    try:
        envelope = read_envelope(payload)
        return {"args": {name: shown(each) for name, each in envelope.args.items()} | secret_ones(envelope)}
    except UNREADABLE as error:
        return {"args": None, "payload_error": f"the payload cannot be read: {error}"}


def secret_ones(envelope: Envelope) -> dict[str, msgspec.Raw]:
    """Return what is shown of the arguments that are marked as secret: their names."""
    return dict.fromkeys(envelope.secret, MASKED)


def shown(value: msgspec.Raw) -> msgspec.Raw:
    """Return an argument without what names inside it, such as `password`, call secret, as incidents do."""
    decoded = msgspec.json.decode(value)
    try:
        hidden = _without_secrets(decoded)
    except RecursionError:
        return MASKED
    return value if hidden == decoded else msgspec.Raw(msgspec.json.encode(hidden))


def _without_secrets(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_secrets(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: MASK if _is_hidden(name, each) else _without_secrets(each) for name, each in value.items()}


def _is_hidden(name: str, value: Any) -> bool:
    return value not in (None, "") and not isinstance(value, bool) and is_secret_name(name)


def _put_back(given: Any, stored: Any) -> Any:
    """Return a value with what was hidden in it when it was shown. Raises ArgumentsError if that is not known."""
    if isinstance(given, list):
        if not isinstance(stored, list) or len(stored) != len(given):
            stored = [None] * len(given)
        return [_put_back(one, other) for one, other in zip(given, stored, strict=True)]
    if not isinstance(given, dict):
        return given
    known = stored if isinstance(stored, dict) else {}
    put_back = {}
    for name, each in given.items():
        if each == MASK and is_secret_name(name):
            if name not in known:
                raise ArgumentsError(Phrase("refusal.mask", names=repr(name)))
            put_back[name] = known[name]
        else:
            put_back[name] = _put_back(each, known.get(name))
    return put_back


def has_secrets(payload: bytes) -> bool:
    """Tell whether a job has arguments that nobody is to see; so has one that cannot be read, for all we know."""
    try:
        return bool(msgspec.json.decode(payload, type=Envelope).secret)
    except UNREADABLE:
        return True


def checked(encoded: bytes) -> msgspec.Raw:
    """Return JSON as it was stored; decoding first proves that it is JSON."""
    msgspec.json.decode(encoded)
    return msgspec.Raw(encoded)


def changed_payload(payload: bytes, given: Encoded, *, whole: bool, secrets: Collection[str] = ()) -> bytes:
    """Return a payload with these arguments; secret ones that are not given, or given as their mask, stay.

    `whole`: what is not given, and not secret, is left out; else it stays too. `secrets` are names of which it is
    known that they are secret, though they may not have been given before. Raises ArgumentsError.
    """
    try:
        stored = read_envelope(payload)
    except UNREADABLE as error:
        raise ArgumentsError(f"the stored arguments cannot be read, and so not be changed: {error}") from error
    said = {name: value for name, value in given.items() if not (name in stored.secret and _is_mask(value))}
    secret = stored.secret | {name: value for name, value in said.items() if name in {*stored.secret, *secrets}}
    open_ones = {name: _given(value, stored.args.get(name)) for name, value in said.items() if name not in secret}
    args = open_ones if whole else {**stored.args, **open_ones}
    return msgspec.json.encode(Envelope(v=stored.v, args=args, secret=secret, trace=stored.trace))


def encode_envelope(version: int, shown: Encoded) -> bytes:
    """Return arguments as they are stored, unchecked."""
    return msgspec.json.encode(Envelope(v=version, args=dict(shown)))


def _given(value: msgspec.Raw, stored: msgspec.Raw | None) -> msgspec.Raw:
    if msgspec.json.encode(MASK) not in bytes(value):
        return value
    known = None if stored is None else msgspec.json.decode(stored)
    return msgspec.Raw(msgspec.json.encode(_put_back(msgspec.json.decode(value), known)))


def _is_mask(value: msgspec.Raw) -> bool:
    return bool(msgspec.json.decode(value) == MASK)
