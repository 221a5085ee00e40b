"""Refinements for tests of workers: the real store, and models that are functions."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from app.contract.events import Draw, Event, Queued
from app.contract.judgement import Usage
from app.contract.limits import LimitsChange
from app.contract.models import ModelChoice
from app.contract.requests import RefinementRequest
from app.contract.reviews import ReviewDecision
from app.contract.snapshot import Snapshot
from app.contract.versions import ENGINE_VERSION
from app.contract.waiting import WaitReason
from app.settings import Settings
from app.store import Claimed, Journal, State, Store, WorkerStore, open_store, open_worker_store
from app.store.redis.keys import Word
from app.store.state import NewRefinement
from tests.engine.scripted_replies import in_marks
from tests.store.store_harness import count_ended
from tests.waiting import LEASE_S
from workers.engine.pipeline import ENGINES_BY_VERSION, StrategyFactory
from workers.engine.prompts import Judge
from workers.models.port import ModelCall, ModelReply, ModelWaits
from workers.play.refinements import Refinements
from workers.validators.running import NO_RESOURCES, ServerResources

TENANT = "default"
ReviewScript = Mapping[str, Mapping[str, Any] | Sequence[Mapping[str, Any]]]
"""What a reviewer says, or several one after the other, by the key of the review."""
NOBODY: ReviewScript = {}
TOKENS = Usage(calls=1, input_tokens=10, output_tokens=5, cost_usd=0.0)
TEST_MODEL = ModelChoice(model="scripted:test", max_output_tokens=100)
NONCE = "abcdefgh"
"""The same in every refinement: estimates of two that are compared count the same prompts."""


class NoQueue:
    """A queue that carries nothing: the tests call the job themselves."""

    key = "test:queue"

    def commands(
        self, refinement_id: str, job_id: str, *, is_first: bool = False
    ) -> Sequence[Sequence[Word]]:
        return ()


@dataclass
class ScriptedAnswers:
    """Models by a function from the step's key; counts every call, and says when one begins."""

    answer: Callable[[str, ModelCall], Awaitable[str]]
    calls: Counter[str] = field(default_factory=Counter)
    aborted: list[str] = field(default_factory=list)
    usage: Usage = TOKENS
    outside: ServerResources = NO_RESOURCES

    async def complete(self, name: str, call: ModelCall) -> ModelReply:
        key = call.key.partition("/")[2]
        self.calls[key] += 1
        try:
            text = await self.answer(key, call)
        except asyncio.CancelledError:
            self.aborted.append(key)
            raise
        return ModelReply(in_marks(text, call.prompt_request), name, self.usage)

    async def permits(self, name: str, most: int) -> int:
        return most


def verdict(score: float, call: ModelCall) -> str:
    """Write a critic's reply that gives every criterion the same score."""
    assert isinstance(call.prompt_request, Judge)
    names = [criterion.name for criterion in call.prompt_request.task.criteria]
    return json.dumps({"scores": [{"criterion": n, "score": score, "reason": "so"} for n in names]})


def scores(*given: float) -> ScriptedAnswers:
    """A critic that scores iteration 1, 2, 3 ... so, and a writer whose drafts share no words."""

    async def answer(key: str, call: ModelCall) -> str:
        number = int(key.split("/")[1])
        if isinstance(call.prompt_request, Judge):
            return verdict(given[number - 1], call)
        return " ".join(f"word{number}.{place}" for place in range(12))

    return ScriptedAnswers(answer)


def pausing_at(
    key: str, models: ScriptedAnswers
) -> tuple[ScriptedAnswers, asyncio.Event, asyncio.Event]:
    """Return the same models with one call that answers only when told to.

    The first event is set when the call has begun; setting the second lets it answer.
    """
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def answer(asked: str, call: ModelCall) -> str:
        if asked == key:
            begun.set()
            await go_on.wait()
        return await models.answer(asked, call)

    return ScriptedAnswers(answer), begun, go_on


def refusing(models: ScriptedAnswers, *refusals: ModelWaits, at: str = "") -> ScriptedAnswers:
    """Return the same models, which refuse their first calls, or the first ones of one step.

    Each refusal names the model that it is by.
    """
    left = list(refusals)

    async def answer(asked: str, call: ModelCall) -> str:
        if at in ("", asked):
            for refusal in left:
                if refusal.awaited == call.model:
                    left.remove(refusal)
                    raise refusal
        return await models.answer(asked, call)

    return ScriptedAnswers(answer, usage=models.usage, outside=models.outside)


def refusing_once(models: ScriptedAnswers, wait_s: float) -> ScriptedAnswers:
    """Return the same models, which refuse the first call of every step for so long."""
    refused: set[str] = set()

    async def answer(asked: str, call: ModelCall) -> str:
        if asked not in refused:
            refused.add(asked)
            raise away(wait_s, call.model)
        return await models.answer(asked, call)

    return ScriptedAnswers(answer, usage=models.usage, outside=models.outside)


def away(
    wait_s: float = 60,
    model: str = TEST_MODEL.model,
    reason: WaitReason = "unreachable",
    *,
    is_open: bool = True,
) -> ModelWaits:
    """Return the refusal of a model that is away for so long."""
    return ModelWaits(model, reason, wait_s, f"{model} is away", is_open=is_open)


@dataclass
class RefinementHarness:
    """The two sides of one store, and workers that can come and go."""

    store: Store
    worker_store: WorkerStore
    _jobs: Counter[str] = field(default_factory=Counter)
    _workers: list[Refinements] = field(default_factory=list)

    async def submit(
        self,
        choice: ModelChoice = TEST_MODEL,
        draw: Draw | None = None,
        engine_version: int = ENGINE_VERSION,
        origin: str = "",
        tenant: str = TENANT,
        **fields: Any,
    ) -> str:
        """Submit a task alone, unless the fields say otherwise; the model plays both roles."""
        request = RefinementRequest.model_validate(
            {"task": "Explain refunds.", "stop": {"tolerance": 0}, **fields}
        )
        new = NewRefinement(
            tenant=tenant,
            request=request,
            body_sha256="0" * 64,
            models=dict.fromkeys(("generator", "critic", *request.critics.seats()), choice),
            limits=request.limits(),
            queued=Queued(
                strategy=request.strategy.kind,
                models={"generator": choice.model, "critic": choice.model},
                limits=request.limits(),
                request_sha256="0" * 64,
                draw=draw,
            ),
            engine_version=engine_version,
            prompt_nonce=NONCE,
            origin=origin,
        )
        return (await self.store.create(new, None)).id

    def worker(
        self,
        models: ScriptedAnswers,
        nonce: str = "first",
        store: WorkerStore | None = None,
        engines: Mapping[int, StrategyFactory] = ENGINES_BY_VERSION,
    ) -> Refinements:
        """Return a worker; every nonce stands for another process."""
        worker = Refinements(
            store or self.worker_store, models, nonce, models.outside, engines=engines
        )
        self._workers.append(worker)
        return worker

    async def play_and_die(
        self,
        refinement_id: str,
        models: ScriptedAnswers,
        dies_at: int,
        words: ReviewScript = NOBODY,
        *,
        after: bool,
        engines: Mapping[int, StrategyFactory] = ENGINES_BY_VERSION,
    ) -> bool:
        """Play until the n-th append kills the worker and its lease is over; False: it ended."""
        store: Any = DyingStore(self.worker_store, dies_at, after)
        worker = self.worker(models, f"{dies_at}{after}", store, engines)
        try:
            await self.play_on(worker, refinement_id, words)
        except Killed:
            await self.worker_store.hand_back(refinement_id, store.nonce)
            return True
        return False

    async def play_on(
        self, worker: Refinements, refinement_id: str, words: ReviewScript = NOBODY
    ) -> None:
        """Deliver jobs to a worker until it ends.

        At every pause the reviewer's word is said, and in every wait a permit is given.
        """
        await self.deliver(worker, refinement_id)
        while (now := await self.snapshot(refinement_id)).review or now.waiting:
            if now.review:
                await self.answer(refinement_id, now.review.key, words[now.review.key])
            else:
                await self.resume()
            await self.deliver(worker, refinement_id)

    async def pass_deadline(self, refinement_id: str) -> None:
        """Change the deadline to one that has passed, and let its worker know."""
        await self.store.change(TENANT, refinement_id, LimitsChange(max_seconds=0.001))
        for worker in self._workers:
            await worker.look(refinement_id)

    async def answer(
        self, refinement_id: str, key: str, said: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    ) -> None:
        """Say one reviewer's word in the review `key`, or what several say one after the other."""
        for word in (said,) if isinstance(said, Mapping) else said:
            await self.say(refinement_id, path=key, **word)

    async def say(self, refinement_id: str, **word: Any) -> Snapshot:
        """Say a reviewer's word about the draft under review."""
        return await self.store.review(TENANT, refinement_id, ReviewDecision.model_validate(word))

    async def play(
        self, refinement_id: str, models: ScriptedAnswers, nonce: str = "first"
    ) -> Snapshot:
        """Deliver one job to a worker and return how the refinement stands after it."""
        await self.deliver(self.worker(models, nonce), refinement_id)
        return await self.snapshot(refinement_id)

    async def deliver(self, worker: Refinements, refinement_id: str) -> None:
        """Deliver a new job for the refinement; if it ends, its ending is counted at once."""
        self._jobs[refinement_id] += 1
        await worker.refine(f"{refinement_id}-{self._jobs[refinement_id]}", refinement_id)
        await count_ended(self.worker_store)

    async def resume(self, *models: str) -> int:
        """Give a permit for each of these models; return how many refinements were taken."""
        names = models or (TEST_MODEL.model,)
        return sum([await self.worker_store.resume_parked(name, 1) for name in names])

    async def snapshot(self, refinement_id: str) -> Snapshot:
        return await self.store.snapshot(TENANT, refinement_id)

    async def events(self, refinement_id: str) -> tuple[Event, ...]:
        return await self.store.decoded_events(TENANT, refinement_id)


@asynccontextmanager
async def open_harness(
    redis_url: str, lease_s: float = LEASE_S
) -> AsyncIterator[RefinementHarness]:
    """Connect both sides of the store."""
    settings = Settings(redis_url=redis_url, redis_timeout_s=60, lease_s=lease_s)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(settings, NoQueue()))
        worker_store = await stack.enter_async_context(
            open_worker_store(settings, NoQueue(), "test")
        )
        yield RefinementHarness(store, worker_store)


class Killed(BaseException):
    """The worker's process is gone: nothing after this runs in it."""


class DyingStore:
    """A worker's store whose process dies at its n-th append, before it or right after it.

    It counts the appends of all its claims.
    """

    def __init__(self, store: WorkerStore, dies_at: int, after: bool) -> None:
        self.nonce = ""
        self.left = dies_at
        self.after = after
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def journal(self, claimed: Claimed) -> Any:
        self.nonce = claimed.nonce
        return _DyingJournal(self._store.journal(claimed), self)


class _DyingJournal:
    def __init__(self, journal: Journal, process: DyingStore) -> None:
        self._journal = journal
        self._process = process

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def append(self, *args: Any, **kwargs: Any) -> State:
        process = self._process
        process.left -= 1
        if process.left < 0 or (process.left == 0 and not process.after):
            raise Killed  # and nothing that runs beside it goes on either
        state = await self._journal.append(*args, **kwargs)
        if process.left == 0:
            raise Killed
        return state


class ActingStore:
    """A worker's store whose client does something to the refinement before its n-th append.

    `act` is given the refinement's id.
    """

    def __init__(
        self, harness: RefinementHarness, at: int, act: Callable[[str], Awaitable[object]]
    ) -> None:
        self.left = at
        self.act = act
        self._store = harness.worker_store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def journal(self, claimed: Claimed) -> Any:
        return _ActedOnJournal(self._store.journal(claimed), self)


class _ActedOnJournal:
    def __init__(self, journal: Journal, store: ActingStore) -> None:
        self._journal = journal
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def append(self, *args: Any, **kwargs: Any) -> State:
        self._store.left -= 1
        if self._store.left == 0:
            await self._store.act(self._journal.id)
        return await self._journal.append(*args, **kwargs)
