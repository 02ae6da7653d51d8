"""Metrics for Prometheus: what processes have counted, how the store stands, and both as text.

A process that runs jobs counts in a file of its own (`cells.py`, `meter.py`), and its supervisor adds up those of
all that it has and had (`totals.py`). Workers inside a web server count in a folder that its processes share
(`shared.py`): whichever is asked adds up all that is there. `families.py` lists the metrics; `scrape.py` looks at
the store and writes the answer.
"""
