"""What strategies look like, in pictures and charts alike."""

from zlib import crc32

INK = "#24292f"
QUIET = "#6e7781"
FAINT = "#d8dee4"
PUBLISHED = "#8c959f"
GOOD = "#1a7f37"
BAD = "#cf222e"
COLOURS = {"ours": "#0b7a75", "lookahead": "#d9822b", "naive": "#a23b4b", "separate": "#3b6fb6"}
OTHERS = ("#7a4fa3", "#b5651d", "#2f7f4f", "#b03a86", "#4f6d7a")


def colour_of(strategy: str) -> str:
    """Return the colour of a strategy; a contestant's is the same in each report."""
    return COLOURS.get(strategy) or OTHERS[crc32(strategy.encode()) % len(OTHERS)]
