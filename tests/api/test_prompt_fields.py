"""Fields of a request that only models see: grounding, instructions, examples, and the nonce."""

from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.contract.errors import InvalidRequest
from app.contract.requests import RefinementRequest
from app.service.admission import Admission, ModelRoles
from app.settings import Settings
from app.store import WorkerStore
from tests.api.api_client import REQUEST, ended, submitted

DOCUMENT = {"name": "policy.md", "text": "14 days."}


@pytest.mark.parametrize(
    ("fields", "grounding"),
    [
        ({}, "open"),
        ({"context": [DOCUMENT]}, "context"),
        ({"context": [DOCUMENT], "grounding": "open"}, "open"),
        ({"grounding": "context"}, "context"),
    ],
)
async def test_facts_come_of_the_context_exactly_when_there_is_one_by_default(
    api: httpx.AsyncClient, fields: dict[str, Any], grounding: str
) -> None:
    refinement_id = await submitted(api, **fields)
    request = (await api.get(f"/v1/refinements/{refinement_id}/request")).json()
    assert request["grounding"] == grounding


EXAMPLE = {"text": "No.", "score": 0.1, "why": "Rude."}


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"grounding": "web"}, "/grounding"),
        ({"instructions": {"generator": "x" * 4_001}}, "/instructions/generator"),
        ({"instructions": {"judge": "x"}}, "/instructions/judge"),
        ({"criteria": [{"name": "a", "examples": [EXAMPLE] * 6}]}, "/criteria/0/examples"),
        (
            {"criteria": [{"name": "a", "examples": [{**EXAMPLE, "score": 2}]}]},
            "/criteria/0/examples/0/score",
        ),
        (
            {"criteria": [{"name": "a", "examples": [{**EXAMPLE, "text": "x" * 2_001}]}]},
            "/criteria/0/examples/0/text",
        ),
    ],
)
async def test_what_is_out_of_bounds_is_refused_where_it_stands(
    api: httpx.AsyncClient, fields: dict[str, Any], pointer: str
) -> None:
    response = await api.post("/v1/refinements", json={**REQUEST, **fields})
    assert response.status_code == 422
    assert pointer in [it["pointer"] for it in response.json()["errors"]]


SETTINGS = Settings().model_copy(update={"openai_api_key": SecretStr("k")})


@pytest.mark.parametrize("role", ["generator", "critic"])
async def test_the_editor_is_given_no_instructions_that_it_cannot_follow(role: str) -> None:
    admission = Admission(ModelRoles(SETTINGS), ())
    request = RefinementRequest.model_validate(
        {**REQUEST, "instructions": {role: "We say you."}, "models": {role: "offline:editor"}}
    )
    with pytest.raises(InvalidRequest) as refused:
        await admission.admit(request)
    assert [it.pointer for it in refused.value.errors] == [f"/instructions/{role}"]
    able = request.model_copy(
        update={"models": request.models.model_copy(update={role: "openai:x"})}
    )
    await admission.admit(able)


async def test_the_nonce_of_prompts_is_shown_nowhere(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    running = await submitted(api)
    nonce = (await worker.load(running)).submitted.prompt_nonce
    assert nonce is not None
    refinement_id = await ended(api, worker)
    for path in ("", "/request", "/events", "/iterations", "/report"):
        answer = await api.get(f"/v1/refinements/{refinement_id}{path}")
        assert answer.status_code == 200
        assert "nonce" not in answer.text
        assert f'"{nonce}"' not in answer.text


async def test_a_continued_refinement_has_a_nonce_of_its_own_record(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    parent = await ended(api, worker)
    answer = await api.post(f"/v1/refinements/{parent}/continue", json={})
    loaded = await worker.load(answer.json()["id"])
    assert loaded.submitted.prompt_nonce is not None
    assert loaded.submitted.request.grounding == "open"
