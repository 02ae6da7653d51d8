"""Health mounted in web apps: at /token and at /near by ASGI (Starlette) and by WSGI (Flask)."""

import os

from flask import Flask
from starlette.applications import Starlette
from starlette.routing import Mount
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from standfast import Standfast
from standfast.observe.health.access import LOOPBACK
from standfast.observe.health.endpoints import Health

app = Standfast()

by_token = Health(app, token=os.environ["HEALTH_TOKEN"])
by_network = Health(app, networks=LOOPBACK)

asgi = Starlette(routes=[Mount("/token", by_token.asgi), Mount("/near", by_network.asgi)])

wsgi = Flask(__name__)
wsgi.wsgi_app = DispatcherMiddleware(wsgi.wsgi_app, {"/token": by_token.wsgi, "/near": by_network.wsgi})
