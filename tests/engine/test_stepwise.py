"""Stages in their order, each verified before the next."""

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from app.contract.requests import RefinementRequest
from app.contract.status import StopReason
from tests.engine.engine_driver import EngineDriver, judged_by, request
from workers.engine.moves import Judged, StepError, Stopped

OUTLINE: dict[str, object] = {"name": "outline", "criteria": [{"name": "complete"}]}
DRAFT: dict[str, object] = {"name": "draft", "max_iterations": 1}
POLISH: dict[str, object] = {"name": "polish", "mode": "revise", "max_iterations": 1}
GONE = StepError("model_unavailable", "gone")


def stages(*given: dict[str, object], **fields: object) -> RefinementRequest:
    strategy = {"kind": "stepwise", "stages": list(given) or [OUTLINE, DRAFT, POLISH]}
    return request(**{"strategy": strategy, "threshold": 0.8, **fields})


def judged(model: EngineDriver) -> list[str]:
    return [move.path for move in model.moves if isinstance(move, Judged)]


def good(path: str, _: str) -> float:
    return 0.9


def below_par(stage: str) -> EngineDriver:
    """Everything passes but one stage."""
    return judged_by(
        lambda path, _: 0.5 if path.startswith(f"stages/{stage}") else 0.9,
        ["- one\n- two", "the text", "the polished text"],
    )


def test_every_stage_is_verified_and_the_last_is_judged_as_a_whole() -> None:
    model = judged_by(good, ["- one\n- two", "the text"])
    outcome = model.play(stages())
    assert judged(model) == [
        "stages/outline/iterations/1",
        "stages/draft/iterations/1",
        "stages/polish/iterations/0",
        "iterations/1",
    ]
    assert (outcome.best.path, outcome.best.scored.draft.text) == ("iterations/1", "the text")
    assert (outcome.reason, outcome.passed) == (StopReason.THRESHOLD_MET, True)


def test_a_stage_is_given_what_the_one_before_came_to() -> None:
    model = judged_by(good, ["- one\n- two", "the text"])
    model.play(stages())
    outline, draft = model.asked("generator")
    assert "Stage draft" not in outline.prompt.user
    assert "- one\n- two" in draft.prompt.user


def test_each_stage_is_verified_on_its_own_criteria() -> None:
    model = judged_by(good, ["- one\n- two", "the text"])
    model.play(stages())
    names = [
        [it.name for it in asked.prompt_request.task.criteria] for asked in model.asked("critic")
    ]
    assert names == [["complete"], ["quality"], ["quality"], ["quality"]]


def test_a_stage_that_cannot_pass_is_given_up_for_the_last_verified_one() -> None:
    model = below_par("polish")
    outcome = model.play(stages(threshold=0.95, strategy=verified_at(0.8)))
    assert outcome.best.scored.draft.text == "the text"
    assert (outcome.reason, outcome.passed) == (StopReason.MAX_ITERATIONS, False)


def verified_at(threshold: float) -> dict[str, object]:
    given = [{**stage, "threshold": threshold} for stage in (OUTLINE, DRAFT, POLISH)]
    return {"kind": "stepwise", "stages": given}


def test_no_stage_begins_before_the_one_before_it_is_verified() -> None:
    model = below_par("draft")
    outcome = model.play(stages())
    assert not [path for path in model.paths if path.startswith("stages/polish")]
    assert outcome.best.scored.draft.text == "- one\n- two"


def test_an_error_stays_in_its_stage() -> None:
    model = judged_by(good, ["- one\n- two", GONE])
    outcome = model.play(stages())
    assert outcome.best.scored.draft.text == "- one\n- two"
    assert outcome.missing == ("stages/draft", "stages/polish")


def test_with_an_error_in_a_stage_it_is_not_completed() -> None:
    outcome = judged_by(below("iterations/1/critique"), ["- one\n- two", GONE]).play(stages())
    assert (outcome.reason, outcome.missing) == (
        StopReason.INCOMPLETE,
        ("stages/draft", "stages/polish"),
    )


def test_a_stage_that_was_refused_from_outside_keeps_the_reason_of_the_refusal() -> None:
    outcome = judged_by(below("iterations/1/critique"), ["- one\n- two", Stopped()]).play(stages())
    assert outcome.best.scored.draft.text == "- one\n- two"
    assert (outcome.reason, outcome.missing) == (None, ("stages/draft", "stages/polish"))


def below(path: str) -> Callable[[str, str], float]:
    return lambda asked, _: 0.5 if asked == path else 0.9


def test_an_error_in_the_first_stage_is_told() -> None:
    with pytest.raises(StepError):
        judged_by(good, [GONE]).play(stages())


def test_sections_are_written_by_themselves_and_put_back_in_order() -> None:
    model = judged_by(good, ["- one\n- two", "First.", "Second."])
    outcome = model.play(stages(OUTLINE, {**DRAFT, "sections": True}))
    assert outcome.best.scored.draft.text == "First.\n\nSecond."
    assert [move.path for move in model.asked("generator")] == [
        "stages/outline/iterations/1/draft",
        "stages/draft/sections/1/draft",
        "stages/draft/sections/2/draft",
    ]
    assert "- two" in model.asked("generator")[2].prompt.user


def test_code_is_not_read_as_an_item() -> None:
    outline = "- one\n  - a\n- two\n\n```\n- no item\n```"
    model = judged_by(good, [outline, outline, *"abc"])
    asked = stages(OUTLINE, {**DRAFT, "sections": True})
    model.play(asked)
    told = [it.prompt_request.task.part[-1] for it in model.asked("generator")[2:]]
    assert [it.partition(": ")[2] for it in told] == [
        "- one\n  - a",
        "- two\n\n```\n- no item\n```",
    ]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([POLISH], "`draft` is required: the first stage revises it"),
        ([{**OUTLINE, "sections": True}], "not supported by the first stage"),
        ([OUTLINE, {**POLISH, "sections": True}], "requires the mode `write`"),
        ([OUTLINE, OUTLINE], "same name"),
    ],
)
def test_stages_that_cannot_be_played_are_refused(given: list[dict[str, object]], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        stages(*given)
