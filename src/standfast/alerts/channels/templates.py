"""Templates: the texts of a channel, with {names} of a fixed set in them. Pure, and without any power.

A name is replaced by a text, and that is all: there are no attributes, no indexes and no formats.
"""

from collections.abc import Iterator, Mapping
from string import Formatter

from standfast.spelling import hint

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
