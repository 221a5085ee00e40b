"""Models that stand in for others: refused at once where they could not take over."""

from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.contract.editor import EDITOR
from app.contract.errors import InvalidRequest
from app.contract.requests import RefinementRequest
from app.service.admission import Admission, ModelRoles
from app.settings import ModelServer, Settings
from tests.api.api_client import REQUEST, problem, submitted

LETTER = [{"name": "warmth", "description": "Sounds like a friend."}]
WRITER = {"model": "openai:gpt-5-mini"}
EDITING = {"fallbacks": [EDITOR]}
LOCAL = {"model": "offline:editor", "fallbacks": ["openai:gpt-5-mini"]}


def critic(**fields: Any) -> dict[str, Any]:
    return {"models": {"critic": {"model": "offline:editor", **fields}}}


@pytest.mark.parametrize(
    ("fields", "pointer", "words"),
    [
        (critic(fallbacks=["nobody:x"]), "/models/critic/fallbacks/0", "openai:NAME"),
        (critic(fallbacks=["openai:x"]), "/models/critic/fallbacks/0", "OPENAI_API_KEY"),
        (critic(fallbacks=["offline:editor"]), "/models/critic", "different from `model`"),
        (critic(fallbacks=["openai:x", "openai:x"]), "/models/critic", "from each other"),
        (critic(fallbacks=[f"openai:{n}" for n in range(6)]), "/models/critic/fallbacks", "5"),
    ],
)
async def test_a_model_that_could_not_stand_in_is_refused(
    api: httpx.AsyncClient, fields: dict[str, Any], pointer: str, words: str
) -> None:
    answer = await api.post("/v1/refinements", json={**REQUEST, **fields})
    errors = problem(answer, 422, "invalid_request")["errors"]
    assert [it for it in errors if it["pointer"].startswith(pointer) and words in it["detail"]]


async def test_a_role_that_is_not_played_needs_no_one_to_stand_in(api: httpx.AsyncClient) -> None:
    await submitted(api, strategy={"kind": "critique"}, models={"generator": LOCAL})


def admission() -> Admission:
    """A server with a key for OpenAI and a server of its own, whose prices are unknown."""
    local = ModelServer(base_url="http://127.0.0.1:1/v1")
    settings = Settings(providers={"local": local})
    settings = settings.model_copy(update={"openai_api_key": SecretStr("k")})
    return Admission(ModelRoles(settings), ())


@pytest.mark.parametrize(
    ("request_", "pointer", "words"),
    [
        (
            {
                "task": "Write it.",
                "models": {"generator": WRITER | {"fallbacks": ["local:x"]}, "critic": WRITER},
            },
            "/models/generator/fallbacks/0",
            "price of local:x",
        ),
        (
            {"task": "Write it.", "models": {"generator": WRITER | {"fallbacks": [EDITOR]}}},
            "/models/generator/fallbacks/0",
            "cannot write",
        ),
        (
            {"draft": "So.", "criteria": LETTER, "models": {"critic": WRITER | EDITING}},
            "/models/critic/fallbacks/0",
            "measure none",
        ),
    ],
)
async def test_who_stands_in_must_be_able_to_do_the_work(
    request_: dict[str, Any], pointer: str, words: str
) -> None:
    capped = request_ | {"stop": {"max_cost_usd": 5}}
    with pytest.raises(InvalidRequest) as caught:
        await admission().admit(RefinementRequest.model_validate(capped))
    (error,) = [it for it in caught.value.errors if it.pointer == pointer]
    assert words in error.detail


async def test_the_editor_may_stand_in_where_a_draft_is_given() -> None:
    request = RefinementRequest.model_validate(
        {"draft": "So.", "models": {"generator": WRITER | EDITING, "critic": WRITER | EDITING}}
    )
    choices = (await admission().admit(request)).choices
    assert choices["generator"].names() == ("openai:gpt-5-mini", EDITOR)
