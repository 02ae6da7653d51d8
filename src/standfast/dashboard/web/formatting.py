"""Numbers, spans, phrases and values as people read them, in the language of whoever reads."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from markupsafe import Markup, escape

from standfast.model.display import in_bytes, span_parts
from standfast.model.phrases import Dated, Distance, Phrase, PhraseRenderer
from standfast.observe.burn_rates import percent

_THOUSAND = 1000
_TEN = 10
_NONE = Markup('<span class="none">–</span>')
_MOMENT = re.compile(r"20\d\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d(:[0-5]\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)", re.ASCII)
DEEPEST = 40
"""So deep a value is shown in colours; what is nested deeper is shown as it is."""


class Formatter(PhraseRenderer):
    """Writes values for one reader. Phrases are HTML, with times that the script tells in the reader's zone."""

    def filled(self, form: str, told: Mapping[str, Any]) -> str:
        """Return a form of words with what it is about, and all that is not HTML of ours escaped."""
        return escape(form).format(**told)

    def time(self, at: Dated | Distance) -> str:
        """Return a time as it is seen from now."""
        return told_time(at.at, "both" if isinstance(at, Dated) else "ago")

    def first(self, phrase: Phrase) -> Markup:
        """Return a phrase as a sentence begins."""
        words = escape(self.told(phrase))
        return words[:1].upper() + words[1:]

    def plain(self, phrase: Phrase) -> str:
        """Return a phrase where there is no HTML."""
        return escape(self.told(phrase)).striptags()

    def span(self, length: timedelta | float | None) -> str:
        """Return a span in its two largest units at most; a dash for none."""
        return "–" if length is None else super().span(_delta(length))

    def brief(self, length: float | None) -> str:
        """Return a span in its largest unit, for where there is little room."""
        if length is None:
            return "–"
        number, unit = span_parts(_delta(length))[0]
        return self._texts.say(f"unit.{unit}", number=number)

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

    def exact(self, value: float | None, digits: int = 3) -> str:
        """Return a share as percents, with as many digits as it takes to tell 99.9 from 99.99; a dash for none."""
        return "–" if value is None else percent(value, digits).replace(" ", "")


def plain_number(value: float) -> str:
    """Return a number as forms have it: without what separates thousands, and whole where it is."""
    return f"{value:.9f}".rstrip("0").rstrip(".")


def plain_span(seconds: float) -> str:
    """Return a span as forms have it, to the second and less: 1h30m, as `read_span` reads it."""
    written, left = "", seconds
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        many, left = divmod(left, size)
        written += f"{many:.0f}{unit}" if many else ""
    return f"{written}{plain_number(left)}s" if left or not written else written


def _delta(length: timedelta | float) -> timedelta:
    return length if isinstance(length, timedelta) else timedelta(seconds=length)


def utc(at: datetime) -> str:
    """Return a time as it reads without a script: UTC, to the second."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def told_time(at: datetime | None, form: str = "both") -> Markup:
    """Return a time, told by the script in the reader's zone; a dash for none.

    Its form is `both`, `clock`, `short`, `ago`, or `next`: like `ago`, and what is just past is now.
    """
    if at is None:
        return _NONE
    stamp = at.astimezone(UTC).isoformat()
    return Markup('<time datetime="{}" data-form="{}">{} <abbr>UTC</abbr></time>').format(stamp, form, utc(at))


def zoned_time(at: datetime | None, zone: str | None) -> Markup:
    """Return a time with its date by the clock of a zone, and the name of that; without one, in UTC."""
    if at is None:
        return _NONE
    try:
        local = at.astimezone(ZoneInfo(zone or "UTC"))
    except (OverflowError, ZoneInfoNotFoundError, ValueError):
        local, zone = at.astimezone(UTC), None
    form = Markup('<time datetime="{}" data-zone="{}" title="{} UTC">{:%Y-%m-%d %H:%M:%S} {}</time>')
    return form.format(at.astimezone(UTC).isoformat(), zone or "UTC", utc(at), local, zone or "UTC")


def with_times(text: str) -> Markup:
    """Return a sentence with the moments that are written in it as times."""
    pieces, at = Markup(), 0
    words = escape(text)
    for found in _MOMENT.finditer(words):
        try:
            moment = datetime.fromisoformat(found[0])
        except ValueError:  # there is no such day
            continue
        pieces += Markup(words[at : found.start()])  # noqa: S704 - it is escaped
        pieces += told_time(moment, "clock")
        at = found.end()
    return pieces + Markup(words[at:])  # noqa: S704 - likewise


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
