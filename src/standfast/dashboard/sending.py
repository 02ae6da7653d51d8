"""Files for people to keep, sent while they are written. Who goes away before the end, ends the writing."""

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from standfast.dashboard.shapes.jobs import JobsExported


def file_of(request: Request, told: JobsExported) -> Response:
    """Return the answer that sends a file, and says how many jobs are in it at most."""
    headers = {
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Content-Disposition": f'attachment; filename="{told.name}"',
        "X-Standfast-Limit": str(told.limit),
    }
    if told.span is not None:
        headers["X-Standfast-Span"] = str(told.span)
    if request.method == "HEAD":
        return Response(media_type=told.type, headers=headers)
    return StreamingResponse(told.parts, media_type=told.type, headers=headers)
