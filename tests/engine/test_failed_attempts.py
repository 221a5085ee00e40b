"""After a failed attempt the next prompt is another one: it tells what was tried, and why not."""

from collections.abc import Iterator
from typing import Any

import pytest

from app.contract.requests import RefinementRequest
from tests.engine.engine_driver import EngineDriver, judged_by, request, verdict

NEVER = {"tolerance": 0, "max_similarity": 1}
"""The highest score is the best draft, and nothing ends it early."""
TRIED = "Tried before on this draft, and judged no better"


def attempts() -> Iterator[str]:
    yield "We refund you. Write to us."
    for number in range(1, 50):
        yield f"We refund you. Try number {number} of it."


def failing(*scores: float, **fields: Any) -> EngineDriver:
    """A first draft, and revisions of it that all score less."""
    names = ("clarity", "tone")
    critic = (
        verdict(0.5, score, names=names) if n else verdict(0.5, 0.6, names=names)
        for n, score in enumerate((0.6, *scores))
    )
    model = EngineDriver(critic, attempts())
    criteria = [{"name": it} for it in names]
    model.play(
        request(
            criteria=criteria, max_iterations=len(scores) + 1, stop=NEVER, threshold=0.9, **fields
        )
    )
    return model


def test_three_failing_revisions_are_asked_for_with_three_different_prompts() -> None:
    _, *revisions = failing(0.3, 0.3, 0.3).asked("generator")
    assert len({it.prompt.user for it in revisions}) == 3
    assert TRIED not in revisions[0].prompt.user


def test_a_prompt_tells_what_was_tried_and_what_became_worse() -> None:
    _, _, second, third = (it.prompt.user for it in failing(0.3, 0.2, 0.1).asked("generator"))
    first_try = 'Attempt 1 wrote "Try number 1 of it.". tone got worse: so'
    assert f"{TRIED}:\n- {first_try}\n" in second
    assert f"- {first_try}\n- Attempt 2 wrote" in third
    assert "We refund you. Try" not in third, "the whole text is not repeated"
    assert "clarity got worse" not in third


def test_the_latest_attempts_are_told_and_numbered() -> None:
    *_, last = failing(*[0.3] * 6).asked("generator")
    assert [n for n in range(1, 7) if f"Attempt {n} " in last.prompt.user] == [3, 4, 5]


def test_an_attempt_that_was_better_starts_a_new_line_without_attempts() -> None:
    critic = (verdict(it) for it in (0.4, 0.3, 0.6, 0.5, 0.5))
    model = EngineDriver(critic, attempts())
    model.play(request(max_iterations=5, stop=NEVER, threshold=0.9))
    told = [it.prompt.user.count("- Attempt ") for it in model.asked("generator")]
    assert told == [0, 0, 1, 0, 1]


def test_scores_are_not_told() -> None:
    for question in failing(0.31, 0.32, 0.33).asked("generator"):
        assert "0.3" not in question.prompt.user


@pytest.mark.parametrize("edits", ["delta", "full"])
def test_a_revision_by_edits_is_told_too(edits: str) -> None:
    edit = '{"edits": [{"search": "Hello", "replace": "%s"}]}'
    texts = iter(
        [edit % "Hi", edit % "Hey", edit % "Yo"] if edits == "delta" else ["Hi", "Hey", "Yo"]
    )
    model = EngineDriver((verdict(it) for it in (0.5, 0.3, 0.3, 0.3)), texts)
    model.play(request(draft="Hello there.", edits=edits, max_iterations=3, stop=NEVER))
    assert [it.prompt.user.count("- Attempt ") for it in model.asked("generator")] == [0, 1, 2]
    assert len({it.prompt.user for it in model.asked("generator")}) == 3


def test_samples_that_were_no_better_are_told_when_the_same_draft_is_revised_again() -> None:
    body = RefinementRequest.model_validate(
        {
            "draft": "We refund you.",
            "strategy": {"kind": "best_of_n", "n": 2, "refine": True},
            "max_iterations": 3,
            "stop": NEVER,
        }
    )
    model = judged_by(lambda path, _: 0.8 if "iterations/0" in path else 0.4, attempts())
    model.play(body)
    *samples, last = (it.prompt.user for it in model.asked("generator"))
    assert [TRIED in it for it in samples] == [False, False]
    assert last.count("- Attempt ") == 2


CHAIN = "1. One.\n2. Two."


def test_a_chain_that_is_redone_in_vain_is_told_too() -> None:
    body = RefinementRequest.model_validate(
        {
            "draft": CHAIN,
            "strategy": {"kind": "reasoning_revision"},
            "max_iterations": 2,
            "stop": NEVER,
        }
    )
    writer = ["1. Three.\n2. So.", "1. Four.\n2. So."]
    model = judged_by(lambda path, _: 0.5 if "iterations/0" in path else 0.4, writer)
    model.play(body)
    first, second = (it.prompt.user for it in model.asked("generator"))
    assert TRIED not in first
    assert "Attempt 1 wrote" in second
