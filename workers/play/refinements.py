"""The refinements that this worker holds: claims, plays, recovers and hands them back.

It holds them under a lease, which a thread renews for as long as the event loop turns.
"""

import asyncio
import logging
import os
import re
import secrets
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

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
    RENEWALS_PER_LEASE,
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
from workers.models.port import ModelCaller
from workers.play.driver import Driver, WorkerLeaving
from workers.play.endpoints import EndpointLimiter, LimitedEndpoints
from workers.play.executor import StepExecutor, TextPublisher, Tools
from workers.play.journal import learning_kind, replay_of
from workers.play.limits import Bulkhead
from workers.play.quarantine import Quarantine
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
        request = loaded.submitted.request
        if how == "first" and request.priority == "interactive":
            waited_s = metrics.since(refinement_id, claimed.at, request.start_after)
            metrics.QUEUE_WAIT.observe(waited_s)
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
            log.warning("%s is put back: this worker cannot read %s", refinement_id, error)
            await self._store.put_back(refinement_id, error.kind or LATER)
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
        except asyncio.CancelledError as error:
            me = asyncio.current_task()
            if me is not None and me.cancelling():
                raise
            if not playing.cancelling():  # else it would be taken over again for ever
                raise RuntimeError("it was cancelled, and nobody asked for that") from error
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


RENEWED_AGAIN_S = 0.2
"""After a failure the next renewal comes soon: Redis may be there for a moment only."""

TURN_EVERY_S = 0.25
LAGGING_S = 0.5

Renew = Callable[[Mapping[str, int]], Awaitable[dict[str, int]]]
"""Renews the lease: takes the numbers of the commands already read, returns the unread ones."""

Look = Callable[[str], Awaitable[None]]
"""Applies the commands that were given to a held refinement."""


def _machine() -> str:
    """Return an id shared by exactly the processes that can see each other's process ids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        seen = f"{socket.gethostname()} {boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # not Linux: nothing is known of other processes
        return secrets.token_hex(4)
    return sha256(seen.encode()).hexdigest()[:8]


MACHINE = _machine()
NAME_HERE = re.compile(rf"-{MACHINE}-(\d{{1,7}})-")


def machine_name() -> str:
    """Return what the names of all workers on this machine begin with."""
    return f"{socket.gethostname()}-{MACHINE}-"


def new_name() -> str:
    """Return a name for a worker in this process; `is_gone` can read it."""
    return f"{machine_name()}{os.getpid()}-{secrets.token_hex(4)}"


def is_gone(name: str) -> bool:
    """Return whether a worker ran on this machine and its process has ended.

    False where that cannot be known. The children of a worker have its name and end with it.
    """
    if found := NAME_HERE.search(name):
        try:
            os.kill(int(found[1]), 0)
        except ProcessLookupError:
            return True
        except OSError:  # it belongs to another user
            return False
    return False


class Lease:
    """Keeps everything that this worker holds.

    A busy event loop may be late by seconds, and must not lose its refinements for that; one that
    stands still must. So a thread with an event loop and a connection of its own renews the lease,
    until the worker's loop has not turned for `stall_s` seconds. After another lease the thread
    calls `end_process`, since nothing else can; a supervisor then starts a worker that works.
    """

    def __init__(
        self,
        open_renewal: Callable[[], AbstractAsyncContextManager[Renew]],
        lease_s: float,
        stall_s: float,
        look: Look,
        end_process: Callable[[], None],
    ) -> None:
        self._open_renewal = open_renewal
        self._lease_s = lease_s
        self._every_s = lease_s / RENEWALS_PER_LEASE
        self._stall_s = stall_s
        self._look = look
        self._end_process = end_process
        self._lag_s = 0.0
        self._turns = 0
        self._read: dict[str, int] = {}
        self._stopping = threading.Event()
        self._looking: set[asyncio.Task[None]] = set()

    @property
    def is_lagging(self) -> bool:
        """Whether the event loop is so late that the worker should take no more work."""
        return self._lag_s > LAGGING_S

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Renew the lease until the context is closed."""
        loop = asyncio.get_running_loop()
        turning = loop.create_task(self._turn())
        thread = threading.Thread(target=asyncio.run, args=[self._keep(loop)], daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            await loop.run_in_executor(None, thread.join)
            turning.cancel()
            await asyncio.wait([turning])

    async def _turn(self) -> None:
        """Show the thread that the event loop turns, and measure how late it is."""
        loop = asyncio.get_running_loop()
        while True:
            self._turns += 1
            due = loop.time() + TURN_EVERY_S
            await asyncio.sleep(TURN_EVERY_S)
            self._lag_s = loop.time() - due

    async def _keep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Renew in the thread; pass the news to the worker's loop."""
        turns, still_s, wait_s = -1, 0.0, self._every_s
        async with self._open_renewal() as renew:
            is_kept = True
            while is_kept:
                # Counted, not read from a clock: a process that was suspended did not stand still.
                still_s = still_s + wait_s if turns == self._turns else 0.0
                turns, wait_s = self._turns, self._every_s
                if still_s <= self._stall_s:
                    if not await self._renewed(renew, loop):
                        wait_s = min(wait_s, RENEWED_AGAIN_S)
                elif still_s > self._stall_s + self._lease_s:
                    self._end_process()
                else:
                    log.error("the event loop has stood still for %g s", still_s)
                is_kept = not await asyncio.to_thread(self._stopping.wait, wait_s)

    async def _renewed(self, renew: Renew, loop: asyncio.AbstractEventLoop) -> bool:
        read, self._read = self._read, {}
        try:
            news = await renew(read)
        except RedisError as error:
            log.warning("cannot renew the lease: %s", error)
        except Exception:
            log.exception("cannot renew the lease")
        else:
            if news:
                loop.call_soon_threadsafe(self._announce, news)
            return True
        return False

    def _announce(self, news: Mapping[str, int]) -> None:
        task = asyncio.get_running_loop().create_task(self._look_at(news))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _look_at(self, news: Mapping[str, int]) -> None:
        for refinement_id, number in news.items():
            try:
                await self._look(refinement_id)
            except RedisError as error:
                log.warning("%s: cannot read a command from Redis: %s", refinement_id, error)
            else:
                self._read[refinement_id] = number
