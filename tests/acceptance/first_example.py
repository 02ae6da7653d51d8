"""README's first example, run with a Python that has Standfast installed and nothing of this repository."""

import json
import os
import subprocess
from pathlib import Path

from docs_session import ROOT, blocks_of


def run_first_example(environment: Path, folder: Path) -> None:
    """Enqueue, work and look, by the commands that a virtual environment has."""
    [example, *_] = [block for block in blocks_of(ROOT / "README.md") if block.title == "jobs.py"]
    folder.mkdir()
    (folder / "jobs.py").write_text(example.body)
    surroundings = {
        name: value for name, value in os.environ.items() if not name.startswith(("STANDFAST_", "PYTHON"))
    }

    def run(name: str, *words: str) -> str:
        command = [environment / "bin" / name, *words]
        done = subprocess.run(command, cwd=folder, env=surroundings, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("python", "jobs.py")
    run("standfast", "worker", "jobs:app", "--drain", "--queues", "mail")
    [job] = json.loads(run("standfast", "jobs", "list", "--queue", "mail", "--json"))
    assert (job["task"], job["state"], job["attempt"]) == ("send_email", "completed", 0)
    where = run("python", "-c", "import standfast; print(standfast.__file__)").strip()
    assert Path(where).is_relative_to(environment), where
