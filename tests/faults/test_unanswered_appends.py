"""An append whose answer was lost, or that Redis refused for a time, happens exactly once."""

from collections import Counter
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError, ReadOnlyError, ResponseError

from app.contract.events import Event
from app.store import Claimed, Journal, WorkerStore
from app.store.redis.committer import Committer
from app.store.redis.scripts import APPEND, LuaScript
from tests.workers.refinement_harness import ScriptedAnswers, open_harness, scores
from workers.play.journal import JournalUnwritable

LOST = RedisConnectionError("the answer was lost")
UNKNOWN = RuntimeError("something that no client library documents")
REFUSALS = (
    OutOfMemoryError("OOM command not allowed when used memory > 'maxmemory'."),
    ReadOnlyError("READONLY You can't write against a read only replica."),
    ResponseError("NOREPLICAS Not enough good replicas to write."),
    ResponseError("MISCONF Redis is configured to save RDB snapshots, but it cannot persist."),
)


class FailingCommitter:
    """Fails the n-th append with an error: after it happened, or in its place."""

    def __init__(self, committer: Committer, error: Exception, at: int, *, happens: bool) -> None:
        self._committer = committer
        self._error = error
        self._left = at
        self._happens = happens

    async def submit(self, script: LuaScript, *args: Any) -> object:
        self._left -= script is APPEND
        if self._left or script is not APPEND:
            return await self._committer.submit(script, *args)
        if self._happens:
            await self._committer.submit(script, *args)
        raise self._error


class FailingStore:
    """A worker's store whose journals lose an answer."""

    def __init__(self, store: WorkerStore, error: Exception, at: int, *, happens: bool) -> None:
        self._store = store
        self.nonce = ""
        self._lossy = FailingCommitter(store._committer, error, at, happens=happens)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def journal(self, claimed: Claimed) -> Journal:
        self.nonce = claimed.nonce
        committer: Any = self._lossy
        return Journal(claimed, committer)


def once(events: tuple[Event, ...]) -> bool:
    keys = Counter(getattr(it.data, "key", None) for it in events)
    numbers = [it.event for it in events]
    return numbers == [*range(1, len(events) + 1)] and all(
        count == 1 for key, count in keys.items() if key is not None
    )


async def played(
    redis_url: str, error: Exception, at: int, *, happens: bool
) -> tuple[ScriptedAnswers, tuple[Event, ...], str]:
    models = scores(0.3, 0.5, 0.9)
    async with open_harness(redis_url) as harness:
        refinement_id = await harness.submit()
        store: Any = FailingStore(harness.worker_store, error, at, happens=happens)
        await harness.deliver(harness.worker(models, store=store), refinement_id)
        status = (await harness.snapshot(refinement_id)).status
        return models, await harness.events(refinement_id), status


@pytest.mark.parametrize("at", range(1, 8))
@pytest.mark.parametrize("happens", [False, True])
async def test_an_answer_that_is_lost_leaves_every_step_once(
    redis_url: str, at: int, happens: bool
) -> None:
    models, events, status = await played(redis_url, LOST, at, happens=happens)
    assert status == "succeeded"
    assert once(events)
    assert set(models.calls.values()) == {1}


@pytest.mark.parametrize("error", REFUSALS, ids=lambda it: str(it).split()[0])
async def test_a_write_that_redis_refuses_is_written_later_and_paid_once(
    redis_url: str, error: Exception
) -> None:
    models, events, status = await played(redis_url, error, 3, happens=False)
    assert status == "succeeded"
    assert once(events)
    assert set(models.calls.values()) == {1}


@pytest.mark.parametrize("at", range(1, 8))
@pytest.mark.parametrize("happens", [False, True])
async def test_an_unknown_error_fails_the_claim_and_not_the_refinement(
    redis_url: str, at: int, happens: bool
) -> None:
    models = scores(0.3, 0.5, 0.9)
    async with open_harness(redis_url) as harness:
        refinement_id = await harness.submit()
        store: Any = FailingStore(harness.worker_store, UNKNOWN, at, happens=happens)
        worker = harness.worker(models, store=store)
        with pytest.raises(JournalUnwritable):
            await harness.deliver(worker, refinement_id)
        await harness.worker_store.hand_back(refinement_id, store.nonce)
        ended = await harness.play(refinement_id, models, "second")
        events = await harness.events(refinement_id)
    assert ended.status == "succeeded"
    assert once(events)
