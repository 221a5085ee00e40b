"""A server that sends exactly the bytes that a test gives it, whatever they are."""

import asyncio
import re
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

LENGTH = re.compile(rb"(?i)content-length: (\d+)")
RESETS = struct.pack("ii", 1, 0)
"""SO_LINGER with a time of 0: closing sends RST."""


@dataclass(frozen=True)
class RawAnswer:
    """Bytes to send when a request has arrived, and what happens to the connection then."""

    sent: bytes
    then: Literal["stay", "close", "reset", "hang"] = "stay"
    piece: int = 1_000_000
    """How many bytes are sent at once."""
    is_early: bool = False
    """Whether it is sent when the head has arrived, and the body is not read."""
    again_s: float | None = None
    """Seconds after which it is sent once more, to the same request."""


@dataclass
class RawServer:
    """What it was asked, on how many connections, and how many of them have ended."""

    url: str = ""
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    ended: int = 0
    bytes_sent: int = 0
    is_answered: bool = False
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


@asynccontextmanager
async def raw_server(
    *answers: RawAnswer | bytes, tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawServer]:
    """Answer the n-th request with the n-th answer, and with the last one from then on."""
    state = RawServer()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state.connections += 1
        task = asyncio.current_task()
        assert task is not None
        state.tasks.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await answered(reader, writer):
                pass
        state.ended += 1
        writer.transport.abort()

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        length = LENGTH.search(head)
        answer = answers[min(len(state.requests), len(answers) - 1)]
        answer = RawAnswer(answer) if isinstance(answer, bytes) else answer
        has_body = length and not answer.is_early
        body = await reader.readexactly(int(length[1])) if length and has_body else b""
        state.requests.append(head + body)
        for at in range(0, len(answer.sent), answer.piece):
            writer.write(answer.sent[at : at + answer.piece])
            await writer.drain()
            state.bytes_sent += len(answer.sent[at : at + answer.piece])
            await asyncio.sleep(0)
        state.is_answered = True
        if answer.again_s is not None:
            await asyncio.sleep(answer.again_s)
            writer.write(answer.sent)
        if answer.then == "hang":
            await reader.read()
        if answer.then == "reset":
            raw = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESETS)
        return answer.then == "stay"

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    scheme = "https" if tls else "http"
    state.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/chat"
    try:
        yield state
    finally:
        server.close()
        for task in state.tasks:
            task.cancel()
        await asyncio.gather(*state.tasks, return_exceptions=True)


@asynccontextmanager
async def tunnel(place: str) -> AsyncIterator[str]:
    """Run a proxy that connects every tunnel to one host and port; return its own."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(65_536):
                writer.write(piece)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        host, port = place.split(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(copy(reader, back), copy(there, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
