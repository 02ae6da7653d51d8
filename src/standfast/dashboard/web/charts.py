"""Charts as SVG, drawn by the server. Pure.

A picture stretches with its place on the page; so that words do not, the ticks of its axes stand beside it as HTML,
evenly spaced. Colours are classes: the style sheet knows them in light and dark.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from markupsafe import Markup, escape

from standfast.admin.figures import FiguresSeen, PointSeen
from standfast.dashboard.web.formatting import Formatter
from standfast.model.phrases import Texts

WIDTH, HEIGHT = 600.0, 160.0
SPARK_WIDTH, SPARK_HEIGHT = 120.0, 28.0
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_STEPS = (30.0, *(each * _MINUTE for each in (1, 2, 5, 10, 20, 30)), *(each * _HOUR for each in (1, 2, 6, 12, 24)))
MARKS = 5
"""So many times stand below a picture."""

Values = Sequence[float | None]


class Form(StrEnum):
    """How a series is drawn."""

    AREA = "area"
    LINE = "line"


@dataclass(frozen=True, slots=True)
class Series:
    """One row of numbers. `name` is its class, `label` what people read; None is a gap."""

    name: str
    label: str
    values: Values
    form: Form = Form.LINE


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawn chart: the picture, the numbers beside it from the top down, and the times below."""

    picture: Markup
    numbers: tuple[str, ...]
    times: tuple[datetime, ...]
    series: tuple[Series, ...]
    at: tuple[datetime, ...]
    said: Callable[[float], str]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to see: no point, or no number at any."""
        return all(value is None for each in self.series for value in each.values)


def chart(
    at: Sequence[datetime],
    series: Sequence[Series],
    said: Callable[[float], str],
    ticks_for: Callable[[float], list[float]] | None = None,
    *,
    title: str,
    about: str = "",
) -> Chart:
    """Draw series over time; `said` writes a number as people read it, on the axis and for each column."""
    highest = max((value for each in series for value in each.values if value is not None), default=0.0)
    ticks = (ticks_for or nice_ticks)(highest)
    body = Markup().join(_drawn(each, ticks[-1]) for each in series)
    grid = Markup().join(
        Markup('<line class="grid" x1="0" x2="{}" y1="{y}" y2="{y}"/>').format(
            f"{WIDTH:g}", y=_n(_y(tick, ticks[-1]))
        )
        for tick in ticks
    )
    picture = Markup(
        '<svg class="picture" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img">'
        "<title>{}</title><desc>{}</desc>{}{}{}</svg>"
    ).format(f"{WIDTH:g}", f"{HEIGHT:g}", title, about, grid, body, _columns(at, series, said))
    numbers = tuple(said(tick) for tick in reversed(ticks))
    return Chart(picture, numbers, tuple(_spread(at)), tuple(series), tuple(at), said)


def nice_ticks(highest: float, wanted: int = 4) -> list[float]:
    """Return evenly spaced numbers from nought to at least the highest, such as people count by."""
    if highest <= 0 or not math.isfinite(highest):
        return [0.0, 1.0]
    rough = highest / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    return [round(tick, 12) for tick in _up_to(highest, step)]


def time_ticks(highest: float) -> list[float]:
    """Return evenly spaced spans from nought to the highest or more, in seconds: whole minutes, hours or days."""
    if not _MINUTE < highest < math.inf:
        return nice_ticks(highest)
    step = next((each for each in _STEPS if highest / each <= 4), None)  # noqa: PLR2004 - as many as of other ticks
    return [tick * _DAY for tick in nice_ticks(highest / _DAY)] if step is None else _up_to(highest, step)


def _up_to(highest: float, step: float) -> list[float]:
    return [step * n for n in range(math.ceil(highest / step - 1e-9) + 1)]


def sparkline(values: Values, *, title: str) -> Markup:
    """Draw a row of numbers small enough for a line of a table."""
    highest = max((value for value in values if value is not None), default=0.0) or 1.0
    points = [
        (_x(n, len(values), SPARK_WIDTH), SPARK_HEIGHT - 1 - (value or 0.0) / highest * (SPARK_HEIGHT - 3))
        for n, value in enumerate(values)
    ]
    line = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
    area = f"0,{SPARK_HEIGHT:g} {line} {SPARK_WIDTH:g},{SPARK_HEIGHT:g}" if points else ""
    return Markup(
        '<svg class="spark" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img"><title>{}</title>'
        '<polygon points="{}"/><polyline points="{}"/></svg>'
    ).format(f"{SPARK_WIDTH:g}", f"{SPARK_HEIGHT:g}", title, area, line)


def gauge(value: float, most: float, *, title: str) -> Markup:
    """Draw how much of something is used, as a half circle that fills."""
    share = 0.0 if most <= 0 else min(1.0, max(0.0, value / most))
    level = "full" if share >= 1 else "high" if share >= 0.8 else "low"  # noqa: PLR2004 - a fifth is left
    return Markup(
        '<svg class="gauge {}" viewBox="0 0 100 56" role="img"><title>{}</title>'
        '<path class="track" pathLength="100" d="M8 50a42 42 0 0 1 84 0"/>'
        '<path class="fill" pathLength="100" stroke-dasharray="{} 200" d="M8 50a42 42 0 0 1 84 0"/></svg>'
    ).format(level, title, _n(share * 100))


def bar(share: float, *, level: str, title: str) -> Markup:
    """Draw how much of something there is, as a bar that fills; `level` is good, warn or bad."""
    return Markup(
        '<svg class="bar {}" viewBox="0 0 100 8" preserveAspectRatio="none" role="img"><title>{}</title>'
        '<rect class="track" width="100" height="8"/><rect class="fill" width="{}" height="8"/></svg>'
    ).format(level, title, _n(100 * min(1.0, max(0.0, share))))


def _drawn(series: Series, top: float) -> Markup:
    runs = list(_runs(series.values, top))
    lines = "".join("M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in run) for run in runs)
    if series.form is Form.LINE:
        return Markup('<path class="line {}" d="{}"/>').format(series.name, lines)
    areas = "".join(
        f"M{_n(run[0][0])} {HEIGHT:g}L"
        + "L".join(f"{_n(x)} {_n(y)}" for x, y in run)
        + f"L{_n(run[-1][0])} {HEIGHT:g}Z"
        for run in runs
    )
    return Markup('<path class="area {name}" d="{}"/><path class="line {name}" d="{}"/>').format(
        areas, lines, name=series.name
    )


def _runs(values: Values, top: float) -> Iterator[list[tuple[float, float]]]:
    """Yield the points between gaps; one that stands alone is as wide as a column, or nobody would see it."""
    run: list[tuple[float, float]] = []
    for n, value in enumerate((*values, None)):
        if value is not None:
            run.append((_x(n, len(values)), _y(value, top)))
        elif run:
            if len(run) == 1:
                x, y = run[0]
                half = WIDTH / max(1, len(values)) / 2
                run = [(max(0.0, x - half), y), (min(WIDTH, x + half), y)]
            yield run
            run = []


def _columns(at: Sequence[datetime], series: Sequence[Series], said: Callable[[float], str]) -> Markup:
    """Return what tells the numbers of a time to whoever points at it."""
    wide = WIDTH / max(1, len(at) - 1)
    around = f'" y="0" width="{_n(wide)}" height="{HEIGHT:g}" data-at="'
    return Markup("").join(
        Markup(  # noqa: S704 - what others have named is escaped, the rest are numbers and times
            f'<rect class="column" x="{_n(max(0.0, _x(n, len(at)) - wide / 2))}{around}{moment.isoformat()}">'
            f"<title>{_told(n, series, said)}</title></rect>"
        )
        for n, moment in enumerate(at)
    )


def _told(n: int, series: Sequence[Series], said: Callable[[float], str]) -> Markup:
    numbers = [(each.label, each.values[n]) for each in series]
    return escape(" · ".join(f"{label} {said(value)}" for label, value in numbers if value is not None))


def _spread(at: Sequence[datetime]) -> Iterator[datetime]:
    """Yield the times that stand below a picture, from its first to its last."""
    if len(at) < MARKS:
        yield from at
        return
    for mark in range(MARKS):
        yield at[round(mark * (len(at) - 1) / (MARKS - 1))]


def _x(n: int, count: int, width: float = WIDTH) -> float:
    return width / 2 if count == 1 else n * width / (count - 1)


def _y(value: float, top: float) -> float:
    return HEIGHT - value / top * HEIGHT


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


SPANS = ("1h", "6h", "24h", "7d", "30d")
PERCENTILES = ("p50", "p95", "p99")
_POINT_SECONDS = 60
_HELD = 5
"""For so many steps the last look at a queue stands for what was not looked at."""


def charts_of(figures: FiguresSeen, texts: Texts) -> dict[str, Chart]:
    """Return the charts of figures, by name: throughput, depth, age, run, lag."""
    saying, points = Formatter(texts), figures.points
    at = [point.at for point in points]
    per_minute = _POINT_SECONDS / figures.step if figures.step else 1.0
    over = figures.now - timedelta(seconds=figures.step)

    def drawn(name: str, series: Sequence[Series], said: Any) -> Chart:
        ticks = time_ticks if said == saying.span else nice_ticks
        return chart(
            at, series, said, ticks, title=texts.say(f"chart.{name}"), about=texts.say(f"chart.{name}_about")
        )

    def series(name: str, values: Any, form: Form = Form.LINE) -> Series:
        return Series(name, texts.say(f"chart.series.{name}"), tuple(values), form)

    def rate(count: int, point: PointSeen) -> float | None:
        """Return how many in a minute; nobody knows that of a time that is not over."""
        return count * per_minute if point.at <= over else None

    return {
        "throughput": drawn(
            "throughput",
            [
                series("completed", (rate(point.completed, point) for point in points), Form.AREA),
                series("failed", (rate(point.failed + point.dead, point) for point in points)),
            ],
            saying.short,
        ),
        "depth": drawn("depth", [series("depth", held(_values(points, "depth")), Form.AREA)], saying.short),
        "age": drawn("age", [series("age", held(_values(points, "age")), Form.AREA)], saying.span),
        "run": drawn("run", [series(each, _values(points, f"run_{each}")) for each in PERCENTILES], saying.span),
        "lag": drawn("lag", [series(each, _values(points, f"lag_{each}")) for each in PERCENTILES], saying.span),
    }


def held(values: Sequence[float | None]) -> list[float | None]:
    """Return values that were looked at now and again with each kept for a few steps, until the next look."""
    kept: list[float | None] = []
    last, since = None, 0
    for value in values:
        last, since = (last, since + 1) if value is None else (value, 0)
        kept.append(last if since <= _HELD else None)
    return kept


def _values(points: Sequence[PointSeen], name: str) -> list[float | None]:
    return [getattr(point, name) for point in points]
