"""The routes under `/openai/v1`: chat completions, responses, and presets as models."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from math import inf
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic_core import from_json, to_json
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from app.api.dependencies import JSON, IdempotencyKey, Tenant, TheStore, json_body, json_in, parsed
from app.api.middleware import enter_cell_of
from app.api.problems import OPENAI
from app.api.responses import EventStream, Receiver, disconnected
from app.api.routes import CountedStream, TheReceiver
from app.contract.errors import FieldError, HoneError, InvalidRequest, Unavailable
from app.contract.events import StepDelta
from app.contract.judgement import OnFail
from app.contract.overlays import Overlay, RequestLayer
from app.contract.requests import RefinementRequest
from app.contract.snapshot import Snapshot
from app.contract.status import Status
from app.openai.answers import (
    FIRST_DRAFT,
    MUST_PASS,
    AnswerForm,
    ChatForm,
    GrowingAnswer,
    ResponseForm,
    answer_of,
    pieces_of,
)
from app.openai.conversation import (
    BODY_SHA256,
    MODEL,
    MOST_METADATA,
    Asked,
    ModelNotFound,
    chat_asked,
    response_asked,
)
from app.service.service import ClientRequest, Service
from app.service.watching import Batch, EventFeed, Watching
from app.store.presets import UnknownPreset
from app.store.state import StoredEvent

RETRIES = "x-stainless-retry-count"
"""The header in which OpenAI's libraries say how often they have sent a request before."""

REPEATED_WITHIN = timedelta(hours=1)
"""Age up to which a refinement may be that of a repeated request; a library waits 10 minutes."""

CALLED_OFF = Status.CANCELING, Status.CANCELED
"""What a stream that closes leaves behind: no answer to its repetition, which begins anew."""

openai = APIRouter(prefix=OPENAI, include_in_schema=False)


@openai.get("/models")
async def preset_models(tenant: Tenant, store: TheStore) -> dict[str, Any]:
    """Return `hone`, and every preset of the tenant as a model of its name."""
    presets = await store.presets.all(tenant)
    named = [_model(f"{MODEL}:{one.name}", int(one.updated_at.timestamp())) for one in presets]
    return {"object": "list", "data": [_model(MODEL), *named]}


@openai.get("/models/{model}")
async def preset_model(model: str, tenant: Tenant, store: TheStore) -> dict[str, Any]:
    """Return one of the models."""
    for known in (await preset_models(tenant, store))["data"]:
        if known["id"] == model:
            return dict(known)
    raise ModelNotFound(f"there is no model {model[:100]!r}")


def _model(name: str, created: int = 0) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": "hone"}


@openai.post("/chat/completions")
async def complete(
    request: Request, key: IdempotencyKey, stream: CountedStream, receiver: TheReceiver
) -> Response:
    """Refine what a conversation asks for; answer with a chat completion or chunks of one."""
    return await _answered(request, chat_asked, ChatForm, key, stream, receiver)


@openai.post("/responses")
async def respond(
    request: Request, key: IdempotencyKey, stream: CountedStream, receiver: TheReceiver
) -> Response:
    """Refine what an input asks for; answer with a response or the events of one."""
    return await _answered(request, response_asked, ResponseForm, key, stream, receiver)


async def _answered(
    request: Request,
    read: Callable[[Any], Asked],
    form_of: Callable[[str, int, Asked], AnswerForm],
    key: str | None,
    stream: AbstractAsyncContextManager[None],
    receiver: Receiver,
) -> Response:
    """Refine what a request asks for, and answer with the result or with its stream."""
    raw = await json_body(request)
    asked, digest = read(json_in(raw)), sha256(raw).hexdigest()
    async with AsyncExitStack() as counted:
        if asked.is_stream:
            await counted.enter_async_context(stream)
        begun = await _repeated(request, receiver, digest)
        begun = begun or await _submitted(request, asked, digest, key, receiver)
        refinement_id = begun.snapshot.id
        readers: Counter[str] = request.scope["state"]["readers"]
        readers[refinement_id] += 1
        counted.callback(_leave, readers, refinement_id)
        enter_cell_of(request.scope["state"], refinement_id)
        watching: Watching = request.scope["state"]["watching"]
        form = form_of(refinement_id, int(begun.snapshot.created_at.timestamp()), asked)
        if not asked.is_stream:
            ended = await _ended(request, watching, receiver.tenant, refinement_id)
            return _whole(ended, form, asked, receiver)
        deltas = begun.growing is not None
        feed = await watching.follow(receiver.tenant, refinement_id, 0, deltas=deltas)
        assert feed is not None  # its first event follows 0
        return AnswerStream(feed, counted.pop_all().aclose, begun, form, asked, receiver, readers)


def _leave(readers: Counter[str], refinement_id: str) -> None:
    readers[refinement_id] -= 1
    if not readers[refinement_id]:
        del readers[refinement_id]


@dataclass(frozen=True, slots=True)
class Begun:
    """The refinement of a request."""

    snapshot: Snapshot
    growing: GrowingAnswer | None = None
    """The draft that can be sent while it is written, if there can be no other."""


async def _repeated(request: Request, receiver: Receiver, digest: str) -> Begun | None:
    """Return the refinement of a request that a library sends again, if there is one."""
    if request.headers.get(RETRIES, "0") == "0":
        return None
    found = {BODY_SHA256: digest}
    page = await receiver.cells.page(receiver.tenant, metadata=found)
    since = datetime.now(UTC) - REPEATED_WITHIN
    for snapshot in page.data:
        if snapshot.created_at > since and snapshot.status not in CALLED_OFF:
            return Begun(snapshot)
    return None


async def _submitted(
    request: Request, asked: Asked, digest: str, key: str | None, receiver: Receiver
) -> Begun:
    """Submit what a request asks for, laid over its preset; raise ModelNotFound without it."""
    state, presets, tenant = request.scope["state"], receiver.store.presets, receiver.tenant
    name = asked.preset or await presets.default_of(tenant)
    try:
        preset = {} if name is None else await presets.fields(tenant, name)
    except UnknownPreset as unknown:
        raise ModelNotFound(unknown.detail) from None
    over = asked.over(preset, state["model_roles"].default.model)
    named = {} if name is None else {"preset": name}
    layers = RequestLayer(preset, f"the preset {name}"), RequestLayer({**over, **named})
    overlay = Overlay(*layers, RequestLayer(asked.own))
    service: Service = state["service"]
    fields = overlay.fields
    if isinstance(fields["metadata"], dict) and len(fields["metadata"]) < MOST_METADATA:
        fields = {**fields, "metadata": {**fields["metadata"], BODY_SHA256: digest}}
    try:
        wanted = parsed(RefinementRequest, to_json(fields), is_merged=True)
        _require_no_waiting(wanted)
        api_key = state["caller"].key_id
        done = await service.submit(ClientRequest(tenant, wanted, digest, key, api_key))
        while done.replayed and done.snapshot.status in CALLED_OFF:
            key = sha256(f"{key} {done.snapshot.id}".encode()).hexdigest()
            done = await service.submit(ClientRequest(tenant, wanted, digest, key, api_key))
    except InvalidRequest as refused:
        raise asked.blamed(overlay.blamed(refused)) from None
    growing = GrowingAnswer() if _is_only_draft(wanted, asked) else None
    return Begun(done.snapshot, growing)


def _require_no_waiting(wanted: RefinementRequest) -> None:
    """Raise InvalidRequest for a request that waits for a person or a time, maybe for days."""
    waits = {pointer: "a person" for pointer, _ in wanted.reviews()}
    if wanted.start_after is not None:
        waits["/start_after"] = "that time"
    errors = tuple(
        FieldError(pointer=at, detail=f"it waits for {what}: submit it to /v1/refinements instead")
        for at, what in waits.items()
    )
    if errors:
        raise InvalidRequest.at(*errors)


def _is_only_draft(wanted: RefinementRequest, asked: Asked) -> bool:
    """Return whether the first draft is the result, as its model writes it."""
    validators = [validator for _, validator in wanted.all_validators()]
    has_draft = wanted.draft is not None
    return not (
        wanted.strategy.can_differ(wanted.max_iterations, has_draft=has_draft)
        or has_draft
        or asked.is_json
        or any(validator.on_fail is OnFail.FIX for validator in validators)
        or wanted.metadata.get(MUST_PASS) == "true"
    )


async def _ended(request: Request, watching: Watching, tenant: str, refinement_id: str) -> Snapshot:
    """Return the snapshot once it has ended; raise ClientDisconnect if the client has gone.

    The refinement goes on then: the client may come again.
    """
    ending = asyncio.ensure_future(
        watching.until(tenant, refinement_id, lambda now: now.status.is_terminal, inf)
    )
    leaving = asyncio.ensure_future(disconnected(request.receive))
    try:
        await asyncio.wait((ending, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            raise ClientDisconnect
        snapshot = ending.result()
    finally:
        ending.cancel()
        leaving.cancel()
    if not snapshot.status.is_terminal:
        raise _restarting(refinement_id)
    return snapshot


def _restarting(refinement_id: str) -> Unavailable:
    detail = f"the server stops; {refinement_id} goes on: send the same request again"
    return Unavailable(detail, retry_after_s=1)


def _whole(ended: Snapshot, form: AnswerForm, asked: Asked, receiver: Receiver) -> Response:
    text = answer_of(ended, is_json=asked.is_json)
    is_unstored = not ended.store and ended.erased_at is None
    task = receiver.task_after(ended.id, is_over=is_unstored)
    headers = {"Location": ended.links.self}
    return Response(to_json(form.whole(ended, text)), 200, headers, JSON, task)


class AnswerStream(EventStream):
    """Sends the answer once it is known, and a comment for everything that happens before.

    The refinement is canceled if its last reader disconnects before the end. `readers` counts
    those of this process.
    """

    def __init__(
        self,
        feed: EventFeed,
        has_ended: Callable[[], Awaitable[None]],
        begun: Begun,
        form: AnswerForm,
        asked: Asked,
        receiver: Receiver,
        readers: Counter[str],
    ) -> None:
        refinement_id = begun.snapshot.id

        def task_after(is_over: bool) -> BackgroundTask | None:
            return receiver.task_after(refinement_id, is_over=is_over)

        super().__init__(feed, has_ended, task_after)
        self.headers["Location"] = begun.snapshot.links.self
        self._begun = begun
        self._form = form
        self._opening = form.opening()
        self._asked = asked
        self._receiver = receiver
        self._readers = readers
        self._is_over = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer; cancel a refinement that no client waits for any more."""
        await super().__call__(scope, receive, send)
        refinement_id, tenant = self._begun.snapshot.id, self._receiver.tenant
        if not self._is_over and refinement_id not in self._readers:
            with suppress(HoneError):
                store = self._receiver.cells.store_of(refinement_id)
                await store.cancel(tenant, refinement_id, None, None)

    def _written(self, batch: Batch) -> bytes:
        return b"".join(map(self._written_of, batch))

    def _written_of(self, event: StoredEvent | StepDelta) -> bytes:
        growing = self._begun.growing
        if isinstance(event, StepDelta):
            is_shown = growing is not None and event.key == FIRST_DRAFT
            new = growing.grown(event) if growing and is_shown else ""
            return self._form.piece(new) if new else b""
        if not event.is_last:
            return b""
        self._is_over = True
        snapshot = Snapshot.model_validate(from_json(event.json)["data"])
        try:
            text = answer_of(snapshot, is_json=self._asked.is_json)
            rest = growing.rest(text) if growing else text
        except HoneError as error:
            return self._form.failing(error)
        pieces = b"".join(map(self._form.piece, pieces_of(rest)))
        return pieces + self._form.ending(snapshot, text)

    def _cut_off(self) -> bytes:
        self._is_over = True
        return self._form.failing(_restarting(self._begun.snapshot.id))
