"""A web app that does its background work itself: Flask, one process, one SQLite file.

    python examples/web/flask_shop.py               then open http://127.0.0.1:8000
    gunicorn flask_shop:web --chdir examples/web --workers 4

HEALTH_TOKEN=… mounts /health/livez, /health/readyz and /health/healthz for whoever has the token,
DASHBOARD_TOKEN=… likewise /dashboard; an app with users says who they are instead, with auth=….
"""

import os
from datetime import UTC, datetime
from pathlib import Path

from flask import Flask, Response
from jobs import app, monthly_report, shown
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from standfast import JobNotFoundError
from standfast.dashboard import Dashboard
from standfast.hosts.wsgi import bind
from standfast.observe.health.endpoints import Health

web = Flask("shop", static_folder=Path(__file__).with_name("page"), static_url_path="")
bind(web, app)  # this one line runs the jobs here


@web.get("/")
def page() -> Response:
    """Show the page."""
    return web.send_static_file("index.html")


@web.post("/months/<month>/report")
def order_report(month: str) -> tuple[dict[str, object], int]:
    """Enqueue a report. The answer comes at once, and the job is safe by then."""
    return {"id": monthly_report.enqueue(month).id}, 202


@web.get("/jobs/<job_id>")
def look_at_job(job_id: str) -> dict[str, object]:
    """Tell how far a job is, or what it returned."""
    return shown(app.handle(job_id).job())


@web.get("/stock")
def look_at_stock() -> list[dict[str, object]]:
    """Tell what the scheduled job found, the latest first."""
    fires = app.call(app.schedules.fires("count_stock", limit=2, before=datetime.now(UTC)))
    return [shown(app.handle(fire.job_id).job()) for fire in fires if fire.job_id]


@web.errorhandler(JobNotFoundError)
def say_not_found(error: JobNotFoundError) -> tuple[dict[str, object], int]:
    """Tell whoever asks for a job that there is none."""
    return {"error": str(error)}, 404


if token := os.environ.get("HEALTH_TOKEN"):
    web.wsgi_app = DispatcherMiddleware(web.wsgi_app, {"/health": Health(app, token=token).wsgi})
if token := os.environ.get("DASHBOARD_TOKEN"):
    web.wsgi_app = DispatcherMiddleware(web.wsgi_app, {"/dashboard": Dashboard(app, token=token).wsgi})

if __name__ == "__main__":
    web.run(port=int(os.environ.get("PORT", "8000")))
