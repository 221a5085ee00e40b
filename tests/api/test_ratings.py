"""Ratings: what a person may say of a judged draft, where it is shown, and what it teaches."""

from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from app.contract.judgement import QualityEstimate
from app.store import WorkerStore
from app.store.redis import keys
from app.store.redis.codec import decode_sums
from tests.api.api_client import DRAFT, ManualWorker, ended, problem, submitted
from tests.store.store_harness import TENANT


async def rate(
    api: httpx.AsyncClient, refinement_id: str, key: str | None = None, **rating: Any
) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    url = f"/v1/refinements/{refinement_id}/ratings"
    return await api.post(url, json=rating, headers=headers)


async def trust_sums(redis_url: str) -> dict[str, Any]:
    async with Redis.from_url(redis_url) as redis:
        found: Any = await redis.hgetall(keys.trust(TENANT))
    return {name.decode(): decode_sums(value) for name, value in found.items()}


async def test_a_rating_is_shown_with_its_iteration_in_the_events_and_in_the_report(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await ended(api, worker)
    given: dict[str, Any] = {
        "path": "iterations/1",
        "score": 0.4,
        "by": "Ann",
        "note": "Still *stiff*.",
    }
    response = await rate(api, refinement_id, **given)
    assert response.status_code == 201
    rating = response.json()
    url = f"/v1/refinements/{refinement_id}"
    shown = (await api.get(f"{url}/iterations")).json()["data"]
    assert [it["ratings"] for it in shown] == [[], [rating]]
    events = (await api.get(f"{url}/events", headers={"Accept": "application/json"})).json()
    last = events["data"][-1]
    assert (last["type"], last["event"]) == ("refinement.rated", rating["event"])
    assert last["data"] == {
        **given, "better_than": None, "sha256": shown[1]["sha256"],
    }  # fmt: skip
    report = (await api.get(f"{url}/report")).text
    assert "Ann rates `iterations/1` 0.40: Still \\*stiff\\*." in report


async def test_a_draft_that_was_only_judged_can_be_rated(
    api: httpx.AsyncClient, worker: WorkerStore, redis_url: str
) -> None:
    refinement_id = await ended(api, worker, 1, strategy={"kind": "critique"})
    assert (await rate(api, refinement_id, path="iterations/0", score=0.4)).status_code == 201
    assert await trust_sums(redis_url) == {"ratings offline:editor": [1]}


async def test_while_it_runs_a_preference_can_be_given(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await submitted(api)
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(0, DRAFT, 0.4)
    await manual.judge(1, "Shorter.", 0.5)
    better = {"path": "iterations/0", "better_than": "iterations/1"}
    assert (await rate(api, refinement_id, **better)).status_code == 201
    await manual.complete()
    report = (await api.get(f"/v1/refinements/{refinement_id}/report")).text
    assert "Somebody finds `iterations/0` better than `iterations/1`" in report


@pytest.mark.parametrize(
    ("rating", "pointer"),
    [
        ({"path": "iterations/7", "score": 0.5}, "/path"),
        ({"path": "iterations/1", "better_than": "iterations/7"}, "/better_than"),
        ({"path": "iterations/1", "score": 1.1}, "/score"),
        ({"path": "iterations/1", "score": 0.5, "by": ""}, "/by"),
        ({"path": "iterations/1"}, "/score"),
        ({"path": "iterations/1", "score": 0.5, "better_than": "iterations/0"}, "/better_than"),
        ({"path": "iterations/1", "better_than": "iterations/1"}, "/better_than"),
        ({"score": 0.5}, "/path"),
        ({"path": "iterations/1", "score": 0.5, "mood": "good"}, "/mood"),
    ],
)
async def test_what_cannot_be_meant_is_rejected_with_the_field_that_is_wrong(
    api: httpx.AsyncClient, worker: WorkerStore, rating: dict[str, Any], pointer: str
) -> None:
    refinement_id = await ended(api, worker)
    found = problem(await rate(api, refinement_id, **rating), 422, "invalid_request")
    assert [it["pointer"] for it in found["errors"]] == [pointer]


async def test_a_key_counts_once_and_belongs_to_its_rating(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await ended(api, worker)
    given: dict[str, Any] = {"path": "iterations/1", "score": 0.5}
    first, again = [await rate(api, refinement_id, "k", **given) for _ in range(2)]
    assert again.json() == first.json()
    said = [it.headers.get("idempotency-replayed") for it in (first, again)]
    assert said == [None, "true"]
    other = await rate(api, refinement_id, "k", path="iterations/1", score=0.6)
    problem(other, 422, "idempotency_mismatch")
    problem(await rate(api, "ref_unknown", path="a", score=0), 404, "not_found")


async def test_two_scores_by_one_person_say_how_far_the_critic_is_right(
    api: httpx.AsyncClient, worker: WorkerStore, redis_url: str
) -> None:
    refinement_id = await ended(api, worker, 3)  # scored 0, 0.1 and 0.2
    critic = "offline:editor"
    await rate(api, refinement_id, path="iterations/0", score=0.5, by="Ann")
    await rate(api, refinement_id, path="iterations/2", score=0.9, by="Bob")
    assert await trust_sums(redis_url) == {f"ratings {critic}": [2]}
    await rate(api, refinement_id, path="iterations/2", score=0.6, by="Ann")
    await rate(api, refinement_id, path="iterations/2", score=0.1, by="Ann")  # a second thought
    assert await trust_sums(redis_url) == {
        f"ratings {critic}": [3],
        f"pairs {critic}": pytest.approx([1, 0.2 * 0.1, 0.2**2]),
    }


async def test_a_score_says_how_the_prediction_of_a_result_ended(
    api: httpx.AsyncClient, worker: WorkerStore, redis_url: str
) -> None:
    refinement_id = await submitted(api, threshold=0.8)
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(0, DRAFT, 0.4)
    estimate = QualityEstimate.of(0.7, 0.1)
    await manual.judge(1, "Shorter.", 0.8, estimate=estimate)
    await manual.complete()
    for path, score in (("iterations/0", 0.9), ("iterations/1", 0.9), ("iterations/1", 0.1)):
        assert (await rate(api, refinement_id, path=path, score=score)).status_code == 201
    chance = estimate.chance_of(0.8)
    assert chance == pytest.approx(0.158655, abs=1e-6)
    async with Redis.from_url(redis_url) as redis:
        (name,) = [it async for it in redis.scan_iter(keys.LEARNT + f"{TENANT}:*")]
        stored: Any = await redis.hget(name, "rated")
    assert decode_sums(stored) == pytest.approx([1, 1, chance, chance * (1 - chance)])


async def test_a_preference_counts_for_or_against_the_critic(
    api: httpx.AsyncClient, worker: WorkerStore, redis_url: str
) -> None:
    refinement_id = await ended(api, worker, 3)
    await rate(api, refinement_id, path="iterations/2", better_than="iterations/1")
    await rate(api, refinement_id, path="iterations/0", better_than="iterations/2")
    (pairs,) = [
        it for name, it in (await trust_sums(redis_url)).items() if name.startswith("pairs")
    ]
    first = [1, 0.1**2, 0.1**2]
    after = [1, -(0.2**2), 0.2**2]
    assert pairs == pytest.approx([0.99 * a + b for a, b in zip(first, after, strict=True)])


async def test_a_refinement_that_does_not_learn_teaches_nothing_by_its_ratings(
    api: httpx.AsyncClient, worker: WorkerStore, redis_url: str
) -> None:
    refinement_id = await ended(api, worker, learn=False)
    for path in ("iterations/0", "iterations/1"):
        assert (await rate(api, refinement_id, path=path, score=0.5)).status_code == 201
    assert await trust_sums(redis_url) == {}
