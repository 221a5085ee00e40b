"""Every strategy goes on from the result of every other one, unless it takes no draft."""

from typing import Any

import pytest

from app.contract.drafts import MAX_TEXT, sha256_of
from app.contract.errors import InvalidRequest
from app.contract.overlays import PartialRequest
from app.contract.requests import RefinementRequest
from app.contract.strategies import STRATEGIES
from app.service.service import continuation_of
from tests.engine.engine_driver import drafts, judged_by
from tests.engine.test_every_strategy import asked_of
from workers.engine.moves import Judged
from workers.engine.pipeline import strategy_for

RESULT = "1. We refund within 14 days.\n2. So nobody waits longer."
TAKES_NO_DRAFT = {"self_consistency"}
NEEDED: dict[str, dict[str, Any]] = {
    "self_correction": {"validators": [{"kind": "json"}], "criteria": []},
    "best_of_n": {"strategy": {"refine": True}},
    "plan_execute": {"tools": []},
}
"""What a continuation must say beside the strategy."""


def going_on_as(kind: str) -> PartialRequest:
    wishes = NEEDED.get(kind, {})
    strategy = {**wishes.get("strategy", {}), "kind": kind}
    return PartialRequest.model_validate({"max_iterations": 4, **wishes, "strategy": strategy})


@pytest.mark.parametrize("to", STRATEGIES)
@pytest.mark.parametrize("of", STRATEGIES)
def test_every_strategy_goes_on_from_the_result_of_every_other_one(of: str, to: str) -> None:
    parent = asked_of(of)
    if to in TAKES_NO_DRAFT:
        with pytest.raises(InvalidRequest) as refused:
            continuation_of(parent, RESULT, going_on_as(to)).request()
        assert refused.value.errors[0].pointer == "/draft"
        return
    request = continuation_of(parent, RESULT, going_on_as(to)).request()
    model = judged_by(lambda path, name: 0.5, (f"1. {it}" for it in drafts()))
    outcome = model.run(strategy_for(request, "482913"), request.limits())
    judged = [it for it in model.moves if isinstance(it, Judged)]
    assert judged[0].judgement.scored.draft.sha256 == sha256_of(RESULT)
    assert (judged[0].path, judged[0].judgement.iteration) == ("iterations/0", 0)
    assert outcome.best.scored.draft.text


@pytest.mark.parametrize("of", STRATEGIES)
def test_without_a_strategy_it_goes_on_as_it_was_or_as_the_default(of: str) -> None:
    request = continuation_of(asked_of(of), RESULT, PartialRequest()).request()
    gives_way = of in TAKES_NO_DRAFT or (of == "nested" and asked_of(of).draft is None)
    assert request.strategy.kind == ("iterative" if gives_way else of)
    model = judged_by(lambda path, name: 0.5, (f"1. {it}" for it in drafts()))
    assert model.run(strategy_for(request, "482913"), request.limits()).best.scored.draft.text


def test_a_long_draft_stays_with_the_strategy_that_takes_it() -> None:
    long = "A word. " * (MAX_TEXT // 8 + 1)
    parent = RefinementRequest.model_validate({"draft": long, "strategy": {"kind": "nested"}})
    assert continuation_of(parent, long, PartialRequest()).request().strategy.kind == "nested"
    with pytest.raises(InvalidRequest) as refused:
        continuation_of(parent, long, PartialRequest(feedback="Shorter.")).request()
    assert [(it.pointer, it.detail) for it in refused.value.errors] == [
        ("/feedback", f"`feedback` needs a draft of at most {MAX_TEXT} characters: omit it")
    ]
