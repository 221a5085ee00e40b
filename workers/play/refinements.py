"""The refinements that this worker holds: claims, plays, recovers and hands them back."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

from redis.exceptions import RedisError

from app.contract.budget import DEFAULT_MAX_OUTPUT_TOKENS
from app.contract.editor import EDITOR
from app.contract.errors import RefinementNotFound
from app.contract.judgement import CRITIC
from app.contract.models import ModelChoice
from app.contract.values import value
from app.store import (
    ATTEMPTS,
    LATER,
    Claimed,
    Fenced,
    Loaded,
    Suspected,
    UnreadableRecord,
    WorkerStore,
)
from app.telemetry import (
    NO_TRACES,
    Origin,
    Traces,
    TraceSpan,
    about_request,
    current_span,
    metrics,
)
from app.telemetry.traces import Attributes
from workers.engine.pipeline import ENGINES_BY_VERSION, StrategyFactory
from workers.play.driver import Driver, WorkerLeaving
from workers.play.endings import learning_kind
from workers.play.endpoints import EndpointLimiter, LimitedEndpoints
from workers.play.executor import ModelCaller, StepExecutor, Tools
from workers.play.live_text import TextPublisher
from workers.play.quarantine import Quarantine
from workers.play.replay import replay_of
from workers.play.waiting import Bulkhead
from workers.validators.running import NO_RESOURCES, ServerResources, compile_validators

log = logging.getLogger(__name__)


@value()
class HeldRefinement:
    """A refinement that this worker has claimed and is playing."""

    token: int
    driver: Driver
    playing: asyncio.Task[None]

    async def look(self) -> None:
        """Apply commands; stop at once if another worker has claimed the refinement."""
        try:
            await self.driver.look()
        except Fenced:
            self.playing.cancel()


def are_exact(models: Mapping[str, ModelChoice]) -> bool:
    """Return whether every critic measures without noise, by the models of the seats."""
    critics = (choice for seat, choice in models.items() if seat.partition("/")[0] == CRITIC)
    return all(set(choice.names()) == {EDITOR} for choice in critics)


class Refinements:
    """The refinements that this worker holds.

    Suspects are left to `quarantine`; without one they are played here. In a child process, which
    `clears` them, each is handed back as soon as a step was journaled. `max_output_tokens` is for
    models whose own maximum is unknown. Up to `most_parked_queued` refinements of models that
    `bulkhead` holds back are parked before they begin.
    """

    def __init__(
        self,
        store: WorkerStore,
        models: ModelCaller,
        worker: str,
        resources: ServerResources = NO_RESOURCES,
        quarantine: Quarantine | None = None,
        *,
        texts: TextPublisher | None = None,
        keeps_prompts: bool = True,
        engines: Mapping[int, StrategyFactory] = ENGINES_BY_VERSION,
        clears: bool = False,
        max_output_tokens: int = DEFAULT_MAX_OUTPUT_TOKENS,
        endpoint_limiter: EndpointLimiter | None = None,
        bulkhead: Bulkhead | None = None,
        most_parked_queued: int = 10_000,
        traces: Traces = NO_TRACES,
    ) -> None:
        self.held: dict[str, HeldRefinement] = {}
        self.refining: Counter[str] = Counter()
        self._store = store
        self._models = models
        self._worker = worker
        self._resources = resources
        self._engines = engines
        self._quarantine = quarantine
        self._clears = clears
        self._max_output_tokens = max_output_tokens
        self._texts = texts
        self._keeps_prompts = keeps_prompts
        self._endpoint_limiter = endpoint_limiter or EndpointLimiter()
        self._bulkhead = bulkhead or Bulkhead(1, 1)
        self._most_parked_queued = most_parked_queued
        self._traces = traces
        self._is_leaving = False

    async def refine(self, job_id: str, refinement_id: str) -> None:
        """Claim a refinement and play it until it ends, waits or the worker stops.

        A job that is delivered twice, or whose refinement has ended or is erased, does nothing.
        """
        self.refining[refinement_id] += 1
        try:
            with self._bulkhead.holding():
                await self._refine(job_id, refinement_id)
        finally:
            self.refining[refinement_id] -= 1
            if not self.refining[refinement_id]:
                del self.refining[refinement_id]

    async def _refine(self, job_id: str, refinement_id: str) -> None:
        if held := self.held.get(refinement_id):
            if not held.driver.ends_claim:
                return
            # The job of a review or a retry may arrive before the answer to our own append.
            await asyncio.wait({held.playing})
        full = self._bulkhead.held_back()
        if full and await self._store.park_queued(refinement_id, full, self._most_parked_queued):
            return
        loaded = await self._readable(refinement_id)
        if loaded is None:
            return
        try:
            claimed = await self._store.claim(
                refinement_id,
                job_id,
                self._worker,
                takes_suspects=self._quarantine is None,
                kind=learning_kind(loaded.submitted),
            )
        except Suspected:
            assert self._quarantine
            await self._quarantine.refine(job_id, refinement_id)
            return
        if claimed is None:
            return
        how = "after_failure" if claimed.attempt > 1 else "resumed" if claimed.resumed else "first"
        origin = Origin.decode(loaded.origin)
        with about_request(origin.request_id), self._claim_span(claimed, loaded, origin, how):
            await self._play_claimed(claimed, loaded, how)

    def _claim_span(
        self, claimed: Claimed, loaded: Loaded, origin: Origin, how: str
    ) -> AbstractContextManager[TraceSpan]:
        """Return the span of a claim; all claims of a refinement are in one trace.

        If the submission was in no trace, the refinement's id becomes the trace id, so that
        another worker goes on with it after a crash.
        """
        strategy = loaded.submitted.request.strategy.kind
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": strategy,
            "hone.refinement.id": claimed.id,
            "hone.tenant": claimed.tenant,
            "hone.request.id": origin.request_id,
            "hone.claim": how,
            "hone.attempt": claimed.attempt,
        }
        trace_id = int.from_bytes(metrics.ulid_of(claimed.id).bytes)
        name = f"invoke_workflow {strategy}"
        return self._traces.span(origin, name, "consumer", attributes, trace_id=trace_id)

    async def _play_claimed(self, claimed: Claimed, loaded: Loaded, how: str) -> None:
        refinement_id = claimed.id
        metrics.CLAIMS.labels(how).inc()
        if how == "first":
            metrics.QUEUE_WAIT.observe(metrics.since(refinement_id, claimed.at))
        if claimed.attempt > 1 or claimed.resumed:
            level = logging.WARNING if claimed.attempt > 1 else logging.INFO
            log.log(level, "refinement goes on", extra=_about(claimed))
        try:
            await self._play(claimed, loaded)
        except (Fenced, RefinementNotFound):
            metrics.FENCED.inc()
            current_span().set({"hone.status": "lost"})
            log.info("refinement is no longer held by this worker", extra=_about(claimed))
            # It still is if Redis has lost the end of the journal.
            await self._store.hand_back(refinement_id, claimed.nonce)
        except (WorkerLeaving, UnreadableRecord):
            current_span().set({"hone.status": "handed_back"})
            await self._store.hand_back(refinement_id, claimed.nonce)
        except (asyncio.CancelledError, RedisError):
            await self._store.hand_back(refinement_id, claimed.nonce)
            raise
        except Exception as error:
            name = type(error).__qualname__
            current_span().set({}, error=name)
            if claimed.attempt < ATTEMPTS:
                await self._store.hand_back(refinement_id, claimed.nonce, failed=True)
            else:
                detail = (
                    f"claims in a row that journaled no step: {claimed.attempt}, the last: {name}"
                )
                await self._store.blame(refinement_id, self._worker, detail)
            raise

    async def announce(self) -> None:
        """Announce which versions of the engine this worker plays."""
        await self._store.announce(self._engines)

    async def look(self, refinement_id: str) -> None:
        """Apply commands to a refinement, if this worker holds it."""
        if held := self.held.get(refinement_id):
            await held.look()

    def leave(self) -> None:
        """Start no more calls; calls in flight may finish."""
        self._is_leaving = True
        if self._quarantine:
            self._quarantine.leave()
        for held in self.held.values():
            held.driver.leave()

    async def _readable(self, refinement_id: str) -> Loaded | None:
        """Load a refinement before it is claimed; put back one that this worker cannot play.

        So it costs no attempt, and changes nothing that a client sees. None if it is not to be
        played here.
        """
        try:
            loaded = await self._store.load(refinement_id)
        except (Fenced, RefinementNotFound):
            return None
        except UnreadableRecord as error:
            log.warning("%s is put back, a later release wrote it: %s", refinement_id, error)
            await self._store.put_back(refinement_id, LATER)
            return None
        version = loaded.submitted.engine_version
        if version in self._engines:
            return loaded
        own = ", ".join(map(str, self._engines))
        log.warning("%s is put back: engine version %d, not %s", refinement_id, version, own)
        await self._store.put_back(refinement_id, str(version))
        return None

    async def _play(self, claimed: Claimed, loaded: Loaded) -> None:
        if claimed.state.last_event > loaded.last_event + 1:  # something came between
            loaded = await self._store.load(claimed.id)
        driver = self._driver(claimed, loaded)
        if self._is_leaving:
            driver.leave()
        newer = self.held.get(claimed.id)
        if newer and newer.token > claimed.token:  # claimed again while this claim was loading
            raise Fenced
        playing = asyncio.ensure_future(driver.play())
        self.held[claimed.id] = held = HeldRefinement(claimed.token, driver, playing)
        try:
            await playing
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if me is not None and me.cancelling():
                raise
            raise Fenced from None
        finally:
            if self.held.get(claimed.id) is held:
                del self.held[claimed.id]

    def _driver(self, claimed: Claimed, loaded: Loaded) -> Driver:
        submitted = loaded.submitted
        request = submitted.request
        permits = {claimed.permit} if claimed.permit else set()
        resources = self._resources
        if endpoints := resources.endpoints:
            limiter = self._endpoint_limiter
            limited = LimitedEndpoints(endpoints, limiter, claimed.tenant, permits)
            resources = replace(resources, endpoints=limited)
        checks = compile_validators(
            request.validators,
            context=request.context,
            resources=resources,
            items=request.strategy.item_validators(),
            locked=request.locked_texts,
        )
        tools = Tools(request.tools, self._resources.endpoints, claimed.tenant)
        recorded = replay_of(loaded.events)
        executor = StepExecutor(
            claimed.id,
            self._models,
            submitted.models,
            checks,
            tools,
            recorded.voided,
            claimed.tenant,
            permits,
            texts=self._texts,
            calls=self._bulkhead.calls(),
        )
        journal = self._store.journal(claimed)
        return Driver(
            partial(
                self._engines[submitted.engine_version],
                request,
                submitted.prompt_nonce,
                learnt=claimed.learnt,
                is_exact=are_exact(submitted.models),
            ),
            submitted,
            recorded,
            executor,
            journal,
            claimed,
            leaves_after_step=self._clears,
            max_output_tokens=self._max_output_tokens,
            keeps_prompts=self._keeps_prompts,
        )


def _about(claimed: Claimed) -> dict[str, object]:
    return {"refinement": claimed.id, "tenant": claimed.tenant, "attempt": claimed.attempt}
