"""The arguments of a task: bound, checked and encoded at the enqueue, decoded where the job runs.

A payload is the envelope `{"v": <payload version of the task>, "args": {name: value}}`, and beside `args` an object
`secret` for the arguments that nobody is to see; what a traced job carries besides is in codec.py. Only what the
caller gave is stored; defaults are the handler's own, applied when it runs. What is accepted is what the handler
will receive: a payload is read back before it is written, unless its values are so plain that nothing can happen to
them, and what would arrive changed is refused.
"""

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from typing import Any, get_type_hints

import msgspec

from standfast.errors import ArgumentsError, ConfigurationError, PayloadError
from standfast.model.codec import (
    ENCODER,
    MAX_BYTES,
    MOST_DIGITS,
    UNENCODABLE,
    UNREADABLE,
    Results,
    changed,
    decoder_of,
    error_line,
    float_for_decimal,
    form_of,
    holds_buffer,
    is_context,
    is_no_number,
    leaves,
    plain_kinds,
    round_trips,
)
from standfast.model.pydantic_models import Adapted, is_adapted, is_field, without_marks
from standfast.model.secrets import NO_SECRETS, Scrub, holds_secret
from standfast.model.suggestions import option_meant

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class ResolvedSignature(msgspec.Struct, frozen=True):
    """What is known of a function once its annotations are resolved.

    `plain` has the types whose values need no look before they are stored, and `adapted` what writes the parameters
    that take pydantic for it, and `buffers` those that may have bytes in them. The decoders read the secret
    arguments and the others apart.
    """

    decoder: msgspec.json.Decoder[Any]
    secret_decoder: msgspec.json.Decoder[Any]
    plain: dict[str, frozenset[type]]
    adapted: dict[str, type[Adapted]]
    buffers: frozenset[str]
    names: frozenset[str]
    required: frozenset[str]
    secrets: frozenset[str]
    positional: tuple[str, ...]
    context_parameter: str | None
    results: Results


def resolve(fn: Callable[..., Any], task: str) -> ResolvedSignature:
    """Read a function's signature.

    Raises ConfigurationError where it cannot be a task, and NameError where an annotation is not defined yet.
    """
    parameters = _named_parameters(fn, task)
    hints = get_type_hints(fn, include_extras=True)
    contexts = [name for name in parameters if is_context(hints.get(name))]
    if len(contexts) > 1:
        raise ConfigurationError(f"{task} has {len(contexts)} Context parameters; keep one")
    taken = {name: each for name, each in parameters.items() if name not in contexts}
    secrets = {name: each for name, each in taken.items() if holds_secret(hints.get(name))}
    shown = {name: each for name, each in taken.items() if name not in secrets}
    forms = {name: _form_of(task, name, each, hints.get(name, Any)) for name, each in taken.items()}
    return ResolvedSignature(
        decoder=_decoder_for(shown, forms),
        secret_decoder=_decoder_for(secrets, forms),
        plain={name: plain_kinds(form) for name, form in forms.items()},
        buffers=frozenset(name for name in taken if holds_buffer(hints.get(name, Any))),
        adapted={name: form for name, form in forms.items() if is_adapted(form)},
        names=frozenset(taken),
        required=frozenset(name for name, each in taken.items() if each.default is each.empty),
        secrets=frozenset(secrets),
        positional=tuple(name for name, each in taken.items() if each.kind is each.POSITIONAL_OR_KEYWORD),
        context_parameter=contexts[0] if contexts else None,
        results=_results_of(task, hints.get("return", Any)),
    )


def _named_parameters(fn: Callable[..., Any], task: str) -> Mapping[str, inspect.Parameter]:
    parameters = inspect.signature(fn).parameters
    unnamed = [str(each) for each in parameters.values() if each.kind not in _NAMED]
    if unnamed:
        raise ConfigurationError(
            f"{task} declares {', '.join(unnamed)}; arguments are stored by name, so give each parameter a name"
            " and let it be passed by that name (no *args, no **kwargs, no '/')"
        )
    return parameters


def _form_of(task: str, name: str, parameter: inspect.Parameter, annotation: Any) -> Any:
    """Return how the arguments of a parameter are read. Raises ConfigurationError where none can be."""
    if is_field(parameter.default):
        raise ConfigurationError(
            f"parameter {name!r} of {task} has a pydantic Field as its default, which a function does not heed;"
            f" write it into the annotation, as in {name}: Annotated[int, Field(ge=0)] = 0"
        )
    try:
        return form_of(annotation)
    except TypeError as error:
        raise ConfigurationError(
            f"parameter {name!r} of {task} has a type that JSON cannot carry: {error}"
        ) from error


def _results_of(task: str, annotation: Any) -> Results:
    try:
        return Results(annotation)
    except TypeError as error:
        raise ConfigurationError(f"{task} returns a type that JSON cannot carry: {error}") from error


def _decoder_for(
    parameters: Mapping[str, inspect.Parameter], forms: Mapping[str, Any]
) -> msgspec.json.Decoder[Any]:
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        (name, forms[name]) if each.default is each.empty else (name, forms[name], msgspec.UNSET)
        for name, each in parameters.items()
    ]
    return decoder_of(msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True))


Upgrade = Callable[[dict[str, Any]], dict[str, Any]]
"""Takes the arguments of one version as plain JSON values and returns those of the next."""


class Upgrades:
    """The upgrades of one task. A step for which none is declared leaves the arguments as they are."""

    def __init__(self, task: str, version: int) -> None:
        self._task = task
        self._version = version
        self._steps: dict[int, Upgrade] = {}
        self._last = 0

    def declare(self, from_version: int, upgrade: Upgrade) -> None:
        """Remember an upgrade. Raises ConfigurationError where there is no such step, or it has one already."""
        if isinstance(from_version, bool) or not isinstance(from_version, int) or from_version < 1:
            raise ConfigurationError(
                f"an upgrade of {self._task} starts from a version, an integer from 1, not {from_version!r}"
            )
        if from_version >= self._version:
            raise ConfigurationError(
                f"{self._task} has version {self._version}, so there is nothing to upgrade from version"
                f" {from_version} to; raise the task's version, or correct the upgrade's"
            )
        if from_version in self._steps:
            raise ConfigurationError(
                f"{self._task} already has an upgrade from version {from_version}; keep one of them"
            )
        if not callable(upgrade) or inspect.iscoroutinefunction(upgrade):
            raise ConfigurationError(
                f"the upgrade of {self._task} from version {from_version} must be a plain function, not {upgrade!r}"
            )
        self._steps[from_version] = upgrade
        self._last = max(self._steps)

    def concern(self, version: int) -> bool:
        """Tell whether a payload of that version is changed by any of them."""
        return version <= self._last

    def apply(self, version: int, arguments: dict[str, Any], scrub: Scrub) -> dict[str, Any]:
        """Return the arguments as those of the task's own version. Raises PayloadError where an upgrade fails."""
        for step in sorted(self._steps):
            if step >= version:
                arguments = self._apply_one(step, arguments, scrub)
        return arguments

    def _apply_one(self, step: int, arguments: dict[str, Any], scrub: Scrub) -> dict[str, Any]:
        where = f"the upgrade of {self._task} from version {step} to {step + 1}"
        raised: Exception | None = None
        try:
            upgraded = self._steps[step](arguments)
        except Exception as error:  # noqa: BLE001 - the user's own code may raise anything
            raised = error
        if raised is not None:
            # With secrets about, the error itself stays behind: a traceback would show what it says.
            said = scrub.text(f"{type(raised).__qualname__}: {raised}")
            raise PayloadError(f"{where} failed: {said}; correct it and retry the job") from (
                None if scrub else raised
            )
        if not isinstance(upgraded, dict) or not all(isinstance(name, str) for name in upgraded):
            raise PayloadError(
                f"{where} returned {type(upgraded).__qualname__}, not a dict of arguments by name;"
                " return the arguments, changed or new"
            )
        return upgraded


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
        self._known: ResolvedSignature | None = None
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
        """Return arguments that a person gives as JSON, by name and as the handler would receive them."""
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

    def _positional(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], known: ResolvedSignature
    ) -> dict[str, Any]:
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

    def _encode_apart(self, given: Mapping[str, Any], known: ResolvedSignature) -> bytes:
        """Return the payload with the secret arguments in a place of their own."""
        shown = {name: value for name, value in given.items() if name not in known.secrets}
        secret = {name: value for name, value in given.items() if name in known.secrets}
        payload = self._head + self._encode_part(shown, known)
        if secret:
            payload += b',"secret":' + self._encode_part(secret, known, secret=True)
        return payload + b"}"

    def _encode_part(self, given: Mapping[str, Any], known: ResolvedSignature, *, secret: bool = False) -> bytes:
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
        self, given: Mapping[str, Any], body: bytes, known: ResolvedSignature, decoder: msgspec.json.Decoder[Any]
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
            if type(value) in known.plain[name] or round_trips(value, arrived, buffers=name in known.buffers):
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

    def _where_unhashable(
        self, given: Mapping[str, Any], known: ResolvedSignature, decoder: msgspec.json.Decoder[Any]
    ) -> str:
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
                why = "" if name in self._resolved.secrets else f": {error_line(error)}"
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

    def _decode_apart(self, payload: bytes, envelope: _Envelope, known: ResolvedSignature) -> dict[str, Any]:
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

    @property
    def _resolved(self) -> ResolvedSignature:
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


def _written(given: Mapping[str, Any], known: ResolvedSignature) -> dict[str, Any]:
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
