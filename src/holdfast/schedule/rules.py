"""The rules there are, in one place, and how one is read from JSON."""

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.schedule.at import At
from holdfast.schedule.cron import Cron
from holdfast.schedule.every import Every
from holdfast.schedule.options import Misfire, Overlap
from holdfast.schedule.rule import Ground, Rule
from holdfast.schedule.union import AnyOf, AnyRule

__all__ = ["AnyOf", "AnyRule", "At", "Cron", "Every", "Ground", "Misfire", "Overlap", "Rule", "decode_rule"]


def decode_rule(written: bytes | str) -> AnyRule:
    """Return the rule that JSON means. Raises ConfigurationError that says what is wrong with it."""
    try:
        rule: AnyRule = msgspec.json.decode(written, type=AnyRule)
    except msgspec.MsgspecError as error:
        example = '{"rule": "cron", "expression": "0 2 * * *", "tz": "Asia/Taipei"}'
        raise ConfigurationError(f"this is no rule: {error}; a rule is written as {example}") from error
    return rule
