"""The app of our instances: `holdfast worker holdfast.bench.game.app:app`, with settings from the environment."""

from holdfast.app import Holdfast
from holdfast.bench.game.handler import TASK, run_job

app = Holdfast()
app.alerts(enabled=False)  # who looks for trouble asks what the game's store does not tell
app.task(name=TASK)(run_job)
