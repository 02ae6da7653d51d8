"""Ends TLS before a server that speaks none: `python tls_front.py PORT BEHIND CERT KEY [CLIENTS]`.

It listens at PORT, and passes on to the port BEHIND of this machine. With CLIENTS only those are let in who have a
certificate of that authority. It says when it listens, and ends with its standard input.
"""

import select
import socket
import socketserver
import ssl
import sys
import threading
from contextlib import suppress

_RECORD = 65_536
"""More than one record of TLS may hold: what is read at once leaves nothing behind."""


class _Passage(socketserver.BaseRequestHandler):
    """One connection, with TLS on one side."""

    def handle(self) -> None:
        server = self.server
        assert isinstance(server, _Front)
        with (
            suppress(OSError),  # also those of TLS: who does not trust us hangs up
            server.context.wrap_socket(self.request, server_side=True) as before,
            socket.create_connection(("127.0.0.1", server.behind)) as behind,
        ):
            across: dict[socket.socket, socket.socket] = {before: behind, behind: before}
            while True:
                for source in select.select(list(across), [], [])[0]:
                    came = source.recv(_RECORD)
                    if not came:
                        return
                    across[source].sendall(came)


class _Front(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 100

    def __init__(self, port: int, behind: int, context: ssl.SSLContext) -> None:
        self.behind = behind
        self.context = context
        super().__init__(("127.0.0.1", port), _Passage)


def main() -> None:
    """Serve until the end of the input."""
    port, behind, cert, key, *clients = sys.argv[1:]
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    for authority in clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority)
    with _Front(int(port), int(behind), context) as front:
        threading.Thread(target=front.serve_forever, daemon=True).start()
        print("listening", flush=True)  # noqa: T201 - who has started it waits for that
        sys.stdin.buffer.read()
        front.shutdown()


if __name__ == "__main__":
    main()
