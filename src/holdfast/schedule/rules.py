"""The rules there are, in one place."""

from holdfast.schedule.at import At
from holdfast.schedule.cron import Cron
from holdfast.schedule.every import Every
from holdfast.schedule.options import Misfire, Overlap
from holdfast.schedule.rule import Ground, Rule
from holdfast.schedule.union import AnyOf, AnyRule

__all__ = ["AnyOf", "AnyRule", "At", "Cron", "Every", "Ground", "Misfire", "Overlap", "Rule"]
