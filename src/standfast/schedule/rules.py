"""The rules there are, in one place."""

from standfast.schedule.at import At
from standfast.schedule.cron import Cron
from standfast.schedule.every import Every
from standfast.schedule.options import Misfire, Overlap
from standfast.schedule.rule import Ground, Rule
from standfast.schedule.union import AnyOf, AnyRule

__all__ = ["AnyOf", "AnyRule", "At", "Cron", "Every", "Ground", "Misfire", "Overlap", "Rule"]
