"""What was learnt of a kind is copied at the first claim, and what one teaches is kept by kind."""

from dataclasses import replace
from typing import Any

import pytest
from redis.asyncio import Redis

from app.contract.requests import RefinementRequest
from app.contract.statistics import Learnt
from app.contract.status import Status
from app.store import Addition, Claimed, Store, WorkerStore
from app.store.redis import keys
from app.store.statistics import (
    FEWEST_KNOWN,
    Agreement,
    Hypotheses,
    Kind,
    agreements,
    outcome_of,
)
from app.store.statistics import lessons as lessons_of
from tests.store.store_harness import (
    COMPLETED,
    SUCCEEDED,
    TENANT,
    count_ended,
    expire_lease,
    started,
    submit,
)

KIND = Kind(generator="a:writer", critic="a:critic", criteria="0" * 16, strategy="iterative")
OTHER = replace(KIND, strategy="nested")
LESSON = Learnt(bank=3, refinements=1, evidence=(-1.5, -0.25), first_drafts=(1, 0.5, 0.25))

HYPOTHESES = Hypotheses(noise=(0.05, 0.2), gain=(0.1, 0), prior=(1, 1))


def lessons(tenant: str, of: Kind, lesson: Learnt) -> tuple[Addition, ...]:
    return lessons_of(tenant, of, lesson, HYPOTHESES)


def kind(**fields: Any) -> Kind:
    request = RefinementRequest.model_validate({"task": "Say it.", **fields})
    seats = ("generator", *request.critics.seats())
    return Kind.of(request, dict.fromkeys(seats, "a:model"))


async def teach(store: Store, worker: WorkerStore, *additions: Addition) -> None:
    held = await started(store, worker)
    await held.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED, additions=additions)
    await count_ended(worker)


async def first_claim(
    store: Store, worker: WorkerStore, of: Kind | None = KIND, tenant: str = TENANT
) -> Claimed:
    refinement_id = await submit(store, tenant)
    claimed = await worker.claim(refinement_id, f"{refinement_id}-1", "worker-1", kind=of)
    assert claimed is not None
    return claimed


async def test_without_history_nothing_is_copied(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    claimed = await first_claim(store, worker)
    assert claimed.learnt is None
    assert await redis.hexists(keys.REQUEST + claimed.id, "learnt") is False


async def test_a_kind_that_knows_enough_has_its_own_sums_and_another_those_of_its_models(
    store: Store, worker: WorkerStore
) -> None:
    many = LESSON.model_copy(update={"refinements": FEWEST_KNOWN})
    await teach(store, worker, *lessons(TENANT, KIND, many))
    own, other = await first_claim(store, worker), await first_claim(store, worker, OTHER)
    assert own.learnt == many
    assert other.learnt == many.model_copy(update={"is_own": False})


@pytest.mark.parametrize(("ended", "is_own"), [(9, False), (10, True)])
async def test_a_kind_has_its_own_sums_from_ten_refinements_on(
    store: Store, worker: WorkerStore, ended: int, is_own: bool
) -> None:
    for _ in range(ended):
        await teach(store, worker, *lessons(TENANT, KIND, LESSON))
    learnt = (await first_claim(store, worker)).learnt
    assert learnt is not None
    assert learnt.is_own is is_own


async def test_a_kind_that_knows_little_has_the_sums_of_its_models(
    store: Store, worker: WorkerStore
) -> None:
    await teach(store, worker, *lessons(TENANT, KIND, LESSON))
    await teach(store, worker, *lessons(TENANT, OTHER, LESSON))
    learnt = (await first_claim(store, worker)).learnt
    assert learnt is not None
    assert not learnt.is_own
    assert learnt.refinements == pytest.approx(1.99)
    assert learnt.evidence == pytest.approx((-2.985, -0.4975))
    assert learnt.first_drafts == pytest.approx((1.99, 0.995, 0.4975))


async def test_other_tenants_and_other_models_learn_nothing_from_it(
    store: Store, worker: WorkerStore
) -> None:
    await teach(store, worker, *lessons(TENANT, KIND, LESSON))
    strangers = replace(KIND, generator="b:writer")
    assert (await first_claim(store, worker, strangers)).learnt is None
    assert (await first_claim(store, worker, tenant="theirs")).learnt is None
    assert (await first_claim(store, worker, None)).learnt is None


async def test_what_was_copied_never_changes(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    await teach(store, worker, *lessons(TENANT, KIND, LESSON))
    first, naive = await first_claim(store, worker), await first_claim(store, worker, OTHER)
    unlearnt = await first_claim(store, worker, None)
    await teach(store, worker, *lessons(TENANT, KIND, LESSON))
    for before in (first, naive, unlearnt):
        await expire_lease(redis, before.id)
        again = await worker.claim(before.id, f"{before.id}-2", "worker-2", kind=KIND)
        assert again is not None
        assert again.learnt == before.learnt


@pytest.mark.parametrize("stored", [b"d123", b"no sums", b"{}", b"3"])
async def test_sums_that_cannot_be_read_hold_up_neither_a_claim_nor_an_ending(
    store: Store, worker: WorkerStore, redis: Redis, stored: bytes
) -> None:
    await teach(store, worker, *lessons(TENANT, KIND, LESSON))
    for kind_ in (KIND.own, KIND.with_its_models):
        name = keys.learnt(TENANT, kind_)
        for field in set(await redis.hkeys(name)) - {b"version", b"about"}:
            await redis.hset(name, field, stored)
    assert (await first_claim(store, worker)).learnt is None
    await teach(store, worker, *lessons(TENANT, KIND, LESSON))
    assert (await first_claim(store, worker)).learnt == LESSON.model_copy(update={"is_own": False})


async def test_it_is_erased_with_the_record_and_what_it_taught_stays(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    await teach(store, worker, *lessons(TENANT, KIND, LESSON))
    claimed = await first_claim(store, worker)
    await store.erase(TENANT, claimed.id)
    assert await redis.exists(keys.REQUEST + claimed.id) == 0
    assert await redis.exists(keys.learnt(TENANT, KIND.own)) == 1


async def test_how_predictions_ended_is_copied_with_the_sums_of_the_kind(
    store: Store, worker: WorkerStore
) -> None:
    await teach(store, worker, *[it for _ in range(11) for it in lessons(TENANT, KIND, LESSON)])
    ended = [outcome_of(TENANT, KIND, chance, is_met=chance > 0.5) for chance in (0.2, 0.6)]
    await teach(store, worker, *ended)
    learnt = (await first_claim(store, worker)).learnt
    assert learnt is not None
    expected = (1.99, 1, 0.99 * 0.2 + 0.6, 0.99 * 0.16 + 0.24)
    assert learnt.rated == pytest.approx(expected)
    other = (await first_claim(store, worker, OTHER)).learnt
    assert other is not None
    assert other.rated == (0, 0, 0, 0)


async def test_the_trust_in_a_critic_is_copied_also_without_sums_of_its_kind(
    store: Store, worker: WorkerStore
) -> None:
    right = Agreement.of_preference(0.3, agrees=True)
    await teach(store, worker, *agreements(TENANT, KIND.critic, [right]))
    learnt = (await first_claim(store, worker)).learnt
    assert learnt is not None
    assert learnt.trust == pytest.approx(right.trust)
    others = await first_claim(store, worker, replace(KIND, critic="a:other"))
    assert others.learnt is None


def test_trust_starts_in_the_middle_and_goes_to_the_share_that_is_real() -> None:
    def after(pairs: int, share: float) -> float:
        one = Agreement.of_scores(0.2, 0.2 * share)
        return Agreement(pairs, one.product * pairs, one.square * pairs).trust

    assert Agreement().trust == 0.5
    assert 0.5 < after(1, 0.9) < after(10, 0.9) < after(100, 0.9) < 0.9
    assert after(1_000, 0.2) == pytest.approx(0.2, abs=0.01)
    assert (after(1_000, -0.5), after(1_000, 3)) == (0, 1)


def test_a_critic_whose_direction_is_right_three_times_in_four_is_trusted_by_half() -> None:
    right = Agreement.of_preference(0.1, agrees=True)
    wrong = Agreement.of_preference(-0.1, agrees=False)
    many = Agreement(400, 300 * right.product + 100 * wrong.product, 400 * right.square)
    assert many.trust == pytest.approx(0.5)


@pytest.mark.parametrize(
    "fields",
    [
        {"strategy": {"kind": "critique"}, "draft": "So."},
        {"criteria": [{"name": "tone"}]},
        {"criteria": "auto"},
        {"critics": {"samples": 3}},
        {"critics": {"panel": [{"name": "a"}, {"name": "b"}]}},
    ],
)
def test_a_request_with_another_rubric_critic_or_strategy_is_of_another_kind(
    fields: dict[str, Any],
) -> None:
    assert kind(**fields).own != kind().own


def test_other_texts_and_limits_are_of_the_same_kind() -> None:
    assert kind(task="Say that.", max_iterations=5, draft="So.").own == kind().own
    floor = {"name": "tone", "floor": 0.5}
    assert kind(criteria=[floor]) == kind(criteria=[{"name": "tone"}])
    assert kind(criteria=[{"name": "tone"}]).with_its_models == kind().with_its_models
    assert kind(critics={"samples": 3}).with_its_models != kind().with_its_models


def test_the_sums_of_a_kind_name_no_words_of_a_client() -> None:
    additions = lessons(TENANT, kind(criteria=[{"name": "secret", "description": "words"}]), LESSON)
    assert not any(word in str(additions) for word in ("secret", "words"))
