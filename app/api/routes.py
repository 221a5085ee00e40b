"""The routes: each has named dependencies, one call of the service or the store, and one return."""

import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.routing import APIRoute
from starlette.background import BackgroundTask
from starlette.types import ASGIApp, Receive, Scope, Send

from app.access.callers import Caller, Metering
from app.api import examples
from app.api.dependencies import (
    EVENT_STREAM,
    JSON,
    V1,
    Absent,
    After,
    AfterStep,
    ApiKeyId,
    Change,
    Cursor,
    Deltas,
    EventLimit,
    EventsAs,
    Excerpts,
    IdempotencyKey,
    IterationNumber,
    KnownAs,
    Limit,
    Listed,
    Metadata,
    OfBatch,
    PartialBody,
    PauseBody,
    PreferredWait,
    RatingBody,
    RefinementId,
    ReportAs,
    RetryBody,
    ReviewBody,
    SearchPath,
    SeenEvents,
    Sought,
    StartPath,
    StepLimit,
    StepPath,
    Submission,
    Tenant,
    TheCells,
    TheModelRoles,
    TheService,
    TheStore,
    TheWatching,
    Versions,
    Wait,
    WithResults,
    event_media_type,
    event_number,
    idempotency_key,
    preferred_wait_s,
    seen_events,
    submission_in,
)
from app.api.openapi import (
    ACCEPTED,
    COMMANDED,
    IN_VAIN,
    LISTED,
    LOOKED_AT,
    OF_SUBMISSION,
    RATED,
    REPEATABLE,
    REPORTED,
    SUBMITTED,
    UNREADABLE,
    WATCHED,
    body,
    problems,
)
from app.api.problems import Misdirected, NotAcceptable
from app.api.responses import (
    NEGOTIATED,
    EventStream,
    Receiver,
    accepted,
    compressed,
    event_page,
    excerpted,
    page_response,
    replayed,
    reported,
    snapshot_response,
)
from app.contract import patterns
from app.contract.access import OPERATOR
from app.contract.budget import RefinementEstimate
from app.contract.errors import (
    Conflict,
    IdempotencyMismatch,
    InvalidRequest,
    MalformedHeader,
    NotStored,
    Overloaded,
    QuotaExceeded,
    RefinementNotFound,
    TooManyRequests,
)
from app.contract.events import StepPage
from app.contract.limits import Limits, LimitsChange
from app.contract.offers import Health, ModelList, OfferList, Readiness
from app.contract.overlays import PartialRequest
from app.contract.ratings import Rating, RatingRequest
from app.contract.requests import RefinementRequest
from app.contract.reviews import PauseRequest, ReviewDecision
from app.contract.snapshot import Diff, Iteration, IterationList, Snapshot, SnapshotPage
from app.service import offers
from app.service.service import ClientRequest
from app.store import Store
from app.store.rate_limits import StoredLimit


async def _receiver(request: Request) -> Receiver:
    state = request.scope["state"]
    is_head = bool(request.scope.get("is_head"))
    return Receiver(state["store"], state["caller"].tenant, is_head, state["cells"])


async def _stream(request: Request) -> AbstractAsyncContextManager[None]:
    caller: Caller = request.state.caller
    metering: Metering = request.state.metering
    return metering.stream(caller.tenant, caller.quotas.watchers)


REFINEMENT_ID = re.compile(patterns.REFINEMENT_ID.regex)
CountedStream = Annotated[AbstractAsyncContextManager[None], Depends(_stream)]
TheReceiver = Annotated[Receiver, Depends(_receiver)]


async def _submit(request: Request) -> Response | None:
    if request.scope["query_string"]:
        return None
    submission = await submission_in(request)
    key = idempotency_key(request.headers.get("idempotency-key"))
    wait_s = preferred_wait_s(request.headers.getlist("prefer"))
    caller, service = request.scope["state"]["caller"], request.scope["state"]["service"]
    receiver, head = await _receiver(request), _head()
    called = caller.tenant, caller.key_id, service, receiver, head
    return _whole(head, await submit(submission, key, wait_s, *called))


async def _get(request: Request) -> Response | None:
    if (refinement_id := _id_alone(request)) is None:
        return None
    seen = seen_events(request.headers.getlist("if-none-match"))
    receiver, head = await _receiver(request), _head()
    watching = request.scope["state"]["watching"]
    return _whole(head, await get(refinement_id, receiver.tenant, watching, seen, receiver, head))


async def _events(request: Request) -> Response | None:
    if (refinement_id := _id_alone(request)) is None:
        return None
    last = request.headers.get("last-event-id")
    after = 0 if last is None else event_number(last)
    media_type = await event_media_type(request.headers.getlist("accept"))
    receiver, watching = await _receiver(request), request.scope["state"]["watching"]
    sources = receiver.tenant, receiver.store, watching, request, receiver
    return await events(refinement_id, *sources, after, media_type, await _stream(request))


def _id_alone(request: Request) -> str | None:
    """Return the id in the path; None if it is none, or if there is a query."""
    refinement_id: str = request.path_params["refinement_id"]
    is_plain = not request.scope["query_string"] and REFINEMENT_ID.fullmatch(refinement_id)
    return refinement_id if is_plain else None


def _head() -> Response:
    """Return a response for the headers and the status that an endpoint sets."""
    head = Response()
    del head.headers["content-length"]
    return head


def _whole(head: Response, answer: Snapshot | Response) -> Response:
    if isinstance(answer, Response):
        return answer
    content = answer.model_dump_json(by_alias=True)
    return Response(content, head.status_code, head.headers, JSON)


refinements = APIRouter(prefix="/v1/refinements", tags=["refinements"], dependencies=V1)
journal = APIRouter(prefix="/v1/refinements/{refinement_id}", tags=["journal"], dependencies=V1)
server = APIRouter()


@refinements.post(
    "",
    operation_id="submitRefinement",
    status_code=202,
    response_model=Snapshot,
    responses=SUBMITTED | problems(*OF_SUBMISSION),
    openapi_extra=body(RefinementRequest, examples.REQUESTS),
)
async def submit(
    submission: Submission,
    key: IdempotencyKey,
    wait_s: PreferredWait,
    tenant: Tenant,
    api_key: ApiKeyId,
    service: TheService,
    receiver: TheReceiver,
    response: Response,
) -> Snapshot | Response:
    """Submit a draft to improve, or a task to write a draft for.

    The response is 202, with the path of the refinement in `Location`. With `Prefer: wait=30` the
    server waits up to 30 seconds, and answers 200 if the refinement ended in that time. It does not
    wait for a reviewer.
    """
    sent = ClientRequest(tenant, submission.content, submission.sha256, key, api_key)
    result = await service.submit(sent, wait_s or 0)
    return accepted(response, result, wait_s, receiver)


@refinements.get(
    "",
    operation_id="listRefinements",
    response_model=SnapshotPage,
    responses=LISTED | problems(MalformedHeader, InvalidRequest),
)
async def list_(
    tenant: Tenant,
    cells: TheCells,
    request: Request,
    response: Response,
    metadata: Metadata,
    selected: Listed,
    q: Sought = None,
    batch: OfBatch = None,
    result: WithResults = True,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> SnapshotPage | Response:
    """List refinements, newest first.

    `metadata.KEY=VALUE` selects refinements with that pair; it can be repeated for other keys.
    Pages stay stable while refinements are added. With filters that few refinements meet, a page
    may have fewer than `limit` and still `has_more`.
    """
    page = await cells.page(
        tenant,
        metadata=metadata,
        selected=selected,
        query=q,
        batch=batch,
        limit=limit,
        cursor=cursor,
    )
    shown = page_response(request, response, page if result else page.without_results())
    return compressed(request, response, shown)


@refinements.get(
    "/{refinement_id}",
    operation_id="getRefinement",
    response_model=Snapshot,
    responses=LOOKED_AT | problems(MalformedHeader, RefinementNotFound, InvalidRequest),
)
async def get(
    refinement_id: RefinementId,
    tenant: Tenant,
    watching: TheWatching,
    seen: SeenEvents,
    receiver: TheReceiver,
    response: Response,
    wait: Wait = 0,
) -> Snapshot | Response:
    """Return a refinement.

    `ETag` is the number of its last event; a request with that tag in `If-None-Match` is answered
    with 304. With `wait` the server holds the request until a new event follows the one in
    `If-None-Match`, or else the current one, and for as many seconds at most.
    """
    snapshot = await watching.wait_for_change(tenant, refinement_id, seen, wait)
    return snapshot_response(response, snapshot, seen, receiver)


@refinements.patch(
    "/{refinement_id}",
    operation_id="changeRefinement",
    responses=problems(RefinementNotFound, *IN_VAIN, *REPEATABLE),
    openapi_extra=body(LimitsChange, examples.CHANGES),
)
async def change(
    refinement_id: RefinementId,
    change: Change,
    key: IdempotencyKey,
    versions: Versions,
    tenant: Tenant,
    service: TheService,
) -> Limits:
    """Change threshold, `max_iterations` or budget while it runs; omitted limits stay as they are.

    Returns the limits now in force. They apply from the next judged draft on. Limits that are in
    force already change nothing. A change sent again with the same `Idempotency-Key` takes effect
    once.
    """
    return await service.change(tenant, refinement_id, change.content, key, versions)


@refinements.delete(
    "/{refinement_id}",
    operation_id="eraseRefinement",
    status_code=204,
    responses=problems(RefinementNotFound),
)
async def erase(refinement_id: RefinementId, tenant: Tenant, store: TheStore) -> None:
    """Erase a refinement and everything derived from it, immediately and in any status.

    Its worker stops, its event streams end, and every later request for it is answered with 404.
    """
    await store.erase(tenant, refinement_id)


@refinements.post(
    "/{refinement_id}/cancel",
    operation_id="cancelRefinement",
    status_code=202,
    responses=ACCEPTED | problems(MalformedHeader, RefinementNotFound, *IN_VAIN),
)
async def cancel(
    refinement_id: RefinementId,
    key: IdempotencyKey,
    versions: Versions,
    tenant: Tenant,
    store: TheStore,
) -> Snapshot:
    """Cancel a refinement: it is `canceling` until its worker has stopped, then `canceled`.

    Without a worker it is `canceled` immediately. The best draft so far stays in `result`.
    """
    return await store.cancel(tenant, refinement_id, key, versions)


@refinements.post(
    "/{refinement_id}/finish",
    operation_id="finishRefinement",
    status_code=202,
    responses=ACCEPTED | problems(MalformedHeader, RefinementNotFound, *IN_VAIN),
)
async def finish(
    refinement_id: RefinementId,
    key: IdempotencyKey,
    versions: Versions,
    tenant: Tenant,
    store: TheStore,
) -> Snapshot:
    """End a refinement with the best draft so far; without one, as soon as a draft is judged.

    Sent again with the same `Idempotency-Key` it is answered as before, also after the end.
    """
    return await store.finish(tenant, refinement_id, key, versions)


@refinements.post(
    "/{refinement_id}/pause",
    operation_id="pauseRefinement",
    status_code=202,
    responses=ACCEPTED
    | problems(MalformedHeader, RefinementNotFound, *IN_VAIN, *UNREADABLE, IdempotencyMismatch),
    openapi_extra=body(PauseRequest, examples.PAUSES, is_required=False),
)
async def pause(
    refinement_id: RefinementId,
    pause: PauseBody,
    key: IdempotencyKey,
    versions: Versions,
    tenant: Tenant,
    store: TheStore,
) -> Snapshot:
    """Pause a refinement after the steps in progress, whose replies are kept.

    It is `paused` when they have ended: `review` in the snapshot has the key and the deadline. Send
    the action `resume` to `reviews` to continue, or `revise` or `replace` to say what to make of
    the best draft first. A refinement that is paused already stays as it is, and one that ends with
    the steps in progress is not paused. Sent again with the same `Idempotency-Key` after it was
    resumed, it does not pause it again.
    """
    return await store.pause(tenant, refinement_id, pause.content, key, versions)


@refinements.get(
    "/{refinement_id}/request",
    operation_id="getRequest",
    responses=problems(RefinementNotFound, NotStored),
)
async def request(
    refinement_id: RefinementId, tenant: Tenant, store: TheStore
) -> RefinementRequest:
    """Return the submitted request, with defaults filled in."""
    return await store.request(tenant, refinement_id)


@refinements.post(
    "/{refinement_id}/reviews",
    operation_id="reviewRefinement",
    status_code=202,
    responses=COMMANDED
    | problems(MalformedHeader, RefinementNotFound, *IN_VAIN, *UNREADABLE, IdempotencyMismatch),
    openapi_extra=body(ReviewDecision, examples.REVIEWS),
)
async def review(
    refinement_id: RefinementId,
    decision: ReviewBody,
    key: IdempotencyKey,
    versions: Versions,
    tenant: Tenant,
    known_as: KnownAs,
    service: TheService,
    response: Response,
) -> Snapshot:
    """Decide about the draft under review; the refinement resumes with the decision.

    The refinement must be `paused`: `review` in the snapshot holds the question and the deadline,
    and the draft is the iteration at `review.path`. Send `review.key` as `path` to make sure that
    the decision is for that review. If it needs several approvals, it stays `paused` until they are
    given. A decision sent again with the same `Idempotency-Key` takes effect once.
    """
    done = await service.review(
        tenant, refinement_id, decision.content, key, versions, known_as=known_as
    )
    return replayed(response, done.snapshot, is_replayed=done.replayed)


@refinements.post(
    "/{refinement_id}/ratings",
    operation_id="rateRefinement",
    status_code=201,
    responses=RATED | problems(RefinementNotFound, NotStored, Conflict, *REPEATABLE),
    openapi_extra=body(RatingRequest, examples.RATINGS),
)
async def rate(
    refinement_id: RefinementId,
    rating: RatingBody,
    key: IdempotencyKey,
    tenant: Tenant,
    service: TheService,
    response: Response,
) -> Rating:
    """Say what a judged draft deserves, or that it is better than another one.

    Possible in any status, also after the end. It changes neither the course nor the result: it is
    journaled, shown with the iteration and in the report, and teaches how far to trust the critic
    (unless the request has `"learn": false`). A rating sent again with the same `Idempotency-Key`
    counts once. A refinement takes at most 200 ratings.
    """
    rated, is_replayed = await service.rate(tenant, refinement_id, rating.content, key)
    return replayed(response, rated, is_replayed=is_replayed)


@refinements.post(
    "/{refinement_id}/retry",
    operation_id="retryRefinement",
    status_code=202,
    response_model=Snapshot,
    responses=SUBMITTED | problems(RefinementNotFound, NotStored, Conflict, *REPEATABLE),
    openapi_extra=body(LimitsChange, examples.RETRIES, is_required=False),
)
async def retry(
    refinement_id: RefinementId,
    limits: RetryBody,
    key: IdempotencyKey,
    wait_s: PreferredWait,
    tenant: Tenant,
    service: TheService,
    receiver: TheReceiver,
    response: Response,
) -> Snapshot | Response:
    """Let a failed refinement go on from its journal.

    Everything recorded stays and is not paid again; only the steps that made up the failure are
    performed again. `max_seconds` starts anew, and the body can change limits, for example raise
    the budget that was exhausted. A retry sent again with the same `Idempotency-Key` takes effect
    once. The limit of waiting refinements does not apply: it was accepted before. With
    `Prefer: wait=30` the server waits as for a submission.
    """
    done = await service.retry(tenant, refinement_id, limits.content, key, wait_s or 0)
    return accepted(response, done, wait_s, receiver)


@refinements.post(
    "/{refinement_id}/continue",
    operation_id="continueRefinement",
    status_code=202,
    response_model=Snapshot,
    responses=SUBMITTED | problems(RefinementNotFound, NotStored, Conflict, *OF_SUBMISSION),
    openapi_extra=body(PartialRequest, examples.CONTINUATIONS),
)
async def continue_(
    refinement_id: RefinementId,
    changes: PartialBody,
    key: IdempotencyKey,
    wait_s: PreferredWait,
    tenant: Tenant,
    api_key: ApiKeyId,
    service: TheService,
    receiver: TheReceiver,
    response: Response,
    path: StartPath | Absent = None,
) -> Snapshot | Response:
    """Start a new refinement from a draft of one that has ended.

    It has this one as its `parent` and starts from its best draft, or from that of the iteration at
    `path` (`continued_from`). The body, with any fields of a request but `draft` and `preset`, lies
    over the original request, without later changes by PATCH: a field that the body has replaces
    the original one as a whole, and `null` takes it away. `feedback`, `spans`, `start_after` and
    `deadline` of the original one do not count. A strategy that cannot start from a draft (`nested`
    with its own `parts`, `self_consistency`) is replaced by `iterative` unless the body names one.
    Judgements, usage and time begin anew.
    """
    result = await service.continue_(
        tenant,
        refinement_id,
        changes.content,
        changes.sha256,
        path=path,
        key=key,
        wait_s=wait_s or 0,
        api_key=api_key,
    )
    return accepted(response, result, wait_s, receiver)


@journal.get(
    "/events",
    operation_id="watchRefinement",
    response_class=Response,
    responses=WATCHED
    | problems(
        MalformedHeader,
        RefinementNotFound,
        NotStored,
        NotAcceptable,
        InvalidRequest,
        TooManyRequests,
        QuotaExceeded,
    ),
)
async def events(
    refinement_id: RefinementId,
    tenant: Tenant,
    store: TheStore,
    watching: TheWatching,
    request: Request,
    receiver: TheReceiver,
    after: After,
    media_type: EventsAs,
    stream: CountedStream,
    limit: EventLimit = 100,
    deltas: Deltas = False,
    excerpts: Excerpts = False,
) -> Response:
    """Stream the events of a refinement: all past ones, then each new one up to the terminal one.

    In `text/event-stream` the `id` of an event is its number. To resume after a disconnect, send
    the number of the last event received as `Last-Event-ID` (or `after`); 204 means that the work
    has ended with it. After a retry a reconnect goes on, and a stream from the start also contains
    the `refinement.failed` before the retry. The stream has a comment for every 15 seconds without
    an event, and ends with the work. With `Accept: application/json` the same events are returned
    in pages, and also the ratings that were given after the end.

    With `deltas=true` the stream also has drafts and outputs while they are written, at most ten
    pieces a second: events of the type `step.delta` with the data `{"key", "offset", "text"}` and
    without an `id`. A piece replaces the text of its step from character `offset` on; 0 begins it
    anew, as when a call is repeated. Pieces are not journaled and may be missing; the text that
    counts is in `step.completed`. A call that began before anybody watched is not always streamed.

    With `excerpts=true` long texts in events are cut, those of pieces are not.
    """

    def task_after(is_over: bool) -> BackgroundTask | None:
        # A client that was sent an excerpt has not received the result.
        return receiver.task_after(refinement_id, is_over=is_over and not excerpts)

    if media_type != EVENT_STREAM:
        found = await store.events(tenant, refinement_id, after, limit + 1)
        if after and not found:
            await watching.require_event(tenant, refinement_id, after)
        return event_page(request, found, after, limit, task_after, excerpts=excerpts)
    async with AsyncExitStack() as counted:
        await counted.enter_async_context(stream)
        feed = await watching.follow(tenant, refinement_id, after, deltas=deltas)
        if feed is None:
            return Response(None, 204, NEGOTIATED)
        return EventStream(feed, counted.pop_all().aclose, task_after, excerpts=excerpts)


@journal.get(
    "/iterations",
    operation_id="listIterations",
    response_model=IterationList,
    responses=problems(RefinementNotFound, NotStored, InvalidRequest),
)
async def iterations(
    refinement_id: RefinementId,
    tenant: Tenant,
    service: TheService,
    path: SearchPath | Absent = None,
    excerpts: Excerpts = False,
) -> IterationList | Response:
    """Return all judged drafts, including those of inner searches, or only those of `path`."""
    page = IterationList(data=await service.iterations(tenant, refinement_id, path))
    return excerpted(page) if excerpts else page


@journal.get(
    "/iterations/{number}",
    operation_id="getIteration",
    responses=problems(RefinementNotFound, NotStored, InvalidRequest),
)
async def iteration(
    refinement_id: RefinementId,
    number: IterationNumber,
    tenant: Tenant,
    service: TheService,
    path: SearchPath = "",
) -> Iteration:
    """Return one draft and its judgement."""
    return await service.iteration(tenant, refinement_id, number, path)


@journal.get(
    "/steps",
    operation_id="listSteps",
    response_model=StepPage,
    responses=problems(RefinementNotFound, NotStored, InvalidRequest),
)
async def steps(
    refinement_id: RefinementId,
    tenant: Tenant,
    service: TheService,
    path: StepPath | Absent = None,
    after: AfterStep = 0,
    limit: StepLimit = 20,
    excerpts: Excerpts = False,
) -> StepPage | Response:
    """Return what models were asked and what they said, in the order in which the steps ended.

    Checks and tool calls are listed too, as are steps that failed and those that a retry has
    voided. A prompt has its texts unless `HONE_KEEP_PROMPTS` was off. For the next page send
    `next_after` as `after`.
    """
    page = await service.steps(tenant, refinement_id, path, after, limit)
    return excerpted(page) if excerpts else page


@journal.get(
    "/diff",
    operation_id="diffIterations",
    responses=problems(RefinementNotFound, NotStored, InvalidRequest),
)
async def diff(
    refinement_id: RefinementId,
    tenant: Tenant,
    service: TheService,
    before: Annotated[
        int,
        Query(
            alias="from",
            ge=0,
            le=1_000_000,
            description="Iteration to compare from; 0 is the client's draft.",
        ),
    ],
    after: Annotated[
        int, Query(alias="to", ge=0, le=1_000_000, description="Iteration to compare with.")
    ],
    path: SearchPath = "",
    from_path: Annotated[
        SearchPath | Absent, Query(description="Path of the search of `from`; default: `path`.")
    ] = None,
) -> Diff:
    """Return the difference between two iterations, as operations and as unified text.

    0 is the client's own draft; without one there is no iteration 0. The iterations may belong to
    different searches: `?from=3&from_path=&to=1&path=reviews/1` shows what a review has changed.
    """
    before_path = path if from_path is None else from_path
    return await service.diff(tenant, refinement_id, (before_path, before), (path, after))


@journal.get(
    "/report",
    operation_id="reportRefinement",
    response_class=Response,
    responses=REPORTED
    | problems(MalformedHeader, RefinementNotFound, NotStored, NotAcceptable, InvalidRequest),
)
async def report(
    refinement_id: RefinementId,
    tenant: Tenant,
    service: TheService,
    _format: ReportAs,
) -> Response:
    """Return a report of a refinement: the request, the steps, the result and its reasons.

    It is available in any status and covers everything so far, in Markdown (CommonMark with
    tables).
    """
    return reported(await service.report(tenant, refinement_id))


@server.post(
    "/v1/estimates",
    tags=["refinements"],
    operation_id="estimateRefinement",
    dependencies=V1,
    responses=problems(*UNREADABLE),
    openapi_extra=body(RefinementRequest, examples.REQUESTS),
)
async def estimate(
    submission: Submission, tenant: Tenant, service: TheService
) -> RefinementEstimate:
    """Return what a request would consume in calls, tokens and dollars, without running it.

    The request is checked as if it was submitted, and refused for the same reasons.
    """
    return await service.estimate(tenant, submission.content)


@server.get("/v1/strategies", tags=["offers"], operation_id="listStrategies", dependencies=V1)
async def strategies() -> OfferList:
    """Return the strategies, each with its JSON Schema and defaults."""
    return offers.strategy_offers()


@server.get("/v1/validators", tags=["offers"], operation_id="listValidators", dependencies=V1)
async def validators() -> OfferList:
    """Return the validators, each with its JSON Schema and defaults."""
    return offers.validator_offers()


@server.get(
    "/v1/models",
    tags=["offers"],
    operation_id="listModels",
    dependencies=V1,
    responses=problems(Overloaded),
)
async def models(model_roles: TheModelRoles, store: TheStore, tenant: Tenant) -> ModelList:
    """Return the model providers, each with its limits and the JSON Schema of a model choice.

    Limits name the models that any tenant has used: only tenant `default` is told them.
    """
    return offers.model_offers(model_roles, await _limits(store, tenant))


async def _limits(store: Store, tenant: str) -> tuple[StoredLimit, ...]:
    return await store.administration.limits() if tenant == OPERATOR else ()


@server.get("/healthz", tags=["health"], operation_id="getHealth", responses=problems(Misdirected))
async def health() -> Health:
    """Return 200 if the process is up."""
    return Health()


@server.get("/readyz", tags=["health"], operation_id="getReadiness", responses=problems(Overloaded))
async def readiness(
    cells: TheCells, store: TheStore, model_roles: TheModelRoles, tenant: Tenant
) -> Readiness:
    """Return 200 if Redis responds and accepts writes; of several cells, that of one.

    No running worker is a warning, and so are work that no running worker can play, which waits, a
    model or provider that takes no calls (told to tenant `default` only), webhooks that nothing
    sends, an archive that cannot be used, a Redis that is full or may evict, and a cell that is
    away.
    """
    found = [standing for _, standing in await cells.ask(_standing)]
    limits, away = await _limits(store, tenant), cells.away
    if tenant != OPERATOR:  # why has addresses, and the names of others
        away = dict.fromkeys(away, "")
        found = [replace(cell, archive=cell.archive and "the archive fails") for cell in found]
    return offers.readiness_of(found, model_roles, limits, away)


async def _standing(store: Store) -> offers.Standing:
    administration = store.administration
    return offers.Standing(
        cell=store.number,
        workers=await administration.workers(),
        unplayable=await administration.unplayable(),
        overdue=await store.webhooks.overdue(),
        waiting=await administration.waiting(),
        archive=(await administration.archive()).text,
        memory=await administration.memory_flaws(),
    )


Plain = Callable[[Request], Awaitable[Response | None]]
PLAIN: dict[Callable[..., Any], Plain] = {submit: _submit, get: _get, events: _events}
"""Forms of endpoints that are called in their place, and answer where they do not return None.

FastAPI inspects the declarations for each request, which takes longer than what it is asked for.
"""


def _plainly(plain: Plain, declared: ASGIApp) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        response = await plain(Request(scope, receive, send))
        await (response or declared)(scope, receive, send)

    return answer


for _route in (*refinements.routes, *journal.routes):
    if isinstance(_route, APIRoute) and (_plain := PLAIN.get(_route.endpoint)):
        _route.app = _plainly(_plain, _route.app)
