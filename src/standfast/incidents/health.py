"""What the incidents of a store say about its health. Pure."""

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta

from standfast.core.incident import Trouble
from standfast.incidents.book import read_incidents
from standfast.store.examination import Census, Finding
from standfast.words import counted

RECENT = timedelta(days=1)


def judge_incidents(census: Census) -> Finding:
    """Return what is to be said about the last day."""
    incidents = [each for each in read_incidents(census.incidents) if each.trouble is not Trouble.SNAPSHOT]
    recent = [each for each in incidents if census.now - each.last_at <= RECENT]
    if not recent:
        earlier = f"; {len(incidents):,} earlier" if incidents else ""
        return Finding.ok("incidents", f"none in the last day{earlier}")
    times = sum(each.count for each in recent)
    often = f", {times:,} times" if times > len(recent) else ""
    kinds = _counted_kinds(each.trouble for each in recent)
    says = f"{counted(len(recent), 'incident')} in the last day{often}: {kinds}"
    return Finding.warning("incidents", says, "`standfast incidents list --since 1d` tells of them")


def _counted_kinds(troubles: Iterable[Trouble]) -> str:
    return ", ".join(f"{number:,} {trouble_words(trouble)}" for trouble, number in Counter(troubles).most_common())


def trouble_words(trouble: Trouble) -> str:
    """Return a trouble as people say it."""
    return trouble.value.replace("_", " ")
