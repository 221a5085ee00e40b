"""A TCP proxy in front of Redis that a test can reset, delay, silence or close to some addresses.

It runs in a thread of its own.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER of no second: close() sends RST

SILENT_CHECK_S = 0.02

T = TypeVar("T")


class TcpProxy:
    """Forwards each connection to a Unix socket, or to a port of the `host` on which it listens.

    `resets` counts the connections that it reset. While it `is_silent` connections stay open and
    nothing passes, in either direction. Clients with a `refused` address are disconnected.
    """

    def __init__(self, target: str | int, host: str = "127.0.0.1") -> None:
        self.resets = 0
        self.refused: frozenset[str] = frozenset()
        self._host = host
        self.delay_s = 0.0
        self.is_silent = False
        self.port = 0
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._clients: set[asyncio.StreamWriter] = set()
        self._opened: list[asyncio.StreamWriter] = []

    @property
    def url(self) -> str:
        """What a client connects to instead of the server."""
        return f"redis://127.0.0.1:{self.port}"

    def open(self) -> None:
        """Listen on a free port."""
        self._thread.start()
        self._run(self._listen())

    def reset(self) -> int:
        """Reset every connection with a TCP RST; return how many there were."""
        return self._run(self._reset())

    def close(self) -> None:
        """Reset every connection and stop listening."""
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, self._host, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _reset(self) -> int:
        clients, self._clients = self._clients, set()
        for client in clients:
            raw: socket.socket = client.get_extra_info("socket")
            with suppress(OSError):
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            client.transport.abort()
        self.resets += len(clients)
        return len(clients)

    async def _end(self) -> None:
        self._server.close()
        await self._reset()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for writer in self._opened:
            if writer.transport.get_write_buffer_size():  # closed, it waits until they are sent
                writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if writer.get_extra_info("peername")[0] in self.refused:
            writer.transport.abort()
            return
        try:
            to_read, to_write = await self._connect()
        except OSError:
            writer.close()
            return
        self._opened += (writer, to_write)
        self._clients.add(writer)
        forwarding = (self._forward(reader, to_write), self._forward(to_read, writer))
        tasks = [asyncio.ensure_future(each) for each in forwarding]
        try:
            with suppress(asyncio.CancelledError):  # the end of the test
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._clients.discard(writer)
            for task in tasks:
                task.cancel()
            writer.close()
            to_write.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, int):
            return await asyncio.open_connection(self._host, self._target)
        return await asyncio.open_unix_connection(self._target)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                while self.is_silent:  # noqa: ASYNC110 - what was sent arrives later
                    await asyncio.sleep(SILENT_CHECK_S)
                writer.write(data)
                await writer.drain()


@contextmanager
def tcp_proxy(target: str | int, host: str = "127.0.0.1") -> Iterator[TcpProxy]:
    """Keep a proxy open on a free port."""
    proxy = TcpProxy(target, host)
    proxy.open()
    try:
        yield proxy
    finally:
        proxy.close()
