"""The Flask app of hosts in tests, with health in it, which says which process answered."""

import os

from host_flask import app, web
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from standfast.observe.health.access import LOOPBACK
from standfast.observe.health.endpoints import Health

health = Health(app, networks=LOOPBACK, rate=1000)


def told(environ, start_response):
    """Answer as health does."""

    def start_with_pid(status, headers):
        return start_response(status, [*headers, ("X-Pid", str(os.getpid()))])

    return health.wsgi(environ, start_with_pid)


web.wsgi_app = DispatcherMiddleware(web.wsgi_app, {"/ops": told})
