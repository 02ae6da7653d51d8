"""Files that never change: their addresses have a hash of their content, so that browsers may keep them."""

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

FOLDER = Path(__file__).parent / "static"
TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
FOR_EVER = "public, max-age=31536000, immutable"
_HASH_LENGTH = 12


@cache
def _files() -> Mapping[str, tuple[str, bytes]]:
    """Return the type and the content of each file by its name with a hash."""
    return {
        f"{file.stem}.{sha256(file.read_bytes()).hexdigest()[:_HASH_LENGTH]}{file.suffix}": (
            TYPES[file.suffix],
            file.read_bytes(),
        )
        for file in sorted(FOLDER.iterdir())
        if file.suffix in TYPES
    }


@cache
def _addresses() -> Mapping[str, str]:
    names = (name.rsplit(".", 2) for name in _files())
    return {f"{stem}.{ending}": f"/static/{stem}.{hashed}.{ending}" for stem, hashed, ending in names}


def address(name: str) -> str:
    """Return the path of a file, below the prefix."""
    return _addresses()[name]


async def serve(request: Request) -> Response:
    """Answer with a file; which one is looked up among those there are, so no path leads elsewhere."""
    found = _files().get(request.path_params["name"])
    if found is None:
        return PlainTextResponse("there is no such file", 404)
    kind, body = found
    return Response(body, media_type=kind, headers={"cache-control": FOR_EVER})
