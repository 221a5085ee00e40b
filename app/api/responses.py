"""Responses: their headers, pages, and the event stream (HTML Living Standard, 9.2)."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Container, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from pydantic_core import from_json, to_json
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from app.api.dependencies import EXCERPT_CHARACTERS, JSON, takes_gzip
from app.contract import Contract
from app.contract.access import KeyList, TenantList
from app.contract.batches import BatchPage
from app.contract.errors import HoneError
from app.contract.events import DELTA, StepDelta
from app.contract.snapshot import Snapshot, SnapshotPage
from app.service.watching import Batch, EventFeed
from app.store import Store
from app.store.cells import Cells
from app.store.state import Accepted, StoredEvent

RETRY_AFTER_S = 1
COMMENT = b": nothing new\n"
"""No empty line follows: many parsers take every block for an event, also one without data."""
LONG = 3
"""Refinements in a page from which on gzip is worth the time that it takes."""
GZIP_LEVEL = 1
RETRY = b"retry: 1000\n"
"""A line of the first event: milliseconds after which a browser connects again."""

Answer = TypeVar("Answer")
Page = TypeVar("Page", SnapshotPage, BatchPage, KeyList, TenantList)
UNSTORED = b'"store":false,"erased_at":null'
NEGOTIATED = {"Vary": "Accept"}
"""Headers of every response whose media type `Accept` has a say in."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """Who is sent a result: afterwards, text that is not to be stored is erased.

    A request with HEAD receives none.
    """

    store: Store
    tenant: str
    is_head: bool
    cells: Cells

    async def has_received(self, refinement_id: str) -> None:
        """Erase the text; if that fails, it is erased ten minutes after the end."""
        with suppress(HoneError):
            await self.cells.store_of(refinement_id).delivered(self.tenant, refinement_id)

    def task_after(self, refinement_id: str, *, is_over: bool) -> BackgroundTask | None:
        """Return the task that erases the text after a response; None unless it `is_over`."""
        is_due = is_over and not self.is_head
        return BackgroundTask(self.has_received, refinement_id) if is_due else None


def accepted(
    response: Response, result: Accepted, wait_s: int | None, receiver: Receiver
) -> Snapshot | Response:
    """Set status and headers of a submission: 202, or 200 if it ended within the preferred wait."""
    snapshot = result.snapshot
    response.headers["Location"] = snapshot.links.self
    response.headers["ETag"] = etag(snapshot)
    replayed(response, snapshot, is_replayed=result.replayed)
    if wait_s is not None:
        response.headers["Preference-Applied"] = f"wait={wait_s}"
    if wait_s is not None and snapshot.status.is_terminal:
        response.status_code = 200
    else:
        response.status_code = 202
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return received(response, snapshot, receiver)


def received(response: Response, snapshot: Snapshot, receiver: Receiver) -> Snapshot | Response:
    """Return the snapshot.

    If it is final and not to be stored, return a response that erases the text after sending.
    """
    is_over = snapshot.status.is_terminal and not snapshot.store and snapshot.erased_at is None
    if (task := receiver.task_after(snapshot.id, is_over=is_over)) is None:
        return snapshot
    return Response(
        snapshot.model_dump_json(),
        response.status_code or 200,
        dict(response.headers),
        JSON,
        background=task,
    )


def replayed(response: Response, answer: Answer, *, is_replayed: bool) -> Answer:
    """Return the answer, marked if an earlier request with the same key has brought it about."""
    if is_replayed:
        response.headers["Idempotency-Replayed"] = "true"
    return answer


def snapshot_response(
    response: Response, snapshot: Snapshot, seen: Container[int] | None, receiver: Receiver
) -> Snapshot | Response:
    """Return 200 with the snapshot, or 304 if the client has it already, with texts or without.

    Only a request with `If-None-Match` is answered with 304 (RFC 9110, section 15.4.5).
    """
    tag = etag(snapshot)
    if seen is not None and snapshot.last_event in seen and snapshot.erased_at is None:
        return Response(status_code=304, headers={"ETag": tag})
    response.headers["ETag"] = tag
    return received(response, snapshot, receiver)


def page_response(request: Request, response: Response, page: Page) -> Page:
    """Return the page, with a link to the next one."""
    if page.next_cursor is not None:
        response.headers["Link"] = _next(request, cursor=page.next_cursor)
    return page


def compressed(request: Request, response: Response, page: SnapshotPage) -> SnapshotPage | Response:
    """Return the page, as gzip for who takes that: a snapshot is long, and like the others."""
    response.headers["Vary"] = "Accept-Encoding"
    if len(page.data) < LONG or not takes_gzip(request):
        return page
    content = gzip.compress(page.model_dump_json(by_alias=True).encode(), GZIP_LEVEL, mtime=0)
    headers = {**response.headers, "Content-Encoding": "gzip"}
    return Response(content, headers=headers, media_type=JSON)


def event_page(
    request: Request,
    events: Sequence[StoredEvent],
    after: int,
    limit: int,
    task_after: Callable[[bool], BackgroundTask | None],
    *,
    excerpts: bool = False,
) -> Response:
    """Return one JSON page of stored events, without decoding them unless `excerpts` are sent.

    `has_more` and the link to the next page are set if there are more than `limit` events.
    """
    shown_events, has_more = events[:limit], len(events) > limit
    last = shown_events[-1].number if shown_events else after
    data = b",".join(excerpt(event).json if excerpts else event.json for event in shown_events)
    more = b"true" if has_more else b"false"
    content = b'{"data":[%b],"has_more":%b,"next_after":%d}' % (data, more, last)
    headers = NEGOTIATED | ({"Link": _next(request, after=last)} if has_more else {})
    task = task_after(delivers_unstored_result(shown_events))
    return Response(content, headers=headers, media_type=JSON, background=task)


def excerpted(page: Contract) -> Response:
    """Return a page with excerpts of its texts."""
    return Response(to_json(_cut(page.model_dump(mode="json", by_alias=True))), media_type=JSON)


def excerpt(event: StoredEvent) -> StoredEvent:
    """Return an event with excerpts of its texts. No excerpt is the last that a client is sent."""
    if len(event.json) <= EXCERPT_CHARACTERS:
        return event
    return replace(event, json=to_json(_cut(from_json(event.json))))


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value[:EXCERPT_CHARACTERS]
    if isinstance(value, dict):
        return {name: _cut(member) for name, member in value.items()}
    return [_cut(member) for member in value] if isinstance(value, list) else value


def delivers_unstored_result(events: Sequence[StoredEvent]) -> bool:
    """Return whether events end with the snapshot of a refinement that is not to be stored."""
    return any(event.is_last and UNSTORED in event.json for event in events)


def reported(text: str) -> Response:
    """Return a report."""
    media_type = "text/markdown; charset=utf-8"
    return Response(text.encode(), headers=NEGOTIATED, media_type=media_type)


def etag(snapshot: Snapshot) -> str:
    """Return the number of the last event, quoted: a snapshot changes only with an event."""
    return f'"{snapshot.last_event}"'


def _next(request: Request, **parameters: object) -> str:
    url = request.url.include_query_params(**parameters)
    return f'<{url.path}?{url.query}>; rel="next"'


class EventStream(StreamingResponse):
    """Sends events as they arrive, in their stored form, and a comment if there are none.

    Everything that can fail with an error response is checked before this is constructed.
    `has_ended` is awaited at its end.
    `server.Connection` resets the connection of a client that does not read.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        feed: EventFeed,
        has_ended: Callable[[], Awaitable[None]],
        task_after: Callable[[bool], BackgroundTask | None] = lambda _: None,
        *,
        excerpts: bool = False,
    ) -> None:
        own = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the latter is nginx's
        super().__init__((), headers=own | NEGOTIATED)
        self._opening = RETRY
        self._feed = feed
        self._has_ended = has_ended
        self._task_after = task_after
        self._excerpts = excerpts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all events; close the source as soon as the client disconnects."""
        try:
            async with asyncio.TaskGroup() as tasks:
                disconnecting = tasks.create_task(_disconnect(receive))
                # In a task of its own: an event wakes none of the layers that the request passed.
                sending = tasks.create_task(self._send(send))
                sending.add_done_callback(lambda _: disconnecting.cancel())
        except* ClientDisconnect:
            pass
        finally:
            await self._has_ended()

    async def _send(self, send: Send) -> None:
        async with aclosing(self._feed.later) as later:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            content = self._opening + self._written(self._feed.first)
            last: Sequence[StoredEvent] = _ended(self._feed.first)
            while not last:
                await send({"type": "http.response.body", "body": content, "more_body": True})
                if (batch := await anext(later, None)) is None:
                    content = self._cut_off()
                    break
                content, last = self._written(batch) or COMMENT, _ended(batch)
        await send({"type": "http.response.body", "body": content, "more_body": False})
        if task := self._task_after(delivers_unstored_result(last)):
            await task()

    def _written(self, batch: Batch) -> bytes:
        """Return what is sent of a batch; a comment is sent for nothing."""
        return encoded(batch, excerpts=self._excerpts)

    def _cut_off(self) -> bytes:
        """Return what the stream ends with where the events end before the last one."""
        return b""


async def _disconnect(receive: Receive) -> None:
    """Raise ClientDisconnect when the client disconnects."""
    await disconnected(receive)
    raise ClientDisconnect


async def disconnected(receive: Receive) -> None:
    """Return when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _ended(batch: Batch) -> list[StoredEvent]:
    """Return the event that is the last of a stream, if the batch ends with one."""
    return [event for event in batch[-1:] if isinstance(event, StoredEvent) and event.is_last]


def encoded(batch: Batch, *, excerpts: bool) -> bytes:
    """Return events in the format of a stream; their JSON has no line breaks."""
    written = []
    for event in batch:
        if isinstance(event, StepDelta):
            json = event.model_dump_json().encode()
            written.append(b"event: %b\ndata: %b\n\n" % (DELTA.encode(), json))
        else:
            json = excerpt(event).json if excerpts else event.json
            written.append(b"id: %d\nevent: %b\ndata: %b\n\n" % (event.number, event.type, json))
    return b"".join(written)
