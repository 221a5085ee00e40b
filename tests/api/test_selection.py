"""Which model is drawn, how that is journaled, and which candidates cannot be compared."""

from random import Random
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.contract.errors import InvalidRequest
from app.contract.events import Queued
from app.contract.requests import RefinementRequest
from app.service.admission import FLOOR_USD, Admission, ModelRoles, draw
from app.settings import ModelServer, Settings
from app.store import WorkerStore
from app.store.statistics import Achieved, Agreement
from tests.api.api_client import REQUEST, ManualWorker, problem, submitted
from tests.api.conftest import running
from tests.store.store_harness import count_ended
from tests.waiting import TIMEOUT_S

EDITOR = "offline:editor"
CHEAP, STRONG = "openai:gpt-5-mini", "anthropic:claude-sonnet-5"
NEW = Achieved()


def auto(*candidates: str, **more: Any) -> dict[str, Any]:
    return {"models": {"select": "auto", "candidates": candidates, **more}}


def played(before: Achieved, gain: float, cost_usd: float, *, passed: bool = False) -> Achieved:
    return before + Achieved(1, int(passed), gain, gain * gain, 1, cost_usd)


def drawing(
    truth: dict[str, tuple[float, float]], rounds: int, luck: Random, *, counts_cost: bool = True
) -> list[str]:
    """Draw so many times; `truth` is the mean gain and the cost of each model."""
    achieved, picked = dict.fromkeys(truth, NEW), []
    for _ in range(rounds):
        model = draw(achieved, (), luck, counts_cost=counts_cost).picked
        gain = min(1.0, max(0.0, luck.gauss(truth[model][0], 0.15)))
        achieved[model] = played(achieved[model], gain, truth[model][1])
        picked.append(model)
    return picked


def test_most_later_draws_are_of_the_model_that_gains_most_per_dollar() -> None:
    """STRONG gains 21 per dollar, CHEAP 13."""
    picked = drawing({CHEAP: (0.1, 0.0075), STRONG: (0.9, 0.042)}, 400, Random(20_261_121))
    assert picked[-200:].count(STRONG) >= 180
    assert picked.count(CHEAP) >= 2


def test_prices_of_the_list_are_scaled_by_what_such_tasks_cost() -> None:
    """Ten times the nominal task: one without results is expected to cost ten times as much."""
    made = draw({CHEAP: played(NEW, 0.5, 0.075), STRONG: NEW}, (), Random(1))
    assert {it.model: it.mean_cost_usd for it in made.candidates}[STRONG] == pytest.approx(0.42)


def test_by_gain_alone_the_price_does_not_matter() -> None:
    truth = {CHEAP: (0.5, 0.001), STRONG: (0.6, 0.1)}
    assert drawing(truth, 300, Random(5), counts_cost=False)[-100:].count(STRONG) >= 80
    assert drawing(truth, 300, Random(5))[-100:].count(CHEAP) >= 80


def test_two_kinds_of_tasks_find_the_model_that_is_good_at_each() -> None:
    """Counted together neither is better, and a draw is no better than chance."""
    kinds = [{CHEAP: (0.7, 0.01), STRONG: (0.4, 0.01)}, {CHEAP: (0.4, 0.01), STRONG: (0.7, 0.01)}]
    right = 0
    for truth, best in zip(kinds, (CHEAP, STRONG), strict=True):
        for seed in range(10):
            right += drawing(truth, 60, Random(seed), counts_cost=False)[-30:].count(best)
    assert right / (2 * 10 * 30) >= 0.9


def test_one_that_always_fails_at_once_is_not_picked_for_costing_nothing() -> None:
    achieved = {CHEAP: Achieved(ended=50), STRONG: Achieved(50, 45, 45.0, 41.0, 50, 2.5)}
    luck = Random(1)
    picked = [draw(achieved, (), luck).picked for _ in range(100)]
    assert picked.count(STRONG) >= 95


def test_a_candidate_without_a_history_is_expected_to_cost_what_the_price_list_says() -> None:
    made = draw({CHEAP: NEW, STRONG: NEW}, (CHEAP,), Random(1))
    nominal = {it.model: it.mean_cost_usd or 0 for it in made.candidates}
    assert nominal[CHEAP] == pytest.approx(2 * (6_000 * 0.25 + 3_000 * 2.0) / 1e6)
    assert nominal[STRONG] > nominal[CHEAP]


def test_what_costs_nothing_counts_as_if_it_cost_a_little() -> None:
    made = draw({EDITOR: NEW, CHEAP: Achieved(2, 1, 1.0, 0.5, 1, 0.25)}, (), Random(1))
    assert [it.mean_cost_usd for it in made.candidates] == [FLOOR_USD, 0.25]
    assert made.picked == max(made.candidates, key=lambda it: it.sampled / it.mean_cost_usd).model  # type: ignore[operator] # both are known


def test_an_unknown_price_is_no_obstacle_when_gain_alone_counts() -> None:
    made = draw({"local:x": NEW, CHEAP: NEW}, (), Random(1), counts_cost=False)
    assert {it.model: it.mean_cost_usd for it in made.candidates}["local:x"] is None


def test_critics_are_drawn_by_how_far_they_agree_with_others() -> None:
    trusted = {CHEAP: Agreement(200, 2.0, 20.0), STRONG: Agreement(200, 18.0, 20.0)}
    luck, new = Random(3), {CHEAP: NEW, STRONG: NEW}
    made = [draw(new, (), luck, counts_cost=False, trusted=trusted).picked for _ in range(100)]
    assert made.count(STRONG) >= 95


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
            await count_ended(worker)
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
        ({"select": "auto", "critic_candidates": [CHEAP]}, "`critic_candidates` must be 2 to 10"),
        (
            {"select": "auto", "critic_candidates": [CHEAP, STRONG], "critic": EDITOR},
            "`critic` is not supported",
        ),
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
            "/models/candidates",
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
    assert (await admission().admit(cheap)).choices
