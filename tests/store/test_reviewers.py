"""Several reviewers: how many approvals decide, and what every other word does."""

from typing import Any

import pytest
from redis.asyncio import Redis

from app.contract.errors import Conflict, Forbidden, IdempotencyMismatch, InvalidRequest
from app.contract.events import EventType
from app.contract.reviews import ApprovalGiven, ReviewDecision, Reviewed
from app.contract.snapshot import Snapshot
from app.contract.status import Status
from app.store import Store, WorkerStore
from app.store.redis import keys
from tests.store.store_harness import (
    JUDGED,
    TENANT,
    HeldClaim,
    asking,
    claim,
    expire_review,
    iteration,
    kinds,
    pause,
    paused,
    recorded,
    started,
)

NAMED = ("ann", "bob", "cleo")


async def say(
    store: Store, held: HeldClaim, reviewer: str | None, action: str = "approve", **said: Any
) -> Snapshot:
    word = ReviewDecision.model_validate({"action": action, "reviewer": reviewer, **said})
    return await store.review(TENANT, held.id, word)


async def said_last(worker: WorkerStore, held: HeldClaim) -> object:
    return (await recorded(worker, held.id))[-1].data


async def test_it_stays_paused_until_all_have_approved_and_names_them_in_order(
    store: Store, worker: WorkerStore
) -> None:
    held = await paused(store, worker, reviewers=NAMED, approvals=3)
    await say(store, held, "cleo", score=0.7, feedback='Fine / "good"')
    given = ApprovalGiven(
        key="iterations/1/review",
        reviewer="cleo",
        feedback='Fine / "good"',
        score=0.7,
        given=1,
        needed=3,
    )
    assert await said_last(worker, held) == given
    now = await say(store, held, "ann")
    assert (now.status, now.reviewed) == (Status.PAUSED, None)
    assert now.review is not None
    assert (now.review.reviewers, now.review.approvals_needed) == (NAMED, 3)
    assert [(it.reviewer, it.score) for it in now.review.approvals] == [
        ("cleo", 0.7),
        ("ann", None),
    ]
    assert all(now.review.asked_at <= it.at <= now.review.deadline for it in now.review.approvals)
    now = await say(store, held, "bob", score=0.8)
    assert (now.status, now.review) == (Status.QUEUED, None)
    assert now.reviewed is not None
    assert (now.reviewed.key, now.reviewed.action) == ("iterations/1/review", "approve")
    assert (now.reviewed.reviewer, now.reviewed.approved_by) == ("bob", ("cleo", "ann", "bob"))
    assert await said_last(worker, held) == Reviewed(
        key="iterations/1/review",
        action="approve",
        score=0.75,  # the mean of those who gave one
        by="reviewer",
        reviewer="bob",
        approved_by=("cleo", "ann", "bob"),
    )


@pytest.mark.parametrize("action", ["reject", "revise", "replace"])
async def test_any_other_word_of_one_reviewer_decides_at_once_also_after_an_approval(
    store: Store, worker: WorkerStore, action: str
) -> None:
    held = await paused(store, worker, reviewers=NAMED, approvals=2)
    await say(store, held, "ann")
    said = {"draft": "Mine."} if action == "replace" else {"feedback": "Say why."}
    now = await say(store, held, "ann", action, **said)
    assert now.status is Status.QUEUED
    last = await said_last(worker, held)
    assert isinstance(last, Reviewed)
    assert (last.action, last.reviewer, last.approved_by) == (action, "ann", ())
    with pytest.raises(Conflict, match="not waiting"):
        await say(store, held, "bob")


async def test_a_reviewer_counts_once_however_often_they_approve(
    store: Store, worker: WorkerStore
) -> None:
    held = await paused(store, worker, approvals=2)
    for _ in range(3):
        assert (await say(store, held, "ann")).status is Status.PAUSED
    assert (await kinds(store, held.id)).count(EventType.APPROVAL_GIVEN) == 1
    assert (await say(store, held, "bob")).status is Status.QUEUED


async def test_only_those_who_are_asked_decide_and_they_say_who_they_are(
    store: Store, worker: WorkerStore
) -> None:
    held = await paused(store, worker, reviewers=NAMED)
    with pytest.raises(Forbidden):
        await say(store, held, "dan", "reject")
    with pytest.raises(InvalidRequest) as refused:
        await say(store, held, None)
    assert refused.value.errors[0].pointer == "/reviewer"
    now = await say(store, held, "bob")
    assert now.reviewed is not None
    assert (now.status, now.reviewed.reviewer) == (Status.QUEUED, "bob")
    assert now.reviewed.approved_by == ("bob",)
    last = await said_last(worker, held)
    assert isinstance(last, Reviewed)
    assert (last.reviewer, last.approved_by) == ("bob", ("bob",))


async def test_a_rating_alone_does_not_take_the_place_of_approvals(
    store: Store, worker: WorkerStore
) -> None:
    held = await paused(store, worker, approvals=2)
    with pytest.raises(Conflict, match="approvals"):
        await say(store, held, "ann", "rate", score=1)
    assert (await store.snapshot(TENANT, held.id)).status is Status.PAUSED


async def test_approvals_of_one_draft_do_not_count_for_the_next(
    store: Store, worker: WorkerStore
) -> None:
    held = await paused(store, worker, approvals=2)
    await say(store, held, "ann")
    await say(store, held, "bob", "revise", feedback="Shorter.")
    again = await claim(worker, held.id, job=2)
    await pause(again, key="iterations/2/review", approvals=2)
    now = await say(store, again, "bob")
    assert now.review is not None
    assert [it.reviewer for it in now.review.approvals] == ["bob"]


@pytest.mark.parametrize("on_timeout", ["approve", "reject", "finish"])
async def test_too_few_approvals_in_time_are_as_none(
    store: Store, worker: WorkerStore, redis: Redis, on_timeout: Any
) -> None:
    held = await paused(store, worker, approvals=2, on_timeout=on_timeout)
    await say(store, held, "ann")
    await expire_review(redis, held.id)
    assert await worker.recover(include_queued=False) == 1
    now = await store.snapshot(TENANT, held.id)
    assert (now.status, now.review) == (Status.QUEUED, None)
    if on_timeout != "finish":
        assert now.reviewed is not None
        assert (now.reviewed.action, now.reviewed.by) == (on_timeout, "timeout")


async def test_a_key_that_replaced_another_counts_as_that_one(
    store: Store, worker: WorkerStore
) -> None:
    word = ReviewDecision(action="approve")
    held = await paused(store, worker, reviewers=("key_b", "key_x"), approvals=2)
    await store.review(TENANT, held.id, word, known_as=("key_c", "key_b", "key_a"))
    now = await store.review(TENANT, held.id, word, known_as=("key_b", "key_a"))
    assert now.review is not None
    assert [it.reviewer for it in now.review.approvals] == ["key_b"]
    whoever = await paused(store, worker, approvals=2)
    await store.review(TENANT, whoever.id, word, known_as=("key_a",))
    now = await store.review(TENANT, whoever.id, word, known_as=("key_b", "key_a"))
    assert now.status is Status.PAUSED


async def test_an_approval_sent_twice_with_one_key_counts_once_and_another_is_a_mismatch(
    store: Store, worker: WorkerStore
) -> None:
    held = await paused(store, worker, approvals=2)
    ann, bob = (ReviewDecision(action="approve", reviewer=it) for it in ("ann", "bob"))
    for _ in range(2):
        await store.review(TENANT, held.id, ann, "word-1")
    assert (await kinds(store, held.id)).count(EventType.APPROVAL_GIVEN) == 1
    with pytest.raises(IdempotencyMismatch):
        await store.review(TENANT, held.id, bob, "word-1")


@pytest.mark.parametrize(
    ("timeouts", "left"), [((60, 90), 1), ((90, 60), 1), ((60, 60), 0)], ids=str
)
async def test_of_several_reviews_only_those_time_out_whose_time_has_come(
    store: Store, worker: WorkerStore, redis: Redis, timeouts: tuple[float, float], left: int
) -> None:
    held = await started(store, worker)
    asked = [asking(f"r/{it}", it, "approve") for it in timeouts]
    asked[1] = asking("r/second", timeouts[1], "approve")
    await held.journal.append([iteration(held), *asked], JUDGED, to=Status.PAUSED)
    before = await store.snapshot(TENANT, held.id)
    assert await redis.zscore(keys.DUE, held.id) == min(
        it.deadline.timestamp() * 1000 for it in before.reviews
    )
    await expire_review(redis, held.id)
    assert await worker.recover(include_queued=False) == 1 - left
    now = await store.snapshot(TENANT, held.id)
    assert (now.status is Status.QUEUED, len(now.reviews)) == (left == 0, left)
    assert (await kinds(store, held.id)).count(EventType.REVIEWED) == 2 - left
    if left:
        assert await redis.zscore(keys.DUE, held.id) == now.reviews[0].deadline.timestamp() * 1000
