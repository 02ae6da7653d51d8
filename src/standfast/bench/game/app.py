"""The app of our instances: `standfast worker standfast.bench.game.app:app`, with settings from the environment."""

from standfast.app import Standfast
from standfast.bench.game.handler import TASK, run_job

app = Standfast()
app.alerts(enabled=False)  # who looks for trouble asks what the game's store does not tell
app.task(name=TASK)(run_job)
