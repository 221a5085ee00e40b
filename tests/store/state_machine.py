"""A few refinements, and everything that can happen to them."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from app.contract.editor import EDITOR
from app.contract.errors import Conflict, RefinementNotFound
from app.contract.limits import LimitsChange
from app.contract.ratings import Rated
from app.contract.reviews import OnTimeout, ReviewDecision
from app.contract.status import Status
from app.store import Entry, Fenced, Fields, Journal, StaleLimits, Store, WorkerStore
from app.store.redis import keys
from app.store.redis.committer import Committer
from app.store.redis.scripts import LuaScript
from tests.store.store_harness import (
    BROKEN,
    CANCELED,
    COMPLETED,
    FAILED,
    JUDGED,
    MODEL,
    SUCCEEDED,
    TENANT,
    HeldClaim,
    ListQueue,
    asking,
    be_up,
    doubt,
    expire_lease,
    expire_retention,
    expire_review,
    expire_wait,
    iteration,
    park,
    step,
    stopping,
    submit,
    take,
)

REFUSALS = (Fenced, StaleLimits, Conflict, RefinementNotFound)


class LossyCommitter:
    """Loses every other answer after Redis has given it."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._answers_given = 0

    async def submit(self, script: LuaScript, *args: str | bytes | int) -> object:
        """Return the answer of a script, or raise a connection error."""
        answer = await self._committer.submit(script, *args)
        self._answers_given += 1
        if self._answers_given % 2:
            raise RedisConnectionError("lost on the way back")
        return answer


@dataclass
class StateMachine:
    """A few refinements, and every claim that was ever made of them, forgotten ones included."""

    store: Store
    worker: WorkerStore
    redis: Redis
    ids: list[str] = field(default_factory=list)
    claims: list[HeldClaim] = field(default_factory=list)
    steps: int = 0

    async def act(self, action: str, n: int) -> None:
        """Do one thing; a refusal is one of the ways it can go."""
        with suppress(*REFUSALS):
            if action in {"submit", "deliver", "lose_job", "recover"}:
                await getattr(self, action)()
            elif action in APPENDS:
                if self.claims:
                    await self.append(self.claims[n % len(self.claims)], action)
            elif self.ids:
                await getattr(self, action)(self.ids[n % len(self.ids)])

    async def submit(self) -> None:
        if len(self.ids) < 3:
            self.ids.append(await submit(self.store, ticket=str(len(self.ids))))

    async def deliver(self) -> bool:
        if job := await self.pop():
            claimed = await self.worker.claim(job.rpartition("-")[0], job, "worker-1")
            if claimed:
                lossy: Any = LossyCommitter(self.worker._committer)
                self.claims.append(HeldClaim(claimed.id, claimed, Journal(claimed, lossy)))
        return job is not None

    async def lose_job(self) -> None:
        await self.pop()

    async def pop(self) -> str | None:
        jobs = await take(self.redis, 1)
        return jobs[0] if jobs else None

    async def append(self, held: HeldClaim, action: str) -> None:
        self.steps += 1
        entries, fields, to = APPENDS[action](held, self.steps)
        for _ in range(2):  # as a worker does while Redis is away
            try:
                await held.journal.append(entries, fields, to=to)
            except RedisConnectionError:
                continue
            except ResponseError as error:
                if not str(error).startswith("MOVE"):
                    raise
            return

    async def hand_back(self, refinement_id: str) -> None:
        for held in self.claims:
            if held.id == refinement_id:
                await self.worker.hand_back(held.id, held.claimed.nonce)

    async def park(self, refinement_id: str) -> None:
        for held in [it for it in self.claims if it.id == refinement_id]:
            with suppress(RedisConnectionError, *REFUSALS):
                await park(held)

    async def permit(self, refinement_id: str) -> None:
        await self.worker.resume_parked(MODEL, 1)
        await self.worker.resume_parked(EDITOR, 1)

    async def park_queued(self, refinement_id: str) -> None:
        if await self.worker.park_queued(refinement_id, [EDITOR], 2):
            await self.pop_of(refinement_id)

    async def pop_of(self, refinement_id: str) -> None:
        """Take out the job that led to it, as the worker did that has it."""
        jobs = cast("list[bytes]", await self.redis.lrange(ListQueue.key, 0, -1))
        found = [it.decode() for it in jobs if it.startswith(refinement_id.encode())]
        if found:
            await self.redis.lrem(ListQueue.key, 1, found[0])

    async def renew(self, refinement_id: str) -> None:
        await self.worker.renew(await self.worker.renew())

    async def cancel(self, refinement_id: str) -> None:
        await self.store.cancel(TENANT, refinement_id)

    async def finish(self, refinement_id: str) -> None:
        await self.store.finish(TENANT, refinement_id)

    async def review(self, refinement_id: str) -> None:
        self.steps += 1
        await self.store.review(TENANT, refinement_id, ReviewDecision(action="rate", score=0.5))

    async def change(self, refinement_id: str) -> None:
        await self.store.change(TENANT, refinement_id, LimitsChange(threshold=0.5))

    async def retry(self, refinement_id: str) -> None:
        await self.store.retry(TENANT, refinement_id)

    async def rate(self, refinement_id: str) -> None:
        rated = Rated(path="iterations/1", sha256="0" * 64, score=0.5)
        await self.store.rate(TENANT, refinement_id, rated)

    async def erase(self, refinement_id: str) -> None:
        await self.store.erase(TENANT, refinement_id)

    async def go_silent(self, refinement_id: str) -> None:
        is_held = await self.redis.hexists(keys.SUMMARY + refinement_id, "holder")
        is_queued_again = await self.redis.zscore(keys.WAITING, refinement_id)
        if is_held and not is_queued_again:
            await expire_lease(self.redis, refinement_id)

    async def grow_old(self, refinement_id: str) -> None:
        if await self.redis.zscore(keys.WAITING, refinement_id):
            await doubt(self.redis, refinement_id)
        elif await self.redis.hexists(keys.SUMMARY + refinement_id, "paused_at"):
            await expire_review(self.redis, refinement_id)
        elif await self.redis.hexists(keys.SUMMARY + refinement_id, "parked"):
            await expire_wait(self.redis, refinement_id)
        elif await self.redis.hexists(keys.SUMMARY + refinement_id, "ended_at"):
            await expire_retention(self.redis, refinement_id)

    async def recover(self) -> None:
        await self.worker.recover(include_queued=True)

    async def live_on(self) -> None:
        """Let all who have one of them be lost, and a worker that does its work come by."""
        for refinement_id in self.ids:
            await self.go_silent(refinement_id)
            if await self.redis.hexists(keys.SUMMARY + refinement_id, "paused_at"):
                await expire_review(self.redis, refinement_id)
            if await self.redis.zscore(keys.WAITING, refinement_id):
                await doubt(self.redis, refinement_id)
        await be_up(self.redis)
        await self.recover()
        await self.worker.resume_parked(MODEL, 9)
        await self.worker.resume_parked(EDITOR, 9)
        self.claims.clear()
        while await self.deliver():
            pass
        for held in self.claims:
            await self.append(held, "succeed")


PLANS: tuple[OnTimeout, ...] = ("approve", "reject", "finish")
Append = tuple[list[Entry], Fields, Status | None]
APPENDS: dict[str, Callable[[HeldClaim, int], Append]] = {
    "step": lambda held, n: ([step(f"s/{n}")], Fields(phase=(f"s/{n}",)), None),
    "judge": lambda held, n: ([step(f"s/{n}"), iteration(held)], JUDGED, None),
    "ask": lambda held, n: (
        [step(f"s/{n}"), iteration(held), asking(f"review/{n}", on_timeout=PLANS[n % 3])],
        JUDGED,
        Status.PAUSED,
    ),
    "stop": lambda held, n: ([stopping()], Fields(), None),
    "succeed": lambda held, n: ([COMPLETED], SUCCEEDED, Status.SUCCEEDED),
    "fail": lambda held, n: ([FAILED], BROKEN, Status.FAILED),
    "stop_work": lambda held, n: ([CANCELED], Fields(), Status.CANCELED),
}
ACTIONS = [
    *APPENDS,
    *["submit", "submit", "deliver", "deliver", "lose_job", "recover", "hand_back", "renew"],
    *["cancel", "finish", "review", "change", "retry", "erase", "go_silent", "grow_old"],
    *["park", "park", "park_queued", "permit", "rate"],
]
