"""The app that is measured while it is watched, or is not, as BENCH_WATCHED says."""

import os

from ours_app import app

from standfast import DeadMan, WebhookChannel

NOBODY = "http://127.0.0.1:9/"
"""Nobody is told anything, as nothing goes wrong; of the pings that nobody takes the log tells once."""

if "BENCH_WATCHED" in os.environ:
    app.alerts(
        channels=[WebhookChannel(name="hook", url=NOBODY, secret="not a secret at all")],
        dead_man=DeadMan(url=NOBODY, every=5.0),
    )
    app.objective("drained", target=0.99, task="noop")
    app.objective("in-time", target=0.99, queue="default", start_within=60)
else:
    app.alerts(enabled=False)
