"""Every status against everything that can be asked of it: the table, on a real Redis."""

from collections.abc import Awaitable, Callable, Mapping

import pytest
from redis.asyncio import Redis

from app.contract.errors import Conflict
from app.contract.limits import LimitsChange
from app.contract.ratings import Rated
from app.contract.reviews import PauseRequest, ReviewDecision
from app.contract.status import MOVES, Status, verdicts
from app.store import Fenced, Store, WorkerStore
from app.store.redis import keys
from tests.store.store_harness import (
    BEST,
    BROKEN,
    CANCELED,
    COMPLETED,
    FAILED,
    JUDGED,
    SUCCEEDED,
    TENANT,
    HeldClaim,
    expire_lease,
    expire_review,
    pause,
    started,
    submit,
)

Q, R, P, C = Status.QUEUED, Status.RUNNING, Status.PAUSED, Status.CANCELING
S, F, X = Status.SUCCEEDED, Status.FAILED, Status.CANCELED
MoveOutcome = Status | type[Exception]

# What becomes of a status by: claim, ask a reviewer, succeed, fail, review, finish, pause, change,
# rate, cancel, retry, and when its time is up. A queued one has no worker that could append.
TABLE: Mapping[Status, tuple[MoveOutcome, ...]] = {
    Q: (R, Fenced, Fenced, Fenced, Conflict, Q, Q, Q, Q, X, Conflict, Q),
    R: (R, P, S, F, Conflict, R, R, R, R, C, Conflict, R),
    P: (P, Fenced, Fenced, Fenced, Q, Q, P, P, P, X, Conflict, Q),
    C: (C, C, X, X, Conflict, Conflict, Conflict, Conflict, C, C, Conflict, X),
    S: (S, Fenced, Fenced, Fenced, *(Conflict,) * 4, S, Conflict, Conflict, S),
    F: (F, Fenced, Fenced, Fenced, *(Conflict,) * 4, F, Conflict, Q, F),
    X: (X, Fenced, Fenced, Fenced, *(Conflict,) * 4, X, X, Conflict, X),
}
CASES = [
    (status, number, outcome)
    for status, outcomes in TABLE.items()
    for number, outcome in enumerate(outcomes)
]


async def brought_to(status: Status, store: Store, worker: WorkerStore) -> HeldClaim:
    """Return a refinement in that status, and the claim that it had last."""
    held = await started(store, worker)
    match status:
        case Status.QUEUED:
            await pause(held)
            await store.review(TENANT, held.id, ReviewDecision(action="rate", score=0.5))
        case Status.PAUSED:
            await pause(held)
        case Status.CANCELING:
            await store.cancel(TENANT, held.id)
        case Status.SUCCEEDED:
            await held.journal.append([COMPLETED], SUCCEEDED, to=status)
        case Status.FAILED:
            await held.journal.append([FAILED], BROKEN, to=status)
        case Status.CANCELED:
            await store.cancel(TENANT, held.id)
            await held.journal.append([CANCELED], to=status)
    return held


async def _claim(held: HeldClaim, store: Store, worker: WorkerStore, redis: Redis) -> None:
    await worker.claim(held.id, f"{held.id}-9", "worker-1")


async def _ask(held: HeldClaim, store: Store, worker: WorkerStore, redis: Redis) -> None:
    await pause(held, key="iterations/2/review")


async def _succeed(held: HeldClaim, store: Store, worker: WorkerStore, redis: Redis) -> None:
    await held.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)


async def _fail(held: HeldClaim, store: Store, worker: WorkerStore, redis: Redis) -> None:
    await held.journal.append([FAILED], BROKEN, to=Status.FAILED)


async def _review(held: HeldClaim, store: Store, worker: WorkerStore, redis: Redis) -> None:
    await store.review(TENANT, held.id, ReviewDecision(action="approve"))


async def _finish(held: HeldClaim, store: Store, worker: WorkerStore, redis: Redis) -> None:
    await store.finish(TENANT, held.id)


async def _pause(held: HeldClaim, store: Store, worker: WorkerStore, redis: Redis) -> None:
    await store.pause(TENANT, held.id, PauseRequest())


async def _rate(held: HeldClaim, store: Store, worker: WorkerStore, redis: Redis) -> None:
    await store.rate(TENANT, held.id, Rated(path="iterations/1", sha256=BEST.sha256, score=1))


async def _change(held: HeldClaim, store: Store, worker: WorkerStore, redis: Redis) -> None:
    await store.change(TENANT, held.id, LimitsChange(threshold=0.5))


async def _cancel(held: HeldClaim, store: Store, worker: WorkerStore, redis: Redis) -> None:
    await store.cancel(TENANT, held.id)


async def _retry(held: HeldClaim, store: Store, worker: WorkerStore, redis: Redis) -> None:
    await store.retry(TENANT, held.id)


async def _be_due(held: HeldClaim, store: Store, worker: WorkerStore, redis: Redis) -> None:
    """Let its time be up, unless it has ended: then it would be swept."""
    has_ended = await redis.hexists(keys.SUMMARY + held.id, "ended_at")
    if await redis.hexists(keys.SUMMARY + held.id, "holder"):
        await expire_lease(redis, held.id)
    elif not has_ended and await redis.zscore(keys.DUE, held.id) is not None:
        await expire_review(redis, held.id)
    await worker.recover(include_queued=True)


Act = Callable[[HeldClaim, Store, WorkerStore, Redis], Awaitable[None]]
ACTS: tuple[Act, ...] = (
    _claim,
    _ask,
    _succeed,
    _fail,
    _review,
    _finish,
    _pause,
    _change,
    _rate,
    _cancel,
    _retry,
    _be_due,
)


@pytest.mark.parametrize(
    ("status", "number", "outcome"),
    CASES,
    ids=[f"{status}{ACTS[number].__name__}" for status, number, _ in CASES],
)
async def test_a_status_moves_only_where_the_table_says(
    store: Store,
    worker: WorkerStore,
    redis: Redis,
    status: Status,
    number: int,
    outcome: MoveOutcome,
) -> None:
    held = await brought_to(status, store, worker)
    before = await store.snapshot(TENANT, held.id)
    assert before.status is status
    if isinstance(outcome, Status):
        await ACTS[number](held, store, worker, redis)
        assert (await store.snapshot(TENANT, held.id)).status is outcome
    else:
        with pytest.raises(outcome):
            await ACTS[number](held, store, worker, redis)
        assert await store.snapshot(TENANT, held.id) == before
    assert outcome in (*MOVES[status], status, Conflict, Fenced)
    verdict = verdicts().get((ACTS[number].__name__.strip("_"), status), "ACTS")
    assert (verdict in {"ACTS", "DONE"}) == (outcome is not Conflict)


def test_every_move_of_the_contract_is_made_by_something() -> None:
    made = {(status, it) for status, its in TABLE.items() for it in its if it is not status}
    made = {(status, it) for status, it in made if isinstance(it, Status)}
    made |= {(Q, F)}  # at its deadline, as test_parking.py shows
    assert made == {(status, to) for status, moves in MOVES.items() for to in moves}


async def test_what_never_ran_has_nothing_to_review(store: Store) -> None:
    refinement_id = await submit(store)
    with pytest.raises(Conflict, match="not waiting"):
        await store.review(TENANT, refinement_id, ReviewDecision(action="approve"))
    assert (await store.snapshot(TENANT, refinement_id)).best != JUDGED.best
