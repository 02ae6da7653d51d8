"""A Redis sentinel: it says where the master of a service is."""

from collections.abc import Sequence
from pathlib import Path

from servers.process import give_away
from servers.redis import RedisServer

SERVICE = "jobs"


class RedisSentinel(RedisServer):
    """Knows one service, whose master may move. It watches, but elects nobody: a test says who is the master."""

    kind = "sentinel"

    def __init__(self, master: RedisServer) -> None:
        self._master = master
        super().__init__()
        self.password = ""

    def url(self, database: int = 0) -> str:
        """Return the URL of a database of the service."""
        return f"redis+sentinel://:{self._master.password}@127.0.0.1:{self.port}/{SERVICE}/{database}"

    def moved(self, master: RedisServer) -> None:
        """Say from now on that this is the master."""
        with self.connect() as own:
            own.execute_command("SENTINEL", "REMOVE", SERVICE)
            own.execute_command("SENTINEL", "MONITOR", SERVICE, "127.0.0.1", master.port, 1)
            own.execute_command("SENTINEL", "SET", SERVICE, "auth-pass", master.password)

    def _prepare(self) -> None:
        config = self.folder / "sentinel.conf"
        config.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self.folder}\n"
            f"sentinel monitor {SERVICE} 127.0.0.1 {self._master.port} 1\n"
            f"sentinel auth-pass {SERVICE} {self._master.password}\n"
        )
        give_away(config)

    def _command(self) -> Sequence[str | Path]:
        return [self._binary, self.folder / "sentinel.conf", "--sentinel"]
