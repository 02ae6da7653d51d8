"""Files that never change: their addresses have a hash of their content, so that browsers may keep them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

FOLDER = Path(__file__).parent / "static"
TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
FOR_EVER = "public, max-age=31536000, immutable"
_HASH_LENGTH = 12


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is served."""

    name: str
    body: bytes
    type: str


@cache
def assets() -> Mapping[str, Asset]:
    """Return all files by their names with hashes."""
    return {asset.name: asset for asset in map(_read, sorted(FOLDER.iterdir())) if asset}


def address(name: str) -> str:
    """Return the path of a file, below the prefix."""
    return _addresses()[name]


@cache
def _addresses() -> Mapping[str, str]:
    return {_plain(name): f"/static/{name}" for name in assets()}


async def serve(request: Request) -> Response:
    """Answer with a file; which one is looked up among those there are, so no path leads elsewhere."""
    found = assets().get(request.path_params["name"])
    if found is None:
        return PlainTextResponse("there is no such file", 404)
    return Response(found.body, media_type=found.type, headers={"cache-control": FOR_EVER})


def _read(file: Path) -> Asset | None:
    kind = TYPES.get(file.suffix)
    if kind is None:
        return None
    body = file.read_bytes()
    return Asset(_hashed(file.name, body), body, kind)


def _hashed(name: str, body: bytes) -> str:
    stem, _, ending = name.rpartition(".")
    return f"{stem}.{sha256(body).hexdigest()[:_HASH_LENGTH]}.{ending}"


def _plain(name: str) -> str:
    stem, _hash, ending = name.rsplit(".", 2)
    return f"{stem}.{ending}"
