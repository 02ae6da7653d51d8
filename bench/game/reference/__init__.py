"""Strategies over a plain table, at the same prices: two published ones, one of ours, and those of contestants."""

from game.reference.strategies import Strategy

__all__ = ["Strategy"]
