"""Passes in their order, each with its mind on one thing."""

from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from app.contract.requests import RefinementRequest
from app.contract.status import StopReason
from tests.engine.engine_driver import EngineDriver, Refusal, judged_by, request
from workers.engine.moves import Ask, Judged, StepError, Stopped

GONE = StepError("model_unavailable", "gone")
TWO = [{"focus": "structure"}, {"focus": "style"}]


def passes(*given: dict[str, object], **fields: object) -> RefinementRequest:
    strategy = {"kind": "multi_pass", "passes": list(given) or TWO}
    return request(**{"strategy": strategy, **fields})


def rising(path: str, _: str) -> float:
    """Every first version is middling, every revision good; the whole is fair."""
    if path.startswith("iterations"):
        return 0.6 if "/1/" in path else 0.5
    return 0.9 if "iterations/1" in path else 0.4


def judged(model: EngineDriver) -> list[str]:
    return [move.path for move in model.moves if isinstance(move, Judged)]


def critics_of(model: EngineDriver) -> dict[str, list[str]]:
    """The names of the criteria by the path of the critique."""
    asked = model.asked("critic")
    return {
        it.path: [criterion.name for criterion in it.prompt_request.task.criteria] for it in asked
    }


def test_passes_go_in_their_order_and_the_result_is_judged_as_a_whole() -> None:
    model = judged_by(rising, ["in order", "in style"])
    outcome = model.play(passes(draft="rough"))
    assert judged(model) == [
        "iterations/0",
        "passes/structure/iterations/0",
        "passes/structure/iterations/1",
        "passes/style/iterations/0",
        "passes/style/iterations/1",
        "iterations/1",
    ]
    assert outcome.best.scored.draft.text == "in style"
    assert (outcome.best.path, outcome.best.scored.score) == ("iterations/1", 0.6)
    assert (outcome.reason, outcome.passed) == (StopReason.COMPLETED, False)


def test_each_pass_starts_from_what_the_one_before_came_to() -> None:
    model = judged_by(rising, ["in order", "in style"])
    model.play(passes(draft="rough"))
    second = model.asked("generator")[1].prompt.user
    assert "in order" in second
    assert "attend to style" in second


def test_a_later_pass_is_judged_on_what_an_earlier_one_met() -> None:
    model = judged_by(rising, ["in order", "in style"])
    model.play(passes(draft="rough"))
    critics = critics_of(model)
    assert critics["passes/structure/iterations/1/critique"] == ["structure"]
    assert critics["passes/style/iterations/1/critique"] == ["structure", "style"]
    assert critics["iterations/1/critique"] == ["quality"]


def test_a_later_pass_may_not_undo_what_an_earlier_one_met() -> None:
    def score(path: str, name: str) -> float:
        is_revision = path.startswith("passes/style/iterations/1")
        if name == "structure":
            return 0.8 if is_revision else 0.9
        return 1.0 if is_revision else 0.4

    model = judged_by(score, ["in style, out of order"])
    outcome = model.play(passes(draft="rough"))
    assert outcome.best.scored.draft.text == "rough"


def test_what_an_earlier_pass_did_not_meet_is_not_asked_of_a_later_one() -> None:
    model = judged_by(lambda path, name: 0.4, ["in order", "in style"])
    model.play(passes(draft="rough"))
    assert critics_of(model)["passes/style/iterations/0/critique"] == ["style"]


def test_a_pass_that_finds_nothing_to_do_asks_no_writer() -> None:
    model = judged_by(lambda path, name: 0.5 if path.startswith("iterations") else 0.9, [])
    outcome = model.play(passes(draft="rough"))
    assert (outcome.best.iteration, outcome.reason) == (0, StopReason.COMPLETED)


def test_without_a_draft_the_first_pass_writes_one() -> None:
    model = judged_by(rising, ["first", "second"])
    model.play(passes({"focus": "content"}, {"focus": "style"}))
    assert model.paths[0] == "passes/content/iterations/1/draft"


def test_a_good_draft_of_the_clients_is_left_alone() -> None:
    outcome = judged_by(lambda path, name: 0.9, []).play(passes(draft="good"))
    assert (outcome.reason, outcome.best.iteration) == (StopReason.THRESHOLD_MET, 0)


@pytest.mark.parametrize(
    ("draft", "path"), [("rough", "iterations/0"), (None, "passes/structure/iterations/1")]
)
def test_stopped_in_a_pass_it_returns_what_was_judged_as_a_whole_or_else_the_pass_before(
    draft: str | None, path: str
) -> None:
    model = stopping_at("passes/style/iterations/0/critique")
    outcome = model.play(passes(draft=draft))
    assert outcome.best.path == path
    assert (outcome.reason, outcome.passed) == (None, False)


def stopping_at(path: str) -> EngineDriver:
    """Models that are refused from a step on."""
    model = judged_by(rising, ["in order", "in style"])
    answer = model.critic

    def critic() -> Iterator[str | Refusal]:
        while True:
            asked = [it.path for it in model.moves if isinstance(it, Ask)]
            yield Stopped() if path in asked else next(answer)

    model.critic = critic()
    return model


def test_a_pass_that_fails_is_left_out_and_named() -> None:
    model = judged_by(rising, [GONE, "in style"])
    outcome = model.play(passes(draft="rough", threshold=0.99))
    assert outcome.best.scored.draft.text == "in style"
    assert (outcome.reason, outcome.missing) == (StopReason.INCOMPLETE, ("passes/structure",))


def test_a_last_pass_that_fails_leaves_what_the_one_before_came_to() -> None:
    model = judged_by(rising, ["in order", GONE])
    outcome = model.play(passes(draft="rough", threshold=0.99))
    assert outcome.best.scored.draft.text == "in order"
    assert outcome.missing == ("passes/style",)


def test_when_every_pass_fails_the_first_failure_is_told() -> None:
    later = StepError("model_refused", "no")
    with pytest.raises(StepError) as failed:
        judged_by(rising, [GONE, later]).play(passes(draft="rough"))
    assert failed.value.code == "model_unavailable"


def test_a_pass_cut_short_keeps_the_reason_of_the_stop() -> None:
    model = judged_by(rising, [Stopped(), "in style"])
    outcome = model.play(passes(draft="rough"))
    assert (outcome.best.scored.draft.text, outcome.reason) == ("in style", None)


def test_validators_have_their_say_in_the_last_pass_and_over_the_whole() -> None:
    model = judged_by(rising, ["in order", "in style"])
    model.play(passes(draft="rough", validators=[{"kind": "length", "max_words": 9}]))
    assert [path for path in model.paths if path.endswith("check")] == [
        "iterations/0/check",
        "passes/style/iterations/0/check",
        "passes/style/iterations/1/check",
        "iterations/1/check",
    ]


def test_two_passes_with_the_same_focus_or_criterion_are_refused() -> None:
    with pytest.raises(ValidationError, match="same name"):
        passes({"focus": "style"}, {"focus": "style"})
    with pytest.raises(ValidationError, match="same name"):
        passes({"focus": "style"}, {"focus": "facts", "criteria": [{"name": "style"}]})
