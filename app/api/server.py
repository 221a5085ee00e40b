"""uvicorn as Hone runs it: streams end first, so that leaving takes no longer than it may."""

import asyncio
import math
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI

from app.api.connection import Connection
from app.settings import Settings


class Server(uvicorn.Server):
    """A server that calls `close_streams` at the first signal, before it waits for connections."""

    def __init__(self, config: uvicorn.Config, close_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._close_streams = close_streams
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Leave, at the second Ctrl-C at once. The signal is not raised again: it was obeyed."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._close_streams)


def configured(
    app: FastAPI, settings: Settings, connection: type[Connection] = Connection
) -> uvicorn.Config:
    """Return uvicorn's configuration: its log goes where the process's log goes."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        loop="auto",
        http=connection,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=max(1, math.floor(settings.grace_s - 1)),
    )
