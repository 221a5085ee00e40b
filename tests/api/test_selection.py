"""Which model is drawn, how that is journaled, and which candidates cannot be compared."""

from random import Random
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.contract.errors import InvalidRequest
from app.contract.events import Queued
from app.contract.requests import RefinementRequest
from app.service import Admission, ModelRoles
from app.service.model_roles import FLOOR_USD, draw
from app.settings import ModelServer, Settings
from app.store import Achieved, WorkerStore
from tests.api.api_client import REQUEST, ManualWorker, problem, submitted
from tests.api.conftest import running
from tests.waiting import TIMEOUT_S

EDITOR = "offline:editor"
CHEAP, STRONG = "openai:gpt-5-mini", "anthropic:claude-sonnet-5"
NEW = Achieved()


def auto(*candidates: str, **more: Any) -> dict[str, Any]:
    return {"models": {"select": "auto", "candidates": candidates, **more}}


def test_most_later_draws_are_of_the_model_that_passes_most_per_dollar() -> None:
    """STRONG passes 90 times per dollar, CHEAP 60 times."""
    truth = {CHEAP: (0.3, 0.005), STRONG: (0.9, 0.01)}
    achieved, luck, picked = {CHEAP: NEW, STRONG: NEW}, Random(20_261_121), []
    for _ in range(600):
        model = draw(achieved, (), luck).picked
        passes, cost_usd = truth[model]
        before = achieved[model]
        achieved[model] = Achieved(
            ended=before.ended + 1,
            passed=before.passed + (luck.random() < passes),
            priced=before.priced + 1,
            cost_usd=before.cost_usd + cost_usd,
        )
        picked.append(model)
    assert picked[-200:].count(STRONG) >= 180
    assert picked[:200].count(CHEAP) >= 5


def test_one_that_always_fails_at_once_is_not_picked_for_costing_nothing() -> None:
    achieved = {CHEAP: Achieved(ended=50), STRONG: Achieved(50, 45, 50, 2.5)}
    luck = Random(1)
    picked = [draw(achieved, (), luck).picked for _ in range(100)]
    assert picked.count(STRONG) >= 95


def test_a_candidate_without_a_history_is_expected_to_cost_what_the_price_list_says() -> None:
    made = draw({CHEAP: NEW, STRONG: NEW}, (CHEAP,), Random(1))
    nominal = {it.model: it.mean_cost_usd for it in made.candidates}
    assert nominal[CHEAP] == pytest.approx(2 * (6_000 * 0.25 + 3_000 * 2.0) / 1e6)
    assert nominal[STRONG] > nominal[CHEAP]


def test_what_costs_nothing_counts_as_if_it_cost_a_little() -> None:
    made = draw({EDITOR: NEW, CHEAP: Achieved(2, 1, 1, 0.25)}, (), Random(1))
    assert [it.mean_cost_usd for it in made.candidates] == [FLOOR_USD, 0.25]
    assert made.picked == max(made.candidates, key=lambda it: it.sampled / it.mean_cost_usd).model


async def test_the_draw_is_journaled_and_draws_from_what_the_tenant_has_seen(
    settings: Settings, worker: WorkerStore
) -> None:
    callable_ = settings.model_copy(update={"openai_api_key": SecretStr("k")})
    with running(callable_) as url:
        async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as api:
            first = await queued(api, await submitted(api, **auto(EDITOR, CHEAP)))
            assert first.draw is not None
            assert first.models["generator"] == first.draw.picked
            assert [(it.model, it.ended) for it in first.draw.candidates] == [
                (EDITOR, 0),
                (CHEAP, 0),
            ]
            manual = await ManualWorker.claim(worker, await submitted(api, **auto(EDITOR, CHEAP)))
            await manual.judge(0, REQUEST["draft"], 0.9)
            await manual.complete()
            later = await queued(api, await submitted(api, **auto(CHEAP, EDITOR)))
            assert later.draw is not None
            assert [it.model for it in later.draw.candidates] == [CHEAP, EDITOR]
            assert sum(it.ended for it in later.draw.candidates) == 1


async def queued(api: httpx.AsyncClient, refinement_id: str) -> Queued:
    """Return what the first event says."""
    answer = await api.get(
        f"/v1/refinements/{refinement_id}/events", headers={"Accept": "application/json"}
    )
    return Queued.model_validate(answer.json()["data"][0]["data"])


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ({"select": "auto"}, "given together"),
        ({"candidates": [CHEAP, STRONG]}, "given together"),
        (auto(CHEAP)["models"], "2 to 10 different"),
        (auto(CHEAP, CHEAP)["models"], "2 to 10 different"),
        (auto(CHEAP, STRONG, generator=EDITOR)["models"], "`generator` is not supported"),
    ],
)
async def test_candidates_that_contradict_themselves_are_refused(
    api: httpx.AsyncClient, models: dict[str, Any], words: str
) -> None:
    answer = await api.post("/v1/refinements", json={**REQUEST, "models": models})
    assert words in problem(answer, 422, "invalid_request")["detail"]


def admission() -> Admission:
    local = ModelServer(base_url="http://127.0.0.1:1/v1")
    settings = Settings(providers={"local": local})
    with_key = settings.model_copy(update={"openai_api_key": SecretStr("k")})
    return Admission(ModelRoles(with_key), ())


@pytest.mark.parametrize(
    ("fields", "pointer", "words"),
    [
        (auto(CHEAP, "local:x"), "/models/candidates/1", "price of local:x is unknown"),
        (auto(CHEAP, STRONG), "/models/candidates/1", "ANTHROPIC_API_KEY"),
        (auto(EDITOR, CHEAP) | {"draft": None}, "/models/candidates/0", "cannot write"),
        (
            auto(CHEAP, EDITOR) | {"strategy": {"kind": "critique"}},
            "/models/select",
            "no generator",
        ),
        (
            auto(EDITOR, CHEAP) | {"stop": {"max_cost_usd": 0.000001}, "draft": None, "task": "x"},
            "/models/candidates/0",
            "cannot write",
        ),
    ],
)
async def test_a_candidate_that_could_not_play_is_refused(
    fields: dict[str, Any], pointer: str, words: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await admission().admit(RefinementRequest.model_validate(REQUEST | fields))
    found = [it.detail for it in caught.value.errors if it.pointer == pointer]
    assert len(found) == 1
    assert words in found[0]


async def test_a_budget_must_do_for_the_dearest_candidate() -> None:
    fields = {"task": "Write.", "draft": None, "stop": {"max_cost_usd": 0.1}}
    dear = RefinementRequest.model_validate(fields | auto(CHEAP, "openai:gpt-6-astra"))
    with pytest.raises(InvalidRequest, match="expected to cost"):
        await admission().admit(dear)
    cheap = RefinementRequest.model_validate(fields | auto(CHEAP, "openai:gpt-4.1-nano"))
    assert await admission().admit(cheap)
