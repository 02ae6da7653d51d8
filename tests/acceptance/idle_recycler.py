"""A platform that puts idle web apps to sleep: `idle_recycler.py PORT BACKEND_PORT SECONDS COMMAND…`.

The app is started by the first request and stopped by SIGTERM after so many seconds without one. Requests are
passed on as they are. Each start and stop is one line on stdout.
"""

import asyncio
import signal
import sys

HOST = "127.0.0.1"
TRY_AGAIN = 0.05


class Recycler:
    """One app, which sleeps unless it is asked for."""

    def __init__(self, backend: int, seconds: float, command: list[str]) -> None:
        self._backend = backend
        self._seconds = seconds
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._changing = asyncio.Lock()
        self._asked_at = 0.0

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Wake the app if it sleeps, and pass on one connection to its end."""
        self._asked_at = now()
        async with self._changing:
            await self._wake()
        to_app = await self._connected()
        if to_app is not None:
            app_reader, app_writer = to_app
            await asyncio.gather(copy(reader, app_writer), copy(app_reader, writer))
        writer.close()
        self._asked_at = now()

    async def _wake(self) -> None:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(*self._command)
            sys.stdout.write("started\n")
            sys.stdout.flush()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        while self._process is not None and self._process.returncode is None:
            try:
                return await asyncio.open_connection(HOST, self._backend)
            except OSError:
                await asyncio.sleep(TRY_AGAIN)
        return None

    async def put_to_sleep(self) -> None:
        """Stop the app whenever it was idle for too long."""
        while True:
            await asyncio.sleep(TRY_AGAIN)
            async with self._changing:
                if self._process is not None and now() - self._asked_at > self._seconds:
                    await self.stop()

    async def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            await self._process.wait()
            self._process = None
            sys.stdout.write("stopped\n")
            sys.stdout.flush()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        pass


def now() -> float:
    return asyncio.get_running_loop().time()


async def main() -> None:
    port, backend, seconds, *command = sys.argv[1:]
    recycler = Recycler(int(backend), float(seconds), command)
    server = await asyncio.start_server(recycler.pass_on, HOST, int(port))
    sleeping = asyncio.create_task(recycler.put_to_sleep())
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    await over.wait()
    server.close()
    sleeping.cancel()
    await recycler.stop()


if __name__ == "__main__":
    asyncio.run(main())
