"""The charts of the pages: which figures are drawn together, and how their numbers are read."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from standfast.dashboard.shapes.figures import FiguresSeen, PointSeen
from standfast.dashboard.texts import Texts
from standfast.dashboard.web.charts import Chart, Form, Series, chart, nice_ticks, time_ticks
from standfast.dashboard.web.saying import Saying

SPANS = ("1h", "6h", "24h", "7d", "30d")
PERCENTILES = ("p50", "p95", "p99")
_MINUTE = 60
_HELD = 5
"""For so many steps the last look at a queue stands for what was not looked at."""


def charts_of(figures: FiguresSeen, texts: Texts) -> dict[str, Chart]:
    """Return the charts of figures, by name: throughput, depth, age, run, lag."""
    saying, points = Saying(texts), figures.points
    at = [point.at for point in points]
    per_minute = _MINUTE / figures.step if figures.step else 1.0
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
