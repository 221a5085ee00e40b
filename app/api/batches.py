"""The routes of batches, and how their bodies are read: JSON Lines, never whole in memory."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi.responses import StreamingResponse
from pydantic_core import from_json, to_json

from app.api import examples
from app.api.dependencies import (
    MAX_VALUES,
    V1,
    ApiKeyId,
    Cursor,
    IdempotencyKey,
    Limit,
    Tenant,
    TheCells,
    TheStore,
    parsed,
    shared,
    value_count,
)
from app.api.openapi import (
    BATCH_RESULTS,
    BATCH_SUBMITTED,
    LISTED,
    OF_SUBMISSION,
    batch_body,
    problems,
)
from app.api.problems import UnsupportedMediaType
from app.api.responses import page_response, replayed
from app.api.routes import TheReceiver
from app.api.webhooks import WebhookId
from app.contract import Contract
from app.contract.batches import (
    BATCH_ID,
    MAX_REQUESTS,
    Batch,
    BatchHead,
    BatchItem,
    BatchOptions,
    BatchPage,
)
from app.contract.errors import (
    BatchNotFound,
    BodyTooLarge,
    Conflict,
    InvalidRequest,
    MalformedHeader,
    NotFound,
)
from app.contract.overlays import Overlay, RequestLayer, named_preset
from app.contract.requests import RefinementRequest
from app.contract.webhooks import DeliveryList
from app.service.batches import BatchEnd, Batches, BatchLine, Received, refused_line
from app.settings import Settings

MEDIA_TYPE = "application/jsonl"
MEDIA_TYPES = {
    MEDIA_TYPE,
    *(
        f"application/{name}"
        for name in ("x-jsonl", "jsonlines", "x-jsonlines", "ndjson", "x-ndjson")
    ),
}
MAX_LINES = 2 * MAX_REQUESTS + 1
"""Lines of a body, blank ones included."""

WITH_TEXT = re.compile(rb"\S[^\n]*")
"""A line of a body from its first character that is no space."""

LONG_LINE = 64 * 1024
"""Bytes from which a line is read in a thread."""

C = TypeVar("C", bound=Contract)

batches = APIRouter(prefix="/v1/batches", tags=["batches"], dependencies=V1)


async def lines_in(chunks: AsyncIterator[bytes], longest: int) -> AsyncIterator[bytes | None]:
    """Yield lines without their ends, and None for a line of more than `longest` bytes."""
    held, is_long = bytearray(), False
    async for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            fits = not is_long and len(held) + len(piece) <= longest
            yield bytes(held + piece) if fits else None
            held, is_long = bytearray(), False
        is_long = is_long or len(held) + len(rest) > longest
        held = bytearray() if is_long else held
        held += b"" if is_long else rest
    if held or is_long:
        yield None if is_long else bytes(held)


class BatchBody:
    """A body of JSON Lines: first its options, if it has any, then a request per line.

    `preset` returns the fields of a preset by its name, or raises InvalidRequest;
    `default_preset` is that of lines that name none.
    """

    def __init__(
        self,
        chunks: AsyncIterator[bytes],
        max_line_bytes: int,
        preset: Callable[[str], Awaitable[Mapping[str, Any]]],
        default_preset: str | None = None,
    ) -> None:
        self._preset = preset
        self._usual = {} if default_preset is None else {"preset": default_preset}
        self._presets: dict[str, Mapping[str, Any]] = {}
        self._chunks = chunks
        self._ahead = b""
        self._longest = max_line_bytes
        self._digest = sha256()

    async def received(self) -> AsyncIterator[Received]:
        """Yield options, lines and the end, each line with the defaults of the options.

        Raises InvalidRequest for invalid options, and for too many lines: at once if the part that
        is read ahead has them.
        """
        options: BatchOptions | None = None
        defaults = RequestLayer({})
        number = requests = 0
        ahead = await self._read_ahead()
        async for raw in lines_in(self._hashed(), self._longest):
            number += 1
            if number > MAX_LINES:
                raise InvalidRequest(f"a batch must have at most {MAX_LINES} lines")
            if raw is not None and not raw.strip():
                continue
            if options is None:
                head = None if raw is None else _head(number, raw)
                _require_few(ahead - (head is not None))
                yield (options := head or BatchOptions())
                defaults = RequestLayer(options.defaults.fields(), "the defaults of the batch")
                if head is not None:
                    continue
            requests += 1
            _require_few(requests)
            yield await self._read(number, raw, defaults)
            await asyncio.sleep(0)  # others have a turn
        yield BatchEnd(self._digest.hexdigest())

    async def _read_ahead(self) -> int:
        """Read at least as much of the body as a line may have; return its lines with text."""
        held = bytearray()
        async for chunk in self._chunks:
            held += chunk
            if len(held) >= self._longest:
                break
        self._ahead = bytes(held)
        return sum(1 for _ in islice(WITH_TEXT.finditer(self._ahead), MAX_LINES))

    async def _hashed(self) -> AsyncIterator[bytes]:
        ahead, self._ahead = self._ahead, b""
        self._digest.update(ahead)
        yield ahead
        del ahead
        async for chunk in self._chunks:
            self._digest.update(chunk)
            yield chunk

    async def _read(self, number: int, raw: bytes | None, defaults: RequestLayer) -> Received:
        if raw is None:
            why = BodyTooLarge(
                f"a line must have at most {self._longest} bytes; HONE_MAX_BODY_BYTES sets how many"
            )
            return refused_line(number, None, why)
        try:
            item = await _parsed(BatchItem, raw)
        except InvalidRequest as why:
            return refused_line(number, _custom_id(raw), why)
        layers = RequestLayer(self._usual), defaults, RequestLayer(item.request)
        overlay = Overlay(*layers)
        try:
            if name := named_preset(overlay.fields):
                preset = RequestLayer(await self._fields_of(name), f"the preset {name}")
                overlay = Overlay(preset, *layers)
            content = to_json(overlay.fields)
            request = await _parsed(RefinementRequest, content, is_merged=True)
        except InvalidRequest as why:
            return refused_line(number, item.custom_id, overlay.blamed(why), "/request")
        digest = sha256(content).hexdigest()
        return BatchLine(number, item.custom_id, request, digest, overlay)

    async def _fields_of(self, name: str) -> Mapping[str, Any]:
        if name not in self._presets:
            self._presets[name] = await self._preset(name)
        return self._presets[name]


def _require_few(requests: int) -> None:
    if requests > MAX_REQUESTS:
        raise InvalidRequest(
            f"a batch must have at most {MAX_REQUESTS} requests; send the others in another batch"
        )


async def _parsed(contract: type[C], raw: bytes, *, is_merged: bool = False) -> C:
    """Return `parsed`, of what is long in a thread, so that others have a turn."""
    if len(raw) < LONG_LINE:
        return parsed(contract, raw, is_merged=is_merged)
    return await asyncio.to_thread(parsed, contract, raw, is_merged=is_merged)


def _head(number: int, raw: bytes) -> BatchOptions | None:
    """Return the options in the first line, or None if it is a request."""
    if "batch" not in _members(raw):
        return None
    try:
        return parsed(BatchHead, raw).batch
    except InvalidRequest as why:
        raise InvalidRequest(f"line {number}: {why.detail}", errors=why.errors) from None


def _members(raw: bytes) -> Mapping[str, Any]:
    """Return the members of a JSON object; none if it is no object, or too large to be one."""
    if value_count(raw) > MAX_VALUES:
        return {}
    try:
        tree = from_json(raw, allow_inf_nan=False)
    except ValueError:
        return {}
    return tree if isinstance(tree, dict) else {}


def _custom_id(raw: bytes) -> str | None:
    found = _members(raw).get("custom_id")
    return found[:128] if isinstance(found, str) else None


async def _body(request: Request, store: TheStore, tenant: Tenant) -> BatchBody:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in MEDIA_TYPES:
        raise UnsupportedMediaType(f"Content-Type must be {MEDIA_TYPE}")
    settings: Settings = request.state.settings
    presets = partial(store.presets.fields, tenant)
    default = await store.presets.default_of(tenant)
    return BatchBody(request.stream(), settings.max_body_bytes, presets, default)


TheBatches = Annotated[Batches, Depends(shared("batches"))]
Body = Annotated[BatchBody, Depends(_body)]
BatchId = Annotated[
    str,
    Path(
        description="`id` in the response of `POST /v1/batches`.",
        pattern=BATCH_ID,
        examples=[examples.BATCH_ID],
    ),
]


@batches.post(
    "",
    operation_id="submitBatch",
    status_code=202,
    responses=BATCH_SUBMITTED | problems(Conflict, *OF_SUBMISSION),
    openapi_extra=batch_body(),
)
async def submit(
    body: Body,
    key: IdempotencyKey,
    tenant: Tenant,
    api_key: ApiKeyId,
    service: TheBatches,
    response: Response,
) -> Batch:
    """Submit up to 10,000 requests as JSON Lines.

    Each line is `{"custom_id": "...", "request": {...}}`, where the request is the same as the body
    of `POST /v1/refinements`. The first line may be `{"batch": {...}}` with options: defaults for
    all requests, a webhook, metadata. A line that is refused does not affect the others: it is
    listed in `errors` and in the results.

    The response is 202 once everything is durable; if no line is valid, or more than 100 are
    refused, it is 422 and nothing is kept. Workers begin
    the requests one after the other as there is room for them, at the rate at which they end.
    """
    batch, is_replayed = await service.submit(tenant, body.received(), key, api_key)
    response.headers["Location"] = batch.links.self
    return replayed(response, batch, is_replayed=is_replayed)


@batches.get(
    "",
    operation_id="listBatches",
    responses=LISTED | problems(MalformedHeader, InvalidRequest),
)
async def list_(
    tenant: Tenant,
    cells: TheCells,
    request: Request,
    response: Response,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> BatchPage:
    """List batches, newest first."""
    page = await cells.page_of_batches(tenant, limit, cursor)
    return page_response(request, response, page)


@batches.get("/{batch_id}", operation_id="getBatch", responses=problems(BatchNotFound))
async def get(batch_id: BatchId, tenant: Tenant, store: TheStore) -> Batch:
    """Return a batch with the number of its requests in each status."""
    return await store.batches.get(tenant, batch_id)


@batches.get(
    "/{batch_id}/results",
    operation_id="getBatchResults",
    response_class=Response,
    responses=BATCH_RESULTS | problems(BatchNotFound),
)
async def results(
    batch_id: BatchId, tenant: Tenant, store: TheStore, receiver: TheReceiver
) -> Response:
    """Return what has ended so far as JSON Lines, in the order of the body.

    A line has `custom_id`, `outcome`, and the refinement as `GET /v1/refinements/{id}` returns it,
    or for a refused line the error. Before the batch has ended, lines are missing.
    """
    if receiver.is_head:
        await store.batches.get(tenant, batch_id)
        return Response(media_type=MEDIA_TYPE)
    pages = await store.batches.results(tenant, batch_id, receiver.has_received)
    return StreamingResponse(pages, media_type=MEDIA_TYPE)


@batches.post(
    "/{batch_id}/cancel",
    operation_id="cancelBatch",
    status_code=202,
    responses=problems(BatchNotFound, Conflict),
)
async def cancel(batch_id: BatchId, tenant: Tenant, store: TheStore) -> Batch:
    """Cancel what has not ended: requests that were not begun, and refinements under way.

    The batch is `canceling` until all of them have stopped. What has ended keeps its result.
    """
    return await store.batches.cancel(tenant, batch_id)


@batches.delete(
    "/{batch_id}",
    operation_id="eraseBatch",
    status_code=204,
    responses=problems(BatchNotFound),
)
async def erase(batch_id: BatchId, tenant: Tenant, store: TheStore) -> None:
    """Erase a batch and all its refinements, in any status."""
    await store.erase_batch(tenant, batch_id)


@batches.get(
    "/{batch_id}/webhooks", operation_id="listBatchWebhooks", responses=problems(BatchNotFound)
)
async def list_webhooks(batch_id: BatchId, tenant: Tenant, store: TheStore) -> DeliveryList:
    """Return the webhook of a batch that has ended, and every attempt to deliver it."""
    return DeliveryList(data=await store.deliveries(tenant, batch_id))


@batches.post(
    "/{batch_id}/webhooks/{webhook_id}/redeliver",
    operation_id="redeliverBatchWebhook",
    status_code=202,
    responses=problems(BatchNotFound, NotFound),
)
async def redeliver(
    batch_id: BatchId, webhook_id: WebhookId, tenant: Tenant, store: TheStore
) -> DeliveryList:
    """Send the webhook of a batch again now, with the same id."""
    await store.webhooks.redeliver(tenant, batch_id, webhook_id)
    return DeliveryList(data=await store.deliveries(tenant, batch_id))
