"""What was learnt is shown by kind: expectations over the hypotheses, first drafts, and trust."""

from math import exp

import httpx
import pytest

from app.contract.statistics import Learnt
from app.contract.status import Status
from app.store import Addition, WorkerStore
from app.store.statistics import Agreement, Hypotheses, Kind, agreements, lessons, rated_once
from tests.api.api_client import problem, submitted
from tests.store.store_harness import COMPLETED, SUCCEEDED, TENANT, count_ended

KIND = Kind(generator="a:writer", critic="a:critic", criteria="0" * 16, strategy="iterative")
HYPOTHESES = Hypotheses(noise=(0.05, 0.2), gain=(0.1, 0.0), prior=(1, 2))
LESSON = Learnt(bank=1, refinements=1, evidence=(-1, -2), first_drafts=(2, 1.0, 0.52))


async def teach(api: httpx.AsyncClient, worker: WorkerStore, *additions: Addition) -> None:
    refinement_id = await submitted(api)
    claimed = await worker.claim(refinement_id, f"{refinement_id}-1", "worker-1")
    assert claimed is not None
    await worker.journal(claimed).append(
        [COMPLETED], SUCCEEDED, to=Status.SUCCEEDED, additions=additions
    )
    await count_ended(worker)


async def test_nothing_is_known_at_first(api: httpx.AsyncClient) -> None:
    assert (await api.get("/v1/statistics?of=calibration")).json() == {"data": []}


async def test_a_kind_is_shown_with_its_models_and_what_is_expected_of_them(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    pair = Agreement.of_scores(0.5, 0.5)
    trust = agreements(TENANT, KIND.critic, [pair])
    await teach(api, worker, *lessons(TENANT, KIND, LESSON, HYPOTHESES), *trust)
    data = (await api.get("/v1/statistics?of=calibration")).json()["data"]
    own, of_models = sorted(data, key=lambda it: it["strategy"] is None)
    first = exp(1) / (exp(1) + 2)
    shared = {
        "generator": "a:writer",
        "critic": "a:critic",
        "refinements": 1,
        "noise": pytest.approx(0.05 * first + 0.2 * (1 - first)),
        "gain": pytest.approx(0.1 * first),
        "first_drafts": {"mean": 0.5, "sd": pytest.approx(0.2 * 0.5**0.5)},
        "trust": pytest.approx(pair.trust),
        "pairs": 1,
        "ratings": 0,
    }
    assert own == shared | {"strategy": "iterative", "criteria": "0" * 16}
    assert of_models == shared | {"strategy": None, "criteria": None}
    assert len((await api.get("/v1/statistics?of=calibration&limit=1")).json()["data"]) == 1
    found = problem(await api.get("/v1/statistics?of=calibration&limit=0"), 422, "invalid_request")
    assert [it["pointer"] for it in found["errors"]] == ["/limit"]


async def test_a_critic_of_whom_only_ratings_are_known_has_a_row_of_its_own(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    await teach(api, worker, rated_once(TENANT, "a:critic"), rated_once(TENANT, "a:critic"))
    await teach(api, worker, rated_once(TENANT, "b:critic"))
    [row] = (await api.get("/v1/statistics?of=calibration&limit=1")).json()["data"]
    assert (row["critic"], row["generator"], row["noise"]) == ("a:critic", None, None)
    assert (row["ratings"], row["trust"], row["first_drafts"]) == (2, 0.5, None)
