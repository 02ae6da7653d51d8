"""Channels: ways to reach people, and the templates of their texts.

Channels are checked where they are declared, and never show more of themselves than their names. What is secret about
them stays in the processes that send. In a template, {names} of a fixed set are replaced by texts, and that is all:
there are no attributes, no indexes and no formats.
"""

import re
from collections.abc import Iterator, Mapping
from string import Formatter
from typing import TYPE_CHECKING, Any

import msgspec

from standfast.errors import ConfigurationError
from standfast.model.suggestions import Declared, hint
from standfast.model.validation import http_url, is_finite, refuse_any

NAMES = (
    "title",
    "says",
    "count",
    "examples",
    "advice",
    "since",
    "kind",
    "severity",
    "rule",
    "at",
    "link",
    "app",
    "namespace",
    "id",
)
"""What may stand in braces."""

_LONGEST = 10_000


def template_problems(what: str, template: object) -> Iterator[str]:
    """Yield what is wrong with a template, unless it is None."""
    if template is None:
        return
    if not isinstance(template, str) or len(template) > _LONGEST:
        yield f"{what} must be a text of at most {_LONGEST:,} characters"
        return
    try:
        parts = list(Formatter().parse(template))
    except ValueError:
        yield f"{what} has a brace without its like; write {{{{ and }}}} for braces that are to be read"
        return
    for _, name, spec, conversion in parts:
        if name is not None and name not in NAMES:
            yield f"{what} has {{{name:.40}}}, which means nothing; {hint(name, NAMES)}"
        elif spec or conversion:
            yield f"{what} has {{{name:.40}}} with a format, and takes names alone"


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return a template that was checked, with its names replaced."""
    return "".join(
        text + (values[name] if name is not None else "") for text, name, _, _ in Formatter().parse(template)
    )


LONGEST_TIMEOUT = 120.0
"""Seconds that a channel may take at most: a delivery is tried again, and others wait behind it."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SHORTEST_SECRET = 16
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://.+", re.IGNORECASE | re.DOTALL)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class _Kind(Declared):
    """What makes channels: what is missing is told together with whose it is."""

    if not TYPE_CHECKING:

        def __call__(cls, *args: Any, **options: Any) -> Any:  # noqa: N805 - it makes the object
            if args:
                raise ConfigurationError(f"{cls.__name__} takes its options by name, as in name=…, url=…")
            name = options.get("name")
            what = cls.__name__ if name is None else f"channel {name!r:.80}"
            fields = msgspec.structs.fields(cls)
            missing = (each.name for each in fields if each.required and each.name not in options)
            refuse_any(f"{what}: {name} is missing" for name in missing)
            return super().__call__(**options)


class _Discreet(msgspec.Struct, frozen=True, metaclass=_Kind):
    """What shows its name alone."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({shown})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("name", getattr(self, "name", None))]


class AppriseChannel(_Discreet, frozen=True, kw_only=True, tag="apprise", forbid_unknown_fields=True):
    """Mail, Slack, Teams, Telegram and many others, as an apprise URL. `title` and `body` are templates."""

    name: str
    url: str
    title: str | None = None
    body: str | None = None

    def __post_init__(self) -> None:
        refuse_any(_told(self.name, self._problems()))

    def _problems(self) -> Iterator[str]:
        if not (isinstance(self.url, str) and _SCHEME.fullmatch(self.url)):
            yield "url must be one of apprise, such as mailtos://user:password@mail.example"
        yield from _template_problems(self)


class WebhookChannel(_Discreet, frozen=True, kw_only=True, tag="webhook", forbid_unknown_fields=True):
    """A POST of JSON that is signed with a secret. `title` and `body` are templates of the texts in it."""

    name: str
    url: str
    secret: str
    headers: Mapping[str, str] = {}
    timeout: float = 10.0
    title: str | None = None
    body: str | None = None

    def __post_init__(self) -> None:
        refuse_any(_told(self.name, self._problems()))
        http_url(self.url, f"the url of channel {self.name!r}", "give headers, such as Authorization")

    def _problems(self) -> Iterator[str]:
        if not isinstance(self.url, str):
            yield "url must be a text"
        if not isinstance(self.secret, str) or len(self.secret) < _SHORTEST_SECRET:
            yield f"secret must be a text of at least {_SHORTEST_SECRET} characters that the receiver knows, too"
        if not (isinstance(self.headers, Mapping) and all(map(_is_header, self.headers.items()))):
            yield "headers must map names to values of printable ASCII; their values are not shown here"
        yield from _timeout_problems(self.timeout)
        yield from _template_problems(self)


class CommandChannel(_Discreet, frozen=True, kw_only=True, tag="command", forbid_unknown_fields=True):
    """A program, started without a shell, that reads the notice as JSON. `title` and `body` are templates."""

    name: str
    command: tuple[str, ...]
    timeout: float = 30.0
    title: str | None = None
    body: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.command, list):
            msgspec.structs.force_setattr(self, "command", tuple(self.command))
        refuse_any(_told(self.name, self._problems()))

    def _problems(self) -> Iterator[str]:
        if not isinstance(self.command, tuple) or not any(self.command[:1]) or not all(map(_is_word, self.command)):
            yield 'command must be a list of a program and its arguments, such as ["/usr/local/bin/tell", "ops"]'
        yield from _timeout_problems(self.timeout)
        yield from _template_problems(self)


Channel = AppriseChannel | WebhookChannel | CommandChannel


class DeadMan(_Discreet, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A URL that is pinged every so many seconds while all is well; an outside service notices when that stops."""

    url: str
    every: float = 60.0
    timeout: float = 10.0

    def __post_init__(self) -> None:
        refuse_any(f"the dead man's switch: {problem}" for problem in self._problems())
        http_url(self.url, "the url of the dead man's switch", "these services know who pings by the path")

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("every", self.every)]

    def _problems(self) -> Iterator[str]:
        if not isinstance(self.url, str):
            yield "url must be a text"
        if not (is_finite(self.every) and self.every >= 1):
            yield f"every must be a number of seconds, 1 or more, not {self.every!r}"
        yield from _timeout_problems(self.timeout)


def _told(name: object, problems: Iterator[str]) -> Iterator[str]:
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        yield f"a channel's name must be 1 to 64 letters, digits, '_', '.' or '-', not {name!r:.80}"
    for problem in problems:
        yield f"channel {name!r:.80}: {problem}"


def _template_problems(channel: "Channel") -> Iterator[str]:
    for name in ("title", "body"):
        yield from template_problems(name, getattr(channel, name))


def _timeout_problems(timeout: Any) -> Iterator[str]:
    if not (is_finite(timeout) and 0 < timeout <= LONGEST_TIMEOUT):
        yield f"timeout must be a number of seconds, above 0 and at most {LONGEST_TIMEOUT:g}, not {timeout!r}"


def _is_header(header: tuple[object, object]) -> bool:
    name, value = header
    if not (isinstance(name, str) and isinstance(value, str)):
        return False
    return bool(_HEADER.fullmatch(name)) and value.isascii() and value.isprintable()


def _is_word(part: object) -> bool:
    return isinstance(part, str) and "\0" not in part
