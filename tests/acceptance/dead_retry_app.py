"""The app of the test about dead letters: mail that is refused while its server is down."""

from pathlib import Path

from standfast import Standfast

FOLDER = Path(__file__).resolve().parent
app = Standfast(f"sqlite:///{FOLDER}/jobs.db", lease=10, beat=0.25, grace=5, store_timeout=5)


@app.task(max_attempts=1)
async def deliver(number: int) -> int:
    """Deliver a mail, unless its server is down or its number is bad."""
    if number < 0:
        raise ValueError(f"no mail has the number {number}")
    if not (FOLDER / "server-is-up").exists():
        raise ConnectionError(f"mail {number}: Connection refused")
    return number
