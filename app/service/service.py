"""Submits, continues, reviews and changes refinements, and reads their journals.

`Service` does so in one cell; `Spread` submits to the cells of a tenant.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import chain
from typing import Any

from pydantic_core import from_json

from app.contract.access import Quotas
from app.contract.budget import RefinementEstimate
from app.contract.drafts import is_long, lacking, locked_in_order, spans_of
from app.contract.editor import EDITOR
from app.contract.endpoints import REVEALED
from app.contract.errors import (
    Conflict,
    FieldConflict,
    FieldError,
    HoneError,
    InvalidRequest,
    NotStored,
    Overloaded,
    PreconditionFailed,
    QuotaExceeded,
    RefinementNotFound,
    Unavailable,
)
from app.contract.events import Queued, StepPage
from app.contract.json_lines import json_lines
from app.contract.limits import Limits, LimitsChange
from app.contract.object_drafts import ObjectText, object_in, replacing_object
from app.contract.overlays import OF_THE_PARENT, Overlay, PartialRequest, RequestLayer
from app.contract.pairs import WantedPairs
from app.contract.ratings import Rating, RatingRequest
from app.contract.requests import RefinementRequest, default_grounding
from app.contract.reviews import ReviewDecision
from app.contract.sections import LONGEST_PART
from app.contract.snapshot import ContinuedFrom, Diff, Iteration, Result, Snapshot, SnapshotPage
from app.contract.status import TERMINAL, WHOLE, Status
from app.contract.strategies.loops import DEFAULT
from app.service.admission import Admission, Admitted, Selection, called_seats
from app.service.estimates import estimated
from app.service.iterations import (
    JournalContradiction,
    both_at,
    diff_of,
    ended_steps,
    iterations_at,
    iterations_of,
    numbered,
    replies_of,
    step_of,
)
from app.service.pairs import may_have_pairs, pairs_of
from app.service.ratings import rated_of, rating_additions, rating_of
from app.service.report import markdown_of, story_of
from app.service.watching import Watching
from app.store import NotSent, Store
from app.store.cells import Cells
from app.store.prompts import known_texts
from app.store.state import Accepted, NewRefinement
from app.telemetry import Origin, current_span, request_id

MOST_CHARACTERS = 8_000_000
"""Of the texts of the request in the prompts of one page."""

LISTED = 100
"""Refinements that are looked at together for pairs."""


def require_usable_feedback(review: ReviewDecision, queued: Queued) -> None:
    """Raise InvalidRequest for feedback that the generator cannot follow."""
    is_asked = review.action == "revise" and review.feedback is not None
    if is_asked and queued.models.get("generator") == EDITOR:
        detail = f"{EDITOR} cannot follow feedback: omit it, or replace the draft with your own"
        raise InvalidRequest.at(FieldError(pointer="/feedback", detail=detail))


def require_reviewers(pointer: str, names: Sequence[str], unknown: Collection[str]) -> None:
    """Raise InvalidRequest if some of the reviewers of the plan at `pointer` are unknown."""
    detail = "it must be the id of an API key of your tenant that works and has the scope review"
    errors = tuple(
        FieldError(pointer=f"{pointer}/reviewers/{index}", detail=f"{name}: {detail}")
        for index, name in enumerate(names)
        if name in unknown
    )
    if errors:
        raise InvalidRequest.at(*errors)


def require_own_name(review: ReviewDecision, known_as: Sequence[str]) -> None:
    """Raise InvalidRequest for a decision in another name than that of the API key."""
    if known_as and review.reviewer not in (None, *known_as):
        detail = f"with an API key the reviewer is that key, {known_as[0]}"
        raise InvalidRequest.at(FieldError(pointer="/reviewer", detail=detail))


def require_passages(review: ReviewDecision, draft: str, locked: Collection[str]) -> None:
    """Raise InvalidRequest unless the passages of a review can be told in the draft."""
    try:
        spans_of(draft, review.spans, [*locked])
    except FieldConflict as conflict:
        error = FieldError(pointer=conflict.pointer, detail=str(conflict))
        raise InvalidRequest.at(error) from None


def _own_object(draft: str, request: RefinementRequest) -> str:
    """Return the text of a reviewer's object; raise InvalidRequest if it cannot be a draft."""
    made = request.made_form()
    form = None if made is None else made.json_schemas()["/schema"]
    try:
        return replacing_object(draft, request.draft or "", form)
    except ValueError as error:
        detail = f"the draft is an object: {error}"
        raise InvalidRequest.at(FieldError(pointer="/draft", detail=detail)) from None


def require_continuable(parent: Snapshot) -> Result:
    """Return the result of a refinement; raise Conflict unless it has ended with one."""
    if not parent.status.is_terminal:
        raise Conflict(f"{parent.id} has not ended: use PATCH to change its limits")
    if parent.result is None:
        raise Conflict(f"{parent.id} has no result to start from")
    return parent.result


def continuation_of(request: RefinementRequest, draft: str, changes: PartialRequest) -> Overlay:
    """Return the changes laid over what a continuation keeps of the continued request.

    A strategy that cannot start from that draft, or follow feedback on it, is replaced by the
    default unless one is named, `tools` are kept only for a strategy that may call them, and a
    `grounding` that was the default follows the context. Raises InvalidRequest for a change of what
    every continuation keeps.
    """
    changes.require_without(OF_THE_PARENT, "a continuation cannot change this field")
    given = RequestLayer(changes.fields())
    before: dict[str, Any] = from_json(request.model_dump_json(by_alias=True, context=REVEALED))
    begins: Any = draft
    if isinstance(request.draft, ObjectText):
        begins = object_in(draft) or draft
    if (made := request.made_form()) is not None:  # it is made anew, of that draft
        del before["validators"][request.validators.index(made)]
    left_out = {"feedback", "spans", "start_after", "deadline"}
    if request.grounding == default_grounding(request.context):
        left_out.add("grounding")
    strategy = changes.strategy if "strategy" in given.fields else request.strategy
    if "strategy" not in given.fields:
        about: dict[str, Any] = {"feedback": None, "spans": (), **given.fields}
        begun = {"draft": begins, "feedback": about["feedback"], "spans": about["spans"]}
        layers = Overlay(RequestLayer(before), RequestLayer(begun))
        if not (is_long(draft) or _is_possible(layers)):  # the default takes no long draft either
            left_out.add("strategy")
            strategy = DEFAULT
    if not strategy.callable_of(request.tools):
        left_out.add("tools")
    kept = {name: before[name] for name in before.keys() - left_out} | {"draft": begins}
    return Overlay(RequestLayer(kept, "the continued refinement"), given)


def _is_possible(overlay: Overlay) -> bool:
    try:
        overlay.request()
    except InvalidRequest:
        return False
    return True


def origin_of_request(*, as_link: bool = False) -> str:
    """Return the id of the request that is answered now and its place in a trace, to be stored."""
    return Origin(request_id.get(), current_span().context).encode(as_link=as_link)


async def _beginning_with(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


STANDING = TERMINAL | {Status.PAUSED}
"""Statuses in which nothing more happens without a client: a wait ends."""


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request for a refinement as a client of a tenant has sent it.

    `key` is that of the command, and `api_key` the id of the client's.
    """

    tenant: str
    content: RefinementRequest
    body_sha256: str
    key: str | None = None
    api_key: str | None = None
    continued_from: ContinuedFrom | None = None


class Service:
    """The operations that take several collaborators: submit, continue, review, change, report.

    Raises HoneError; another tenant's refinement is RefinementNotFound.
    """

    def __init__(
        self,
        store: Store,
        watching: Watching,
        admission: Admission,
        selection: Selection,
        quotas_of: Callable[[str], Awaitable[Quotas]],
        not_reviewing: Callable[[str, Sequence[str]], Awaitable[Collection[str]]],
    ) -> None:
        self.collaborators = (store, watching, admission, selection, quotas_of, not_reviewing)
        self._store = store
        self._quotas_of = quotas_of
        self._not_reviewing = not_reviewing
        self._watching = watching
        self._admission = admission
        self._selection = selection
        self.submitting = self
        """What continuations are submitted to: with cells, the service of all of them."""

    async def submit(self, sent: ClientRequest, wait_s: float = 0) -> Accepted:
        """Create a refinement; return it once it ends or waits for a review, or after `wait_s`.

        Raises InvalidRequest, IdempotencyMismatch, QuotaExceeded and Overloaded.
        """
        return await self.after(sent.tenant, await self.created(sent), wait_s)

    async def created(self, sent: ClientRequest) -> Accepted:
        """Create a refinement and return it at once; raise what `submit` raises."""
        return await self._store.create(await self.admitted(sent), sent.key)

    async def admitted(self, sent: ClientRequest) -> NewRefinement:
        """Return the record to store of a request that this server can carry out.

        Raises InvalidRequest.
        """
        admitted = await self._admit(sent.tenant, sent.content)
        request = admitted.request
        models, draws = await self._selection.pick(sent.tenant, request, admitted.choices)
        playing_models = {seat: models[seat] for seat in (*called_seats(request), *draws)}
        limits = request.limits()
        return NewRefinement(
            tenant=sent.tenant,
            request=request,
            body_sha256=sent.body_sha256,
            models=models,
            limits=limits,
            queued=Queued(
                strategy=request.strategy.kind,
                models={seat: choice.model for seat, choice in playing_models.items()},
                fallbacks={
                    seat: choice.fallbacks
                    for seat, choice in playing_models.items()
                    if choice.fallbacks
                },
                limits=limits,
                request_sha256=sent.body_sha256,
                draw=draws.get("generator"),
                draws={seat: draw for seat, draw in draws.items() if seat != "generator"},
            ),
            api_key=sent.api_key,
            continued_from=sent.continued_from,
            origin=origin_of_request(),
        )

    async def _admit(self, tenant: str, request: RefinementRequest) -> Admitted:
        """Return the request with the model of every seat; raise InvalidRequest."""
        own_keys = partial(self._store.provider_keys.all, tenant)
        admitted = await self._admission.admit(request, own_keys, await self._quotas_of(tenant))
        for pointer, review in request.reviews():
            if names := review.reviewers:
                require_reviewers(pointer, names, await self._not_reviewing(tenant, names))
        return admitted

    async def estimate(self, tenant: str, request: RefinementRequest) -> RefinementEstimate:
        """Return what a request would consume. Raises InvalidRequest as `submit` does."""
        admitted = await self._admit(tenant, request)
        return estimated(admitted.request, admitted.choices)

    async def continue_(
        self,
        tenant: str,
        refinement_id: str,
        changes: PartialRequest,
        body_sha256: str,
        *,
        path: str | None = None,
        key: str | None = None,
        wait_s: float = 0,
        api_key: str | None = None,
    ) -> Accepted:
        """Create a refinement that starts from an iteration of another one, its parent.

        Without a path that is the result. Raises Conflict unless the parent has ended with a
        result, and what `submit` raises.
        """
        await self._store.bring_back(tenant, refinement_id)
        parent = await self._store.snapshot(tenant, refinement_id)
        request = await self._store.request(tenant, refinement_id)
        result = require_continuable(parent)
        number, draft = result.iteration, result.draft
        if path is not None and path != result.path:
            found = await self._judged_at(tenant, refinement_id, path)
            number, draft = found.iteration, found.draft
        overlay = continuation_of(request, draft, changes)
        origin = ContinuedFrom(id=refinement_id, path=path or result.path, iteration=number)
        # A key belongs to body and parent: the same body may continue another refinement.
        digest = sha256(f"{refinement_id} {path or ''} {body_sha256}".encode()).hexdigest()
        sent = ClientRequest(tenant, overlay.request(), digest, key, api_key, origin)
        try:
            return await self.submitting.submit(sent, wait_s)
        except InvalidRequest as refused:
            raise overlay.blamed(refused) from None

    async def _judged_at(self, tenant: str, refinement_id: str, path: str) -> Iteration:
        for iteration in await self.iterations(tenant, refinement_id, None):
            if iteration.path == path:
                return iteration
        detail = f"no judged draft at {path}: the paths are in GET .../iterations"
        raise InvalidRequest.at(FieldError(pointer="/path", detail=detail))

    async def iterations(
        self, tenant: str, refinement_id: str, path: str | None
    ) -> tuple[Iteration, ...]:
        """Return all judged iterations, or the iterations of the search at `path`."""
        request = await self._store.request(tenant, refinement_id)
        journal = await self._store.journal(tenant, refinement_id)
        found = await asyncio.to_thread(iterations_of, journal, request)
        return found if path is None else iterations_at(found, path)

    async def iteration(self, tenant: str, refinement_id: str, number: int, path: str) -> Iteration:
        """Return one iteration of the search at `path`, else raise NotFound."""
        return numbered(await self.iterations(tenant, refinement_id, path), number)

    async def diff(
        self, tenant: str, refinement_id: str, before: tuple[str, int], after: tuple[str, int]
    ) -> Diff:
        """Return the difference between two iterations, each by search and number.

        Raises NotFound if one of them does not exist.
        """
        request = await self._store.request(tenant, refinement_id)
        found = await self.iterations(tenant, refinement_id, None)
        old, new = both_at(found, request, before, after)
        return await asyncio.to_thread(diff_of, old, new)

    async def steps(
        self, tenant: str, refinement_id: str, path: str | None, after: int, limit: int
    ) -> StepPage:
        """Return steps after event `after`: all, or the one at `path` and those below it.

        A page is shorter than `limit` if every prompt may be long.
        """
        request = await self._store.request(tenant, refinement_id)
        longest = sum(map(len, known_texts(request)))
        if request.draft is not None and is_long(request.draft):
            longest -= len(request.draft) - LONGEST_PART
        limit = min(limit, max(1, MOST_CHARACTERS // (longest + 1)))
        journal = await self._store.journal(tenant, refinement_id)
        ended = list(ended_steps(journal))
        found = [
            step for step in ended if step.event > after and (path is None or step.is_below(path))
        ]
        shown = found[:limit]
        asked = [step.name for step in shown]
        prompts = await self._store.prompts(tenant, refinement_id, asked, replies_of(ended))
        return StepPage(
            data=tuple(step_of(step, prompts) for step in shown),
            has_more=len(found) > limit,
            next_after=shown[-1].event if shown else after,
        )

    async def report(self, tenant: str, refinement_id: str) -> str:
        """Return a report of the refinement so far, for people."""
        snapshot = await self._store.snapshot(tenant, refinement_id)
        request = await self._store.request(tenant, refinement_id)
        journal = await self._store.journal(tenant, refinement_id)
        return await asyncio.to_thread(lambda: markdown_of(story_of(snapshot, request, journal)))

    async def review(
        self,
        tenant: str,
        refinement_id: str,
        review: ReviewDecision,
        key: str | None,
        versions: Collection[int] | None = None,
        *,
        known_as: Sequence[str] = (),
    ) -> Accepted:
        """Resume a paused refinement with a reviewer's decision; `replayed` if it had taken effect.

        An approval among several that are needed leaves it paused. `known_as`: the ids of the
        reviewer's API key. Raises Conflict unless this review is pending, InvalidRequest for
        feedback that its generator cannot follow, for a draft without the locked texts or of
        another form, for passages that the draft under review does not have and for another name
        than the key's, Forbidden for who is not asked, IdempotencyMismatch for a key that was used
        with another decision about it, and PreconditionFailed.
        """
        require_own_name(review, known_as)
        require_usable_feedback(review, await self._queued(tenant, refinement_id))
        is_replayed = await self._store.was_given(refinement_id, "review", key)
        review = await self._with_draft(tenant, refinement_id, review, is_replayed=is_replayed)
        decide = partial(self._store.review, tenant, refinement_id, review, key, known_as=known_as)
        if review.spans and not is_replayed:
            snapshot = await self._review_passages(tenant, refinement_id, review, versions, decide)
        else:
            snapshot = await decide(versions)
        return Accepted(snapshot, is_replayed)

    async def _with_draft(
        self, tenant: str, refinement_id: str, review: ReviewDecision, *, is_replayed: bool
    ) -> ReviewDecision:
        """Return a decision with the reviewer's own draft: an object as the text that it has here.

        Raises InvalidRequest unless an object has the form of the client's, and a text every locked
        text; a part of the text keeps those of the part.
        """
        if (draft := review.draft) is None:
            return review
        request = await self._store.request(tenant, refinement_id)
        if isinstance(request.draft, ObjectText):
            return review.model_copy(update={"draft": _own_object(draft, request)})
        if is_replayed:  # the draft that it was about is no longer under review
            return review
        locked = locked_in_order(request.draft, request.locked_texts)
        now = await self._store.snapshot(tenant, refinement_id)
        pending = next(iter(review.may_mean(now.reviews)), None)
        if locked and pending and pending.path and not pending.path.startswith(WHOLE):
            found = await self.iterations(tenant, refinement_id, None)
            seen = "".join(iteration.draft for iteration in found if iteration.path == pending.path)
            locked = tuple(text for text in locked if text in seen)
        if gone := lacking(draft, locked):
            detail = f"locked text is missing, changed or out of order: {gone[0][:200]}"
            raise InvalidRequest.at(FieldError(pointer="/draft", detail=detail))
        return review

    async def _review_passages(
        self,
        tenant: str,
        refinement_id: str,
        review: ReviewDecision,
        versions: Collection[int] | None,
        decide: Callable[[Collection[int] | None], Awaitable[Snapshot]],
    ) -> Snapshot:
        """Take a review of passages that the draft under review has, and of no other draft."""
        request = await self._store.request(tenant, refinement_id)
        if isinstance(request.draft, ObjectText):
            detail = "`spans` is not supported for an object: name its members in `feedback`"
            raise InvalidRequest.at(FieldError(pointer="/spans", detail=detail))
        seen = await self._store.snapshot(tenant, refinement_id)
        pending = next(iter(review.may_mean(seen.reviews)), None)
        found = await self.iterations(tenant, refinement_id, None) if pending else ()
        drafts = [
            iteration.draft for iteration in found if pending and iteration.path == pending.path
        ]
        if not drafts:
            raise Conflict(f"{refinement_id} is not waiting for this review of a draft")
        require_passages(review, drafts[-1], request.locked_texts)
        if versions is not None:
            pinned = [version for version in versions if version == seen.last_event]
            return await decide(pinned)
        try:
            return await decide([seen.last_event])
        except PreconditionFailed:
            raise Conflict(f"{refinement_id} has changed in the meantime: get it again") from None

    async def rate(
        self, tenant: str, refinement_id: str, rating: RatingRequest, key: str | None
    ) -> tuple[Rating, bool]:
        """Journal a person's rating of a judged draft, in any status.

        Returns it, and whether it was journaled before under the same key. Raises
        InvalidRequest if there is no such draft, and what `Store.rate` raises.
        """
        request = await self._store.request(tenant, refinement_id)
        journal = await self._store.journal(tenant, refinement_id)
        rated = rated_of(rating, journal)
        adds = rating_additions(tenant, rated, request, journal)
        event, is_replayed = await self._store.rate(tenant, refinement_id, rated, adds, key)
        return rating_of(event), is_replayed and key is not None

    async def change(
        self,
        tenant: str,
        refinement_id: str,
        change: LimitsChange,
        key: str | None = None,
        versions: Collection[int] | None = None,
    ) -> Limits:
        """Change limits and return those now in force.

        Raises Conflict if it has ended, PreconditionFailed if its last event is none of `versions`,
        and IdempotencyMismatch for a key that was used with another change of it.
        """
        await self._require_prices(tenant, refinement_id, change)
        return await self._store.change(tenant, refinement_id, change, key, versions)

    async def retry(
        self,
        tenant: str,
        refinement_id: str,
        change: LimitsChange,
        key: str | None,
        wait_s: float = 0,
    ) -> Accepted:
        """Let a failed refinement go on from its journal; return it like `submit`.

        `replayed` if the same retry had taken effect before. Raises Conflict unless it has failed,
        and IdempotencyMismatch for a key that was used with other limits for it.
        """
        await self._require_prices(tenant, refinement_id, change)
        await self._store.bring_back(tenant, refinement_id)
        is_replayed = await self._store.was_given(refinement_id, "retry", key)
        snapshot = await self._store.retry(tenant, refinement_id, change, key)
        return await self.after(tenant, Accepted(snapshot, is_replayed), wait_s)

    async def after(self, tenant: str, done: Accepted, wait_s: float) -> Accepted:
        """Return it once the refinement has ended or waits for a review, or after `wait_s`."""
        if wait_s <= 0:
            return done
        snapshot = await self._watching.until(
            tenant, done.snapshot.id, lambda snapshot: snapshot.status in STANDING, wait_s
        )
        return Accepted(snapshot, done.replayed)

    async def _require_prices(self, tenant: str, refinement_id: str, change: LimitsChange) -> None:
        """Raise InvalidRequest for a limit of the cost if the price of a model is unknown."""
        if change.max_cost_usd is not None:
            queued = await self._queued(tenant, refinement_id)
            names = chain(queued.models.values(), *queued.fallbacks.values())
            self._admission.require_prices(names)

    async def pairs(self, tenant: str, wanted: WantedPairs) -> AsyncIterator[bytes]:
        """Return the preference pairs of a tenant as lines of JSON, those of the newest refinements
        first.

        Left out are refinements that do not learn, or whose text is not to be stored. Raises
        `Unavailable` at once, as the iterator does later, and PresetNotFound if no preset has the
        name and no pair is of one that had.
        """
        lines = self._pairs(tenant, wanted, await self._page_for_pairs(tenant, wanted))
        first = await anext(lines, b"")
        if not first and wanted.preset is not None:
            await self._store.presets.get(tenant, wanted.preset)
        return _beginning_with(first, lines)

    async def _page_for_pairs(
        self, tenant: str, wanted: WantedPairs, cursor: str | None = None
    ) -> SnapshotPage:
        selected = wanted.selected
        return await self._store.page(tenant, selected=selected, limit=LISTED, cursor=cursor)

    async def _pairs(
        self, tenant: str, wanted: WantedPairs, page: SnapshotPage
    ) -> AsyncIterator[bytes]:
        while True:
            rated = await self._store.rated([found.id for found in page.data])
            for found in page.data:
                if found.store and (found.id in rated or may_have_pairs(found)):
                    # Erased a moment ago, or a defect: one record is no reason to lose all.
                    with suppress(RefinementNotFound, NotStored, JournalContradiction):
                        if lines := await self._pairs_of(tenant, found.id, wanted):
                            yield lines
            if page.next_cursor is None:
                return
            page = await self._page_for_pairs(tenant, wanted, page.next_cursor)

    async def _pairs_of(self, tenant: str, refinement_id: str, wanted: WantedPairs) -> bytes:
        request = await self._store.request(tenant, refinement_id)
        if not request.learn or wanted.preset not in (None, request.preset):
            return b""
        journal = await self._store.journal(tenant, refinement_id)
        pairs = await asyncio.to_thread(pairs_of, refinement_id, request, journal, wanted)
        lines = (pair.model_dump_json().encode() + b"\n" for pair in pairs)
        return json_lines(b"".join(lines))

    async def _queued(self, tenant: str, refinement_id: str) -> Queued:
        queued = (await self._store.decoded_events(tenant, refinement_id, 0, 1))[0].data
        assert isinstance(queued, Queued)
        return queued


class Spread(Service):
    """The Service of several cells; `services` are those of the cells by number."""

    def __init__(self, cells: Cells, services: Sequence[Service]) -> None:
        super().__init__(*services[0].collaborators)
        self._cells = cells
        self._services = services
        for service in services:
            service.submitting = self

    async def submit(self, sent: ClientRequest, wait_s: float = 0) -> Accepted:
        """Create a refinement in a cell of its tenant, as `Service.submit` does in one.

        One without a key goes to the next cell if it cannot be sent, or finds no room.
        """
        quotas = await self._quotas_of(sent.tenant)
        await self._cells.access.require_spending_left(sent.tenant, quotas)
        refusal: HoneError | None = None
        for number in await self._cells_for(sent.tenant, sent.key):
            service = self._services[number]
            try:
                self._cells.require_checked(number)
                accepted = await service.created(sent)
            except (Unavailable, QuotaExceeded, Overloaded) as error:
                is_unsent = isinstance(error.__cause__, NotSent)
                if isinstance(error, Unavailable) and error.__cause__ and not is_unsent:
                    raise
                if is_unsent:
                    self._cells.note_away(number, error)
                refusal = refusal or error
            else:
                return await service.after(sent.tenant, accepted, wait_s)
        assert refusal is not None
        raise refusal

    async def _cells_for(self, tenant: str, key: str | None) -> list[int]:
        """Return the cells to try; where a key was used before homes moved it stays."""
        if key is not None:
            for number in self._cells.earlier_homes_of(tenant, key):
                self._cells.require_checked(number)
                if await self._cells.stores[number].knows(tenant, key):
                    return [number]
        return self._cells.homes_of(tenant, key)

    async def pairs(self, tenant: str, wanted: WantedPairs) -> AsyncIterator[bytes]:
        """Return the preference pairs in all cells, one cell after the other."""
        away = self._cells.away
        there = [service for n, service in enumerate(self._services) if n not in away]
        found = [await service.pairs(tenant, wanted) for service in there]
        return _after_another(found)


async def _after_another(parts: Sequence[AsyncIterator[bytes]]) -> AsyncIterator[bytes]:
    for part in parts:
        async for lines in part:
            yield lines
