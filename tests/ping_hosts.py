"""Hosts to be pinged: real servers on loopback that answer as they are told, and remember who asked."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class PingHost(ThreadingHTTPServer):
    """Answers with the statuses that it is given, one after the other, the last one for ever."""

    daemon_threads = True

    def __init__(self, *statuses, location=None):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses = list(statuses or [200])
        self.location = location
        self.asked = []
        self.answered = threading.Event()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        host = self.server
        host.asked.append((self.path, self.headers.get("Authorization")))
        status = host.statuses.pop(0) if len(host.statuses) > 1 else host.statuses[0]
        self.send_response(status)
        if 300 <= status < 400 and host.location:
            self.send_header("Location", host.location)
        self.send_header("Content-Length", "0")
        self.end_headers()
        host.answered.set()

    def log_message(self, *_):
        """Say nothing."""


@contextmanager
def ping_host(*statuses, location=None):
    with PingHost(*statuses, location=location) as host:
        thread = threading.Thread(target=host.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield host
        finally:
            host.shutdown()
            thread.join()
