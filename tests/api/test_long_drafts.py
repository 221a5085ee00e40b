"""A draft that no reply can hold, or no prompt: refused before any call, or revised otherwise."""

from pydoc_data.topics import topics
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from app.contract.budget import first_judgement
from app.contract.drafts import MAX_TEXT
from app.contract.errors import InvalidRequest
from app.contract.limits import Stop
from app.contract.requests import RefinementRequest
from app.contract.sections import parts_of
from app.contract.strategies import STRATEGIES
from app.service.admission import Admission, ModelRoles
from app.service.estimates import estimated
from app.settings import ModelServer, Settings

LONG = "All about refunds. " * (MAX_TEXT // 19)
SMALL = "openai:gpt-4.1-nano"
LARGE = "openai:gpt-5-mini"


def admission(**fields: Any) -> Admission:
    local = ModelServer(base_url="http://127.0.0.1:1/v1")
    settings = Settings(providers={"local": local}, **fields)
    settings = settings.model_copy(update={"openai_api_key": SecretStr("k")})
    return Admission(ModelRoles(settings), ())


def request(generator: Any, **fields: Any) -> RefinementRequest:
    models = {"generator": generator, "critic": LARGE}
    return RefinementRequest.model_validate({"draft": LONG, "models": models, **fields})


async def details(asked: RefinementRequest, **settings: Any) -> list[str]:
    try:
        await admission(**settings).admit(asked)
    except InvalidRequest as error:
        return [it.detail for it in error.errors if it.pointer == "/edits"]
    return []


async def test_a_draft_as_long_as_allowed_is_rewritten_by_a_model_that_can() -> None:
    assert await details(request(LARGE)) == []


async def test_a_draft_that_a_model_cannot_rewrite_is_refused_with_what_to_do() -> None:
    (detail,) = await details(request(SMALL))
    assert "about 49998 output tokens" in detail
    assert f"{SMALL} has room for 32768" in detail
    for way_out in ("`edits` to `delta`", "nested", "models.generator"):
        assert way_out in detail


async def test_a_limit_of_ones_own_that_is_too_small_is_named() -> None:
    (detail,) = await details(request({"model": LARGE, "max_output_tokens": 4_096}))
    assert "omit `max_output_tokens`" in detail


async def test_the_setting_for_unknown_models_is_named_and_heeded() -> None:
    (detail,) = await details(request("local:llama"))
    assert "HONE_MAX_OUTPUT_TOKENS" in detail
    assert await details(request("local:llama"), max_output_tokens=60_000) == []


async def test_a_fallback_must_be_able_to_rewrite_it_too() -> None:
    (detail,) = await details(request({"model": LARGE, "fallbacks": [SMALL]}))
    assert SMALL in detail


@pytest.mark.parametrize(
    "fields",
    [{"edits": "delta"}, {"edits": "auto"}, {"strategy": {"kind": "critique"}}],
    ids=["edits", "edits of its own choice", "no revision"],
)
async def test_what_rewrites_no_whole_draft_is_admitted(fields: dict[str, Any]) -> None:
    assert await details(request(SMALL, **fields)) == []


async def test_a_generator_that_always_replies_alike_is_not_asked_in_another_way() -> None:
    for model, escapes in (("offline:editor", False), (LARGE, True)):
        asked = request(model, draft="All about refunds.")
        admitted = admission()
        found = await admitted.admit(asked)
        assert found.request.limits().escape is escapes


async def test_edits_of_its_own_choice_become_edits_where_nothing_else_works() -> None:
    for model, edits in ((SMALL, "delta"), (LARGE, "auto")):
        asked = request(model, edits="auto")
        admitted = admission()
        found = await admitted.admit(asked)
        assert found.request.edits == edits


async def test_the_context_counts_against_the_context_window() -> None:
    draft = LONG[:60_000]
    assert await details(request("openai:gpt-4o", draft=draft)) == []
    context = [{"name": "manual", "text": "Refunds take a week. " * 19_000}]
    (detail,) = await details(request("openai:gpt-4o", context=context, draft=draft))
    assert "openai:gpt-4o has room for 13" in detail


HELP = "\n\n".join(topics.values())
NESTED = {"kind": "nested"}


def pointers(**fields: Any) -> set[str]:
    """Where a request for a draft that is too long for one prompt is refused."""
    try:
        RefinementRequest.model_validate({"draft": HELP, "strategy": NESTED, **fields})
    except ValidationError as error:
        found = [each.get("ctx", {}).get("error") for each in error.errors()]
        return {getattr(each, "pointer", "") for each in found}
    return set()


def test_only_nested_takes_a_draft_that_is_too_long_for_one_prompt() -> None:
    assert len(HELP) > 2 * MAX_TEXT
    assert pointers() == set()
    for kind in STRATEGIES.keys() - {"nested"}:
        with pytest.raises(ValidationError, match=r"use the strategy nested.*5000000"):
            RefinementRequest.model_validate({"draft": HELP, "strategy": {"kind": kind}})
    with pytest.raises(ValidationError, match="at most 5000000"):
        RefinementRequest.model_validate({"draft": "x" * 5_000_001, "strategy": NESTED})


@pytest.mark.parametrize(
    ("pointer", "fields"),
    [
        ("/compare", {"compare": True}),
        ("/outputs", {"outputs": [{"name": "subject", "instructions": "A subject."}]}),
        ("/review", {"review": {"when": "before_completion"}}),
        ("/strategy/order", {"strategy": {**NESTED, "order": "sequence"}}),
        ("/criteria", {"criteria": "auto"}),
        ("/locked", {"locked": [HELP[:19_000], HELP[10_000:29_000]]}),
        ("/feedback", {"feedback": "Shorter."}),
    ],
)
def test_what_needs_the_whole_of_a_long_draft_in_one_prompt_is_refused(
    pointer: str, fields: dict[str, Any]
) -> None:
    assert pointers(**fields) == {pointer}


def test_what_concerns_its_parts_is_not() -> None:
    review = {**NESTED, "review": {"when": "before_completion"}}
    assert pointers(strategy=review, locked=[HELP[500:700]]) == set()
    assert pointers(task="Clear help.", criteria="auto", edits="delta") == set()


async def test_the_longest_part_must_fit_a_reply_unless_it_is_edited() -> None:
    capped = {"model": LARGE, "max_output_tokens": 4_096}
    (detail,) = await details(request(capped, draft=HELP, strategy=NESTED))
    assert "a part of it) takes about 50" in detail
    assert await details(request(LARGE, draft=HELP, strategy=NESTED)) == []
    for edits in ("auto", "delta"):
        admitted = await admission().admit(
            request(capped, draft=HELP, strategy=NESTED, edits=edits)
        )
        assert admitted.request.edits == edits


async def test_budget_and_estimate_count_the_parts_and_not_the_whole_for_each() -> None:
    asked = request(LARGE, draft=HELP, strategy=NESTED)
    admitted = await admission().admit(asked)
    parts, whole = len(parts_of(HELP).texts), len(HELP) // 4
    found = estimated(admitted.request, admitted.choices)
    assert found.expected.calls > 3 * parts
    assert found.expected.input_tokens < 20 * whole
    least = sum(call.tokens for call in first_judgement(asked, admitted.choices))
    assert whole < least < 3 * whole
    with pytest.raises(InvalidRequest, match="max_tokens must be at least"):
        await admission().admit(asked.model_copy(update={"stop": Stop(max_tokens=whole)}))
