"""What a step is about: the same in every process and release, whatever the words of its prompt."""

from dataclasses import replace

import pytest

from app.contract.judgement import Criterion, CriterionScore, Critique, Finding
from app.contract.requests import ContextDocument
from app.contract.values import value
from workers.engine.asking import again, question
from workers.engine.moves import HASH_LENGTH, Ask, Call, Check, StepMove, about
from workers.engine.prompts import Judge, Prompt, PromptRequest, Revise, Task

TASK = Task(
    "Explain refunds.",
    None,
    (Criterion(name="quality"),),
    "482913",
    (ContextDocument(name="policy", text="Läuft 14 Tage."),),
)
FINDING = Finding(source="critic", kind="quality", message="Too long.", fix="Cut it.")
CRITIQUE = Critique(
    scores=(CriterionScore(criterion="quality", score=0.4, reason="so"),), findings=(FINDING,)
)
REVISE = Revise(TASK, "A draft.", ("quality: so (not met yet)",), CRITIQUE, ())
ASK = question("iterations/2/revise", "generator", REVISE)

PINNED: list[tuple[StepMove, str]] = [
    (ASK, "189b7bbd237fea87"),
    (question("iterations/1/critique", "critic", Judge(TASK, "A draft.")), "79c4fb055ddc8050"),
    (Check("iterations/1/check", "A draft."), "e6038ba13be6ea06"),
    (Call("steps/1/call", "search", {"q": "refund", "top": 3}), "b8142e358d811a9a"),
]


@pytest.mark.parametrize(("move", "expected"), PINNED)
def test_the_hash_is_the_same_in_every_process_and_release(move: StepMove, expected: str) -> None:
    assert about(move) == expected
    assert len(expected) == HASH_LENGTH


def revised(**fields: object) -> Ask:
    return replace(ASK, prompt_request=replace(REVISE, **fields))  # type: ignore[arg-type]


OTHER_WORDS = [
    replace(ASK, prompt=replace(ASK.prompt, user="Please.", system="Politely.", version=9)),
    replace(ASK, path="iterations/9/revise"),
    again(ASK, 1, "nonsense", "it is empty"),
    revised(failing=("quality: said otherwise",)),
    revised(mended=("tone: mended",)),
    revised(tried=("Attempt 1 wrote more.",)),
    revised(task=replace(TASK, engine_version=7, demanding=3)),
    revised(critique=CRITIQUE.model_copy(update={"of_a_later_release": 1})),
]


@pytest.mark.parametrize("move", OTHER_WORDS)
def test_other_words_do_not_change_what_a_step_is_about(move: Ask) -> None:
    assert about(move) == about(ASK)


OTHER_THINGS = [
    revised(draft="Another draft."),
    revised(findings=(FINDING,)),
    revised(critique=CRITIQUE.model_copy(update={"suggestions": ("cut",)})),
    revised(task=replace(TASK, instruction="Explain returns.")),
    revised(task=replace(TASK, draft="A client's draft.")),
    revised(task=replace(TASK, context=())),
    revised(task=replace(TASK, context=(ContextDocument(name="policy", text="Other."),))),
    revised(task=replace(TASK, criteria=(Criterion(name="tone"),))),
    replace(ASK, role="critic"),
    replace(ASK, member="lawyer"),
    replace(ASK, prompt=replace(ASK.prompt, name="amend")),
]


@pytest.mark.parametrize("move", OTHER_THINGS)
def test_another_draft_finding_or_role_is_another_thing(move: Ask) -> None:
    assert about(move) != about(ASK)


def test_arguments_are_compared_whatever_their_order() -> None:
    call = Call("steps/1/call", "search", {"a": 1, "b": [2]})
    assert about(call) == about(Call("steps/1/call", "search", {"b": [2], "a": 1}))
    assert about(call) != about(Call("steps/1/call", "search", {"a": 1, "b": [3]}))


@value(slots=True)
class Grown(Revise):
    """A request to revise as a later release has it: with an optional field more."""

    tone: str | None = None


def test_a_field_that_a_later_release_adds_counts_once_it_is_used() -> None:
    grown = Grown(TASK, "A draft.", REVISE.failing, CRITIQUE, ())
    assert about(replace(ASK, prompt_request=grown)) == about(ASK)
    assert about(replace(ASK, prompt_request=replace(grown, tone="warm"))) != about(ASK)


@value(slots=True)
class Undescribed(PromptRequest):
    """A request with data that has no canonical form."""

    thing: object

    def prompt(self) -> Prompt:
        return Prompt("thing", 1, "", "")


def test_data_without_a_canonical_form_is_an_error() -> None:
    with pytest.raises(TypeError, match="no dataclass"):
        about(question("thing", "generator", Undescribed(TASK, object())))
