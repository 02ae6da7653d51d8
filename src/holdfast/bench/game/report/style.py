"""What strategies look like, in pictures and charts alike."""

INK = "#24292f"
QUIET = "#6e7781"
FAINT = "#d8dee4"
PUBLISHED = "#8c959f"
GOOD = "#1a7f37"
BAD = "#cf222e"
COLOURS = {"ours": "#0b7a75", "lookahead": "#d9822b", "naive": "#a23b4b"}
