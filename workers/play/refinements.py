"""What RQ calls: an id in, collaborators built, nothing decided."""

import asyncio
import logging
from dataclasses import dataclass
from functools import partial

from app.contract.errors import RefinementNotFound
from app.store import Claimed, Fenced, WorkerStore
from workers.engine.strategies import strategy_for
from workers.play.driver import Driver
from workers.play.endings import AwaitingReview, WorkerLeaving
from workers.play.executor import ModelCaller, StepExecutor
from workers.play.replay import read
from workers.play.tools import Tools
from workers.validators import NO_RESOURCES, ServerResources, compile_validators

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HeldRefinement:
    """A refinement that this worker has claimed and is playing."""

    token: int
    driver: Driver
    playing: asyncio.Task[None]

    async def look(self) -> None:
        """Heed a command; a refinement that is somebody else's by now is dropped at once."""
        try:
            await self.driver.look()
        except Fenced:
            self.playing.cancel()


class Refinements:
    """The refinements in this worker's hands."""

    def __init__(
        self,
        store: WorkerStore,
        models: ModelCaller,
        nonce: str,
        resources: ServerResources = NO_RESOURCES,
    ) -> None:
        self.held: dict[str, HeldRefinement] = {}
        self._store = store
        self._models = models
        self._nonce = nonce
        self._resources = resources
        self._is_leaving = False

    async def refine(self, job_id: str, refinement_id: str) -> None:
        """Claim a refinement and play it to its end, to a review, or as far as this worker gets.

        A job that is delivered twice, or for a refinement that is ended or erased, does nothing.
        """
        if held := self.held.get(refinement_id):
            if not held.driver.is_pausing:
                return
            await asyncio.wait({held.playing})  # the word may be faster than our own answer
        claimed = await self._store.claim(refinement_id, job_id, self._nonce)
        if claimed is None:
            return
        try:
            await self._play(claimed)
        except (Fenced, RefinementNotFound):
            log.info("%s is no longer this worker's", refinement_id)
        except AwaitingReview:
            log.debug("%s waits for a reviewer", refinement_id)
        except WorkerLeaving:
            await self._store.hand_back(refinement_id, claimed.token)
        except asyncio.CancelledError:
            await self._store.hand_back(refinement_id, claimed.token)
            raise

    async def look(self, refinement_id: str) -> None:
        """Heed a command for a refinement, if it is this worker's."""
        if held := self.held.get(refinement_id):
            await held.look()

    def leave(self) -> None:
        """Start no call any more; what is in flight may answer."""
        self._is_leaving = True
        for held in self.held.values():
            held.driver.leave()

    def tokens(self) -> dict[str, int]:
        """Return the token of every refinement in hand."""
        return {refinement_id: held.token for refinement_id, held in self.held.items()}

    async def _play(self, claimed: Claimed) -> None:
        driver = await self._driver(claimed)
        if self._is_leaving:
            driver.leave()
        playing = asyncio.ensure_future(driver.play())
        self.held[claimed.id] = HeldRefinement(claimed.token, driver, playing)
        try:
            await playing
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if me is not None and me.cancelling():
                raise
            raise Fenced from None
        finally:
            del self.held[claimed.id]

    async def _driver(self, claimed: Claimed) -> Driver:
        submitted, events = await self._store.load(claimed.id)
        request = submitted.request
        checks = compile_validators(
            request.validators, context=request.context, resources=self._resources
        )
        tools = Tools(request.tools, self._resources.endpoints)
        executor = StepExecutor(claimed.id, self._models, submitted.models, checks, tools)
        journal = self._store.journal(claimed)
        return Driver(
            partial(strategy_for, submitted.request),
            submitted,
            read(events),
            executor,
            journal,
            claimed.state,
            claimed.elapsed_s,
        )
