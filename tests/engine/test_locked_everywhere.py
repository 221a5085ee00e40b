"""For every strategy that starts from a draft: what is locked in it is in what comes back."""

from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.drafts import lacking
from tests.engine.engine_driver import judged_by, request
from workers.engine.moves import StepError, Stopped

DRAFT = "1. We refund within 14 days.\n2. Cash is never refunded.\n\n3. Cards are."
LOCKED = ["within 14 days", "Cash is never refunded.\n\n3."]
STARTING: dict[str, dict[str, Any]] = {
    "iterative": {},
    "best_of_n": {"strategy": {"n": 2, "refine": True}},
    "multi_pass": {},
    "stepwise": {},
    "nested": {},
    "chain_of_verification": {},
    "reasoning_revision": {},
    "plan_execute": {},
    "self_correction": {"validators": [{"kind": "length", "max_words": 1}], "criteria": []},
}
"""Every strategy that revises a draft, and what it needs."""

GARBAGE = [
    "Cash is never refunded.\n\n3. It is within 14 days.",
    "",
    "1. Nothing.\n2. At all.",
    "1. We refund within 14 days, or 15.\n2. Cash is never refunded.\n\n3. So.",
    '{"edits": [{"search": "14", "replace": "15"}]}',
    '{"edits": [{"search": "Cards are", "replace": "Cards may be"}]}',
]


@pytest.mark.parametrize("edits", ["full", "delta"])
@pytest.mark.parametrize("kind", STARTING)
@given(
    scores=st.lists(st.integers(0, 1000), min_size=7, max_size=7),
    replies=st.lists(st.sampled_from(GARBAGE), min_size=5, max_size=5),
)
def test_locked_text_is_returned_whatever_the_models_say(
    kind: str, edits: str, scores: list[int], replies: list[str]
) -> None:
    given_scores = cycle(scores)
    fields = {"draft": DRAFT, "locked": LOCKED, "edits": edits, **STARTING[kind]}
    strategy = {"kind": kind, **fields.pop("strategy", {})}
    model = judged_by(lambda path, name: next(given_scores) / 1000, cycle(replies))
    try:
        outcome = model.play(request(strategy=strategy, max_iterations=4, **fields))
    except (Stopped, StepError):
        return
    assert lacking(outcome.best.scored.draft.text, LOCKED) == ()
