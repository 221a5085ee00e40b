"""For every strategy and any scores: what comes back, and what the critic is told."""

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.drafts import sha256_of
from app.contract.judgement import OnFail
from tests.engine.drawn_lists import lists_of
from tests.engine.engine_driver import Refusal, drafts, judged_by, request
from workers.engine.moves import Judged, StepError, Stopped
from workers.engine.strategies import STRATEGIES

PARTS = [
    {"name": "one", "instructions": "The first."},
    {"name": "two", "instructions": "The rest."},
]
REQUESTS: dict[str, dict[str, Any]] = {
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
LONG_ENOUGH = 60
THRESHOLD = 0.8642
CAP = 6
PANEL = {"samples": 3, "panel": [{"name": "reader"}, {"name": "lawyer", "adversarial": True}]}
JUDGED_BY_A_CRITIC = [kind for kind in REQUESTS if kind in STRATEGIES] + ["iterative"]


WITHOUT_CRITICS = {"self_consistency"}
"""Those whose answers are counted: a panel is refused."""

CASES = [
    pytest.param(kind, critics, id=f"{kind}-{'panel' if critics else 'critic'}")
    for kind in JUDGED_BY_A_CRITIC
    for critics in ({}, PANEL)
    if not (critics and kind in WITHOUT_CRITICS)
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

    fields = {"critics": critics, **REQUESTS.get(kind, {})}
    strategy = {"kind": kind, **fields.pop("strategy", {})}
    model = judged_by(score, writer(), lambda: next(given_faults))
    try:
        outcome = model.play(
            request(strategy=strategy, threshold=THRESHOLD, max_iterations=CAP, **fields)
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
