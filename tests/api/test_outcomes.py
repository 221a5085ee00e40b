"""The outcome of a refinement, and its reason in one sentence."""

from typing import Any

import pytest

from app.contract.judgement import CriterionScore, Finding, OnFail
from app.contract.status import Caveat, OutcomeReason, Shortfall, StopReason


def scored(name: str, score: float | None) -> CriterionScore:
    return CriterionScore(criterion=name, score=score)


VETO = Finding(
    source="validators/0",
    kind="length",
    message="the draft is too long.",
    on_fail=OnFail.VETO,
)
NO_TEXT = Caveat(code="text_missing", path="parts/a", detail="no text was written for it")
UNMET = Caveat(code="goal_not_met", path="x", detail="No quotation proves\nthe goal.")

LACKS: list[tuple[Shortfall, str]] = [
    (Shortfall(0.7, (scored("style", 0.7),)), "style is 0.70; the threshold is 0.85"),
    (
        Shortfall(0.7, (scored("style", 0.6), scored("facts", 0.8), scored("wit", None))),
        "the score is 0.70 (lowest: style 0.60); the threshold is 0.85",
    ),
    (
        Shortfall(0.5, (scored("a", 1.0),), is_mean=False),
        "the score is 0.50; the threshold is 0.85",
    ),
    (Shortfall(0.8499), "the score is 0.849; the threshold is 0.85"),
    (Shortfall(None), "the score could not be measured; the threshold is 0.85"),
    (Shortfall(0.9, findings=(VETO,)), "length: the draft is too long"),
    (
        Shortfall(0.9, (scored("style", 0.6),), floors={"style": 0.8}),
        "style is 0.60; its floor is 0.80",
    ),
    (
        Shortfall(0.3, findings=(VETO,), caveats=(NO_TEXT, UNMET)),
        "there is no text for parts/a; length: the draft is too long (and 2 more)",
    ),
    (Shortfall(0.9, caveats=(UNMET,)), "No quotation proves the goal"),
    (Shortfall(0.9), ""),
]


@pytest.mark.parametrize(("found", "text"), LACKS)
def test_what_a_draft_lacks_is_named_in_words(found: Shortfall, text: str) -> None:
    assert found.text(0.85) == text


def test_a_caveat_that_the_request_accepts_is_no_lack() -> None:
    assert Shortfall(0.9, caveats=(UNMET,)).text(0.85, frozenset({"goal_not_met"})) == ""


def reason(outcome: str, stop_reason: str | None, **more: Any) -> str:
    known: dict[str, Any] = {
        "threshold": 0.85,
        "max_iterations": 3,
        "score": 0.7,
        "path": "iterations/1",
    }
    return OutcomeReason(outcome=outcome, stop_reason=stop_reason, **(known | more)).text


LOW = "The score is 0.70; the threshold is 0.85"


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (reason("passed", "threshold_met", score=0.9), "The score is 0.90; the threshold is 0.85."),
        (
            reason("best_effort", "plateau", drafts_since_highest=3),
            f"{LOW}; no revision improved it for 3 drafts.",
        ),
        (
            reason("best_effort", "max_iterations", lacks="wit is 0.10"),
            "Wit is 0.10; the limit of 3 iterations was reached.",
        ),
        (reason("best_effort", "incomplete", lacks="no proof"), "No proof."),
        (reason("best_effort", "rejected"), "A reviewer rejected it."),
        (reason("best_effort", "rejected", is_overdue=True), "No reviewer decided in time."),
        (reason("best_effort", "out_of_ideas"), f"{LOW}; out of ideas."),
        (reason("failed", "error", error="it is away"), "It is away."),
        (
            reason("failed", "rejected", path=None),
            "A reviewer rejected it before a draft was judged.",
        ),
        (
            reason("canceled", "canceled"),
            "It was canceled; the best draft by then scored 0.70; the threshold is 0.85.",
        ),
        (
            reason("canceled", "canceled", path=None),
            "It was canceled before a draft was judged.",
        ),
    ],
)
def test_each_outcome_has_a_reason_in_one_sentence(said: str, text: str) -> None:
    assert said == text


@pytest.mark.parametrize("stopped", StopReason)
def test_no_reason_is_a_code(stopped: StopReason) -> None:
    assert "_" not in reason("best_effort", stopped)
