"""Alerts: rules that are looked at once for the whole fleet, and who is told when one is broken."""

from standfast.alerts.signature import verify_signature

__all__ = ["verify_signature"]
