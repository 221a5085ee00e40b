"""Feedback that comes with a draft: the first revision follows it, in its passages alone."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.contract.judgement import Finding, Span
from app.contract.status import StopReason
from tests.engine.engine_driver import EngineDriver, driver_scoring, judged_by, request, verdict
from tests.engine.test_passages import DRAFT, HOSTILE, marks, passages
from workers.engine.moves import Judged, ReviewerReply, Stopped
from workers.engine.prompts import Revise, RevisePassages
from workers.engine.search import Outcome

LESS = {"feedback": "Say it in hours.", "draft": DRAFT}
CASH = {**LESS, "spans": [{"quote": "Cash takes 14 days"}]}


def play(model: EngineDriver, **fields: Any) -> Outcome:
    return model.play(request(**{"stop": {"tolerance": 0}, **fields}))


def judged(model: EngineDriver) -> list[str]:
    found = [it for it in model.moves if isinstance(it, Judged)]
    return [it.judgement.scored.draft.text for it in found]


def test_the_first_draft_that_is_judged_follows_the_feedback() -> None:
    model = driver_scoring(0.9, writer=["In hours."])
    outcome = play(model, **LESS)
    assert model.paths == ["iterations/1/revise", "iterations/1/critique", "iterations/1"]
    [asked] = model.asked("generator")
    assert isinstance(asked.prompt_request, Revise)
    assert asked.prompt_request.draft == DRAFT
    best = outcome.best
    assert (best.path, best.scored.draft.text, best.scored.draft.parent) == (
        "iterations/1",
        "In hours.\r\n",  # as the draft ends
        None,
    )
    assert best.scored.draft.asked == ("review: Say it in hours.",)
    assert outcome.reason is StopReason.THRESHOLD_MET


def test_later_revisions_are_told_the_feedback_first() -> None:
    model = driver_scoring(0.4, 0.9, writer=["In hours.", "In 336 hours."])
    outcome = play(model, **LESS)
    draft = outcome.best.scored.draft
    assert (draft.parent, draft.asked[0]) == ("iterations/1", "review: Say it in hours.")
    assert len(draft.asked) > 1


def test_every_revision_changes_nothing_but_the_passages() -> None:
    replies = [passages("Cash takes hours"), passages("Cash takes 336 hours"), passages("Cash")]
    model = driver_scoring(0.4, 0.5, 0.45, writer=replies)
    outcome = play(model, **CASH)
    texts = ["Cash takes hours", "Cash takes 336 hours", "Cash"]
    assert judged(model) == [DRAFT.replace("Cash takes 14 days", it) for it in texts]
    assert all(isinstance(it.prompt_request, RevisePassages) for it in model.asked("generator"))
    assert outcome.best.iteration == 2


def test_a_passage_that_was_deleted_can_be_written_again() -> None:
    model = driver_scoring(0.4, 0.9, writer=[passages(""), passages("Cash takes 336 hours")])
    outcome = play(model, **CASH)
    texts = ["", "Cash takes 336 hours"]
    assert judged(model) == [DRAFT.replace("Cash takes 14 days", it) for it in texts]
    assert "<passage p1 " in model.asked("generator")[1].prompt.user
    assert outcome.best.iteration == 2


def test_what_is_found_elsewhere_is_not_asked_for_in_the_passages() -> None:
    start = DRAFT.index("Cash")
    here, there = (
        Finding(source="critic", kind="quality", message=said, span=Span(start=at, end=at + 4))
        for said, at in (("Too vague.", start), ("Too short.", 0))
    )
    findings = [
        it.model_dump(mode="json", include={"kind", "message", "span"}) for it in (here, there)
    ]
    model = driver_scoring(writer=[passages("Cash takes hours"), passages("Cash takes 9")])
    model.critic = iter([verdict(0.4, findings=findings), verdict(0.9)])
    asked = play(model, **CASH).best.scored.draft.asked
    assert any("Too vague." in it for it in asked)
    assert not any("Too short." in it for it in asked)


def test_the_feedback_is_followed_although_less_scores_more_before() -> None:
    model = driver_scoring(0.1, writer=["In hours."])
    outcome = play(model, **LESS, max_iterations=1)
    assert (outcome.best.scored.draft.text, outcome.passed) == ("In hours.\r\n", False)


def test_without_a_revision_there_is_no_result() -> None:
    model = driver_scoring(writer=[Stopped()])
    with pytest.raises(Stopped):
        play(model, **LESS)


def test_a_way_out_of_a_standstill_keeps_to_the_passages() -> None:
    said = [passages("Cash takes hours")] * 3
    model = driver_scoring(0.4, 0.4, 0.4, 0.4, writer=said)
    play(model, **CASH, max_iterations=5, stop={"escape": True})
    assert set(judged(model)) == {DRAFT.replace("Cash takes 14 days", "Cash takes hours")}
    assert model.asked("generator")[-1].prompt.temperature == 1


def test_a_reviewer_may_mark_other_passages_and_replace_the_text() -> None:
    model = driver_scoring(0.4, 0.5, 0.6, 0.7, writer=[passages("Cash: hours"), passages("We pay")])
    model.reviewer = iter(
        [
            ReviewerReply("revise", feedback="Shorter.", spans=marks("We refund all")),
            ReviewerReply("replace", draft="Mine."),
            ReviewerReply("approve"),
        ]
    )
    outcome = play(model, **CASH, review={"when": "each_iteration"})
    text = DRAFT.replace("Cash takes 14 days", "Cash: hours")
    assert judged(model)[:2] == [text, text.replace("We refund all", "We pay")]
    assert outcome.best.scored.draft.text == "Mine."


@pytest.mark.parametrize("kind", ["iterative", "self_correction", "chain_of_verification"])
@given(data=st.data())
@settings(max_examples=15)
def test_what_is_around_the_passages_stays_in_every_draft(kind: str, data: st.DataObject) -> None:
    pieces = data.draw(st.lists(HOSTILE, min_size=3, max_size=3))
    texts = HOSTILE.filter(lambda it: "`" not in it)  # a fence around nothing is asked for again
    new = data.draw(st.lists(texts, min_size=3, max_size=3))
    before, marked, after = pieces
    span = {"start": len(before), "end": len(before) + len(marked)}
    model = judged_by(lambda path, name: 0.4, [passages(it) for it in new])
    model.check = lambda draft: (Finding(source="validators/0", kind="json", message=draft[:9]),)
    fields: dict[str, Any] = {"strategy": {"kind": kind}, "validators": [{"kind": "json"}]}
    outcome = play(model, draft=f"{before}{marked}{after}", feedback="x", spans=[span], **fields)
    assert judged(model)
    for text in (*judged(model), outcome.best.scored.draft.text):
        assert text.startswith(before)
        assert text.endswith(after)
        assert len(text) >= len(before) + len(after)
