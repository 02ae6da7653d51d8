"""The arguments of a task: bound, checked and encoded at the enqueue, decoded where the job runs.

A payload is the envelope `{"v": <payload version of the task>, "args": {name: value}}`, and beside `args` an object
`secret` for the arguments that nobody is to see; what a traced job carries besides is in carried.py. Only what the
caller gave is stored; defaults are the handler's own, applied when it runs. What is accepted is what the handler
will receive: a payload is read back before it is written, unless its values are so plain that nothing can happen to
them, and what would arrive changed is refused.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from standfast.codec.arrival import arrives, changed, float_for_decimal, is_no_number, leaves
from standfast.codec.models import without_marks
from standfast.codec.results import Results
from standfast.codec.secrets import NO_SECRETS, Scrub
from standfast.codec.signature import Known, resolve
from standfast.codec.types import ENCODER, MAX_BYTES, MOST_DIGITS, UNENCODABLE, UNREADABLE, one_line
from standfast.codec.upgrades import Upgrades
from standfast.errors import ArgumentsError, ConfigurationError, PayloadError
from standfast.spelling import option_meant

MISFIT = "the stored payload does not fit"
"""How the error of arguments begins that do not fit the task."""

_WHERE = re.compile(r"(?P<what>.*) - at `\$\.(?P<name>\w+)(?P<inside>.*)`", re.DOTALL)
_NOTHING = msgspec.Raw(b"{}")


class _Envelope(msgspec.Struct):
    v: int
    args: msgspec.Raw
    secret: msgspec.Raw = _NOTHING


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_BY_NAME = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Arguments:
    """The arguments that one task takes: binds, checks, encodes and decodes them."""

    def __init__(
        self, fn: Callable[..., Any], *, task: str, version: int = 1, options: Collection[str] = ()
    ) -> None:
        """`options` are those of an enqueue, which are no arguments, and are often given among them."""
        self.task = task
        self.version = version
        self.upgrades = Upgrades(task, version)
        self._fn = fn
        self._options = options
        self._head = b'{"v":%d,"args":' % version
        self._known: Known | None = None
        try:
            self._known = resolve(fn, task)
        except NameError:
            return  # a name that the module defines further down: resolved at first use

    @cached_property
    def context_parameter(self) -> str | None:
        """The parameter that receives the `Context`, if there is one."""
        return self._resolved.context_parameter

    @property
    def secrets(self) -> frozenset[str]:
        """The parameters whose arguments nobody is to see."""
        return self._resolved.secrets

    @cached_property
    def results(self) -> Results:
        """What the handler returns when it succeeds: anything that JSON has, where that is not said."""
        return self._resolved.results

    @property
    def result_type(self) -> Any:
        """What its result is read as."""
        return self.results.type

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given arguments by name. Raises ArgumentsError for a missing, extra or doubled one."""
        known = self._known or self._resolved
        given = self._positional(args, kwargs, known) if args else dict(kwargs)
        if given.keys() == known.names:
            return given
        if not known.names.issuperset(given):
            extra = given.keys() - known.names
            takes = f"it takes {_quoted(known.names) or 'nothing'}{self._options_meant(extra)}"
            raise ArgumentsError(f"{self.task} has no parameter {_quoted(extra)}; {takes}")
        if not known.required <= given.keys():
            missing = [name for name in known.plain if name in known.required and name not in given]
            needs = ", ".join(map(repr, missing))
            why = "which has no default; pass it" if len(missing) == 1 else "which have no default; pass them"
            raise ArgumentsError(f"{self.task} needs {needs}, {why}")
        return given

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        """Return the payload for these arguments. Raises ArgumentsError naming the one that does not fit."""
        given = self.bind(args, kwargs)
        known = self._known or self._resolved
        if known.secrets:
            payload = self._encode_apart(given, known)
        else:
            payload = self._head + self._encode_part(given, known) + b"}"
        if len(payload) > MAX_BYTES:
            raise ArgumentsError(
                f"the arguments of {self.task} take {len(payload):,} bytes and at most {MAX_BYTES:,} are stored;"
                " keep the data elsewhere and pass a reference to it"
            )
        return payload

    def read(self, args: tuple[msgspec.Raw, ...], kwargs: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
        """Return arguments that a person gives as JSON, by name and as the handler would receive them.

        Raises ArgumentsError naming the one that does not fit.
        """
        given, known = self.bind(args, kwargs), self._resolved
        shown = {name: value for name, value in given.items() if name not in known.secrets}
        secret = {name: value for name, value in given.items() if name in known.secrets}
        problem = ""
        try:
            arguments = _given_fields(known.decoder.decode(ENCODER.encode(shown)))
            return arguments | _given_fields(known.secret_decoder.decode(ENCODER.encode(secret)))
        except UNREADABLE as error:
            problem = str(error)
        raise ArgumentsError(self._misfit(problem))

    def decode(self, payload: bytes) -> dict[str, Any]:
        """Return the arguments of a stored payload by name. Raises PayloadError if it cannot be read."""
        known = self._resolved
        try:
            envelope = _ENVELOPE.decode(payload)
            if envelope.v > self.version:
                raise PayloadError(
                    f"the payload has version {envelope.v} and {self.task} knows up to {self.version};"
                    " deploy the newer task"
                )
            if known.secrets or envelope.secret is not _NOTHING or self.upgrades.concern(envelope.v):
                return self._decode_apart(payload, envelope, known)
            return _given_fields(known.decoder.decode(envelope.args))
        except UNREADABLE as error:
            raise PayloadError(self._unreadable(str(error))) from error

    def scrub_for(self, payload: bytes, arguments: Mapping[str, Any] | None = None) -> Scrub:
        """Return what keeps the secrets of a payload, and of the arguments read from it, out of texts."""
        secrets = self._resolved.secrets
        if not secrets and b'"secret"' not in payload:
            return NO_SECRETS
        values = [value for name, value in (arguments or {}).items() if name in secrets]
        try:
            envelope = _ENVELOPE.decode(payload)
            stored = list(without_marks(msgspec.json.decode(envelope.secret, type=dict[str, Any])).values())
            shown = msgspec.json.decode(envelope.args, type=dict[str, Any])
            stored += [value for name, value in shown.items() if name in secrets]
            # Names in JSON are mostly those of fields, which are no secrets; keys that are were read as arguments.
            values += stored if arguments is None else _without_names(stored)
        except UNREADABLE:
            pass  # what cannot be read cannot be told either
        return Scrub(values) if values else NO_SECRETS

    # -- encoding ---------------------------------------------------------------------------------------------

    def _positional(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], known: Known) -> dict[str, Any]:
        """Return all arguments by name where some are given by position."""
        names = known.positional
        if len(args) > len(names):
            raise ArgumentsError(
                f"{self.task} takes {len(names)} positional arguments, not {len(args)};"
                " pass the rest by name or leave them out"
            )
        given = dict(zip(names, args, strict=False))
        if not kwargs:
            return given
        if doubled := given.keys() & kwargs.keys():
            raise ArgumentsError(f"{self.task} got {_quoted(doubled)} twice; pass it by position or by name")
        return {**given, **kwargs}

    def _options_meant(self, extra: Iterable[str]) -> str:
        """Return how to write the options of an enqueue that are given among the arguments."""
        meant = ", ".join(
            f"{option}=..." for each in sorted(extra) if (option := option_meant(each, self._options))
        )
        return f"; did you mean {self._fn.__name__}.options({meant}).enqueue(...)?" if meant else ""

    def _encode_apart(self, given: Mapping[str, Any], known: Known) -> bytes:
        """Return the payload with the secret arguments in a place of their own."""
        shown = {name: value for name, value in given.items() if name not in known.secrets}
        secret = {name: value for name, value in given.items() if name in known.secrets}
        payload = self._head + self._encode_part(shown, known)
        if secret:
            payload += b',"secret":' + self._encode_part(secret, known, secret=True)
        return payload + b"}"

    def _encode_part(self, given: Mapping[str, Any], known: Known, *, secret: bool = False) -> bytes:
        """Return arguments as JSON that the handler will receive as they are."""
        problem: Exception | None = None
        try:
            body = ENCODER.encode(_written(given, known) if known.adapted else given)
        except UNENCODABLE as error:
            problem = error
        if problem is not None:
            raise self._unencodable(given, problem)
        plain = known.plain
        for name, value in given.items():
            if type(value) not in plain[name] or (len(body) > MOST_DIGITS and type(value) is int):
                self._check_arrival(given, body, known, known.secret_decoder if secret else known.decoder)
                break
        return body

    def _check_arrival(
        self, given: Mapping[str, Any], body: bytes, known: Known, decoder: msgspec.json.Decoder[Any]
    ) -> None:
        """Refuse what the handler would not receive as it was given."""
        problem = ""
        try:
            received = decoder.decode(body)
        except TypeError as error:  # a list as a member of a set; msgspec does not say where
            problem = f"{error}{self._where_unhashable(given, known, decoder)}"
        except UNREADABLE as error:
            problem = str(error)
        if problem:
            raise ArgumentsError(self._not_a_number(given) or self._misfit(problem))
        for name, value in given.items():
            arrived = getattr(received, name)
            if type(value) in known.plain[name] or arrives(value, arrived, buffers=name in known.buffers):
                continue
            if float_for_decimal(value, arrived):
                raise ArgumentsError(
                    f"argument {name!r} of {self.task} has a float for a Decimal, and a float is seldom exact;"
                    " pass a Decimal made of a text, as Decimal('0.1'), or an int"
                )
            hidden = name in known.secrets
            raise ArgumentsError(
                self._not_a_number({name: value})
                or f"argument {name!r} of {self.task} {changed(value, arrived, 'pass', hidden=hidden)}"
            )

    def _where_unhashable(self, given: Mapping[str, Any], known: Known, decoder: msgspec.json.Decoder[Any]) -> str:
        """Return which argument has a member that cannot be in a set, in words of msgspec."""
        for name, value in given.items():
            try:
                decoder.decode(ENCODER.encode(_written({name: value}, known)))
            except TypeError:
                return f" - at `$.{name}`"
            except UNREADABLE:
                continue
        return ""

    def _unencodable(self, given: Mapping[str, Any], together: Exception) -> ArgumentsError:
        for name, value in given.items():
            try:
                ENCODER.encode(_written({name: value}, self._resolved))
            except UNENCODABLE as error:
                why = "" if name in self._resolved.secrets else f": {one_line(error)}"
                return ArgumentsError(
                    f"argument {name!r} of {self.task} cannot be stored as JSON{why}; pass plain values,"
                    " dataclasses, pydantic models or msgspec Structs, or an id to look it up by"
                )
        return ArgumentsError(f"the arguments of {self.task} cannot be stored as JSON: {together}")

    def _misfit(self, problem: str) -> str:
        found = _WHERE.fullmatch(problem)
        if found is None:
            return f"the arguments of {self.task} do not fit its parameters: {problem}; pass the annotated types"
        name, inside = found["name"], found["inside"]
        if name in self._resolved.secrets:
            return f"argument {name!r} of {self.task}, a secret, does not fit; pass what the annotation asks for"
        place = f" (inside it, at {inside.lstrip('.')})" if inside else ""
        what = found["what"]
        return f"argument {name!r} of {self.task} does not fit{place}: {what}; pass what the annotation asks for"

    def _not_a_number(self, given: Mapping[str, Any]) -> str:
        """Return what to say of a NaN or an infinity among the arguments, "" where there is none."""
        for name, value in given.items():
            if name not in self._resolved.secrets and any(map(is_no_number, leaves(value))):
                return (
                    f"argument {name!r} of {self.task} has a NaN or an infinity in it, and JSON has no such number;"
                    " pass None or a text for it"
                )
        return ""

    # -- decoding ---------------------------------------------------------------------------------------------

    def _decode_apart(self, payload: bytes, envelope: _Envelope, known: Known) -> dict[str, Any]:
        """Read a payload that has secrets, or is to be upgraded; whatever goes wrong, no secret is told."""
        scrub = self.scrub_for(payload)
        problem: Exception | None = None
        told = ""
        try:
            stored = self._upgraded(envelope, scrub)
            shown = {name: value for name, value in stored.items() if name not in known.secrets}
            secret = {name: value for name, value in stored.items() if name in known.secrets}
            arguments = _given_fields(known.decoder.decode(ENCODER.encode(shown)))
            told = f"a secret does not fit: {_quoted(known.secrets)}"
            return arguments | _given_fields(known.secret_decoder.decode(ENCODER.encode(secret)))
        except (*UNREADABLE, *UNENCODABLE) as error:
            problem = error
        # Raised here, so that what msgspec said is not in its context either.
        raise PayloadError(self._unreadable(told or scrub.text(str(problem))))

    def _upgraded(self, envelope: _Envelope, scrub: Scrub) -> Mapping[str, Any]:
        """Return what is stored, secret or not, by name; still as JSON where there is nothing to upgrade."""
        if not self.upgrades.concern(envelope.v):
            return _BY_NAME.decode(envelope.args) | _BY_NAME.decode(envelope.secret)
        stored: dict[str, Any] = msgspec.json.decode(envelope.args, type=dict[str, Any])
        stored |= msgspec.json.decode(envelope.secret, type=dict[str, Any])
        return self.upgrades.apply(envelope.v, stored, scrub)

    def _unreadable(self, problem: str) -> str:
        return (
            f"{MISFIT} {self.task}: {problem}; correct what enqueues it, or, where the parameters of the task have"
            " changed, raise its version and declare an upgrade"
        )

    # -- declaration ------------------------------------------------------------------------------------------

    @property
    def _resolved(self) -> Known:
        if self._known is None:
            try:
                self._known = resolve(self._fn, self.task)
            except NameError as error:
                raise ConfigurationError(
                    f"an annotation of {self.task} cannot be resolved: {error};"
                    " import the name where the task is defined, not only under TYPE_CHECKING"
                ) from error
        return self._known


def _given_fields(values: msgspec.Struct) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(values).items() if value is not msgspec.UNSET}


def _written(given: Mapping[str, Any], known: Known) -> dict[str, Any]:
    """Return the arguments with those as JSON that pydantic writes."""
    adapted = known.adapted
    return {name: adapted[name].write(value) if name in adapted else value for name, value in given.items()}


def _quoted(names: Any) -> str:
    return ", ".join(repr(name) for name in sorted(names, key=str))


def _without_names(stored: Any) -> list[Any]:
    """Return the values in some JSON, whatever names it has for them."""
    if isinstance(stored, dict):
        return _without_names(list(stored.values()))
    if isinstance(stored, list):
        return [value for each in stored for value in _without_names(each)]
    return [stored]
