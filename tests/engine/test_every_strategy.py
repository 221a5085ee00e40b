"""For every strategy and any scores: what comes back, and what the critic is told."""

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.drafts import sha256_of
from app.contract.judgement import OnFail
from app.contract.requests import RefinementRequest
from app.contract.strategies import STRATEGIES
from app.service.admission import called_seats
from benchmarks.examples import on_page
from tests.engine.drawn_lists import lists_of
from tests.engine.engine_driver import Refusal, drafts, judged_by, request
from workers.engine.moves import Ask, Judged, StepError, Stopped
from workers.engine.prompts import Judge

PARTS = [
    {"name": "one", "instructions": "The first."},
    {"name": "two", "instructions": "The rest."},
]
REQUESTS: dict[str, dict[str, Any]] = {
    "iterative": {},
    "self_correction": {"validators": [{"kind": "json"}]},
    "critique": {"draft": "We refund."},
    "best_of_n": {"strategy": {"refine": True}},
    "multi_pass": {"draft": "We refund."},
    "stepwise": {},
    "nested": {"strategy": {"parts": PARTS}},
    "chain_of_verification": {},
    "self_consistency": {"strategy": {"vote": "judge"}},
    "reasoning_revision": {},
    "plan_execute": {},
}
"""What a strategy is asked; for one that is not here, what its page asks."""


def asked_of(kind: str, **fields: Any) -> RefinementRequest:
    """Return a request for a strategy, with other fields than usual."""
    given = {**(REQUESTS[kind] if kind in REQUESTS else on_page(kind)), **fields}
    return request(**{**given, "strategy": {**given.get("strategy", {}), "kind": kind}})


JUDGED_BY_A_CRITIC = [kind for kind in STRATEGIES if "critic" in asked_of(kind).strategy.roles()]
LONG_ENOUGH = 60
THRESHOLD = 0.8642
CAP = 6
PANEL = {"samples": 3, "panel": [{"name": "reader"}, {"name": "lawyer", "adversarial": True}]}

CASES = [
    pytest.param(
        kind,
        critics,
        id=f"{kind}-{'panel' if critics else 'critic'}",
        marks=pytest.mark.long if critics and kind != "iterative" else (),
    )
    for kind in JUDGED_BY_A_CRITIC
    for critics in ({}, PANEL)
    if STRATEGIES[kind].judges_criteria or not critics
]


@pytest.mark.parametrize(("kind", "critics"), CASES)
@given(
    scores=lists_of(range(998), LONG_ENOUGH),
    faults=lists_of((False, True), LONG_ENOUGH),
    stops_after=st.integers(1, 60),
)
def test_the_text_returned_is_a_text_judged_and_the_critic_is_blind(
    kind: str, critics: dict[str, Any], scores: list[int], faults: list[bool], stops_after: int
) -> None:
    given_scores, given_faults = cycle(scores), cycle(faults)
    told: list[str] = []

    def score(path: str, name: str) -> float:
        value = next(given_scores) / 1000 + 0.00037
        told.append(f"{value:.5f}"[:6])
        return value

    def writer() -> Iterator[str | Refusal]:
        for number, text in enumerate(drafts(), 1):
            yield f"1. {text}\n2. So be it." if number <= stops_after else Stopped()

    model = judged_by(score, writer(), lambda: next(given_faults))
    try:
        outcome = model.play(
            asked_of(kind, threshold=THRESHOLD, max_iterations=CAP, critics=critics)
        )
    except (Stopped, StepError):
        outcome = None
    assert len(set(model.paths)) == len(model.paths)
    judgements = [it.judgement for it in model.moves if isinstance(it, Judged)]
    secrets = {str(THRESHOLD), "iteration", *told, *(str(it.scored.score) for it in judgements)}
    for question in model.asked("critic"):
        text = question.prompt.system + question.prompt.user
        assert not any(value in text for value in secrets)
    for it in judgements:
        assert it.iteration <= CAP
        vetoed = any(found.on_fail is OnFail.VETO for found in it.scored.findings)
        assert it.scored.valid is not vetoed
    if outcome is not None:
        assert outcome.best.scored in [it.scored for it in judgements]
        assert outcome.best.scored.draft.sha256 == sha256_of(outcome.best.scored.draft.text)
        assert outcome.passed <= outcome.best.scored.passes(0.0)


@pytest.mark.parametrize("kind", STRATEGIES)
def test_a_strategy_asks_the_roles_that_it_declares_and_judges_if_it_says_so(kind: str) -> None:
    asked = asked_of(kind, max_iterations=CAP)
    model = judged_by(lambda path, name: 0.5, (f"1. {text}\n2. So be it." for text in drafts()))
    model.play(asked)
    asks = [it for it in model.moves if isinstance(it, Ask)]
    assert {it.role for it in asks} == set(asked.strategy.roles())
    assert {it.seat for it in asks} <= set(called_seats(asked))
    judges = any(isinstance(it.prompt_request, Judge) for it in asks)
    assert judges is asked.strategy.judges_criteria


@pytest.mark.parametrize("kind", [kind for kind, it in STRATEGIES.items() if it.judges_criteria])
def test_beside_a_panel_the_critic_plays_if_the_strategy_asks_it_more(kind: str) -> None:
    asked = asked_of(kind, max_iterations=CAP, critics=PANEL)
    model = judged_by(lambda path, name: 0.5, (f"1. {text}\n2. So be it." for text in drafts()))
    model.play(asked)
    seats = {it.seat for it in model.moves if isinstance(it, Ask)}
    assert seats == set(called_seats(asked))
    assert ("critic" in seats) is asked.strategy.asks_critic
