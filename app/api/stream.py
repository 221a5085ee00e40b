"""Stored events as server-sent events (HTML Living Standard, 9.2)."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi.responses import StreamingResponse
from starlette.types import Send

from app.store import StoredEvent

COMMENT = b": nothing new\n\n"


class EventStream(StreamingResponse):
    """Sends events as they come and as they are stored, and a comment where there are none.

    Whatever can be refused has been refused before one is made. A reader that takes nothing is cut
    off by its connection.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[tuple[StoredEvent, ...], None]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the latter is nginx's
        super().__init__((), headers=headers)
        self._events = events

    async def stream_response(self, send: Send) -> None:
        """Send everything; the source is closed at once when the reader leaves."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        async with aclosing(self._events) as batches:
            async for events in batches:
                body = b"".join(map(encoded, events)) or COMMENT
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def encoded(event: StoredEvent) -> bytes:
    """Return one event; its JSON stands on one line."""
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (event.number, event.type.encode(), event.json)
