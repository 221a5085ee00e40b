"""The criteria that a critic lists before anything is judged."""

import json
from typing import Any

import pytest

from app.contract.budget import first_judgement, to_judge
from app.contract.judgement import Criterion
from app.contract.models import ModelChoice
from app.contract.requests import RefinementRequest
from tests.engine.engine_driver import EngineDriver, Refusal, drafts, request, verdict
from tests.engine.scripted_replies import replied
from workers.engine.moves import StepError, Stopped
from workers.engine.pipeline import criteria_in
from workers.engine.prompts import Judge
from workers.engine.replies.reader import Unreadable

NAMES = ("deadline", "card", "tone")
LISTED = [{"name": name, "description": f"Is the {name} right?"} for name in NAMES]
CRITERIA = tuple(Criterion.model_validate(it) for it in LISTED)


def checklist(*listed: dict[str, Any]) -> str:
    return json.dumps({"criteria": listed})


def play(*said: str | Refusal, **fields: Any) -> tuple[EngineDriver, Any]:
    """Play with a critic that says this, and then that everything is good."""

    def critic() -> Any:
        yield from said
        while True:
            yield verdict(0.9, 0.9, 0.9, names=NAMES)

    model = EngineDriver(critic(), drafts())
    return model, model.play(request(criteria="auto", **fields))


def test_the_criteria_are_listed_once_before_the_strategy_and_judged_on() -> None:
    model, outcome = play(checklist(*LISTED), verdict(0.2, 0.4, 0.6, names=NAMES))
    assert model.paths == [
        "criteria",
        "iterations/1/draft",
        "iterations/1/critique",
        "iterations/1",
        "iterations/2/revise",
        "iterations/2/critique",
        "iterations/2",
    ]
    assert [it.criterion for it in outcome.best.scored.scores] == list(NAMES)
    judging = [
        ask.prompt_request for ask in model.asked("critic") if isinstance(ask.prompt_request, Judge)
    ]
    assert {it.task.criteria for it in judging} == {CRITERIA}
    assert all("Is the card right?" in ask.prompt.user for ask in model.asked("generator"))


def test_they_are_listed_from_task_and_context_and_not_from_the_draft() -> None:
    context = [{"name": "policy.md", "text": "Within 14 days."}]
    model, _ = play(checklist(*LISTED), draft="We refund.", context=context)
    prompt = model.asked("critic")[0].prompt
    assert "Explain refunds." in prompt.user
    assert "Within 14 days." in prompt.user
    assert "We refund." not in prompt.user
    assert "Criterion" not in prompt.user


def test_without_a_task_they_are_listed_from_the_draft() -> None:
    model, _ = play(checklist(*LISTED), task=None, draft="We refund.")
    assert "We refund." in model.asked("critic")[0].prompt.user


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("clear, correct, short", "no JSON object"),
        (checklist(*LISTED[:2]), "at least 3"),
        (checklist(*(it | {"name": f"{n}"} for n in range(9) for it in LISTED[:1])), "at most 8"),
        (checklist(*LISTED[:2], LISTED[0] | {"name": " Deadline "}), "a unique name"),
        (checklist(*LISTED[:2], LISTED[0] | {"name": "  "}), "a unique name"),
        (checklist(*LISTED[:2], {"name": "short"}), "description"),
        (
            checklist(*LISTED[:2], {"name": "short", "description": "It is short."}),
            "not a question",
        ),
        (checklist(*LISTED[:2], {"name": "a" * 61, "description": "Is it?"}), "at most 60"),
        (checklist(*LISTED[:2], {"name": "long", "description": "i" * 200 + "?"}), "at most 200"),
    ],
)
def test_what_is_no_checklist_is_said_and_asked_for_again(reply: str, words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        criteria_in(replied(reply))
    model, outcome = play(reply, checklist(*LISTED))
    assert model.paths[:2] == ["criteria", "criteria/again/1"]
    assert words in model.asked("critic")[1].prompt.user
    assert outcome.passed


def test_a_question_may_end_as_other_scripts_end_it() -> None:
    listed = [{"name": str(n), "description": f"nani {mark}"} for n, mark in enumerate("?\uff1f؟")]
    assert len(criteria_in(replied(checklist(*listed)))) == 3


def test_without_a_checklist_nothing_is_judged() -> None:
    with pytest.raises(StepError) as failed:
        play("no", "no", "no")
    assert failed.value.code == "unreadable_criteria"
    with pytest.raises(Stopped):
        play(Stopped())


def test_parts_with_criteria_of_their_own_keep_them() -> None:
    stages = [{"name": "outline", "criteria": [{"name": "complete"}]}, {"name": "text"}]
    said = [checklist(*LISTED), verdict(0.9, names=["complete"])]
    model, _ = play(*said, strategy={"kind": "stepwise", "stages": stages})
    judged = {
        ask.path: [it.name for it in ask.prompt_request.task.criteria]
        for ask in model.asked("critic")[1:]
    }
    assert judged == {
        "stages/outline/iterations/1/critique": ["complete"],
        "stages/text/iterations/1/critique": list(NAMES),
        "iterations/1/critique": list(NAMES),
    }


def test_the_budget_reckons_with_the_checklist_and_with_what_it_may_hold() -> None:
    choice = ModelChoice(model="openai:gpt-5-mini", max_output_tokens=100)
    models = {"generator": choice, "critic": choice}
    given, auto = (request(criteria=it) for it in ((), "auto"))
    listing, *rest = first_judgement(auto, models)
    assert (len(rest), listing.output_tokens) == (2, 100)
    (plain,), (listed,) = to_judge(given, models), to_judge(auto, models)
    longest = [Criterion(name=f"{n}" * 60, description="\U00020000" * 199 + "?") for n in range(8)]
    (needed,) = to_judge(given.model_copy(update={"criteria": tuple(longest)}), models)
    assert plain.input_tokens < needed.input_tokens <= listed.input_tokens


def test_only_the_word_auto_stands_in_the_place_of_criteria() -> None:
    with pytest.raises(ValueError, match="auto"):
        RefinementRequest.model_validate({"task": "Write.", "criteria": "automatic"})
