"""Parts one after the other: from an outline, or until a criterion says that the text is whole."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from app.contract.calls import at_most
from app.contract.judgement import Finding
from app.contract.requests import RefinementRequest
from app.contract.status import StopReason
from tests.engine.engine_driver import EngineDriver, judged_by, request
from workers.engine.moves import Ask, Check, Judged, StepError, Stopped
from workers.engine.strategies.nested import LONG, Outline, Summarize

PARTS = [{"name": it, "instructions": f"What {it} says."} for it in ("one", "two", "three")]
GONE = StepError("model_unavailable", "gone")
ENDED = {"name": "ended", "description": "The story has come to an end."}
LONG_TEXT = "It begins here. " + "And so on. " * 200 + "It ends there."


def story(**fields: Any) -> RefinementRequest:
    plan = {"kind": "nested", "order": "sequence", "parts": PARTS, **fields}
    return request(strategy=plan, threshold=0.8)


def good(path: str, _: str) -> float:
    return 0.9


def told(model: EngineDriver, path: str) -> str:
    return next(it.prompt.user for it in model.moves if isinstance(it, Ask) and it.path == path)


def judged(model: EngineDriver) -> list[str]:
    return [move.path for move in model.moves if isinstance(move, Judged)]


def test_each_part_is_shown_those_before_it_its_place_and_the_titles_of_all() -> None:
    model = judged_by(good, ["Once.", "Then.", "At last."])
    outcome = model.play(story())
    assert outcome.best.scored.draft.text == "Once.\n\nThen.\n\nAt last."
    first, last = (told(model, f"parts/{it}/iterations/1/draft") for it in ("one", "three"))
    assert "Once." not in first
    assert "Once.\n\nThen." in last
    assert "part 3 of 3" in last
    assert "1. one: What one says." in last
    assert "Once.\n\nThen." in told(model, "parts/three/iterations/1/critique")


def test_a_part_is_shown_those_before_it_as_they_were_refined() -> None:
    model = judged_by(
        lambda path, _: 0.4 if path == "parts/one/iterations/1/critique" else 0.9,
        ["Rough.", "Fine.", "Then.", "At last."],
    )
    model.play(story())
    shown = told(model, "parts/two/iterations/1/draft")
    assert "Fine." in shown
    assert "Rough." not in shown


def test_a_long_part_is_summed_up_once_and_its_end_is_shown_to_the_next_one() -> None:
    assert len(LONG_TEXT) > LONG
    model = judged_by(good, [LONG_TEXT, "All began and ended.", "Then.", "At last."])
    model.play(story())
    summaries = [
        it.path for it in model.asked("generator") if isinstance(it.prompt_request, Summarize)
    ]
    assert summaries == ["parts/one/summary"]
    second, third = (told(model, f"parts/{it}/iterations/1/draft") for it in ("two", "three"))
    assert "All began and ended." in second
    assert "It ends there." in second
    assert "It begins here." not in second
    assert "All began and ended." in third
    assert "It ends there." not in third


def test_without_a_summary_the_beginning_is_shown_and_the_result_says_so() -> None:
    model = judged_by(good, [LONG_TEXT, GONE, "Then.", "At last."])
    outcome = model.play(story())
    assert "It begins here." in told(model, "parts/two/iterations/1/draft")
    assert [(it.code, it.path) for it in outcome.caveats] == [("item_dropped", "parts/one")]
    assert outcome.passed


def test_a_part_that_fails_is_missing_and_those_after_it_are_written() -> None:
    outcome = judged_by(good, ["Once.", GONE, "At last."]).play(story())
    assert outcome.best.scored.draft.text == "Once.\n\nAt last."
    assert (outcome.missing, outcome.passed) == (("parts/two",), False)
    assert outcome.reason is StopReason.INCOMPLETE


def test_a_stop_keeps_the_parts_that_are_finished() -> None:
    outcome = judged_by(good, ["Once.", Stopped(), Stopped()]).play(story())
    assert outcome.best.scored.draft.text == "Once."
    assert (outcome.missing, outcome.reason) == (("parts/two", "parts/three"), None)


def test_without_any_part_the_failure_is_told() -> None:
    with pytest.raises(StepError):
        judged_by(good, [GONE, GONE, GONE]).play(story())


def test_sections_of_a_draft_know_those_before_them_as_they_are_now() -> None:
    model = judged_by(lambda path, _: 0.4 if "/0/" in path else 0.9, ["# A\n\nnew", "# B\n\nnew"])
    plan = {"kind": "nested", "order": "sequence"}
    model.play(request(draft="# A\n\nold\n\n# B\n\nold", strategy=plan, threshold=0.8))
    shown = told(model, "parts/section-2/iterations/1/revise")
    assert "# A\n\nnew" in shown
    assert "# A\n\nold" not in shown


@pytest.mark.parametrize("order", ["together", "sequence"])
def test_a_model_lists_the_parts_and_each_is_told_what_it_says(order: str) -> None:
    model = judged_by(good, ["1. Dawn: it begins.\n2. Dusk: it ends.", "Light.", "Dark."])
    outcome = model.play(story(parts="auto", max_parts=5, order=order))
    assert model.paths[0] == "outline"
    assert "at most 5" in told(model, "outline")
    assert judged(model) == [
        "parts/part-1/iterations/1",
        "parts/part-2/iterations/1",
        "iterations/1",
    ]
    assert outcome.best.scored.draft.text == "Light.\n\nDark."
    second = told(model, "parts/part-2/iterations/1/draft")
    assert "1. Dawn\n2. Dusk" in second
    assert "the whole text: Dusk: it ends." in second
    assert ("Light." in second) is (order == "sequence")


def test_an_outline_with_too_many_parts_is_asked_for_again() -> None:
    model = judged_by(good, ["- a\n- b\n- c", "- a\n- b", "A.", "B."])
    outcome = model.play(story(parts="auto", max_parts=2))
    assert model.paths[:2] == ["outline", "outline/again/1"]
    assert "it has 3 parts; at most 2 are allowed" in told(model, "outline/again/1")
    assert outcome.best.scored.draft.text == "A.\n\nB."


def test_the_outline_of_the_request_is_taken_as_it_is() -> None:
    model = judged_by(good, ["A.", "B."])
    model.play(story(parts="auto", outline="# One\n\nIt begins.\n\n# Two\n\nIt ends."))
    assert not [it for it in model.asked("generator") if isinstance(it.prompt_request, Outline)]
    assert "# Two\n\nIt ends." in told(model, "parts/part-2/iterations/1/draft")


def open_ended(ends_after: int) -> EngineDriver:
    """The text is whole after so many parts."""

    def score(path: str, name: str) -> float:
        return 0.9 if name != "ended" or path == f"whole/{ends_after}/critique" else 0.5

    return judged_by(score, texts())


def texts() -> Iterator[str]:
    yield from (f"Chapter {number}." for number in range(1, 30))


def test_parts_are_written_until_a_criterion_says_that_the_text_is_whole() -> None:
    model = open_ended(ends_after=3)
    outcome = model.play(story(parts="auto", until=ENDED))
    assert outcome.best.scored.draft.text == "Chapter 1.\n\nChapter 2.\n\nChapter 3."
    assert [it for it in model.paths if it.startswith("whole")] == [
        f"whole/{number}/critique" for number in (1, 2, 3)
    ]
    assert "Chapter 1.\n\nChapter 2." in told(model, "whole/2/critique")
    shown = told(model, "parts/part-3/iterations/1/draft")
    assert "The story has come to an end." in shown
    assert "Chapter 1.\n\nChapter 2." in shown
    assert outcome.passed


def test_the_floor_of_the_criterion_says_when_it_is_met() -> None:
    model = open_ended(ends_after=9)
    model.play(story(parts="auto", until={**ENDED, "floor": 0.4}))
    assert judged(model) == ["parts/part-1/iterations/1", "iterations/1"]


def test_with_as_many_parts_as_there_may_be_a_text_that_is_not_whole_does_not_pass() -> None:
    outcome = open_ended(ends_after=9).play(story(parts="auto", until=ENDED, max_parts=2))
    assert outcome.best.scored.draft.text == "Chapter 1.\n\nChapter 2."
    assert not outcome.passed
    assert [(it.code, it.path) for it in outcome.caveats] == [("goal_not_met", "parts")]


LONG_ENOUGH: dict[str, Any] = {"validators": [{"kind": "length", "min_words": 6}]}


def has_six_words(text: str) -> tuple[Finding, ...]:
    """Say what `LONG_ENOUGH` says of a text."""
    short = Finding(source="validators/until/0", kind="length", message="6 words are missing")
    return () if len(text.split()) >= 6 else (short,)


@pytest.mark.parametrize(
    ("until", "parts"),
    [({"min_parts": 2}, 2), (LONG_ENOUGH, 3), ({"min_parts": 4, **LONG_ENOUGH}, 4)],
)
def test_parts_are_written_until_there_are_enough_of_them_or_of_words_and_no_critic_is_asked(
    until: dict[str, Any], parts: int
) -> None:
    model = judged_by(good, texts())
    model.check = has_six_words
    outcome = model.play(story(parts="auto", until=until))
    assert outcome.best.scored.draft.text.count("Chapter") == parts
    assert outcome.passed
    assert not [it for it in model.asked("critic") if it.path.startswith("whole")]
    checks = [it for it in model.moves if isinstance(it, Check)]
    assert all((it.scopes, it.corrects) == (("until",), False) for it in checks)


def test_a_critic_is_asked_whether_it_is_whole_once_the_checks_pass() -> None:
    model = open_ended(ends_after=4)
    model.check = has_six_words
    outcome = model.play(story(parts="auto", until={"criterion": ENDED, **LONG_ENOUGH}))
    assert outcome.best.scored.draft.text.count("Chapter") == 4
    assert [it.path for it in model.asked("critic") if it.path.startswith("whole")] == [
        "whole/3/critique", "whole/4/critique",
    ]  # fmt: skip
    shown = told(model, "parts/part-1/iterations/1/draft")
    assert "has at least 6 words, and meets ended: The story has come to an end." in shown


def test_a_text_that_never_has_enough_words_says_so() -> None:
    model = judged_by(good, texts())
    model.check = has_six_words
    outcome = model.play(story(parts="auto", until=LONG_ENOUGH, max_parts=2))
    (caveat,) = outcome.caveats
    assert (caveat.code, caveat.detail) == (
        "goal_not_met",
        "with 2 parts, as many as there may be, it is not a text that has at least 6 words",
    )


def test_without_a_critic_the_end_of_the_parts_costs_no_call() -> None:
    kind = {"kind": "nested", "parts": "auto", "order": "sequence"}
    by_words, by_critic = (
        at_most(request(strategy={**kind, "until": it})) for it in (LONG_ENOUGH, ENDED)
    )
    assert by_critic - by_words == 3 * 10  # an opinion, asked for up to three times, of each part


def test_no_part_is_written_after_one_that_failed_where_their_number_is_open() -> None:
    model = judged_by(lambda _, name: 0.5 if name == "ended" else 0.9, ["Once.", GONE, "More."])
    outcome = model.play(story(parts="auto", until=ENDED))
    assert outcome.best.scored.draft.text == "Once."
    assert outcome.missing == ("parts/part-2",)


def test_a_stop_while_the_critic_is_asked_whether_it_is_whole_keeps_what_is_written() -> None:
    model = judged_by(good, ["Once.", Stopped()])
    answer = model.critic
    model.critic = iter(lambda: Stopped() if model.paths[-1][:5] == "whole" else next(answer), 0)
    outcome = model.play(story(parts="auto", until=ENDED))
    assert (outcome.best.scored.draft.text, outcome.reason) == ("Once.", None)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"outline": "- a"}, "require"),
        ({"until": ENDED}, "require"),
        ({"parts": "auto", "until": ENDED, "outline": "- a"}, "exclude each other"),
        ({"parts": "auto", "until": ENDED, "order": "together"}, "`until` requires"),
        ({"parts": "auto", "until": {"validators": []}}, "`criterion` is required"),
        ({"parts": "auto", "until": {"min_parts": 11}}, "`max_parts` allows 10"),
        ({"parts": "auto", "outline": "- a\n- b", "max_parts": 1}, "the outline has 2 parts"),
        ({"parts": "auto", "max_parts": 31}, "less than or equal to 30"),
    ],
)
def test_what_cannot_be_put_in_order_is_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        story(**fields)


def test_an_outline_is_not_for_a_text_that_is_given() -> None:
    with pytest.raises(ValidationError, match="either a `draft`"):
        request(draft="Given.", strategy={"kind": "nested", "parts": "auto"})
