"""Samples as the text that Prometheus reads (format 0.0.4). Pure."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from standfast.metrics.families import FAMILIES, Family, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_IN_LABEL = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_IN_HELP = str.maketrans({"\\": "\\\\", "\n": "\\n"})


def histogram(
    family: Family, labels: tuple[str, ...], ends: Sequence[float], counts: Sequence[int], total: float
) -> Iterator[Sample]:
    """Yield the samples of a histogram: `counts` are of single buckets, the last of which has no end."""
    sums = list(accumulate(counts))
    for end, number in zip((*ends, math.inf), sums, strict=True):
        yield Sample(family.name, labels, number, "_bucket", (("le", _number(end)),))
    yield Sample(family.name, labels, total, "_sum")
    yield Sample(family.name, labels, sums[-1], "_count")


def written(samples: Iterable[Sample]) -> str:
    """Return samples as text, each family once, in the order in which they are declared."""
    by_family: dict[str, list[Sample]] = {name: [] for name in FAMILIES}
    for sample in samples:
        by_family[sample.family].append(sample)
    lines: list[str] = []
    for name, own in by_family.items():
        if own:
            family = FAMILIES[name]
            lines += (f"# HELP {name} {family.help.translate(_IN_HELP)}", f"# TYPE {name} {family.type}")
            lines += (_line(family, sample) for sample in own)
    return "".join(f"{line}\n" for line in lines)


def _line(family: Family, sample: Sample) -> str:
    pairs = (*zip(family.labels, sample.labels, strict=True), *sample.more)
    labels = ",".join(f'{name}="{value.translate(_IN_LABEL)}"' for name, value in pairs)
    return f"{sample.family}{sample.suffix}{f'{{{labels}}}' if labels else ''} {_number(sample.value)}"


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
