"""Further texts, written from the final draft."""

from typing import Any

import pytest

from tests.engine.engine_driver import EngineDriver, driver_scoring, request
from workers.engine.moves import StepError, Stopped
from workers.engine.prompts import Derive
from workers.engine.search import Outcome

ORDERED = [
    {"name": "subject", "instructions": "A subject line for this e-mail."},
    {"name": "summary", "instructions": "One sentence."},
]
DOWN = StepError("model_unavailable", "down")


def written(*texts: Any, scores: tuple[float, ...] = (0.9,)) -> tuple[EngineDriver, Outcome]:
    """Play an iteration for each score, and then have these texts written."""
    drafts = [f"Draft {number}." for number in range(1, len(scores) + 1)]
    model = driver_scoring(*scores, writer=[*drafts, *texts])
    return model, model.play(
        request(outputs=ORDERED, max_iterations=len(scores), stop={"tolerance": 0})
    )


def test_every_text_is_written_from_the_final_draft_as_ordered() -> None:
    model, outcome = written("Your refund", "We refund.", scores=(0.6, 0.4))
    assert outcome.outputs == {"subject": "Your refund", "summary": "We refund."}
    asked = [it for it in model.asked("generator") if isinstance(it.prompt_request, Derive)]
    assert [it.path for it in asked] == ["outputs/subject", "outputs/summary"]
    assert all("Draft 1." in it.prompt.user for it in asked)
    assert "A subject line for this e-mail." in asked[0].prompt.user
    assert "0.6" not in asked[0].prompt.user


@pytest.mark.parametrize("refusal", [Stopped(), DOWN])
def test_one_that_could_not_be_made_is_missing_and_the_others_stand(refusal: Any) -> None:
    _, outcome = written(refusal, "We refund.")
    assert (outcome.outputs, outcome.missing) == ({"summary": "We refund."}, ("outputs/subject",))
    assert outcome.passed


@pytest.mark.parametrize("refusal", [Stopped(), DOWN])
def test_without_any_of_them_the_draft_is_what_it_was(refusal: Any) -> None:
    _, outcome = written(refusal, refusal)
    assert (outcome.outputs, outcome.missing) == ({}, ("outputs/subject", "outputs/summary"))
    assert (outcome.best.scored.draft.text, outcome.reason) == ("Draft 1.", "threshold_met")


def test_an_empty_text_is_asked_for_again() -> None:
    model, outcome = written("  ", "Your refund", "We refund.")
    assert outcome.outputs["subject"] == "Your refund"
    assert "outputs/subject/again/1" in model.paths


def test_names_are_told_apart() -> None:
    with pytest.raises(ValueError, match="two outputs have the same name"):
        request(outputs=[ORDERED[0], ORDERED[0]])
