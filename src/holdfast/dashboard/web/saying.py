"""Numbers, spans and values as people read them, in the language of whoever reads."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from markupsafe import Markup, escape

from holdfast.dashboard.texts import Texts
from holdfast.words import in_bytes

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_THOUSAND = 1000
_TEN = 10
DEEPEST = 40
"""So deep a value is shown in colours; what is nested deeper is shown as it is."""


class Saying:
    """Writes values for one reader."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts

    def span(self, length: timedelta | float | None) -> str:
        """Return a span in its two largest units at most; a dash for none."""
        if length is None:
            return "–"
        seconds = abs(length.total_seconds() if isinstance(length, timedelta) else length)
        if seconds < 0.9995:  # noqa: PLR2004 - from here on 1,000 ms would be shown
            return self._unit("ms", f"{seconds * 1000:.0f}")
        if seconds < _TEN:
            return self._unit("s", f"{float(f'{seconds:.1f}'):g}")
        return self._whole(round(seconds))

    def _whole(self, seconds: int) -> str:
        if seconds < _MINUTE:
            return self._unit("s", seconds)
        if seconds < _HOUR:
            return self._two(seconds, _MINUTE, "min", 1, "s")
        if seconds < _DAY:
            return self._two(seconds, _HOUR, "h", _MINUTE, "min")
        return self._two(seconds, _DAY, "d", _HOUR, "h")

    def _two(self, seconds: int, large: int, large_name: str, small: int, small_name: str) -> str:
        many, rest = divmod(seconds, large)
        few = rest // small
        first = self._unit(large_name, many)
        return f"{first} {self._unit(small_name, few)}" if few else first

    def _unit(self, name: str, number: object) -> str:
        return self._texts.say(f"unit.{name}", number=number)

    def brief(self, length: float | None) -> str:
        """Return a span in its largest unit, for where there is little room."""
        told = self.span(length)
        return told if length is None or length < _MINUTE else " ".join(told.split(" ")[:2])

    def number(self, value: float | None) -> str:
        """Return a number with its thousands apart; a dash for none."""
        if value is None:
            return "–"
        return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}".rstrip("0").rstrip(".")

    def short(self, value: float) -> str:
        """Return a number that is short enough for an axis: 1.2k, 3M."""
        for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if value >= max(size, _TEN * _THOUSAND):
                return f"{value / size:.3g}{letter}"
        return f"{value:,.6g}"

    def memory(self, size: int | None) -> str:
        """Return an amount of memory; a dash for none."""
        return "–" if size is None else in_bytes(size)

    def share(self, value: float | None) -> str:
        """Return a share as percents; a dash for none."""
        return "–" if value is None else f"{value:.0%}"


def utc(at: datetime) -> str:
    """Return a time as it reads without a script: UTC, to the second."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def told_time(at: datetime | None, form: str = "both") -> Markup:
    """Return a time, told by the script in the reader's zone: `both`, `clock`, `short`, `ago`; a dash for none."""
    if at is None:
        return Markup('<span class="none">–</span>')
    stamp = at.astimezone(UTC).isoformat()
    return Markup('<time datetime="{}" data-form="{}">{} <abbr>UTC</abbr></time>').format(stamp, form, utc(at))


def with_commands(text: str) -> Markup:
    """Return a sentence with what stands between backticks as code."""
    pieces = text.split("`")
    return Markup().join(
        Markup("<code>{}</code>").format(piece) if n % 2 else escape(piece) for n, piece in enumerate(pieces)
    )


def coloured(value: Any) -> Markup:
    """Return a value, or JSON as it is stored, as JSON in colours: a class for each kind of thing."""
    if isinstance(value, msgspec.Raw | bytes):
        value = msgspec.json.decode(value)
    return Markup('<pre class="json" tabindex="0"><code>{}</code></pre>').format(Markup().join(_pieces(value, "")))


def _pieces(value: Any, margin: str) -> Iterator[Markup]:
    deeper = margin + "  "
    if len(deeper) > DEEPEST * 2:
        yield escape(msgspec.json.encode(value).decode())
    elif isinstance(value, dict) and value:
        yield from _many("{", "}", ((name, each) for name, each in value.items()), margin, deeper)
    elif isinstance(value, list | tuple) and value:
        yield from _many("[", "]", ((None, each) for each in value), margin, deeper)
    else:
        yield Markup('<span class="{}">{}</span>').format(_kind(value), msgspec.json.encode(value).decode())


def _many(
    opening: str, closing: str, items: Iterator[tuple[object, Any]], margin: str, deeper: str
) -> Iterator[Markup]:
    yield escape(opening)
    between = "\n"
    for name, each in items:
        yield escape(between + deeper)
        if name is not None:
            yield Markup('<span class="name">{}</span>: ').format(msgspec.json.encode(str(name)).decode())
        yield from _pieces(each, deeper)
        between = ",\n"
    yield escape("\n" + margin + closing)


def _kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "word"
    return "text" if isinstance(value, str) else "number" if isinstance(value, int | float) else "nothing"
