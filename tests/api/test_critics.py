"""Which critics a request may name, and whose models are checked and told."""

from typing import Any

import pytest
from pydantic import SecretStr

from app.contract.errors import InvalidRequest
from app.contract.requests import RefinementRequest
from app.service.admission import Admission, ModelRoles, called_seats
from app.settings import Settings

SETTINGS = Settings().model_copy(update={"openai_api_key": SecretStr("k")})
DRAFT = {"task": "Say it plainly.", "draft": "We refund."}


def asked(**fields: Any) -> RefinementRequest:
    return RefinementRequest.model_validate({**DRAFT, **fields})


async def refusals(**fields: Any) -> dict[str, str]:
    """Return by pointer why a request is refused; nothing when it is admitted."""
    try:
        await Admission(ModelRoles(SETTINGS), ()).admit(asked(**fields))
    except InvalidRequest as refused:
        return {it.pointer: it.detail for it in refused.errors}
    return {}


def panel(*models: Any, **part: Any) -> dict[str, Any]:
    members = ({"name": f"critic-{n}", "model": it, **part} for n, it in enumerate(models))
    return {"panel": list(members)}


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"critics": panel("openai:x", "offline:editor")}, "/critics/panel/1/model"),
        ({"critics": panel({"model": "offline:editor"})}, "/critics/panel/0/model/model"),
        (
            {"models": {"critic": {"model": "openai:x", "fallbacks": ["offline:editor"]}}},
            "/models/critic/model",
        ),
    ],
)
async def test_the_editor_judges_on_no_checklist_but_its_own(
    fields: dict[str, Any], pointer: str
) -> None:
    fields = {"models": {"critic": "openai:x"}, **fields}
    assert not await refusals(**fields)
    refused = await refusals(criteria="auto", **fields)
    assert refused.keys() == {pointer}
    assert "checklist" in refused[pointer]


async def test_a_checklist_is_made_by_the_critic_that_judges_on_it() -> None:
    editor, model = "offline:editor", "openai:x"
    assert not await refusals(criteria="auto")
    assert not await refusals(criteria="auto", critics=panel(None, editor))
    assert not await refusals(criteria="auto", models={"critic": model}, critics=panel(model))


async def test_a_cap_on_cost_needs_the_price_of_every_critic() -> None:
    refused = await refusals(critics=panel(None, "openai:x"), stop={"max_cost_usd": 1})
    assert "openai:x" in refused["/stop/max_cost_usd"]


async def test_a_budget_pays_for_every_sample_of_every_critic() -> None:
    models = {"critic": {"model": "openai:x", "max_output_tokens": 1_000}}
    least = []
    for critics in ({}, {"samples": 4}, panel("openai:x", None) | {"samples": 4}):
        why = await refusals(models=models, critics=critics, stop={"max_tokens": 1})
        least.append(int(why["/stop/max_tokens"].split(" tokens")[0].rpartition(" ")[2]))
    one, four, eight = least
    assert four == 4 * one
    assert eight == 8 * one


@pytest.mark.parametrize(
    ("fields", "called"),
    [
        ({}, ("generator", "critic")),
        ({"critics": panel(None)}, ("generator", "critic/critic-0")),
        ({"critics": panel(None), "criteria": "auto"}, ("generator", "critic/critic-0", "critic")),
        ({"strategy": {"kind": "critique"}, "critics": panel(None)}, ("critic/critic-0",)),
        (
            {"strategy": {"kind": "chain_of_verification"}, "critics": panel(None)},
            ("generator", "critic", "critic/critic-0"),
        ),
    ],
)
def test_only_models_that_can_be_called_play(
    fields: dict[str, Any], called: tuple[str, ...]
) -> None:
    assert called_seats(asked(**fields)) == called


async def test_a_critic_without_a_model_has_the_roles_own() -> None:
    admitted = await Admission(ModelRoles(SETTINGS), ()).admit(
        asked(models={"critic": {"model": "openai:x", "temperature": 1}}, critics=panel(None))
    )
    assert admitted.choices["critic/critic-0"] == admitted.choices["critic"]
