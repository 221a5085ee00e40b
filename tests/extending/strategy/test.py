"""The strategy `brainstorm`, against a scripted model."""

from tests.engine.engine_driver import driver_scoring, request

STRATEGY = {"kind": "brainstorm", "ideas": 2}


def test_the_draft_is_written_from_the_ideas() -> None:
    model = driver_scoring(0.9, writer=["Music. Food.", "There is music, and food."])
    outcome = model.play(request(strategy=STRATEGY))
    assert model.paths[:3] == ["ideas", "iterations/1/draft", "iterations/1/critique"]
    assert outcome.best.scored.draft.text == "There is music, and food."
    ideas, write = model.asked("generator")
    assert "List 2 ideas." in ideas.prompt.user
    assert "Music. Food." in write.prompt.user


def test_a_draft_that_passes_needs_no_ideas() -> None:
    model = driver_scoring(0.9)
    outcome = model.play(request(draft="Come along.", strategy=STRATEGY))
    assert outcome.passed
    assert "ideas" not in model.paths
