"""A dashboard in this process, and somebody with a browser who keeps cookies."""

import httpx
from starlette.applications import Starlette
from starlette.routing import Mount

from standfast.dashboard import Dashboard

TOKEN = "t" * 32
HOME = "http://127.0.0.1:8080"


class Browser:
    """Somebody who looks at the dashboard, on the loop of a stage."""

    def __init__(self, stage, app, **headers):
        self._stage = stage
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app, client=("127.0.0.1", 5000)), base_url=HOME, headers=headers
        )
        self._client.headers["accept"] = "text/html"

    def get(self, path, **headers):
        return self._stage.wait(self._client.get(path, headers=headers))

    def head(self, path):
        return self._stage.wait(self._client.head(path))

    def post(self, path, form=None, **headers):
        return self._stage.wait(self._client.post(path, data=form or {}, headers={"origin": HOME} | headers))


class House:
    """A dashboard with links, which it keeps instead of printing."""

    def __init__(self, stage, **options):
        self.stage = stage
        self.printed = []
        self.dashboard = Dashboard(stage, links=self.printed.append, **{"hosts": (), **options})

    def browser(self, mount=None, **headers):
        inside = self.dashboard.asgi
        app = inside if mount is None else Starlette(routes=[Mount(mount, inside)])
        return Browser(self.stage, app, **headers)

    def audit(self):
        """Return what the audit says, the newest first."""
        return [(each.who, each.what, each.asked, each.error) for each in self.stage.read("audit.list").entries]


def place_of(answer):
    """Return where an answer leads."""
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def csrf_in(page):
    """Return the token in the forms of a page."""
    return page.text.partition('name="csrf" value="')[2].partition('"')[0]
