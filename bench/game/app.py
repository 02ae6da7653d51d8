"""The app of our instances: `standfast worker game.app:app`, with settings from the environment."""

from game.handler import TASK, run_job
from standfast.app import Standfast

app = Standfast()
app.alerts(enabled=False)  # who looks for trouble asks what the game's store does not tell
app.task(name=TASK)(run_job)
