"""Metrics for Prometheus: what processes have counted, how the store stands, and both as text.

A process that runs jobs counts in a file of its own (`cells.py`, `meter.py`), and its supervisor adds up those of
all that it has and had (`totals.py`). Workers inside a web server count in a folder that its processes share
(`shared.py`, `folding.py`): whichever is asked adds up all that is there. `storewide.py` looks at what is the same
for the whole fleet. `families.py` is the list of all metrics, `exposition.py` the format, `scrape.py` one answer.
"""
