"""A cascade of generators through the API: what is refused, recorded, estimated and reported."""

from typing import Any

import httpx
import pytest

from app.contract.errors import InvalidRequest
from app.contract.requests import RefinementRequest
from app.service.estimates import estimated
from tests.api.api_client import REQUEST, problem, submitted
from tests.api.test_fallbacks import admission

EDITOR = "offline:editor"
CHEAP, STRONG = "openai:gpt-6-luna", "openai:gpt-6.1-sol"


@pytest.mark.parametrize(
    ("models", "pointer", "words"),
    [
        ({"generator": [EDITOR, "openai:x"]}, "/models", "given together"),
        ({"generator": EDITOR, "escalate": "when_stuck"}, "/models", "given together"),
        ({"escalate": "when_stuck"}, "/models", "given together"),
        ({"generator": [EDITOR], "escalate": "when_stuck"}, "/models/generator", "at least 2"),
        ({"generator": [EDITOR, EDITOR], "escalate": "when_stuck"}, "/models", "must differ"),
        ({"generator": [EDITOR, 7], "escalate": "when_stuck"}, "/models/generator/1", "string"),
        (
            {"generator": [EDITOR, {"model": "openai:x"}], "escalate": "when_stuck"},
            "/models/generator/1/model",
            "OPENAI_API_KEY",
        ),
        (
            {"generator": [EDITOR, {"model": "openai:x", "heat": 1}], "escalate": "when_stuck"},
            "/models/generator/1/heat",
            "is not a field",
        ),
        ({"generator": [EDITOR, "nobody:x"], "escalate": "always"}, "/models/escalate", "when_"),
        ({"critic": [EDITOR]}, "/models/critic", "must be one model: its name or an object"),
        ({"generator": [EDITOR, [EDITOR]]}, "/models/generator/1", "must be one model"),
        ({"escalate_after": 3}, "/models/escalate_after", "needs `escalate`"),
    ],
)
async def test_a_cascade_that_cannot_be_played_is_refused(
    api: httpx.AsyncClient, models: dict[str, Any], pointer: str, words: str
) -> None:
    answer = await api.post("/v1/refinements", json={**REQUEST, "models": models})
    errors = problem(answer, 422, "invalid_request")["errors"]
    assert [it for it in errors if it["pointer"] == pointer and words in it["detail"]], errors


async def test_a_strategy_without_revisions_names_the_field(api: httpx.AsyncClient) -> None:
    models = {"generator": [EDITOR, STRONG], "escalate": "when_stuck"}
    body = {**REQUEST, "models": models, "strategy": {"kind": "critique"}}
    (error,) = problem(await api.post("/v1/refinements", json=body), 422, "invalid_request")[
        "errors"
    ]
    assert (error["pointer"], "critique has none here" in error["detail"]) == (
        "/models/escalate",
        True,
    )


async def test_every_generator_needs_a_price_and_must_be_able_to_do_the_work() -> None:
    models: dict[str, Any] = {
        "generator": [CHEAP, "local:x"],
        "escalate": "when_stuck",
        "critic": CHEAP,
    }
    fields: dict[str, Any] = {"task": "Write it.", "models": models}
    unpriced = RefinementRequest.model_validate({**fields, "stop": {"max_cost_usd": 5}})
    with pytest.raises(InvalidRequest) as caught:
        await admission().admit(unpriced)
    assert [it.pointer for it in caught.value.errors] == ["/models/generator/1"]
    models["generator"] = [CHEAP, EDITOR]
    with pytest.raises(InvalidRequest) as caught:
        await admission().admit(RefinementRequest.model_validate(fields))
    assert [it.pointer for it in caught.value.errors] == ["/models/generator/1"]


async def test_its_models_stand_in_the_first_event(api: httpx.AsyncClient) -> None:
    models = {"generator": [EDITOR, {"model": EDITOR, "temperature": 1}], "escalate": "when_stuck"}
    refinement_id = await submitted(api, models=models)
    (queued, *_) = (
        await api.get(
            f"/v1/refinements/{refinement_id}/events", headers={"Accept": "application/json"}
        )
    ).json()["data"]
    assert queued["data"]["models"] == {
        "generator": EDITOR,
        "critic": EDITOR,
        "generator/2": EDITOR,
    }


async def test_an_estimate_expects_the_later_drafts_of_the_stronger_model() -> None:
    critic = {"critic": CHEAP}

    async def dollars(generators: Any, **more: Any) -> tuple[float, float]:
        models = {"generator": generators, **critic, **more}
        request = RefinementRequest.model_validate(
            {"draft": "A text. " * 300, "models": models, "max_iterations": 8}
        )
        admitted = await admission().admit(request)
        found = estimated(admitted.request, admitted.choices)
        return found.expected.cost_usd or 0, found.p95.cost_usd or 0

    cheap, strong = await dollars(CHEAP), await dollars(STRONG)
    both = await dollars([CHEAP, STRONG], escalate="when_stuck", escalate_after=2)
    never = await dollars([CHEAP, STRONG], escalate="when_stuck", escalate_after=9)
    assert cheap[0] < both[0] < strong[0]
    assert never[0] == cheap[0]
    assert both[1] == strong[1]
