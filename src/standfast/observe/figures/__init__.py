"""Figures: how many jobs ended, how, how long they took and how late they began, minute by minute for thirty days.

    counts.py ─► publisher.py ─► parts ─► rollup.py ─► minutes ─► ten minutes ─► hours
    each worker  every 15 s               by turn      6 hours    3 days         30 days

All of them are records: a part is a TALLY, the others FIGURES. `series.py` makes a series of them for charts.
"""
