"""What a request would consume, over HTTP."""

from typing import Any

import httpx
import pytest

REQUEST: dict[str, Any] = {
    "task": "Explain our refund policy to a customer.",
    "models": {"generator": "openai:gpt-5-mini", "critic": "openai:gpt-5-mini"},
}


async def test_an_estimate_says_what_a_request_consumes_and_creates_nothing(
    keyed_api: httpx.AsyncClient,
) -> None:
    response = await keyed_api.post("/v1/estimates", json=REQUEST)
    assert response.status_code == 200
    said = response.json()
    assert said["strategy"] == "iterative"
    assert said["models"] == REQUEST["models"]
    assert (said["expected"]["calls"], said["p95"]["calls"]) == (4, 9)
    assert said["cap"] == {"calls": 18, "max_tokens": None, "max_cost_usd": None}
    for amount in (said["expected"], said["p95"]):
        assert amount["tokens"] == amount["input_tokens"] + amount["output_tokens"]
    assert 0 < said["expected"]["cost_usd"] < said["p95"]["cost_usd"]
    assert (await keyed_api.get("/v1/refinements")).json()["data"] == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": 7},
        {"models": {"generator": "nobody:nothing"}},
        {"stop": {"max_tokens": 1}},
        {"validators": [{"kind": "regex", "pattern": "("}]},
    ],
)
async def test_a_request_that_would_be_refused_has_no_estimate(
    keyed_api: httpx.AsyncClient, wrong: dict[str, Any]
) -> None:
    refused = await keyed_api.post("/v1/estimates", json={**REQUEST, **wrong})
    submitted = await keyed_api.post("/v1/refinements", json={**REQUEST, **wrong})
    assert refused.status_code == submitted.status_code == 422
    assert refused.json()["errors"] == submitted.json()["errors"]


async def test_a_generator_that_is_drawn_counts_as_the_dearest_candidate(
    keyed_api: httpx.AsyncClient,
) -> None:
    named = ["openai:gpt-6-luna", "openai:gpt-6.2-sol"]
    critic = {"critic": "openai:gpt-6-luna"}
    drawn = {**REQUEST, "models": {**critic, "select": "auto", "candidates": named}}
    dearest = {**REQUEST, "models": {**critic, "generator": named[1]}}
    costs = [
        (await keyed_api.post("/v1/estimates", json=it)).json()["expected"]["cost_usd"]
        for it in (drawn, dearest)
    ]
    assert costs[0] == costs[1]
