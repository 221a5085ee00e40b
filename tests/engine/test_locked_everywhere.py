"""For every strategy that starts from a draft: what is locked in it is in what comes back."""

from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.contract.drafts import lacking
from app.contract.requests import RefinementRequest
from app.contract.strategies import STRATEGIES
from tests.engine.engine_driver import judged_by, request
from workers.engine.moves import StepError, Stopped

DRAFT = "1. We refund within 14 days.\n2. Cash is never refunded.\n\n3. Cards are."
LOCKED = ["within 14 days", "Cash is never refunded.\n\n3."]
NEEDED: dict[str, dict[str, Any]] = {
    "best_of_n": {"strategy": {"n": 2, "refine": True}},
    "self_correction": {"validators": [{"kind": "length", "max_words": 1}], "criteria": []},
}
"""What strategies need besides the draft."""


def revising(kind: str, edits: str = "full") -> RefinementRequest:
    """Return a request to revise the draft. Raises `ValidationError` when the kind takes none."""
    fields = {"draft": DRAFT, "locked": LOCKED, "edits": edits, **NEEDED.get(kind, {})}
    strategy = {"kind": kind, **fields.pop("strategy", {})}
    return request(strategy=strategy, max_iterations=4, **fields)


def revises(kind: str) -> bool:
    try:
        return "generator" in revising(kind).strategy.roles()
    except ValidationError:
        return False


REVISING = [kind for kind in STRATEGIES if revises(kind)]

GARBAGE = [
    "Cash is never refunded.\n\n3. It is within 14 days.",
    "",
    "1. Nothing.\n2. At all.",
    "1. We refund within 14 days, or 15.\n2. Cash is never refunded.\n\n3. So.",
    '{"edits": [{"search": "14", "replace": "15"}]}',
    '{"edits": [{"search": "Cards are", "replace": "Cards may be"}]}',
]


@pytest.mark.parametrize("edits", ["full", "delta"])
@pytest.mark.parametrize("kind", REVISING)
@given(
    scores=st.lists(st.integers(0, 1000), min_size=7, max_size=7),
    replies=st.lists(st.sampled_from(GARBAGE), min_size=5, max_size=5),
)
def test_locked_text_is_returned_whatever_the_models_say(
    kind: str, edits: str, scores: list[int], replies: list[str]
) -> None:
    given_scores = cycle(scores)
    model = judged_by(lambda path, name: next(given_scores) / 1000, cycle(replies))
    try:
        outcome = model.play(revising(kind, edits))
    except (Stopped, StepError):
        return
    assert lacking(outcome.best.scored.draft.text, LOCKED) == ()


def test_every_strategy_that_can_start_from_a_draft_is_among_them() -> None:
    assert len(REVISING) >= 9
