"""Has each Python that finds this folder know counted URLs."""

import game.counted  # noqa: F401 - it makes them known
