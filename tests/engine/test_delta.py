"""A reviser that answers with edits, and one that cannot."""

import json

import pytest

from app.contract.status import StopReason
from tests.engine.engine_driver import EngineDriver, driver_scoring, judged_by, request
from workers.engine.moves import StepError
from workers.engine.prompts import Amend, Revise

DRAFT = "We refund within 14 days. We never refund cash."
FULL = "We refund within two weeks, and never in cash."


def edits(*pairs: tuple[str, str]) -> str:
    return json.dumps({"edits": [{"search": old, "replace": new} for old, new in pairs]})


def amending(*replies: str | StepError, **fields: object) -> tuple[EngineDriver, str]:
    """Play one revision of the draft; return the driver_scoring and the text it came to."""
    model = driver_scoring(0.4, 0.6, writer=replies)
    asked = {"draft": DRAFT, "max_iterations": 1, "edits": "delta", **fields}
    outcome = model.play(request(**asked))
    return model, outcome.best.scored.draft.text


def test_edits_make_the_next_draft() -> None:
    model, text = amending(edits(("14 days", "two weeks")))
    assert text == "We refund within two weeks. We never refund cash."
    assert model.paths[2:4] == ["iterations/1/revise", "iterations/1/critique"]


def test_what_edits_left_untouched_is_told() -> None:
    model = driver_scoring(0.4, 0.6, writer=[edits(("14 days", "two weeks"))])
    draft = model.play(request(draft=DRAFT, max_iterations=1, edits="delta")).best.scored.draft
    assert draft.edits is not None
    assert (draft.edits.applied, draft.is_reply) == (1, False)
    assert draft.edits.untouched == pytest.approx(1 - 6 / len(DRAFT), abs=1e-6)


def test_an_edit_that_does_not_match_is_returned_with_which_one_and_why() -> None:
    model, text = amending(edits(("15 days", "two weeks")), edits(("14 days", "two weeks")))
    again = model.asked("generator")[1]
    assert again.path == "iterations/1/revise/again/1"
    assert '"15 days" does not occur in the draft' in again.prompt.user
    assert text == "We refund within two weeks. We never refund cash."


def test_edits_that_fail_twice_give_way_to_the_whole_text() -> None:
    model, text = amending(edits(("refund", "pay")), "no JSON", FULL)
    assert [it.path for it in model.asked("generator")] == [
        "iterations/1/revise",
        "iterations/1/revise/again/1",
        "iterations/1/revise/full",
    ]
    assert isinstance(model.asked("generator")[2].prompt_request, Revise)
    assert text == FULL


def test_a_model_that_is_away_is_not_asked_for_the_whole_text() -> None:
    with pytest.raises(StepError, match="model_unavailable"):
        amending(StepError("model_unavailable", "away"))


@pytest.mark.parametrize(
    ("length", "score", "prompt_request"),
    [(1_500, 0.5, Amend), (1_499, 0.5, Revise), (1_500, 0.49, Revise)],
)
def test_auto_edits_what_is_long_and_mostly_good(
    length: int, score: float, prompt_request: type
) -> None:
    model = driver_scoring(score, 0.9, writer=[edits(("only", "just")), FULL])
    draft = "The only word. ".ljust(length, "x")
    model.play(request(draft=draft, max_iterations=1, edits="auto"))
    assert isinstance(model.asked("generator")[0].prompt_request, prompt_request)


def test_locked_text_is_put_back_where_the_whole_text_lost_it() -> None:
    _, text = amending(FULL, edits="full", locked=["14 days"])
    assert "14 days" in text


def test_an_edit_of_locked_text_is_returned() -> None:
    model, text = amending(
        edits(("14 days", "2 weeks")), edits(("cash", "coins")), locked=["within 14 days"]
    )
    assert "touches locked text" in model.asked("generator")[1].prompt.user
    assert text == "We refund within 14 days. We never refund coins."


def test_a_new_text_without_what_is_locked_never_beats_the_draft_it_began_with() -> None:
    writer = ["- one\n- two", "A whole text.", "A polished text."]
    model = judged_by(lambda path, _: 0.3 if path.startswith("iterations/0") else 0.9, writer)
    staged = request(draft=DRAFT, locked=["14 days"], strategy={"kind": "stepwise"})
    outcome = model.play(staged)
    assert (outcome.best.scored.draft.text, outcome.passed) == (DRAFT, False)
    assert outcome.reason is not StopReason.THRESHOLD_MET
