"""For every strategy: what a reviewer approves, asks for and gives is what becomes of it."""

import re

import pytest

from app.contract.status import StopReason
from app.contract.strategies import STRATEGIES
from tests.engine.engine_driver import EngineDriver, drafts, judged_by, request
from tests.engine.test_every_strategy import asked_of
from workers.engine.moves import Draft, Judgement, Review, ReviewerReply
from workers.engine.search import Outcome

OURS = "We refund within 14 days."
APPROVE, REPLACE = ReviewerReply("approve"), ReviewerReply("replace", draft=OURS)
MORE = ReviewerReply("revise", feedback="Name the deadline.")
OUTERMOST = r"iterations/\d+/review|reviews/\d+"


def played(kind: str, when: str, *words: ReviewerReply) -> tuple[Outcome, list[Judgement]]:
    """Play the strategy with a reviewer; return the outcome and what was shown to them."""
    chains = (f"1. {text}\n2. So be it." for text in drafts())
    model = judged_by(lambda path, name: 0.5, chains)
    model.reviewer = iter(words)
    outcome = model.play(asked_of(kind, max_iterations=6, review={"when": when}))
    return outcome, shown(model)


def shown(model: EngineDriver) -> list[Judgement]:
    """Return every draft that was reviewed; none of them is a part's."""
    reviews = [move for move in model.moves if isinstance(move, Review)]
    assert all(re.fullmatch(OUTERMOST, it.path) for it in reviews)
    return [it.judgement for it in reviews]


@pytest.mark.parametrize("when", ["each_iteration", "before_completion"])
@pytest.mark.parametrize("kind", STRATEGIES)
def test_approved_the_draft_reviewed_is_the_outcome(kind: str, when: str) -> None:
    outcome, (reviewed,) = played(kind, when, APPROVE)
    assert (outcome.reason, outcome.best) == (StopReason.APPROVED, reviewed)


@pytest.mark.parametrize("when", ["each_iteration", "before_completion"])
@pytest.mark.parametrize("kind", STRATEGIES)
def test_the_draft_reviewed_is_revised_along_the_feedback_and_reviewed_again(
    kind: str, when: str
) -> None:
    outcome, (first, second) = played(kind, when, MORE, APPROVE)
    draft = second.scored.draft
    assert draft.parent is not None
    assert (draft.parent.strip("/"), draft.asked[0]) == (first.path, f"review: {MORE.feedback}")
    assert outcome.best == second


@pytest.mark.parametrize("when", ["each_iteration", "before_completion"])
@pytest.mark.parametrize("kind", STRATEGIES)
def test_a_text_of_the_reviewers_own_is_judged_and_reviewed_again(kind: str, when: str) -> None:
    outcome, (_, second) = played(kind, when, REPLACE, APPROVE)
    draft: Draft = second.scored.draft
    assert (draft.text, draft.is_reply) == (OURS, False)
    assert (outcome.reason, outcome.best) == (StopReason.APPROVED, second)


def judging(kind: str, when: str) -> set[str]:
    """Return the steps by which a text of the reviewer's own is judged."""
    model = judged_by(lambda path, name: 0.5, (f"1. {text}\n2. So be it." for text in drafts()))
    model.reviewer = iter([REPLACE, APPROVE])
    outcome = model.play(asked_of(kind, max_iterations=6, review={"when": when}))
    at = f"{outcome.best.path}/"
    steps = {path.removeprefix(at) for path in model.paths if path.startswith(at)}
    return steps - {"review"}


@pytest.mark.parametrize("kind", STRATEGIES)
def test_a_text_of_the_reviewers_own_is_judged_the_same_way_at_any_time(kind: str) -> None:
    assert judging(kind, "before_completion") == judging(kind, "each_iteration")


@pytest.mark.parametrize("when", ["each_iteration", "before_completion"])
def test_a_text_of_the_reviewers_own_is_verified_where_every_draft_is(when: str) -> None:
    model = judged_by(lambda path, name: 0.9, drafts(), lambda: True)
    model.reviewer = iter([REPLACE, APPROVE])
    strategy = {"kind": "chain_of_verification"}
    outcome = model.play(request(strategy=strategy, review={"when": when}))
    assert f"{outcome.best.path}/verify/questions" in model.paths
    assert (outcome.best.scored.draft.text, outcome.passed) == (OURS, False)


@pytest.mark.parametrize("when", ["each_iteration", "before_completion"])
@pytest.mark.parametrize("kind", STRATEGIES)
def test_a_rating_is_the_score_and_nothing_ranks_by_the_old_one(kind: str, when: str) -> None:
    outcome, (reviewed,) = played(kind, when, ReviewerReply("approve", score=0.97))
    rated = outcome.best.scored
    assert (rated.score, rated.score_from) == (0.97, "review")
    assert rated.draft == reviewed.scored.draft
