"""A web app that does its background work itself: FastAPI, one process, one SQLite file.

    python examples/web/fastapi_shop.py             then open http://127.0.0.1:8000
    uvicorn fastapi_shop:web --app-dir examples/web --workers 4

HEALTH_TOKEN=… mounts /health/livez, /health/readyz and /health/healthz for whoever has the token,
DASHBOARD_TOKEN=… likewise /dashboard; an app with users says who they are instead, with auth=….
"""

import os
from datetime import UTC, datetime
from pathlib import Path

import uvicorn
from fastapi import FastAPI, HTTPException
from fastapi.staticfiles import StaticFiles
from jobs import app, monthly_report, shown

from standfast import JobNotFoundError
from standfast.dashboard import Dashboard
from standfast.hosts.asgi import lifespan
from standfast.observe.health.endpoints import Health

web = FastAPI(title="Shop", lifespan=lifespan(app))  # this one line runs the jobs here


@web.post("/months/{month}/report", status_code=202)
async def order_report(month: str) -> dict[str, object]:
    """Enqueue a report. The answer comes at once, and the job is safe by then."""
    handle = await monthly_report.aenqueue(month)
    return {"id": handle.id}


@web.get("/jobs/{job_id}")
async def look_at_job(job_id: str) -> dict[str, object]:
    """Tell how far a job is, or what it returned."""
    try:
        return shown(await app.handle(job_id).ajob())
    except JobNotFoundError as error:
        raise HTTPException(404, str(error)) from error


@web.get("/stock")
async def look_at_stock() -> list[dict[str, object]]:
    """Tell what the scheduled job found, the latest first."""
    fires = await app.acall(app.schedules.fires("count_stock", limit=2, before=datetime.now(UTC)))
    return [shown(await app.handle(fire.job_id).ajob()) for fire in fires if fire.job_id]


if token := os.environ.get("HEALTH_TOKEN"):
    web.mount("/health", Health(app, token=token).asgi)
if token := os.environ.get("DASHBOARD_TOKEN"):
    web.mount("/dashboard", Dashboard(app, token=token).asgi)
web.mount("/", StaticFiles(directory=Path(__file__).with_name("page"), html=True))

if __name__ == "__main__":
    uvicorn.run(web, port=int(os.environ.get("PORT", "8000")))
